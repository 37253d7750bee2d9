"""The table of one state in PostgreSQL: a map with a conditional put, which is a single durable transaction."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import types as kinds

from trident.base.errors import StateError, StateOwnedError, StateUnavailableError, StateValueError
from trident.base.postgres_address import READ_ONLY, open_connection, parameters_of, passes, postgres_client, said
from trident.base.redis_address import redacted
from trident_state.encoding import is_bytes, is_text
from trident_state.relational.layout import StateTable, ViewColumn, literal, quoted, shown
from trident_state.value_rules import UNSURE

T = TypeVar("T")

_SHORT_KEY = 2_600
"""The most bytes of a key that every index takes, even if they cannot be compressed."""

_AT_ONCE = 20_000
"""The most keys of one statement."""

# For one transaction only, so that the connection may go through a pool. The lease's row is locked until the
# transaction ends: a driver that hangs or is cut off must not block its successor.
_BEGIN = (
    "begin isolation level read committed; "
    "set local lock_timeout = '10s'; set local idle_in_transaction_session_timeout = '30s'; "
    "set local standard_conforming_strings = on; "
    "select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'"
)


class PostgresTable:
    """The table of one state. A connection is opened when it is needed, and reopened after any error."""

    def __init__(self, url: str, connect_timeout: float, table: StateTable) -> None:
        self._url, self._timeout, self._table, self._name = url, connect_timeout, table, quoted(table.name)
        self._owner = f"state {table.identity.name!r}"
        self._connection: Any = None

    # --- the map ---------------------------------------------------------------------------------------------

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        get = (
            f"select t.record from unnest(%b::bytea[]) with ordinality as k(key, at) "
            f"left join {self._name} t on t.key = k.key order by k.at"
        )
        found: list[bytes | None] = []
        for at in range(0, len(keys), _AT_ONCE):
            part = keys[at : at + _AT_ONCE]
            rows = self._read(get, (part,))
            found += [None] * len(part) if rows is None else [row[0] and row[0].encode() for row in rows]
        return found

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        self._write(lambda connection: self._put(connection, keys, values))

    def multiPutIf(self, keys: list[bytes], values: list[bytes], guard: bytes, expected: bytes | None) -> bool:
        """Store all values in one transaction, which locks the row of `guard` until it ends."""

        def put(connection: Any) -> bool:
            if expected is None:
                self._create(connection)
            query = f"select record from {self._name} where key = %b for update"
            row = connection.execute(query, (guard,)).fetchone()
            if (None if row is None else row[0].encode()) != expected:
                return False
            self._put(connection, keys, values)
            return True

        return self._write(put) or False  # None: there is no table

    def checkKeys(self, keys: list[bytes]) -> None:
        """Raise StateValueError if the table cannot hold a key; see `MapCalls.check_keys`.

        A key must fit into a third of a page of its index, compressed. Only the server knows whether it fits. So for
        long keys this method tries an insert and rolls it back.
        """
        for key in keys:
            if len(key) > _SHORT_KEY:
                self._check_key(key)

    def _check_key(self, key: bytes) -> None:
        def attempt(connection: Any) -> None:
            query = f"insert into {self._name} (key, record) values (%b, '') on conflict (key) do nothing"
            connection.execute(query, (key,))
            connection.execute("rollback")

        try:
            self._write(attempt)
        except StateUnavailableError:
            return  # the commit waits until the server is back
        except StateError as error:
            if getattr(error.__cause__, "sqlstate", None) != "54000":
                raise
            raise StateValueError(
                f"{self._owner}: a key of {len(key)} bytes is too long for the database at {redacted(self._url)} "
                f"({said(error.__cause__)}); it begins with {key[1:60].decode(errors='replace')!r}. The batch was not "
                f"frozen. Shorten the key before the state, by a hash for example; or keep the state in memory, in "
                f"Redis or in SQLite"
            ) from error

    def keys(self) -> Iterable[bytes]:
        return [bytes(key) for (key,) in self._read(f"select key from {self._name}", ()) or ()]

    def keysBetween(self, low: bytes, high: bytes, most: int | None) -> Iterable[bytes]:
        query = f"select key from {self._name} where key >= %b and key < %b order by key limit %s"
        return [bytes(key) for (key,) in self._read(query, (low, high, most)) or ()]

    def multiRemove(self, keys: list[bytes]) -> None:
        """Remove the given keys. With the last key, the meta entry's, drop the table and the view."""

        def remove(connection: Any) -> None:
            connection.execute(f"delete from {self._name} where key = any(%b::bytea[])", (keys,))
            if connection.execute(f"select 1 from {self._name} limit 1").fetchone() is None:
                self._drop(connection)

        self._write(remove)

    def checkRemovable(self) -> None:
        """Raise StateError if the table and the view cannot be dropped: a view depends on them, or rights are missing.

        This method tries the drop in a transaction and rolls it back.
        """

        def attempt(connection: Any) -> None:
            self._drop(connection)
            connection.execute("rollback")

        self._write(attempt)

    def _drop(self, connection: Any) -> None:
        connection.execute(f"drop view if exists {quoted(self._table.view)}")
        connection.execute(f"drop table {self._name}")

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about settings by which the server may lose a confirmed commit."""
        found = (
            self._read(
                "select name from pg_settings where name in ('fsync', 'full_page_writes') "
                "and setting = 'off' order by name",
                (),
            )
            or ()
        )
        texts = [f"{name} is off" for (name,) in found]
        named = "select 1 from pg_class where oid = to_regclass(%s) and relpersistence <> 'p'"
        if self._read(named, (self._name,)):
            texts.append(f"the table {self._name} is unlogged, so a crash empties it")
        return tuple(
            f"{self._owner}: {text} at {redacted(self._url)}: a crash may lose commits. The driver then restores the "
            f"state from the batches that the log still has"
            for text in texts
        )

    def close(self) -> None:
        """Close the connection. The next call opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # the connection is broken already
            with suppress(postgres_client("PostgresMapState", "postgres").Error, OSError):
                connection.close()

    # --- transactions ----------------------------------------------------------------------------------------

    def _read(self, query: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]] | None:
        """Return the rows of a query, as of one moment; None if the table does not exist."""

        def rows(connection: Any) -> list[tuple[Any, ...]]:
            return list(connection.execute(query, parameters).fetchall())

        used = self._connection is not None
        try:
            return self._call(rows)
        except StateUnavailableError:
            if not used:
                raise
        return self._call(rows)  # the server was restarted since the last call: a read may be sent again

    def _write(self, work: Callable[[Any], T]) -> T | None:
        """Return the result of `work`, which runs in one transaction; None if the table does not exist."""

        def written(connection: Any) -> T:
            connection.execute(_BEGIN)
            result = work(connection)
            connection.execute("commit")
            return result

        return self._call(written)

    def _call(self, work: Callable[[Any], T]) -> T | None:
        client = postgres_client("PostgresMapState", "postgres")
        try:
            if self._connection is None:
                given = (self._url, None, None, self._timeout)
                parameters = parameters_of(self._owner, *given, StateError)
                # The connection may go through a pool that does not support prepared statements.
                self._connection = open_connection(client, **parameters, autocommit=True, prepare_threshold=None)
            return work(self._connection)
        except client.errors.UndefinedTable:
            self.close()
            return None
        except client.Error as error:
            self.close()
            raise self._error(error) from error
        except BaseException:
            self.close()  # whatever the state of the connection
            raise

    def _error(self, error: Any) -> StateError:
        where = f"{self._owner}: the database at {redacted(self._url)}"
        if error.sqlstate == "25006":
            return StateUnavailableError(f"{where} {READ_ONLY}")
        if error.sqlstate == "2BP01":
            return StateError(
                f"{where} answered: {said(error)}. First drop the objects that depend on the table {self._name} or "
                f"its view {self._table.view} ({error.diag.message_detail}); the state was not changed"
            )
        if error.sqlstate == "42501":
            return StateError(f"{where} answered: {said(error)}; the user needs CREATE on the schema for its states")
        # Another process has just created a table or type of the same name; the next attempt finds it.
        if passes(error) or error.sqlstate in ("23505", "42P07", "42710", "XX000"):
            return StateUnavailableError(f"{where}: {said(error)}; {UNSURE}")
        return StateError(f"{where} answered: {said(error)}; check user, password and database in the url")

    # --- statements ------------------------------------------------------------------------------------------

    def _put(self, connection: Any, keys: list[bytes], values: list[bytes]) -> None:
        put = (
            f"insert into {self._name} select * from unnest(%b::bytea[], %s::text[], %s::text[]) "
            f"on conflict (key) do update set record = excluded.record"
        )
        fields, records = self._table.fields(keys), [value.decode() for value in values]
        for at in range(0, len(keys), _AT_ONCE):
            part = slice(at, at + _AT_ONCE)
            connection.execute(put, (keys[part], fields[part], records[part]))

    def _create(self, connection: Any) -> None:
        """Create the table and the view if they are missing, under a lock against other drivers that do the same."""
        connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._table.name,))
        if connection.execute("select to_regclass(%s)", (self._name,)).fetchone()[0] is not None:
            return
        view = self._table.view
        if connection.execute("select to_regclass(%s)", (quoted(view),)).fetchone()[0] is not None:
            raise StateOwnedError(
                f"{self._owner}: the database at {redacted(self._url)} already has {view!r}, the name of this "
                f"state's view; rename the state or the topology. Nothing was changed"
            )
        connection.execute(f"create table {self._name} (key bytea primary key, fields text, record text not null)")
        columns = ", ".join(_typed(column) for column in self._table.columns())
        fields, record = (f"{shown(column, 'chr')}::json" for column in ("fields", "record"))
        value = record if self._table.bare else f"{record} -> 'value'"
        # The inner query must not be flattened, because the meta entry has no value.
        connection.execute(
            f"create view {quoted(view)} as select {columns} from (select {fields} as fields, {value} as value "
            f"from {self._name} where fields is not null) entries where json_typeof(value) <> 'null'"
        )


def _typed(column: ViewColumn) -> str:
    """Return the SQL expression by which the view computes a column."""
    if column.field is not None:
        text, document = f"fields ->> {column.field}", f"fields -> {column.field}"
    elif column.part is None:
        text, document = "value #>> '{}'", "value"
    else:
        text, document = f"value ->> {literal(column.part)}", f"value -> {literal(column.part)}"
    if is_bytes(column.type):
        expression = f"decode({text}, 'base64')"
    else:
        named = next((name for fits, name in _TYPES if fits(column.type)), None)
        expression = f"({document})" if named is None else f"({text})::{named}"
    return f"{expression} as {quoted(column.name)}"


_TYPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (is_text, "text"),
    (kinds.is_boolean, "boolean"),
    (kinds.is_int64, "bigint"),
    (kinds.is_integer, "integer"),
    (kinds.is_float64, "double precision"),
    (kinds.is_floating, "real"),
    (kinds.is_decimal, "numeric"),
    (kinds.is_date, "date"),
    (lambda kind: kinds.is_timestamp(kind) and kind.tz is not None, "timestamptz"),
    (kinds.is_timestamp, "timestamp"),
    (kinds.is_duration, "interval"),
)
"""The SQL types of columns. Lists, structs and maps stay JSON."""
