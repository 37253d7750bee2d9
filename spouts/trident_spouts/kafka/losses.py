"""Lost data (offsets that a stream would read next and Kafka no longer has), and the policy for it."""

import logging
from typing import Literal, NamedTuple, TypeAlias

from trident.base.errors import DataLossError
from trident_spouts.kafka.passed_losses import Passed, worst

OnDataLoss: TypeAlias = Literal["fail", "earliest", "latest"]

_log = logging.getLogger("trident.spouts")

_SHOWN = 3


GO_ON = (
    "To continue without the lost messages, start with onDataLoss='earliest' (from the first available offset) or "
    "onDataLoss='latest' (from the end)"
)
_AGAIN = (
    "onDataLoss='earliest' continues from the first available offset, and {} count twice; onDataLoss='latest' "
    "continues from the end, and unread messages are lost"
)
_CORRECT = "Correct bootstrapServers; or, to continue in this cluster: "
_SHORTER = (
    "onDataLoss='earliest' and onDataLoss='latest' continue at the end of such a partition: messages that were written "
    "since then, before that end, are lost"
)


class Loss(NamedTuple):
    """A loss in words, and the ways to continue, with the messages that each way loses or repeats."""

    what: str
    way_out: str = GO_ON
    twice: str = ""
    """The messages that are counted again with onDataLoss='earliest'; "" if there are none."""
    passed: Passed = "lost"
    """The worst loss of the stream after it has continued past this one with onDataLoss='earliest'."""

    def __str__(self) -> str:
        return self.what


def retention_loss(topic: str, partition: int, position: int, earliest: int) -> Loss:
    """Return the loss of a partition whose first unread records were deleted."""
    return Loss(
        f"{topic}-{partition} has lost offsets {position} to {earliest - 1} before they were read (retention or "
        f"deleted records)",
        passed="",
    )


def truncation_loss(topic: str, partition: int, position: int, end: int) -> Loss:
    """Return the loss of a partition that ends before offsets that were read."""
    what = "Kafka has lost records, or was restored"
    return Loss(
        f"{topic}-{partition} ends at offset {end}, but was read up to {position}: {what}", _SHORTER, passed="skipped"
    )


def _other_content(topic: str, partition: int, position: int, facts: str) -> Loss:
    why = "Kafka was restored from an older copy, or lost records, and other messages now have their offsets"
    where = f"{topic}-{partition} no longer has the messages that were read, up to offset {position}"
    return _read_again(f"{where}: {facts}: {why}", "messages that were read before")


def anew_message_loss(topic: str, partition: int, position: int, known: str, seen: str) -> Loss:
    """Return the loss of a partition whose message at an offset is not the one that was read."""
    return _other_content(topic, partition, position, f"{known} was the last message, and now there is {seen}")


def vanished_loss(topic: str, partition: int, position: int, known: str) -> Loss:
    """Return the loss of a partition that does not have a message that was read, although the offset exists."""
    return _other_content(topic, partition, position, f"{known} was the last message, and is gone")


def cut_loss(topic: str, partition: int, position: int, epoch: int, end: int) -> Loss:
    """Return the loss of a partition with a leader that has lost records of an earlier leader's epoch."""
    return _other_content(topic, partition, position, f"leader epoch {epoch} now ends at offset {end}")


def epoch_loss(topic: str, partition: int, position: int, former: int, present: int) -> Loss:
    """Return the loss of a partition with a leader epoch that went back, as it never does in the same cluster."""
    return _other_content(topic, partition, position, f"its leader epoch was {former}, and is now {present}")


def anew_loss(topic: str, former: str | None, present: str | None) -> Loss:
    """Return the loss of a topic that was deleted and re-created under its name."""
    what = f"topic {topic!r} was deleted and recreated (id {former} before, {present} now)"
    return _read_again(what, "messages that were copied from the former topic into this one")


def other_cluster_loss(topic: str, former: str, present: str, ids: tuple[str | None, str | None]) -> Loss:
    """Return the loss of a topic that was read in a cluster other than the one that answers."""
    what = (
        f"topic {topic!r} was read in the cluster {former} (topic id {ids[0]}), but bootstrapServers leads to the "
        f"cluster {present} (topic id {ids[1]})"
    )
    return _read_again(what, "messages that a mirror copied from the former cluster", _CORRECT)


def _read_again(what: str, twice: str, first: str = "") -> Loss:
    return Loss(what, first + _AGAIN.format(twice), twice)


def passed_loss() -> Loss:
    """Return the loss of messages that a stream has read, and that Kafka has lost before the stream's position."""
    return Loss("Kafka has lost messages that the stream has read, and the stream has continued (onDataLoss)")


def deleted_loss(topic: str) -> Loss:
    """Return the loss of a topic that was deleted."""
    return Loss(f"topic {topic!r} was deleted, with messages that were not read")


class Losses:
    """The policy of a spout for lost data: raise DataLossError, or continue and log one warning for each loss."""

    def __init__(self, policy: OnDataLoss) -> None:
        self.policy = policy
        self._told: set[str] = set()
        self.passed: Passed = ""
        """The worst loss past which this run has continued."""

    def tell(self, losses: list[Loss]) -> None:
        """Raise DataLossError if there are losses and the policy is "fail"; otherwise log those that are new."""
        if losses and self.policy == "fail":
            more = f"; and {len(losses) - _SHOWN} more" if len(losses) > _SHOWN else ""
            ways = ". ".join(dict.fromkeys(loss.way_out for loss in losses))
            raise DataLossError(f"KafkaSpout: {'; '.join(map(str, losses[:_SHOWN]))}{more}. {ways}")
        for loss in losses:
            self.passed = worst({self.passed, "skipped" if self.policy == "latest" else loss.passed})
            if loss.what not in self._told:
                self._told.add(loss.what)
                cost = f", and {loss.twice} count twice" if loss.twice and self.policy == "earliest" else ""
                _log.warning("KafkaSpout: %s; reading continues because of onDataLoss=%r%s", loss, self.policy, cost)

    def tell_compacted(self, topics: list[str]) -> None:
        """Log a warning for each topic that is read again although compaction may have removed messages of it."""
        for topic in [topic for topic in topics if topic not in self._told]:
            self._told.add(topic)
            _log.warning(
                "KafkaSpout: topic %r is compacted: messages that the stream has read may be gone, if a later one of "
                "their key replaced them. A new state with backfill=True that keeps the last row of each key is "
                "right; a count or a sum would lack these messages",
                topic,
            )  # fmt: skip
