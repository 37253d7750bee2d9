"""Lost data, and the policy for it. Data are lost if Kafka no longer has the offsets that a stream would read next."""

import logging
from typing import Literal, NamedTuple, TypeAlias

from trident.base.errors import DataLossError

OnDataLoss: TypeAlias = Literal["fail", "earliest", "latest"]

_log = logging.getLogger("trident.spouts")

_SHOWN = 3


GO_ON = (
    "To go on without what is lost, start with onDataLoss='earliest' (from the first offset that is there) or "
    "onDataLoss='latest' (from the end)"
)
_AGAIN = (
    "onDataLoss='earliest' goes on from the first offset that is there, and {} counts a second time; "
    "onDataLoss='latest' goes on from the end, and loses what was not read"
)
_CORRECT = "Correct bootstrapServers; or, if the stream is to go on in this cluster: "
_SHORTER = (
    "onDataLoss='earliest' and onDataLoss='latest' go on at the end of such a partition: what was written since, and "
    "lies before that end, is not read"
)


class Loss(NamedTuple):
    """A loss in words, and the ways to continue, with the messages that each of them loses or counts twice."""

    what: str
    way_out: str = GO_ON
    twice: str = ""
    """The messages that count a second time with onDataLoss='earliest'; "" if there are none."""

    def __str__(self) -> str:
        return self.what


def retention_loss(topic: str, partition: int, position: int, earliest: int) -> Loss:
    """Return the loss of a partition with first records that were deleted before they were read."""
    return Loss(
        f"{topic}-{partition} has lost the offsets {position} to {earliest - 1} before they were read (retention, or "
        f"deleted records)"
    )


def truncation_loss(topic: str, partition: int, position: int, end: int) -> Loss:
    """Return the loss of a partition that ends before offsets that were read."""
    what = "Kafka has lost records, or was restored"
    return Loss(f"{topic}-{partition} ends at offset {end} and was read up to {position}: {what}", _SHORTER)


def _other_content(topic: str, partition: int, position: int, facts: str) -> Loss:
    why = "Kafka was restored from an older copy, or lost records, and then gave their offsets to other messages"
    where = f"{topic}-{partition} is not what was read up to offset {position}"
    return _read_again(f"{where}: {facts}: {why}", "what was read before")


def anew_message_loss(topic: str, partition: int, position: int, known: str, seen: str) -> Loss:
    """Return the loss of a partition that has another message than was read."""
    return _other_content(topic, partition, position, f"{known} was the last one, and now there is {seen}")


def vanished_loss(topic: str, partition: int, position: int, known: str) -> Loss:
    """Return the loss of a partition that does not have a message that was read, though it still has its offset."""
    return _other_content(topic, partition, position, f"{known} was the last one, and has gone")


def cut_loss(topic: str, partition: int, position: int, epoch: int, end: int) -> Loss:
    """Return the loss of a partition with a leader that has lost records of an earlier leader's epoch."""
    return _other_content(topic, partition, position, f"what is left of leader epoch {epoch} ends at offset {end}")


def epoch_loss(topic: str, partition: int, position: int, former: int, present: int) -> Loss:
    """Return the loss of a partition with a leader epoch that went back, as it never does in one life of a cluster."""
    return _other_content(topic, partition, position, f"its leader epoch was {former}, and now is {present}")


def anew_loss(topic: str, former: str | None, present: str | None) -> Loss:
    """Return the loss of a topic that was deleted and re-created under its name."""
    what = f"topic {topic!r} was deleted and made anew (id {former} before, {present} now)"
    return _read_again(what, "what was copied from the former topic into this one")


def other_cluster_loss(topic: str, former: str, present: str, ids: tuple[str | None, str | None]) -> Loss:
    """Return the loss of a topic that was read in another cluster than the one that answers."""
    what = (
        f"topic {topic!r} was read in the cluster {former} (topic id {ids[0]}), and bootstrapServers lead to the "
        f"cluster {present} (topic id {ids[1]})"
    )
    return _read_again(what, "what a mirror copied from the former cluster", _CORRECT)


def _read_again(what: str, twice: str, first: str = "") -> Loss:
    return Loss(what, first + _AGAIN.format(twice), twice)


def deleted_loss(topic: str) -> Loss:
    """Return the loss of a topic that was deleted."""
    return Loss(f"topic {topic!r} was deleted, with what was not read of it")


class Losses:
    """The policy of a spout for lost data: raise DataLossError, or continue and log one warning for each loss."""

    def __init__(self, policy: OnDataLoss) -> None:
        self.policy = policy
        self._told: set[str] = set()

    def tell(self, losses: list[Loss]) -> None:
        """Raise DataLossError if there are losses and the policy is "fail"; otherwise log those that are new."""
        if losses and self.policy == "fail":
            more = f"; and {len(losses) - _SHOWN} more" if len(losses) > _SHOWN else ""
            ways = ". ".join(dict.fromkeys(loss.way_out for loss in losses))
            raise DataLossError(f"KafkaSpout: {'; '.join(map(str, losses[:_SHOWN]))}{more}. {ways}")
        for loss in losses:
            if loss.what not in self._told:
                self._told.add(loss.what)
                cost = f", and {loss.twice} counts a second time" if loss.twice and self.policy == "earliest" else ""
                _log.warning("KafkaSpout: %s; reading goes on because of onDataLoss=%r%s", loss, self.policy, cost)
