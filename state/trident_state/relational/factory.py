"""SqliteMapState and PostgresMapState: the API to keep a state in a relational database."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, Self

from trident.base.durations import Duration, read_seconds
from trident.base.finding import Finding, Now
from trident.base.names import brief
from trident.base.option_names import known_options_of
from trident.base.postgres_address import check_postgres_url
from trident.base.postgres_examination import durable, examine_database, may_create, primary
from trident.base.redis_address import redacted
from trident_state.backing.protocol import BackingMap
from trident_state.backing.store import BackingStore
from trident_state.relational.layout import StateTable
from trident_state.relational.postgres_table import PostgresTable
from trident_state.relational.sqlite_table import SqliteTable
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home

_WHOLE = 2**31
"""The most keys in one call of a table: more than any batch has, so that each batch is one transaction."""


@dataclass(frozen=True, repr=False)
class _RelationalState:
    """The base class of the factories for both databases, with the kind and the store of a table."""

    kind: StateKind

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """The component that keeps the state between runs: a "server", which here means the database."""
        return "server"

    @property
    def fenced(self) -> bool:
        """True, because the transaction itself refuses an earlier driver's write."""
        return True

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> BackingStore:
        """Return the state's store. It connects to the database when it is first used."""
        make = partial(self._table, StateTable(identity, shape, self.kind))
        return BackingStore(identity, shape, self.kind, make, "json", _WHOLE)

    def _table(self, table: StateTable) -> BackingMap:
        raise NotImplementedError


@known_options_of({}, "opaque", "transactional", "nonTransactional")
@dataclass(frozen=True, repr=False)
class SqliteMapState(_RelationalState):
    """A state in a SQLite file. It outlives the run, and SQL can read it.

    Make a SqliteMapState by `opaque`, `transactional` or `nonTransactional`. A file may hold many states. Each batch is
    one transaction, which is on disk when the commit returns. The state is exactly-once, and refuses writes of a
    previous driver. Meaning: the state factories around Trident's ``IBackingMap``, as the JDBC state of ``storm-jdbc``.

    >>> SqliteMapState.opaque("states.db")
    SqliteMapState.opaque('states.db')
    """

    path: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.kind, StateKind):
            raise TypeError(
                "the kind is missing; write SqliteMapState.opaque(path), .transactional(path) or "
                ".nonTransactional(path)"
            )
        if not isinstance(self.path, str | PathLike):
            raise TypeError(f"path={brief(self.path)}: expected the path of a file, such as 'states.db'")
        object.__setattr__(self, "path", fspath(self.path))
        if not self.path or self.path == ":memory:" or "://" in self.path:
            raise ValueError(
                f"path={self.path!r}: expected the path of a file on a local disk, such as 'states.db'; to keep a "
                f"state in memory use MemoryMapState, on a server PostgresMapState or RedisMapState"
            )

    @classmethod
    def opaque(cls, path: str | PathLike[str]) -> Self:
        """Return an opaque state, which keeps (txid, prev, value) and is exact with transactional and opaque spouts.

        Parameters
        ----------
        path
            The file, on a local disk, because SQLite's locks do not work on network drives. It is created with the
            first state; its folder must exist.

        Raises
        ------
        TypeError, ValueError
            `path` is not a path.
        """
        return cls(StateKind.OPAQUE, path)  # type: ignore[arg-type]

    @classmethod
    def transactional(cls, path: str | PathLike[str]) -> Self:
        """Return a transactional state, which is as exact as an opaque state. Parameters as in `opaque`."""
        return cls(StateKind.TRANSACTIONAL, path)  # type: ignore[arg-type]

    @classmethod
    def nonTransactional(cls, path: str | PathLike[str]) -> Self:
        """Return a state that keeps values only, so that reads are not committed reads. Parameters as in `opaque`."""
        return cls(StateKind.NON_TRANSACTIONAL, path)  # type: ignore[arg-type]

    @property
    def tablePlace(self) -> Mapping[str, Any] | None:
        """The location that a topology's log records for readers: the absolute path of the file."""
        return {"sqlite": os.path.abspath(self.path)}

    def examine(self, now: Now = time.time) -> Iterator[Finding]:
        """Yield the faults that `trident doctor` reports: a folder that is missing or cannot be written.

        Parameters
        ----------
        now : callable
            The clock of this machine, in seconds since 1970.
        """
        folder = Path(self.path).expanduser().absolute().parent
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            found = f"the folder {folder} {'may not be written by this user' if folder.is_dir() else 'does not exist'}"
            todo = f"mkdir -p {folder}, owned by the user who runs the driver; or correct the path"
            yield Finding(f"a state in {self.path}", found, "a start is refused", todo)

    def _table(self, table: StateTable) -> BackingMap:
        return SqliteTable(self.path, table)

    def __repr__(self) -> str:
        return f"SqliteMapState.{self.kind.value}({self.path!r})"


