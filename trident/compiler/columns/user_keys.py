"""Columns of keys from the keys that user code writes: tuples or lists of values, or values of a single field."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import Row

from trident.base.errors import StateKeyError
from trident.base.named_values import misplaced
from trident.base.value_conversion import NotAccepted, type_name
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.function_errors import reason, typed


def key_columns(keys: Sequence[Any], fields: pa.Schema, where: str) -> Columns:
    """Return the keys as columns of these fields, one row for each key; `where` begins every error's message.

    Raises
    ------
    StateKeyError
        A key has another number of values or another type, or `keys` is not a list of keys.
    """
    if isinstance(keys, str | bytes | dict) or not isinstance(keys, Sequence):
        raise StateKeyError(f"{where} takes a list of keys, not {typed(keys)}")
    rows = _of_one(keys, fields.field(0).type) if len(fields) == 1 else keys
    columns = {}
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != len(fields):
            raise StateKeyError(f"{where}: invalid key {typed(row)}: expected {_expected(fields)}")
        if (why := misplaced(row, fields.names)) is not None:
            raise StateKeyError(f"{where}: invalid key {typed(row)}: {why}")
    for at, field in enumerate(fields):
        try:
            columns[field.name] = Column.made([row[at] for row in rows], field.type)
        except NotAccepted as error:
            invalid = f"invalid key {typed(error.value)}: expected {_expected(fields)}{reason(error)}"
            raise StateKeyError(f"{where}: {invalid}") from None
    return Columns(columns, len(rows))


def _of_one(keys: Sequence[Any], kind: pa.DataType) -> list[Sequence[Any]]:
    """Return the keys of a single field as rows.

    A key is the value itself, or a tuple that holds only the value (or a list, unless the field itself is a list).
    """
    alone = tuple if kinds.is_nested(kind) else tuple | list
    return [key if isinstance(key, alone) and not _is_struct(key) and len(key) == 1 else (key,) for key in keys]


def _is_struct(key: Any) -> bool:
    return isinstance(key, Row) and hasattr(key, "__fields__")


def _expected(fields: pa.Schema) -> str:
    listed = ", ".join(f"{field.name} {type_name(field.type)}" for field in fields)
    return listed if len(fields) == 1 else f"a tuple of {len(fields)} values ({listed})"
