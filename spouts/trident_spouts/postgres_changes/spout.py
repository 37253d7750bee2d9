"""PostgresChangesSpout: a spout of the rows of a PostgreSQL table and of their changes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from pyspark.sql.types import StructType

from trident.base.argument_checks import check_choice, check_whole_number
from trident.base.descriptions import described, keep
from trident.base.durations import Duration, read_seconds
from trident.base.errors import TopologyError
from trident.base.finding import Finding, Now
from trident.base.postgres_address import check_postgres_url
from trident.base.redis_address import redacted
from trident_spouts.configurable import configurable
from trident_spouts.executor import Metadata, SpoutExecutor, SpoutKind
from trident_spouts.jdbc.address import Address
from trident_spouts.jdbc.database import Session
from trident_spouts.jdbc.examination import examine_source
from trident_spouts.jdbc.options import asked_fields, check_texts, shown_password
from trident_spouts.jdbc.relation import Source, table_sql
from trident_spouts.postgres_changes.executor import ChangesExecutor, plan_of
from trident_spouts.postgres_changes.lsn import lsn_text
from trident_spouts.postgres_changes.slot import logical, look_at
from trident_spouts.postgres_changes.source import OWNER, ChangesSource, opened, with_kind
from trident_spouts.rows import read_schema

Images = Literal["full", "key"]
StartingFrom = Literal["rows", "slot"]
OnTruncate = Literal["fail", "skip"]

_NEEDED = {"slot": "the name of a slot", "publication": "the name of a publication"}


@configurable
@dataclass(frozen=True, init=False, repr=False)
class PostgresChangesSpout:
    """A spout of the rows of a PostgreSQL table and of their changes, each once: inserts, updates and deletions.

    It reads the server's log of changes by logical replication: a slot of the server keeps the changes until their
    batches are committed. A batch is a range of the log, with whole transactions in the order of their commits. Its
    tuples are the fields of the table, then ``_change_type`` with the kind of change: write
    ``topology.newStream("orders", spout).asChanges()``. The driver reads the slot with psycopg. Needs PostgreSQL 12 or
    newer with ``wal_level = logical``, a publication of the table, ``REPLICA IDENTITY FULL`` (see `images`), and a user
    with the attribute ``REPLICATION``.

    Parameters
    ----------
    url : str
        ``postgresql://user@host:5432/database``, also as ``jdbc:postgresql://``, with parameters of libpq such as
        ``?sslmode=verify-full``. Or ``env:NAME`` or ``file:path``: then the environment variable or the file holds the
        url.
    table : str
        The table, ``"orders"`` or ``"shop.orders"``, spelled as in the database. A partitioned table is read as one
        table if the publication has ``publish_via_partition_root``.
    schema : str or StructType, optional
        The fields to read, by the names of their columns, with the types of `JdbcSpout`; ``string`` for the text of any
        type. Without `schema`, all columns are read, and the database is asked for their types when the topology is
        built.
    slot : str
        The name of the slot: lower-case letters, digits and ``_``. The first plan of a stream creates the slot. Each
        stream needs a slot of its own. A slot keeps the server's log until it is dropped: drop it when the stream is
        not needed any more, ``select pg_drop_replication_slot('name')``.
    publication : str
        The publication that has the table: ``CREATE PUBLICATION name FOR TABLE orders``.
    startingFrom : "rows" or "slot"
        The beginning of a new stream. "rows": the rows that the table has come first, as inserts in the order of the
        primary key, and then the changes that they do not show. "slot": only changes, from the position of the slot on.
    images : "full" or "key"
        The row before an update or a deletion. "full": the whole row, which needs ``REPLICA IDENTITY FULL``. "key": its
        key is enough, as the log has it by default. Then the last field is ``_exists``, true or, for a deletion, null:
        write ``.asUpserts("_exists").toTable("id")``, and aggregate ``changes()`` of that table.
    onTruncate : "fail" or "skip"
        The reaction to TRUNCATE, of which the log does not say which rows it removes. "fail": SourceChangedError stops
        the stream. "skip": the rows stay in the states.
    maxRowsPerBatch : int
        The tuples in a batch, where an update is two; more only if one transaction has more.
    maxRowsPerTransaction : int
        The most tuples in a transaction, which the driver holds in memory. A larger one stops the stream with
        SourceChangedError.
    maxFirstRows : int
        The most rows that a table without a primary key may have with ``startingFrom="rows"``. They are one batch,
        which the driver holds in memory.
    user, password : str, optional
        The user and password in place of those in `url`; each may be ``env:NAME`` or ``file:path``.
    retrySecs : duration
        How long an attempt repeats a request to an unreachable server before the attempt fails. (``maxAttempts`` limits
        the number of attempts.) It must be shorter than ``messageTimeoutSecs``.
    connectTimeout : duration
        How long until a server counts as unreachable; at least 2 seconds.

    Raises
    ------
    DataLossError
        The slot was dropped, given up by the server, or read by another program; or the table or its publication was
        recreated, or the server restored from an older copy.
    SourceChangedError
        The table was truncated, a column that is read was altered, or rows were changed without their former values.
    SourceUnreadableError
        The server cannot be reached, refuses the connection, or is not set up for the spout. The message says how.
    TypeDeclarationError
        A column has a type that no field holds exactly, or a type that differs from the declared one. The message names
        the column.
    MalformedInputError
        A value does not fit the declared type, or has no counterpart (``infinity``, ``NaN``).
    MissingPackageError
        The package psycopg is not installed.

    Examples
    --------
    >>> PostgresChangesSpout("env:SHOP_URL", "orders", "id long, price long", slot="shop", publication="orders")
    PostgresChangesSpout('env:SHOP_URL', 'orders', 'id bigint, price bigint', slot='shop', publication='orders')
    >>> _.schema.names
    ['id', 'price', '_change_type']
    """

    url: str
    table: str
    slot: str
    publication: str
    images: Images
    startingFrom: StartingFrom
    onTruncate: OnTruncate
    maxRowsPerBatch: int
    maxRowsPerTransaction: int
    maxFirstRows: int
    user: str | None
    password: str | None
    retrySecs: float
    connectTimeout: float
    _source: Source = field(compare=False)
    _declared: StructType | None = field(compare=False)
    _fields: StructType | None = field(compare=False)
    kind = SpoutKind.OPAQUE
    driverReads: ClassVar[bool] = True

    def __init__(
        self,
        url: str,
        table: str,
        schema: str | StructType | None = None,
        *,
        slot: str,
        publication: str,
        images: Images = "full",
        startingFrom: StartingFrom = "rows",
        onTruncate: OnTruncate = "fail",
        maxRowsPerBatch: int = 100_000,
        maxRowsPerTransaction: int = 5_000_000,
        maxFirstRows: int = 10_000_000,
        user: str | None = None,
        password: str | None = None,
        retrySecs: Duration = 15,
        connectTimeout: Duration = 5,
    ) -> None:
        try:
            check_postgres_url(url)
        except (TypeError, ValueError) as error:
            raise TopologyError(f"{OWNER}: {error}") from None
        check_texts(OWNER, _NEEDED, slot=slot, publication=publication, user=user, password=password)
        check_choice(f"{OWNER}: images", images, get_args(Images))
        check_choice(f"{OWNER}: startingFrom", startingFrom, get_args(StartingFrom))
        check_choice(f"{OWNER}: onTruncate", onTruncate, get_args(OnTruncate))
        check_whole_number(f"{OWNER}: maxRowsPerBatch", maxRowsPerBatch)
        check_whole_number(f"{OWNER}: maxRowsPerTransaction", maxRowsPerTransaction)
        check_whole_number(f"{OWNER}: maxFirstRows", maxFirstRows)
        declared = None if schema is None else read_schema(schema)
        if declared is not None:
            with_kind(declared, f"table {table}", images == "key")
        keep(
            self,
            url=url,
            table=table,
            slot=slot,
            publication=publication,
            _source=Source(f"table {table}", table_sql(table, OWNER), None, OWNER),
            _declared=declared,
            _fields=declared,
            images=images,
            startingFrom=startingFrom,
            onTruncate=onTruncate,
            maxRowsPerBatch=maxRowsPerBatch,
            maxRowsPerTransaction=maxRowsPerTransaction,
            maxFirstRows=maxFirstRows,
            user=user,
            password=password,
            retrySecs=read_seconds(f"{OWNER}: retrySecs", retrySecs, zero=True),
            connectTimeout=read_seconds(f"{OWNER}: connectTimeout", connectTimeout),
        )

    @property
    def schema(self) -> StructType:
        """The fields of the tuples. If they were not declared, the database is queried once.

        Raises TypeDeclarationError if no field holds the values of a column exactly, and SourceUnreadableError if the
        database cannot be read.
        """
        return with_kind(self._table_fields, self._source.name, self.images == "key")

    @property
    def _table_fields(self) -> StructType:
        known = self._fields
        if known is None:
            known = asked_fields(self._address, self.retrySecs, self._source)
            keep(self, _fields=known)
        return known

    @property
    def _address(self) -> Address:
        return Address(self.url, self.user, self.password, self.connectTimeout, OWNER)

    @property
    def holds(self) -> str:
        """The slot, whose position only one topology may move."""
        return f"the slot {self.slot!r}"

    def open(self) -> SpoutExecutor:
        """Return the executor of one run, which connects to the database when it first plans a batch."""
        return ChangesExecutor(self._described)

    @property
    def _described(self) -> ChangesSource:
        return ChangesSource(
            address=self._address,
            source=self._source,
            schema=self._table_fields,
            slot=self.slot,
            publication=self.publication,
            rows_first=self.startingFrom == "rows",
            keys_only=self.images == "key",
            skips_truncate=self.onTruncate == "skip",
            limit=self.maxRowsPerBatch,
            most_rows=self.maxRowsPerTransaction,
            most_first_rows=self.maxFirstRows,
            patience=self.retrySecs,
        )

    def examine(self, now: Now = time.time) -> Iterator[Finding]:
        """Yield the faults that `trident doctor` reports: a database out of reach, rights, settings.

        Parameters
        ----------
        now : callable
            The clock of this machine, in seconds since 1970.
        """

        def look(session: Session) -> None:
            look_at(session, self._described, opened(session, self._described))

        yield from examine_source(self._address, look, now, logical)

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the LSN up to which the changes were read, and the last key while first rows are unread."""
        plan = plan_of(position)
        read: dict[str, Metadata] = {"lsn": lsn_text(plan.to)}
        if plan.rows_left:
            read["first rows"] = dict(plan.shown[-1].upto or ())
        return read

    def __hash__(self) -> int:
        return hash((self.url, self.table, self.slot))

    def __repr__(self) -> str:
        return described(
            self,
            url=redacted(self.url),
            schema=self._declared,
            password=shown_password(self.password),
        )
