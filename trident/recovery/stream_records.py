"""The log's record of each stream of a program: its earlier name, its position, and the states that it feeds.

A stream continues at its position in the log, even if it is in another group now. Three changes are refused before
anything is written. A renamed stream would be read again from its start. Another source under a known name could not
use the position. And if a stream feeds a state again after batches in which it did not, the state would lack the tuples
in between.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

from trident.base.errors import CodeChangedError, TopologyError
from trident.compiler.program import Group, Program
from trident.configuration.settings import Settings
from trident.log.protocol import Birth, Members, StreamRecord
from trident.plan.nodes import LettersOf, Sink, SpoutSource, walk
from trident.plan.watermark_names import dropped_by
from trident.recovery.moved_parts import check_moved_parts
from trident.spouts.dead_letters import ReplaySpout
from trident_spouts.executor import Metadata


def continued_streams(program: Program, known: Members, settings: Settings) -> dict[str, str]:
    """Return the former name of each stream that continues a stream of the log under a new name.

    Raises CodeChangedError or TopologyError if it is not clear which stream continues which.
    """
    continued = _continued(program, known, settings)
    _check_renames(program, known, continued, settings)
    return continued


def stream_records(
    groups: Sequence[Group],
    known: Members,
    births: Mapping[str, Birth],
    reached: Mapping[str, int],
    continued: Mapping[str, str],
    settings: Settings,
) -> tuple[dict[str, StreamRecord], tuple[str, ...]]:
    """Return the records of all streams for the log, and warnings. `reached` is the last frozen txid of each log group.

    Raises CodeChangedError if a stream cannot continue.
    """
    own = {spout.stream: spout for group in groups for spout in group.spouts}
    absent = {name: stream for name, stream in known.streams.items() if name not in own}
    streams = {  # first as if the program lacked all streams; the streams that it has get a new record below
        name: replace(stream, active=False, feeds=(), parted=_left_states(stream, (), births))
        for name, stream in known.streams.items()
    }
    warnings = list[str]()
    for group in groups:
        fed = _fed_states(group)
        for spout in group.spouts:
            feeds, former = fed[spout.stream], continued.get(spout.stream)
            last = known.streams.get(former or spout.stream)
            record = _record(spout, last, group, feeds, births, settings)
            check_moved_parts(spout, record.source, last, known.streams, own, births.keys() & set(feeds))
            if former is not None:
                record = replace(record, former=(*record.former, former))
                del streams[former]
            streams[spout.stream] = record
            old = [state for state in feeds if state in births and reached[group.name] > births[state].txid]
            others = {name: stream for name, stream in absent.items() if name != former}
            warnings += _warnings(spout, last, streams[spout.stream], former, old, others)
            warnings += _changes(spout, streams[spout.stream])
    return streams, tuple(warnings)


# --- renamed streams ----------------------------------------------------------------------------------------------


def _continued(program: Program, known: Members, settings: Settings) -> dict[str, str]:
    """Return the former name of each stream that has `formerly` and continues the stream of that name.

    Once the log has a position under the stream's own name, `formerly` has no effect. So it may stay in the code,
    even after another stream has taken the former name.
    """
    former = dict[str, str]()
    spouts = [spout for group in program.groups for spout in group.spouts]
    for spout in spouts:
        if spout.formerly in {other.stream for other in spouts}:
            raise TopologyError(
                f"{spout.step} ({spout.site.location}): formerly={spout.formerly!r} is also a stream of this topology. "
                f"If it has had that name since an earlier start, remove formerly=: it is no longer needed. If another "
                f"stream takes over that name now, make two starts: first rename the stream to {spout.stream!r}, and "
                f"only in the next start give {spout.formerly!r} to the other one. If two streams swap names, "
                f"rename one of them to a third name first"
            )
        old = known.streams.get(spout.formerly or "")
        if spout.formerly is None or old is None:
            continue
        own = known.streams.get(spout.stream)
        if own is None or (own.position is None and not old.active):
            former[spout.stream] = spout.formerly
        elif not own.active and own.position != old.position:
            raise _two_beginnings(spout, known, settings)
    _check_no_twins(former)
    return former


def _two_beginnings(spout: SpoutSource, known: Members, settings: Settings) -> CodeChangedError:
    """Return the error for a stream that has a position both under its former and under its present name."""
    free = next(name for n in count(2) if (name := f"{spout.stream}{n}") not in known.streams)
    return CodeChangedError(
        f"{spout.step} ({spout.site.location}): formerly={spout.formerly!r}, but the log {settings.log_at} has the "
        f"position of {spout.formerly!r} and of an earlier stream {spout.stream!r}. To continue from "
        f"{spout.formerly!r}, use a name that is not in the log, such as "
        f"newStream({free!r}, ..., formerly={spout.formerly!r}); "
        f"to continue from {spout.stream!r}, remove formerly=. Nothing was written"
    )


def _check_no_twins(former: Mapping[str, str]) -> None:
    """Raise TopologyError if two streams continue the same earlier stream."""
    for name, old_name in former.items():
        twin = next((other for other in former if other != name and former[other] == old_name), None)
        if twin is not None:
            raise TopologyError(
                f"the streams {name!r} and {twin!r} both have formerly={old_name!r}, but only one of them can "
                f"continue there: remove it from the other"
            )


def _way_to_rename(spout: SpoutSource, group: Group, gone: Sequence[str], known: Members) -> str:
    """Return the code with which a stream continues a missing stream: the likeliest stream, then the others."""
    likely = sorted(gone, key=lambda name: (*_likeness(known, name, spout, group), name))
    others = f" (or {' or '.join(map(repr, likely[1:]))}, whichever it was)" if likely[1:] else ""
    return f"newStream({spout.stream!r}, ..., formerly={likely[0]!r}){others}"


def _check_renames(program: Program, known: Members, former: Mapping[str, str], settings: Settings) -> None:
    """Raise CodeChangedError if streams disappear while others appear and the program does not say which were renamed.

    If a renaming went unnoticed, a source would be read again from its start, and its tuples would count twice. A
    stream counts as gone if the last program had it. A stream that was left out earlier counts as gone only if a new
    stream has one of its former names, because then a renaming may have been undone.
    """
    groups = {spout.stream: group for group in program.groups for spout in group.spouts}
    spouts = [spout for group in program.groups for spout in group.spouts]
    accounted = {*groups, *former.values()}
    new = [s for s in spouts if s.stream not in known.streams and s.stream not in former and not s.anew]
    appeared = {spout.stream for spout in new}
    left = {name: stream for name, stream in known.streams.items() if name not in accounted}
    gone = sorted(n for n, stream in left.items() if _may_be_renamed(stream) or appeared.intersection(stream.former))
    if not gone or not new:
        return
    ways = [_way_to_rename(spout, groups[spout.stream], gone, known) for spout in new]
    raise CodeChangedError(
        f"the log {settings.log_at} has the positions of the streams {listed(gone)}, which this topology lacks; "
        f"instead it has {listed([spout.stream for spout in new])}, which are not in the log. If a stream was only "
        f"renamed, give its former name, so that it continues there: {'; '.join(ways)}. With a wrong former name it "
        f"continues at a wrong position. If a stream is new, write newStream({new[0].stream!r}, ..., anew=True), so "
        f"that it starts at the beginning of its source. If this is another program, start it under another name "
        f"(name=, now {settings.name!r}) or in another folder (checkpointLocation=). Nothing was written"
    )


def _likeness(known: Members, name: str, spout: SpoutSource, group: Group) -> tuple[int, int, int, int]:
    """Return a sort key by which the likeliest earlier name of a stream comes first.

    A stream that had this name before comes first. Otherwise the key compares the states that both
    streams feed, the outputs of their groups, and the kinds of their sources.
    """
    old = known.streams[name]
    feeds = {*old.feeds, *old.parted}.intersection(_fed_states(group)[spout.stream])
    outputs = [output for output in sinks_of(group) if known.outputs.get(output) == old.group]
    return int(spout.stream not in old.former), -len(feeds), -len(outputs), int(old.source != source_of(spout))


def _may_be_renamed(stream: StreamRecord) -> bool:
    """Return whether a stream that the program lacks may now have another name.

    A stream of replayed dead letters cannot, because its name follows from the name of the stream to which they return.
    """
    return stream.active and stream.source != ReplaySpout.__qualname__


def _record(
    spout: SpoutSource,
    last: StreamRecord | None,
    group: Group,
    feeds: tuple[str, ...],
    births: Mapping[str, Birth],
    settings: Settings,
) -> StreamRecord:
    """Return the record of a stream for the log. It keeps the last position if a source of the same kind continues.

    The log accepts a kind of source only after a batch of it was frozen. So a mistaken start with another kind, which
    cannot continue from the position, does not replace the position of the right kind.
    """
    source = source_of(spout)
    if last is None:
        return StreamRecord(group.name, None, source, feeds=feeds)
    used = last.position != last.began
    if spout.anew and not (used and last.source == source):
        return StreamRecord(group.name, None, source, feeds=feeds)
    if used and last.source != source:
        raise CodeChangedError(
            f"{spout.step} ({spout.site.location}): the log has the position of a {last.source} under the name "
            f"{spout.stream!r}, but the source is now a {source}, which cannot continue there. Restore the previous "
            f"source; or write newStream({spout.stream!r}, ..., anew=True), so that it starts at the beginning "
            f"(states and outputs stay as they are). Nothing was written"
        )
    began = last.began if last.source == source else last.position
    parted = _left_states(last, feeds, births)
    _check_missed(spout.stream, last, feeds, group, births, settings)
    return StreamRecord(group.name, last.position, source, True, began, feeds, parted, last.former)


def source_of(spout: SpoutSource) -> str:
    """Return the kind of a stream's source, which decides the meaning of its positions.

    A spout may set this kind as `sourceName`.
    """
    source = getattr(spout.spout, "spout", spout.spout)  # unwrap a user's spout from the adapter around it
    return str(getattr(source, "sourceName", type(source).__qualname__))


# --- streams and states -------------------------------------------------------------------------------------------


def _fed_states(group: Group) -> dict[str, tuple[str, ...]]:
    """Return, for each stream, the states that its tuples update.

    Dead letters of a stream do not count, because they exist only if a state or output keeps them.
    """
    letters = {id(node) for node in walk(*group.states) if isinstance(node, LettersOf)}
    above = {writer.state.name: walk(writer, starts=letters) for writer in group.states}
    return {
        spout.stream: tuple(sorted(state for state, nodes in above.items() if any(node is spout for node in nodes)))
        for spout in group.spouts
    }


def _left_states(stream: StreamRecord, feeds: Collection[str], births: Mapping[str, Birth]) -> dict[str, Metadata]:
    """Return the states that a stream no longer feeds, each with the stream's position when that ended.

    The position is kept because the state's txid does not show which of the stream's tuples the state has missed: the
    stream may be in another group, with other txids, when it feeds the state again.
    """
    parted = {**dict.fromkeys(stream.feeds, stream.position), **stream.parted}
    return {state: position for state, position in parted.items() if state in births and state not in feeds}


def _check_missed(
    name: str,
    stream: StreamRecord,
    feeds: Collection[str],
    group: Group,
    births: Mapping[str, Birth],
    settings: Settings,
) -> None:
    """Raise CodeChangedError if a stream feeds a state again that it did not feed in some batches in between."""
    parted = {state: position for state, position in stream.parted.items() if state in births and state in feeds}
    missed = [state for state, position in parted.items() if position != stream.position]
    if missed:
        raise CodeChangedError(
            f"stream {name!r} fed {listed(missed)} in an earlier program, and was then read by programs in which it "
            f"did not: the state would lack the tuples read meanwhile. Leave {name!r} out of these states, as in "
            f"the last program; or drop them with {drops_of(group, missed, settings)}, so that they start empty "
            f"with the next batch; or give them other names (name=). Nothing was written"
        )


def _warnings(
    spout: SpoutSource,
    last: StreamRecord | None,
    record: StreamRecord,
    former: str | None,
    old: Sequence[str],
    absent: Mapping[str, StreamRecord],
) -> list[str]:
    """Return warnings about changes that are allowed but may surprise.

    `last`: the stream's record in the log. `former`: its name in the log, if that name differs. `old`: the states that
    the stream feeds and that have batches already. `absent`: the other streams that the log knows and the program
    lacks.
    """
    if record.source == ReplaySpout.__qualname__:
        return []
    if last is not None and spout.anew and record.position is not None:
        return [
            f"newStream({spout.stream!r}, ..., anew=True) has no effect: this stream is in the log, and continues "
            f"at its position. Remove anew=True: after the next renaming, the source would be read again from its "
            f"beginning"
        ]
    if last is not None and (former is None or _may_have_fed(last, old)):
        return []
    likely = [name for name, stream in absent.items() if _may_have_fed(stream, old)]
    if not likely:
        return []
    begins = (
        ("is not in the log and starts at the beginning of its source")
        if former is None
        else f"continues as {former!r}"
    )
    return [
        f"stream {spout.stream!r} {begins}. It feeds {listed(old)}, as the stream {listed(likely)} did, which this "
        f"topology lacks. If it is that stream under another name, tuples are counted twice or lost: stop the "
        f"topology before its first batch, and write newStream({spout.stream!r}, ..., formerly={min(likely)!r})"
    ]


def _changes(spout: SpoutSource, record: StreamRecord) -> list[str]:
    """Return a warning if a stream continues at its position, but its source now reads in a different way."""
    changed_since = getattr(spout.spout, "changedSince", None)
    change = None if changed_since is None or record.position is None else changed_since(record.position)
    return [] if change is None else [f"stream {spout.stream!r} continues at its position: {change}"]


def _may_have_fed(stream: StreamRecord, states: Collection[str]) -> bool:
    """Return whether tuples of the stream may have updated one of these states."""
    return not {*stream.feeds, *stream.parted}.isdisjoint(states)


# --- for messages -------------------------------------------------------------------------------------------------


def listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def drops_of(group: Group, states: Sequence[str], settings: Settings) -> str:
    """Return the calls that drop these states of a group, as text for messages."""
    drops = {dropped_by(node): node.state.factory for node in group.states if node.state.name in states}
    return " and ".join(settings.drop(name, factory.survives) for name, factory in sorted(drops.items()))


def sinks_of(group: Group) -> list[str]:
    return [output.step.name for output in group.sinks if isinstance(output.step, Sink)]
