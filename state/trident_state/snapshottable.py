"""One value, kept in a map under a key of its own."""

from collections.abc import Callable
from typing import Generic, TypeVar

from trident_state.protocols import Key, MapState, ReadOnlyMapState, Value, ValueUpdater

M = TypeVar("M", bound=ReadOnlyMapState)


class SnapshottableMap(Generic[M]):
    """A `Snapshottable` over one key of a `MapState`: for an updater or a query that is written for one value, where
    the state is a map.

    Meaning: ``org.apache.storm.trident.state.map.SnapshottableMap``. (What a stream without ``groupBy`` keeps needs
    none: it is one value already.)

    Parameters
    ----------
    state
        The map. Over one that can only be asked, `get` works.
    key
        The value's key: that of the key field, or a tuple of several.

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
        """The value; None where there is none yet."""
        return self._state.multiGet([self._key])[0]

    def update(self: "SnapshottableMap[MapState]", updater: ValueUpdater | Callable[[Value], Value]) -> Value:
        """The value replaced by what the updater makes of it; the new value."""
        return self._state.multiUpdate([self._key], [updater])[0]

    def set(self: "SnapshottableMap[MapState]", value: Value) -> None:
        """This value, whatever was there."""
        self._state.multiPut([self._key], [value])

    def beginCommit(self: "SnapshottableMap[MapState]", txid: int) -> None:
        """The map's own."""
        self._state.beginCommit(txid)

    def commit(self: "SnapshottableMap[MapState]", txid: int) -> None:
        """The map's own."""
        self._state.commit(txid)

    def __repr__(self) -> str:
        return f"SnapshottableMap({self._state!r}, {self._key!r})"
