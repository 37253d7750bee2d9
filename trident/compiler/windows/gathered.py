"""Windows by time whose aggregator sees every tuple: the tuples wait by pane, group and batch.

A batch writes its own tuples and rewrites nothing. The aggregator gets a window's tuples in the order of their times.
Tuples of the same time keep the order in which they came, as do all tuples of a window by batch time.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from trident.base.types import arrow_schema, select
from trident.compiler.columns.columns import Column, Columns, made_tuples
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import nullable, shape_of
from trident.compiler.states.update_types import Clock, RunWindow, WindowBatch
from trident.compiler.states.updates import Updated, entering
from trident.compiler.windows.calls import Results, where_of
from trident.compiler.windows.open_windows import OpenWindows, removals, runs, values_now
from trident.compiler.windows.time import Lattice, clock_of, held_by_any, latest_of
from trident.compiler.windows.tuple_lists import Ids, TupleLists, flattened, microseconds, timestamps
from trident.operations.tuples import tuple_type
from trident.operations.windows import TimeWindow
from trident.plan.nodes import Window
from trident.plan.window_inputs import entering_window
from trident.plan.window_schema import BATCH, END, START
from trident_state.binary import one_chunk


def gathered_update(node: Window) -> RunWindow:
    """Return the function that updates a window by time whose aggregator sees every tuple."""
    return _Gathered(node)


class _Gathered:
    """The update of the state of one window step, batch after batch. It keeps an index of the open panes."""

    def __init__(self, node: Window) -> None:
        config, shape = node.windowing.config, shape_of(node)
        assert isinstance(config, TimeWindow)
        self._node, self._config, self._where = node, config, where_of(node)
        self._lattice = Lattice.of(config)
        self._keys = shape.keys
        self._entering = arrow_schema(select(node.source.schema, entering_window(node)))
        self._held = TupleLists(shape.value, arrow_schema(select(node.source.schema, node.inputs)))
        self._puts = shape.keys.append(pa.field(node.schema.names[-1], shape.value))
        self._leaving = nullable(arrow_schema(node.outputs))
        self._group = nullable(arrow_schema(select(node.source.schema, node.group)))
        self._make = tuple_type(node.inputs)
        self._open = OpenWindows(shape.keys)

    def __call__(self, table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        clock = clock_of(self._config, latest_of(table, self._config.timestampField), batch)
        self._open.begin(batch.txid, stored)
        added, dropped = self._added(table, clock, batch.txid)
        self._open.add(added.select(self._keys.names))
        results = self._results(added, stored, clock)
        puts = self._puts_of(added, clock, batch.txid)
        self._open.end(batch.txid)
        ends = self._ends()
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
        results, groups, starts = Results(self._node.windowing, self._where), [self._group.empty_table()], list[int]()
        for start in self._closing(clock):
            inside = [pane for pane in self._open.starts() if start <= pane < start + self._config.length]
            keys = self._open.whole(inside).sort_by([(START, "ascending"), (BATCH, "ascending")])
            called = self._called(start, keys, values_now(keys, added, stored), results, len(starts))
            groups.append(called)
            starts += [start] * called.num_rows
        outputs, origins = results.columns(), pa.array(results.origins, pa.int64())
        all_groups, begin = pa.concat_tables(groups).take(origins), np.asarray(starts, np.int64)[results.origins]
        start_, kind = timestamps(begin, self._keys.field(0).type), self._keys.field(0).type
        columns = {START: start_, END: timestamps(begin + self._config.length, kind)}
        columns |= {name: one_chunk(all_groups.column(name)) for name in self._group.names}
        columns |= {name: outputs[name].array() for name in outputs.names}
        return pa.Table.from_arrays([columns[name] for name in self._leaving.names], schema=self._leaving)

    def _called(self, start: int, keys: pa.Table, values: pa.Array, results: Results, before: int) -> pa.Table:
        """Call the aggregator for every group of one window. Return the groups, one row each.

        `keys` and `values` are the entries of the window's panes. `before` is the number of groups of earlier windows:
        the origins in `results` continue from this number.
        """
        elements, ends = flattened(values)
        index = KeyNumbers(self._group.types)
        group = Columns.of(keys.select(self._group.names), self._group) if self._group.names else Columns({}, 0)
        key_numbers = np.asarray(index.numbers([group[name] for name in self._group.names], keys.num_rows), np.int64)
        lists = self._held.tuples(elements).lists(self._held.inputs.names)
        rows = list(made_tuples(self._make, lists, len(elements)))
        timed = self._config.timestampField is not None
        order = np.argsort(self._held.times(elements), kind="stable") if timed else np.arange(len(elements))
        for number, members in runs(np.repeat(key_numbers, np.diff(ends))[order]):
            results.add([rows[at] for at in order[members]], start // self._config.slide, before + number)
        return index.named(self._group.names).table(self._group)

    def _closing(self, clock: Clock) -> list[int]:
        """Return the starts of the windows whose end the watermark reaches with this batch."""
        ends = self._ends()
        closing: list[int] = (ends[(clock.before < ends) & (ends <= clock.after)] - self._config.length).tolist()
        return closing

    def _ends(self) -> Ids:
        """Return the ends of all windows with tuples, in order."""
        _, starts = self._lattice.windows_of(np.asarray(self._open.starts(), np.int64))
        return np.unique(starts + self._config.length)

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
