"""SQL over the states of a topology: ``running.sql``, ``openTopology(...).sql``, ``POST /sql``."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from trident.base.errors import SqlError, SqlLimitError, SqlNotAllowedError, StateNotFoundError
from trident.base.names import did_you_mean
from trident.base.optional_packages import optional_package
from trident.base.short_texts import typed_brief
from trident.base.value_conversion import infer_arrow, type_name
from trident.base.years import OUTSIDE_YEARS, row_outside_years, time_text
from trident.reads.as_of_argument import AsOfBatch
from trident.reads.committed_reads import ReadSource
from trident.reads.state_view import StateView
from trident.sql import duckdb_worker
from trident.sql.duckdb_process import ProcessEnded, SealedProcess, SealedProcesses
from trident.sql.error_positions import placed, position_in
from trident.sql.point_reads import index_of, keys_of
from trident.sql.queried_states import Wanted, gather, gather_past
from trident.sql.sql_limits import MOST_TEXT, Deadline, SqlLimits
from trident.sql.sql_result import Arguments, SqlResult
from trident.sql.statement import NamedTable, Statement, read_statement
from trident.sql.table_handover import written


def _allow(state: str) -> None:
    """Allow each state."""


def _stay() -> None:
    """Let the query continue."""


class StateQueries:
    """Runs SQL queries over the states of one topology. Thread-safe."""

    def __init__(self, source: ReadSource, states: Sequence[str], view: Callable[[str], StateView]) -> None:
        self._source, self._states, self._view = source, tuple(states), view
        self._processes = SealedProcesses()

    def run(
        self,
        query: str,
        args: Arguments = None,
        limits: SqlLimits | None = None,
        allow: Callable[[str], None] = _allow,
        check: Callable[[], None] = _stay,
        asOf: AsOfBatch | None = None,
    ) -> SqlResult:
        """Return the result of a query.

        Parameters
        ----------
        allow : called with the name of each state before it is read, and with names that no state has; may raise.
        check : called from time to time while the query works; may raise to end it.
        asOf : an earlier txid as of which to read, or a time.
        """
        optional_package("duckdb", "sql", "SQL over states needs the package duckdb")
        if not isinstance(query, str) or len(query) > MOST_TEXT:
            what = f"a text of {len(query)} characters" if isinstance(query, str) else typed_brief(query)
            raise SqlError(f"the query is {what}: expected SQL of at most {MOST_TEXT} characters")
        arguments = _arguments(args)
        limits = limits or SqlLimits()
        deadline = Deadline(limits, check)
        settings = {
            "threads": max(1, (os.cpu_count() or 1) // 2),
            "maxRows": limits.maxRows,
            "maxBytes": limits.maxBytes,
        }
        with ExitStack() as used:
            process, statement = self._parsed(used, query, settings, deadline)
            tables = self._tables(query, statement, allow)
            wanted = self._wanted(statement, tables, arguments)
            if asOf is None:
                gathered = gather(self._source, wanted, limits.maxBytes, deadline.check)
            else:
                gathered = gather_past(self._source, wanted, asOf, limits.maxBytes, deadline.check)
            files = [used.enter_context(written(table)) for table in gathered.tables.values()]
            request = {"do": "run", "query": query, "tables": list(gathered.tables), **settings}
            head, content = _ask(process, request, _sent(arguments, args), files, deadline)
        _check(head, query, limits)
        table = pa.ipc.open_stream(content).read_all()
        _check_years(table)
        return SqlResult(table, gathered.txids)

    def close(self) -> None:
        """End the processes that are kept for further queries."""
        self._processes.close()

    def _parsed(
        self, used: ExitStack, query: str, settings: Mapping[str, Any], deadline: Deadline
    ) -> tuple[SealedProcess, Statement]:
        request = {"do": "parse", **settings}
        process, text = used.enter_context(self._processes.taken()), query.encode(errors="replace")
        try:
            head, tree = process.ask(request, text, (), deadline.check)
        except ProcessEnded:
            # A process that was kept may have ended since its last query.
            process = used.enter_context(self._processes.started())
            head, tree = _ask(process, request, text, (), deadline)
        _check(head, query, deadline.limits)
        try:
            return process, read_statement(tree)
        except SqlError as error:
            raise placed(error, query) from None

    def _tables(self, query: str, statement: Statement, allow: Callable[[str], None]) -> dict[str, list[NamedTable]]:
        """Return the states that a statement names, each with its places. Names ignore case, as in all of SQL."""
        found: dict[str, list[NamedTable]] = {}
        for table in statement.tables:
            name = self._state_named(table.name)
            allow(name or table.name)
            if name is None:
                known = ", ".join(self._states) or "none"
                raise StateNotFoundError(
                    f"no state {table.name!r}{did_you_mean(table.name, self._states)}; the states are {known}"
                )
            found.setdefault(name, []).append(table)
        same = [name for name in found if sum(name.lower() == other.lower() for other in found) > 1]
        if same:
            raise SqlNotAllowedError(
                f"the query names the states {', '.join(sorted(same))}, which SQL cannot distinguish, because it "
                f"ignores case; query only one of them"
            )
        if len(found) > duckdb_worker.MOST_FILES:
            raise SqlNotAllowedError(
                f"the query names {len(found)} states; at most {duckdb_worker.MOST_FILES} are allowed"
            )
        return found

    def _state_named(self, name: str) -> str | None:
        same = [state for state in self._states if state.lower() == name.lower()]
        return name if name in same else same[0] if len(same) == 1 else None

    def _wanted(
        self, statement: Statement, tables: Mapping[str, list[NamedTable]], arguments: Mapping[str, Any]
    ) -> dict[str, Wanted]:
        wanted = dict[str, Wanted]()
        for name, places in tables.items():
            view, keys, index = self._view(name), None, None
            if len(places) == 1:
                keys = keys_of(statement, places[0], view.keyFields, arguments)
                index = index_of(statement, places[0], view, arguments) if keys is None else None
            wanted[name] = Wanted(view, keys, index)
        return wanted


def _ask(
    process: SealedProcess, request: Mapping[str, Any], content: bytes, files: Sequence[int], deadline: Deadline
) -> tuple[dict[str, Any], bytes]:
    try:
        return process.ask(request, content, files, deadline.check)
    except ProcessEnded as ended:
        raise SqlLimitError(
            f"the process of the query was {ended}: most often because the query requested more memory at once than "
            f"its limit, {deadline.limits.maxBytes} bytes; simplify it, or raise the limit with maxBytes="
        ) from None


def _check(head: Mapping[str, Any], query: str, limits: SqlLimits) -> None:
    """Raise the error in an answer, as one of this library's errors."""
    if head.get("over") == "rows":
        raise SqlLimitError(
            f"the result has more than {limits.maxRows} rows, its limit: add LIMIT or GROUP BY, or raise the limit "
            "with maxRows="
        )
    if head.get("over") == "bytes":
        raise SqlLimitError(
            f"the query needs more memory than its limit, {limits.maxBytes} bytes: simplify it, or raise the limit "
            "with maxBytes="
        )
    if "error" in head:
        message = str(head["message"])
        if head["error"] == "PermissionException":
            raise SqlNotAllowedError(f"{message}. A query over states cannot read anything else")
        raise SqlError(message, position_in(message, query))


