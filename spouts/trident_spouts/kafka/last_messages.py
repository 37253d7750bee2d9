"""The last message before an offset, as evidence of a stream's reading of a partition.

A topic's id and an offset do not distinguish a partition from a restored older copy that has received other messages
since, or from the rest of the partition after an unclean leader election, because offsets are used again there. So a
position also names the last message before its offset. Every reading begins with that message, and so does the first
plan of a run.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from trident_spouts.kafka.losses import Loss, Losses, anew_message_loss, vanished_loss

Partition = tuple[str, int]

GAP = 10_000
"""The most offsets without a message that a check reads again to reach the last message."""

_KEPT = 50
"""The number of offsets of each partition for which the last message is remembered. Fewer batches are in flight."""

_BLIND = 8
"""The number of offsets that are read before a range if the last message before the range is not known yet."""


class LastMessage(NamedTuple):
    """The last message before an offset. Without a digest, there is no message from `offset` up to that offset."""

    offset: int
    timestamp: int
    """The message's timestamp in milliseconds since 1970."""
    digest: str

    def __str__(self) -> str:
        if not self.digest:
            return f"no message from offset {self.offset} on"
        time = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.timestamp)
        return f"the message at offset {self.offset} of {time:%Y-%m-%d %H:%M:%S.%f} (digest {self.digest})"


def last_message(message: Any) -> LastMessage:
    """Return the evidence of a message of confluent-kafka."""
    digest = hashlib.blake2b(digest_size=8)
    parts = [message.key(), message.value()]
    for name, value in message.headers() or ():
        parts += [name.encode(), value]
    for part in parts:
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return LastMessage(message.offset(), max(-1, message.timestamp()[1]), digest.hexdigest())


class LastMessages:
    """The last messages before the offsets at which batches of this run begin and end.

    If one reading ends and another begins at an offset, the messages before that offset are compared, in either order.
    Any thread may call this object.
    """

    def __init__(self, losses: Losses, compacts: Callable[[str], bool | None]) -> None:
        self._losses = losses
        self._compacts = compacts
        """A function that returns whether Kafka deletes messages within a topic, and not only its beginning; None if
        unknown."""
        self._compacted: dict[str, bool] = {}
        """For each topic, True if it was compacted at the first check of this run, or when an earlier run read it."""
        self._known: dict[Partition, dict[int, LastMessage]] = {}
        self._epochs: dict[Partition, int] = {}
        """The newest leader epoch of any message that this run has seen."""
        self._losses_of: Counter[str] = Counter()
        self._first: Mapping[Partition, int] = {}
        self._lock = threading.Lock()

    def at(self, partition: Partition, offset: int) -> LastMessage | None:
        """Return the last message before an offset; None if it is not known."""
        if offset == 0:
            return LastMessage(0, -1, "")
        with self._lock:
            return self._known.get(partition, {}).get(offset)

    def begins(self, partitions: Mapping[Partition, int]) -> None:
        """Record the first offsets that partitions still have."""
        with self._lock:
            self._first = {**self._first, **partitions}

    def since(self, partition: Partition, offset: int) -> int:
        """Return the offset from which to read so that the last message before `offset` is included."""
        known = self.at(partition, offset)
        since = offset - _BLIND if known is None else known.offset
        with self._lock:
            return min(offset, max(since, offset - GAP, self._first.get(partition, 0)))

    def hold(self, partition: Partition, offset: int, last: LastMessage) -> None:
        """Remember the last message before an offset, as recorded in a position, without a comparison."""
        with self._lock:
            known = self._known.setdefault(partition, {})
            known[offset] = last
            for old in sorted(known)[:-_KEPT]:
                del known[old]

    def hold_compacted(self, topic: str) -> None:
        """Record that messages of a topic may have been removed by compaction since they were read."""
        self._compacted[topic] = True

    def compacted(self, topic: str) -> bool:
        """Return whether messages of a topic may have been removed by compaction.

        Kafka is queried once for each topic.
        """
        if topic not in self._compacted:
            compacts = self._compacts(topic)
            if compacts is None:
                return False
            self._compacted[topic] = compacts
        return self._compacted[topic]

    def forget(self, topic: str, partition: int | None = None) -> None:
        """Forget a topic, or one partition of it, because its messages are not the ones that were read."""
        with self._lock:
            self._losses_of[topic] += 1
            for each in [each for each in self._known if each[0] == topic and partition in (None, each[1])]:
                del self._known[each]
            for each in [each for each in self._epochs if each[0] == topic and partition in (None, each[1])]:
                del self._epochs[each]

    def losses_of(self, topic: str) -> int:
        """Return how many times messages of a topic were forgotten."""
        return self._losses_of[topic]

    def saw_epoch(self, partition: Partition, epoch: int | None) -> None:
        """Record the epoch of the leader that wrote a message."""
        if epoch is not None:
            with self._lock:
                self._epochs[partition] = max(epoch, self._epochs.get(partition, epoch))

    def has_seen(self, partition: Partition, epoch: int | None) -> bool:
        """Return whether a message of this epoch was seen, and none of a later epoch."""
        return epoch is not None and self._epochs.get(partition) == epoch

    def loss(self, partition: Partition, offset: int, seen: LastMessage) -> Loss | None:
        """Return the loss if `seen`, the message before an offset, contradicts the known message; otherwise None."""
        known = self.at(partition, offset)
        if known is None or seen == known:
            return None
        if seen.digest and seen.offset >= known.offset:
            return anew_message_loss(*partition, offset, str(known), str(seen))
        looked_there = seen.offset < known.offset or (seen.offset == known.offset and not seen.digest)
        if known.digest and looked_there and self._keeps_all(partition[0]):
            return vanished_loss(*partition, offset, str(known))
        return None

    def _keeps_all(self, topic: str) -> bool:
        """Return whether Kafka has not compacted the topic since the first read, and does not compact it now."""
        return self._compacted.get(topic) is not True and self._compacts(topic) is False

    def note(self, partition: Partition, offset: int, seen: LastMessage) -> None:
        """Compare the message that a reading saw before an offset with the known message, and remember it.

        Raises DataLossError if they contradict each other and the policy is "fail".
        """
        loss = self.loss(partition, offset, seen)
        if loss is not None:
            self._losses.tell([loss])
            self.forget(*partition)
        known = self.at(partition, offset)
        if known is None or (not known.digest and (seen.digest or seen.offset < known.offset)):
            self.hold(partition, offset, seen)

    def note_none(self, partition: Partition, start: int, end: int) -> None:
        """Record that a reading saw no message from `start` to `end`: the last message is still the one before `start`.

        If the next batch was already read and compared, compaction may have removed that message in between.
        """
        if self.at(partition, end) is None:
            self.hold(partition, end, self.at(partition, start) or LastMessage(start, -1, ""))
        else:
            self.note(partition, end, LastMessage(start, -1, ""))
