"""The commit turn of a batch: freeze its later stages, end each stage, serve the outputs, log COMMITTED.

It is synchronous, and does not depend on a clock. Every call may be repeated after any failure, because each step first
determines the results of earlier attempts: a frozen stage is read from the log, and a store skips keys that it has
written.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from trident.base.attempt import Lease, TransactionAttempt
from trident.base.cached_property import cached_property
from trident.base.clock import Clock, SystemClock
from trident.base.crash_points import reach
from trident.base.errors import FencedError, SparkFailedError
from trident.base.log_fields import RunLogger
from trident.commits.carrier import StageTables
from trident.commits.carriers import Carriers
from trident.commits.driver_carrier import DriverCarrier
from trident.commits.due_states import DueStates
from trident.commits.executor_carrier import ExecutorCarrier
from trident.commits.latest_search import LatestSearch
from trident.commits.operator_hooks import OperatorHooks
from trident.commits.output_memory import KEPT
from trident.commits.previous_states import PreviousStates
from trident.commits.reachable_stores import ReachableStores
from trident.commits.stage_writes import StageTurn, StageWrites
from trident.commits.state_queries import StateQueries
from trident.commits.store_writes import StoreWrites
from trident.commits.updates import Updates
from trident.commits.user_code import UserCode
from trident.compiler.carrier_choice import CarrierPlan
from trident.compiler.engine import Puts
from trident.compiler.program import Group, Stage
from trident.compiler.states.shapes import shape_of
from trident.compiler.year_checks import check_years
from trident.files.store import FileStore
from trident.frozen.files import FrozenFolders, secure
from trident.frozen.results import FrozenFiles, Result
from trident.log.frozen_batches import FrozenBatches, lacking
from trident.log.frozen_results import (
    FrozenOutput,
    freeze,
    with_life,
    with_shape,
    with_skipped,
    without_skipped,
)
from trident.log.protocol import Birth, TransactionLog
from trident.plan.nodes import LateTuples, LettersOf, Node, Sink
from trident.reads.static_states import ReadableStore
from trident.recovery.folder_owner import check_objects_ours
from trident.recovery.program_compatibility import Names
from trident.telemetry.event_time import EventTime
from trident.telemetry.turn_summary import TurnSummary, note_duplicates_dropped
from trident_state.store import Store, ttl_of_factory

logger = logging.getLogger(__name__)


@dataclass
class Committer:
    """Commits one group's batches.

    `stores` are acquired under `lease`; `births` are the births of their states in the log. `waiting` has, for each
    batch that an earlier run froze, the names that the batch's outputs have in this program.

    The commit thread calls it, with these exceptions: run threads call `with_ttl`, `frozen` and, after a trim,
    `forget`, which read only constant fields; a start calls `sweep` and `heal` before the commit thread exists.
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
    """The clock for commit times. No decision depends on them."""
    puts: Puts | None = None
    """Puts by Spark's workers; None if the engine has no workers."""
    statics: Mapping[str, ReadableStore] = field(default_factory=dict)
    """The states that the topology only reads."""
    folders: FrozenFolders | None = None
    """The folders for large results; None if no file store lasts as long as the log."""
    topology: str = ""
    """The topology's name, for records in the Python log."""
    writing: set[str] = field(default_factory=set)
    """The states that a turn is writing now. The thread that writes a state adds and removes the state's name; `status`
    reads the set."""

    def __post_init__(self) -> None:
        self._evicted, self._late = Counter[str](), Counter[str]()
        steps = [output.step for stage in self.group.stages for output in stage.frozen]
        self._with_late = {step.window.state.name for step in steps if isinstance(step, LateTuples)}
        self._frozen = FrozenBatches(self.log, self.group.name, self.files)
        self._hooks = OperatorHooks(self.group.states, self.code, self._logger)
        before = PreviousStates(self.stores, self._frozen, frozenset(self._ttls))
        carriers = self._carriers(before)
        self._stores = StoreWrites(
            self.group,
            self.log,
            self.lease,
            self.stores,
            self.births,
            self._frozen,
            carriers,
            self._logger,
            self.writing,
        )
        queries = StateQueries(self.group, self.births, self.code, carriers, self._stores)
        self._ends = StageWrites(self._stores, queries, self._hooks, self.code, EventTime(self.stores))
        self.dues = DueStates(self.group, self.stores, self.births)
        self._updates = Updates(carriers, before, queries, self._stores, self.dues)

    def _carriers(self, before: PreviousStates) -> Carriers:
        """Return the carriers of the group's work. Executors are among them only if the engine has workers."""
        lease, frozen, code, puts, plan = self.lease, self._frozen, self.code, self.puts, CarrierPlan(self.group)
        latest = None if puts is None else LatestSearch(puts, code)
        driver = DriverCarrier(self.stores, lease, frozen, before, code, self._hooks, latest)
        if puts is None or latest is None:
            return Carriers(plan, driver, None)
        stores = {**self.statics, **self.stores}
        reach = ReachableStores(puts, stores)
        executors = ExecutorCarrier(plan, stores, lease, frozen, before, code, puts, reach, latest, self.folders)
        return Carriers(plan, driver, executors)

    @cached_property
    def _logger(self) -> RunLogger:
        return RunLogger(logger, topology=self.topology, group=self.group.name)

    def commit(self, txid: int, first: Mapping[str, Result] | None = None) -> TurnSummary:
        """Apply batch `txid` and log COMMITTED. `first`: the results of stage 1 if they are still in memory.

        User code runs in separate threads (`code`), and this method waits for them. The result of a call that returns
        too late is dropped and not written.
        """
        reach("commit.before")
        summary = TurnSummary()
        tables: StageTables = {}
        rows: dict[Node, int] = {}
        to_sinks: list[tuple[Sink, Result]] = []
        for stage in self.group.stages:
            results = self._results(stage, txid, first if stage.number == 1 else None, tables, summary)
            turn = StageTurn(stage, txid, results, self._awaited(stage, txid), self._unborn(txid))
            tables |= self._ends.end(turn, summary)
            summary.dead |= {
                o.step.source.step: results[o.name].num_rows
                for o in stage.updates
                if isinstance(o.step, LettersOf) and o.name in results
            }
            rows |= {o.step: results[o.name].num_rows for o in stage.frozen if o.name in results}
            note_duplicates_dropped(stage, rows, tables, summary.states)
            to_sinks += [(o.step, results[o.name]) for o in stage.frozen if isinstance(o.step, Sink)]
        reach("commit.states.after")
        # Outputs come last: tuples that leave the topology cannot be taken back, and before that a store may still
        # fail.
        for sink, result in to_sinks:
            summary.outputs[sink.name] = self._hand_over(sink, result, txid)
        reach("committed.before")
        # After the outputs: if a driver dies between the two, the next driver hands over the same rows again. In the
        # other order the rows would be lost (tests/faults/test_kill_points_outputs.py).
        summary.time = self.clock.time()
        took = [sink.name for sink, result in to_sinks if isinstance(sink, KEPT) and result.num_rows]
        self.log.committed(self.lease, self.group.name, txid, summary.time, took)
        reach("committed.after")
        self._hooks.committed(txid)
        self._warn_of_losses(summary)
        return summary

    def _warn_of_losses(self, summary: TurnSummary) -> None:
        """Warn of evicted dead letters and dropped late rows, and again each time that their number has doubled.

        Late tuples that a step reads, by `late()` of the window or join, are not lost.
        """
        for name, state in summary.states.items():
            dropped = state.time.dropped if state.time is not None and name not in self._with_late else 0
            if state.time is not None and _doubles(self._late, name, dropped):
                self._logger.warning(
                    "state %r has dropped late rows, %d since the start: they were older than its watermark, now %s. A "
                    "greater lateness= waits longer for such rows, and late() gives them",
                    name,
                    self._late[name],
                    state.time.watermark,
                )
            if _doubles(self._evicted, name, state.evicted):
                self._logger.warning(
                    "state %r has removed its oldest %d dead letters since the start, because it keeps only the newest "
                    "ones. They cannot be replayed any more. Replay or export the letters that it has, correct their "
                    "cause, or give deadLetterState a larger most=",
                    name,
                    self._evicted[name],
                )

    def _hand_over(self, sink: Sink, result: Result, txid: int) -> int:
        """Hand a batch's tuples over to an output, after every state holds the batch. Return the number of tuples."""
        if self.log.lease() != self.lease:  # the output may not notice a takeover itself, or only after an effect
            raise FencedError("another driver has taken over the log; this driver stops")
        reach("output.before")
        self.code.hand_over(sink, result, txid)
        reach("output.after")
        return result.num_rows

    def heal(self, state: str, upto: int) -> None:
        """Heal a rewound store; see `StoreWrites.heal`."""
        self._stores.heal(state, upto)

    # --- the stages ------------------------------------------------------------------------------------------

    def _results(
        self,
        stage: Stage,
        txid: int,
        at_hand: Mapping[str, Result] | None,
        tables: StageTables,
        summary: TurnSummary,
    ) -> Mapping[str, Result]:
        """Return a stage's results by output: from memory, otherwise from the log, otherwise computed now.

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
        # Stage 1 is never computed here, because its spouts may return other tuples by now (decision 1).
        if stage.number == 1:
            raise lacking(txid, self.group.name)
        reach("commit.stage.before")
        results, skipped = dict[str, Result](), dict[str, int]()
        if stage.runs:
            ran = self.code.run_stage(stage, {node: tables[node] for node in stage.inputs}, txid, self.lease.epoch)
            results.update(ran.results)
            skipped.update(ran.skipped)
            summary.steps.extend(ran.steps)
            summary.shown.extend(ran.shown)
            summary.engines[stage.number] = ran.engine
        results = self.with_ttl({**results, **self._updates.results(stage, txid, tables, self._unborn(txid))})
        # The results are frozen before anything computed from them is written, because a repeated turn must not compute
        # them again from states that already hold a part of this batch.
        renamed = self._under_frozen_names(results, txid)
        outputs = self.frozen(renamed, skipped, TransactionAttempt(txid, 0, self.lease.epoch), stage.number)
        self.log.freeze_stage(self.lease, self.group.name, txid, stage.number, outputs)
        summary.skipped.update(skipped)
        reach("commit.stage.frozen")
        return results

    def _under_frozen_names(self, results: Mapping[str, Result], txid: int) -> Mapping[str, Result]:
        """Return a later stage's results under the names of the program that froze the batch.

        All stages of a batch are frozen under the names of one program. A result without a name in that program belongs
        to a state that was dropped, and is left out.
        """
        names = self.waiting.get(txid)
        if names is None:
            return results
        return {former: results[name] for former, name in names.items() if name in results}

    def _unborn(self, txid: int) -> set[str]:
        """Return the states that were born after this batch.

        Such a state was dropped and created again: it gets no data of the batch, and gives no tuples to later stages.
        """
        return {state for state, birth in self.births.items() if birth.txid >= txid}

    def _awaited(self, stage: Stage, txid: int) -> set[Node]:
        """Return the steps from which later stages start; no step if all later stages are frozen.

        Once all later stages are frozen, no state may be read for them, because the states may already hold later
        batches and lack this batch's values. That happens if a power loss removed COMMITTED from the log, while a
        server kept the batch.
        """
        later = [other for other in self.group.stages if other.number > stage.number]
        if all(self.log.frozen(self.group.name, txid, stage.number) is not None for stage in later):
            return set()
        return {node for stage in later for node in stage.reads}

    # --- results and their files -----------------------------------------------------------------------------

    def with_ttl(self, results: Mapping[str, Result]) -> dict[str, Result]:
        """Return results that are about to be frozen, with the time to live of each state's values, and their shape.

        The time to live is frozen with the batch, because a driver with another `ttlSecs` that applies the batch again
        must not bring back expired values.
        """
        aged = {name: with_life(result, self._ttls.get(name)) for name, result in results.items()}
        return {name: with_shape(result, self._evolving.get(name)) for name, result in aged.items()}

    @cached_property
    def _evolving(self) -> dict[str, str]:
        """The fingerprint of each state that may evolve."""
        return {step.state.name: shape_of(step).fingerprint for step in self.group.states if step.state.evolve}

    @cached_property
    def _ttls(self) -> dict[str, float]:
        """The time to live, in seconds, of each state whose values expire."""
        ttls = {step.state.name: ttl_of_factory(step.state.factory) for step in self.group.states}
        return {name: float(ttl) for name, ttl in ttls.items() if ttl is not None}

    def frozen(
        self, results: Mapping[str, Result], skipped: Mapping[str, int], attempt: TransactionAttempt, stage: int
    ) -> dict[str, FrozenOutput]:
        """Return a stage's results in the form in which the log stores them.

        Raises SparkFailedError if the driver does not find a file that an executor has written.
        """
        for name, result in results.items():
            if isinstance(result, pa.Table):
                check_years(f"{name.rstrip('|')!r}, batch {attempt.txid}", result, result.columns)
                check_keys = getattr(self.stores.get(name), "check_keys", None)
                if check_keys is not None:  # the last column is the value
                    check_keys(result.select(range(result.num_columns - 1)))
        self._secure([result for result in results.values() if isinstance(result, FrozenFiles)])
        beside = None if self.folders is None else self.folders.folder(self.group.name, attempt, stage)
        outputs = {name: freeze(result, beside) for name, result in with_skipped(results, skipped).items()}
        if any(output.files for output in outputs.values()):
            check_objects_ours(self.files, self.lease)  # a driver on a copy of the log may be deleting files
        return outputs

    def _secure(self, results: list[FrozenFiles]) -> None:
        """Check that the log may name the files of these results.

        A batch is lost for good if it names a file that no driver finds.
        """
        try:
            secure(self.files, results)
        except SparkFailedError:
            if self.puts is not None:
                self.puts.miss_files()
            raise

    def sweep(self) -> None:
        """Delete the files of attempts by earlier drivers of this log that were never frozen."""
        named = self.log.folders(self.group.name)
        for folder in FrozenFolders(self.files, self.log.uuid).folders(self.group.name):
            epoch = folder.rpartition("/")[2].partition("-")[0]
            # But not files of a later epoch: another driver may have taken the log meanwhile, and may be writing them.
            if epoch.isdigit() and int(epoch) < self.lease.epoch and folder not in named:
                self.files.remove(folder)

    def forget(self, folders: list[str]) -> None:
        """Delete folders of files that no frozen batch names any more."""
        # The caller has synced the log since it dropped these batches. Otherwise a power loss could bring back a log
        # that names the files (guard "trim, files").
        for folder in folders:
            self.files.remove(folder)


def _doubles(numbers: Counter[str], name: str, more: int) -> bool:
    """Add to a number. Return whether it is the first one above 0, or above a power of two that was not passed yet."""
    before = numbers[name]
    numbers[name] += more
    return numbers[name].bit_length() > before.bit_length()
