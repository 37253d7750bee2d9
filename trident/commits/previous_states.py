"""The states of a group as the updates of a batch see them: as of the previous batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from trident.compiler.states.update_types import WindowBatch
from trident.log.frozen_batches import FrozenBatches
from trident.plan.nodes import StateUpdate, watermarks_of
from trident.reads.commit_turn_reads import AsOf
from trident_state.store import Store


@dataclass(frozen=True, slots=True)
class PreviousStates:
    """The states of one group as of the previous batch. `expiring` are the states whose values expire."""

    stores: Mapping[str, Store]
    frozen: FrozenBatches
    expiring: frozenset[str]

    def expiry(self, state: str, txid: int) -> float | None:
        """Return the time that decides which values of a state have expired for a batch; None if they never expire."""
        # With a time, reads omit values that expire with this batch (guard "expiry, an update that reads"). The time is
        # frozen, so that every replay omits the same ones.
        return self.frozen.time(txid) if state in self.expiring else None

    def state(self, state: str, txid: int) -> AsOf:
        """Return a state as of the previous batch."""
        return AsOf(self.stores[state], txid - 1, self.expiry(state, txid))

    def window_batch(self, step: StateUpdate, txid: int) -> WindowBatch:
        """Return the batch as an update sees it: its time, and the step's watermarks before the batch."""
        stored = [self.state(watermark.state.name, txid) for watermark in watermarks_of(step)]
        first, second = [*stored, None, None][:2]
        return WindowBatch(txid, partial(self.frozen.time, txid), first, second)
