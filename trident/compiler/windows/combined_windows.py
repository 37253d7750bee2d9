"""Windows by time with a combiner. They keep one accumulator for each window and group, and no tuples."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.spark_types import arrow_schema, select
from trident.base.value_conversion import to_python
from trident.compiler.aggregates.folds import FoldMember, FoldSpec, arrow_can_merge, merge_partials
from trident.compiler.states.overlay import Stored
from trident.compiler.states.row_changes import NumberedRows, row_changes
from trident.compiler.states.shapes import combine_of, nullable, shape_of
from trident.compiler.states.update_types import Clock, RunWindow, WindowBatch
from trident.compiler.states.updates import Updated
from trident.compiler.windows.aggregator_calls import presenting, result_columns, row_schema, where_of
from trident.compiler.windows.open_windows import OpenWindows, is_unique, removals, values_now
from trident.compiler.windows.time_windows import Lattice, clock_of, latest_of
from trident.compiler.windows.tuple_lists import microseconds, timestamps
from trident.operations.bundles import bundle_of
from trident.operations.windows import TimeWindow
from trident.plan.nodes import Window
from trident.plan.window_schema import END, LATEST, START
from trident_state.binary_arrays import one_chunk
from trident_state.value_rules import combined


def combined_update(node: Window) -> RunWindow:
    """Return the function that updates a window with a combiner from panes."""
    return _Combined(node)


class _Combined:
    """The update of the state of one window step, batch after batch. It keeps an index of the open windows."""

    def __init__(self, node: Window) -> None:
        config, aggregation = node.windowing.config, node.windowing.aggregation
        assert isinstance(config, TimeWindow)
        assert aggregation is not None
        shape, where = shape_of(node), where_of(node)
        self._node, self._config, self._where = node, config, where
        self._lattice = Lattice.of(config)
        self._keys = shape.keys
        self._value = aggregation.output
        self._spec = FoldSpec.of(shape.keys, FoldMember(where, aggregation))
        self._combine = combine_of(aggregation, where)
        self._puts = shape.keys.append(pa.field(self._value, shape.value))
        self._leaving, self._rows = nullable(arrow_schema(node.outputs)), row_schema(node)
        self._group = arrow_schema(select(node.schema, node.group))
        self._open = OpenWindows(shape.keys)

    def __call__(self, table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        latest = latest_of(table, LATEST) if self._config.timestampField is not None else None
        clock = clock_of(self._config, latest, batch)
        self._open.begin(batch.txid, stored)
        deltas, dropped = self._deltas(table, clock)
        keys = deltas.select(self._keys.names)
        before = stored.read(keys)
        values = combined(self._combine, before, one_chunk(deltas.column(self._value)), self._where.step)
        fresh = pc.and_(before.is_null(), values.is_valid())
        self._open.add(keys.filter(fresh))
        touched = keys.append_column(self._puts.field(len(self._keys)), values)
        early = self._node.windowing.early
        results = self._changes(keys, before, values) if early else self._results(touched, stored, clock)
        puts = self._puts_of(touched, stored, clock)
        self._open.remove(keys.filter(pc.and_(before.is_valid(), values.is_null())))  # a null removes the entry
        self._open.end(batch.txid)
        ends = self._lattice.ends(self._open.starts())
        return Updated(puts, results, dropped, clock.due(min(ends[ends > clock.after].tolist(), default=None)))

    def _deltas(self, table: pa.Table, clock: Clock) -> tuple[pa.Table, int]:
        """Return the accumulators that the batch adds to open windows, and the number of late rows.

        There is one accumulator for each window and group.
        """
        if self._config.timestampField is None:
            panes = np.full(table.num_rows, self._lattice.panes(np.asarray([clock.after], np.int64))[0])
        else:
            panes = microseconds(table.column(START))
        rows, starts = self._lattice.windows_of(panes)
        open_ = self._lattice.ends(starts) > clock.before
        rows, starts = rows[open_], starts[open_]
        dropped = table.num_rows - len(np.unique(rows))
        repeated = table.take(pa.array(rows))
        names = [*self._group.names, self._value]
        arrays = [timestamps(starts, self._keys.field(0).type), *(one_chunk(repeated.column(name)) for name in names)]
        partials = pa.Table.from_arrays(
            [array.cast(field.type) for array, field in zip(arrays, self._puts, strict=True)], schema=self._puts
        )
        return each_once(self._spec, partials), dropped

    # --- early results -------------------------------------------------------------------------------------------

    def _changes(self, keys: pa.Table, before: pa.Array, values: pa.Array) -> pa.Table:
        """Return the changes of the results of the windows that the batch touches, ordered by start."""
        order = pa.array(np.argsort(microseconds(keys.column(START)), kind="stable"))
        keys = keys.take(order)
        was, now = (self._numbered(keys, one_chunk(each).take(order)) for each in (before, values))
        return row_changes(was, now, self._leaving)

    def _numbered(self, keys: pa.Table, values: pa.Array) -> NumberedRows:
        there = values.is_valid()
        rows = self._result_rows(keys.filter(there), values.filter(there))
        return NumberedRows(rows, there.to_numpy(zero_copy_only=False).nonzero()[0])

    # --- what closes -----------------------------------------------------------------------------------------------

    def _results(self, touched: pa.Table, stored: Stored, clock: Clock) -> pa.Table:
        """Return the results of the windows whose end the watermark reaches with this batch, ordered by start."""
        starts = np.asarray(self._open.starts(), np.int64)
        ends = self._lattice.ends(starts)
        closing = starts[(clock.before < ends) & (ends <= clock.after)].tolist()
        if not closing:
            return self._leaving.empty_table()
        keys = self._open.whole(closing)
        values = values_now(keys, touched, stored)
        valid = values.is_valid()
        return self._result_rows(keys.filter(valid), values.filter(valid))

    def _result_rows(self, keys: pa.Table, values: pa.Array) -> pa.Table:
        """Return the results of windows, from the keys and accumulators of the state."""
        start = one_chunk(keys.column(START))
        end = timestamps(self._lattice.ends(microseconds(start)), start.type)
        bounds = {START: start, END: end}
        windowing, group = self._node.windowing, {name: one_chunk(keys.column(name)) for name in self._group.names}
        if presenting(windowing) is None and bundle_of(windowing.aggregation) is None:
            columns = {**bounds, **group, self._value: values}
        else:
            shown = result_columns(windowing, self._where, to_python(values), self._rows)
            columns = {**bounds, **group, **{name: column.array() for name, column in shown.items()}}
        return pa.Table.from_arrays([columns[name] for name in self._rows.names], schema=self._rows)

    def _puts_of(self, touched: pa.Table, stored: Stored, clock: Clock) -> pa.Table:
        """Return the changes of the state: the touched keys, and nulls for windows that are no longer kept."""
        starts, kept = np.asarray(self._open.starts(), np.int64), self._node.windowing.keepFor
        expired = starts[self._lattice.ends(starts) + kept <= clock.after].tolist()
        if not expired:
            return touched
        gone = self._open.whole(expired)
        gone = gone.filter(stored.read(gone).is_valid())
        for start in expired:
            self._open.drop(start)
        remaining = touched.filter(
            pa.array(self._lattice.ends(microseconds(touched.column(START))) + kept > clock.after)
        )
        return pa.concat_tables([remaining, removals(gone, self._puts)])


def each_once(spec: FoldSpec, partials: pa.Table) -> pa.Table:
    """Merge partial accumulators by key. If no key occurs twice, as is common, return them unchanged."""
    if not arrow_can_merge(spec) and is_unique(partials.select(spec.keys.names)):
        return partials
    return merge_partials(spec, partials).table(spec.schema)
