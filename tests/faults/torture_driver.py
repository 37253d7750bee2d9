"""The driver that `torture` kills: an endless count on real Spark into two states in Redis and one in memory.

It reads numbers that a spout makes up, a topic of Kafka, or Redis Streams.

The three states hold the same sums, by different ways, so that any read over them at one txid must find them equal; a
thread reads all the time. One line of JSON after the other tells what goes on.

Usage: python -m tests.faults.torture_driver FOLDER URL SOURCE, with SOURCE from `torture_sources.described`. It ends
when FOLDER/stop is there and everything is committed.
"""

import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from tests.faults.smallest_topology import mark
from tests.support.spark import small_spark
from trident import Stream, Sum, TridentTopology, expr
from trident.base.attempt import TransactionAttempt
from trident.base.errors import SnapshotMovedError, StateRecoveringError, StateUnavailableError, TridentError
from trident.base.spark_types import arrow_schema, parse_schema
from trident.reads.committed_reads import read_committed
from trident.run.running import RunningTopology
from trident.spouts import KafkaSpout, RedisStreamSpout
from trident.state import MemoryMapState, RedisMapState
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Metadata, SpoutKind

NAME = "torture"
PARTITIONS = 3
MOST = 40
"""Tuples of a partition in one batch, at most."""
WORDS = [f"{letter}{number}" for letter in "abcdefgh" for number in range(25)]
STATES = ("merged", "combined", "local")
LOOSE = "loose"
"""A non-transactional state: it may count twice, and must not lose."""
TOPIC = "numbers"
STREAMS = ("numbers0", "numbers1", "numbers2")
PASSING = (StateUnavailableError, StateRecoveringError, SnapshotMovedError)
"""What a read may say while a server is away or being healed."""


def record(partition: int, n: int) -> tuple[str, int]:
    """(word, seq): the n-th of a partition; a seq is there once."""
    return WORDS[(n * 7919 + partition * 104_729 + n * n) % len(WORDS)], PARTITIONS * n + partition


def expected(ends: list[int]) -> dict[str, int]:
    """The sums over all records before these positions."""
    sums: dict[str, int] = {}
    for partition, end in enumerate(ends):
        for n in range(end):
            word, seq = record(partition, n)
            sums[word] = sums.get(word, 0) + mark(seq)
    return sums


class Added:
    """A sum that only Python knows how to make."""

    outputType = "long"

    def init(self, tuple: Any) -> int:
        return int(tuple[0])

    def combine(self, a: int, b: int) -> int:
        return a + b

    def zero(self) -> int:
        return 0


@dataclass(frozen=True)
class EndlessSpout:
    """Opaque: every attempt takes another extent of every partition, in another order, until `stop` is there."""

    stop: Path
    kind: SpoutKind = SpoutKind.OPAQUE

    @property
    def schema(self) -> StructType:
        return parse_schema("word string, seq long")

    def open(self) -> "EndlessExecutor":
        return EndlessExecutor(self)


class EndlessExecutor:
    plans_ahead = True

    def __init__(self, spout: EndlessSpout) -> None:
        self._stop = spout.stop
        self._schema = arrow_schema(spout.schema)
        self._random = random.Random(os.urandom(8))

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        if self._stop.exists():
            return None
        starts = previous["ends"] if isinstance(previous, dict) else [0] * PARTITIONS
        takes = [self._random.choice([0, 1, MOST, self._random.randint(1, MOST)]) for _ in starts]
        return {"starts": starts, "ends": [a + b for a, b in zip(starts, [*takes[:-1], takes[-1] + 1], strict=True)]}

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> ArrowEmission:
        assert isinstance(metadata, dict)
        extents = zip(range(PARTITIONS), metadata["starts"], metadata["ends"], strict=True)
        rows = [record(partition, n) for partition, start, end in extents for n in range(start, end)]
        self._random.shuffle(rows)
        return ArrowEmission(pa.table([[word for word, _ in rows], [seq for _, seq in rows]], schema=self._schema))

    def success(self, txid: int, metadata: Metadata) -> None: ...

    def fail(self, attempt: TransactionAttempt) -> None: ...

    def close(self) -> None: ...


