"""Static states, which no batch writes: the entries of a dict, or a user's object that answers reads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from trident.base.errors import StateError, StateKeyError, StateValueError
from trident.base.short_texts import typed_brief
from trident.base.value_conversion import NotAccepted, to_arrow, to_python, type_name
from trident_state.keys import encode_keys
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home
from trident_state.store_messages import Found

_SHARED_BYTES = 1 << 18
"""The most bytes of entries that are sent with a batch. Spark puts larger functions into a file of the driver for each
job, and keeps it until the session ends."""


@dataclass(frozen=True, repr=False)
class StaticMapState:
    """A state that is only read: a dict from key to value, or an object with ``multiGet(keys)`` or ``get()``.

    A key is the value of the key field, or a tuple of values if the state has several key fields. Meaning:
    ``org.apache.storm.trident.state.map.ReadOnlyMapState``, as a static state.

    >>> StaticMapState({"dog": 1})
    StaticMapState(1 entry)
    """

    entries: Any
    kind = StateKind.NON_TRANSACTIONAL
    writers = "auto"
    """Executors look up entries for large batches. No batch writes them."""

    @property
    def sendable(self) -> bool:
        """Return whether other processes may look up entries: the entries of a dict, but not a user's object."""
        return isinstance(self.entries, Mapping)

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """The component that keeps the state between runs: the "process", because the state is part of the program."""
        return "process"

    def open(
        self, identity: StateIdentity, shape: StateShape, home: Home | None = None
    ) -> "StaticEntries | UserObject":
        """Return the object that answers reads of the state.

        Raises StateKeyError or StateValueError if an entry is not of the declared types, StateKeyError also if two keys
        are equal in Spark, and StateError if the user's object lacks the method that reads it.
        """
        where = f"static state {identity.name!r}"
        if not isinstance(self.entries, Mapping):
            return UserObject(where, shape, self.entries)
        entries = StaticEntries(where, shape, self.entries)
        # A small dict is converted twice, which takes negligible time.
        return entries if entries.nbytes > _SHARED_BYTES else SharedEntries(where, shape, self.entries)

    def __repr__(self) -> str:
        if not isinstance(self.entries, Mapping):
            return f"StaticMapState({type(self.entries).__name__})"
        return f"StaticMapState({len(self.entries)} {'entry' if len(self.entries) == 1 else 'entries'})"