def _check_years(table: pa.Table) -> None:
    """Refuse a time that no datetime can hold: rows and JSON could not show it."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if (row := row_outside_years(column)) is not None:
            text = time_text(column, row)
            shown = "infinity or a time far away" if text.startswith("<") else text  # Arrow cannot write it
            raise SqlError(
                f"column {name!r} has the type {type_name(column.type)}, and {shown} in row {row}; {OUTSIDE_YEARS}: "
                f"cast it to varchar"
            )


def _arguments(args: Arguments) -> dict[str, Any]:
    """Return the values of parameters by name: ``?`` has the names 1, 2, ..."""
    if args is None:
        return {}
    if isinstance(args, Mapping):
        return {str(name): value for name, value in args.items()}
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise SqlError(f"args={typed_brief(args)}: expected a list of values for ?, or a dict of values for $name")
    return {str(at): value for at, value in enumerate(args, 1)}


def _sent(arguments: Mapping[str, Any], args: Arguments) -> bytes:
    """Return parameters as the process reads them."""
    if not arguments:
        return b""
    columns = [_argument(name, value) for name, value in arguments.items()]
    table = pa.table(columns, names=list(arguments))
    table = table.replace_schema_metadata({"named": "true" if isinstance(args, Mapping) else "false"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _argument(name: str, value: Any) -> pa.Array:
    try:
        return infer_arrow([value], dictsAreStructs=True)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
        raise SqlError(f"the argument {name} is {typed_brief(value)}, which no column can hold: {error}") from None
