"""Programs that get a new state in the middle of their stream."""

from dataclasses import dataclass
from time import sleep
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from tests.faults.source import NumberedSpout
from trident import Count, Sum, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.spark_types import arrow_schema, parse_schema
from trident.state import MemoryMapState
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Metadata, SpoutExecutor, SpoutKind
from trident_spouts.rereadable_sources import End

TOTAL = 400


def numbered(most: int, kind: SpoutKind = SpoutKind.TRANSACTIONAL, batch: int = 12) -> NumberedSpout:
    """Return a spout of the first `most` of `TOTAL` records."""
    return NumberedSpout(TOTAL, kind, batch, most)


def program(spout: Any, new: Any = None, **more: Any) -> TridentTopology:
    """Count words; with `new`, a factory, also sum their numbers, from the beginning on."""
    topology = TridentTopology()
    words = topology.newStream("n", spout).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    if new is not None:
        words.persistentAggregate(new, "seq", Sum(), "sum", name="sums", **{"backfill": True, **more})
    return topology


@dataclass(frozen=True)
class TickingSpout:
    """A source that always has five rows more, with the keys 0 to 4."""

    kind: SpoutKind = SpoutKind.TRANSACTIONAL
    key: str = "key"

    @property
    def schema(self) -> StructType:
        return parse_schema(f"{self.key} long")

    def open(self) -> "_TickingExecutor":
        return _TickingExecutor(self)

    def why_not_again(self) -> str | None:
        return None

    def open_again(self, end: End) -> "_TickingExecutor":
        return _TickingExecutor(self, end)

    def amount_before(self, end: Metadata) -> str | None:
        return f"{_last(end)} rows"


class _TickingExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: TickingSpout, end: End | None = None) -> None:
        self._spout, self._end = spout, end

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        sleep(0.002)
        read = _last(previous)
        if self._end is None:
            return [read, read + 5]
        end = _last(self._end())
        return [read, min(end, read + 50)] if read < end else None

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> ArrowEmission:
        assert isinstance(metadata, list)
        keys = pa.array([number % 5 for number in range(*metadata)], pa.int64())
        return ArrowEmission(pa.table([keys], schema=arrow_schema(self._spout.schema)))


def _last(position: Metadata) -> int:
    return position[1] if isinstance(position, list) else 0
