"""The verbs of a group that keep states of their own, batch by batch: what a stage made for them, through the steps of
the commit turn."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tests.compiler.window_runner import InDict
from trident.base.value_conversion import to_python
from trident.compiler.program import Group
from trident.compiler.state_updates import compile_state_update
from trident.compiler.states.queries import Reads, compile_query
from trident.compiler.states.shapes import shape_of
from trident.compiler.states.update_types import WindowBatch
from trident.operations.column_updaters import ColumnUpdater
from trident.plan.nodes import (
    IntervalJoin,
    Node,
    PartitionPersist,
    PersistentAggregate,
    StateQuery,
    Watermark,
    Window,
    sources_of,
    watermarks_of,
)
from trident.plan.state_schema import present_of
from trident_state.value_rules import combined


class Windows:
    """Their states are dicts."""

    def __init__(self, group: Group) -> None:
        outputs = [output for stage in group.stages for output in stage.updates if _keeps(output.step)]
        self._run: dict[Any, Any] = {output.step: compile_state_update(output.step) for output in outputs}
        self._outputs = group.stages[0].outputs if group.stages else ()
        self._queries = [output for output in self._outputs if isinstance(output.step, StateQuery)]
        self._ask = {output.step: compile_query(output.step) for output in self._queries}
        self._aggregates = [output for output in self._outputs if isinstance(output.step, PersistentAggregate)]
        self._states = {
            o.name: InDict(o.schema.types[-1], pa.schema(list(o.schema)[:-1])) for o in [*outputs, *self._aggregates]
        }

    def results(self, txid: int, entered: Mapping[str, Any]) -> dict[str, pa.Table]:
        """What leaves each verb with a batch, by the name of its state."""
        tables: dict[int, pa.Table] = {id(output.step): entered[output.name] for output in self._outputs}
        found, puts = dict[str, pa.Table](), dict[str, pa.Table]()
        for output in self._queries:
            found[output.step.updated.state.name] = self._ask[output.step](tables[id(output.step)], self._reads())
        for node, run in self._run.items():
            name = node.state.name
            marks = [self._states[mark.state.name] for mark in watermarks_of(node)]
            mark, second = [*marks, None, None][:2] if not isinstance(node, Watermark) else (self._states[name], None)
            batch = WindowBatch(txid, lambda: 0.0, mark, second)
            made = run([tables[id(source)] for source in sources_of(node)], self._states[name], batch)
            puts[name] = made.puts
            if made.emitted is not None and name not in found:
                found[name] = made.emitted
        for name, table in puts.items():
            self._states[name].put(table)
        for output in self._aggregates:
            found[output.name] = self._aggregated(output.step, tables[id(output.step)])
        return found

    def _aggregated(self, node: PersistentAggregate, table: pa.Table) -> pa.Table:
        """Combine what the batch gave with what is stored. Return all that the state holds then, as queries see it."""
        name, present, place = node.state.name, present_of(node), table.num_columns - 1
        state, deltas = self._states[name], table.column(place).combine_chunks()
        values = combined(shape_of(node).combine, state.read(table.select(range(place))), deltas)
        state.put(table.set_column(place, table.schema.field(place), values))
        (page,) = state.scan()
        rows = [value if present is None else present(value) for value in to_python(page.column(place))]
        columns = [_column(values) for values in zip(*rows, strict=True)]
        return pa.table([*page.columns[:place], *columns], names=[str(at) for at in range(place + len(columns))])

    def _reads(self) -> Reads:
        return Reads(
            lambda node, keys: self._states[node.state.name].read(keys),
            lambda node: self._states[node.state.name].scan(),
        )


def _keeps(node: Node) -> bool:
    if isinstance(node, PartitionPersist):
        return isinstance(node.updating, ColumnUpdater)
    return isinstance(node, Window | Watermark | IntervalJoin)


def _column(values: Sequence[Any]) -> pa.Array:
    """Return values as a column; tuples as structs, because their members may have several types."""
    if not any(isinstance(value, tuple) for value in values):
        return pa.array(values)
    return pa.array([value and {str(at): member for at, member in enumerate(value)} for value in values])
