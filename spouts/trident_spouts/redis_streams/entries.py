"""Entries of streams as tuples: the declared fields by name, and fields for the entry's id, stream and time."""

import decimal
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds
from pyspark.sql.types import MapType, StringType, StructField, StructType, TimestampType

from trident.base.errors import MalformedInputError
from trident.base.short_texts import shorten
from trident.base.spark_types import arrow_schema, schema_of
from trident.base.value_conversion import type_name
from trident.base.years import OUTSIDE_YEARS
from trident_spouts.files.value_conversion import ValueReader
from trident_spouts.redis_streams.ids import order

Entry = tuple[bytes, list[bytes]]
"""An entry as XRANGE returns it: its id, and the names and values of its fields, alternating."""

_MOST_MILLISECONDS = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def digest_of(entry: Entry) -> str:
    """Return the digest of an entry, which equals the digest that look.lua computes.

    >>> digest_of((b"1-0", [b"word", b"cow"]))
    'ea24f7098e106663'
    """
    entry_id, parts = entry
    content = b"%b %d %b" % (entry_id, len(parts), b"\0".join(parts))
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class EntryFormat:
    """The fields of the tuples: the declared fields of entries, and the names of the fields for everything else.

    `id`, `stream` and `time` name fields for the entry's id, its stream, and the milliseconds of the id as a time;
    `others` names a field for a map of undeclared fields. None: the tuples have no such field.
    """

    declared: StructType
    id: str | None
    stream: str | None
    time: str | None
    others: str | None
    values: ValueReader

    @property
    def schema(self) -> StructType:
        """Return the fields of the tuples: id, stream and time first, the map last."""
        ends = [(self.id, StringType()), (self.stream, StringType()), (self.time, TimestampType())]
        first = [StructField(name, kind, False) for name, kind in ends if name is not None]
        texts = MapType(StringType(), StringType(), False)
        last = [StructField(self.others, texts, False)] if self.others is not None else []
        return schema_of([*first, *self.declared.fields, *last])

    def table(self, stream: str, entries: Sequence[Entry]) -> pa.Table:
        """Return the tuples of entries of a stream. Raises MalformedInputError for a value that is not of its type."""
        target, columns = arrow_schema(self.schema), dict[str, pa.Array]()
        where = _Where(stream, entries)
        names = [name.encode() for name in self.declared.names]
        for field, values in zip(arrow_schema(self.declared), _values(entries, names), strict=True):
            columns[field.name] = self._column(values, field, where)
        if self.id is not None:
            columns[self.id] = pa.array([entry_id for entry_id, _ in entries], pa.binary()).cast(pa.string())
        if self.stream is not None:
            columns[self.stream] = pa.array([stream] * len(entries), pa.string())
        if self.time is not None:
            columns[self.time] = _times(entries, self.time, where)
        if self.others is not None:
            maps = [where.texts(at, _fields(parts), {*names}) for at, (_, parts) in enumerate(entries)]
            columns[self.others] = pa.array(maps, target.field(self.others).type)
        return pa.table([columns[field.name] for field in target], schema=target)

    def _column(self, values: list[bytes | None], field: pa.Field, where: "_Where") -> pa.Array:
        """Return the values of a field as a column."""
        try:
            return self._converted(values, field)
        except (pa.ArrowException, ValueError, decimal.InvalidOperation):
            for row, value in enumerate(values):  # neither Arrow nor a type's reader names the row
                try:
                    self._converted([value], field)
                except (pa.ArrowException, ValueError, decimal.InvalidOperation):
                    raise where.malformed(row, value, field, self.values) from None
            raise

    def _converted(self, values: list[bytes | None], field: pa.Field) -> pa.Array:
        column = pa.array(values, pa.binary())
        if not kinds.is_binary(field.type):
            column = column.cast(pa.string())  # raises ArrowInvalid if it is not UTF-8
        if not (kinds.is_binary(field.type) or kinds.is_string(field.type)):
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
            column = self.values.column_from_texts(column, field.type)
        if column.null_count and not field.nullable:
            raise ValueError("null, but the field is NOT NULL")
        return column


def _fields(parts: list[bytes]) -> dict[bytes, bytes]:
    """Return the fields of an entry by their names."""
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _values(entries: Sequence[Entry], names: Sequence[bytes]) -> list[list[bytes | None]]:
    """Return the values of each named field; None for an entry without the field.

    In most streams all entries have the same fields in the same order. Then no dict is created for each entry; these
    dicts would cost more than all other work.
    """
    first = entries[0][1][::2] if entries else []
    if all(parts[::2] == first for _, parts in entries):
        places = {name: 2 * at + 1 for at, name in enumerate(first)}  # if a field comes twice, its last value counts
        found = [places.get(name) for name in names]
        return [[None] * len(entries) if at is None else [parts[at] for _, parts in entries] for at in found]
    rows = [_fields(parts) for _, parts in entries]
    return [[row.get(name) for row in rows] for name in names]


@dataclass(frozen=True, slots=True)
class _Where:
    """The position of a value, as error messages show it."""

    stream: str
    entries: Sequence[Entry]

    def error(self, row: int, what: str) -> MalformedInputError:
        return MalformedInputError(f"stream {self.stream!r}, entry {self.entries[row][0].decode()}: {what}")

    def malformed(self, row: int, value: bytes | None, field: pa.Field, reader: ValueReader) -> MalformedInputError:
        """Return the error for a value that its field cannot hold."""
        if not value and not field.nullable:
            return self.error(row, f"field {field.name!r}: null, but the field is NOT NULL")
        assert value is not None, "null fits every other field"
        expected = f"field {field.name!r}: expected {type_name(field.type)}"
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return self.error(row, f"{expected}, got bytes that are not valid UTF-8; declare it as binary")
        hint = "" if kinds.is_string(field.type) else reader.hint(text, field.type)
        way_out = "declare it as a string, and convert the string with each(...)"
        return self.error(row, f"{expected}, got {shorten(repr(text))}{hint}; {way_out}")

    def texts(self, row: int, fields: dict[bytes, bytes], without: set[bytes]) -> list[tuple[str, str]]:
        """Return the fields of an entry as texts, except for the fields `without`."""
        try:
            return [(name.decode(), value.decode()) for name, value in fields.items() if name not in without]
        except UnicodeDecodeError:
            raise self.error(
                row, "a field that is not declared has bytes that are not UTF-8; declare it as binary"
            ) from None


def _times(entries: Sequence[Entry], name: str, where: _Where) -> pa.Array:
    """Return the milliseconds of the ids as times."""
    milliseconds = [order(entry_id.decode())[0] for entry_id, _ in entries]
    for row, number in enumerate(milliseconds):
        if number > _MOST_MILLISECONDS:
            raise where.error(row, f"field {name!r}: the id is not a valid time ({OUTSIDE_YEARS})")
    return pa.array(milliseconds, pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
