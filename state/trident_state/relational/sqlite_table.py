"""The table of one state in a SQLite file: a map with a conditional put, one transaction synced to disk."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from trident.base.errors import StateError, StateOwnedError, StateUnavailableError
from trident.base.forked_child import free_in_child, held_at_fork
from trident.base.sqlite_files import FileIdentity, files_of, identities
from trident_state.relational.layout import StateTable, ViewColumn, literal, quoted, shown
from trident_state.value_rules import UNSURE

T = TypeVar("T")

_BUSY_SECONDS = 10.0
"""The seconds that a call waits for another process that writes the same file."""

_tables = WeakSet["SqliteTable"]()
_listing = free_in_child(threading.Lock())


class SqliteTable:
    """The table of one state. The file is created with the state, and reopened if it was replaced."""

    def __init__(self, path: str, table: StateTable) -> None:
        self._path, self._table, self._name = Path(path).absolute(), table, quoted(table.name)
        self._where = f"state {table.identity.name!r}: the SQLite file {self._path}"
        self._db: sqlite3.Connection | None = None
        self._watched = files_of(self._path)
        self._files: tuple[FileIdentity, ...] = ()
        self._lock = free_in_child(threading.RLock())
        held_at_fork(self._lock, self, SqliteTable._close_idle)
        with _listing:
            _tables.add(self)

    # --- the map ---------------------------------------------------------------------------------------------

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        get = f"SELECT record FROM {self._name} WHERE key = ?"

        def read(db: sqlite3.Connection) -> list[bytes | None]:
            if not self._exists(db):
                return [None] * len(keys)
            found = (db.execute(get, (key,)).fetchone() for key in keys)
            return [None if row is None else row[0].encode() for row in found]

        return self._run("BEGIN", read, [None] * len(keys))

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        self._run("BEGIN IMMEDIATE", lambda db: self._put(db, keys, values), None, make=True)

    def multiPutIf(self, keys: list[bytes], values: list[bytes], guard: bytes, expected: bytes | None) -> bool:
        """Store all values in one transaction, which holds the file's only lock for writers."""

        def put(db: sqlite3.Connection) -> bool:
            if expected is None:
                self._create(db)
            elif not self._exists(db):
                return False
            row = db.execute(f"SELECT record FROM {self._name} WHERE key = ?", (guard,)).fetchone()
            if (None if row is None else row[0].encode()) != expected:
                return False
            self._put(db, keys, values)
            return True

        return self._run("BEGIN IMMEDIATE", put, False, make=expected is None)

    def keys(self) -> Iterable[bytes]:
        def read(db: sqlite3.Connection) -> list[bytes]:
            return [key for (key,) in db.execute(f"SELECT key FROM {self._name}")] if self._exists(db) else []

        return self._run("BEGIN", read, [])

    def keysBetween(self, low: bytes, high: bytes, most: int | None) -> Iterable[bytes]:
        query = f"SELECT key FROM {self._name} WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"

        def read(db: sqlite3.Connection) -> list[bytes]:
            given = (low, high, -1 if most is None else most)
            return [key for (key,) in db.execute(query, given)] if self._exists(db) else []

        return self._run("BEGIN", read, [])

    def multiRemove(self, keys: list[bytes]) -> None:
        """Remove the given keys. With the last key, the meta entry's, drop the table and the view."""

        def remove(db: sqlite3.Connection) -> None:
            if not self._exists(db):
                return
            db.executemany(f"DELETE FROM {self._name} WHERE key = ?", [(key,) for key in keys])
            if db.execute(f"SELECT 1 FROM {self._name} LIMIT 1").fetchone() is None:
                db.execute(f"DROP VIEW IF EXISTS {quoted(self._table.view)}")
                db.execute(f"DROP TABLE {self._name}")

        self._run("BEGIN IMMEDIATE", remove, None)

    def close(self) -> None:
        """Close the connection. The next call opens another one."""
        with self._lock:
            db, self._db = self._db, None
            if db is not None:
                db.close()

    def close_former(self, there: tuple[FileIdentity, ...]) -> None:
        """Close the connection if its WAL file is not the one that is `there`, beside the same database.

        Connections of one process share the WAL index, so a new connection would read the new file with the old index.
        """

        def former() -> bool:
            return self._db is not None and self._files[0] == there[0] and self._files != there

        if former():  # a table with a new connection has none to close, so two such tables never wait for each other
            with self._lock:
                if former():
                    self.close()

    def _close_idle(self) -> None:
        """Close the connection before a fork, because a child must not even close a connection of its parent.

        SQLite would believe that the child holds its parent's locks on the file.
        """
        if self._db is not None and not self._db.in_transaction:
            self.close()

    # --- transactions ----------------------------------------------------------------------------------------

    def _run(self, begin: str, work: Callable[[sqlite3.Connection], T], absent: T, make: bool = False) -> T:
        """Return the result of `work` in one transaction; `absent` if there is no file and `make` is false."""
        with self._lock:
            return self._locked_run(begin, work, absent, make)

    def _locked_run(self, begin: str, work: Callable[[sqlite3.Connection], T], absent: T, make: bool) -> T:
        try:
            db = self._connected(make)
            if db is None:
                return absent
            db.execute(begin)
            try:
                result = work(db)
                db.execute("COMMIT")
            except BaseException:
                self.close()  # closing rolls back
                raise
        except sqlite3.DatabaseError as error:
            self.close()
            if "not a database" in str(error):
                raise StateOwnedError(f"{self._where} is not a SQLite database; give the state another path") from error
            raise StateUnavailableError(f"{self._where}: {error}; {UNSURE}") from error
        if begin != "BEGIN" and identities(self._watched) != self._files:
            raise StateUnavailableError(f"{self._where} was removed or replaced during a write")
        return result

    def _connected(self, make: bool) -> sqlite3.Connection | None:
        """Return a connection to the current files at the path; None if there are none and `make` is false.

        POSIX drops this process's locks on a file when it closes any other descriptor of the file. The next reader
        then removes the WAL file, and later writes of this connection are lost.
        """
        there = identities(self._watched)
        database, wal, _ = there
        if self._db is not None and there == self._files and database is not None and not (make and wal is None):
            return self._db
        self.close()
        if database is None:
            if not make:
                return None
            if not self._path.parent.is_dir():
                raise StateError(
                    f"{self._where} cannot be created: the folder {self._path.parent} does not exist; create it"
                )
        with _listing:
            tables = list(_tables)
        for table in tables:
            table.close_former(there)
        mode = "rwc" if make else "rw"
        uri = f"{self._path.as_uri()}?mode={mode}"
        db = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA synchronous=FULL")  # a commit is on disk when it returns, also in WAL mode
            if make:
                _turn_to_wal(db)
            db.execute("PRAGMA schema_version").fetchone()  # even a read creates and locks SQLite's other files
        except BaseException:
            db.close()
            raise
        # in this order, because `close_former` reads without the lock
        self._files, self._db = identities(self._watched), db
        return db

    # --- statements ------------------------------------------------------------------------------------------

    def _exists(self, db: sqlite3.Connection) -> bool:
        named = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return db.execute(named, (self._table.name,)).fetchone() is not None

    def _put(self, db: sqlite3.Connection, keys: list[bytes], values: list[bytes]) -> None:
        db.executemany(
            f"INSERT INTO {self._name} VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET record = excluded.record",
            zip(keys, self._table.fields(keys), (value.decode() for value in values), strict=True),
        )

    def _create(self, db: sqlite3.Connection) -> None:
        if self._exists(db):
            return
        view = self._table.view
        if view.lower().startswith("sqlite_"):
            raise StateOwnedError(
                f"{self._where}: the view of this state would be {view!r}, and SQLite reserves names that begin with "
                f"'sqlite_'; rename the topology. Nothing was changed"
            )
        if db.execute("SELECT 1 FROM sqlite_master WHERE lower(name) = lower(?)", (view,)).fetchone() is not None:
            raise StateOwnedError(
                f"{self._where} already has {view!r}, the name of this state's view; rename the state or the "
                f"topology, or give the state a separate file. Nothing was changed"
            )
        db.execute(f"CREATE TABLE {self._name} (key BLOB PRIMARY KEY, fields TEXT, record TEXT NOT NULL) WITHOUT ROWID")
        value = "$" if self._table.bare else "$.value"
        columns = ", ".join(_extracted(column, value) for column in self._table.columns())
        db.execute(
            f"CREATE VIEW {quoted(view)} AS SELECT {columns} FROM {self._name} "
            f"WHERE fields IS NOT NULL AND json_type(record, '{value}') <> 'null'"
        )


def _turn_to_wal(db: sqlite3.Connection) -> None:
    """Switch to WAL, so that readers and the writer do not block each other.

    SQLite itself does not wait for this switch.
    """
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _extracted(column: ViewColumn, value: str) -> str:
    """Return the SQL expression by which the view computes a column."""
    if column.field is not None:
        source, path = "fields", f"$[{column.field}]"
    else:
        source, path = "record", value if column.part is None else f'{value}."{column.part}"'
    return f"json_extract({shown(source, 'char')}, {literal(path)}) AS {quoted(column.name)}"
