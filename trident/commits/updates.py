"""The results that a commit turn computes without the engine: updates of states, late tuples, answers.

An update is made from the tuples that are frozen and from the state as the batch before left it: by the driver, or key
by key by Spark's executors, which then write its results into files. Both come to the same. Nothing is written into a
state here; what is returned is frozen first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeVar

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import StateRecoveringError
from trident.base.values import conform
from trident.commits.executors import Executors, StageTables
from trident.commits.operator_hooks import OperatorHooks
from trident.commits.user_code import UserCode
from trident.compiler.frozen_parts import files_of
from trident.compiler.keyed_job import Wanted
from trident.compiler.program import Group, Output, Stage
from trident.compiler.state_updates import compile_late, compile_state_update
from trident.compiler.states.update_types import Clock, WindowBatch
from trident.compiler.windows.time import clock_of, field_of_latest, latest_of
from trident.frozen.files import FrozenFolders
from trident.frozen.results import FrozenFiles, Result
from trident.log.frozen_batches import FrozenBatches
from trident.log.frozen_results import with_dropped
from trident.plan.nodes import (
    CommittedQuery,
    Emitted,
    LateTuples,
    Node,
    Sink,
    StateUpdate,
    Watermark,
    Window,
    sources_of,
    watermarks_of,
)
from trident.reads.as_of import AsOf
from trident_spouts.shares import SharesEmission
from trident_state.store import Store

T = TypeVar("T")


@dataclass
class Updates:
    """Computes the updates of one group. Only the commit thread calls it.

    `expiring` are the states whose values expire. `heal` brings a state up to a txid, `answer` answers a query of
    committed values. The files of executors lie in `folders`, those of this run under its `epoch`.
    """

    group: Group
    stores: Mapping[str, Store]
    code: UserCode
    frozen: FrozenBatches
    executors: Executors
    hooks: OperatorHooks
    expiring: frozenset[str]
    heal: Callable[[str, int], None]
    answer: Callable[[Output, pa.Table, int], pa.Table]
    folders: FrozenFolders | None
    epoch: int

    def __post_init__(self) -> None:
        self._update, self._late = cache(compile_state_update), cache(compile_late)

    def results(self, stage: Stage, txid: int, given: StageTables, unborn: set[str]) -> dict[str, Result]:
        """Return the results of a stage's updates by output.

        They are computed from the states as of the previous batch.

        States that are `unborn` in this batch get nothing of it.
        """
        emitting: dict[Node, Output] = {o.step.source: o for o in stage.updates if isinstance(o.step, Emitted)}
        table = cache(partial(_table, given))
        results: dict[str, Result] = {}
        for output in stage.updates:
            step = output.step
            if isinstance(step, Sink):
                # An output takes the files themselves: none of their rows has to come here.
                results[output.name] = _files(given, output) or conform(table(step.source), output.schema)
            elif isinstance(step, LateTuples) and step.window.state.name not in unborn:
                late = partial(self._late_tuples, step, table(step.source), txid)
                results[output.name] = self._reading(step.window, txid, late)
            elif isinstance(step, CommittedQuery):
                results[output.name] = conform(self.answer(output, table(step.source), txid), output.schema)
            elif isinstance(step, StateUpdate) and step.state.name not in unborn:
                emitted = emitting.get(step)
                made = self._by_executors(stage, output, emitted, txid, given)
                if made is None:
                    made = self._by_driver(step, self._tables(step, given, table, txid), txid)
                results[output.name] = made[0]
                if emitted is not None and made[1] is not None:
                    results[emitted.name] = made[1]
        return results

    def _tables(
        self, step: StateUpdate, given: StageTables, table: Callable[[Node], pa.Table], txid: int
    ) -> list[pa.Table]:
        """Return the tuples that enter an update in the driver, by source.

        A watermark needs the latest time alone: where executors have the tuples, no others come to the driver.
        """
        if isinstance(step, Watermark):
            tuples = given[step.source]
            if isinstance(tuples, SharesEmission) and tuples.shares:
                return [self._latest(step, tuples, txid)]
        return [table(source) for source in sources_of(step)]

    def _by_driver(self, step: StateUpdate, tables: list[pa.Table], txid: int) -> tuple[Result, Result | None]:
        """Return what an update puts and emits, computed by the driver."""

        def work() -> tuple[Result, Result | None]:
            update = self._update(step)(tables, self._stored(step.state.name, txid), self._window_batch(step, txid))
            return with_dropped(update.puts, update.dropped), update.emitted

        made = self._reading(step, txid, partial(self.code.call, step, txid, work))
        self.hooks.begun(step)
        return made

    def _by_executors(
        self, stage: Stage, output: Output, emitted: Output | None, txid: int, given: StageTables
    ) -> tuple[Result, Result | None] | None:
        """Return what an update puts and emits, computed by the executors; None if the driver must compute it."""
        step = output.step
        assert isinstance(step, StateUpdate)
        (source, *others) = sources_of(step)
        tuples = given.get(source)
        by_driver = others or isinstance(step, Watermark) or tuples is None or isinstance(tuples, pa.Table)
        if self.folders is None or by_driver:
            return None
        folder = self.folders.folder(self.group.name, TransactionAttempt(txid, 0, self.epoch), stage.number)
        wanted = Wanted(folder, output.schema, None if emitted is None else emitted.schema)
        time, expires = self.frozen.time(txid), step.state.name in self.expiring

        def clock() -> Clock:
            assert isinstance(step, Window) and isinstance(tuples, SharesEmission)
            newest = latest_of(self._latest(step, tuples, txid), field_of_latest(step))
            return clock_of(step.windowing.config, newest, self._window_batch(step, txid))

        def work() -> tuple[Result, Result | None] | None:
            job = self.executors.job(step, tuples, wanted, txid, time, expires, clock)
            if job is None:
                return None
            made = self.code.call(
                step, txid, partial(self.executors.update, step, job), partial(self.executors.cancel, job)
            )
            return None if made is None else (with_dropped(made.puts, made.dropped), made.emitted)

        return self._reading(step, txid, work)

    def _latest(self, step: Watermark | Window, tuples: SharesEmission, txid: int) -> pa.Table:
        """Return the latest event time of a batch's tuples, which executors look for."""
        return self.executors.latest(step, tuples, partial(self.code.call, step, txid))

    def _reading(self, step: StateUpdate, txid: int, work: Callable[[], T]) -> T:
        """Call `work`, which reads the states of a step.

        If a state is behind, heal these states and call `work` again.
        """
        try:
            return work()
        except StateRecoveringError:
            # Healed up to the batch before, which is what `work` reads. Nothing of its result is frozen or written yet,
            # so it may run again as a whole.
            for read in (step, *watermarks_of(step)):
                self.heal(read.state.name, txid - 1)
            return work()

    def _late_tuples(self, step: LateTuples, table: pa.Table, txid: int) -> pa.Table:
        return self._late(step)(table, self._window_batch(step.window, txid))

    def _window_batch(self, step: StateUpdate, txid: int) -> WindowBatch:
        """Return the batch as an update sees it: its time, and the step's watermarks before the batch."""
        stored = [self._stored(watermark.state.name, txid) for watermark in watermarks_of(step)]
        first, second = [*stored, None, None][:2]
        return WindowBatch(txid, partial(self.frozen.time, txid), first, second)

    def _stored(self, state: str, txid: int) -> AsOf:
        """Return a state as of the previous batch."""
        # With a time, reads leave out what expires with this batch (guard "expiry, an update that reads"). The time is
        # frozen, so that every replay leaves out the same.
        time = self.frozen.time(txid) if state in self.expiring else None
        return AsOf(self.stores[state], txid - 1, time)


def _files(given: StageTables, output: Output) -> FrozenFiles | None:
    """Return the frozen files with the tuples of an output, if an earlier step froze them in these fields."""
    (source,) = sources_of(output.step)
    files = files_of(given[source])
    same = files is not None and files.schema.remove_metadata().equals(output.schema)
    return replace(files, schema=output.schema) if files is not None and same else None


def _table(given: StageTables, node: Node) -> pa.Table:
    """Return the tuples that leave a node, in the driver's memory."""
    tuples = given[node]
    return tuples if isinstance(tuples, pa.Table) else tuples.arrow()
