"""RedisStreamSpout: a spout of the entries of Redis Streams."""

import datetime
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from pyspark.sql.types import StructType

from trident.base.argument_checks import check_whole_number
from trident.base.attempt import TransactionAttempt
from trident.base.descriptions import described, keep
from trident.base.durations import Duration, read_seconds
from trident.base.errors import TopologyError, TridentError, TypeDeclarationError
from trident.base.finding import Finding, Now
from trident.base.reachability import SECONDS
from trident.base.redis_address import Address, check_url, redacted
from trident.base.short_texts import brief
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.configurable import configurable
from trident_spouts.executor import Emission, Metadata, ReadSoFar, SpoutExecutor, SpoutKind
from trident_spouts.files.value_conversion import Numbers, ValueReader
from trident_spouts.files.value_options import check_flat, check_values
from trident_spouts.redis_streams.entries import EntryFormat
from trident_spouts.redis_streams.ids import ZERO, before, order, read_id
from trident_spouts.redis_streams.pages import Page, PageReader, shares_of
from trident_spouts.redis_streams.planner import LATEST, UNNAMED, OnDataLoss, Planner
from trident_spouts.redis_streams.positions import Position
from trident_spouts.redis_streams.server import COMMANDS, StreamServers
from trident_spouts.rows import read_schema
from trident_spouts.shared_reading import SharesEmission
from trident_spouts.source_times import SourceSpan
from trident_spouts.user_calls import foreign_metadata_error

Kind = Literal["transactional", "opaque"]
Start: TypeAlias = str | datetime.datetime
"""The start of a stream: "earliest", "latest", the id before the first entry, or a time."""