@known_options_of({}, "opaque", "transactional", "nonTransactional")
@dataclass(frozen=True, repr=False)
class PostgresMapState(_RelationalState):
    """A state in PostgreSQL. It outlives the run, and SQL can read it.

    Make a PostgresMapState by `opaque`, `transactional` or `nonTransactional`. Each batch is one transaction, which is
    durable when it is committed. The state is exactly-once, and refuses writes of a previous driver. It needs psycopg:
    ``pip install 'trident-pyspark[postgres]'``. Meaning: the JDBC state of ``storm-jdbc``, with fencing and committed
    reads added.

    >>> PostgresMapState.opaque("postgresql://me:secret@localhost/shop")
    PostgresMapState.opaque('postgresql://me:***@localhost/shop')
    """

    url: str = ""
    connectTimeout: float = 5.0

    def __post_init__(self) -> None:
        if not isinstance(self.kind, StateKind):
            raise TypeError(
                "the kind is missing; write PostgresMapState.opaque(url), .transactional(url) or .nonTransactional(url)"
            )
        check_postgres_url(self.url)
        object.__setattr__(self, "connectTimeout", read_seconds("connectTimeout", self.connectTimeout))

    @classmethod
    def opaque(cls, url: str, *, connectTimeout: Duration = 5.0) -> Self:
        """Return an opaque state, which keeps (txid, prev, value) and is exact with transactional and opaque spouts.

        Parameters
        ----------
        url
            ``postgresql://user:password@host:5432/database``, with libpq's parameters; or ``env:NAME`` or
            ``file:path`` that holds it, read at each connection. The state's table and view are made in the first
            schema of the user's search path.
        connectTimeout
            How long until a server counts as unreachable: seconds, ``"5s"`` or a timedelta.

        Raises
        ------
        TypeError, ValueError
            An argument is invalid. Whether the server can be reached is checked when the topology starts.
        """
        return cls(StateKind.OPAQUE, url, connectTimeout)  # type: ignore[arg-type]

    @classmethod
    def transactional(cls, url: str, *, connectTimeout: Duration = 5.0) -> Self:
        """Return a transactional state, which is as exact as an opaque state. Parameters as in `opaque`."""
        return cls(StateKind.TRANSACTIONAL, url, connectTimeout)  # type: ignore[arg-type]

    @classmethod
    def nonTransactional(cls, url: str, *, connectTimeout: Duration = 5.0) -> Self:
        """Return a state that keeps values only, so that reads are not committed reads. Parameters as in `opaque`."""
        return cls(StateKind.NON_TRANSACTIONAL, url, connectTimeout)  # type: ignore[arg-type]

    def examine(self, now: Now = time.time) -> Iterator[Finding]:
        """Yield the faults that `trident doctor` reports: a database out of reach, a standby, rights, settings, clock.

        Parameters
        ----------
        now : callable
            The clock of this machine, in seconds since 1970.
        """
        about = f"a state at {redacted(self.url)}"
        asked = primary(about), may_create(about), durable(about)
        yield from examine_database(about, self.url, None, None, "postgres", now, *asked)

    def _table(self, table: StateTable) -> BackingMap:
        return PostgresTable(self.url, self.connectTimeout, table)

    def __repr__(self) -> str:
        shown = "" if self.connectTimeout == 5.0 else f", connectTimeout={self.connectTimeout!r}"
        return f"PostgresMapState.{self.kind.value}({redacted(self.url)!r}{shown})"
