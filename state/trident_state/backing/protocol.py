"""BackingMap: the two methods that a user's map must have, a third one for fencing, and two more for scan and reset.

Keys and values are bytes: different keys have different bytes (1, "1" and True are three keys), and values contain the
txid and the value before it. A map holds one state. The meta entry, under a key that no tuple can have, names that
state. One thread at a time calls the map (not always the same thread). A method may raise any error: the call is then
repeated, unless the error shows a mistake in the program, such as a TypeError.
"""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

META = b"$state"
"""The key of the meta entry. No encoded key begins with a dollar sign."""


@runtime_checkable
class BackingMap(Protocol):
    """A map from bytes to bytes, with the two methods that every map must have.

    The only requirement on `multiPut` is that the values are stored when it returns. A state over such a map is
    exactly-once as long as only one driver runs and the map loses nothing. Meaning:
    ``org.apache.storm.trident.state.map.IBackingMap``.
    """

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        """Return one value per key, in the order of the keys; None if nothing is stored under a key."""
        ...

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        """Store each value under its key, and overwrite the earlier value. No key occurs twice."""
        ...


@runtime_checkable
class FencedBackingMap(BackingMap, Protocol):
    """A map that also has a conditional put.

    A state over such a map stays exactly-once even if a second driver starts, a former driver writes late, or the map
    falls back to an older copy of itself.
    """

    def multiPutIf(self, keys: list[bytes], values: list[bytes], guard: bytes, expected: bytes | None) -> bool:
        """Store each value under its key if the value under the key `guard` is `expected`.

        Return whether the values were stored.

        The comparison and the writes must be one atomic step. `expected` None means that nothing is stored under the
        key `guard`. `guard` may be one of `keys`.
        """
        ...


@runtime_checkable
class ListedBackingMap(BackingMap, Protocol):
    """A map that can list and remove its keys. A scan (``items()``, ``toPandas()``) and a reset need this."""

    def keys(self) -> Iterable[bytes]:
        """Return every key once, in any order. The result is read to its end before the next call of the map."""
        ...

    def multiRemove(self, keys: list[bytes]) -> None:
        """Remove the given keys. A key that is not stored is not an error."""
        ...


@runtime_checkable
class SortedBackingMap(ListedBackingMap, Protocol):
    """A map that can also list the keys between two keys.

    So ranges of keys of one text, binary or boolean field are read without a list of all keys.
    """

    def keysBetween(self, low: bytes, high: bytes, most: int | None) -> Iterable[bytes]:
        """Return the keys from `low` up to but not including `high`, in the order of their bytes.

        With `most`, return only the first `most` keys.
        """
        ...