def numbers(topology: TridentTopology, stop: Path, source: dict[str, Any]) -> Stream:
    """The stream of records, word and seq."""
    address, kind = source["address"], source["spout"]
    if source["source"] == "kafka":
        messages = topology.newStream("numbers", KafkaSpout(address, TOPIC, kind=kind, maxOffsetsPerBatch=2000))
        word = messages.each(expr("substring_index(cast(value as string), ' ', 1)"), "word string")
        return word.each(expr("cast(substring_index(cast(value as string), ' ', -1) as bigint)"), "seq long")
    if source["source"] == "redisStreams":
        fields = "word string, seq long"
        return topology.newStream(
            "numbers", RedisStreamSpout(address, STREAMS, fields, kind=kind, maxEntriesPerBatch=2000)
        )
    return topology.newStream("numbers", EndlessSpout(stop))


def topology(stop: Path, url: str, source: dict[str, Any]) -> TridentTopology:
    topology = TridentTopology()
    words = numbers(topology, stop, source).each("seq", mark, "mark long").groupBy("word")
    in_redis, in_memory = getattr(RedisMapState, source["state"]), getattr(MemoryMapState, source["state"])
    words.persistentAggregate(in_redis(url, buckets=64), "mark", Sum(), "sum", name="merged")
    grouped = in_redis(url, buckets=64, groups=4, values="json")
    words.persistentAggregate(grouped, "mark", Added(), "sum", name="combined")
    words.persistentAggregate(in_memory(), "mark", Sum(), "sum", name="local")
    if source["loose"]:
        words.persistentAggregate(RedisMapState.nonTransactional(url, buckets=64), "mark", Sum(), "sum", name=LOOSE)
    return topology


def ends_of(position: Any) -> list[int]:
    """How many records of each partition were read, from what the spout says of its position."""
    if "positions" in position:
        return [int(position["positions"][stream][0].partition("-")[0]) for stream in STREAMS]
    return list(position[TOPIC]["to"] if TOPIC in position else position["ends"])


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


class Reader:
    """Reads some words of all states at once, again and again, and tells whatever cannot be."""

    def __init__(self, running: RunningTopology) -> None:
        self._running = running
        self.reads = self.waits = 0
        self._over = threading.Event()
        self._seen: dict[str, int] = {}
        self._as_of = 0
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _loop(self) -> None:
        chance = random.Random()
        while not self._over.wait(0.005):
            words = chance.sample(WORDS, 20)
            try:
                found = read_committed(self._running._read_source, {s: pa.table({"word": words}) for s in STATES})
            except PASSING:
                self.waits += 1
            except Exception as error:
                if self._running.isActive:
                    tell(error="read failed", what=f"{type(error).__name__}: {error}")
                return
            else:
                self.reads += 1
                self._check(words, {s: (f.values.to_pylist(), f.asOf) for s, f in found.items()})

    def _check(self, words: list[str], found: dict[str, tuple[list[int | None], int]]) -> None:
        (values, as_of), *others = found.values()
        if any(other != (values, as_of) for other in others):
            tell(error="torn read", what=repr({s: (v, t) for s, (v, t) in found.items()})[:500])
        if as_of < self._as_of:
            tell(error="read went back", what=f"as of {as_of} after {self._as_of}")
        self._as_of = as_of
        for word, value in zip(words, values, strict=True):
            if (value or 0) < self._seen.get(word, 0):
                tell(error="read went back", what=f"{word!r}: {value} after {self._seen[word]}")
            self._seen[word] = value or 0


def main(folder: Path, url: str, source: dict[str, Any]) -> int:
    faulthandler.register(signal.SIGUSR1)  # where it hangs, if it does
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = small_spark(folder)
    stop = folder / "stop"
    try:
        options: dict[str, Any] = {"name": NAME, "checkpointLocation": folder / "checkpoint", "maxAttempts": 15}
        with topology(stop, url, source).start(spark, **options) as running:
            reader = Reader(running)
            while not stop.exists():
                _tell_progress(running, reader)
                time.sleep(0.2)
                if not running.isActive:
                    break
            running.processAllAvailable(timeout=120)
            reader.stop()
            _tell_progress(running, reader)
            held = (*STATES, LOOSE) if source["loose"] else STATES
            sums = {name: dict(running.state(name).items()) for name in held}
            (run,) = running._runs.values()
            position = run.coordinator.positions["numbers"]
            tell(sums=sums, ends=ends_of(position))
    except TridentError as error:
        tell(stopped=type(error).__name__, what=str(error))
        return 3
    return 0


def _tell_progress(running: RunningTopology, reader: Reader) -> None:
    (group,) = running.status["groups"].values()
    failed = [str(event["error"]) for event in running.recentProgress if event["event"] == "failed"]
    told = {"now": group, "failed": failed[-1:]}
    tell(committed=group["committed"], reads=reader.reads, waits=reader.waits, told=str(told)[:1000])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
