"""The end of a stage in a commit turn: its queries are answered, its states written, and later stages get their tuples.

Four steps, in this order. Results that executors keep in files go on by reference. The driver reads those that it needs
itself. It answers the queries, which see the batches before this one. Then all states are written side by side.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from trident.commits.executors import Executors, StageTables
from trident.commits.operator_hooks import OperatorHooks
from trident.commits.state_queries import StateQueries
from trident.commits.store_writes import StoreWrites
from trident.commits.user_code import UserCode
from trident.compiler.program import Output, Stage
from trident.compiler.states.shapes import new_values
from trident.frozen.results import FrozenFiles, Result
from trident.log.frozen_batches import FrozenBatches
from trident.log.frozen_results import dropped_of
from trident.plan.nodes import Node, Sink, StateQuery, StateUpdate, StateWriter, Window
from trident.telemetry.event_time import EventTime
from trident.telemetry.hottest_key import hottest_of
from trident.telemetry.turn_summary import StateSummary, TurnSummary
from trident_state.messages import Applied


@dataclass(frozen=True, slots=True)
class StageTurn:
    """One stage of a batch whose results are frozen.

    `awaited` are the steps from which later stages start; `unborn` the states that were born after this batch.
    """

    stage: Stage
    txid: int
    results: Mapping[str, Result]
    awaited: set[Node]
    unborn: set[str]

    @property
    def updates(self) -> Iterator[tuple[Output, StateWriter]]:
        """The outputs that are written into states, and the steps that write them."""
        return ((o, o.step) for o in self.stage.frozen if isinstance(o.step, StateWriter) and o.name not in self.unborn)


@dataclass(frozen=True, slots=True)
class StageWrites:
    """Ends the stages of one group. Only the commit thread calls it."""

    stores: StoreWrites
    frozen: FrozenBatches
    executors: Executors
    queries: StateQueries
    hooks: OperatorHooks
    code: UserCode
    time: EventTime

    def end(self, turn: StageTurn, summary: TurnSummary) -> StageTables:
        """Answer the stage's queries and write its states. Return the tuples of the steps that are awaited."""
        later = self._by_reference(turn, summary)
        tables = self._read(turn, later)
        later |= self._answered(turn, tables, later)
        self.hooks.before_writes((step for _, step in turn.updates), turn.txid)
        later |= self._written(turn, tables, summary.states)
        self._note_times(turn, tables, summary.states)
        return later

    def _by_reference(self, turn: StageTurn, summary: TurnSummary) -> StageTables:
        """Return the inputs of later stages that the workers, not the driver, read from this stage's frozen files."""
        later: StageTables = {}
        for output in turn.stage.frozen:
            step, frozen = output.step, turn.results.get(output.name)
            if step not in turn.awaited or not isinstance(frozen, FrozenFiles):
                continue
            emission = None
            if output.carried or isinstance(step, StateUpdate):
                emission = self.executors.carry(output, frozen)
            elif isinstance(step, StateQuery):
                emission = self.queries.ask(step, frozen, turn.txid)
                if emission is not None:
                    summary.asked[step.step] = frozen.num_rows
            if emission is not None:
                later[step] = emission
        return later

    def _read(self, turn: StageTurn, later: StageTables) -> dict[str, pa.Table]:
        """Return the results that the driver needs itself, as tables."""
        return {
            output.name: self.frozen.whole(turn.results[output.name])
            for output in turn.stage.frozen
            if output.name in turn.results and self._is_needed(turn, output, later)
        }

    def _is_needed(self, turn: StageTurn, output: Output, later: StageTables) -> bool:
        """Return whether the driver needs a result: for a state, or for a later stage that is still to be computed."""
        step, name = output.step, output.name
        if isinstance(step, Sink) or name in turn.unborn or step in later:  # an output reads the files itself
            return False
        if name not in self.stores.stores:
            return bool(turn.awaited)
        if not self.executors.take(name, turn.results[name]):
            return True
        return isinstance(step, StateUpdate) and step in turn.awaited  # its result is the new values themselves

    def _answered(self, turn: StageTurn, tables: Mapping[str, pa.Table], later: StageTables) -> StageTables:
        """Return the answers of queries, and the tuples that are carried on, for the steps that are not in `later`.

        A query sees the batches before this one, so this comes before the stage's writes.
        """
        more: StageTables = {}
        for output in turn.stage.outputs if turn.awaited else ():
            if isinstance(output.step, StateQuery) and output.step not in later:
                asking = tables.get(output.name, output.schema.empty_table())
                more[output.step] = self.queries.answer(output, asking, turn.txid)
        for output in turn.stage.frozen if turn.awaited else ():
            if output.carried and output.step not in later:
                more.setdefault(output.step, tables.get(output.name, output.schema.empty_table()))
        return more

    def _written(
        self, turn: StageTurn, tables: Mapping[str, pa.Table], written: dict[str, StateSummary]
    ) -> StageTables:
        """Write the stage's states side by side, and return the new values of the steps that are awaited."""
        values: StageTables = {}
        for output in turn.stage.frozen:
            if isinstance(output.step, StateWriter) and output.name in turn.unborn:
                values[output.step] = new_values(output.step, output.schema.empty_table())
        writes = [
            (output, step, given := self._given(turn, output.name, tables), self._begun(turn, output, step, given))
            for output, step in turn.updates
        ]
        # All writes are waited for, even if one has failed: the next try must not meet a write of this one.
        failures = [error for *_, future in writes if (error := future.exception()) is not None]
        for output, step, given, future in writes:
            if future.exception() is not None:
                continue
            applied, table = future.result(), tables.get(output.name)
            written[output.name] = self._summary(output, given, applied)
            if table is None:  # executors have it, and no later stage reads it
                continue
            if isinstance(step, StateUpdate):  # its result is the new values themselves
                values[step] = table
            elif applied.values is not None:
                last = table.num_columns - 1
                values[step] = new_values(step, table.set_column(last, table.schema.field(last), applied.values))
        if failures:
            raise failures[0]
        return values

    def _begun(self, turn: StageTurn, output: Output, step: StateWriter, given: Result) -> "Future[Applied]":
        """Begin to write one state, in a thread for states."""
        values = step in turn.awaited and not isinstance(step, StateUpdate)  # an update's values are known
        return self.code.write(partial(self.stores.write, output, turn.txid, given, values))

    def _given(self, turn: StageTurn, name: str, tables: Mapping[str, pa.Table]) -> Result:
        """Return a result in the form in which it is written: by reference for executors, else as a table."""
        result = turn.results[name]
        return result if self.executors.take(name, result) else tables.get(name, result)

    def _summary(self, output: Output, given: Result, applied: Applied) -> StateSummary:
        hottest = hottest_of(output.step, given) if isinstance(given, pa.Table) else None
        summary = StateSummary(given.num_rows, applied.written, hottest)
        if self.executors.take(output.name, given):
            summary.writers = "executors"
        return summary

    def _note_times(self, turn: StageTurn, tables: Mapping[str, pa.Table], written: Mapping[str, StateSummary]) -> None:
        """Note in the summaries of windows their watermarks, and how many rows were late."""
        for output, step in turn.updates:
            if not isinstance(step, Window) or step.watermark is None or output.name not in written:
                continue
            if step.watermark.state.name not in turn.unborn:
                dropped = dropped_of(turn.results[output.name])
                written[output.name].time = self.time.of(step.watermark, tables, dropped, turn.txid)
