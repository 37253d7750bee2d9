"""Window joins: combinations of tuples of two streams that have equal keys and are in the same window.

The tuples wait by pane of time. The batch whose watermark reaches a window's end reads the window's tuples of both
streams, and emits all combinations of the window.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from trident.base.spark_types import arrow_schema
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import nullable
from trident.compiler.states.update_types import Clock, RunJoin, WindowBatch
from trident.compiler.states.updates import Updated
from trident.compiler.windows.time_windows import Lattice
from trident.compiler.windows.tuple_lists import Ids, timestamps
from trident.compiler.windows.waiting_tuples import (
    LEFT,
    RIGHT,
    Rows,
    WaitingTuples,
    clocks_of,
    columns_alone,
    key_numbers,
    late_rows,
    next_due,
    origins_of_fields,
    pairs,
)
from trident.plan.nodes import WindowJoin


def window_join(node: WindowJoin) -> RunJoin:
    """Return the function that joins the tuples of two streams by window."""
    return _Join(node)


class _Join:
    """The update of the state of one join, batch after batch."""

    def __init__(self, node: WindowJoin) -> None:
        self._node, self._lattice = node, Lattice.of(node.joining.window)
        self._leaving = nullable(arrow_schema(node.outputs))
        self._fields = pa.schema(list(self._leaving)[2:])
        self._origins = origins_of_fields(node)
        self._waiting = WaitingTuples(node, self._lattice.pane)

    def __call__(self, tables: Sequence[pa.Table], stored: Stored, batch: WindowBatch) -> Updated:
        waiting, lattice, clocks = self._waiting, self._lattice, clocks_of(self._node, tables, batch)
        clock = Clock(min(each.before for each in clocks), min(each.after for each in clocks))
        waiting.begin(batch.txid, stored)
        new = [waiting.sides[number].on_time(tables[number], clock.before) for number in (LEFT, RIGHT)]
        panes = [lattice.panes(waiting.sides[number].times(new[number])) for number in (LEFT, RIGHT)]
        emitted = self._results(new, panes, stored, clock)
        puts = [self._entered(number, new[number], panes[number], clock, batch.txid) for number in (LEFT, RIGHT)]
        gone = [self._gone(number, clock) for number in (LEFT, RIGHT)]
        waiting.end(batch.txid, puts)
        _, ends = self._windows([waiting.held[number].starts() for number in (LEFT, RIGHT)])
        due = next_due(min(ends[ends > clock.after].tolist(), default=None), clocks)
        return Updated(pa.concat_tables([*puts, *gone]), emitted, late_rows(tables, new), due)

    # --- the windows that close ------------------------------------------------------------------------------------

    def _windows(self, panes: Sequence[Sequence[int] | Ids]) -> tuple[Ids, Ids]:
        """Return the starts and the ends of all windows that contain one of these panes, in order."""
        _, starts = self._lattice.windows_of(np.unique(np.concatenate([np.asarray(each, np.int64) for each in panes])))
        starts = np.unique(starts)
        return starts, self._lattice.ends(starts)

    def _results(self, new: Sequence[pa.Table], panes: Sequence[Ids], stored: Stored, clock: Clock) -> pa.Table:
        """Return the joined tuples of the windows whose end the watermark reaches with this batch, window by window."""
        starts, ends = self._windows([*panes, *(held.starts() for held in self._waiting.held)])
        closing = starts[(clock.before < ends) & (ends <= clock.after)]
        if not len(closing):
            return self._leaving.empty_table()
        (left, of_left), (right, of_right) = (
            self._in_windows(number, new[number], closing, stored) for number in (LEFT, RIGHT)
        )
        lefts, rights = key_numbers(self._waiting.sides, left, right)
        ours, others = pairs(Rows(of_left, lefts), Rows(of_right, rights), 0, 0)
        taken = left.take(pa.array(ours)), right.take(pa.array(others))
        parts, begins = [[taken[of[0][0]].column(of[0][1]) for of in self._origins]], [of_left[ours]]
        for number, (tuples, windows, met) in enumerate(((left, of_left, ours), (right, of_right, others))):
            if self._node.joining.unmatched[number]:
                alone = np.ones(tuples.num_rows, np.bool_)
                alone[met] = False
                lonely = tuples.filter(pa.array(alone))
                parts.append(columns_alone(lonely, number, self._fields, self._origins))
                begins.append(windows[alone])
        return self._with_bounds(
            pa.concat_tables([pa.Table.from_arrays(columns, schema=self._fields) for columns in parts]),
            np.concatenate(begins),
        )

    def _in_windows(self, number: int, new: pa.Table, closing: Ids, stored: Stored) -> tuple[pa.Table, Ids]:
        """Return the tuples of one stream in the windows that close, in the order of windows and times.

        A tuple comes once for each of these windows. Also return the starts of the windows.
        """
        waiting, lattice, side = self._waiting, self._lattice, self._waiting.sides[number]
        held = waiting.held[number]
        starts = np.asarray(held.starts(), np.int64)
        of_pane, windows = lattice.windows_of(starts)
        inside = np.unique(of_pane[np.isin(windows, closing)])
        old = waiting.read(number, held.whole(starts[inside].tolist()), stored)
        tuples = pa.concat_tables([old, new])
        times = side.times(tuples)
        rows, windows = lattice.windows_of(lattice.panes(times))
        chosen = np.isin(windows, closing)
        rows, windows = rows[chosen], windows[chosen]
        order = np.lexsort((times[rows], windows))
        return tuples.take(pa.array(rows[order])), windows[order]

    def _with_bounds(self, joined: pa.Table, starts: Ids) -> pa.Table:
        """Return joined tuples with the bounds of their windows, in the order of the windows."""
        order = np.argsort(starts, kind="stable")
        starts, kind = starts[order], self._leaving.types[0]
        bounds = [timestamps(times, kind) for times in (starts, self._lattice.ends(starts))]
        return pa.Table.from_arrays([*bounds, *joined.take(pa.array(order)).columns], schema=self._leaving)

    # --- the state -------------------------------------------------------------------------------------------------

    def _entered(self, number: int, new: pa.Table, panes: Ids, clock: Clock, txid: int) -> pa.Table:
        """Return the entries for a batch's tuples of stream `number` that are in a window which is still open."""
        needed = self._lattice.last_end(panes) > clock.after
        return self._waiting.entered(number, new.filter(pa.array(needed)), panes[needed], txid)

    def _gone(self, number: int, clock: Clock) -> pa.Table:
        """Return the changes that remove the panes of stream `number` whose windows have all closed."""
        panes = np.asarray(self._waiting.held[number].starts(), np.int64)
        return self._waiting.removed(number, panes[self._lattice.last_end(panes) <= clock.after].tolist())
