"""The view of a state that a user's updater has within one batch: the batch's own changes over the stored values.

Nothing is written to the store yet. Every key is read from the store at most once; a later read of the view sees the
values that were put into the view. A view is valid for one call of the user's updater.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from pyarrow import types as kinds

from trident.base.errors import StateClosedError, StateKeyError, StateValueError
from trident.base.names import did_you_mean
from trident.base.protocol_check import offers
from trident.base.value_conversion import NotAccepted, are_exact, to_python, type_name
from trident.compiler.columns.columns import Column, Columns, concat
from trident.compiler.columns.function_errors import Where, reason, short, typed
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.compiler.columns.user_keys import key_columns
from trident_state.protocols import ValueUpdater
from trident_state.state_shape import StateShape

Updates = Sequence[ValueUpdater | Callable[[Any], Any]]


class Stored(Protocol):
    """The state as of the previous batch."""

    def read(self, keys: pa.Table) -> pa.Array:
        """Return one stored value for each row; null if there is none."""
        ...

    def scan(self) -> Iterator[pa.Table]:
        """Yield all entries: the key fields, then the value."""
        ...


@runtime_checkable
class DueTimes(Protocol):
    """A state as of the previous batch that may know when its keys are due (`StateShape.due`)."""

    def due(self, until: int, most: int | None = None) -> pa.Table | None:
        """Return the keys that are due at or before `until` (microseconds since 1970).

        With `most`, return only the first `most` keys. Return None if the state does not know them.
        """
        ...


class Overlay:
    """The keys and values of one state that a batch has read or changed. `where` describes the updater in errors."""

    def __init__(self, name: str, shape: StateShape, where: Where, stored: Stored) -> None:
        self._shape = shape
        self._stored = stored
        self._subject = f"{where.step}: {where.site}: state {name!r}"
        self._index = KeyNumbers(shape.keys.types)
        self._keys: list[Columns] = []
        self._values: list[Any] = []
        self._written: dict[int, None] = {}
        self._open = False
        self._nested = kinds.is_nested(shape.value)
        self.failure: BaseException | None = None
        """The error of a failed read of the store. The updater's result is not used then, even if the updater caught
        the error."""

    # --- State -----------------------------------------------------------------------------------------------------

    def beginCommit(self, txid: int) -> None:
        self._open = True

    def commit(self, txid: int) -> None:
        self._open = False

    def changes(self) -> Columns:
        """Return every key that was written, each once, with its last value in a column named ``""``.

        The keys come in the order of the first writes, under the names of the key fields.
        """
        written = list(self._written)
        if not written:
            empty = {field.name: Column.made([], field.type) for field in self._shape.keys}
            return Columns({**empty, "": Column.made([], self._shape.value)}, 0)
        keys = concat(self._keys).take(written)
        return keys.plus({"": Column.made([self._values[number] for number in written], self._shape.value)})

    # --- for the views ---------------------------------------------------------------------------------------------

    def get(self, keys: Columns) -> list[Any]:
        return [self._fresh(self._values[number]) for number in self._numbers(keys, read=True)]

    def put(self, keys: Columns, values: Sequence[Any], verb: str) -> None:
        if isinstance(values, str | bytes | dict) or not isinstance(values, Sequence) or len(values) != keys.rows:
            raise StateValueError(
                f"{self.about(verb)} takes a list of as many values as keys: expected {keys.rows}, got {short(values)}"
            )
        checked = self._checked(list(values), verb)
        for number, value in zip(self._numbers(keys, read=False), checked, strict=True):
            self._values[number] = value
            self._written[number] = None

    def update(self, keys: Columns, updaters: Updates, verb: str) -> list[Any]:
        if not isinstance(updaters, Sequence) or len(updaters) != keys.rows:
            raise StateValueError(
                f"{self.about(verb)} takes a list of as many updaters as keys: expected {keys.rows}, "
                f"got {short(updaters)}"
            )
        new_values = []
        for number, updater in zip(self._numbers(keys, read=True), updaters, strict=True):
            function: Any = updater.update if offers(updater, ValueUpdater) else updater  # type: ignore[union-attr]
            (value,) = self._checked([function(self._fresh(self._values[number]))], verb)
            self._values[number] = value
            self._written[number] = None
            new_values.append(self._fresh(value))
        return new_values

    def known(self, keys: Columns) -> list[int]:
        """Return the number of each key. The values of new keys are read from the store in one read."""
        return self._numbers(keys, read=True)

    def value(self, number: int) -> Any:
        """Return the value of the key with this number."""
        return self._fresh(self._values[number])

    def write(self, number: int, value: Any, verb: str) -> None:
        """Set the value of the key with this number."""
        exact = are_exact([value], self._shape.value)
        # An int beyond int8 is checked again: it may be too large for the state's type.
        if not exact or (type(value) is int and not -128 <= value < 128):
            (value,) = self._checked([value], verb)
        self._values[number] = value
        self._written[number] = None

    def entries(self) -> list[tuple[Any, ...]]:
        """Return all entries: the stored entries, with the batch's own changes."""
        width = len(self._shape.keys)
        for page in self._guarded(lambda: list(self._stored.scan())):
            columns = Columns.of(page.select(range(width)), self._shape.keys)
            values, known = to_python(page.column(width)), len(self._index)
            numbers = self._index.numbers([columns[name] for name in columns.names], columns.rows)
            self._keep(columns, numbers, known, partial(_chosen, values))
        if not self._keys:
            return []
        keys = concat(self._keys)
        rows = zip(*keys.lists(keys.names), map(self._fresh, self._values), strict=True)
        return [row for row in rows if row[-1] is not None]

    def keys(self) -> list[tuple[Any, ...]]:
        """Return the keys of all entries, as in `entries`. Values are neither converted nor copied."""
        fields, index = self._shape.keys, KeyNumbers(self._shape.keys.types)

        def numbers(keys: Columns) -> list[int]:
            return index.numbers([keys[name] for name in keys.names], keys.rows)

        present: dict[int, None] = {}
        for page in self._guarded(lambda: list(self._stored.scan())):
            present |= dict.fromkeys(numbers(Columns.of(page.select(range(len(fields))), fields)))
        known = numbers(concat(self._keys)) if self._keys else []
        for number in self._written:
            if self._values[number] is None:
                present.pop(known[number], None)
            else:
                present[known[number]] = None
        keys = index.named(fields.names).take(list(present))
        return list(zip(*keys.lists(keys.names), strict=True))

    def check_open(self, verb: str) -> None:
        """Raise StateClosedError if the updater call to which this view belongs has ended."""
        if not self._open:
            raise StateClosedError(
                f"{self.about(verb)} was called too late; a state object is usable only during the call of "
                f"updateState that got it, and must not be kept"
            )

    def about(self, verb: str) -> str:
        return f"{self._subject}: {verb}"

    # --- small things ----------------------------------------------------------------------------------------------

    def _numbers(self, keys: Columns, read: bool) -> list[int]:
        """Return the numbers of the keys. They are the positions of the keys' values.

        The values of new keys are first read from the store, in one read; without `read` they begin as null.
        """
        known = len(self._index)
        numbers = self._index.numbers([keys[name] for name in keys.names], keys.rows)

        def values(rows: list[int]) -> list[Any]:
            table = keys.take(rows).table(self._shape.keys)
            return to_python(self._guarded(lambda: self._stored.read(table))) if read else [None] * len(rows)

        self._keep(keys, numbers, known, values)
        return numbers

    def _keep(self, keys: Columns, numbers: list[int], known: int, values: Callable[[list[int]], list[Any]]) -> None:
        """Add the keys with numbers of `known` or above, each with the result of `values` for its first row."""
        first: dict[int, int] = {}
        for row, number in enumerate(numbers):
            if number >= known:
                first.setdefault(number, row)
        if first:
            rows = list(first.values())
            self._values += values(rows)
            self._keys.append(keys.take(rows))

    def _guarded(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except BaseException as error:
            self.failure = error
            raise

    def _checked(self, values: list[Any], verb: str) -> list[Any]:
        """Return the values as they will be stored: with the declared type, and not the caller's own objects."""
        try:
            return Column.made(values, self._shape.value).values()
        except NotAccepted as error:
            kind = type_name(self._shape.value)
            what = f"takes values of type {kind}, not {typed(error.value)}{reason(error)}"
            raise StateValueError(f"{self.about(verb)} {what}") from None

    def _fresh(self, value: Any) -> Any:
        return copy.deepcopy(value) if self._nested and value is not None else value


def _chosen(values: list[Any], rows: list[int]) -> list[Any]:
    return [values[row] for row in rows]


class _OverlayState:
    """The view of an overlay that a user's updater gets, with the methods that every `State` has."""

    __slots__ = ("_overlay",)

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def beginCommit(self, txid: int) -> None:
        self._overlay.beginCommit(txid)

    def commit(self, txid: int) -> None:
        self._overlay.commit(txid)


class MapOverlay(_OverlayState):
    """A state with key fields for one call of an updater: MapState, RemovableMapState and TupleCollection."""

    __slots__ = ("_keys",)

    def __init__(self, overlay: Overlay, keys: pa.Schema) -> None:
        super().__init__(overlay)
        self._keys = keys

    def multiGet(self, keys: Sequence[Any]) -> list[Any]:
        return self._overlay.get(self._columns("multiGet", keys))

    def multiPut(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        self._overlay.put(self._columns("multiPut", keys), values, "multiPut")

    def multiUpdate(self, keys: Sequence[Any], updaters: Updates) -> list[Any]:
        return self._overlay.update(self._columns("multiUpdate", keys), updaters, "multiUpdate")

    def multiRemove(self, keys: Sequence[Any]) -> None:
        columns = self._columns("multiRemove", keys)
        self._overlay.put(columns, [None] * columns.rows, "multiRemove")

    def getTuples(self) -> Iterator[tuple[Any, ...]]:
        self._overlay.check_open("getTuples")
        return iter(self._overlay.entries())

    def getKeys(self) -> Iterator[tuple[Any, ...]]:
        self._overlay.check_open("getKeys")
        return iter(self._overlay.keys())

    def _columns(self, verb: str, keys: Sequence[Any]) -> Columns:
        self._overlay.check_open(verb)
        return key_columns(keys, self._keys, self._overlay.about(verb))

    def __getattr__(self, name: str) -> Any:
        if name in ("get", "set", "update"):
            raise StateKeyError(
                f"{self._overlay.about(name)} needs a state of one global value, but this one has the key fields "
                f"({', '.join(self._keys.names)}): write multiGet, multiPut, multiUpdate or multiRemove"
            )
        raise _no_such(name, "multiGet", "multiPut", "multiUpdate", "multiRemove", "getTuples")


class ValueOverlay(_OverlayState):
    """A state without key fields for one call of an updater: Snapshottable."""

    __slots__ = ()

    def get(self) -> Any:
        return self._overlay.get(self._one("get"))[0]

    def set(self, value: Any) -> None:
        self._overlay.put(self._one("set"), [value], "set")

    def update(self, updater: ValueUpdater | Callable[[Any], Any]) -> Any:
        return self._overlay.update(self._one("update"), [updater], "update")[0]

    def _one(self, verb: str) -> Columns:
        self._overlay.check_open(verb)
        return Columns({}, 1)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("multi"):
            raise StateKeyError(
                f"{self._overlay.about(name)} needs a state with key fields, but this one has none: declare them, "
                f"such as partitionPersist(..., keyFields='word'), or write get, set or update"
            )
        raise _no_such(name, "get", "set", "update")


def _no_such(name: str, *methods: str) -> AttributeError:
    return AttributeError(f"the state has no {name!r}{did_you_mean(name, methods)}; it has {', '.join(methods)}")
