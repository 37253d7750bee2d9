"""Ranges of offsets, the metadata that names them, and the division of a batch's limit among partitions."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trident_spouts.executor import Metadata
from trident_spouts.kafka.last_messages import LastMessage
from trident_spouts.kafka.passed_losses import Passed, worst
from trident_spouts.user_calls import foreign_metadata_error

Offsets = dict[tuple[str, int], int]
"""An offset for each (topic, partition)."""

Epochs = dict[tuple[str, int], int | None]
"""The epoch of the leader of each (topic, partition); None if the broker does not give it."""


class Topic(NamedTuple):
    """A topic as it is now: its id (None if the broker does not support ids) and its number of partitions."""

    id: str | None
    partitions: int


class TopicRange(NamedTuple):
    """The part of a batch from one topic: the offsets [start, end) of each partition, by the partition's number.

    For a partition without tuples in the batch, both offsets are equal to its position.
    """

    id: str | None
    """The id that Kafka gave the topic when it was created; None if the broker is too old for ids."""

    starts: list[int]
    ends: list[int]

    cluster: str | None = None
    """The id of the cluster; None if it is not known."""

    epochs: Sequence[int | None] = ()
    """The epoch of each partition's leader at the time of the plan; empty if the epochs are not known."""

    last: Sequence[LastMessage | None] = ()
    """The last message before each end offset, known once the batch was read."""

    isolation: str | None = None
    """The isolation level at which `last` was read: another level sees other messages.

    None if no message was read yet.
    """

    compacted: bool = False
    """True if Kafka has compacted the topic since this stream began to read it: messages in `last` may be deleted by
    now."""

    begun: Sequence[int] = ()
    """The offset at which the stream began to read each partition; empty if it is not known."""

    passed: Passed = ""
    """The losses past which the stream has continued, in any topic."""

    def epoch(self, number: int) -> int | None:
        return self.epochs[number] if number < len(self.epochs) else None

    def last_before_end(self, number: int) -> LastMessage | None:
        return self.last[number] if number < len(self.last) else None


class OffsetRange(NamedTuple):
    """The offsets [start, end) of one partition, at least one."""

    topic: str
    partition: int
    start: int
    end: int
    since: int | None = None
    """The offset at which a reader begins, to compare the last message before `start`; None: at `start`."""

    @property
    def size(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}[{self.start}, {self.end})"


Topics = dict[str, TopicRange]


def noted(topics: Mapping[str, TopicRange], passed: Passed) -> Topics:
    """Return a position that records the worst loss past which its stream has continued, in this run or before."""
    level = worst({passed, *(topic.passed for topic in topics.values())})
    return {name: topic._replace(passed=level) for name, topic in topics.items()}


def to_metadata(topics: Mapping[str, TopicRange]) -> Metadata:
    """Return the metadata that names a batch.

    >>> to_metadata({"orders": TopicRange("x1", [0, 7], [5, 7])})
    {'orders': {'id': 'x1', 'from': [0, 7], 'to': [5, 7]}}
    """
    return {name: _as_json(topic) for name, topic in topics.items()}


def _as_json(topic: TopicRange) -> dict[str, Any]:
    named: dict[str, Any] = {"id": topic.id, "from": topic.starts, "to": topic.ends}
    if topic.cluster is not None:
        named["cluster"] = topic.cluster
    if any(epoch is not None for epoch in topic.epochs):
        named["epochs"] = list(topic.epochs)
    if topic.last:
        named["last"] = [None if last is None else list(last) for last in topic.last]
    if topic.isolation is not None:
        named["isolation"] = topic.isolation
    if topic.compacted:
        named["compacted"] = True
    if topic.begun:
        named["begun"] = list(topic.begun)
    if topic.passed:
        named["passed"] = topic.passed
    return named


def _from_json(topic: dict[str, Any]) -> TopicRange:
    last = tuple(None if each is None else LastMessage(*each) for each in topic.get("last", ()))
    seen = topic.get("isolation"), topic.get("compacted", False)
    range_ = TopicRange(
        topic["id"], topic["from"], topic["to"], topic.get("cluster"), topic.get("epochs", ()), last, *seen
    )
    return range_._replace(begun=topic.get("begun", ()), passed=topic.get("passed", ""))


def from_metadata(metadata: Metadata) -> Topics:
    """Return the ranges that a batch's metadata names; no ranges for None, which means before the first batch.

    Raises SpoutContractError if the metadata is not of a KafkaSpout.
    """
    if metadata is None:
        return {}
    try:
        assert isinstance(metadata, dict)
        return {name: _from_json(topic) for name, topic in metadata.items()}
    except (AssertionError, AttributeError, KeyError, TypeError) as error:
        raise foreign_metadata_error("KafkaSpout", metadata) from error


def ranges_of(topics: Mapping[str, TopicRange]) -> tuple[OffsetRange, ...]:
    """Return the ranges that have at least one offset."""
    return tuple(
        OffsetRange(name, partition, start, end)
        for name, topic in topics.items()
        for partition, (start, end) in enumerate(zip(topic.starts, topic.ends, strict=True))
        if end > start
    )


def partitions_of(topics: Mapping[str, Topic]) -> list[tuple[str, int]]:
    """Return all partitions of topics."""
    return [(name, number) for name, topic in topics.items() for number in range(topic.partitions)]


def limited(lags: Sequence[int], limit: int) -> list[int]:
    """Return how much of each lag a batch reads: all if the sum is at most `limit`, otherwise a proportional share.

    In the second case the sum of the result is `limit`. The shares are computed for every batch, so no partition
    starves.

    >>> limited([10, 0, 30], 8), limited([1, 1, 1], 2), limited([3, 4], 10)
    ([2, 0, 6], [1, 1, 0], [3, 4])
    """
    total = sum(lags)
    if total <= limit:
        return list(lags)
    shares = [lag * limit // total for lag in lags]
    # The remainder of the rounding goes to the partitions that lost most by it. The sort is stable, so that another
    # plan gives the same result.
    left = limit - sum(shares)
    for at in sorted(range(len(lags)), key=lambda at: -(lags[at] * limit % total))[:left]:
        shares[at] += 1
    return shares