@configurable
@dataclass(frozen=True, init=False, repr=False)
class RedisStreamSpout:
    """A spout of the entries of one or more Redis Streams, including entries that are added while the topology runs.

    The driver plans ranges of ids and logs them, with the number of their entries and a digest of the last entry;
    Spark's workers read the entries. Each entry is read once, even across restarts. Needs Redis 7.0 or newer, or
    Valkey.

    Parameters
    ----------
    url : str
        ``redis://[user:password@]host:port/db``, ``rediss://`` for TLS, ``unix://`` for a socket; for a cluster any of
        its servers, or several, separated by commas. Or ``env:NAME`` or ``file:path``: then the environment variable or
        the file holds the url, on the driver and on every worker.
    streams : str or sequence of str
        The keys of the streams. The entries of each are read in the order of their ids; a batch takes entries of all
        streams in turn. A stream need not exist yet.
    schema : str or StructType, optional
        The fields of entries, with their types. A field that an entry lacks is null. Values are read like those of CSV:
        numbers in decimal, dates and times in ISO 8601, an empty value as null in a field that is not a string;
        `binary` has the bytes unchanged. If an entry has a field twice, the last value counts. Without `schema`, a
        tuple is ``id string, stream string, fields map<string,string>``.
    kind : "transactional" or "opaque"
        The plan after a failed attempt: a transactional batch reads the same entries again, and fails if they are gone;
        an opaque batch is planned again from the present entries.
    startingIds : str, datetime, or mapping from stream to these
        The beginning of a new stream: "earliest"; "latest", only entries that are added from now on; an id, only
        entries after it (as XREAD); a datetime with a zone, entries from this time on. A mapping has a start
        for each stream; otherwise the first plan is refused. The first batch, which may be empty, records the start in
        the log.
    onDataLoss : "fail" or "warn"
        The reaction if entries were lost before they were read: trimmed or deleted (XTRIM, XDEL, DEL), or rolled back
        on the server. "fail": DataLossError stops the stream. "warn": a warning is logged, and reading continues.
    maxEntriesPerBatch, maxBytesPerBatch : int
        The most entries in a batch, and the number of bytes at which it ends.
    idField, streamField, timeField, othersField : str, optional
        The names of further fields: the entry's id (string), the key of its stream (string), the milliseconds of its id
        as a time (timestamp), and its fields that are not declared (map<string,string>).
    numbers : "strict" or "lenient"
        With "lenient", whole numbers may be written as ``517.0``. A fraction is never dropped.
    timeZone : str, optional
        The zone of times that name no zone, for fields of type ``timestamp``; without it, times must name their zone.
    retrySecs : duration
        How long an attempt repeats a request to an unreachable server before the attempt fails. (``maxAttempts`` limits
        the number of attempts.) It must be shorter than ``messageTimeoutSecs``.
    connectTimeout, socketTimeout : duration
        How long until a server counts as unreachable.

    Raises
    ------
    DataLossError
        Entries were lost before they were read, or, for a transactional batch, before they were read again.
    SourceUnreadableError
        The server cannot be reached, refuses the connection, is a replica, or has another type under a stream's key.
    MalformedInputError
        A value is not of its declared type. The message names stream, entry and field.

    Examples
    --------
    >>> RedisStreamSpout("redis://:secret@localhost:6379/0", "orders", "customer string, amount decimal(10,2)")
    RedisStreamSpout('redis://:***@localhost:6379/0', 'orders', 'customer string, amount decimal(10,2)')
    >>> RedisStreamSpout("env:REDIS_URL", ["eu", "us"], startingIds={"eu": "latest", "us": "earliest"}).schema.names
    ['id', 'stream', 'fields']
    """

    url: str
    streams: tuple[str, ...]
    kind: SpoutKind
    forkable: ClassVar[bool] = True
    starts: tuple[str, ...]
    onDataLoss: OnDataLoss
    maxEntriesPerBatch: int
    maxBytesPerBatch: int
    form: EntryFormat
    numbers: Numbers
    timeZone: str | None
    retrySecs: float
    connectTimeout: float
    socketTimeout: float

    def __init__(
        self,
        url: str,
        streams: str | Sequence[str],
        schema: str | StructType | None = None,
        *,
        kind: Kind = "transactional",
        startingIds: Start | Mapping[str, Start] = "earliest",
        onDataLoss: OnDataLoss = "fail",
        maxEntriesPerBatch: int = 100_000,
        maxBytesPerBatch: int = 64 << 20,
        idField: str | None = None,
        streamField: str | None = None,
        timeField: str | None = None,
        othersField: str | None = None,
        numbers: Numbers = "strict",
        timeZone: str | None = None,
        retrySecs: Duration = 15,
        connectTimeout: Duration = 5,
        socketTimeout: Duration = 10,
    ) -> None:
        _check_url(url)
        names = _names(streams)
        for name, value, choices in (("kind", kind, Kind), ("onDataLoss", onDataLoss, OnDataLoss)):
            if value not in get_args(choices):
                shown = " or ".join(map(repr, get_args(choices)))
                raise TopologyError(f"RedisStreamSpout: {name}={brief(value)}: expected {shown}")
        check_whole_number("RedisStreamSpout: maxEntriesPerBatch", maxEntriesPerBatch)
        check_whole_number("RedisStreamSpout: maxBytesPerBatch", maxBytesPerBatch)
        check_values("RedisStreamSpout", numbers, timeZone)
        extra = (idField, streamField, timeField, othersField)
        keep(
            self,
            url=url,
            streams=names,
            kind=SpoutKind(kind),
            starts=_starts(startingIds, names),
            onDataLoss=onDataLoss,
            maxEntriesPerBatch=maxEntriesPerBatch,
            maxBytesPerBatch=maxBytesPerBatch,
            form=_format(schema, extra, ValueReader(numbers == "lenient", timeZone)),
            numbers=numbers,
            timeZone=timeZone,
            retrySecs=read_seconds("RedisStreamSpout: retrySecs", retrySecs, zero=True),
            connectTimeout=read_seconds("RedisStreamSpout: connectTimeout", connectTimeout),
            socketTimeout=read_seconds("RedisStreamSpout: socketTimeout", socketTimeout),
        )

    @property
    def schema(self) -> StructType:
        """Return the fields of the tuples."""
        return self.form.schema

    def open(self) -> SpoutExecutor:
        """Return the executor of one run, which connects to the server when it first plans a batch."""
        return _StreamExecutor(self)

    def examine(self, now: Now = time.time) -> Iterator[Finding]:
        """Yield the faults that `trident doctor` reports: servers out of reach, a refused login, rights, the version.

        Parameters
        ----------
        now : callable
            The clock of this machine, in seconds since 1970.
        """
        about = f"RedisStreamSpout at {redacted(self.url)}"
        address = Address(self.url, min(SECONDS, self.connectTimeout), self.socketTimeout)
        # A stream that has begun may have no start option, and the doctor does not know whether this one has begun.
        starts = {at: ZERO if start == UNNAMED else start for at, start in zip(self.streams, self.starts, strict=True)}
        with closing(StreamServers(address, 0.0)) as servers:
            try:
                Planner(servers, starts, self.onDataLoss, 1, self.maxBytesPerBatch).next({}, 1)
            except TridentError as error:
                todo = "Start the server, correct host, user and password of the url, or give the user the rights that "
                todo += f"the message names ({COMMANDS})"
                yield Finding(about, str(error), "batches cannot be planned: the topology waits, then stops", todo)

    def parts_read(self, position: Metadata) -> Collection[str]:
        """Return the streams of Redis from which the batches up to a position took entries."""
        positions = {} if position is None else _positions(position)
        return [stream for stream, at in positions.items() if at.digest is not None]

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the id of the last entry that was read, by stream."""
        return {stream: at.id for stream, at in _positions(position).items()}

    def reads_part(self, part: str) -> bool:
        """Return whether this spout reads a stream of this name."""
        return part in self.streams

    def __repr__(self) -> str:
        starts = {stream: start for stream, start in zip(self.streams, self.starts, strict=True) if start != UNNAMED}
        declared = self.form.declared if self.form.declared.fields else None
        extra = {f"{name}Field": getattr(self.form, name) for name in ("id", "stream", "time", "others")}
        return described(
            self,
            url=redacted(self.url),
            streams=self.streams[0] if len(self.streams) == 1 else list(self.streams),
            schema=declared,
            startingIds="earliest" if set(self.starts) == {ZERO} else starts,
            **(extra if declared is not None else dict.fromkeys(extra)),
        )


def _check_url(url: object) -> None:
    try:
        check_url(url)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise TopologyError(f"RedisStreamSpout: {error}") from None


def _names(streams: object) -> tuple[str, ...]:
    names = (streams,) if isinstance(streams, str) else tuple(streams) if isinstance(streams, Sequence) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise TopologyError(f"RedisStreamSpout: streams={brief(streams)}: expected the key of a stream, or several")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TopologyError(f"RedisStreamSpout: the stream {twice!r} is given twice")
    return names


def _starts(given: object, streams: tuple[str, ...]) -> tuple[str, ...]:
    """Return the id after which each stream begins, or `LATEST`; `UNNAMED` if a mapping leaves the stream out."""
    if not isinstance(given, Mapping):
        return (_start(given, "startingIds"),) * len(streams)
    for stream in given:
        if stream not in streams:
            raise TopologyError(
                f"RedisStreamSpout: startingIds names {stream!r}; the streams are {', '.join(map(repr, streams))}"
            )
    return tuple(
        _start(given[stream], f"startingIds[{stream!r}]") if stream in given else UNNAMED for stream in streams
    )


def _start(given: object, name: str) -> str:
    if given == "earliest":
        return ZERO
    if given == LATEST:
        return LATEST
    if isinstance(given, datetime.datetime) and given.tzinfo is not None:
        return before(given)
    entry_id = read_id(given) if isinstance(given, str) else None
    if entry_id is None:
        raise TopologyError(
            f"RedisStreamSpout: {name}={brief(given)}: expected 'earliest', 'latest', an id such as '1526985054069-0' "
            f"after which to begin, or a datetime with a time zone"
        )
    return entry_id


def _format(
    schema: str | StructType | None, extra: tuple[str | None, str | None, str | None, str | None], values: ValueReader
) -> EntryFormat:
    entry_id, stream, time, others = extra
    if schema is None:
        return EntryFormat(StructType([]), entry_id or "id", stream or "stream", time, others or "fields", values)
    declared = read_schema(schema)
    check_flat("RedisStreamSpout: an entry", declared)
    form = EntryFormat(declared, entry_id, stream, time, others, values)
    if not form.schema.fields:
        raise TypeDeclarationError("RedisStreamSpout: its tuples have no fields; give schema='word string, n long'")
    return form


class _StreamExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: RedisStreamSpout) -> None:
        self._spout = spout
        self._address = Address(spout.url, spout.connectTimeout, spout.socketTimeout)
        self._servers = StreamServers(self._address, spout.retrySecs)
        starts = dict(zip(spout.streams, spout.starts, strict=True))
        self._planner = Planner(
            self._servers, starts, spout.onDataLoss, spout.maxEntriesPerBatch, spout.maxBytesPerBatch
        )

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        plan = self._planner.next({} if previous is None else _positions(previous), attempt.txid, budget)
        return None if plan is None else {"pages": plan.pages, "positions": plan.positions}

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        spout, pages = self._spout, _pages(metadata)
        read = PageReader(self._address, spout.form, spout.retrySecs, spout.kind is SpoutKind.OPAQUE)
        rows = sum(page.entries for page in pages)
        where = f"RedisStreamSpout, batch {attempt.txid}"
        times = [span for page in pages for span in SourceSpan.at(order(page.to)[0] / 1000, page.entries)]
        return SharesEmission(shares_of(pages), read, spout.schema, rows, where, verified=True, source_times=times)

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        positions = {} if position is None else _positions(position)
        done = {stream: positions[stream].added if stream in positions else 0 for stream in self._spout.streams}
        total = dict(self._planner.added)  # a copy, because another thread plans
        if None in done.values() or len(total) < len(done):
            return None
        lags = {stream: max(0, total[stream] - (read or 0)) for stream, read in done.items()}
        return ReadSoFar(sum(filter(None, done.values())), sum(total.values()), "entries", lags)

    def close(self) -> None:
        self._servers.close()


def _positions(metadata: Metadata) -> dict[str, Position]:
    try:
        stored: Any = metadata["positions"]  # type: ignore[index, call-overload]
        return {stream: Position(*position) for stream, position in stored.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise foreign_metadata_error("RedisStreamSpout", metadata) from error


def _pages(metadata: Metadata) -> list[Page]:
    try:
        stored: Any = metadata["pages"]  # type: ignore[index, call-overload]
        return [Page(*page) for page in stored]
    except (KeyError, TypeError) as error:
        raise foreign_metadata_error("RedisStreamSpout", metadata) from error
