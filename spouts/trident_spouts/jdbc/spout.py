"""JdbcSpout: a spout of the rows of a database table."""

import datetime
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, Literal, TypeAlias, get_args

from pyspark.sql.types import StructType

from trident.base.argument_checks import check_choice, check_whole_number
from trident.base.descriptions import Written, described, keep
from trident.base.durations import Duration, read_seconds
from trident.base.errors import TopologyError
from trident.base.finding import Finding, Now
from trident.base.redis_address import redacted, shown_url
from trident.base.secret_references import SOURCES
from trident.base.short_texts import brief, typed_brief
from trident_spouts.configurable import configurable
from trident_spouts.executor import Metadata, SpoutExecutor, SpoutKind
from trident_spouts.jdbc.address import SCHEMES, Address
from trident_spouts.jdbc.examination import examine_source
from trident_spouts.jdbc.executor import JdbcExecutor, plan_of
from trident_spouts.jdbc.losses import OnDataLoss
from trident_spouts.jdbc.options import asked_fields, check_texts, shown_password
from trident_spouts.jdbc.relation import Source, table_sql
from trident_spouts.jdbc.source import LATEST, JdbcSource, opened
from trident_spouts.rows import read_schema

Mode = Literal["incremental", "snapshot"]
Kind = Literal["transactional", "opaque"]
Value: TypeAlias = int | Decimal | datetime.datetime | datetime.date
StartingFrom: TypeAlias = Literal["earliest", "latest"] | Value


