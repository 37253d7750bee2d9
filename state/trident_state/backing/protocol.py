"""What somebody who brings a store has to write: two methods, and three more for all that a state can do.

Keys and values are bytes: keys are encoded injectively (1, "1" and True are three keys), values carry the txid and the
value before. A map holds one state; its first entry, under a key that no tuple can have, says whose. It is called by
one thread at a time (not always the same one), and may raise anything: what it was asked is then repeated.
"""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

META = b"$state"
"""The key of the entry that says whose the map is and where it stands. No encoded key begins with a dollar sign."""


@runtime_checkable
class BackingMap(Protocol):
    """Bytes by bytes, the least that a store must do.

    Nothing is asked of `multiPut` but that what it wrote is there when it has returned. A state over such a map is
    exactly-once as long as one driver lives and the store loses nothing.
    Meaning: ``org.apache.storm.trident.state.map.IBackingMap``.
    """

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        """One value a key, in the order of the keys; None where nothing is stored."""
        ...

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        """Store each value under its key, over whatever is there. Each key comes once."""
        ...


@runtime_checkable
class FencedBackingMap(BackingMap, Protocol):
    """A map that can also put on a condition. A state over it is exactly-once beside a second driver, a late write of a
    former one, and a store that fell back to an older state of itself."""

    def multiPutIf(self, keys: list[bytes], values: list[bytes], guard: bytes, expected: bytes | None) -> bool:
        """In one atomic step: if `expected` is what stands under the key `guard` (None: nothing does), `multiPut`, and
        True; else nothing, and False. `guard` may be one of the keys."""
        ...


@runtime_checkable
class ListedBackingMap(BackingMap, Protocol):
    """A map that can tell its keys and forget some: what a scan (``items()``, ``toPandas()``) and a reset need."""

    def keys(self) -> Iterable[bytes]:
        """Every key, in any order, each once. Read to its end before anything else is asked."""
        ...

    def multiRemove(self, keys: list[bytes]) -> None:
        """Forget these keys. One that is not there is no error."""
        ...
