"""Windows by time whose aggregator sees every tuple: the tuples wait by pane, group and batch.

A batch writes its own tuples and rewrites nothing. The aggregator gets a window's tuples in the order of their times.
Tuples of the same time keep the order in which they came, as do all tuples of a window by batch time.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.spark_types import arrow_schema, select
from trident.compiler.columns.columns import Column, Columns, made_tuples
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import nullable, shape_of
from trident.compiler.states.update_types import Clock, RunWindow, WindowBatch
from trident.compiler.states.updates import Updated, entering
from trident.compiler.windows.aggregator_calls import Results, row_schema, where_of
from trident.compiler.windows.early_results import changed_results
from trident.compiler.windows.open_windows import OpenWindows, removals, runs, values_now
from trident.compiler.windows.time_windows import Lattice, clock_of, held_by_any, latest_of
from trident.compiler.windows.tuple_lists import Ids, TupleLists, flattened, microseconds, timestamps
from trident.operations.tuples import tuple_type
from trident.operations.windows import TimeWindow
from trident.plan.nodes import Window
from trident.plan.window_inputs import entering_window
from trident.plan.window_schema import BATCH, END, START
from trident_state.binary_arrays import one_chunk
from trident_state.keys import encode_keys


def gathered_update(node: Window) -> RunWindow:
    """Return the function that updates a window by time whose aggregator sees every tuple."""
    return _Gathered(node)


class _Gathered:
    """The update of the state of one window step, batch after batch. It keeps an index of the open panes."""

    def __init__(self, node: Window) -> None:
        config, shape = node.windowing.config, shape_of(node)
        assert isinstance(config, TimeWindow)
        self._node, self._config = node, config
        self._lattice = Lattice.of(config)
        self._keys = shape.keys
        self._entering = arrow_schema(select(node.source.schema, entering_window(node)))
        self._held = TupleLists(shape.value, arrow_schema(select(node.source.schema, node.inputs)))
        self._puts = shape.keys.append(pa.field(node.schema.names[-1], shape.value))
        self._leaving = nullable(arrow_schema(node.outputs))
        self._group = nullable(arrow_schema(select(node.source.schema, node.group)))
        self._open = OpenWindows(shape.keys)

    def __call__(self, table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        clock = clock_of(self._config, latest_of(table, self._config.timestampField), batch)
        self._open.begin(batch.txid, stored)
        added, dropped = self._added(table, clock, batch.txid)
        self._open.add(added.select(self._keys.names))
        if self._node.windowing.early:
            results = self._changes(added, stored, clock, batch.txid)
        else:
            results = self._results(added, stored, clock)
        puts = self._puts_of(added, clock, batch.txid)
        self._open.end(batch.txid)
        _, ends = self._windows()
        return Updated(puts, results, dropped, clock.due(min(ends[ends > clock.after].tolist(), default=None)))

    def _added(self, table: pa.Table, clock: Clock, txid: int) -> tuple[pa.Table, int]:
        """Return the batch's tuples by pane and group, as the state stores them, and the number of late tuples."""
        field, times, dropped = self._config.timestampField, None, 0
        if field is None:
            panes = np.full(table.num_rows, clock.after, np.int64)
        else:
            table = table.filter(table.column(field).is_valid()) if table.num_rows else table
            micros = microseconds(table.column(field))
            open_ = (self._lattice.last_end(micros) > clock.before) & held_by_any(self._config, micros)
            dropped = int((~open_).sum())
            table = table.filter(pa.array(open_))
            times = one_chunk(table.column(field)).cast(self._held.kind.value_type.field("time").type)
            panes = microseconds(times)
        panes = self._lattice.panes(panes)
        tuples = entering(table, self._entering)
        index = KeyNumbers([pa.int64(), *self._group.types])
        pane = Column(pa.int64(), pa.array(panes), None)
        keys = [pane, *(tuples[name] for name in self._group.names)]
        key_numbers = np.asarray(index.numbers(keys, len(panes)), np.int64)
        order = np.argsort(key_numbers, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(key_numbers, minlength=len(index)))])
        lists = self._held.lists(self._held.elements(tuples, times), order, ends)
        start, *group = index.columns()
        columns = [timestamps(start.array(), self._keys.field(0).type), *(column.array() for column in group)]
        batch = pa.array(np.full(len(index), txid), pa.int64())
        return pa.Table.from_arrays([*columns, batch, lists], schema=self._puts), dropped

    def _results(self, added: pa.Table, stored: Stored, clock: Clock) -> pa.Table:
        """Return the results of the windows whose end the watermark reaches with this batch."""
        called = _Called(self._node, self._group)
        for start in self._closing(clock):
            keys = self._entries(start)
            called.add(start, keys, values_now(keys, added, stored))
        return called.rows()

    def _changes(self, added: pa.Table, stored: Stored, clock: Clock, txid: int) -> pa.Table:
        """Return the changes of the results of the windows that the batch touches."""
        before, after = _Called(self._node, self._group), _Called(self._node, self._group)
        panes, starts = self._lattice.windows_of(microseconds(added.column(START)))
        open_ = self._lattice.ends(starts) > clock.before
        panes, starts = panes[open_], starts[open_]
        for start, members in runs(starts):
            keys = self._of_groups(self._entries(start), added.take(pa.array(panes[members])))
            values = values_now(keys, added, stored)
            after.add(start, keys, values)
            earlier = pc.not_equal(keys.column(BATCH), txid)
            before.add(start, keys.filter(earlier), values.filter(one_chunk(earlier)))
        return changed_results(before.rows(), after.rows(), [START, *self._group.names], self._leaving)

    def _entries(self, start: int) -> pa.Table:
        """Return the keys of the panes of one window, in order."""
        end = int(self._lattice.ends([start])[0])
        inside = [pane for pane in self._open.starts() if start <= pane < end]
        return self._open.whole(inside).sort_by([(START, "ascending"), (BATCH, "ascending")])

    def _of_groups(self, keys: pa.Table, tuples: pa.Table) -> pa.Table:
        """Return the keys of the groups that have one of these tuples."""
        if not self._group.names:
            return keys
        groups = encode_keys(tuples.select(self._group.names))
        return keys.filter(pc.is_in(encode_keys(keys.select(self._group.names)), value_set=groups))

    def _closing(self, clock: Clock) -> list[int]:
        """Return the starts of the windows whose end the watermark reaches with this batch."""
        starts, ends = self._windows()
        closing: list[int] = starts[(clock.before < ends) & (ends <= clock.after)].tolist()
        return closing

    def _windows(self) -> tuple[Ids, Ids]:
        """Return the starts and the ends of all windows with tuples, in order."""
        _, starts = self._lattice.windows_of(np.asarray(self._open.starts(), np.int64))
        starts = np.unique(starts)
        return starts, self._lattice.ends(starts)

    def _puts_of(self, added: pa.Table, clock: Clock, txid: int) -> pa.Table:
        """Return the changes of the state: the batch's tuples, and nulls for panes whose windows have all closed."""
        closed = [pane for pane in self._open.starts() if self._ended(np.asarray([pane], np.int64), clock)[0]]
        if not closed:
            return added
        removed = self._open.whole(closed)
        # the tuples of this batch are not in the state yet
        removed = removed.filter(pa.array(microseconds(removed.column(BATCH)) != txid))
        for pane in closed:
            self._open.drop(pane)
        remaining = added.filter(pa.array(~self._ended(microseconds(added.column(START)), clock)))
        return pa.concat_tables([remaining, removals(removed, self._puts)])

    def _ended(self, panes: Ids, clock: Clock) -> Any:
        return self._lattice.last_end(panes) <= clock.after