@configurable
@dataclass(frozen=True, init=False, repr=False)
class JdbcSpout:
    """A spout of the rows of a PostgreSQL table, view or query: rows as they are added, or the table as of one moment.

    The driver plans ranges of the column `orderBy` and logs them, each with the number of its rows and a digest of
    their versions; Spark's workers read the rows with psycopg, so no JDBC driver and no jar is needed. Each row is read
    once, even across restarts. Needs PostgreSQL 12 or newer, and its primary server.

    Parameters
    ----------
    url : str
        ``postgresql://user@host:5432/database``, also as ``jdbc:postgresql://``, with parameters of libpq such as
        ``?sslmode=verify-full``. Or ``env:NAME`` or ``file:path``: then the environment variable or the file holds the
        url, on the driver and on every worker.
    table : str, optional
        The table or view, ``"orders"`` or ``"shop.orders"``, spelled as in the database.
    schema : str or StructType, optional
        The fields to read, by the names of their columns. A type must hold every value of the column: the column's own
        type, a wider one, or ``string`` for its text. Without `schema`, all columns are read, and the database is asked
        for their types when the topology is built.
    orderBy : str
        The column whose values only grow: a number from a sequence, or a time with time zone from the clock. If the
        catalogue does not show that the column grows, it is refused without `isolationLag`. In the mode "snapshot", it
        may be any column by which the table can be divided, even a text column. It should have an index.
    query : str, optional
        In place of `table`: a SELECT.
    mode : "incremental" or "snapshot"
        "incremental" reads present rows and rows that are added, as soon as no transaction can add a row before them.
        "snapshot" reads the table as of the moment of the first plan, and then ends.
    kind : "transactional" or "opaque"
        The behaviour after a failed attempt: a transactional batch reads the same rows again, and fails if they have
        changed; an opaque batch is planned again from the present rows. Use "opaque" if rows are updated or deleted
        soon after they come.
    startingFrom : "earliest", "latest", or a value
        The beginning of a new stream: at the first row; after the last row of the first plan; or after a value of
        `orderBy`, an int, Decimal, date, or datetime (with a zone if the column has one).
    isolationLag : duration
        How long rows are held back, in addition to waiting for running transactions. 0 is exact for values that the
        database gives when a row is inserted (identity, serial, ``now()``). If programs choose the values, give the
        longest time between the choice of a value and the commit.
    onDataLoss : "fail" or "warn"
        The reaction if the table is not the table that was read: it was dropped and created again, or emptied and
        filled again, or its server was restored from an older copy. "fail": DataLossError stops the stream. "warn": a
        warning is logged, and reading continues after the rows that were read. A changed `query` is treated in the same
        way, with a TopologyError.
    maxRowsPerBatch : int
        The rows in a batch; more only if more rows have the same value of `orderBy`.
    numPartitions : int
        The number of ranges into which a full batch is divided, each read by one task. Ranges of fewer than 10,000 rows
        are not divided.
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
        The table is not the one that was read, or planned rows of a transactional batch have changed.
    SourceUnreadableError
        The server cannot be reached, refuses the connection, is a standby, or has no such table or column.
    TypeDeclarationError
        A column has a type that no field holds exactly, or a type that differs from the declared one. The message names
        the column.
    MalformedInputError
        A value does not fit the declared type, or has no counterpart (``infinity``, ``NaN``).
    MissingPackageError
        The package psycopg is not installed.

    Examples
    --------
    >>> JdbcSpout("postgresql://me:secret@localhost/shop", "orders", "id long, item string", orderBy="id")
    JdbcSpout('postgresql://me:***@localhost/shop', 'orders', 'id bigint, item string', orderBy='id')
    >>> JdbcSpout("env:SHOP_URL", "prices", "item string, price decimal(10,2)", orderBy="item", mode="snapshot").kind
    <SpoutKind.TRANSACTIONAL: 'transactional'>
    """

    url: str
    table: str | None
    query: str | None
    orderBy: str
    mode: Mode
    kind: SpoutKind
    forkable: ClassVar[bool] = True
    startingFrom: StartingFrom
    isolationLag: float
    onDataLoss: OnDataLoss
    maxRowsPerBatch: int
    numPartitions: int
    user: str | None
    password: str | None
    retrySecs: float
    connectTimeout: float
    _source: Source = field(compare=False)
    _declared: StructType | None = field(compare=False)
    _schema: StructType | None = field(compare=False)

    def __init__(
        self,
        url: str,
        table: str | None = None,
        schema: str | StructType | None = None,
        *,
        orderBy: str,
        query: str | None = None,
        mode: Mode = "incremental",
        kind: Kind = "transactional",
        startingFrom: StartingFrom = "earliest",
        isolationLag: Duration = 0,
        onDataLoss: OnDataLoss = "fail",
        maxRowsPerBatch: int = 200_000,
        numPartitions: int = 8,
        user: str | None = None,
        password: str | None = None,
        retrySecs: Duration = 15,
        connectTimeout: Duration = 5,
    ) -> None:
        _check_url(url)
        check_choice("JdbcSpout: mode", mode, get_args(Mode))
        check_choice("JdbcSpout: kind", kind, get_args(Kind))
        check_choice("JdbcSpout: onDataLoss", onDataLoss, get_args(OnDataLoss))
        check_whole_number("JdbcSpout: maxRowsPerBatch", maxRowsPerBatch)
        check_whole_number("JdbcSpout: numPartitions", numPartitions)
        check_texts("JdbcSpout", {"orderBy": "the name of a column"}, orderBy=orderBy, user=user, password=password)
        _check_starting(startingFrom, mode)
        declared = None if schema is None else read_schema(schema)
        keep(
            self,
            url=url,
            table=table,
            query=query,
            _source=_source(table, query),
            _declared=declared,
            _schema=declared,
            orderBy=orderBy,
            mode=mode,
            kind=SpoutKind(kind),
            startingFrom=startingFrom,
            isolationLag=read_seconds("JdbcSpout: isolationLag", isolationLag, zero=True),
            onDataLoss=onDataLoss,
            maxRowsPerBatch=maxRowsPerBatch,
            numPartitions=numPartitions,
            user=user,
            password=password,
            retrySecs=read_seconds("JdbcSpout: retrySecs", retrySecs, zero=True),
            connectTimeout=read_seconds("JdbcSpout: connectTimeout", connectTimeout),
        )

    @property
    def schema(self) -> StructType:
        """The fields of the tuples. If they were not declared, the database is queried once.

        Raises TypeDeclarationError if no field holds the values of a column exactly, and SourceUnreadableError if the
        database cannot be read.
        """
        known = self._schema
        if known is None:
            known = asked_fields(self._address, self.retrySecs, self._source)
            keep(self, _schema=known)
        return known

    @property
    def _address(self) -> Address:
        return Address(self.url, self.user, self.password, self.connectTimeout)

    def open(self) -> SpoutExecutor:
        """Return the executor of one run, which connects to the database when it first plans a batch."""
        return JdbcExecutor(self._described)

    @property
    def _described(self) -> JdbcSource:
        starting = {"earliest": None, "latest": LATEST}.get(str(self.startingFrom), str(self.startingFrom))
        return JdbcSource(
            address=self._address,
            source=self._source,
            schema=self.schema,
            order=self.orderBy,
            snapshot=self.mode == "snapshot",
            opaque=self.kind is SpoutKind.OPAQUE,
            starting=starting,
            lag=self.isolationLag,
            on_data_loss=self.onDataLoss,
            limit=self.maxRowsPerBatch,
            partitions=self.numPartitions,
            patience=self.retrySecs,
        )

    def examine(self, now: Now = time.time) -> Iterator[Finding]:
        """Yield the faults that `trident doctor` reports: a database out of reach, rights, a table that cannot be read.

        Parameters
        ----------
        now : callable
            The clock of this machine, in seconds since 1970.
        """
        yield from examine_source(self._address, lambda session: opened(session, self._described), now)

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the last value of the order column that was read, as the database writes it.

        In the mode "snapshot" also the number of rows that were read.
        """
        plan, order = plan_of(position)
        return {order: plan.to} if plan.left is None else {order: plan.to, "rows": plan.read}

    def __hash__(self) -> int:
        return hash((self.url, self.table, self.query, self.orderBy))

    def __repr__(self) -> str:
        return described(
            self,
            url=redacted(self.url),
            schema=self._declared,
            query=None if self.query is None else Written(brief(self.query)),
            password=shown_password(self.password),
        )


def _check_url(url: object) -> None:
    if isinstance(url, str) and url.startswith((*SCHEMES, *SOURCES)) and url not in SOURCES:
        return
    raise TopologyError(
        f"JdbcSpout: url={shown_url(url)}: expected postgresql://user@host:5432/database, or env:NAME or file:path "
        f"that contains it. Other databases are not supported yet: use PollingSpout, or write a spout"
    )


def _check_starting(starting: object, mode: str) -> None:
    is_value = isinstance(starting, get_args(Value)) and not isinstance(starting, bool)
    if starting not in ("earliest", "latest") and not is_value:
        raise TopologyError(
            f"JdbcSpout: startingFrom={typed_brief(starting)}: expected 'earliest', 'latest', or the value of "
            f"orderBy after which to start: an int, Decimal, date or datetime"
        )
    if mode == "snapshot" and starting != "earliest":
        raise TopologyError(
            f"JdbcSpout: startingFrom={brief(starting)} needs mode='incremental': a snapshot is the whole table. "
            f"For a part of the table use query="
        )


def _source(table: object, query: object) -> Source:
    if (table is None) == (query is None):
        raise TopologyError(
            "JdbcSpout: expected either a table, JdbcSpout(url, 'orders', orderBy='id'), or query='select ...'"
        )
    if query is None:
        return Source(f"table {table}", table_sql(table), None)
    if not isinstance(query, str) or not query.strip():
        raise TopologyError(f"JdbcSpout: query={typed_brief(query)}: expected the text of a SELECT")
    return Source("the query", None, query.strip().rstrip(";"))
