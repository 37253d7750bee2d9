"""Calls of a map that somebody brought: one at a time, in pieces, its answers checked, its errors told apart."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from trident.base.callsite import site_of
from trident.base.errors import StateError, StateUnavailableError, TridentError, UserFunctionError
from trident_state.backing.protocol import META, BackingMap, FencedBackingMap, ListedBackingMap

T = TypeVar("T")

_MISTAKES = (TypeError, AttributeError, NameError, LookupError, AssertionError, NotImplementedError)
"""What a program raises because it is wrong. Anything else may be the store's trouble, and go away."""


class Calls:
    """One map, made when it is first needed. Any thread."""

    def __init__(self, make: Callable[[], BackingMap], where: str, most: int) -> None:
        self._make, self._where, self._most = make, where, most
        self._map: BackingMap | None = None
        self._turn = threading.Lock()

    @property
    def fenced(self) -> bool:
        """Whether the map can put on a condition."""
        return isinstance(self._there(), FencedBackingMap)

    @property
    def listed(self) -> bool:
        """Whether the map can tell its keys and forget some."""
        return isinstance(self._there(), ListedBackingMap)

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """What is stored under these keys."""
        found: list[bytes | None] = []
        for at in range(0, len(keys), self._most):
            part = list(keys[at : at + self._most])
            values = self._asked(self._there().multiGet, part)
            if not isinstance(values, list | tuple) or len(values) != len(part):
                raise self._wrong("multiGet", f"gave {_shown(values)} for {len(part)} keys; a list of as many is asked")
            for value in values:
                if value is not None and not isinstance(value, bytes):
                    raise self._wrong("multiGet", f"gave a {type(value).__name__} among its values; bytes or None are")
            found += values
        return found

    def put(self, keys: list[bytes], values: list[bytes], expected: bytes | None) -> bool:
        """Store these values, at once if the map can put on a condition: then only if the meta entry is as `expected`,
        else False. The caller cuts into pieces of at most `most`."""
        there = self._there()
        if not isinstance(there, FencedBackingMap):
            self._asked(there.multiPut, keys, values)
            return True
        done = self._asked(there.multiPutIf, keys, values, META, expected)
        if not isinstance(done, bool):
            raise self._wrong("multiPutIf", f"gave {_shown(done)}; True or False is asked")
        return done

    def keys(self) -> list[bytes]:
        """The keys of all entries."""
        there = self._listing()
        found = self._asked(lambda: list(there.keys()), of=there.keys)
        return [key for key in found if key != META]

    def remove(self, keys: list[bytes]) -> None:
        """Forget these keys."""
        there = self._listing()
        for at in range(0, len(keys), self._most):
            self._asked(there.multiRemove, keys[at : at + self._most])

    def close(self) -> None:
        """Close the map, if it was made and can be closed."""
        closing = getattr(self._map, "close", None)
        if closing is not None:
            self._asked(closing)

    def _there(self) -> BackingMap:
        if self._map is None:
            made = self._asked(self._make)
            if not isinstance(made, BackingMap):
                raise self._wrong("the maker of the map", f"gave {_shown(made)}, which has no multiGet and multiPut")
            self._map = made
        return self._map

    def _listing(self) -> ListedBackingMap:
        there = self._there()
        if not isinstance(there, ListedBackingMap):
            raise StateError(
                f"{self._where} can be neither scanned nor emptied: its map, {site_of(there)}, has no keys() and "
                f"multiRemove(keys); add them, or empty the store behind it by hand where it is to be dropped"
            )
        return there

    def _asked(self, function: Callable[..., T], *args: Any, of: object = None) -> T:
        try:
            with self._turn:
                return function(*args)
        except TridentError:
            raise
        except _MISTAKES as error:
            raise self._wrong(None, f"raised {type(error).__name__}: {error}", of or function) from error
        except Exception as error:
            raise StateUnavailableError(
                f"{self._where}: {site_of(of or function)} raised {type(error).__name__}: {error}; "
                f"whether it did anything is not known, and it is asked again"
            ) from error

    def _wrong(self, name: str | None, what: str, function: object = None) -> UserFunctionError:
        method = getattr(self._map, name, None) if name else None
        return UserFunctionError(f"{self._where}: {site_of(function or method or self._make)} {what}")


def _shown(value: object) -> str:
    return f"{len(value)} values" if isinstance(value, list | tuple) else f"a {type(value).__name__}"
