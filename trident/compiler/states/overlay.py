"""What a batch makes of a state before any of it is written: a user's view of the state, with the batch's own changes
over what is stored.

Every key is read once, and none twice; what was written is seen by every later read. The object is good for one call.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import types as kinds

from trident.base.errors import StateClosedError, StateKeyError, StateValueError
from trident.base.names import did_you_mean
from trident.base.values import NotAccepted, to_python, type_name
from trident.compiler.columns.columns import Column, Columns, concat
from trident.compiler.columns.failures import Where, short
from trident.compiler.columns.keys import KeyIndex
from trident.compiler.columns.user_keys import key_columns
from trident_state.protocols import ValueUpdater
from trident_state.state_shape import StateShape

Updates = Sequence[ValueUpdater | Callable[[Any], Any]]


class Stored(Protocol):
    """The state as the batch before left it."""

    def read(self, keys: pa.Table) -> pa.Array:
        """One stored value a row, null where there is none."""
        ...

    def scan(self) -> Iterator[pa.Table]:
        """All entries: the key fields, then the value."""
        ...


class Overlay:
    """Keys and values of one state and batch. `where` says whose call it is for."""

    def __init__(self, name: str, shape: StateShape, where: Where, stored: Stored) -> None:
        self._shape = shape
        self._stored = stored
        self._subject = f"{where.step}: {where.site}: state {name!r}"
        self._index = KeyIndex(shape.keys.types)
        self._keys: list[Columns] = []
        self._values: list[Any] = []
        self._written: dict[int, None] = {}
        self._open = False
        self._nested = kinds.is_nested(shape.value)
        self.failure: BaseException | None = None
        """Why the stored state could not be read: an updater that goes on all the same must not be believed."""

    # --- State -----------------------------------------------------------------------------------------------------

    def beginCommit(self, txid: int) -> None:
        self._open = True

    def commit(self, txid: int) -> None:
        self._open = False

    def changes(self) -> Columns:
        """Every key that was written, once, in the order of the first writes, under the key fields' names; and its
        last value as ``""``."""
        written = list(self._written)
        if not written:
            empty = {field.name: Column.made([], field.type) for field in self._shape.keys}
            return Columns({**empty, "": Column.made([], self._shape.value)}, 0)
        keys = concat(self._keys).take(written)
        return keys.plus({"": Column.made([self._values[at] for at in written], self._shape.value)})

    # --- for the views ---------------------------------------------------------------------------------------------

    def get(self, keys: Columns) -> list[Any]:
        return [self._fresh(self._values[place]) for place in self._places(keys, read=True)]

    def put(self, keys: Columns, values: Sequence[Any], verb: str) -> None:
        if isinstance(values, str | bytes | dict) or not isinstance(values, Sequence) or len(values) != keys.rows:
            raise StateValueError(f"{self.about(verb)} takes one value a key, {keys.rows} here, not {short(values)}")
        checked = self._checked(list(values), verb)
        for place, value in zip(self._places(keys, read=False), checked, strict=True):
            self._values[place] = value
            self._written[place] = None

    def update(self, keys: Columns, updaters: Updates, verb: str) -> list[Any]:
        if not isinstance(updaters, Sequence) or len(updaters) != keys.rows:
            raise StateValueError(
                f"{self.about(verb)} takes one updater a key, {keys.rows} here, not {short(updaters)}"
            )
        given = []
        for place, updater in zip(self._places(keys, read=True), updaters, strict=True):
            function = updater.update if isinstance(updater, ValueUpdater) else updater
            (value,) = self._checked([function(self._fresh(self._values[place]))], verb)
            self._values[place] = value
            self._written[place] = None
            given.append(self._fresh(value))
        return given

    def entries(self) -> list[tuple[Any, ...]]:
        """All entries as they are now."""
        width = len(self._shape.keys)
        for page in self._asked(lambda: list(self._stored.scan())):
            columns = Columns.of(page.select(range(width)), self._shape.keys)
            values, there = to_python(page.column(width)), len(self._index)
            places = self._index.places([columns[name] for name in columns.names], columns.rows)
            self._take_in(columns, places, there, partial(_chosen, values))
        if not self._keys:
            return []
        keys = concat(self._keys)
        rows = zip(*keys.lists(keys.names), map(self._fresh, self._values), strict=True)
        return [row for row in rows if row[-1] is not None]

    def check_open(self, verb: str) -> None:
        """Refuse a call from outside the one that the object was made for."""
        if not self._open:
            raise StateClosedError(
                f"{self.about(verb)} was called after the call that the state was given to; "
                "a state object is good for one call of updateState, and must not be kept"
            )

    def about(self, verb: str) -> str:
        return f"{self._subject}: {verb}"

    # --- small things ----------------------------------------------------------------------------------------------

    def _places(self, keys: Columns, read: bool) -> list[int]:
        """Where the keys' values stand; new ones are read first, all in one go, or taken for nothing."""
        there = len(self._index)
        places = self._index.places([keys[name] for name in keys.names], keys.rows)

        def values(rows: list[int]) -> list[Any]:
            table = keys.take(rows).table(self._shape.keys)
            return to_python(self._asked(lambda: self._stored.read(table))) if read else [None] * len(rows)

        self._take_in(keys, places, there, values)
        return places

    def _take_in(self, keys: Columns, places: list[int], there: int, values: Callable[[list[int]], list[Any]]) -> None:
        """Keep the keys that were not there before, with their values."""
        first: dict[int, int] = {}
        for row, place in enumerate(places):
            if place >= there:
                first.setdefault(place, row)
        if first:
            rows = list(first.values())
            self._values += values(rows)
            self._keys.append(keys.take(rows))

    def _asked(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except BaseException as error:
            self.failure = error
            raise

    def _checked(self, values: list[Any], verb: str) -> list[Any]:
        """The values as they will be stored: of the declared type, and no longer the caller's own objects."""
        try:
            return Column.made(values, self._shape.value).values()
        except NotAccepted as error:
            came, kind = f"{short(error.value)} ({type(error.value).__name__})", type_name(self._shape.value)
            why = f" ({error.why})" if error.why else ""
            raise StateValueError(f"{self.about(verb)} takes values of type {kind}, not {came}{why}") from None

    def _fresh(self, value: Any) -> Any:
        return copy.deepcopy(value) if self._nested and value is not None else value


def _chosen(values: list[Any], rows: list[int]) -> list[Any]:
    return [values[row] for row in rows]


class MapOverlay:
    """A state with key fields, for one call of an updater: MapState, RemovableMapState and TupleCollection."""

    __slots__ = ("_keys", "_overlay")

    def __init__(self, overlay: Overlay, keys: pa.Schema) -> None:
        self._overlay = overlay
        self._keys = keys

    def beginCommit(self, txid: int) -> None:
        self._overlay.beginCommit(txid)

    def commit(self, txid: int) -> None:
        self._overlay.commit(txid)

    def multiGet(self, keys: Sequence[Any]) -> list[Any]:
        return self._overlay.get(self._read("multiGet", keys))

    def multiPut(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        self._overlay.put(self._read("multiPut", keys), values, "multiPut")

    def multiUpdate(self, keys: Sequence[Any], updaters: Updates) -> list[Any]:
        return self._overlay.update(self._read("multiUpdate", keys), updaters, "multiUpdate")

    def multiRemove(self, keys: Sequence[Any]) -> None:
        columns = self._read("multiRemove", keys)
        self._overlay.put(columns, [None] * columns.rows, "multiRemove")

    def getTuples(self) -> Iterator[tuple[Any, ...]]:
        self._overlay.check_open("getTuples")
        return iter(self._overlay.entries())

    def _read(self, verb: str, keys: Sequence[Any]) -> Columns:
        self._overlay.check_open(verb)
        return key_columns(keys, self._keys, self._overlay.about(verb))

    def __getattr__(self, name: str) -> Any:
        if name in ("get", "set", "update"):
            raise StateKeyError(
                f"{self._overlay.about(name)} is for a state of one global value, and this one has the key fields "
                f"({', '.join(self._keys.names)}): write multiGet, multiPut, multiUpdate or multiRemove"
            )
        raise _no_such(name, "multiGet", "multiPut", "multiUpdate", "multiRemove", "getTuples")


class ValueOverlay:
    """A state without key fields, for one call of an updater: Snapshottable."""

    __slots__ = ("_overlay",)

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def beginCommit(self, txid: int) -> None:
        self._overlay.beginCommit(txid)

    def commit(self, txid: int) -> None:
        self._overlay.commit(txid)

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
                f"{self._overlay.about(name)} is for a state with key fields, and this one has none: declare them, "
                "such as partitionPersist(..., keyFields='word'), or write get, set or update"
            )
        raise _no_such(name, "get", "set", "update")


def _no_such(name: str, *methods: str) -> AttributeError:
    return AttributeError(f"the state has no {name!r}{did_you_mean(name, methods)}; it has {', '.join(methods)}")
