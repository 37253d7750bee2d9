"""The commit turn: write one frozen batch into every state of its group, stage by stage.

It is synchronous and without a clock. Every call may be repeated after any failure, since each step first finds out
what an earlier try has done: a stage that is frozen is read, and a store skips what it holds.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from trident.base.attempt import Lease, TransactionAttempt
from trident.base.crash_points import reach
from trident.base.errors import (
    FencedError,
    LogCorruptError,
    StateBehindError,
    StateLostError,
    StateRecoveringError,
)
from trident.base.values import conform
from trident.compiler.program import Group, Output, Stage
from trident.compiler.results import Result
from trident.compiler.spark.frozen_files import FrozenFolders
from trident.compiler.states.updates import Updated, compile_update
from trident.compiler.windows.dispatch import compile_late, compile_window
from trident.compiler.windows.types import WindowBatch
from trident.log.frozen_batches import FrozenBatches, missed
from trident.log.frozen_results import FrozenOutput, freeze, with_life, with_skipped, without_skipped
from trident.log.protocol import Birth, TransactionLog
from trident.plan.nodes import (
    Emitted,
    LateTuples,
    LettersOf,
    Node,
    Sink,
    StateQuery,
    StateUpdate,
    StateWriter,
    Window,
    WindowUpdate,
)
from trident.reads.as_of import AsOf
from trident.recovery.incarnations import check_this_log, of_another_life
from trident.recovery.program_compatibility import Names
from trident.run.skew import Hottest, hottest_of
from trident.run.user_code import UserCode
from trident_state.messages import Applied
from trident_state.store import Store

T = TypeVar("T")


@dataclass(slots=True)
class StateSummary:
    """The effect of a commit on one state, for progress."""

    keys: int = 0
    written: int = 0
    hottest: Hottest | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as progress events show it."""
        counts: dict[str, Any] = {"keys": self.keys, "written": self.written}
        return counts if self.hottest is None else counts | {"hottest": self.hottest.as_dict()}


@dataclass(slots=True)
class TurnSummary:
    """The effect of a commit turn, for progress: by state, and the rows that each output took."""

    states: dict[str, StateSummary] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)
    """Dead letters, by the step that made them."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Tuples that steps left out. Those of a first stage that was at hand are counted by its run."""


