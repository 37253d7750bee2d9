"""The writes of frozen batches into the stores of a group, and the healing of stores that lack some batches."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident.base.errors import FencedError, StateBehindError, StateLostError, StateValueError
from trident.base.log_fields import RunLogger
from trident.base.values import OutsideYears
from trident.base.years import OUTSIDE_YEARS
from trident.commits.executors import Executors
from trident.compiler.program import Output
from trident.compiler.year_checks import WAY_OUT, check_years
from trident.frozen.results import FrozenFiles, Result
from trident.log.frozen_batches import FrozenBatches, lacking, missed
from trident.log.protocol import Birth, TransactionLog
from trident.recovery.incarnations import check_this_log, of_another_life
from trident_state.messages import Applied
from trident_state.store import Shared, Store


@dataclass
class StoreWrites:
    """Writes one group's batches into its stores.

    Each write is done in a thread for states. `stores` are acquired under `lease`; `births` are the births of their
    states in the log.
    """

    group: str
    log: TransactionLog
    lease: Lease
    stores: Mapping[str, Store]
    births: Mapping[str, Birth]
    frozen: FrozenBatches
    executors: Executors
    logger: RunLogger
    writing: set[str] = field(default_factory=set)
    """The states that are being written now."""

    def write(self, output: Output, txid: int, result: Result, values: bool) -> Applied:
        """Write one state's part of the batch. If the store is behind, heal it first. Called in a thread for states."""
        store = self.stores[output.name]
        reach("commit.state.before")
        self.writing.add(output.name)
        try:
            applied = self._applied(store, output.name, txid, result, values)
        except StateBehindError:
            # Healed in this thread, because the turn waits for it: no other write to this store can come between.
            self.heal(output.name, txid - 1)
            applied = self._applied(store, output.name, txid, result, values)
        except FencedError:
            check_this_log(output.name, store.report(), self.log.uuid)  # after a reset epochs begin at 1 again
            raise
        finally:
            self.writing.discard(output.name)
        reach("commit.state.after")
        return applied

    def _applied(self, store: Store, state: str, txid: int, result: Result, values: bool = False) -> Applied:
        """Apply a batch to a store, through the executors if they can write the state.

        Raises StateValueError for a time outside the accepted years, which is frozen or stored.
        """
        if isinstance(store, Shared) and isinstance(result, FrozenFiles) and self.executors.take(state, result):
            by_executors = self.executors.apply(
                store, state, self.lease, self.frozen.without_keys(txid, result), result
            )
            if by_executors is not None:
                return by_executors
        update = self.frozen.update(txid, result)
        try:
            return store.apply(self.lease, update, values)
        except (OutsideYears, OverflowError) as error:
            where = f"state {state!r}, batch {update.txid}"
            check_years(where, update.keys, (*update.keys.columns, update.deltas))
            if isinstance(error, OutsideYears):  # not in the batch, so it is stored; a read names its key
                raise StateValueError(f"{where}: stored is the time {error.text}: {OUTSIDE_YEARS}. {WAY_OUT}") from None
            raise

    def heal(self, state: str, upto: int) -> None:
        """Heal a rewound store: apply the frozen batches that the store lacks, up to batch `upto`.

        Raises StateLostError if the log does not keep all of these batches.
        """
        store, birth = self.stores[state], self.births[state].txid
        # The cheap check first, because what follows writes to the store, and the watch, a write and a read may all ask
        # for the same heal.
        if all(g.lease == self.lease and g.marker is not None and g.marker >= upto for g in store.groups_of()):
            return
        report = store.report()
        # Checked before the first write, because txids of two logs mean different batches (guard "healing, another
        # log").
        check_this_log(state, report, self.log.uuid)
        fell_back = of_another_life(report, self.births[state])
        if fell_back or any(group.marker is None for group in report.groups):  # also if only one group is gone
            # Checked before the drop, so that a store which the log cannot rebuild stays as it is.
            self._check_kept(state, birth, upto)
            # Raises FencedError if another driver took the log: that driver may have dropped the state on purpose.
            self.log.sync(self.lease)
            if fell_back:
                store.drop(self.lease)
            store.create(self.lease, birth)
        # Acquired before the markers are read: from here on no earlier driver can move them.
        store.acquire(self.lease)
        # The least marker of all groups, because each group may have fallen back to another txid. `apply` skips a group
        # that holds the batch (docs/faults.md, subtle case 11).
        behind = min((g.marker if g.marker is not None else birth) for g in store.groups_of())
        if behind >= upto:
            return
        self._check_kept(state, behind, upto)
        for txid in range(behind + 1, upto + 1):
            self._applied(store, state, txid, self._frozen_for(state, txid))
        text, fields = "state %r lacked the batches %d to %d; healed from the log", {"txid": upto}
        self.logger.info(text, state, behind + 1, upto, extra=fields)

    def _frozen_for(self, state: str, txid: int) -> Result:
        """Return the frozen result of a batch for a state."""
        try:
            found = self.frozen.of_state(txid, state)
        except LookupError:
            raise lacking(txid, self.group) from None
        # None means that the program which froze the batch did not have this state. An empty table instead would hide
        # what the state missed.
        if found is not None:
            return found
        raise missed(state, txid, self.group)

    def _check_kept(self, state: str, behind: int, upto: int) -> None:
        kept = self.log.kept_since(self.group)
        if behind < kept:
            raise StateLostError(
                f"state {state!r} stands at txid {behind}, the log at {upto}, and the log keeps only the batches after "
                f"{kept}: the state cannot be healed. Restore the store from a copy that is newer than txid {kept}; or "
                f"let the state begin anew from the next batch with dropState(name, {state!r}, ...); or give up log "
                f"and states with topology.reset(name, checkpointLocation)"
            )
