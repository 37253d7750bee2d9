"""Fingerprints: a state's key fields, value type and aggregator in one line of text, which can be read back.

    (word string, day date32[day]) -> int64 by Count

Types have Arrow's names; a field's name that is not a plain word is in backticks. A store keeps the fingerprint beside
the state. A program that opens the state by its name, without the topology, learns from it how to read the keys and
values.
"""

import re
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.errors import PySparkException

from trident.base.errors import StateShapeError
from trident.base.names import quote
from trident.base.value_conversion import type_name

_PLAIN = {
    str(kind): kind
    for kind in (
        *(pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64()),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.date32(), pa.date64(), *(pa.duration(unit) for unit in ("s", "ms", "us", "ns"))),
    )
}
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([^\]]+))?\]")
_DECIMAL = re.compile(r"decimal(128|256)\((\d+), (-?\d+)\)")
_NAME = re.compile(r"`((?:[^`]|``)+)`|([A-Za-z_][A-Za-z0-9_]*)")
_WORD = re.compile(r"[a-z_0-9]+(?:\[[a-z]+\])?")


@dataclass(frozen=True)
class Fingerprint:
    """The parts of a fingerprint."""

    keys: pa.Schema
    value: pa.DataType
    aggregator: str


def write_fingerprint(keys: pa.Schema, value: pa.DataType, aggregator: str) -> str:
    """Return the fingerprint of a state with the given key fields, value type and aggregator.

    >>> write_fingerprint(pa.schema({"word": pa.string()}), pa.int64(), "Count")
    '(word string) -> int64 by Count'
    """
    fields = ", ".join(f"{quote(field.name)} {type_text(field.type)}" for field in keys)
    return f"({fields}) -> {type_text(value)} by {aggregator}"


def read_fingerprint(text: str) -> Fingerprint:
    """Return the parts of a fingerprint. Raises StateShapeError if `write_fingerprint` cannot have written `text`.

    >>> read_fingerprint("(word string) -> int64 by Count").keys.names
    ['word']
    """
    reader = _Reader(text)
    keys = pa.schema(reader.fields("(", " ", ")"))
    reader.take(" -> ")
    value = reader.type()
    reader.take(" by ")
    return Fingerprint(keys, value, reader.rest())


def shown_shapes(one: str, other: str) -> tuple[str, str]:
    """Return two fingerprints as messages show them, with types in the form in which a user declares them.

    If they differ and would look alike, or if one of them cannot be read, they are returned unchanged.

    >>> shown_shapes("(word string) -> int64 by Count", "(day date32[day]) -> int64 by Count")
    ('(word string) -> bigint by Count', '(day date) -> bigint by Count')
    """
    try:
        shown = _shown(one), _shown(other)
    except (StateShapeError, PySparkException):  # another version wrote it, or it has a type that Spark does not have
        return one, other
    return (one, other) if shown[0] == shown[1] and one != other else shown


def _shown(text: str) -> str:
    fingerprint = read_fingerprint(text)
    keys = ", ".join(f"{quote(field.name)} {type_name(field.type)}" for field in fingerprint.keys)
    return f"({keys}) -> {type_name(fingerprint.value)} by {fingerprint.aggregator}"


def type_text(kind: pa.DataType) -> str:
    """Return Arrow's name of a type. A field name inside it is in backticks unless it is a plain word."""
    if kinds.is_struct(kind):
        return f"struct<{', '.join(_field_text(kind.field(at)) for at in range(kind.num_fields))}>"
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return f"{'large_' if kinds.is_large_list(kind) else ''}list<{_field_text(kind.value_field)}>"
    if kinds.is_map(kind) and not kind.keys_sorted:
        return f"map<{type_text(kind.key_type)}, {type_text(kind.item_type)}>"
    return str(kind)


def _field_text(field: pa.Field) -> str:
    return f"{quote(field.name)}: {type_text(field.type)}{'' if field.nullable else ' not null'}"


class _Reader:
    """Reads a fingerprint from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def type(self) -> pa.DataType:
        if self._has("struct<"):
            return pa.struct(self.fields("", ": ", ">"))
        if self._has("list<"):
            return pa.list_(*self.fields("", ": ", ">"))
        if self._has("large_list<"):
            return pa.large_list(*self.fields("", ": ", ">"))
        if self._has("map<"):
            key = self.type()
            self.take(", ")
            item = self.type()
            self.take(">")
            return pa.map_(key, item)
        if match := self._match(_TIMESTAMP):
            return pa.timestamp(match[1], tz=match[2])
        if match := self._match(_DECIMAL):
            return (pa.decimal128 if match[1] == "128" else pa.decimal256)(int(match[2]), int(match[3]))
        match = self._match(_WORD)
        if match is None or match[0] not in _PLAIN:
            raise self._error()
        return _PLAIN[match[0]]

    def fields(self, begin: str, between: str, end: str) -> list[pa.Field]:
        """Read `begin`, then names and types separated by `between`, up to and including `end`."""
        self.take(begin)
        fields: list[pa.Field] = []
        while not self._has(end):
            if fields:
                self.take(", ")
            name = self._match(_NAME)
            if name is None:
                raise self._error()
            self.take(between)
            kind = self.type()
            text = name[2] or name[1].replace("``", "`")
            fields.append(pa.field(text, kind, not self._has(" not null")))
        return fields

    def take(self, what: str) -> None:
        if not self._has(what):
            raise self._error()

    def rest(self) -> str:
        if self._at == len(self._text):
            raise self._error()
        return self._text[self._at :]

    def _has(self, what: str) -> bool:
        if not self._text.startswith(what, self._at):
            return False
        self._at += len(what)
        return True

    def _match(self, pattern: "re.Pattern[str]") -> "re.Match[str] | None":
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _error(self) -> StateShapeError:
        return StateShapeError(
            f"cannot parse the stored types {self._text!r} from character {self._at} on: another version of the "
            f"library wrote them, or another kind of store"
        )
