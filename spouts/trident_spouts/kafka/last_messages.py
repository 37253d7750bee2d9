"""The last message before an offset, as evidence of a stream's reading of a partition.

A topic's id and an offset do not distinguish a partition from a copy of it that was restored and has grown on, or from
its rest after an unclean election: offsets are given out again there. So a position also names the last message before
it. Every reading begins with that message, and so does the first plan of a run.
"""

import hashlib
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from trident_spouts.kafka.losses import Loss, Losses, anew_message_loss, vanished_loss

Partition = tuple[str, int]

GAP = 10_000
"""The most offsets without a message that a check reads again to reach the last message."""

_KEPT = 50
"""The offsets of each partition for which the last message is remembered. Batches in flight are fewer."""

_BLIND = 8
"""The offsets that are read before a range if the last message before it is not known yet."""


class LastMessage(NamedTuple):
    """The last message before some offset. Without a digest, there is no message from `offset` up to that offset."""

    offset: int
    timestamp: int
    """Milliseconds since 1970."""
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

    Two readings that meet at an offset compare the messages before it, whichever comes first. Any thread may call it.
    """

    def __init__(self, losses: Losses, compacts: Callable[[str], bool | None]) -> None:
        self._losses = losses
        self._compacts = compacts
        """Returns whether Kafka deletes messages within a topic, and not only its beginning; None if unknown."""
        self._compacted: dict[str, bool] = {}
        """For each topic, True if it was compacted at the first look, or when an earlier run read it."""
        self._known: dict[Partition, dict[int, LastMessage]] = {}
        self._first: Mapping[Partition, int] = {}
        self._lock = threading.Lock()

    def at(self, partition: Partition, offset: int) -> LastMessage | None:
        """Return the last message before an offset; None if it is not known."""
        if offset == 0:
            return LastMessage(0, -1, "")
        with self._lock:
            return self._known.get(partition, {}).get(offset)

    def begins(self, partitions: Mapping[Partition, int]) -> None:
        """Note the first offsets that partitions still have."""
        with self._lock:
            self._first = {**self._first, **partitions}

    def since(self, partition: Partition, offset: int) -> int:
        """Return the offset at which to begin to read, so that the last message before `offset` is seen, too."""
        known = self.at(partition, offset)
        since = offset - _BLIND if known is None else known.offset
        with self._lock:
            return min(offset, max(since, offset - GAP, self._first.get(partition, 0)))

    def hold(self, partition: Partition, offset: int, last: LastMessage) -> None:
        """Remember the last message before an offset, as a position names it, without a comparison."""
        with self._lock:
            known = self._known.setdefault(partition, {})
            known[offset] = last
            for old in sorted(known)[:-_KEPT]:
                del known[old]

    def hold_compacted(self, topic: str) -> None:
        """Note that messages of a topic may have been compacted away since they were read."""
        self._compacted[topic] = True

    def compacted(self, topic: str) -> bool:
        """Return whether messages of a topic may have been removed by compaction.

        Kafka is asked once for each topic.
        """
        if topic not in self._compacted:
            compacts = self._compacts(topic)
            if compacts is None:
                return False
            self._compacted[topic] = compacts
        return self._compacted[topic]

    def forget(self, topic: str, partition: int | None = None) -> None:
        """Forget a topic or one partition of it: the messages there now are not those that were read."""
        with self._lock:
            for each in [each for each in self._known if each[0] == topic and partition in (None, each[1])]:
                del self._known[each]

    def loss(self, partition: Partition, offset: int, seen: LastMessage) -> Loss | None:
        """Return how `seen`, before an offset, contradicts the known message; None if it does not."""
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
        """Return whether Kafka has deleted nothing within a topic since it is read, and does not do so now."""
        return self._compacted.get(topic) is not True and self._compacts(topic) is False

    def note(self, partition: Partition, offset: int, seen: LastMessage) -> None:
        """Compare the message that a reading saw before an offset with the known one, and remember it.

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
        """Note that a reading saw no message from `start` to `end`: the last one is still that before `start`.

        If the next batch has been read already, and has looked back, compaction may have taken that one meanwhile.
        """
        if self.at(partition, end) is None:
            self.hold(partition, end, self.at(partition, start) or LastMessage(start, -1, ""))
        else:
            self.note(partition, end, LastMessage(start, -1, ""))