@dataclass
class Committer:
    """Commits one group's batches.

    `stores` are acquired under `lease`, and `births` is what the log knows of them. `waiting` maps, for the batches
    that an earlier run froze, the names of their outputs to those of this program.

    The commit thread owns it. Run threads call `with_ttl`, `frozen` and, behind a trim, `forget`, which read what never
    changes; a start calls `sweep` and `heal` before the commit thread exists.
    """

    group: Group
    log: TransactionLog
    lease: Lease
    stores: Mapping[str, Store]
    births: Mapping[str, Birth]
    folder: Path
    code: UserCode
    waiting: Mapping[int, Names] = field(default_factory=dict)
    files: FrozenFolders | None = None
    """Where large results go; None where no folder lives as long as the log."""
    healed: list[tuple[str, int, int]] = field(default_factory=list)
    writing: set[str] = field(default_factory=set)
    """The states that a turn writes just now. Threads of states change it, each its own name; `status` reads it."""

    def __post_init__(self) -> None:
        self._frozen = FrozenBatches(self.log, self.group.name, self.folder)
        self._update, self._window, self._late = cache(compile_update), cache(compile_window), cache(compile_late)

    def commit(self, txid: int, first: Mapping[str, Result] | None = None) -> TurnSummary:
        """Apply batch `txid` and log COMMITTED. `first`: the first stage's results where they are still at hand.

        Code of the user's runs in threads of its own (`code`), and this waits for it. The result of code that comes
        back too late is dropped, and nothing of it is written.
        """
        reach("commit.before")
        summary = TurnSummary()
        tables: dict[Node, pa.Table] = {}
        to_sinks: list[tuple[Sink, Result]] = []
        for stage in self.group.stages:
            results = self._results(stage, txid, first if stage.number == 1 else None, tables, summary)
            tables |= self._apply(stage, txid, results, summary.states, self._awaited(stage, txid))
            summary.dead |= {
                o.step.source.step: results[o.name].num_rows
                for o in stage.updates
                if isinstance(o.step, LettersOf) and o.name in results
            }
            to_sinks += [(o.step, results[o.name]) for o in stage.frozen if isinstance(o.step, Sink)]
        reach("commit.states.after")
        # Outputs come last: what leaves the topology cannot be taken back, and a store may still fail before.
        for sink, result in to_sinks:
            summary.outputs[sink.name] = self._hand_over(sink, result, txid)
        reach("committed.before")
        # Behind the outputs: a driver that dies between the two hands the same rows over again. The other way round
        # they would be lost (tests/faults/test_kill_points_outputs.py).
        self.log.committed(self.lease, self.group.name, txid)
        reach("committed.after")
        return summary

    def _hand_over(self, sink: Sink, result: Result, txid: int) -> int:
        """Hand a batch's tuples over to an output, after every state holds it. Return how many there are."""
        if self.log.lease() != self.lease:  # an output has no fence of its own
            raise FencedError("the log was taken over by another driver; this one stops")
        reach("output.before")
        self.code.hand_over(sink, result, txid)
        reach("output.after")
        return result.num_rows

    def heal(self, state: str, upto: int) -> None:
        """Bring a store that was rewound up to batch `upto`, from the frozen batches."""
        store, birth = self.stores[state], self.births[state].txid
        # The cheap question first, because what follows writes to the store: the watch, a write and a read may all ask
        # for the same heal.
        if all(g.lease == self.lease and g.marker is not None and g.marker >= upto for g in store.groups_of()):
            return
        report = store.report()
        # Before the first write: txids of two logs mean different batches (guard "healing, another log").
        check_this_log(state, report, self.log.uuid)
        fell_back = of_another_life(report, self.births[state])
        if fell_back or any(group.marker is None for group in report.groups):  # also where only a part of it is gone
            # Before the drop, so that a store which the log cannot rebuild stays as it is.
            self._check_kept(state, birth, upto)
            # Raises FencedError where another driver took the log: that one may have dropped the state on purpose.
            self.log.sync(self.lease)
            if fell_back:
                store.drop(self.lease)
            store.create(self.lease, birth)
        # Fenced before its markers are read: from here on no earlier driver moves them.
        store.acquire(self.lease)
        # The least of all groups, because each may have fallen back to another txid. `apply` skips a group that holds
        # the batch (docs/faults.md, subtle case 11).
        behind = min((g.marker if g.marker is not None else birth) for g in store.groups_of())
        if behind >= upto:
            return
        self._check_kept(state, behind, upto)
        for txid in range(behind + 1, upto + 1):
            store.apply(self.lease, self._frozen.update(txid, self._frozen_for(state, txid)))
        self.healed.append((state, behind, upto))

    def _frozen_for(self, state: str, txid: int) -> Result:
        """Return the frozen result of a batch for a state."""
        try:
            found = self._frozen.of_state(txid, state)
        except LookupError:
            raise self._lacking(txid) from None
        # None: the program that froze the batch did not have this state. An empty table in its place would hide what
        # the state missed.
        if found is not None:
            return found
        raise missed(state, txid, self.group.name)

    # --- the stages ------------------------------------------------------------------------------------------

    def _results(
        self,
        stage: Stage,
        txid: int,
        at_hand: Mapping[str, Result] | None,
        tables: Mapping[Node, pa.Table],
        summary: TurnSummary,
    ) -> Mapping[str, Result]:
        """Return the tables that enter the stage's state steps: at hand, from the log, or computed and frozen now."""
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
        results = self.with_ttl({**results, **self._updated(stage, txid, tables)})
        # Frozen before the first write that follows from it: a repeated turn must not compute it again, from states
        # that hold a part of this batch already.
        renamed = self._under_frozen_names(results, txid)
        outputs = self.frozen(renamed, skipped, TransactionAttempt(txid, 0, self.lease.epoch), stage.number)
        self.log.freeze_stage(self.lease, self.group.name, txid, stage.number, outputs)
        summary.skipped.update(skipped)
        reach("commit.stage.frozen")
        return results

    def _under_frozen_names(self, results: Mapping[str, Result], txid: int) -> Mapping[str, Result]:
        """Return a later stage's results under the names of the program that froze the batch.

        All stages of a batch have names of one program. A result for which that program has no name leads to a state
        that was dropped.
        """
        names = self.waiting.get(txid)
        if names is None:
            return results
        return {former: results[name] for former, name in names.items() if name in results}

    def _updated(self, stage: Stage, txid: int, tables: Mapping[Node, pa.Table]) -> dict[str, pa.Table]:
        """Return the new values that the stage's updates make, from the states as the batch before left them."""
        emitting = {o.step.source: o.name for o in stage.updates if isinstance(o.step, Emitted)}
        unborn = self._unborn(txid)
        results: dict[str, pa.Table] = {}
        for output in stage.updates:
            step = output.step
            if isinstance(step, Sink):
                results[output.name] = conform(tables[step.source], output.schema)
            elif isinstance(step, LateTuples) and step.window.state.name not in unborn:
                late = partial(self._late_tuples, step, tables[step.source], txid)
                results[output.name] = self._reading(step.window, txid, late)
            if not isinstance(step, StateUpdate) or step.state.name in unborn:
                continue
            work = partial(self._update_of, step, tables[step.source], txid)
            update = self._reading(step, txid, partial(self.code.call, step, txid, work))
            results[output.name] = update.puts
            if step in emitting and update.emitted is not None:
                results[emitting[step]] = update.emitted
        return results

    def _reading(self, step: StateUpdate, txid: int, work: Callable[[], T]) -> T:
        """Run what reads a step's states, and run it again where one of them turns out to be behind."""
        try:
            return work()
        except StateRecoveringError:
            watermark = step.watermark if isinstance(step, Window) else None
            # Up to the batch before, which is what `work` reads. Nothing of it is frozen or written yet, so it may run
            # again as a whole.
            for read in [step] if watermark is None else [step, watermark]:
                self.heal(read.state.name, txid - 1)
            return work()

    def _update_of(self, step: StateUpdate, table: pa.Table, txid: int) -> Updated:
        stored = self._stored(step.state.name, txid)
        if isinstance(step, WindowUpdate):
            return self._window(step)(table, stored, self._window_batch(step, txid))
        return self._update(step)(table, stored, txid)

    def _late_tuples(self, step: LateTuples, table: pa.Table, txid: int) -> pa.Table:
        return self._late(step)(table, self._window_batch(step.window, txid))

    def _window_batch(self, step: WindowUpdate, txid: int) -> WindowBatch:
        """Return the batch as a window's step sees it: its time, and the window's watermark before it."""
        watermark = step.watermark if isinstance(step, Window) else None
        stored = None if watermark is None else self._stored(watermark.state.name, txid)
        return WindowBatch(txid, partial(self._frozen.time, txid), stored)

    def _stored(self, state: str, txid: int) -> AsOf:
        """Return a state as the batch before left it."""
        # Given a time, reads leave out what expires with this batch (guard "expiry, an update that reads"). It is the
        # frozen time, so that every replay leaves out the same.
        time = self._frozen.time(txid) if state in self._ttls else None
        return AsOf(self.stores[state], txid - 1, time)

    def _unborn(self, txid: int) -> set[str]:
        """Return the states that were born after this batch.

        Each was dropped since: it gets nothing of the batch, and hands nothing on to later stages.
        """
        return {state for state, birth in self.births.items() if birth.txid >= txid}

    def _awaited(self, stage: Stage, txid: int) -> set[Node]:
        """Return the steps from which later stages start, if one of these stages is still to be computed.

        If not, the states may be at later batches already, where this batch's values cannot be read any more: a power
        loss takes a COMMITTED from the log, and not from a server.
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
        written: dict[str, StateSummary],
        awaited: set[Node],
    ) -> dict[Node, pa.Table]:
        """Write the stage's states side by side and read for its queries.

        Return the tables from which later stages start, of the steps that are `awaited`.
        """
        later: dict[Node, pa.Table] = {}
        unborn = self._unborn(txid)
        wanted = {name for name in results if (awaited or name in self.stores) and name not in unborn}
        # Large results are read here only for a state, or where a later stage is still to be computed. Outputs read the
        # files themselves.
        tables = {name: self._frozen.whole(results[name]) for name in wanted}
        queries = [o for o in stage.outputs if awaited and isinstance(o.step, StateQuery)]
        for output in queries:  # before this stage's writes: a query sees the batches before this one
            asking = tables.get(output.name, output.schema.empty_table())
            later[output.step] = self._answer(output, asking, txid, written)
        for output in stage.frozen:
            if awaited and output.carried:
                later[output.step] = tables.get(output.name, output.schema.empty_table())
        steps = [(o, o.step) for o in stage.frozen if isinstance(o.step, StateWriter)]
        later |= {step: o.schema.empty_table() for o, step in steps if o.name in unborn}
        asking_values = {step for step in awaited if not isinstance(step, StateUpdate)}  # those of one are known
        futures = [
            (o, self.code.write(partial(self._write, o, txid, tables[o.name], step in asking_values)))
            for o, step in steps
            if o.name not in unborn
        ]
        # All writes are awaited, also behind one that failed: the next try must not meet a write of this one.
        failures: list[BaseException] = []
        for output, future in futures:
            error = future.exception()
            if error is not None:
                failures.append(error)
                continue
            applied, table = future.result(), tables[output.name]
            assert isinstance(output.step, StateWriter)
            written[output.name] = StateSummary(table.num_rows, applied.written, hottest_of(output.step, table))
            if isinstance(output.step, StateUpdate):  # these are the new values themselves
                later[output.step] = table
            elif applied.values is not None:
                last = table.num_columns - 1
                later[output.step] = table.set_column(last, table.schema.field(last), applied.values)
        if failures:
            raise failures[0]
        return later

    def _answer(self, output: Output, table: pa.Table, txid: int, written: Mapping[str, StateSummary]) -> pa.Table:
        """Answer a query as of the batches before this one, and of this one what earlier stages wrote.

        A state that was born later is empty, as it was at its birth.
        """
        assert isinstance(output.step, StateQuery)
        state = output.step.updated.state.name
        as_of = txid if state in written else txid - 1
        if state in self.births:
            # Before its birth a state has nothing to read, and a read as of then would wait for ever (guard "a state
            # born after a batch, asked").
            as_of = max(as_of, self.births[state].txid)
        try:
            return self.code.answer(output.step, table, as_of)
        except StateRecoveringError:
            if state not in self.stores:  # another topology's
                raise
            self.heal(state, as_of)
            return self.code.answer(output.step, table, as_of)

    def _write(self, output: Output, txid: int, table: pa.Table, values: bool) -> Applied:
        """Write one state's part of the batch, and heal the store first if it is behind. In a thread of states."""
        store = self.stores[output.name]
        update = self._frozen.update(txid, table)
        reach("commit.state.before")
        self.writing.add(output.name)
        try:
            applied = store.apply(self.lease, update, values)
        except StateBehindError:
            # In this thread, because the turn waits for it: no other write to this store can come between.
            self.heal(output.name, txid - 1)
            applied = store.apply(self.lease, update, values)
        except FencedError:
            check_this_log(output.name, store.report(), self.log.uuid)  # epochs begin anew with a reset
            raise
        finally:
            self.writing.discard(output.name)
        reach("commit.state.after")
        return applied

    # --- results and their files -----------------------------------------------------------------------------

    def with_ttl(self, results: Mapping[str, Result]) -> dict[str, Result]:
        """Return results that are about to be frozen, with the time to live of each state's values.

        The time is frozen with the batch: a driver with another `ttlSecs` that applies the batch again must not bring
        back what had passed away.
        """
        return {name: with_life(result, self._ttls.get(name)) for name, result in results.items()}

    @cached_property
    def _ttls(self) -> dict[str, float]:
        """The time to live of each state whose values pass away."""
        ttls = {step.state.name: getattr(step.state.factory, "ttlSecs", None) for step in self.group.states}
        return {name: float(ttl) for name, ttl in ttls.items() if ttl is not None}

    def frozen(
        self, results: Mapping[str, Result], skipped: Mapping[str, int], attempt: TransactionAttempt, stage: int
    ) -> dict[str, FrozenOutput]:
        """Return a stage's results as the log keeps them."""
        beside = None if self.files is None else self.files.folder(self.group.name, attempt, stage)
        return {name: freeze(result, beside) for name, result in with_skipped(results, skipped).items()}

    def sweep(self) -> None:
        """Delete the files of attempts of this log's earlier drivers that never froze."""
        named = self.log.folders(self.group.name)
        for folder in FrozenFolders(self.folder, self.log.uuid).folders(self.group.name):
            epoch = folder.name.partition("-")[0]
            # Not a later epoch's: another driver may have taken the log meanwhile, and be writing there.
            if epoch.isdigit() and int(epoch) < self.lease.epoch and str(folder.relative_to(self.folder)) not in named:
                shutil.rmtree(folder, ignore_errors=True)

    def forget(self, folders: list[str]) -> None:
        """Delete files that no frozen batch refers to any more."""
        # The caller has made the log durable without these batches: else a power loss brings back a log that names the
        # files (guard "trim, files").
        for folder in folders:
            shutil.rmtree(self.folder / folder, ignore_errors=True)

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