class StaticEntries:
    """The entries of a dict, in memory. Two keys that are equal in Spark are an error."""

    def __init__(self, where: str, shape: StateShape, entries: Mapping[Any, Any]) -> None:
        self.where = where
        rows = [_row(key, shape, where) for key in entries]
        columns = [_column([row[at] for row in rows], f, where) for at, f in enumerate(shape.keys)]
        self._keys = _table(columns, shape.keys, len(rows))
        self._values = _values(list(entries.values()), shape, where)
        self._rows = {key: at for at, key in enumerate(encode_keys(self._keys).to_pylist())}
        if len(self._rows) != len(rows):
            raise StateKeyError(f"{where}: Spark considers two of the keys equal (such as 0.0 and -0.0)")

    def read(self, keys: pa.Table, asOf: int | None = None) -> Found:
        """Return one value per key; null if nothing is stored."""
        rows = [self._rows.get(key) for key in encode_keys(keys).to_pylist()]
        return Found(self._values.take(pa.array(rows, pa.int64())), 0)

    def scan(self, asOf: int | None = None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        """Yield one table of all entries: the key fields, then ``value``; yield nothing if there are none."""
        if len(self._values):
            yield self._keys.append_column("value", self._values)

    @property
    def nbytes(self) -> int:
        """The bytes of all keys and values."""
        return int(self._keys.nbytes + self._values.nbytes)

    def close(self) -> None:
        """Do nothing: the entries hold no connection and no file."""


class SharedEntries(StaticEntries):
    """The entries of a small dict, which other processes can look up, too."""

    def open_snapshot(self, asOf: int, time: float | None = None) -> "EntriesSnapshot":
        """Return the entries for other processes to look up."""
        return EntriesSnapshot(self)


@dataclass(frozen=True, slots=True)
class EntriesSnapshot:
    """The entries of a dict, as they are sent to other processes; see `trident_state.store.SharedSnapshot`."""

    entries: StaticEntries

    @property
    def where(self) -> str:
        return self.entries.where

    def read(self, keys: pa.Table) -> pa.Array:
        return self.entries.read(keys).values

    def scan(self) -> Iterator[pa.Table]:
        return self.entries.scan()

    def check_reached(self) -> None:
        """Do nothing: the entries are in this process."""


class UserObject:
    """A user's object that answers reads. Its methods are called for each read."""

    def __init__(self, where: str, shape: StateShape, target: Any) -> None:
        self._where, self._shape, self._target = where, shape, target
        method = "multiGet" if len(shape.keys) else "get"
        if not callable(getattr(target, method, None)):
            keyed = "has the key fields" if len(shape.keys) else "has no key fields"
            names = f" ({', '.join(shape.keys.names)})" if len(shape.keys) else ""
            raise StateError(
                f"{where} {keyed}{names}, so its object needs a method {method}; {type(target).__name__} has none"
            )

    def read(self, keys: pa.Table, asOf: int | None = None) -> Found:
        """Return the object's answers for the given keys. If there are several key fields, the object gets tuples.

        Raises StateValueError if it returns another number of values, or a value that is not of the declared type.
        """
        if not len(self._shape.keys):
            return Found(_values([self._target.get()] * keys.num_rows, self._shape, self._where), 0)
        columns = [to_python(column) for column in keys.columns]
        user_keys: Sequence[Any] = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        values = list(self._target.multiGet(list(user_keys)))
        if len(values) != len(user_keys):
            raise StateValueError(f"{self._where}: multiGet returned {len(values)} values for {len(user_keys)} keys")
        return Found(_values(values, self._shape, self._where), 0)

    def scan(self, asOf: int | None = None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        """Yield one table of the entries that the object's ``getTuples`` lists.

        Raises StateError without such a method.
        """
        if not callable(getattr(self._target, "getTuples", None)):
            raise StateError(f"{self._where}: {type(self._target).__name__} has no getTuples(), so it cannot be listed")
        rows = list(self._target.getTuples())
        width = len(self._shape.keys)
        columns = [_column([row[at] for row in rows], f, self._where) for at, f in enumerate(self._shape.keys)]
        values = _values([row[width] for row in rows], self._shape, self._where)
        yield _table(columns, self._shape.keys, len(rows)).append_column("value", values)

    def close(self) -> None:
        """Do nothing: the user made the object, and may still use it."""


def _row(key: Any, shape: StateShape, where: str) -> tuple[Any, ...]:
    width = len(shape.keys)
    row = key if width != 1 else (key,)
    if not isinstance(row, tuple) or len(row) != width:
        raise StateKeyError(f"{where}: invalid key {key!r}: the key fields are ({', '.join(shape.keys.names)})")
    return row


def _column(values: list[Any], field: pa.Field, where: str) -> pa.Array:
    try:
        return to_arrow(values, field.type)
    except NotAccepted as error:
        came = typed_brief(error.value)
        raise StateKeyError(f"{where}: invalid key {came}: {field.name!r} is {type_name(field.type)}") from None


def _values(values: list[Any], shape: StateShape, where: str) -> pa.Array:
    try:
        return to_arrow(values, shape.value)
    except NotAccepted as error:
        came = typed_brief(error.value)
        raise StateValueError(f"{where} holds values of type {type_name(shape.value)}, not {came}") from None


def _table(columns: list[pa.Array], schema: pa.Schema, rows: int) -> pa.Table:
    if columns:
        return pa.Table.from_arrays(columns, schema=schema)
    return pa.table({"": pa.nulls(rows)}).select([])
