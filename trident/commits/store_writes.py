"""The writes of frozen batches into the stores of a group, and the healing of stores that lack some batches."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident.base.discard_advice import RESET
from trident.base.errors import FencedError, StateBehindError, StateLostError, StateRecoveringError
from trident.base.log_fields import RunLogger
from trident.commits.carriers import Carriers
from trident.compiler.program import Group
from trident.frozen.results import Result
from trident.log.frozen_batches import FrozenBatches, lacking, missed
from trident.log.protocol import Birth, TransactionLog
from trident.plan.nodes import StateWriter
from trident.recovery.incarnations import check_this_log, of_another_life
from trident_state.store import Store
from trident_state.store_messages import Applied

T = TypeVar("T")


@dataclass
class StoreWrites:
    """Writes one group's batches into its stores.

    Each write is done in a thread for states. `stores` are acquired under `lease`; `births` are the births of their
    states in the log.
    """

    group: Group
    log: TransactionLog
    lease: Lease
    stores: Mapping[str, Store]
    births: Mapping[str, Birth]
    frozen: FrozenBatches
    carriers: Carriers
    logger: RunLogger
    writing: set[str] = field(default_factory=set)
    """The states that are being written now."""

    def __post_init__(self) -> None:
        self._steps = {step.state.name: step for step in self.group.states}

    def write(self, step: StateWriter, txid: int, result: Result, values: bool) -> Applied:
        """Write one state's part of the batch.

        If the store lacks batches, heal it first. Called in a thread for states.
        """
        state = step.state.name
        reach("commit.state.before")
        self.writing.add(state)
        try:
            applied = self.carriers.write(step, txid, result, values)
        except StateBehindError:
            # Healed in this thread, because the turn waits for this thread, so no other write to this store can come in
            # between.
            self.heal(state, txid - 1)
            applied = self.carriers.write(step, txid, result, values)
        except FencedError:
            check_this_log(state, self.stores[state].report(), self.log.uuid)  # after a reset, epochs begin at 1 again
            raise
        finally:
            self.writing.discard(state)
        reach("commit.state.after")
        return applied

    def healed(self, states: Iterable[str], upto: int, work: Callable[[], T]) -> T:
        """Call `work`, which reads these states. If one lacks batches, heal it up to a txid and call `work` again.

        A state that does not belong to this group belongs to another topology, and is not healed here.
        """
        try:
            return work()
        except StateRecoveringError:
            states = list(states)
            if any(state not in self.stores for state in states):
                raise
            # No part of the result is frozen or written yet, so `work` may run again as a whole.
            for state in states:
                self.heal(state, upto)
            return work()

    def heal(self, state: str, upto: int) -> None:
        """Heal a rewound store: apply the frozen batches that the store lacks, up to batch `upto`.

        Raises StateLostError if the log does not keep all of these batches.
        """
        store, birth = self.stores[state], self.births[state]
        # The cheap check comes first, because the rest writes to the store, and the periodic check, a write and a read
        # may all ask for the same heal.
        if all(g.lease == self.lease and g.marker is not None and g.marker >= upto for g in store.groups_of()):
            return
        report = store.report()
        # Checked before the first write, because txids of two logs mean different batches (guard "healing, another
        # log").
        check_this_log(state, report, self.log.uuid)
        fell_back = of_another_life(report, birth)
        if fell_back or any(group.marker is None for group in report.groups):  # also if only one group is missing
            # Checked before the drop, so that a store that the log cannot rebuild is left unchanged.
            self._check_kept(state, birth.created_at, upto)
            # Raises FencedError if another driver took the log: that driver may have dropped the state on purpose.
            self.log.sync(self.lease)
            if fell_back:
                store.drop(self.lease)
                reach("heal.dropped")
            store.create(self.lease, birth.created_at)
            reach("heal.created")
        # Acquired before the markers are read: after this no earlier driver can move them.
        store.acquire(self.lease)
        reach("heal.acquired")
        # The least marker of all groups, because each group may have fallen back to another txid. `apply` skips a group
        # that holds the batch (docs/faults.md, subtle case 11).
        behind = min((g.marker if g.marker is not None else birth.created_at) for g in store.groups_of())
        if behind >= upto:
            return
        self._check_kept(state, behind, upto)
        for txid in range(behind + 1, upto + 1):
            self.carriers.write(self._steps[state], txid, self._frozen_for(state, txid), False)
            reach("heal.applied")
        text, fields = "state %r lacked batches %d to %d and was restored from the log", {"txid": upto}
        self.logger.info(text, state, behind + 1, upto, extra=fields)

    def _frozen_for(self, state: str, txid: int) -> Result:
        """Return the frozen result of a batch for a state."""
        try:
            found = self.frozen.of_state(txid, state)
        except LookupError:
            raise lacking(txid, self.group.name) from None
        # None means that the program that froze the batch did not have this state. An empty table in its place would
        # hide the missed batch.
        if found is not None:
            return found
        raise missed(state, txid, self.group.name)

    def _check_kept(self, state: str, behind: int, upto: int) -> None:
        kept, birth = self.log.kept_since(self.group.name), self.births[state]
        # The log keeps the first content of a state although it need not keep the batch of that txid.
        filling = behind < birth.txid and self.log.content(state, birth.txid) is not None
        if (birth.txid if filling else behind) < kept:
            raise StateLostError(
                f"state {state!r} is at txid {behind}, the log at {upto}, and the log keeps only the batches after "
                f"{kept}: the log cannot restore the state. Restore the store from a copy that is newer than txid "
                f"{kept}; or drop the state with dropState(name, {state!r}, ...), so that it starts empty with the "
                f"next batch; or discard log and states with {RESET}"
            )
