"""The statement of a query: a check that it only reads, and the states that it names.

DuckDB parses the text; the check walks the tree that DuckDB returns. It knows the parts that are allowed, and refuses
all others, so that a form that a later DuckDB adds is refused until it is added here.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trident.base.errors import SqlError, SqlNotAllowedError

Tree = dict[str, Any]
"""A part of DuckDB's tree: a query, a table, an expression."""

TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"})
"""The table functions that a query may call: they read nothing but their arguments."""

_QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})

_TABLES = frozenset(
    {"BASE_TABLE", "EMPTY", "EMPTY_FROM", "EXPRESSION_LIST", "JOIN", "PIVOT", "SHOW_REF", "SUBQUERY", "TABLE_FUNCTION"}
)

_DENIED = frozenset(
    {
        "add_parquet_key",
        "current_setting",
        "enable_logging",
        "getenv",
        "getvariable",
        "json_execute_serialized_sql",
        "json_serialize_plan",
        "nextval",
        "currval",
        "setval",
        "parse_duckdb_log_message",
        "pg_sleep",
        "query",
        "query_table",
        "set_config",
        "sleep_ms",
        "write_log",
    }
)
"""Functions of values that read or change something other than values."""

_LONGEST_PATH = 64
"""The most names in ``a.b.c``. DuckDB tries each of them as a table, which takes long for thousands."""

_ADVICE = "A query reads states: SELECT, WITH, VALUES, FROM, DESCRIBE and SUMMARIZE, one statement"


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table that a query names but does not define: a state, usually. `tree` is its part of the query."""

    name: str
    position: int | None
    tree: Tree


@dataclass(frozen=True, slots=True)
class Statement:
    """A query that only reads."""

    tree: Tree
    tables: tuple[NamedTable, ...]


def read_statement(text: bytes) -> Statement:
    """Return the statement in DuckDB's answer to `parse`.

    Raises SqlError for wrong syntax, and SqlNotAllowedError for anything other than one query that only reads states.
    """
    try:
        answer = json.loads(text)
    except RecursionError:
        raise SqlNotAllowedError("the query is nested too deeply; write it with WITH, in steps") from None
    if answer.get("error"):
        raise _failed(answer)
    statements = answer["statements"]
    if len(statements) != 1:
        raise SqlNotAllowedError(f"the text has {len(statements)} statements. {_ADVICE}")
    tree = statements[0]["node"]
    return Statement(tree, tuple(_tables(tree)))


def _failed(answer: Tree) -> SqlError:
    message, position = str(answer.get("error_message", "")), answer.get("position")
    if answer.get("error_type") == "not implemented":
        return SqlNotAllowedError(f"this statement does more than read. {_ADVICE}")
    return SqlError(message, int(position) if position is not None else None)


def _tables(tree: Tree) -> Iterator[NamedTable]:
    """Yield the tables that a query names but does not define. Raises SqlNotAllowedError for a refused part."""
    waiting: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        part, defined = waiting.pop()
        if isinstance(part, list):
            waiting += [(each, defined) for each in part]
        elif isinstance(part, dict):
            _check(part)
            if part.get("type") == "BASE_TABLE" and (name := part["table_name"]).lower() not in defined:
                yield NamedTable(name, position_of(part), part)
            waiting += _parts(part, defined)


def _parts(part: Tree, defined: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    """Yield the parts of a part, each with the names that WITH defines for it.

    A query of WITH sees the queries before it; only a recursive one sees itself.
    """
    if part.get("cte_name"):
        defined |= {_own_name(part["cte_name"])}
    for entry in (part.get("cte_map") or {}).get("map", ()):
        yield entry["value"], defined
        defined |= {_own_name(entry["key"])}
    for name, each in part.items():
        if name != "cte_map":
            yield each, defined


def _own_name(name: str) -> str:
    # Elsewhere in the text such a name would mean DuckDB's table.
    if name.lower().startswith(("duckdb_", "pg_", "pragma_", "sqlite_")):
        raise SqlNotAllowedError(f"WITH {name}: this is the name of one of DuckDB's own tables; choose another name")
    return name.lower()


def _check(part: Tree) -> None:
    kind = part.get("type")
    if not isinstance(kind, str):
        return
    if kind.endswith("_NODE") and kind not in _QUERIES:
        words = kind.removesuffix("_NODE").removesuffix("_QUERY").replace("_", " ")
        raise SqlNotAllowedError(f"{words} does more than read. {_ADVICE}")
    source = part.get("from_table")
    if isinstance(source, dict) and source.get("type") not in _TABLES:
        raise SqlNotAllowedError(
            f"{source.get('type')} is not allowed as a table in a query over states. {_ADVICE}", position_of(part)
        )
    if (called := part.get("function_name")) is not None:
        _check_function(called, part)
    if kind in _CHECKS:
        _CHECKS[kind](part)


def _check_function(name: str, part: Tree) -> None:
    if name.lower() in _DENIED:
        raise SqlNotAllowedError(f"the function {name} is not allowed in a query over states", position_of(part))


def _check_table(part: Tree) -> None:
    if part.get("schema_name") or part.get("catalog_name"):
        whole = ".".join(filter(None, (part.get("catalog_name"), part.get("schema_name"), part["table_name"])))
        raise SqlNotAllowedError(
            f'{whole}: a state has its plain name, without a schema; write "{whole}" in double quotes if that is its '
            f"name",
            position_of(part),
        )


def _check_table_function(part: Tree) -> None:
    name = str(part["function"].get("function_name"))
    if name.lower() not in TABLE_FUNCTIONS:
        raise SqlNotAllowedError(
            f"the table function {name} is not allowed in a query over states; allowed are "
            f"{', '.join(sorted(TABLE_FUNCTIONS))}",
            position_of(part),
        )


def _check_shown(part: Tree) -> None:
    if not part.get("query"):
        raise SqlNotAllowedError(
            "SHOW is not allowed; DESCRIBE name describes a state, and `.states` of the topology lists them"
        )


def _check_column(part: Tree) -> None:
    if len(part["column_names"]) > _LONGEST_PATH:
        raise SqlNotAllowedError(f"a name of more than {_LONGEST_PATH} parts", position_of(part))


_CHECKS = {
    "BASE_TABLE": _check_table,
    "TABLE_FUNCTION": _check_table_function,
    "SHOW_REF": _check_shown,
    "COLUMN_REF": _check_column,
}


def position_of(part: Tree) -> int | None:
    """Return the position of a part in the query's text; None if DuckDB does not know it."""
    position = part.get("query_location")
    return position if isinstance(position, int) and position < 1 << 32 else None
