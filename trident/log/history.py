"""What the log tells of a batch group: its plans, positions and attempts, and where it stands at a start."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from trident_spouts.executor import Metadata

BatchPlan = dict[str, Metadata]
"""What names a batch: each spout's metadata by its stream's name, None for a spout that has nothing in this batch."""

Positions = dict[str, Metadata]
"""Where each spout stands after a batch: what its next plan starts from."""


def positions_after(previous: Positions, plan: BatchPlan, emitted: Positions | None = None) -> Positions:
    """Return where the spouts stand after a batch: where `emitted` says, for those that only know it after emission,
    else at the batch's own metadata; a spout that had nothing stays."""
    told = emitted or {}
    moved = {stream: metadata if told.get(stream) is None else told[stream] for stream, metadata in plan.items()}
    return {**previous, **{stream: position for stream, position in moved.items() if position is not None}}


class AttemptRecord(msgspec.Struct, frozen=True):
    """The last attempt at a batch of which nothing is frozen yet, as the log holds it.

    `epoch`: of the driver that made it. `deaths`: how many drivers in a row died before it with the batch under way.
    `digests`: what each transactional stream emitted for it (`trident.run.attempts`).
    """

    number: int
    epoch: int = 0
    deaths: int = 0
    digests: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class History:
    """What the log tells at a start.

    committed: the last committed txid. positions: where the spouts stand after the last frozen one.
    frozen: txids that are frozen and not committed, in order.
    attempts: the last attempt at each txid after these, where earlier runs made one.
    """

    committed: int = 0
    positions: Positions = field(default_factory=dict)
    frozen: tuple[int, ...] = ()
    attempts: Mapping[int, AttemptRecord] = field(default_factory=dict)

    @property
    def last_frozen(self) -> int:
        """The last frozen txid."""
        return self.committed + len(self.frozen)
