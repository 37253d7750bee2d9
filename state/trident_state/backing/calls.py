"""Calls of a user's map: one at a time, with a limited number of keys, checked results and translated errors."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from trident.base.callsite import site_of
from trident.base.errors import StateError, StateUnavailableError, TridentError, UserFunctionError
from trident.base.forked_child import free_in_child, held_at_fork, in_child, leave_to_parent
from trident.base.protocol_check import offers
from trident.base.short_texts import raised
from trident.base.user_rows import all_rows
from trident_state.backing.protocol import META, BackingMap, FencedBackingMap, ListedBackingMap, SortedBackingMap

T = TypeVar("T")

_MISTAKES = (TypeError, AttributeError, NameError, LookupError, AssertionError, NotImplementedError)
"""Errors that show a mistake in the user's program. Any other error may be a temporary problem of the store."""


class MapCalls:
    """The calls of one user's map. The map is created at the first call.

    Any thread may call; the map gets one call at a time, with at most `most` keys. A forked child makes another map.
    """

    def __init__(self, make: Callable[[], BackingMap], where: str, most: int) -> None:
        self._make, self._where, self._most = make, where, most
        self._map: BackingMap | None = None
        self._lock = free_in_child(threading.Lock())
        held_at_fork(self._lock, self)
        in_child(self, MapCalls._begin_again)

    @property
    def fenced(self) -> bool:
        """Return whether the map has a conditional put, as a FencedBackingMap has."""
        return offers(self._made_map(), FencedBackingMap)

    @property
    def listed(self) -> bool:
        """Return whether the map can list and remove its keys."""
        return offers(self._made_map(), ListedBackingMap)

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value that is stored under each key; None if nothing is stored."""
        values: list[bytes | None] = []
        for at in range(0, len(keys), self._most):
            part = list(keys[at : at + self._most])
            result = self._call(self._made_map().multiGet, part)
            if not isinstance(result, list | tuple) or len(result) != len(part):
                raise self._error(
                    "multiGet", f"returned {_describe(result)} for {len(part)} keys; expected a list of {len(part)}"
                )
            for value in result:
                if value is not None and not isinstance(value, bytes):
                    raise self._error(
                        "multiGet", f"returned a {type(value).__name__} among its values; expected bytes or None"
                    )
            values += result
        return values

    def put(self, keys: list[bytes], values: list[bytes], expected: bytes | None) -> bool:
        """Store each value under its key, and return whether the values were stored.

        A map with a conditional put stores all values in one step, and only if the meta entry has the value `expected`;
        any other map always stores them. The caller passes at most `most` keys.
        """
        user_map: Any = self._made_map()
        if offers(user_map, FencedBackingMap):
            done = self._call(user_map.multiPutIf, keys, values, META, expected)
            if not isinstance(done, bool):
                raise self._error("multiPutIf", f"returned {_describe(done)}; expected True or False")
            return done
        self._call(user_map.multiPut, keys, values)
        return True

    @property
    def checks_keys(self) -> bool:
        """Return whether the map has a method `checkKeys`, because it cannot store all keys."""
        return hasattr(self._made_map(), "checkKeys")

    def check_keys(self, keys: list[bytes]) -> None:
        """Raise StateValueError if the map cannot hold a key.

        A run calls this before it freezes a batch. A frozen batch is never computed again, so if its state could not
        store a key, the batch would wait for ever.
        """
        user_map: Any = self._made_map()
        self._call(user_map.checkKeys, keys)

    def check_removable(self) -> None:
        """Raise StateError if the map cannot list and remove its keys, or if its `checkRemovable` refuses the removal.

        The method `checkRemovable` is optional.
        """
        check = getattr(self._listed_map(), "checkRemovable", None)
        if check is not None:
            self._call(check)

    def keys(self) -> list[bytes]:
        """Return the keys of all entries except the meta entry. Raises StateError if the map cannot list its keys."""
        user_map = self._listed_map()
        keys = self._call(lambda: all_rows(user_map.keys()), of=user_map.keys)
        return [key for key in keys if key != META]

    @property
    def is_sorted(self) -> bool:
        """Return whether the map can list the keys between two keys."""
        return offers(self._made_map(), SortedBackingMap)

    def keys_between(self, low: bytes, high: bytes, most: int | None) -> list[bytes]:
        """Return the keys from `low` up to but not including `high`, in the order of their bytes: the first `most`."""
        user_map: Any = self._made_map()
        keys = self._call(lambda: all_rows(user_map.keysBetween(low, high, most)), of=user_map.keysBetween)
        return [key for key in keys if key != META]

    def remove(self, keys: list[bytes]) -> None:
        """Remove the given keys. Raises StateError if the map cannot remove keys."""
        user_map = self._listed_map()
        for at in range(0, len(keys), self._most):
            self._call(user_map.multiRemove, keys[at : at + self._most])

    def warnings(self) -> tuple[str, ...]:
        """Return the map's warnings about its store; no warnings if the map has no method `warnings`."""
        told = getattr(self._made_map(), "warnings", None)
        return () if told is None else tuple(self._call(told))

    def close(self) -> None:
        """Close the map if it was created and has a method `close`."""
        close = getattr(self._map, "close", None)
        if close is not None:
            self._call(close)

    def _begin_again(self) -> None:
        """Drop the map in a forked child, because it may hold a connection of the parent."""
        leave_to_parent(self._map)
        self._map = None

    def _made_map(self) -> BackingMap:
        """Return the map, and create it at the first call."""
        if self._map is None:
            made = self._call(self._make)
            if not offers(made, BackingMap):
                raise self._error(
                    "the function that makes the map", f"returned {_describe(made)}, which has no multiGet and multiPut"
                )
            self._map = made
        return self._map

    def _listed_map(self) -> Any:
        """Return the map, which is a ListedBackingMap."""
        user_map: Any = self._made_map()
        if not offers(user_map, ListedBackingMap):
            raise StateError(
                f"{self._where}: this state cannot be listed or dropped, because its map, {site_of(user_map)}, lacks "
                f"keys() or multiRemove(keys). Add both methods; or, to drop the state, empty the map's store by hand"
            )
        return user_map

    def _call(self, function: Callable[..., T], *args: Any, of: object = None) -> T:
        """Call a function of the map. Errors name `of` if it is given, otherwise `function`.

        Raises UserFunctionError for a mistake of the user's program, StateUnavailableError for any other error.
        """
        try:
            with self._lock:
                return function(*args)
        except TridentError:
            raise
        except _MISTAKES as error:
            raise self._error(None, raised(error), of or function) from error
        except Exception as error:
            raise StateUnavailableError(
                f"{self._where}: {site_of(of or function)} {raised(error)}; the call may or may not have taken effect, "
                f"and is repeated"
            ) from error

    def _error(self, name: str | None, what: str, function: object = None) -> UserFunctionError:
        method = getattr(self._map, name, None) if name else None
        return UserFunctionError(f"{self._where}: {site_of(function or method or self._make)} {what}")


def _describe(value: object) -> str:
    return f"{len(value)} values" if isinstance(value, list | tuple) else f"a {type(value).__name__}"
