"""The KeyValueState of a stateful operation: one key at a time, over the overlay of the current batch."""

import datetime
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from trident.base.errors import StateClosedError, StateError, StateValueError
from trident.compiler.columns.columns import Columns
from trident.compiler.columns.function_errors import typed
from trident.compiler.columns.user_keys import key_columns
from trident.compiler.states.overlay import Overlay
from trident.compiler.states.timed_overlay import TimedOverlay

_PLAIN = frozenset({str, int, bytes, bool})
"""Types whose equal values are one key. Other values (1.0 and -0.0, nested values) are compared by the overlay."""


class Current:
    """The overlay on which an operation works now; None between two calls, when the state is closed."""

    __slots__ = ("numbers", "overlay")

    def __init__(self) -> None:
        self.overlay: Overlay | None = None
        self.numbers: dict[Any, int] = {}
        """The numbers of keys in the overlay. Most calls need not convert their key into columns, thanks to them."""

    def set(self, overlay: Overlay | None) -> None:
        """Set the overlay of the next batch; None closes the state."""
        self.overlay, self.numbers = overlay, {}

    def learn(self, keys: Columns) -> None:
        """Read the values of these keys in one read, and note the keys' numbers."""
        assert self.overlay is not None
        numbers, lists = self.overlay.known(keys), keys.lists(keys.names)
        for values in lists:  # in a column all values are of one type, or null
            kind = next((type(value) for value in values if value is not None), None)
            if kind not in _PLAIN:
                return
        plain: Iterator[tuple[Any, ...]] = (
            ((type(key), key) for key in lists[0])
            if len(lists) == 1
            else ((*map(type, key), key) for key in zip(*lists, strict=True))
        )
        self.numbers = dict(zip(plain, numbers, strict=True))


class KeyValues:
    """A `trident_state.protocols.KeyValueState`. An operation keeps one such object for its whole run."""

    __slots__ = ("_current", "_keys", "_name")

    def __init__(self, name: str, keys: pa.Schema, current: Current) -> None:
        self._name, self._keys, self._current = name, keys, current

    def get(self, key: Any, default: Any = None) -> Any:
        overlay = self._open("get")
        value = overlay.value(self._number(overlay, key, "get"))
        return default if value is None else value

    def put(self, key: Any, value: Any) -> None:
        overlay = self._open("put")
        overlay.write(self._number(overlay, key, "put"), value, "put")

    def delete(self, key: Any) -> None:
        overlay = self._open("delete")
        overlay.write(self._number(overlay, key, "delete"), None, "delete")

    def items(self) -> Iterator[tuple[Any, Any]]:
        entries = self._open("items").entries()
        return ((self._shown(entry[:-1]), entry[-1]) for entry in entries)

    def keys(self) -> Iterator[Any]:
        return map(self._shown, self._open("keys").keys())

    def __iter__(self) -> Iterator[Any]:
        return self.keys()

    def __contains__(self, key: Any) -> bool:
        return self.get(key) is not None

    def __repr__(self) -> str:
        return f"KeyValueState({self._name!r})"

    def __getattr__(self, name: str) -> Any:
        if name in ("setTimer", "getTimer", "deleteTimer", "now"):
            raise StateError(
                f"state {self._name!r}: {name} needs an operation with timers: give the object a method "
                f"onTimer(timer, collector), or the verb onTimer=, a function of a Timer and the state"
            )
        raise AttributeError(f"a KeyValueState has no {name!r}")

    def _shown(self, key: tuple[Any, ...]) -> Any:
        return key[0] if len(key) == 1 else key

    def _open(self, verb: str) -> Overlay:
        overlay = self._current.overlay
        if overlay is None:
            raise StateClosedError(
                f"state {self._name!r}: {verb} was called outside a batch; a KeyValueState is usable only in "
                f"initState, execute, onTimer, prePrepare and preRollback, and in their thread"
            )
        return overlay

    def _number(self, overlay: Overlay, key: Any, verb: str) -> int:
        plain: Any = None
        if type(key) in _PLAIN:
            plain = (type(key), key)
        elif type(key) is tuple and _PLAIN.issuperset(map(type, key)):
            plain = (*map(type, key), key)
        number = self._current.numbers.get(plain) if plain is not None else None
        if number is None:
            (number,) = overlay.known(key_columns([key], self._keys, overlay.about(verb)))
            if plain is not None:
                self._current.numbers[plain] = number
        return number


class TimedKeyValues(KeyValues):
    """A `trident_state.protocols.TimedKeyValueState`. Its times have a zone if `zoned`, and none otherwise."""

    __slots__ = ("_epoch",)

    def __init__(self, name: str, keys: pa.Schema, current: Current, zoned: bool) -> None:
        super().__init__(name, keys, current)
        self._epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC if zoned else None)

    def now(self) -> datetime.datetime | None:
        overlay = self._timed("now")
        return None if overlay.now is None else self.time(overlay.now)

    def setTimer(self, key: Any, at: datetime.datetime, name: str = "") -> None:
        overlay = self._timed("setTimer")
        self._check_name(name, overlay, "setTimer")
        overlay.set_timer(self._number(overlay, key, "setTimer"), self._micros(at, overlay), name)

    def getTimer(self, key: Any, name: str = "") -> datetime.datetime | None:
        overlay = self._timed("getTimer")
        at = overlay.timer(self._number(overlay, key, "getTimer"), name)
        return None if at is None else self.time(at)

    def deleteTimer(self, key: Any, name: str = "") -> None:
        overlay = self._timed("deleteTimer")
        overlay.delete_timer(self._number(overlay, key, "deleteTimer"), name)

    def time(self, micros: int) -> datetime.datetime:
        """Return a time of the step's clock as users see it."""
        return self._epoch + datetime.timedelta(microseconds=micros)

    def _micros(self, at: object, overlay: Overlay) -> int:
        if isinstance(at, datetime.datetime) and (at.tzinfo is None) == (self._epoch.tzinfo is None):
            micros = (at - self._epoch) // _MICROSECOND
            if type(micros) is int:  # not so for a NaT of pandas
                return micros
        zone = "without a zone" if self._epoch.tzinfo is None else "with a zone, such as datetime.UTC"
        raise StateValueError(
            f"{overlay.about('setTimer')} takes the time at which the timer fires: expected a datetime {zone}, not "
            f"{typed(at)}; state.now() is the present time of the step, or None before the first one"
        )

    def _check_name(self, name: object, overlay: Overlay, verb: str) -> None:
        if not isinstance(name, str):
            raise StateValueError(f"{overlay.about(verb)}: invalid name {typed(name)}: expected a text")

    def _timed(self, verb: str) -> TimedOverlay:
        overlay = self._open(verb)
        assert isinstance(overlay, TimedOverlay)
        return overlay


_MICROSECOND = datetime.timedelta(microseconds=1)
