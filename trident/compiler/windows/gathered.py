"""Windows by time whose aggregator sees every tuple: they wait by pane, group and batch.

A batch writes what it brought, and rewrites nothing. A window's tuples are handed over in the order of their times,
those of one time (and all of a window by batch time) in the order in which they came.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from trident.base.types import arrow_schema, select
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.keys import KeyIndex
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import nullable, shape_of
from trident.compiler.states.updates import Updated
from trident.compiler.windows.calls import Results, where_of
from trident.compiler.windows.inputs import entering_window
from trident.compiler.windows.open_windows import OpenWindows, runs, values_now
from trident.compiler.windows.time import Clock, Lattice, clock_of, held_by_any, latest_of
from trident.compiler.windows.tuple_lists import Held, Ids, flattened, moments, numbers, one
from trident.compiler.windows.types import RunWindow, WindowTurn
from trident.operations.tuples import tuple_type
from trident.operations.windows import TimeWindow
from trident.plan.nodes import Window
from trident.plan.window_schema import BATCH, END, START


def gathered_update(node: Window) -> RunWindow:
    """The update of a window over tuples."""
    return _Gathered(node)


class _Gathered:
    """One window's state over its batches."""

    def __init__(self, node: Window) -> None:
        config, shape = node.windowing.config, shape_of(node)
        assert isinstance(config, TimeWindow)
        self._node, self._config, self._where = node, config, where_of(node)
        self._lattice = Lattice.of(config)
        self._keys = shape.keys
        self._came = arrow_schema(select(node.source.schema, entering_window(node)))
        self._held = Held(shape.value, arrow_schema(select(node.source.schema, node.inputs)))
        self._puts = shape.keys.append(pa.field(node.schema.names[-1], shape.value))
        self._leaving = nullable(arrow_schema(node.outputs))
        self._group = nullable(arrow_schema(select(node.source.schema, node.group)))
        self._tuples = tuple_type(node.inputs)
        self._open = OpenWindows(shape.keys)

    def __call__(self, table: pa.Table, stored: Stored, turn: WindowTurn) -> Updated:
        clock = clock_of(self._config, latest_of(table, self._config.timestampField), turn)
        self._open.stand_at(turn.txid - 1, stored)
        self._open.void()
        came = self._brought(table, clock, turn.txid)
        self._open.add(came.select(self._keys.names))
        results = self._results(came, stored, clock)
        puts = self._puts_of(came, clock, turn.txid)
        self._open.stands_at(turn.txid)
        return Updated(puts, results)

    def _brought(self, table: pa.Table, clock: Clock, txid: int) -> pa.Table:
        """What the batch adds to the state: its tuples by pane and group."""
        field, times = self._config.timestampField, None
        if field is None:
            panes = np.full(table.num_rows, clock.after, np.int64)
        else:
            table = table.filter(table.column(field).is_valid()) if table.num_rows else table
            whole = numbers(table.column(field))
            open_ = (self._lattice.last_end(whole) > clock.before) & held_by_any(self._config, whole)
            table = table.filter(pa.array(open_))
            times = one(table.column(field)).cast(self._held.kind.value_type.field("time").type)
            panes = numbers(times)
        panes = self._lattice.panes(panes)
        tuples = Columns.of(table.select(self._came.names), self._came) if len(self._came) else Columns({}, len(panes))
        index = KeyIndex([pa.int64(), *self._group.types])
        pane = Column(pa.int64(), pa.array(panes), None)
        places = np.asarray(index.places([pane, *(tuples[name] for name in self._group.names)], len(panes)), np.int64)
        order = np.argsort(places, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=len(index)))])
        lists = self._held.lists(self._held.elements(tuples, times), order, ends)
        start, *group = index.columns()
        columns = [moments(start.array(), self._keys.field(0).type), *(each.array() for each in group)]
        batch = pa.array(np.full(len(index), txid), pa.int64())
        return pa.Table.from_arrays([*columns, batch, lists], schema=self._puts)

    def _results(self, came: pa.Table, stored: Stored, clock: Clock) -> pa.Table:
        """What the aggregator gives for the windows whose end the watermark reaches with this batch."""
        results, groups, starts = Results(self._node.windowing, self._where), [self._group.empty_table()], list[int]()
        for start in self._closing(clock):
            inside = [pane for pane in self._open.starts() if start <= pane < start + self._config.length]
            keys = self._open.whole(inside).sort_by([(START, "ascending"), (BATCH, "ascending")])
            found = self._called(start, keys, values_now(keys, came, stored), results, len(starts))
            groups.append(found)
            starts += [start] * found.num_rows
        given, origins = results.columns(), pa.array(results.origins, pa.int64())
        whole, begin = pa.concat_tables(groups).take(origins), np.asarray(starts, np.int64)[results.origins]
        start_, kind = moments(begin, self._keys.field(0).type), self._keys.field(0).type
        columns = {START: start_, END: moments(begin + self._config.length, kind)}
        columns |= {name: one(whole.column(name)) for name in self._group.names}
        columns |= {name: given[name].array() for name in given.names}
        return pa.Table.from_arrays([columns[name] for name in self._leaving.names], schema=self._leaving)

    def _called(self, start: int, keys: pa.Table, values: pa.Array, results: Results, before: int) -> pa.Table:
        """Call the aggregator for every group of one window; gives the groups."""
        elements, ends = flattened(values)
        index = KeyIndex(self._group.types)
        group = Columns.of(keys.select(self._group.names), self._group) if self._group.names else Columns({}, 0)
        places = np.asarray(index.places([group[name] for name in self._group.names], keys.num_rows), np.int64)
        lists = self._held.tuples(elements).lists(self._held.inputs.names)
        none = [self._tuples(())] * len(elements)
        rows = list(map(self._tuples, zip(*lists, strict=True))) if lists else none
        timed = self._config.timestampField is not None
        order = np.argsort(self._held.times(elements), kind="stable") if timed else np.arange(len(elements))
        for place, members in runs(np.repeat(places, np.diff(ends))[order]):
            results.add([rows[at] for at in order[members]], start // self._config.slide, before + place)
        return _table(index, self._group)

    def _closing(self, clock: Clock) -> list[int]:
        """The starts of the windows that the watermark completes with this batch."""
        _, starts = self._lattice.spread(np.asarray(self._open.starts(), np.int64))
        ends = starts + self._config.length
        found: list[int] = np.unique(starts[(clock.before < ends) & (ends <= clock.after)]).tolist()
        return found

    def _puts_of(self, came: pa.Table, clock: Clock, txid: int) -> pa.Table:
        """What the state holds afterwards: what came, and no pane of which every window has left."""
        done = [pane for pane in self._open.starts() if self._ended(np.asarray([pane], np.int64), clock)[0]]
        if not done:
            return came
        gone = self._open.whole(done)
        gone = gone.filter(pa.array(numbers(gone.column(BATCH)) != txid))  # the state never had these
        for pane in done:
            self._open.drop(pane)
        left = came.filter(pa.array(~self._ended(numbers(came.column(START)), clock)))
        return pa.concat_tables([left, gone.append_column(self._puts.field(len(self._keys)), self._nothing(gone))])

    def _ended(self, panes: Ids, clock: Clock) -> Any:
        return self._lattice.last_end(panes) <= clock.after

    def _nothing(self, keys: pa.Table) -> pa.Array:
        return pa.nulls(keys.num_rows, self._puts.types[-1])


def _table(index: KeyIndex, fields: pa.Schema) -> pa.Table:
    """The keys of an index."""
    columns = dict(zip(fields.names, index.columns(), strict=True)) if fields.names else {}
    return Columns(columns, len(index)).table(fields)
