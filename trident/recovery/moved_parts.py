"""The refusal of a start in which a part of a source, such as a topic, moved from one stream to another.

Each stream has its position. So the other stream would read the part again from its beginning, and the states that both
streams feed would count its tuples twice.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from trident.base.errors import CodeChangedError
from trident.log.protocol import StreamRecord
from trident.plan.nodes import SpoutSource
from trident_spouts.source_parts import ReadsParts

_SHOWN = 3


def check_moved_parts(
    spout: SpoutSource,
    source: str,
    own: StreamRecord | None,
    streams: Mapping[str, StreamRecord],
    program: Mapping[str, SpoutSource],
    feeds: Collection[str],
) -> None:
    """Raise CodeChangedError if `spout` begins to read a part that another stream read for one of the states `feeds`.

    `source` is the kind of the spout, `own` the record of its stream, None if it begins now. `streams` are all records
    of the log, `program` the spouts of this program by stream. A stream that still reads the part does not count: then
    the program reads the part twice on purpose.
    """
    reader = spout.spout
    begins = own is None or own.position is None
    if not isinstance(reader, ReadsParts) or (begins and spout.anew):
        return
    known = set() if own is None else {*reader.parts_read(own.position)}
    for name, record in streams.items():
        shared = sorted({*record.feeds, *record.parted}.intersection(feeds))
        if record is own or record.source != source or not shared:
            continue
        now = program[name].spout if name in program else None
        moved = [part for part in _left(reader, record, now) if part not in known and reader.reads_part(part)]
        if moved:
            raise _moved(spout, own, name, moved, shared)


def _left(reader: ReadsParts, record: StreamRecord, now: object) -> Iterator[str]:
    """Yield the parts that the stream of a record has read, but that its spout in this program does not read."""
    for part in sorted(reader.parts_read(record.position)):
        if not (isinstance(now, ReadsParts) and now.reads_part(part)):
            yield part


def _moved(
    spout: SpoutSource, own: StreamRecord | None, former: str, moved: Sequence[str], shared: Sequence[str]
) -> CodeChangedError:
    parts = ", ".join(map(repr, moved[:_SHOWN])) + (f" and {len(moved) - _SHOWN} more" if moved[_SHOWN:] else "")
    them, states = "them" if moved[1:] else "it", ", ".join(map(repr, shared))
    again = f"newStream({spout.stream!r}, ..., anew=True)"
    if own is not None:
        again = f"a stream of a new name that reads only {them}, newStream(..., anew=True)"
    return CodeChangedError(
        f"{spout.step} ({spout.site.location}): the stream {spout.stream!r} would read {parts} from the beginning, but "
        f"the stream {former!r}, which does not read {them} any more, has read {them} for {states}: the tuples would "
        f"count twice there. Let {former!r} read {them} as before, so that it continues there. If the tuples are to "
        f"count again, write {again}. Nothing was written"
    )
