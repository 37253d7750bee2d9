"""Lost data, and the policy for it. Data are lost if Kafka no longer has the offsets that a stream would read next."""

import logging
from typing import Literal, TypeAlias

from trident.base.errors import DataLossError

OnDataLoss: TypeAlias = Literal["fail", "earliest", "latest"]

_log = logging.getLogger("trident.spouts")

_SHOWN = 3


def retention_loss(topic: str, partition: int, position: int, earliest: int) -> str:
    """Return in words the loss of a partition whose first records were deleted before they were read."""
    return (
        f"{topic}-{partition} has lost the offsets {position} to {earliest - 1} before they were read (retention, or "
        f"deleted records)"
    )


def truncation_loss(topic: str, partition: int, position: int, end: int) -> str:
    """Return in words the loss of a partition that ends before offsets that were read."""
    what = "Kafka has lost records, or was restored"
    return f"{topic}-{partition} ends at offset {end} and was read up to {position}: {what}"


def anew_loss(topic: str, former: str | None, present: str | None) -> str:
    """Return in words the loss of a topic that was deleted and re-created under its name."""
    return f"topic {topic!r} was deleted and made anew (id {former} before, {present} now)"


def deleted_loss(topic: str) -> str:
    """Return in words the loss of a topic that was deleted."""
    return f"topic {topic!r} was deleted, with what was not read of it"


class Losses:
    """The policy of a spout for lost data: raise DataLossError, or continue and log one warning for each loss."""

    def __init__(self, policy: OnDataLoss) -> None:
        self.policy = policy
        self._told: set[str] = set()

    def tell(self, losses: list[str]) -> None:
        """Raise DataLossError if there are losses and the policy is "fail"; otherwise log those that are new."""
        if losses and self.policy == "fail":
            more = f"; and {len(losses) - _SHOWN} more" if len(losses) > _SHOWN else ""
            raise DataLossError(
                f"KafkaSpout: {'; '.join(losses[:_SHOWN])}{more}. To go on without what is lost, start with "
                f"onDataLoss='earliest' (from the first offset that is there) or onDataLoss='latest' (from the end)"
            )
        for loss in losses:
            if loss not in self._told:
                self._told.add(loss)
                _log.warning("KafkaSpout: %s; reading goes on because of onDataLoss=%r", loss, self.policy)
