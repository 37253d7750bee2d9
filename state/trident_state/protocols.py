"""Trident's own state protocols: the interfaces through which user code reads and updates a state.

A key is a tuple or list of the key fields' values, or the value itself where there is one key field. None stands for
a value that is not there, and putting None removes the key.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

Key: TypeAlias = Any
Value: TypeAlias = Any


@runtime_checkable
class State(Protocol):
    """A state that changes once per batch (``org.apache.storm.trident.state.State``).

    The runtime calls both methods.
    """

    def beginCommit(self, txid: int) -> None:
        """Begin to take the changes of batch `txid`."""
        ...

    def commit(self, txid: int) -> None:
        """End the changes of the batch; the object is not used afterwards."""
        ...


@runtime_checkable
class ReadOnlyMapState(Protocol):
    """A map that can be read (``org.apache.storm.trident.state.map.ReadOnlyMapState``)."""

    def multiGet(self, keys: Sequence[Key]) -> list[Value]:
        """Return one value per key, in the order of the keys; None where nothing is stored."""
        ...


@runtime_checkable
class MapState(State, ReadOnlyMapState, Protocol):
    """A map that can be read and changed (``org.apache.storm.trident.state.map.MapState``).

    Reads see what this batch wrote before.
    """

    def multiUpdate(
        self, keys: Sequence[Key], updaters: "Sequence[ValueUpdater | Callable[[Value], Value]]"
    ) -> list[Value]:
        """Replace the value of each key by what its updater makes of it; return the new values.

        A key may come twice: its second updater gets the result of the first.
        """
        ...

    def multiPut(self, keys: Sequence[Key], values: Sequence[Value]) -> None:
        """Store each value under its key, over whatever is there."""
        ...


@runtime_checkable
class RemovableMapState(MapState, Protocol):
    """A map whose keys can be removed (``org.apache.storm.trident.state.map.RemovableMapState``)."""

    def multiRemove(self, keys: Sequence[Key]) -> None:
        """Remove these keys and their values."""
        ...


@runtime_checkable
class ReadOnlySnapshottable(Protocol):
    """One value that can be read (``org.apache.storm.trident.state.snapshot.ReadOnlySnapshottable``)."""

    def get(self) -> Value:
        """Return the value; None where there is none yet."""
        ...


@runtime_checkable
class Snapshottable(State, ReadOnlySnapshottable, Protocol):
    """One value that can be read and changed (``org.apache.storm.trident.state.snapshot.Snapshottable``)."""

    def update(self, updater: "ValueUpdater | Callable[[Value], Value]") -> Value:
        """Replace the value by what the updater makes of it; return the new value."""
        ...

    def set(self, value: Value) -> None:
        """Store this value, over whatever is there."""
        ...


@runtime_checkable
class TupleCollection(Protocol):
    """A state that can list its entries (``org.apache.storm.trident.state.ITupleCollection``)."""

    def getTuples(self) -> Iterator[tuple[Any, ...]]:
        """Return every entry, the key fields and then the value, in no order."""
        ...


@runtime_checkable
class ValueUpdater(Protocol):
    """Makes a new value of a stored one (``org.apache.storm.trident.state.ValueUpdater``)."""

    def update(self, stored: Value) -> Value:
        """Return the new value; `stored` is None where nothing is stored."""
        ...


class Combines(Protocol):
    """The part of a CombinerAggregator that an updater needs."""

    def combine(self, a: Any, b: Any) -> Any: ...


class Reduces(Protocol):
    """The part of a ReducerAggregator that an updater needs."""

    def init(self) -> Any: ...

    def reduce(self, curr: Any, tuple: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class CombinerValueUpdater:
    """Combines `value` into what is stored (``org.apache.storm.trident.state.CombinerValueUpdater``).

    >>> from trident import Sum
    >>> CombinerValueUpdater(Sum(), 2).update(3), CombinerValueUpdater(Sum(), 2).update(None)
    (5, 2)
    """

    aggregator: Combines
    value: Any

    def update(self, stored: Value) -> Value:
        """Return `value` combined into the stored value; `value` itself where nothing is stored."""
        return self.value if stored is None else self.aggregator.combine(stored, self.value)


@dataclass(frozen=True, slots=True)
class ReducerValueUpdater:
    """Folds `tuples` onto what is stored (``org.apache.storm.trident.state.ReducerValueUpdater``).

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
        """Return the stored value, or ``init()`` where there is none, with every tuple folded onto it."""
        value = self.aggregator.init() if stored is None else stored
        for row in self.tuples:
            value = self.aggregator.reduce(value, row)
        return value
