"""Evidence that partitions are still the ones that a stream has read.

Positions hold it, and a start compares it.
"""

from collections.abc import Callable, Iterable, Mapping

from trident_spouts.kafka.cluster import Cluster
from trident_spouts.kafka.last_messages import GAP, LastMessages, Partition
from trident_spouts.kafka.losses import Loss, cut_loss
from trident_spouts.kafka.offset_ranges import OffsetRange, Offsets, TopicRange, Topics
from trident_spouts.kafka.range_reader import RangeReader


class Evidence:
    """Collects and compares the evidence in positions.

    `reader` fetches single messages that the driver did not see while batches were read. All messages are read at one
    `isolation` level.
    """

    def __init__(self, cluster: Cluster, reader: RangeReader, lasts: LastMessages, isolation: str) -> None:
        self._cluster, self._reader, self._lasts, self._isolation = cluster, reader, lasts, isolation

    def first(self, partitions: Iterable[Partition]) -> Offsets:
        """Return the first offset that each partition still has."""
        earliest = self._cluster.earliest(partitions)
        self._lasts.begins(earliest)
        return earliest

    def forget(self, topic: str, partition: int | None = None) -> None:
        """Forget the evidence about a topic, or about one partition, because its messages have changed."""
        self._lasts.forget(topic, partition)

    def backed(self, ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
        """Return the ranges of a batch, each extended to an offset that shows the last message before it."""
        return tuple(
            each._replace(since=self._lasts.since((each.topic, each.partition), each.start)) for each in ranges
        )

    def look(self, ranges: tuple[OffsetRange, ...]) -> None:
        """Record the last messages before the starts and ends of ranges, without reading the ranges.

        Spark's workers read the ranges after this call, so the next batch notices changes in between. Raises
        DataLossError if the message before a range is not the one that was read there.
        """
        starts = {(each.topic, each.partition): each.start for each in ranges}
        before = self._reader.last_before({each: (self._lasts.since(each, at), at) for each, at in starts.items()})
        for partition, last in before.items():
            if last.offset < starts[partition]:
                self._lasts.note(partition, starts[partition], last)
        there = self._reader.last_before({(each.topic, each.partition): (each.start, each.end) for each in ranges})
        for each in ranges:
            partition = each.topic, each.partition
            if there[partition].digest:
                self._lasts.note(partition, each.end, there[partition])
            else:
                self._lasts.note_none(partition, each.start, each.end)

    def position(self, topics: Topics, reads: Callable[[str], bool]) -> Topics:
        """Return the position after a batch, with the last message before each offset.

        Messages that were not read are fetched at the first batch after a start.
        """
        offsets = {(name, number): end for name, topic in topics.items() for number, end in enumerate(topic.ends)}
        unknown = {
            each: end
            for each, end in offsets.items()
            if self._lasts.at(each, end) is None and each in self._cluster.epochs and reads(each[0])
        }
        if unknown:
            first = self.first(unknown)
            looks = {each: (max(first[each], end - GAP), end) for each, end in unknown.items() if each in first}
            for each, last in self._reader.last_before(looks).items():
                self._lasts.note(each, unknown[each], last)
        # For a topic that this spout does not read, keep the evidence of an earlier spout.
        return {name: self._complete(name, topic) if reads(name) else topic for name, topic in topics.items()}

    def _complete(self, name: str, topic: TopicRange) -> TopicRange:
        known = [self._lasts.at((name, number), end) for number, end in enumerate(topic.ends)]
        return topic._replace(
            last=[topic.last_before_end(at) if last is None else last for at, last in enumerate(known)],
            isolation=self._isolation,
            compacted=self._lasts.compacted(name),
        )

    def hold(self, topics: Topics) -> None:
        """Remember the evidence of a position in the log.

        Last messages that were read at another isolation level are left out: with or without aborted transactions, the
        same partition has another last message. Then only offsets and epochs are compared.
        """
        for name, topic in topics.items():
            if topic.compacted:
                self._lasts.hold_compacted(name)
            if topic.isolation not in (None, self._isolation):
                continue
            for number, end in enumerate(topic.ends):
                last = topic.last_before_end(number)
                if last is not None:
                    self._lasts.hold((name, number), end, last)

    def losses(self, suspects: Mapping[Partition, tuple[int, int | None]]) -> dict[Partition, Loss]:
        """Return the partitions whose message before an offset is not the one that was read there.

        `suspects` has for each partition the offset, and the epoch of the leader from which it was read (None if the
        leader is unchanged or unknown).
        """
        if not suspects:
            return {}
        self.first(suspects)
        losses = self._other_messages({each: at for each, (at, _) in suspects.items()})
        epochs = {
            each: (at, epoch) for each, (at, epoch) in suspects.items() if epoch is not None and each not in losses
        }
        cut = self._reader.cut_off(epochs) if epochs else {}
        return losses | {each: cut_loss(*each, *epochs[each], end) for each, end in cut.items()}

    def _other_messages(self, offsets: Mapping[Partition, int]) -> dict[Partition, Loss]:
        """Return the partitions whose last message before the offset is not the one that was read there."""
        known = {each: at for each, at in offsets.items() if at and self._lasts.at(each, at) is not None}
        looks = {each: (self._lasts.since(each, at), at) for each, at in known.items()}
        seen = self._reader.last_before({each: look for each, look in looks.items() if look[0] < look[1]})
        found = {each: self._lasts.loss(each, known[each], last) for each, last in seen.items()}
        return {each: loss for each, loss in found.items() if loss is not None}
