"""The results that a commit turn computes without the engine: updates of states, late tuples, answers.

An update is computed from the frozen tuples and from the state as of the previous batch: by the driver, or key by key
by Spark's executors, which write its results into files. Both give the same result. This module writes no state; the
returned results are frozen first.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeVar

from trident.base.value_conversion import conform
from trident.commits.carrier import Entering, StageTables, UpdateWork
from trident.commits.carriers import Carriers
from trident.commits.due_states import DueStates
from trident.commits.previous_states import PreviousStates
from trident.commits.state_queries import StateQueries
from trident.commits.store_writes import StoreWrites
from trident.compiler.frozen_parts import files_of
from trident.compiler.program import Output, Stage
from trident.compiler.state_updates import compile_late
from trident.frozen.results import FrozenFiles, Result
from trident.plan.nodes import (
    CommittedQuery,
    Emitted,
    LateTuples,
    Node,
    Sink,
    StateUpdate,
    TableChanges,
    sources_of,
    watermarks_of,
)

T = TypeVar("T")


@dataclass
class Updates:
    """Computes the updates of one group. Only the commit thread calls it."""

    carriers: Carriers
    before: PreviousStates
    queries: StateQueries
    writes: StoreWrites
    dues: DueStates

    def __post_init__(self) -> None:
        self._late = cache(compile_late)

    def results(self, stage: Stage, txid: int, given: StageTables, unborn: set[str]) -> dict[str, Result]:
        """Return the results of a stage's updates by output.

        They are computed from the states as of the previous batch.

        States that are `unborn` in this batch get no data of it.
        """
        emitting: dict[Node, Output] = {o.step.source: o for o in stage.updates if isinstance(o.step, Emitted)}
        entering = Entering(given)
        results: dict[str, Result] = {}
        for output in stage.updates:
            step = output.step
            if isinstance(step, Sink):
                # An output gets the files themselves, so the driver need not read their rows.
                table = partial(entering.table, step.source)
                results[output.name] = _files(entering, output) or conform(table(), output.schema)
            elif isinstance(step, LateTuples) and step.window.state.name not in unborn:
                results[output.name] = self._late_tuples(step, entering, txid)
            elif isinstance(step, TableChanges):
                changes = self.queries.changes(step, [entering.table(source) for source in step.sources], txid)
                results[output.name] = conform(changes, output.schema)
            elif isinstance(step, CommittedQuery):
                answers = self.queries.ask_committed(step, entering.table(step.source), txid)
                results[output.name] = conform(answers, output.schema)
            elif isinstance(step, StateUpdate) and step.state.name not in unborn:
                emitted = emitting.get(step)
                work = UpdateWork(txid, stage.number, output, emitted, entering)
                made = self._healed(step, txid, partial(self.carriers.update, work))
                results[output.name] = made.puts
                self.dues.note(step, txid, made.due)
                if emitted is not None and made.emitted is not None:
                    results[emitted.name] = made.emitted
        return results

    def _late_tuples(self, step: LateTuples, entering: Entering, txid: int) -> Result:
        table = entering.table(step.source)
        return self._healed(
            step.window, txid, lambda: self._late(step)(table, self.before.window_batch(step.window, txid))
        )

    def _healed(self, step: StateUpdate, txid: int, work: Callable[[], T]) -> T:
        """Call `work`, which reads the states of a step as of the previous batch.

        If a state lacks batches, heal it first.
        """
        return self.writes.healed([read.state.name for read in (step, *watermarks_of(step))], txid - 1, work)


def _files(entering: Entering, output: Output) -> FrozenFiles | None:
    """Return the frozen files with the tuples of an output, if an earlier step froze them with these fields."""
    (source,) = sources_of(output.step)
    files = files_of(entering.of(source))
    same = files is not None and files.schema.remove_metadata().equals(output.schema)
    return replace(files, schema=output.schema) if files is not None and same else None
