"""SnapshottableMap: the value under one key of a map, used as a state of one value."""

from collections.abc import Callable
from typing import Generic, TypeVar

from trident_state.protocols import Key, MapState, ReadOnlyMapState, Value, ValueUpdater

M = TypeVar("M", bound=ReadOnlyMapState)


class SnapshottableMap(Generic[M]):
    """A `Snapshottable` over one key of a `MapState`.

    Use it to run an updater or a query that was written for a single value on a state that is a map. The state of a
    stream without ``groupBy`` does not need it, because it is a single value already. Meaning:
    ``org.apache.storm.trident.state.map.SnapshottableMap``.

    Parameters
    ----------
    state
        The map. If it can only be read, only `get` works.
    key
        The key of the value: the value of the map's key field, or a tuple if the map has several key fields.

    >>> class Words(dict):
    ...     def beginCommit(self, txid): pass
    ...     def commit(self, txid): pass
    ...     def multiGet(self, keys): return [self.get(key) for key in keys]
    ...     def multiPut(self, keys, values): self.update(zip(keys, values))
    ...     def multiUpdate(self, keys, updaters):
    ...         self.multiPut(keys, [change(self.get(key)) for key, change in zip(keys, updaters)])
    ...         return self.multiGet(keys)
    >>> total = SnapshottableMap(Words(dog=3), "$total")
    >>> total.get(), total.update(lambda stored: (stored or 0) + 5), total.get()
    (None, 5, 5)
    """

    def __init__(self, state: M, key: Key) -> None:
        self._state, self._key = state, key

    def get(self) -> Value:
        """Return the value; None if there is no value yet."""
        return self._state.multiGet([self._key])[0]

    def update(self: "SnapshottableMap[MapState]", updater: ValueUpdater | Callable[[Value], Value]) -> Value:
        """Replace the stored value by the result that the updater computes from it; return the new value."""
        return self._state.multiUpdate([self._key], [updater])[0]

    def set(self: "SnapshottableMap[MapState]", value: Value) -> None:
        """Store this value, and overwrite the earlier value."""
        self._state.multiPut([self._key], [value])

    def beginCommit(self: "SnapshottableMap[MapState]", txid: int) -> None:
        """Call ``beginCommit`` of the map."""
        self._state.beginCommit(txid)

    def commit(self: "SnapshottableMap[MapState]", txid: int) -> None:
        """Call ``commit`` of the map."""
        self._state.commit(txid)

    def __repr__(self) -> str:
        return f"SnapshottableMap({self._state!r}, {self._key!r})"
