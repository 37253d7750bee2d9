"""Functions that prepare tuples for outputs with one row or message for each key."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.change_kinds import ADDS
from trident.base.json_values import jsonable
from trident.base.leaf_columns import leaves
from trident.base.years import row_outside_years
from trident.operations.column_functions import ColumnFunction


@dataclass(frozen=True)
class SourceKey(ColumnFunction):
    """A function that returns the key fields of a table over a stream of upserts, unchanged.

    Raises ValueError for a null: for a deleted row the source sends only its key, and null for all other fields.
    """

    fields: tuple[str, ...]

    def __call__(self, *values: Any) -> Any:
        for name, value in zip(self.fields, values, strict=True):
            if value is None:
                raise ValueError(
                    f"key field {name!r} is null: the key of the table must be the source's key, because a deletion "
                    "has no other fields; to keep rows whose key has a null, replace the null before asUpserts"
                )
        return values if len(values) > 1 else values[0]

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        return None if any(column.null_count for column in inputs) else list(inputs)


@dataclass(frozen=True)
class Storable(ColumnFunction):
    """A function that returns fields of a tuple unchanged. The first `keys` of them are the key of a PostgreSQL row.

    Raises ValueError for a null in the key, for the character U+0000 in a string (also inside a list, a struct or a
    map), and for a time outside the years 1 to 9999. PostgreSQL stores none of these.
    """

    fields: tuple[str, ...]
    keys: int

    def __call__(self, *values: Any) -> Any:
        check_present(self.fields[: self.keys], values[: self.keys])
        for name, value in zip(self.fields, values, strict=True):
            if _holds_nul(value):
                raise ValueError(
                    f"field {name!r} has a text with the character U+0000, which PostgreSQL does not store: replace "
                    f"the character, or filter such tuples out before it"
                )
        return values if len(values) > 1 else values[0]

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        absent = any(column.null_count for column in inputs[: self.keys])
        return None if absent or any(map(_is_refused, inputs)) else list(inputs)


_FOLDERS_OF_NULL = ("", "__HIVE_DEFAULT_PARTITION__")
"""Folder names that readers take for null."""
_LONGEST = 255
"""The most bytes in a folder name."""


@dataclass(frozen=True)
class Partitioned(ColumnFunction):
    """A function that returns fields of a tuple unchanged.

    The first `keys` are the row's key; `folders` name its folder.

    Raises ValueError for a null in the key, and for a string that reads as the folder of nulls, or is too long for a
    folder name.
    """

    fields: tuple[str, ...]
    keys: int
    folders: tuple[str, ...]

    def __call__(self, *values: Any) -> Any:
        check_present(self.fields[: self.keys], values[: self.keys])
        for name, value in zip(self.fields, values, strict=True):
            if name in self.folders and value in _FOLDERS_OF_NULL:
                text = f"the text {value!r}" if value else "an empty text"
                raise ValueError(
                    f"field {name!r} is {text}, which Delta cannot distinguish from null in a partitionBy field: "
                    "replace the value, or filter such tuples out before it"
                )
            if name in self.folders and _too_long(name, value):
                raise ValueError(
                    f"field {name!r} has a text of {len(value)} characters, which is too long for a folder name "
                    "(partitionBy): partition by another field, or filter such tuples out before it"
                )
        return values if len(values) > 1 else values[0]

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        absent = any(column.null_count for column in inputs[: self.keys])
        wrong = any(
            _may_be_wrong(name, column)
            for name, column in zip(self.fields, inputs, strict=True)
            if name in self.folders
        )
        return None if absent or wrong else list(inputs)


@dataclass(frozen=True)
class UpsertMessage:
    """The key and the value of the message for a change: a removed row has the value null.

    The arguments are the kind, the key fields and the value fields. With `raw_key` or `raw_value`, the single field is
    used unchanged; otherwise the fields become a JSON object.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    raw_key: bool
    raw_value: bool

    def __call__(self, kind: str, *fields: Any) -> tuple[Any, Any]:
        own, others = fields[: len(self.keys)], fields[len(self.keys) :]
        check_present(self.keys, own)
        key = own[0] if self.raw_key else _json(self.keys, [_one_zero(jsonable(value)) for value in own])
        if kind not in ADDS:
            return key, None
        if not self.raw_value:
            return key, _json(self.values, others)
        if others[0] is None:
            raise ValueError(
                f"field {self.values[0]!r} is null, but a message without value deletes the key from the topic; "
                "replace the null, or filter such rows out before it"
            )
        return key, others[0]


def check_present(names: Sequence[str], values: Sequence[Any]) -> None:
    """Raise ValueError if a value of a key is null."""
    for name, value in zip(names, values, strict=True):
        if value is None:
            raise ValueError(
                f"key field {name!r} is null: expected a value in each key field; filter such tuples out before it, "
                "or replace the null"
            )


def _may_be_wrong(name: str, texts: pa.Array) -> bool:
    """Return whether a string may be too long for a folder name, in which each of its bytes takes up to five."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    nulls = pc.any(pc.is_in(texts, pa.array(_FOLDERS_OF_NULL, texts.type))).as_py()
    return bool(nulls) or len(quote(name, safe="")) + 1 + 5 * longest > _LONGEST


def _too_long(name: str, value: Any) -> bool:
    # Some versions of deltalake write the percent sign of an encoded character as %25.
    return isinstance(value, str) and len(f"{quote(name, safe='')}={quote(quote(value, safe=''))}") > _LONGEST


def _is_refused(column: pa.Array) -> bool:
    """Return whether PostgreSQL would refuse U+0000 or misread a time in a value."""
    texts = (leaf for leaf in leaves(column) if pa.types.is_string(leaf.type))
    return row_outside_years(column) is not None or any(
        pc.any(pc.match_substring(leaf, "\0")).as_py() for leaf in texts
    )


def _holds_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_nul(each) for entry in value.items() for each in entry)
    if isinstance(value, list | tuple):  # a Row is a tuple
        return any(map(_holds_nul, value))
    return isinstance(value, str) and "\0" in value


def _one_zero(value: Any) -> Any:
    """Return the value with one form of zero: both floating-point zeros are the same key, as in states."""
    if isinstance(value, list):
        return [_one_zero(each) for each in value]
    if isinstance(value, dict):
        return {name: _one_zero(each) for name, each in value.items()}
    return value + 0.0 if isinstance(value, float) else value


def _json(names: Sequence[str], values: Any) -> str:
    document = {name: jsonable(value) for name, value in zip(names, values, strict=True)}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
