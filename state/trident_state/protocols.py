"""What user code holds of a state while it reads or updates it: Trident's own protocols, typed by what they take.

A key is a tuple or list of the key fields' values, or the value itself where there is one key field. A value that is
not there is None, and None that is put is a removal.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

Key: TypeAlias = Any
Value: TypeAlias = Any


@runtime_checkable
class State(Protocol):
    """What changes once a batch (``org.apache.storm.trident.state.State``). The runtime calls both methods."""

    def beginCommit(self, txid: int) -> None:
        """From here on the state takes changes of batch `txid`."""
        ...

    def commit(self, txid: int) -> None:
        """The batch's changes are complete; the object is used up."""
        ...


@runtime_checkable
class ReadOnlyMapState(Protocol):
    """A map that is asked (``org.apache.storm.trident.state.map.ReadOnlyMapState``)."""

    def multiGet(self, keys: Sequence[Key]) -> list[Value]:
        """One value a key, in the order of the keys; None where nothing is stored."""
        ...


@runtime_checkable
class MapState(State, ReadOnlyMapState, Protocol):
    """A map that is asked and changed (``org.apache.storm.trident.state.map.MapState``). Reads see what this batch
    wrote before."""

    def multiUpdate(
        self, keys: Sequence[Key], updaters: "Sequence[ValueUpdater | Callable[[Value], Value]]"
    ) -> list[Value]:
        """Each key's value replaced by what its updater makes of it; the new values. A key may come twice: its second
        updater gets what the first one gave."""
        ...

    def multiPut(self, keys: Sequence[Key], values: Sequence[Value]) -> None:
        """These values under these keys, whatever was there."""
        ...


@runtime_checkable
class RemovableMapState(MapState, Protocol):
    """A map whose keys can go (``org.apache.storm.trident.state.map.RemovableMapState``)."""

    def multiRemove(self, keys: Sequence[Key]) -> None:
        """Nothing is stored under these keys from here on."""
        ...


@runtime_checkable
class ReadOnlySnapshottable(Protocol):
    """One value that is asked (``org.apache.storm.trident.state.snapshot.ReadOnlySnapshottable``)."""

    def get(self) -> Value:
        """The value; None where there is none yet."""
        ...


@runtime_checkable
class Snapshottable(State, ReadOnlySnapshottable, Protocol):
    """One value that is asked and changed (``org.apache.storm.trident.state.snapshot.Snapshottable``)."""

    def update(self, updater: "ValueUpdater | Callable[[Value], Value]") -> Value:
        """The value replaced by what the updater makes of it; the new value."""
        ...

    def set(self, value: Value) -> None:
        """This value, whatever was there."""
        ...


@runtime_checkable
class TupleCollection(Protocol):
    """A state that lists itself (``org.apache.storm.trident.state.ITupleCollection``)."""

    def getTuples(self) -> Iterator[tuple[Any, ...]]:
        """Every entry, the key fields and then the value, in no order."""
        ...


@runtime_checkable
class ValueUpdater(Protocol):
    """Makes a new value of a stored one (``org.apache.storm.trident.state.ValueUpdater``)."""

    def update(self, stored: Value) -> Value:
        """The new value; `stored` is None where nothing is stored."""
        ...


class Combines(Protocol):
    """As much of a CombinerAggregator as an updater needs."""

    def combine(self, a: Any, b: Any) -> Any: ...


class Reduces(Protocol):
    """As much of a ReducerAggregator as an updater needs."""

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
        """The stored value combined with ours; ours where nothing is stored."""
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
        """The stored value, ``init()`` where there is none, with every tuple folded onto it."""
        value = self.aggregator.init() if stored is None else stored
        for each in self.tuples:
            value = self.aggregator.reduce(value, each)
        return value
