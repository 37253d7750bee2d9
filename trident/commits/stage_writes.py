"""The end of a stage in a commit turn: its queries are answered, its states written, its tuples passed on.

There are four steps, in this order: 1. the queries are answered, as of the previous batch; 2. tuples that later stages
need unchanged are passed on; 3. all states are written at the same time; 4. the new values that later stages read are
collected.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from trident.commits.carrier import StageTables
from trident.commits.operator_hooks import OperatorHooks
from trident.commits.state_queries import StateQueries
from trident.commits.store_writes import StoreWrites
from trident.commits.user_code import UserCode
from trident.compiler.program import Output, Stage
from trident.compiler.states.shapes import new_values
from trident.frozen.results import Result
from trident.log.frozen_results import dropped_of
from trident.plan.dead_letters import keeper_of
from trident.plan.nodes import (
    IntervalJoin,
    Node,
    StateQuery,
    StateUpdate,
    StateWriter,
    Window,
    WindowJoin,
    watermarks_of,
)
from trident.telemetry.event_time import EventTime
from trident.telemetry.hottest_key import hottest_of
from trident.telemetry.turn_summary import StateSummary, TurnSummary
from trident_state.store_messages import Applied


@dataclass(frozen=True, slots=True)
class StageTurn:
    """One stage of a batch. Its results are frozen.

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

    def result(self, output: Output) -> Result:
        """Return the result of an output. It is empty if the program that froze the batch did not have the output."""
        return self.results.get(output.name, output.schema.empty_table())


@dataclass(frozen=True, slots=True)
class Write:
    """A result that was written into a state, in the form that its carrier got, and the effect of the write."""

    output: Output
    step: StateWriter
    given: Result
    applied: Applied


@dataclass(frozen=True, slots=True)
class StageWrites:
    """Ends the stages of one group. Only the commit thread calls it."""

    writes: StoreWrites
    queries: StateQueries
    hooks: OperatorHooks
    code: UserCode
    time: EventTime

    def end(self, turn: StageTurn, summary: TurnSummary) -> StageTables:
        """Answer the stage's queries and write its states. Return the tuples of the awaited steps."""
        tuples = self.answer_queries(turn, summary)
        tuples |= self.carry_on(turn)
        written = self.write_states(turn, tuples)
        return tuples | self.collect_values(turn, written, summary)

    def answer_queries(self, turn: StageTurn, summary: TurnSummary) -> StageTables:
        """Return the answers of the stage's queries, as of the previous batch."""
        answers: StageTables = {}
        for output in turn.stage.outputs:
            step = output.step
            if isinstance(step, StateQuery) and step in turn.awaited:
                answers[step] = self.queries.ask(step, turn.result(output), turn.txid)
                if not isinstance(answers[step], pa.Table):
                    summary.asked[step.step] = turn.results[output.name].num_rows
        return answers

    def carry_on(self, turn: StageTurn) -> StageTables:
        """Return the tuples that later stages get as they were frozen. The result of an update is its new values."""
        carriers, carried = self.writes.carriers, StageTables()
        for output in turn.stage.frozen:
            step = output.step
            if step not in turn.awaited or output.name in turn.unborn:
                continue
            if output.carried or isinstance(step, StateUpdate):
                carried[step] = carriers.carry(output, turn.result(output))
        return carried

    def write_states(self, turn: StageTurn, tuples: StageTables) -> list[Write]:
        """Write the stage's states in parallel. `tuples` has results that the driver has read already."""
        given = [(output, step, self._given(turn, output, tuples)) for output, step in turn.updates]
        self.hooks.before_writes((step for _, step in turn.updates), turn.txid)
        if len(given) == 1:  # in this thread, because handing over a small write takes as long as the write
            ((output, step, result),) = given
            return [Write(output, step, result, self._write(turn, step, result))]
        begun = [(o, s, result, self.code.write(partial(self._write, turn, s, result))) for o, s, result in given]
        # All writes are awaited, even if one has failed: a write of this attempt must not overlap with the next
        # attempt.
        failures = [error for *_, future in begun if (error := future.exception()) is not None]
        if failures:
            raise failures[0]
        return [Write(output, step, result, future.result()) for output, step, result, future in begun]

    def _given(self, turn: StageTurn, output: Output, tuples: StageTables) -> Result:
        """Return a result in the form in which its carrier writes it: by reference for executors, or as a table."""
        result, carriers = turn.results[output.name], self.writes.carriers
        if carriers.of("write", output.step, result).name == "executors":
            return result
        read = tuples.get(output.step)
        return read if isinstance(read, pa.Table) else carriers.driver.carry(output, result)

    def _write(self, turn: StageTurn, step: StateWriter, given: Result) -> Applied:
        values = step in turn.awaited and not isinstance(step, StateUpdate)  # an update's values are already known
        return self.writes.write(step, turn.txid, given, values)

    def collect_values(self, turn: StageTurn, written: list[Write], summary: TurnSummary) -> StageTables:
        """Return the new values of awaited aggregates. Record the effect on each state in the summary."""
        values: StageTables = {
            output.step: new_values(output.step, output.schema.empty_table())
            for output in turn.stage.frozen
            if isinstance(output.step, StateWriter) and output.name in turn.unborn
        }
        for write in written:
            table, after = write.given, write.applied.values
            summary.states[write.output.name] = self._summary(write)
            if after is not None and isinstance(table, pa.Table):
                last = table.num_columns - 1
                values[write.step] = new_values(write.step, table.set_column(last, table.schema.field(last), after))
            if keeper_of(write.step) is not None:
                summary.states[write.output.name].evicted = dropped_of(turn.results[write.output.name])
        self._note_times(turn, written, summary.states)
        return values

    def _summary(self, write: Write) -> StateSummary:
        hottest = hottest_of(write.step, write.given) if isinstance(write.given, pa.Table) else None
        summary = StateSummary(write.given.num_rows, write.applied.written, hottest)
        summary.writers = self.writes.carriers.of("write", write.step, write.given).name
        return summary

    def _note_times(self, turn: StageTurn, written: list[Write], states: Mapping[str, StateSummary]) -> None:
        """Add to the summary of each window and join by time its watermark and the number of late rows."""
        tables = {write.output.name: write.given for write in written if isinstance(write.given, pa.Table)}
        for write in written:
            step, name = write.step, write.output.name
            marks = watermarks_of(step) if isinstance(step, Window | IntervalJoin | WindowJoin) else ()
            if marks and not any(mark.state.name in turn.unborn for mark in marks):
                dropped = dropped_of(turn.results[name])
                states[name].time = self.time.of(marks, tables, dropped, turn.txid)
