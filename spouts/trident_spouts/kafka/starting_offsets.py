"""The forms of `startingOffsets`: the offsets at which a stream begins to read its topics."""

import datetime
from collections.abc import Mapping
from typing import Literal, TypeAlias

from trident.base.errors import TopologyError
from trident.base.short_texts import typed_brief
from trident_spouts.kafka.cluster import Cluster
from trident_spouts.kafka.offset_ranges import Offsets, Topic, partitions_of

PartitionOffsets: TypeAlias = Mapping[str, Mapping[int, int]]
StartingOffsets: TypeAlias = Literal["earliest", "latest"] | datetime.datetime | PartitionOffsets

_MOST_SHOWN = 20
"""The most partitions that an error names."""


def check_starting(starting: object) -> None:
    """Raise TopologyError if `startingOffsets` does not have one of the accepted forms."""
    if isinstance(starting, datetime.datetime):
        if starting.tzinfo is None:
            raise TopologyError(
                f"KafkaSpout: startingOffsets={starting!r} has no time zone; write "
                f"datetime(2026, 1, 31, 12, tzinfo=timezone.utc)"
            )
    elif isinstance(starting, Mapping):
        for topic, offsets in starting.items():
            if not (isinstance(topic, str) and isinstance(offsets, Mapping) and all(map(_is_pair, offsets.items()))):
                raise TopologyError(
                    f"KafkaSpout: startingOffsets[{topic!r}]={typed_brief(offsets)}: expected an offset of at least 0 "
                    f"for each partition, such as {{'orders': {{0: 17, 1: 42}}}}{_text_hint(offsets)}"
                )
    elif starting not in ("earliest", "latest"):
        raise TopologyError(
            f"KafkaSpout: startingOffsets={typed_brief(starting)}: expected 'earliest', 'latest', a datetime with its "
            f"time zone, or offsets such as {{'orders': {{0: 17, 1: 42}}}}"
        )


def _text_hint(offsets: object) -> str:
    """Return a hint for partitions that are texts, as in the JSON of Spark's option; "" for other offsets."""
    numbers = offsets if isinstance(offsets, Mapping) else ()
    text = next((number for number in numbers if isinstance(number, str) and number.isdecimal()), None)
    return "" if text is None else f"; a partition is a number, {int(text)}, not the text {text!r}"


def _is_pair(pair: tuple[object, object]) -> bool:
    return all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in pair)


def first_offsets(starting: StartingOffsets, topics: Mapping[str, Topic], cluster: Cluster) -> Offsets:
    """Return the first offset to read of each partition, for topics that were never read.

    Raises SourceUnreadableError if a partition does not answer, and TopologyError if `starting` names an offset that
    does not exist.
    """
    partitions = partitions_of(topics)
    if isinstance(starting, datetime.datetime):
        offsets = cluster.at_time(partitions, int(starting.timestamp() * 1000))
    elif starting == "latest":
        offsets = cluster.ends(partitions, every=True)
    else:
        offsets = cluster.earliest(partitions, every=True)
        if isinstance(starting, Mapping):
            offsets |= _given(starting, offsets, cluster)
    return offsets


def _given(starting: PartitionOffsets, earliest: Offsets, cluster: Cluster) -> Offsets:
    """Return the offsets that the user gave, for the partitions in `earliest`."""
    given = {
        (topic, number): offset
        for topic, offsets in starting.items()
        for number, offset in offsets.items()
        if (topic, number) in earliest
    }
    ends = cluster.high_watermarks(given)
    for (topic, number), offset in given.items():
        first, last = earliest[topic, number], ends.get((topic, number), offset)
        if not first <= offset <= last:
            raise TopologyError(
                f"KafkaSpout: startingOffsets begins {topic}-{number} at {offset}; expected an offset from {first} "
                f"to {last}"
            )
    return given


def check_given(starting: StartingOffsets, topics: Mapping[str, Topic]) -> None:
    """Raise TopologyError if `starting` gives an offset for a partition that the spout does not read."""
    for name, offsets in starting.items() if isinstance(starting, Mapping) else ():
        for number in offsets:
            if name not in topics or number >= topics[name].partitions:
                raise TopologyError(
                    f"KafkaSpout: startingOffsets names {name}-{number}, which is not one of the partitions to read"
                )


def check_complete(starting: StartingOffsets, topics: Mapping[str, Topic], cluster: Cluster, named: bool) -> None:
    """Raise TopologyError if `starting` gives offsets, but omits a partition of `topics`.

    None of these topics has been read. With `named`, only the topics that `starting` names are checked: the stream has
    begun, and a topic that it reads in addition begins at the earliest offset.
    """
    if not isinstance(starting, Mapping):
        return
    missing = [
        (name, number)
        for name, number in partitions_of(topics)
        if number not in starting.get(name, {}) and (name in starting or not named)
    ]
    if missing:
        first, ends = cluster.earliest(missing[:_MOST_SHOWN]), cluster.high_watermarks(missing[:_MOST_SHOWN])
        shown = ", ".join(
            f"{name}-{number} (expected {first[name, number]} to {ends[name, number]})"
            if (name, number) in first.keys() & ends.keys()
            else f"{name}-{number}"
            for name, number in missing[:_MOST_SHOWN]
        )
        more = f" and {len(missing) - _MOST_SHOWN} more" if len(missing) > _MOST_SHOWN else ""
        raise TopologyError(
            f"KafkaSpout: startingOffsets has no offset for {shown}{more}: a new stream needs one for each partition, "
            f"such as {{'orders': {{0: 17, 1: 42}}}}. The lowest expected offset is that of the first message that "
            f"still exists (0 if none was deleted). Partitions that are added later begin at 0"
        )
