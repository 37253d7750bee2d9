"""The view of a state with timers within one batch: an overlay of the users' values, and the timers of each key."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from trident.compiler.columns.columns import Column, Columns, concat
from trident.compiler.columns.function_errors import Where
from trident.compiler.states.overlay import Overlay, Stored
from trident_state.keys import encode_keys
from trident_state.state_shape import StateShape

Due: TypeAlias = tuple[int, bytes, str, int]
"""A timer in the order in which timers fire: its time, its encoded key and its name; then the number of the key."""


class TimedOverlay(Overlay):
    """The values and timers that a batch has read or changed. `shape` is that of the stored records.

    `now` is the time of the step's clock in microseconds since 1970, None before the first time.
    """

    def __init__(self, name: str, shape: StateShape, where: Where, stored: Stored, now: int | None) -> None:
        self._record: pa.StructType = shape.value
        super().__init__(name, StateShape(shape.keys, self._record.field(0).type, shape.combine), where, stored)
        self.now = now
        self._timers: list[dict[str, int]] = []
        """The times of each key's timers by name; the position is the number of the key."""
        self._new_timers: list[tuple[int, str]] = []
        self._named: dict[int, tuple[Any, bytes]] = {}

    # --- for the views -------------------------------------------------------------------------------------------

    def timer(self, number: int, name: str) -> int | None:
        """Return the time of a key's timer of this name; None if it has none."""
        return self._timers[number].get(name)

    def set_timer(self, number: int, at: int, name: str) -> None:
        """Set a timer of a key. It replaces the timer of the same name."""
        self._timers[number][name] = at
        self._written[number] = None
        self._new_timers.append((number, name))

    def delete_timer(self, number: int, name: str) -> None:
        """Remove a timer of a key, if there is one."""
        if self._timers[number].pop(name, None) is not None:
            self._written[number] = None

    def keys(self) -> list[tuple[Any, ...]]:
        """Return the keys of all entries, without keys that have only timers."""
        return [entry[:-1] for entry in self.entries()]

    # --- for the step --------------------------------------------------------------------------------------------

    def due(self, until: int) -> list[Due]:
        """Return the timers of all known keys that are due at or before `until`."""
        self._new_timers.clear()
        numbers = [n for n, timers in enumerate(self._timers) if any(at <= until for at in timers.values())]
        return self._ordered([(n, name) for n in numbers for name in self._timers[n]], until)

    def has_due(self, until: int) -> bool:
        """Return whether a timer of a known key is due at or before `until`."""
        return any(at <= until for timers in self._timers for at in timers.values())

    def due_of_new(self, until: int) -> list[Due]:
        """Return the timers that were set since the last call and are due at or before `until`."""
        fresh, self._new_timers = self._new_timers, []
        return self._ordered(fresh, until)

    def shown(self, number: int) -> Any:
        """Return a key of a due timer as users see it: a value, or a tuple of them."""
        return self._named[number][0]

    def firsts(self) -> tuple[pa.Table, list[int | None]]:
        """Return all known keys, each with the time of its first timer."""
        times = [min(timers.values(), default=None) for timers in self._timers]
        return self._whole().table(self._shape.keys), times

    def changes(self) -> Columns:
        """Return every key whose value or timers changed, each once, with its record in a column named ``""``."""
        written = list(self._written)
        keys = self._whole().take(written)
        values = Column.made([self._values[number] for number in written], self._shape.value).array()
        timers = [sorted((at, name) for name, at in self._timers[number].items()) for number in written]
        lists = pa.array([own or None for own in map(_stored, timers)], self._record.field(1).type)
        gone = pa.array([self._values[number] is None and not self._timers[number] for number in written], pa.bool_())
        records = pa.StructArray.from_arrays([values, lists], fields=list(self._record), mask=gone)
        return keys.plus({"": Column.of(records)})

    # --- small things --------------------------------------------------------------------------------------------

    def _ordered(self, timers: Sequence[tuple[int, str]], until: int) -> list[Due]:
        due = [(self._timers[n].get(name), name, n) for n, name in timers]
        ripe = [(at, name, n) for at, name, n in due if at is not None and at <= until]
        self._name([n for _, _, n in ripe if n not in self._named])
        return [(at, self._named[n][1], name, n) for at, name, n in ripe]

    def _name(self, numbers: Sequence[int]) -> None:
        """Record these keys as users see them, and in the form by which they are ordered."""
        if numbers:
            numbers = list(dict.fromkeys(numbers))
            keys = self._whole().take(numbers)
            encoded = encode_keys(keys.table(self._shape.keys)).to_pylist()
            rows = zip(*keys.lists(keys.names), strict=True)
            shown = [row[0] if len(row) == 1 else row for row in rows]
            self._named |= dict(zip(numbers, zip(shown, encoded, strict=True), strict=True))

    def _whole(self) -> Columns:
        if self._keys:
            return concat(self._keys)
        return Columns({field.name: Column.made([], field.type) for field in self._shape.keys}, 0)

    def _keep(self, keys: Columns, numbers: list[int], known: int, values: Callable[[list[int]], list[Any]]) -> None:
        first = len(self._values)
        super()._keep(keys, numbers, known, values)
        for number in range(first, len(self._values)):
            record = self._values[number]
            timers = () if record is None else record[1] or ()
            self._values[number] = None if record is None else record[0]
            self._timers.append({name: at for at, name in timers})


def _stored(timers: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"at": at, "name": name} for at, name in timers]
