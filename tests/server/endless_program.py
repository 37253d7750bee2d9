"""A topology whose answers show whether they are right: each batch adds 1 to every word, so each count is the txid.

``python -m tests.server.endless_program FOLDER`` is its driver, until it is killed. ENDLESS_REDIS names a server for
the state, otherwise it is in memory. The driver notes in FOLDER/heard when it heard of each committed batch.
"""

import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import StructType

from trident import Count, MapGet, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.spark_types import arrow_schema, parse_schema
from trident.state import MemoryMapState, RedisMapState
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Metadata, SpoutKind

WORDS = [f"w{n}" for n in range(40)]
SCHEMA = parse_schema("word string")


@dataclass(frozen=True)
class EndlessSpout:
    """Every word, batch after batch. One attempt of ten fails, so that its batch is replayed."""

    heard: Path
    kind: SpoutKind = SpoutKind.TRANSACTIONAL

    @property
    def schema(self) -> StructType:
        return SCHEMA

    def open(self) -> "EndlessExecutor":
        return EndlessExecutor(self.heard)


class EndlessExecutor:
    plans_ahead = True

    def __init__(self, heard: Path) -> None:
        self._heard, self._random = heard, random.Random(os.urandom(8))
        self._emitted: set[int] = set()

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        return attempt.txid

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> ArrowEmission:
        if self._random.random() < 0.1:
            raise OSError("this attempt fails, for a test")
        self._emitted.add(attempt.txid)
        return ArrowEmission(pa.table([WORDS], schema=arrow_schema(SCHEMA)))

    def success(self, txid: int, metadata: Metadata) -> None:
        if txid not in self._emitted:  # a former driver's batch: it was committed long before this one hears of it
            return
        with self._heard.open("a") as file:
            file.write(f"{txid} {time.time()}\n")

    def fail(self, attempt: TransactionAttempt) -> None: ...

    def close(self) -> None: ...


def topology_in(folder: Path) -> TridentTopology:
    """Return the topology; its driver writes into `folder`."""
    topology, url = TridentTopology(), os.environ.get("ENDLESS_REDIS")
    words = topology.newStream("words", EndlessSpout(folder / "heard"))
    factory = RedisMapState.opaque(url) if url else MemoryMapState.opaque()
    counts = words.groupBy("word").persistentAggregate(factory, Count(), "count", name="counts")
    asked = topology.newDRPCStream("counts", "words string").flatMap(
        "words", lambda words: words.split(), "word string"
    )
    asked.stateQuery(counts, "word", MapGet(), "count")
    return topology


def topology() -> TridentTopology:
    """Return the topology for ``trident serve``, which reads no source."""
    return topology_in(Path())


def main() -> None:
    folder = Path(sys.argv[1])
    running = topology_in(folder).start(
        engine="embedded", name="endless", checkpointLocation=folder / "checkpoint", maxAttempts=20
    )
    running.awaitTermination()


if __name__ == "__main__":
    main()