class _Called:
    """The results of some windows, called window by window, each for all groups in it."""

    def __init__(self, node: Window, group: pa.Schema) -> None:
        config, shape = node.windowing.config, shape_of(node)
        assert isinstance(config, TimeWindow)
        self._config, self._group, self._rows = config, group, row_schema(node)
        self._lattice = Lattice.of(config)
        self._time = shape.keys.field(0).type
        self._held = TupleLists(shape.value, arrow_schema(select(node.source.schema, node.inputs)))
        self._make = tuple_type(node.inputs)
        self._results = Results(node.windowing, where_of(node))
        self._groups = [group.empty_table()]
        self._starts: list[int] = []

    def add(self, start: int, keys: pa.Table, values: pa.Array) -> None:
        """Call the aggregator for every group of one window. `keys` and `values` are the entries of its panes."""
        elements, ends = flattened(values)
        index = KeyNumbers(self._group.types)
        group = Columns.of(keys.select(self._group.names), self._group) if self._group.names else Columns({}, 0)
        key_numbers = np.asarray(index.numbers([group[name] for name in self._group.names], keys.num_rows), np.int64)
        lists = self._held.tuples(elements).lists(self._held.inputs.names)
        rows = list(made_tuples(self._make, lists, len(elements)))
        timed = self._config.timestampField is not None
        order = np.argsort(self._held.times(elements), kind="stable") if timed else np.arange(len(elements))
        before = len(self._starts)
        for number, members in runs(np.repeat(key_numbers, np.diff(ends))[order]):
            self._results.add([rows[at] for at in order[members]], self._lattice.number(start), before + number)
        called = index.named(self._group.names).table(self._group)
        self._groups.append(called)
        self._starts += [start] * called.num_rows

    def rows(self) -> pa.Table:
        """Return the results."""
        outputs, origins = self._results.columns(), pa.array(self._results.origins, pa.int64())
        groups, begin = pa.concat_tables(self._groups).take(origins), np.asarray(self._starts, np.int64)[origins]
        start, end = (timestamps(times, self._time) for times in (begin, self._lattice.ends(begin)))
        columns = {START: start, END: end}
        columns |= {name: one_chunk(groups.column(name)) for name in self._group.names}
        columns |= {name: outputs[name].array() for name in outputs.names}
        return pa.Table.from_arrays([columns[name] for name in self._rows.names], schema=self._rows)
