"""Reading from a database. If the connection is lost, reads are repeated, which is safe because they change nothing."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from trident.base.errors import SourceUnreadableError
from trident.base.postgres_address import passes, said
from trident_spouts.jdbc.address import Address, postgres_client
from trident_spouts.jdbc.copy_out import copied, copied_values, described

T = TypeVar("T")
Row = tuple[Any, ...]

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5

# The texts of values depend on these settings. They are set for one transaction only, because the connection may go
# through a pool.
_SETTINGS = (
    "set local timezone = 'UTC'; set local datestyle = 'ISO, YMD'; set local extra_float_digits = 1; "
    "set local bytea_output = 'hex'; set local intervalstyle = 'postgres'; set local standard_conforming_strings = on; "
    "set local quote_all_identifiers = off"
)
EACH_STATEMENT = f"begin isolation level read committed read only; {_SETTINGS}"
"""The SQL that begins a transaction in which each statement sees the data committed before that statement."""
ONE_MOMENT = f"begin isolation level repeatable read read only; {_SETTINGS}"
"""The SQL that begins a transaction in which all statements see the data committed before the first statement."""


class ColumnType(NamedTuple):
    """The server's description of a column: the number of its type, and for decimals precision and scale."""

    name: str
    oid: int
    precision: int | None
    scale: int | None


class Session:
    """One transaction in a connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, query: str) -> list[Row]:
        """Return the rows of a query."""
        with self._connection.cursor() as cursor:
            cursor.execute(query.encode())
            return list(cursor.fetchall())

    def run(self, statement: str) -> None:
        """Run a statement that returns no rows."""
        self._connection.execute(statement.encode())

    def one(self, query: str) -> Row:
        """Return the only row of a query."""
        (row,) = self.rows(query)
        return row

    def columns(self, query: str) -> list[ColumnType]:
        """Return the columns of a query that returns no row."""
        with self._connection.cursor() as cursor:
            cursor.execute(query.encode())
            found = cursor.description or []
            return [ColumnType(each.name, each.type_code, each.precision, each.scale) for each in found]

    def origins(self, query: str) -> list[tuple[int, int, int]]:
        """Return the numbers of the table and column, and the type modifier, of each column of a query.

        The query is not run.

        The table is 0 if the column is not an unchanged column of a table or view. The modifier is -1 if the type has
        none.
        """
        result = described(self._connection, query)
        return [(result.ftable(at), result.ftablecol(at), result.fmod(at)) for at in range(result.nfields)]

    def permitted(self, work: Callable[[], T]) -> tuple[str | None, T | None]:
        """Return the result of `work`, or the server's answer if the user lacks the permission."""
        self._connection.execute(b"savepoint permitted")
        try:
            return None, work()
        except postgres_client().errors.InsufficientPrivilege as error:
            self._connection.execute(b"rollback to savepoint permitted")
            return said(error), None

    def csv(self, query: str) -> Iterator[bytes]:
        """Yield the rows of a query as CSV, in chunks of whole rows; see `copied`."""
        return copied(self._connection, query)

    def values(self, query: str) -> Iterator[bytes]:
        """Yield the values of the only column of a query, of type bytea and without nulls."""
        return copied_values(self._connection, query)


class Database:
    """A connection to a database for one thread, opened when needed.

    `patience`: the seconds for which reads are repeated.
    """

    def __init__(self, address: Address, patience: float) -> None:
        self.address = address
        self._patience = patience
        self._connection: Any = None

    def read(self, work: Callable[[Session], T], begin: str = EACH_STATEMENT, *, keep: bool = False) -> T:
        """Return the result of `work`, run in one transaction. If the connection is lost, `work` is called again.

        With `keep` the transaction stays open until `close`. Raises SourceUnreadableError if the server refuses a
        statement, or cannot be reached for `patience` seconds.
        """
        client = postgres_client()
        until, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        while True:
            try:
                return self._in_transaction(work, begin, keep)
            except client.Error as error:
                if not passes(error):
                    raise self._refusal(error) from error
                if time.monotonic() + pause > until:
                    raise self._error(
                        f"cannot be read, after {self._patience:g} s of trying ({said(error)}). Check the address, "
                        f"and that the server runs; retrySecs= sets how long to wait for it"
                    ) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _in_transaction(self, work: Callable[[Session], T], begin: str, keep: bool) -> T:
        try:
            if self._connection is None:
                self._connection = self.address.connect()
            self._connection.execute(begin.encode())
            result = work(Session(self._connection))
            if not keep:
                self._connection.execute(b"commit")
            return result
        except BaseException:
            self.close()  # whatever the state of the connection
            raise

    def close(self) -> None:
        """Close the connection. The next read opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(postgres_client().Error, OSError):  # the connection is broken already
                connection.close()

    def _refusal(self, error: Any) -> SourceUnreadableError:
        hints = {
            "42P01": "create the table, or correct its name",
            "42703": "a column was dropped or renamed",
            "42501": "GRANT it to the user (SELECT on a table, USAGE on a schema, EXECUTE on a function); for a slot, "
            "ALTER ROLE ... REPLICATION",
        }
        hint = hints.get(error.sqlstate or "", "check user, password and database in the address")
        known = error.sqlstate in hints or error.sqlstate is None
        return self._error(f"answered: {said(error)}{f'; {hint}' if known else ''}")

    def _error(self, what: str) -> SourceUnreadableError:
        return SourceUnreadableError(f"{self.address.owner}: the database at {self.address.shown} {what}")
