"""The records of a batch group in the log: plans, positions, attempts, and the group's progress."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from trident_spouts.executor import Metadata

BatchPlan = dict[str, Metadata]
"""The plan of a batch: each spout's metadata by the name of its stream. None: the spout has no tuples in this batch."""

Positions = dict[str, Metadata]
"""The position of each spout after a batch, by the name of its stream. The spout's next plan begins there."""


def positions_after(previous: Positions, plan: BatchPlan, emitted: Positions | None = None) -> Positions:
    """Return the positions of the spouts after a batch.

    The position of a spout that knows it only after emission is in `emitted`. The position of any other spout is its
    metadata in `plan`; a spout without metadata in `plan` keeps its position in `previous`.
    """
    known = emitted or {}
    moved = {stream: metadata if known.get(stream) is None else known[stream] for stream, metadata in plan.items()}
    return {**previous, **{stream: position for stream, position in moved.items() if position is not None}}


class AttemptRecord(msgspec.Struct, frozen=True):
    """The last attempt at a batch that has nothing frozen yet, as the log stores it.

    `number`: the attempt's number. `epoch`: the epoch of the driver that made it. `deaths`: how many drivers in a row
    died before this attempt while the batch was under way. `digests`: checksums of the tuples that each transactional
    stream emitted for the batch (`trident.batches.attempts`).
    """

    number: int
    epoch: int = 0
    deaths: int = 0
    digests: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class History:
    """The progress of a group, as the log records it, at a start.

    committed: the last committed txid. positions: the positions of the spouts after the last frozen batch.
    frozen: the txids of the waiting batches, in order.
    attempts: by txid, the last attempt of an earlier run at each batch after the last frozen batch.
    """

    committed: int = 0
    positions: Positions = field(default_factory=dict)
    frozen: tuple[int, ...] = ()
    attempts: Mapping[int, AttemptRecord] = field(default_factory=dict)

    @property
    def last_frozen(self) -> int:
        """The txid of the last frozen batch."""
        return self.committed + len(self.frozen)
