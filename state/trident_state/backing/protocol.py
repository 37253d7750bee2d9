"""BackingMap: the two methods that a user's store must have, and the three more that make a state complete.

Keys and values are bytes: keys are encoded injectively (1, "1" and True are three keys), values carry the txid and the
value before. A map holds one state; its first entry, under a key that no tuple can have, says whose. One thread at a
time calls the map (not always the same one). It may raise any error: the call is then repeated.
"""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

META = b"$state"
"""The key of the meta entry. No encoded key begins with a dollar sign."""


@runtime_checkable
class BackingMap(Protocol):
    """A map from bytes to bytes, the least that a store must be.

    The one condition on `multiPut` is that what it wrote is there when it has returned. A state over such a map is
    exactly-once as long as one driver runs and the store loses nothing.
    Meaning: ``org.apache.storm.trident.state.map.IBackingMap``.
    """

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        """Return one value per key, in the order of the keys; None where nothing is stored."""
        ...

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        """Store each value under its key, over whatever is there. Each key comes once."""
        ...


@runtime_checkable
class FencedBackingMap(BackingMap, Protocol):
    """A map that can also put on a condition.

    A state over it stays exactly-once under a second driver, a late write of a former one, and a store that fell back
    to an older copy of itself.
    """

    def multiPutIf(self, keys: list[bytes], values: list[bytes], guard: bytes, expected: bytes | None) -> bool:
        """In one atomic step, `multiPut` if `guard` has the value `expected`; return whether it was done.

        `expected` None means that nothing is stored under the key `guard`, which may be one of the keys.
        """
        ...


@runtime_checkable
class ListedBackingMap(BackingMap, Protocol):
    """A map that can list and remove its keys, as a scan (``items()``, ``toPandas()``) and a reset need."""

    def keys(self) -> Iterable[bytes]:
        """Return every key, in any order, each once; it is read to its end before the next call."""
        ...

    def multiRemove(self, keys: list[bytes]) -> None:
        """Remove these keys; one that is not there is not an error."""
        ...
