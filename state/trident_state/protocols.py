"""Trident's own state protocols: the interfaces through which user code reads and updates a state.

A key is a tuple or list with a value for each key field, or the value itself if the state has one key field. The value
None means that nothing is stored under a key; putting None removes the key.
"""

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

Key: TypeAlias = Any
Value: TypeAlias = Any


@runtime_checkable
class State(Protocol):
    """A state that changes once per batch (``org.apache.storm.trident.state.State``).

    The library calls both methods.
    """

    def beginCommit(self, txid: int) -> None:
        """Begin to receive the changes of batch `txid`."""
        ...

    def commit(self, txid: int) -> None:
        """End the changes of batch `txid`. The object is not used afterwards."""
        ...


@runtime_checkable
class ReadOnlyMapState(Protocol):
    """A map that can be read (``org.apache.storm.trident.state.map.ReadOnlyMapState``)."""

    def multiGet(self, keys: Sequence[Key]) -> list[Value]:
        """Return one value per key, in the order of the keys; None if nothing is stored under a key."""
        ...


@runtime_checkable
class MapState(State, ReadOnlyMapState, Protocol):
    """A map that can be read and changed (``org.apache.storm.trident.state.map.MapState``).

    A read sees earlier writes of the same batch.
    """

    def multiUpdate(
        self, keys: Sequence[Key], updaters: "Sequence[ValueUpdater | Callable[[Value], Value]]"
    ) -> list[Value]:
        """Replace the value of each key by the result that the key's updater computes from it; return the new values.

        A key may come twice: its second updater gets the result of the first.
        """
        ...

    def multiPut(self, keys: Sequence[Key], values: Sequence[Value]) -> None:
        """Store each value under its key, and overwrite the earlier value."""
        ...


@runtime_checkable
class RemovableMapState(MapState, Protocol):
    """A map with removable keys (``org.apache.storm.trident.state.map.RemovableMapState``)."""

    def multiRemove(self, keys: Sequence[Key]) -> None:
        """Remove the given keys and their values."""
        ...


@runtime_checkable
class ReadOnlySnapshottable(Protocol):
    """One value that can be read (``org.apache.storm.trident.state.snapshot.ReadOnlySnapshottable``)."""

    def get(self) -> Value:
        """Return the value; None if there is no value yet."""
        ...


@runtime_checkable
class Snapshottable(State, ReadOnlySnapshottable, Protocol):
    """One value that can be read and changed (``org.apache.storm.trident.state.snapshot.Snapshottable``)."""

    def update(self, updater: "ValueUpdater | Callable[[Value], Value]") -> Value:
        """Replace the stored value by the result that the updater computes from it; return the new value."""
        ...

    def set(self, value: Value) -> None:
        """Store this value, and overwrite the earlier value."""
        ...


@runtime_checkable
class TupleCollection(Protocol):
    """A state that can list its entries (``org.apache.storm.trident.state.ITupleCollection``)."""

    def getTuples(self) -> Iterator[tuple[Any, ...]]:
        """Return every entry as a tuple of its key fields and then its value, in no particular order."""
        ...


@runtime_checkable
class KeyValueState(Protocol):
    """The state of a stateful operation: a value under each key (``org.apache.storm.state.KeyValueState``).

    A read sees earlier puts of the same batch. `keys` and `items` show the stored entries with the batch's own changes,
    as of the moment of the call.
    """

    def get(self, key: Key, default: Value = None) -> Value:
        """Return the value under `key`; `default` if nothing is stored."""
        ...

    def put(self, key: Key, value: Value) -> None:
        """Store a value under `key`, and overwrite the earlier value. None removes the key."""
        ...

    def delete(self, key: Key) -> None:
        """Remove `key` and its value. Timers of the key stay."""
        ...

    def keys(self) -> Iterator[Key]:
        """Return the keys, in no particular order: values if there is one key field, otherwise tuples."""
        ...

    def items(self) -> Iterator[tuple[Key, Value]]:
        """Return the keys with their values, in no particular order. The whole state is read into the driver."""
        ...

    def __iter__(self) -> Iterator[Key]:
        """Return `keys`."""
        ...

    def __contains__(self, key: object) -> bool:
        """Return whether something is stored under `key`."""
        ...


@runtime_checkable
class TimedKeyValueState(KeyValueState, Protocol):
    """The state of a stateful operation that has `onTimer`: a value and timers under each key.

    A key has at most one timer of each name. Timers are stored with the value, and fire exactly once: the batch that
    commits the effects of a timer removes it. The clock of the timers is the time of the batch, or, if the step has a
    timestampField, its watermark.
    """

    def now(self) -> datetime.datetime | None:
        """Return the present time of the clock.

        The time of a batch is the time at which it was planned, the same at each replay. With a timestampField it is
        the watermark: while tuples are processed that of the batches before, None before the first time; while timers
        fire the one that this batch has reached.
        """
        ...

    def setTimer(self, key: Key, at: datetime.datetime, name: str = "") -> None:
        """Set the timer `name` of `key` to fire in the first batch whose clock has reached `at`.

        It replaces the key's timer of the same name. If `at` has passed, it fires in this batch.
        """
        ...

    def getTimer(self, key: Key, name: str = "") -> datetime.datetime | None:
        """Return the time for which the timer `name` of `key` is set; None if it is not set."""
        ...

    def deleteTimer(self, key: Key, name: str = "") -> None:
        """Remove the timer `name` of `key`, if it is set."""
        ...


@runtime_checkable
class ValueUpdater(Protocol):
    """An object that computes a new value from a stored value (``org.apache.storm.trident.state.ValueUpdater``)."""

    def update(self, stored: Value) -> Value:
        """Return the new value. `stored` is None if nothing is stored."""
        ...


class Combines(Protocol):
    """The method of a CombinerAggregator that a CombinerValueUpdater calls."""

    def combine(self, a: Any, b: Any) -> Any: ...


class Reduces(Protocol):
    """The methods of a ReducerAggregator that a ReducerValueUpdater calls."""

    def init(self) -> Any: ...

    def reduce(self, curr: Any, tuple: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class CombinerValueUpdater:
    """An updater that combines `value` into the stored value (``org.apache.storm.trident.state.CombinerValueUpdater``).

    >>> from trident import Sum
    >>> CombinerValueUpdater(Sum(), 2).update(3), CombinerValueUpdater(Sum(), 2).update(None)
    (5, 2)
    """

    aggregator: Combines
    value: Any

    def update(self, stored: Value) -> Value:
        """Return `value` combined into the stored value; `value` itself if nothing is stored."""
        return self.value if stored is None else self.aggregator.combine(stored, self.value)


@dataclass(frozen=True, slots=True)
class ReducerValueUpdater:
    """An updater that reduces `tuples` onto the stored value (``org.apache.storm.trident.state.ReducerValueUpdater``).

    >>> class Longest:
    ...     def init(self):
    ...         return ""
    ...     def reduce(self, curr, tuple):
    ...         return max(curr, tuple[0], key=len)
    >>> ReducerValueUpdater(Longest(), [("dog",), ("mouse",)]).update(None)
    'mouse'
    """

    aggregator: Reduces
    tuples: Sequence[Any]

    def update(self, stored: Value) -> Value:
        """Return the stored value, or ``init()`` if nothing is stored, with all tuples reduced onto it in order."""
        value = self.aggregator.init() if stored is None else stored
        for row in self.tuples:
            value = self.aggregator.reduce(value, row)
        return value
