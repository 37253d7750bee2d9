"""A spout that generates rows at a given rate, for load tests and demonstrations."""

import functools
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import StructType

from trident.base.argument_checks import check_whole_number
from trident.base.attempt import TransactionAttempt
from trident.base.descriptions import described, keep
from trident.base.durations import Duration, read_seconds
from trident.base.errors import TopologyError
from trident.base.short_texts import typed_brief
from trident.base.spark_types import parse_schema
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.configurable import configurable
from trident_spouts.executor import Emission, Metadata, ReadSoFar, SpoutExecutor, SpoutKind
from trident_spouts.rereadable_sources import End
from trident_spouts.shared_reading import SharesEmission
from trident_spouts.source_times import SourceSpan
from trident_spouts.user_calls import foreign_metadata_error

_SECOND = 1_000_000
"""A second in microseconds, the unit in which times are counted."""

_SHARE_ROWS = 250_000
"""The number of rows for each Spark task, unless the user sets the number of partitions."""

_MOST_KEYS = 10_000_000
"""The most keys. Each worker holds 8 bytes for every key if the keys are skewed."""


@configurable
@dataclass(frozen=True, init=False, repr=False)
class RateSpout:
    """A spout that generates `rowsPerSecond` rows a second, with keys and event times, for load tests and demos.

    The fields are ``timestamp timestamp, value long, key long``. `value` is the number of the row, from 0 without gaps.
    Row n comes n / rowsPerSecond seconds after the start.

    The spout is transactional: the metadata of a batch is a range of row numbers, and every field is a function of the
    row number, the seed and the time of the start, which the metadata holds too. So a replay has the same rows, even
    after a restart. After a pause, or if it is too slow, a run gets all rows that have come meanwhile. The workers
    generate the rows.

    Parameters
    ----------
    rowsPerSecond : int
        The rate at which rows come.
    rows : int, optional
        The number of rows after which the source ends; if omitted, it does not end.
    keys : int
        The number of keys: `key` is 0 to keys - 1.
    skew : float
        How unequal the keys are, as the exponent of a Zipf distribution: key k comes in proportion to
        ``1 / (k + 1) ** skew``. With 0 all keys are equally frequent, with 1 the first of 1,000 keys has 13 % of the
        rows.
    lateness : duration
        The longest delay of a row: its `timestamp` is up to that long before the time at which it comes, uniformly
        distributed. Rows are then out of order.
    startTime : datetime, optional
        The time at which row 0 comes, with a time zone; the time of the first batch if omitted. With a time in the
        past, the rows since then are available at once, and are read as fast as the topology can.
    maxRowsPerBatch : int
        The most rows in a batch.
    numPartitions : int, optional
        The number of Spark partitions of a batch; one for each 250,000 rows if omitted.
    seed : int
        Decides the keys and the delays of rows. The same seed gives the same keys and delays.

    Raises
    ------
    TopologyError
        An argument is out of its range.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> from trident import Count, TridentTopology
    >>> from trident.state import MemoryMapState
    >>> from trident.testing import start_local
    >>> topology = TridentTopology()
    >>> spout = RateSpout(100, rows=5000, keys=3, startTime=datetime(2026, 1, 1, tzinfo=UTC))
    >>> clicks = topology.newStream("clicks", spout)
    >>> _ = clicks.groupBy("key").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> with start_local(topology) as running:
    ...     running.processAllAvailable()
    ...     sum(running.state("counts").values())
    5000

    Notes
    -----
    RateSpout takes the place of Structured Streaming's source ``rate``, which has `timestamp` and `value`, too.
    """

    rowsPerSecond: int
    rows: int | None
    keys: int
    skew: float
    lateness: float
    startTime: datetime | None
    maxRowsPerBatch: int
    numPartitions: int | None
    seed: int
    kind = SpoutKind.TRANSACTIONAL

    def __init__(
        self,
        rowsPerSecond: int = 1000,
        *,
        rows: int | None = None,
        keys: int = 1000,
        skew: float = 0.0,
        lateness: Duration = 0,
        startTime: datetime | None = None,
        maxRowsPerBatch: int = 1_000_000,
        numPartitions: int | None = None,
        seed: int = 0,
    ) -> None:
        check_whole_number("RateSpout: keys", keys, most=_MOST_KEYS)
        check_whole_number("RateSpout: rowsPerSecond", rowsPerSecond, most=1_000_000_000)
        numbers = {"rows": rows, "maxRowsPerBatch": maxRowsPerBatch, "numPartitions": numPartitions}
        for name, value in numbers.items():
            if value is not None:
                check_whole_number(f"RateSpout: {name}", value)
        if isinstance(skew, bool) or not isinstance(skew, int | float) or not 0 <= skew <= 10:
            raise TopologyError(f"RateSpout: skew={skew!r}: expected a number from 0 (all keys alike) to 10")
        check_whole_number("RateSpout: seed", seed, 0)
        keep(
            self,
            rowsPerSecond=rowsPerSecond,
            rows=rows,
            keys=keys,
            maxRowsPerBatch=maxRowsPerBatch,
            numPartitions=numPartitions,
            skew=float(skew),
            lateness=read_seconds("RateSpout: lateness", lateness, zero=True),
            startTime=_zoned(startTime),
            seed=seed,
        )

    @property
    def schema(self) -> StructType:
        """The fields of the rows."""
        return parse_schema("timestamp timestamp, value long, key long")

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        return _RateExecutor(self)

    def why_not_again(self) -> str | None:
        """Return None, because every row can be generated again."""
        return None

    def open_again(self, end: End) -> SpoutExecutor:
        """Return the executor of a run that makes the rows before a position again."""
        return _RateExecutor(self, end)

    def amount_before(self, end: Metadata) -> str | None:
        """Return the number of rows before a position, in words."""
        return f"{_RateExecutor.bounds(end)[2]:,} rows"

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the number of rows that were made."""
        return {"rows": _RateExecutor.bounds(position)[2]}

    __repr__ = described


def _zoned(start: datetime | None) -> datetime | None:
    if start is not None and (not isinstance(start, datetime) or start.tzinfo is None):
        raise TopologyError(
            f"RateSpout: startTime is {typed_brief(start)}: expected a datetime with a time zone, "
            f"such as datetime(2026, 1, 31, tzinfo=UTC)"
        )
    return start


class _RateExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: RateSpout, end: End | None = None) -> None:
        self._spout = spout
        self._end = end
        self._come = 0
        """The number of rows that were due when the last batch was planned."""

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        start, done = (self._start(time), 0) if previous is None else self.bounds(previous)[::2]
        self._come = self._rows_at(start, round(time * _SECOND))
        if self._end is not None:  # the rows that were due, even by a clock that was ahead
            until = self._end()
            start, _, self._come = (start, 0, 0) if until is None else self.bounds(until)
        end = min(self._come, done + budget.rows_within(self._spout.maxRowsPerBatch))
        return {"start": start, "from": done, "to": end} if end > done else None

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        start, first, end = self.bounds(metadata)
        count = self._spout.numPartitions or -(-(end - first) // _SHARE_ROWS)
        bounds = [first + (end - first) * at // count for at in range(count + 1)]
        shares = tuple((low, high) for low, high in zip(bounds, bounds[1:], strict=False) if high > low)
        read = functools.partial(_made, self._spout, start)
        due = [(start + row * _SECOND // self._spout.rowsPerSecond) / _SECOND for row in (first, end - 1)]
        times = [SourceSpan(due[0], due[1], end - first)]
        where = f"RateSpout, batch {attempt.txid}"
        return SharesEmission(shares, read, self._spout.schema, end - first, where, verified=True, source_times=times)

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        if not self._come:
            return None
        return ReadSoFar(0 if position is None else self.bounds(position)[2], self._come, "rows")

    def _start(self, time: float) -> int:
        """Return the time of row 0, in microseconds since 1970."""
        start = self._spout.startTime
        return round((time if start is None else start.timestamp()) * _SECOND)

    def _rows_at(self, start: int, now: int) -> int:
        """Return how many rows are due by the time `now`. Row 0 is due at `start`."""
        come = max(0, (now - start) * self._spout.rowsPerSecond // _SECOND + 1)
        return come if self._spout.rows is None else min(come, self._spout.rows)

    @staticmethod
    def bounds(metadata: Metadata) -> tuple[int, int, int]:
        """Return the time of row 0 (microseconds since 1970) and the range of row numbers that `metadata` names."""
        try:
            return metadata["start"], metadata["from"], metadata["to"]  # type: ignore[index, call-overload, return-value]
        except (KeyError, TypeError):
            raise foreign_metadata_error("RateSpout", metadata) from None


# --- in the workers ---------------------------------------------------------------------------------------------------


def _made(spout: RateSpout, start: int, share: tuple[int, int]) -> pa.Table:
    """Return the rows with numbers in a share."""
    numbers = numpy.arange(*share, dtype=numpy.int64)
    whole, rest = numpy.divmod(numbers, spout.rowsPerSecond)
    times = start + whole * _SECOND + rest * _SECOND // spout.rowsPerSecond
    if spout.lateness:
        times -= (_uniform(numbers, spout.seed, 1) * (spout.lateness * _SECOND)).astype(numpy.int64)
    instants = pa.array(times).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"timestamp": instants, "value": numbers, "key": _keys(spout, numbers)})


def _keys(spout: RateSpout, numbers: NDArray[Any]) -> NDArray[Any]:
    draws = _uniform(numbers, spout.seed, 0)
    if not spout.skew:
        return (draws * spout.keys).astype(numpy.int64)
    return numpy.searchsorted(_zipf(spout.keys, spout.skew), draws, side="right").astype(numpy.int64)


@functools.lru_cache(maxsize=4)
def _zipf(keys: int, skew: float) -> NDArray[Any]:
    """Return for each key the probability that a row has this key or a smaller key."""
    weights = numpy.arange(1, keys + 1, dtype=numpy.float64) ** -skew
    sums = numpy.cumsum(weights)
    sums /= sums[-1]
    sums[-1] = 1.0
    return sums


def _uniform(numbers: NDArray[Any], seed: int, purpose: int) -> NDArray[Any]:
    """Return for each row number a number in [0, 1) that depends only on the row number, the seed and the purpose.

    This is SplitMix64: its n-th number is a hash of n. A generator with a state would have to generate all earlier
    numbers first.
    """
    with numpy.errstate(over="ignore"):
        mixed = numbers.astype(numpy.uint64) + numpy.uint64((seed * 2 + purpose) * 0xD1B54A32D192ED03 % 2**64)
        mixed = (mixed + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> numpy.uint64(31)
    return (mixed >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53
