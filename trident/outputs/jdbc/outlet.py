"""The writer of an output into a database.

    start        one transaction: check the table, lock the record, put this driver's lease into it
    each batch   one transaction: lock the record; if it is another driver's, stop; if it has the batch's txid, nothing;
                 else write the rows, and the batch's txid into the record

The rows and the record become durable together. A connection may be lost while the server commits. The next attempt
then waits for the lock, which the former transaction holds until it ends, and the record says how it ended.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa

from trident.base.change_kinds import CHANGE
from trident.base.crash_points import reach
from trident.base.errors import OutputError, OutputRefusedError, OutputUnavailableError
from trident.base.postgres_address import READ_ONLY, open_connection, parameters_of, passes, postgres_client, said
from trident.base.redis_address import redacted
from trident.base.spark_types import arrow_schema
from trident.frozen.results import Result
from trident.outputs.jdbc.record import JdbcRecord
from trident.outputs.jdbc.table import Table, form_of, look_up
from trident.outputs.jdbc.writing import BatchText, append, upsert
from trident.outputs.last_changes import last_of_keys
from trident.outputs.run_identity import RunIdentity
from trident.outputs.writer_record import RecordRules
from trident.plan.nodes import WriteJdbc

T = TypeVar("T")
ReadTables = Callable[[Result], Iterable[pa.Table]]

_CONNECT_SECS = 10.0

# For one transaction only, so that the connection may go through a pool. The lock on the record must not outlive a
# driver that hangs or is cut off for long.
_BEGIN = (
    "begin isolation level read committed; set local lock_timeout = '10s'; "
    "set local idle_in_transaction_session_timeout = '60s'; set local timezone = 'UTC'; "
    "set local datestyle = 'ISO, YMD';"
    "set local standard_conforming_strings = on; set local quote_all_identifiers = off; "
    "select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'"
)

_HINTS = {
    "23505": "another unique index or constraint has this value already. It must hold after each row of a batch, "
    "unless it is DEFERRABLE",
    "42501": "grant the user SELECT, INSERT, UPDATE and DELETE on the table, CREATE on its schema for the table of "
    "records, and TEMPORARY on the database",
    "42P01": "the table was dropped or renamed",
    "42703": "a column was dropped or renamed",
}


class JdbcOutlet:
    """Writes every batch once. It connects when it is created.

    Raises OutputUnavailableError if the server does not answer, OutputRefusedError if the table does not fit the
    fields or the server refuses, and OutputConflictError if the record of the output does not belong to this run.
    """

    def __init__(self, sink: WriteJdbc, run: RunIdentity, read: ReadTables) -> None:
        self._sink, self._target, self._read, self._run = sink, sink.jdbc, read, run
        self._client = postgres_client("writeJdbc", "jdbc")
        self._where = f"{sink.step}: the database at {redacted(sink.jdbc.url)}"
        self._connection: Any = None
        self._transaction(self._begin, "the start")

    def take(self, result: Result, txid: int) -> None:
        """Write the batch, unless the database already has it. An empty batch needs no transaction."""
        if result.num_rows:
            self._transaction(lambda connection: self._take(connection, result, txid), f"batch {txid}")
            reach("output.published")
            self._rules.took(txid)

    def close(self) -> None:
        """Close the connection. The next batch opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self._client.Error, OSError):  # it is broken already
                connection.close()

    # --- one transaction ---------------------------------------------------------------------------------------------

    def _begin(self, connection: Any) -> None:
        """Take the output over."""
        self._record = JdbcRecord(f"{self._run.topology}/{self._sink.name}", self._table, self._sink.step)
        self._rules = RecordRules(self._sink, self._run, f"{self._record.place} at {redacted(self._target.url)}")
        self._record.prepare(connection)
        held = self._record.read(connection, self._table)
        if held is None and not self._target.key:  # with a key, repeated rows replace themselves
            outputs = self._record.outputs(connection, self._table)
            self._rules.warn_of_namesakes(f"the table {self._table.name}", outputs)
        self._record.write(connection, self._rules.claim(held), self._table)

    def _look_up(self, connection: Any) -> Table:
        fields = arrow_schema(self._sink.schema)
        if self._target.changes:
            fields = fields.remove(fields.get_field_index(CHANGE))
        return look_up(connection, self._target, fields, lambda why: OutputRefusedError(f"{self._where}: {why}"))

    def _take(self, connection: Any, result: Result, txid: int) -> None:
        held = self._record.read(connection, self._table)
        if self._rules.has(held, txid, lambda: self._text(result).read_through()):
            return
        text = self._text(result)
        if self._target.key:
            upsert(connection, self._table, text, self._target.changes, self._target.consolidated)
        else:
            append(connection, self._table, text)
        # The locks of what was written keep the table as it is until the commit.
        if form_of(connection, self._target) != self._table.form:
            raise OutputUnavailableError(
                f"{self._where}: the table {self._target.table} was altered since its columns were checked; they are "
                f"checked again, and batch {txid} is written again"
            )
        self._record.write(connection, self._rules.written(txid, text.digest), self._table)
        reach("output.staged")

    def _text(self, result: Result) -> BatchText:
        tables, target = self._read(result), self._target
        if target.key:
            change = CHANGE if target.changes else None
            tables = last_of_keys(lambda: self._read(result), target.key, change, target.consolidated)
        return BatchText(tables, self._table.columns, target.changes)

    def _transaction(self, work: Callable[[Any], None], what: str) -> None:
        try:
            fresh = self._connection is None
            connection = self._connected()
            connection.execute(_BEGIN)
            if fresh:
                self._table = self._look_up(connection)
            work(connection)
            connection.execute("commit")
        except BaseException as error:
            self.close()  # whatever state the connection is in
            if isinstance(error, self._client.Error):
                raise self._error(error, what) from error
            if isinstance(error, ValueError):
                raise OutputRefusedError(f"{self._where} cannot take {what}: {error}") from None
            raise

    def _connected(self) -> Any:
        if self._connection is None:
            given = (self._target.url, None, None, _CONNECT_SECS)
            parameters = parameters_of(self._sink.step, *given, OutputRefusedError)
            # The connection may go through a pool that does not support prepared statements.
            self._connection = open_connection(self._client, **parameters, autocommit=True, prepare_threshold=None)
        return self._connection

    def _error(self, error: Any, what: str) -> OutputError:
        state = str(error.sqlstate or "")
        if state == "25006":
            return OutputUnavailableError(f"{self._where} {READ_ONLY}")
        # Another process has just created a table or a type of the same name; the next try finds it.
        if passes(error) or (state in ("42P07", "42710") and what == "the start"):
            again = "" if what == "the start" else f"; {what} is written again, unless it is there"
            return OutputUnavailableError(f"{self._where}: {said(error)}{again}")
        more = [text for text in (error.diag.message_detail, error.diag.context) if text]
        answer = " ".join([f"{said(error)}.", *(" ".join(text.split()) for text in more)])
        hint = _HINTS.get(state, "" if state else "check user, password and database in the url")
        kept = (
            ""
            if what == "the start"
            else (
                f". The batch stays frozen, and the next start writes it: change the table {self._target.table} so "
                f"that it takes the batch, and keep such tuples out of later batches by a filter before writeJdbc"
            )
        )
        return OutputRefusedError(f"{self._where} refuses {what}: {answer}{f' ({hint})' if hint else ''}{kept}")
