"""The commit turn: write one frozen batch into every state of its group, stage by stage.

It is synchronous, and does not depend on a clock. Every call may be repeated after any failure, because each step first
finds out what an earlier try has done: a frozen stage is read from the log, and a store skips keys that it has written.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import pyarrow as pa

from trident.base.attempt import Lease, TransactionAttempt
from trident.base.clock import Clock, SystemClock
from trident.base.crash_points import reach
from trident.base.errors import (
    FencedError,
    LogCorruptError,
    StateBehindError,
    StateLostError,
    StateValueError,
)
from trident.base.log_fields import RunLogger
from trident.base.values import OutsideYears
from trident.base.years import OUTSIDE_YEARS
from trident.commits.executors import Executors, StageTables
from trident.commits.operator_hooks import OperatorHooks
from trident.commits.output_memory import KEPT
from trident.commits.state_queries import StateQueries
from trident.commits.updates import Updates
from trident.commits.user_code import UserCode
from trident.compiler.engine import Puts
from trident.compiler.program import Group, Output, Stage
from trident.compiler.states.shapes import new_values
from trident.compiler.year_checks import WAY_OUT, check_years
from trident.files.store import FileStore
from trident.frozen.files import FrozenFolders
from trident.frozen.results import FrozenFiles, Result
from trident.log.frozen_batches import FrozenBatches, missed
from trident.log.frozen_results import (
    FrozenOutput,
    dropped_of,
    freeze,
    with_life,
    with_skipped,
    without_skipped,
)
from trident.log.protocol import Birth, TransactionLog
from trident.plan.nodes import (
    LettersOf,
    Node,
    Sink,
    StateQuery,
    StateUpdate,
    StateWriter,
    Window,
)
from trident.reads.static_states import ReadableStore
from trident.recovery.folder_owner import check_objects_ours
from trident.recovery.incarnations import check_this_log, of_another_life
from trident.recovery.program_compatibility import Names
from trident.telemetry.event_time import EventTime
from trident.telemetry.hottest_key import hottest_of
from trident.telemetry.turn_summary import StateSummary, TurnSummary, note_duplicates_dropped
from trident_state.messages import Applied
from trident_state.store import Shared, Store

logger = logging.getLogger(__name__)


@dataclass
class Committer:
    """Commits one group's batches.

    `stores` are acquired under `lease`; `births` are the births of their states in the log. `waiting` has, for each
    batch that an earlier run froze, the names that the batch's outputs have in this program.

    The commit thread calls it, with these exceptions: run threads call `with_ttl`, `frozen` and, after a trim,
    `forget`, which only read what never changes; a start calls `sweep` and `heal` before the commit thread exists.
    """

    group: Group
    log: TransactionLog
    lease: Lease
    stores: Mapping[str, Store]
    births: Mapping[str, Birth]
    files: FileStore
    code: UserCode
    waiting: Mapping[int, Names] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    """The clock for commit times. Nothing is decided by them."""
    puts: Puts | None = None
    """Puts by Spark's workers; None if the engine has no workers."""
    statics: Mapping[str, ReadableStore] = field(default_factory=dict)
    """The states that the topology only reads."""
    folders: FrozenFolders | None = None
    """The folders for large results; None if no place lasts as long as the log."""
    topology: str = ""
    """The topology's name, for records in the Python log."""
    writing: set[str] = field(default_factory=set)
    """The states that a turn is writing now. The thread that writes a state adds and removes the state's name; `status`
    reads the set."""

    def __post_init__(self) -> None:
        self._frozen = FrozenBatches(self.log, self.group.name, self.files)
        self._logger = RunLogger(logger, topology=self.topology, group=self.group.name)
        self._time = EventTime(self.stores)
        self._executors = Executors(self.group, self.stores, self.puts, self.files, self.statics)
        self._queries = StateQueries(self.group, self.stores, self.births, self.code, self._executors, self.heal)
        self._hooks = OperatorHooks(self.group.states, self.code, self._logger)
        self._updates = Updates(
            self.group,
            self.stores,
            self.code,
            self._frozen,
            self._executors,
            self._hooks,
            frozenset(self._ttls),
            self.heal,
            self._queries.answer_committed,
            self.folders,
            self.lease.epoch,
        )

    def commit(self, txid: int, first: Mapping[str, Result] | None = None) -> TurnSummary:
        """Apply batch `txid` and log COMMITTED. `first`: the results of stage 1 if they are still at hand.

        User code runs in threads of its own (`code`), and this waits for it. The result of a call that returns
        too late is dropped, and nothing of it is written.
        """
        reach("commit.before")
        summary = TurnSummary()
        tables: StageTables = {}
        rows: dict[Node, int] = {}
        to_sinks: list[tuple[Sink, Result]] = []
        for stage in self.group.stages:
            results = self._results(stage, txid, first if stage.number == 1 else None, tables, summary)
            tables |= self._apply(stage, txid, results, summary, self._awaited(stage, txid))
            summary.dead |= {
                o.step.source.step: results[o.name].num_rows
                for o in stage.updates
                if isinstance(o.step, LettersOf) and o.name in results
            }
            rows |= {o.step: results[o.name].num_rows for o in stage.frozen if o.name in results}
            note_duplicates_dropped(stage, rows, tables, summary.states)
            to_sinks += [(o.step, results[o.name]) for o in stage.frozen if isinstance(o.step, Sink)]
        reach("commit.states.after")
        # Outputs come last: what leaves the topology cannot be taken back, and before that a store may still fail.
        for sink, result in to_sinks:
            summary.outputs[sink.name] = self._hand_over(sink, result, txid)
        reach("committed.before")
        # After the outputs: a driver that dies between the two hands the same rows over again. In the other order the
        # rows would be lost (tests/faults/test_kill_points_outputs.py).
        summary.time = self.clock.time()
        took = [sink.name for sink, result in to_sinks if isinstance(sink, KEPT) and result.num_rows]
        self.log.committed(self.lease, self.group.name, txid, summary.time, took)
        reach("committed.after")
        self._hooks.committed(txid)
        return summary

    def _hand_over(self, sink: Sink, result: Result, txid: int) -> int:
        """Hand a batch's tuples over to an output, after every state holds the batch. Return the number of tuples."""
        if self.log.lease() != self.lease:  # the output itself may not notice, or not before it has done something
            raise FencedError("the log was taken over by another driver; this one stops")
        reach("output.before")
        self.code.hand_over(sink, result, txid)
        reach("output.after")
        return result.num_rows

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
        self._logger.info(text, state, behind + 1, upto, extra=fields)

    def _frozen_for(self, state: str, txid: int) -> Result:
        """Return the frozen result of a batch for a state."""
        try:
            found = self._frozen.of_state(txid, state)
        except LookupError:
            raise self._lacking(txid) from None
        # None means that the program which froze the batch did not have this state. An empty table instead would hide
        # what the state missed.
        if found is not None:
            return found
        raise missed(state, txid, self.group.name)

    # --- the stages ------------------------------------------------------------------------------------------

    def _results(
        self,
        stage: Stage,
        txid: int,
        at_hand: Mapping[str, Result] | None,
        tables: StageTables,
        summary: TurnSummary,
    ) -> Mapping[str, Result]:
        """Return a stage's results by output: those at hand, otherwise those in the log, otherwise new ones.

        New results are frozen here.
        """
        if at_hand is not None:
            return at_hand
        frozen = self._frozen.stage(txid, stage.number)
        if frozen is not None:
            results, skipped = without_skipped(frozen)
            summary.skipped.update(skipped)
            names = self.waiting.get(txid)
            return results if names is None else {names[name]: r for name, r in results.items() if name in names}
        # Stage 1 is never computed here: its spouts may give other tuples by now (decision 1).
        if stage.number == 1:
            raise self._lacking(txid)
        reach("commit.stage.before")
        results, skipped = dict[str, Result](), dict[str, int]()
        if stage.runs:
            ran = self.code.run_stage(stage, {node: tables[node] for node in stage.inputs}, txid, self.lease.epoch)
            results.update(ran.results)
            skipped.update(ran.skipped)
            summary.steps.extend(ran.steps)
        results = self.with_ttl({**results, **self._updates.results(stage, txid, tables, self._unborn(txid))})
        # The results are frozen before anything that follows from them is written: a repeated turn must not compute
        # them again, from states that hold a part of this batch already.
        renamed = self._under_frozen_names(results, txid)
        outputs = self.frozen(renamed, skipped, TransactionAttempt(txid, 0, self.lease.epoch), stage.number)
        self.log.freeze_stage(self.lease, self.group.name, txid, stage.number, outputs)
        summary.skipped.update(skipped)
        reach("commit.stage.frozen")
        return results

    def _under_frozen_names(self, results: Mapping[str, Result], txid: int) -> Mapping[str, Result]:
        """Return a later stage's results under the names of the program that froze the batch.

        All stages of a batch are frozen under the names of one program. A result for which that program has no
        name belongs to a state that was dropped, and is left out.
        """
        names = self.waiting.get(txid)
        if names is None:
            return results
        return {former: results[name] for former, name in names.items() if name in results}

    def _unborn(self, txid: int) -> set[str]:
        """Return the states that were born after this batch.

        Such a state was dropped and began anew: it gets nothing of the batch, and gives nothing to later stages.
        """
        return {state for state, birth in self.births.items() if birth.txid >= txid}

    def _awaited(self, stage: Stage, txid: int) -> set[Node]:
        """Return the steps from which later stages start; no step if all later stages are frozen.

        Once all later stages are frozen, nothing may be read for them, because the states may be at later batches
        already and no longer have this batch's values. That happens if a power loss removed COMMITTED from the log,
        while a server kept the batch.
        """
        later = [other for other in self.group.stages if other.number > stage.number]
        if all(self.log.frozen(self.group.name, txid, stage.number) is not None for stage in later):
            return set()
        return {node for stage in later for node in stage.reads}

    def _apply(
        self,
        stage: Stage,
        txid: int,
        results: Mapping[str, Result],
        summary: TurnSummary,
        awaited: set[Node],
    ) -> StageTables:
        """Write the stage's states side by side, and answer its queries.

        Return, for those of its steps that are `awaited`, the tables from which later stages start.
        """
        written, later = summary.states, self._by_reference(stage, txid, results, summary, awaited)
        unborn = self._unborn(txid)
        outputs = {o.name for o in stage.frozen if isinstance(o.step, Sink)}
        wanted = {n for n in results if (awaited or n in self.stores) and n not in unborn and n not in outputs}
        # Large results are read here only for a state, or where a later stage is still to be computed. Outputs read the
        # files themselves.
        put = {name for name in wanted & set(self.stores) if self._by_executors(name, results[name])}
        shared = put | {output.name for output in stage.frozen if output.step in later}
        # An update's result is the new values themselves, which a later step may want here.
        shared -= {o.name for o in stage.updates if o.step in awaited and o.step not in later}
        tables = {name: self._frozen.whole(results[name]) for name in wanted - shared}
        given = {**results, **{name: table for name, table in tables.items() if name not in put}}
        queries = [o for o in stage.outputs if awaited and isinstance(o.step, StateQuery) and o.step not in later]
        for output in queries:  # before this stage's writes: a query sees the batches before this one
            asking = tables.get(output.name, output.schema.empty_table())
            later[output.step] = self._queries.answer(output, asking, txid)
        for output in stage.frozen:
            if awaited and output.carried and output.step not in later:
                later[output.step] = tables.get(output.name, output.schema.empty_table())
        steps = [(o, o.step) for o in stage.frozen if isinstance(o.step, StateWriter)]
        later |= {step: new_values(step, o.schema.empty_table()) for o, step in steps if o.name in unborn}
        self._hooks.before_writes((step for o, step in steps if o.name not in unborn), txid)
        asking_values = {step for step in awaited if not isinstance(step, StateUpdate)}  # an update's values are known
        futures = [
            (o, self.code.write(partial(self._write, o, txid, given[o.name], step in asking_values)))
            for o, step in steps
            if o.name not in unborn
        ]
        # All writes are waited for, even if one has failed: the next try must not meet a write of this one.
        failures: list[BaseException] = []
        for output, future in futures:
            error = future.exception()
            if error is not None:
                failures.append(error)
                continue
            assert isinstance(output.step, StateWriter)
            applied, table = future.result(), tables.get(output.name)
            written[output.name] = self._summary(output, given[output.name], applied)
            if table is None:  # executors have it, and no later stage reads it
                continue
            if isinstance(output.step, StateUpdate):  # its result is the new values themselves
                later[output.step] = table
            elif applied.values is not None:
                last = table.num_columns - 1
                values = table.set_column(last, table.schema.field(last), applied.values)
                later[output.step] = new_values(output.step, values)
        if failures:
            raise failures[0]
        self._note_times([step for _, step in steps if isinstance(step, Window)], tables, results, txid, written)
        return later

    def _by_reference(
        self, stage: Stage, txid: int, results: Mapping[str, Result], summary: TurnSummary, awaited: set[Node]
    ) -> StageTables:
        """Return the inputs of later stages that the workers, not the driver, read from this stage's frozen files."""
        later: StageTables = {}
        for output in stage.frozen:
            step, frozen = output.step, results.get(output.name)
            if step not in awaited or not isinstance(frozen, FrozenFiles):
                continue
            if output.carried or isinstance(step, StateUpdate):
                emission = self._executors.carry(output, frozen)
            elif isinstance(step, StateQuery):
                emission = self._queries.ask(step, frozen, txid)
                if emission is not None:
                    summary.asked[step.step] = frozen.num_rows
            else:
                emission = None
            if emission is not None:
                later[step] = emission
        return later

    def _note_times(
        self,
        windows: list[Window],
        tables: Mapping[str, pa.Table],
        results: Mapping[str, Result],
        txid: int,
        written: Mapping[str, StateSummary],
    ) -> None:
        """Note in the summaries of windows their watermarks, and how many rows were late."""
        unborn = self._unborn(txid)
        for step in windows:
            name, watermark = step.state.name, step.watermark
            if name in written and watermark is not None and watermark.state.name not in unborn:
                written[name].time = self._time.of(watermark, tables, dropped_of(results[name]), txid)

    def _summary(self, output: Output, given: Result, applied: Applied) -> StateSummary:
        hottest = hottest_of(output.step, given) if isinstance(given, pa.Table) else None
        summary = StateSummary(given.num_rows, applied.written, hottest)
        if self._by_executors(output.name, given):
            summary.writers = "executors"
        return summary

    def _by_executors(self, state: str, result: Result) -> bool:
        """Return whether executors write a result into a state, so that the driver reads none of it."""
        return self._executors.take(state, result)

    def _write(self, output: Output, txid: int, result: Result, values: bool) -> Applied:
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

        Raises StateValueError for a time that a former version froze or stored.
        """
        if isinstance(store, Shared) and isinstance(result, FrozenFiles) and self._by_executors(state, result):
            by_executors = self._executors.apply(
                store, state, self.lease, self._frozen.without_keys(txid, result), result
            )
            if by_executors is not None:
                return by_executors
        update = self._frozen.update(txid, result)
        try:
            return store.apply(self.lease, update, values)
        except (OutsideYears, OverflowError) as error:
            where = f"state {state!r}, batch {update.txid}"
            check_years(where, update.keys, (*update.keys.columns, update.deltas))
            if isinstance(error, OutsideYears):  # not in the batch, so it is stored; a read names its key
                raise StateValueError(f"{where}: stored is the time {error.text}: {OUTSIDE_YEARS}. {WAY_OUT}") from None
            raise

    # --- results and their files -----------------------------------------------------------------------------

    def with_ttl(self, results: Mapping[str, Result]) -> dict[str, Result]:
        """Return results that are about to be frozen, with the time to live of each state's values added.

        It is frozen with the batch: a driver with another `ttlSecs` that applies the batch again must not bring
        back values that have expired.
        """
        return {name: with_life(result, self._ttls.get(name)) for name, result in results.items()}

    @cached_property
    def _ttls(self) -> dict[str, float]:
        """The time to live, in seconds, of each state whose values expire."""
        ttls = {step.state.name: getattr(step.state.factory, "ttlSecs", None) for step in self.group.states}
        return {name: float(ttl) for name, ttl in ttls.items() if ttl is not None}

    def frozen(
        self, results: Mapping[str, Result], skipped: Mapping[str, int], attempt: TransactionAttempt, stage: int
    ) -> dict[str, FrozenOutput]:
        """Return a stage's results in the form in which the log stores them."""
        for name, result in results.items():
            if isinstance(result, pa.Table):
                check_years(f"{name.rstrip('|')!r}, batch {attempt.txid}", result, result.columns)
                check_keys = getattr(self.stores.get(name), "check_keys", None)
                if check_keys is not None:  # the last column is the value
                    check_keys(result.select(range(result.num_columns - 1)))
        beside = None if self.folders is None else self.folders.folder(self.group.name, attempt, stage)
        outputs = {name: freeze(result, beside) for name, result in with_skipped(results, skipped).items()}
        if any(output.files for output in outputs.values()):
            check_objects_ours(self.files, self.lease)  # a copy of the log may be sweeping what this one does not name
        return outputs

    def sweep(self) -> None:
        """Delete the files of attempts of earlier drivers of this log that never froze."""
        named = self.log.folders(self.group.name)
        for folder in FrozenFolders(self.files, self.log.uuid).folders(self.group.name):
            epoch = folder.rpartition("/")[2].partition("-")[0]
            # Not those of a later epoch: another driver may have taken the log meanwhile, and be writing there.
            if epoch.isdigit() and int(epoch) < self.lease.epoch and folder not in named:
                self.files.remove(folder)

    def forget(self, folders: list[str]) -> None:
        """Delete folders of files that no frozen batch names any more."""
        # The caller has synced the log since it dropped these batches: else a power loss brings back a log that names
        # the files (guard "trim, files").
        for folder in folders:
            self.files.remove(folder)

    def _lacking(self, txid: int) -> LogCorruptError:
        return LogCorruptError(f"group {self.group.name!r} lacks the frozen content of batch {txid}")

    def _check_kept(self, state: str, behind: int, upto: int) -> None:
        kept = self.log.kept_since(self.group.name)
        if behind < kept:
            raise StateLostError(
                f"state {state!r} stands at txid {behind}, the log at {upto}, and the log keeps only the batches after "
                f"{kept}: the state cannot be healed. Restore the store from a copy that is newer than txid {kept}; or "
                f"let the state begin anew from the next batch with dropState(name, {state!r}, ...); or give up log "
                f"and states with topology.reset(name, checkpointLocation)"
            )
