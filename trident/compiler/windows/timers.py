"""Stateful operations with timers: after the tuples of a batch, the timers fire that are due by the batch's clock.

The timers of a key are a part of its record. So all that holds for values holds for timers: they are frozen and written
with the batch that sets them, and removed with the batch in which they fire.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from trident.base.generator_checks import check_ran
from trident.base.user_rows import add_rows
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.function_errors import Where, short
from trident.compiler.columns.operation_calls import Called, ListCollector, emitter, not_emitted
from trident.compiler.states.key_values import KeyValues, TimedKeyValues
from trident.compiler.states.overlay import DueTimes, Overlay, Stored
from trident.compiler.states.shapes import shape_of
from trident.compiler.states.stateful import Values
from trident.compiler.states.timed_overlay import TimedOverlay
from trident.compiler.states.update_types import Clock, RunWindow, WindowBatch
from trident.compiler.states.updates import InState, NextDue, Updated
from trident.compiler.windows.due_keys import DueKeys
from trident.compiler.windows.time_windows import NEVER, clock_of, latest_of
from trident.operations.functions import Call
from trident.operations.stateful import Stateful
from trident.operations.timers import Timer, Timers
from trident.plan.nodes import PartitionPersist

AT_ONCE = 0
"""A due time that has passed already."""


def timed_update(step: PartitionPersist) -> RunWindow:
    """Return the function that runs a stateful operation with timers over a batch."""
    return _Timed(step).update


@dataclass(slots=True)
class _Turn:
    """One batch: its clock, the keys that are due, and the overlay once it is open.

    `rest` is the first due time of the keys that are left for later batches; None if there are none.
    """

    clock: Clock
    due: pa.Table
    rest: int | None
    overlay: TimedOverlay | None = None

    @property
    def until(self) -> int:
        """The latest time of a timer that may fire: later timers must wait for the postponed keys."""
        return self.clock.after if self.rest is None else min(self.clock.after, self.rest)


@dataclass(slots=True)
class _Fired:
    """The keys of timers that have emitted tuples, the emissions, and their number up to the end of each timer."""

    keys: list[Any] = field(default_factory=list)
    emissions: list[Any] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, key: Any, emissions: Iterable[Any]) -> None:
        """Add the emissions of one timer."""
        self.emissions.extend(emissions)
        if len(self.emissions) > (self.ends[-1] if self.ends else 0):
            self.keys.append(key)
            self.ends.append(len(self.emissions))


class _Timed(Values):
    """An operation over a KeyValueState with timers.

    Some states know which keys have timers that are due (`DueTimes`). For other states the update keeps an index.
    """

    def __init__(self, step: PartitionPersist) -> None:
        assert isinstance(step.updating, Stateful) and step.updating.timers is not None
        self._timers: Timers = step.updating.timers
        self._turn: _Turn | None = None
        super().__init__(step)
        self._index = DueKeys(self._shape)
        self._emits = step.updating.emits
        self._timer_where = Where(step.step, self._timers.site, tuple(self._inputs.names))

    def update(self, table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        """Return the result of the operation for a batch: for its tuples, then for the timers that are due."""
        clock, most = self._clock(table, batch), self._timers.most
        due = stored.due(clock.after, most + 1) if isinstance(stored, DueTimes) else None
        indexed = due is None
        if due is None:
            self._index.begin(batch.txid, stored)
            due = self._index.until(clock.after, most)
            rest = self._index.first()
        else:
            rest = self._first_of(due.slice(most), stored)
        turn = self._turn = _Turn(clock, due.slice(0, most), rest)
        try:
            updated = super().update(table, stored, batch)
        finally:
            self._turn = None
        assert turn.overlay is not None
        if indexed:
            self._index.set(*turn.overlay.firsts())
            self._index.end(batch.txid)
        return replace(updated, due=self._next_due(turn, indexed))

    def _first_of(self, keys: pa.Table, stored: Stored) -> int | None:
        """Return the first due time of these keys as of the previous batch; None without keys."""
        assert self._shape.due is not None
        times = self._shape.due(stored.read(keys)).to_pylist() if keys.num_rows else []
        return min((time for time in times if time is not None), default=None)

    def _clock(self, table: pa.Table, batch: WindowBatch) -> Clock:
        config = self._timers.config
        if config is not None:
            return clock_of(config, latest_of(table, config.timestampField), batch)
        now = round(batch.time() * 1_000_000)
        return Clock(now, now, InState())

    def _next_due(self, turn: _Turn, indexed: bool) -> NextDue:
        """Return when the state needs a batch without tuples."""
        assert turn.overlay is not None
        first = self._index.first() if indexed else turn.rest
        passed = first is not None and first <= turn.clock.after
        if passed or turn.overlay.has_due(turn.clock.after):  # more were due than fire in one batch
            return AT_ONCE
        return turn.clock.due(first) if indexed else turn.clock.wakes

    def _view(self, step: PartitionPersist) -> KeyValues:
        config = self._timers.config
        zoned = config is None or step.source.schema[config.timestampField].dataType.typeName() == "timestamp"
        return TimedKeyValues(step.state.name, shape_of(step).keys, self._current, zoned)

    def _overlay(self, stored: Stored) -> Overlay:
        assert self._turn is not None
        before = self._turn.clock.before
        now = None if before == NEVER else before
        self._turn.overlay = TimedOverlay(self._step.state.name, self._shape, self._where, stored, now)
        return self._turn.overlay

    # --- the timers that fire ------------------------------------------------------------------------------------

    def _after_tuples(self, emitted: pa.Table) -> pa.Table:
        turn = self._turn
        assert turn is not None and turn.overlay is not None
        overlay = turn.overlay
        overlay.now = None if turn.clock.after == NEVER else turn.clock.after
        if turn.due.num_rows:
            overlay.known(Columns.of(turn.due, self._shape.keys))
        fired = self._fire(overlay, turn.until)
        return pa.concat_tables([emitted, self._table(fired)]) if fired.emissions else emitted

    def _fire(self, overlay: TimedOverlay, until: int) -> _Fired:
        """Call the user's function for the first timers that are due, in order, each after it is removed."""
        waiting, fired, count = overlay.due(until), _Fired(), 0
        heapq.heapify(waiting)
        while waiting and count < self._timers.most:
            at, _, name, number = heapq.heappop(waiting)
            if overlay.timer(number, name) != at:  # another timer, or an entry of this heap, has moved or removed it
                continue
            overlay.delete_timer(number, name)
            key = overlay.shown(number)
            assert isinstance(self._state, TimedKeyValues)
            fired.add(key, self._called(Timer(key, self._state.time(at), name)))
            count += 1
            for due in overlay.due_of_new(until):
                heapq.heappush(waiting, due)
        return fired

    def _called(self, timer: Timer) -> Iterable[Any]:
        """Call the user's function with a timer, and return its emissions."""
        operation = self._timers.operation
        with self._timer_where.calling(f"onTimer({short(tuple(timer))})"):
            if operation.call is Call.FUNCTION:
                collector = ListCollector(self._added.names)
                if (returned := operation.target.onTimer(timer, collector)) is not None:
                    raise not_emitted(returned)
                return collector.close()
            returned = operation.target(timer, self._state)
            if not self._emits:
                check_ran(returned, "do the work in the function itself")
                return ()
            if returned is None:  # unlike the function for tuples: a timer need not emit anything
                return ()
            several = operation.many or hasattr(returned, "__next__")
            emissions: list[Any] = []
            add_rows(emissions, returned if several else [returned], own=True)
            return emissions

    def _table(self, fired: _Fired) -> pa.Table:
        """Return the emissions as tuples: with the key, and null in all other fields of the step's input."""
        names, count = self._shape.keys.names, len(fired.keys)
        parts = [fired.keys] if len(names) == 1 else list(zip(*fired.keys, strict=True))
        keys = {key.name: (key.type, list(values)) for key, values in zip(self._shape.keys, parts, strict=True)}
        columns = {}
        for entering in self._inputs:
            kind, values = keys.get(entering.name, (entering.type, [None] * count))
            columns[entering.name] = Column.made(values if kind == entering.type else [None] * count, entering.type)
        finish = emitter(self._timers.operation, self._timer_where, self._added, frozenset(self._outputs.names)).finish
        return finish(Called(Columns(columns, count), fired.emissions, fired.ends)).table(self._outputs)
