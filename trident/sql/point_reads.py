"""Point reads: a state whose whole key is compared with constants is read by key, not scanned.

A state of which all fields of an index are compared with constants is read by the index.

A comparison is used only if every row of the result must pass it: as part of an AND in WHERE, for a table that the
query names once, beside plain joins. DuckDB still applies WHERE, so extra keys do no harm.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from trident.reads.indexes import Index
from trident.reads.state_view import StateView
from trident.sql.statement import NamedTable, Statement, Tree

_MOST_KEYS = 1_000
"""The most keys that are read one by one. For more, a scan is about as fast."""

Key = tuple[Any, ...]

Path = tuple[str, ...]
"""A column, or a field of a struct column, in lower case."""


def keys_of(
    statement: Statement, table: NamedTable, fields: pa.Schema, arguments: Mapping[str, Any]
) -> list[Key] | None:
    """Return the only keys of a state that can affect the result of a query; None if every key may.

    `table`: a table that the statement names once. `arguments`: the values of its parameters.
    """
    return _values_of(_fixed(statement, table, arguments), fields, [(name,) for name in fields.names])


def index_of(
    statement: Statement, table: NamedTable, view: StateView, arguments: Mapping[str, Any]
) -> tuple[Index, list[Key]] | None:
    """Return an index of a state, and the only values in its fields that can affect a query; None: no such index.

    `table` and `arguments` are those of `keys_of`.
    """
    found = _fixed(statement, table, arguments) if view.indexes else {}
    for index in view.indexes:
        values = _values_of(found, index.fields, [view.pathOf(name) for name in index.fields.names])
        if values is not None:
            return index, values
    return None


def _fixed(statement: Statement, table: NamedTable, arguments: Mapping[str, Any]) -> dict[Path, list[Any]]:
    """Return the columns, and fields of columns, that must equal one of some constants, with these constants."""
    select = _select_of(statement.tree, table.tree)
    if select is None or table.tree.get("column_name_alias"):
        return {}
    alias = (table.tree.get("alias") or table.name).lower()
    alone = select["from_table"] is table.tree
    found: dict[Path, list[Any]] = {}
    for names, values in _comparisons(select.get("where_clause"), arguments):
        if (path := _own_path(names, alias, alone)) is not None:
            found.setdefault(path, values)
    return found


def _values_of(found: Mapping[Path, list[Any]], fields: pa.Schema, paths: Sequence[Path]) -> list[Key] | None:
    """Return the combinations of constants for the fields at these paths; None unless all are fixed."""
    columns = [
        _fitting(found.get(tuple(map(str.lower, path))), field.type) for path, field in zip(paths, fields, strict=True)
    ]
    if not columns or any(column is None for column in columns):
        return None
    keys = list(dict.fromkeys(product(*(column for column in columns if column is not None))))
    return keys if len(keys) <= _MOST_KEYS else None


def _select_of(tree: Tree, table: Tree) -> Tree | None:
    """Return the SELECT whose FROM has the table, alone or within plain joins; None if there is none."""
    waiting: list[Any] = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if part.get("type") == "SELECT_NODE" and any(each is table for each in _joined(part.get("from_table"))):
                return None if part.get("sample") or table.get("sample") else part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return None


def _joined(source: Any) -> Iterator[Tree]:
    """Yield the tables in a FROM, except those in joins that select rows by their neighbours."""
    if isinstance(source, dict) and source.get("type") == "JOIN":
        if source.get("ref_type") in ("REGULAR", "CROSS") and source.get("join_type") == "INNER":
            yield from _joined(source.get("left"))
            yield from _joined(source.get("right"))
    elif isinstance(source, dict) and source.get("type") == "BASE_TABLE":
        yield source


def _comparisons(where: Any, arguments: Mapping[str, Any]) -> Iterator[tuple[list[str], list[Any]]]:
    """Yield the columns that must equal one of some constants, with these constants."""
    if not isinstance(where, dict):
        return
    if where.get("type") == "CONJUNCTION_AND":
        for each in where["children"]:
            yield from _comparisons(each, arguments)
    elif where.get("type") == "COMPARE_EQUAL":
        for column, other in ((where["left"], where["right"]), (where["right"], where["left"])):
            if column.get("type") == "COLUMN_REF" and (value := _constant(other, arguments)) is not None:
                yield column["column_names"], [value]
    elif where.get("type") == "COMPARE_IN":
        column, *others = where["children"]
        values = [_constant(each, arguments) for each in others]
        if column.get("type") == "COLUMN_REF" and None not in values:
            yield column["column_names"], values


def _constant(part: Tree, arguments: Mapping[str, Any]) -> Any:
    """Return the value of a constant text or whole number, or of a parameter; None for anything else."""
    if part.get("type") == "VALUE_PARAMETER":
        return arguments.get(part["identifier"])
    if part.get("type") != "VALUE_CONSTANT" or not isinstance(literal := part.get("literal"), dict):
        return None
    if literal.get("kind") == "STRING":
        return literal["text"]
    return int(literal["text"]) if literal.get("kind") == "INTEGER" else None


def _own_path(names: list[str], alias: str, alone: bool) -> Path | None:
    """Return the column (or its field) that a reference names; None if it may belong to another table."""
    path = tuple(name.lower() for name in names)
    if len(path) > 1 and path[0] == alias:
        return path[1:]
    return path if alone else None


def _fitting(values: list[Any] | None, kind: pa.DataType) -> list[Any] | None:
    """Return constants if DuckDB compares them with a key of this type unconverted; None otherwise."""
    if values is None:
        return None
    if kinds.is_string(kind):
        return values if all(isinstance(value, str) for value in values) else None
    if kinds.is_signed_integer(kind):
        most = 1 << (kind.bit_width - 1)
        return [value for value in values if -most <= value < most] if all(type(v) is int for v in values) else None
    return None
