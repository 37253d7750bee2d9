"""A driver of its own, which counts batches of very many distinct keys into Redis: how long, and how much memory.

Usage: python -m benchmarks.carrier_driver FOLDER URL MASTER KEYS puts|tables|asks|updates|costly|sessions WRITERS
[WRITERS ...]. The writers take turns, over states of their own. With ``tables`` the counts are in a Delta table. With
``asks`` only the first batch is counted; every batch asks the state for all keys. With ``updates`` a function of the
user's counts them, tuple by tuple; with ``costly`` that function computes a digest for each tuple, too, so that its own
work is far more than the server's. With ``sessions`` each batch opens a session for each of its keys, and closes those
of the batch before, which has other keys. Prints JSON in its last line: by writers the seconds of each commit and those
from each commit to the next, and the peaks of the resident sets of this process and of Spark's driver (MB).
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from trident import Count, MapGet, SessionWindow, Sum, TridentTopology, expr
from trident.spouts import FileSpout
from trident.state import DeltaMapState, MemoryMapState, RedisMapState

BATCHES = 4
"""Batches over the same keys: the first one creates them and learns the size, the others are timed."""
ROW_GROUP = 250_000
KEY = "key long"
_DIGEST_ROUNDS = 150
"""The rounds of a digest: some 50 µs of a processor, over ten times what the server needs for a key."""


def write_batches(folder: Path, keys: int) -> None:
    """Write a Parquet file for each batch, each key once, without holding a whole batch. Batches are an hour apart."""
    folder.mkdir(parents=True)
    schema = pa.schema({"key": pa.int64(), "at": pa.timestamp("us", "UTC")})
    for batch in range(BATCHES):
        with pq.ParquetWriter(folder / f"{batch}.parquet", schema) as writer:
            for start in range(0, keys, ROW_GROUP):
                numbers = pa.array(range(start, min(keys, start + ROW_GROUP)), pa.int64())
                at = pa.repeat(pa.scalar(batch * 3_600_000_000, schema.field("at").type), len(numbers))
                writer.write_table(pa.table([pc.multiply(numbers, 7), at], schema=schema))


def puts(
    spark: SparkSession, folder: Path, url: str, keys: int, writers: Any, turn: int, table: bool = False
) -> dict[str, list[float]]:
    """Count all batches and check what is stored."""
    topology = TridentTopology()
    spout = FileSpout(folder / "source" / "*.parquet", "parquet", schema=KEY, maxFilesPerBatch=1)
    name = f"{writers}{turn}"
    redis = RedisMapState.opaque(url, writers=writers, groups=4)
    state = DeltaMapState.opaque(folder / "states", writers=writers) if table else redis
    stream = topology.newStream("keys", spout).groupBy("key")
    stream.persistentAggregate(state, Count(), "count", name="counts")
    with topology.start(spark, name=name, checkpointLocation=folder / "checkpoint") as running:
        running.processAllAvailable(timeout=3600)
        events = [event for event in running.recentProgress if event["event"] == "committed"]
        asked = [0, 7, 7 * (keys // 2), 7 * (keys - 1)]
        found = running.state("counts").multiGet(asked)
        assert found == [BATCHES] * len(asked), found
    assert [event["states"]["counts"]["keys"] for event in events] == [keys] * BATCHES, events
    assert {event["states"]["counts"].get("writers", "driver") for event in events} == {writers}
    return _seconds(events)


def asks(spark: SparkSession, folder: Path, url: str, keys: int, writers: Any, turn: int) -> dict[str, list[float]]:
    """Count the first batch, ask the state for the keys of all batches, and check the answers."""
    topology = TridentTopology()
    name, state = f"{writers}{turn}", RedisMapState.opaque(url, writers=writers, groups=4)

    def read(files: str) -> FileSpout:
        return FileSpout(folder / "source" / files, "parquet", schema=KEY, maxFilesPerBatch=1)

    counted = topology.newStream("keys", read("0.parquet")).groupBy("key")
    counts = counted.persistentAggregate(state, Count(), "count", name="counts")
    asking = topology.newStream("asking", read("*.parquet")).stateQuery(counts, "key", MapGet(), "count")
    asking.groupBy("count").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="answers")
    with topology.start(spark, name=name, checkpointLocation=folder / "checkpoint") as running:
        running.processAllAvailable(timeout=3600)
        events = [event for event in running.recentProgress if event["event"] == "committed"]
        found = dict(running.state("answers").items())
        assert found == {None: keys, 1: (BATCHES - 1) * keys}, found
    assert {bool(event.get("queries")) for event in events} == {writers == "executors"}
    return _seconds(events)


def counted(tuple: Any, state: Any) -> None:
    """Count a key, as a program does that needs more than an aggregate."""
    state.put(tuple.key, state.get(tuple.key, 0) + 1)


def counted_at_a_cost(tuple: Any, state: Any) -> None:
    """Count a key, and derive a digest from it."""
    digest = hashlib.pbkdf2_hmac("sha256", b"%d" % tuple.key, b"salt", _DIGEST_ROUNDS)
    state.put(tuple.key, state.get(tuple.key, 0) + (len(digest) == 32))


def updates(
    spark: SparkSession,
    folder: Path,
    url: str,
    keys: int,
    writers: Any,
    turn: int,
    function: Callable[..., None] = counted,
) -> dict[str, list[float]]:
    """Count all batches by a function over the state, and check what is stored."""
    topology = TridentTopology()
    spout = FileSpout(folder / "source" / "*.parquet", "parquet", schema=KEY, maxFilesPerBatch=1)
    name, state = f"{writers}{turn}", RedisMapState.opaque(url, writers=writers, groups=4)
    stream = topology.newStream("keys", spout)
    stream.statefulEach(function, keyFields="key", valueType="long", stateFactory=state, name="counts")
    with topology.start(spark, name=name, checkpointLocation=folder / "checkpoint") as running:
        running.processAllAvailable(timeout=3600)
        events = [event for event in running.recentProgress if event["event"] == "committed"]
        asked = [0, 7, 7 * (keys // 2), 7 * (keys - 1)]
        found = running.state("counts").multiGet(asked)
        assert found == [BATCHES] * len(asked), found
    assert [event["states"]["counts"]["keys"] for event in events] == [keys] * BATCHES, events
    assert {event["states"]["counts"].get("writers", "driver") for event in events} == {writers}
    return _seconds(events)


def sessions(spark: SparkSession, folder: Path, url: str, keys: int, writers: Any, turn: int) -> dict[str, list[float]]:
    """Open a session for each key of a batch, and close those of the batch before; check what left and what is open."""
    topology = TridentTopology()
    spout = FileSpout(folder / "source" / "*.parquet", "parquet", schema=f"{KEY}, at timestamp", maxFilesPerBatch=1)
    name, state = f"{writers}{turn}", RedisMapState.opaque(url, writers=writers, groups=4)
    own = topology.newStream("keys", spout).each(["key", "at"], expr("key * 24 + hour(at)"), "own long")
    window = SessionWindow("10 minutes", "at")
    closed = own.groupBy("own").window(window, Count(), "n", stateFactory=state, name="counts")
    closed.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="closed")
    with topology.start(spark, name=name, checkpointLocation=folder / "checkpoint") as running:
        running.processAllAvailable(timeout=3600)
        events = [event for event in running.recentProgress if event["event"] == "committed"]
        assert running.state("closed").multiGet([()]) == [(BATCHES - 1) * keys]
        last = 24 * 7 * (keys - 1)
        open_ = running.state("counts").multiGet([last + hour for hour in range(BATCHES)])
        assert [bool(sessions) for sessions in open_] == [False] * (BATCHES - 1) + [True], open_
    assert {event["states"]["counts"].get("writers", "driver") for event in events} == {writers}
    return _seconds(events)


def _seconds(events: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the time of each commit, and from each commit to the next: batches overlap."""
    ends = [datetime.fromisoformat(event["timestamp"]) for event in events]
    return {
        "commit": [event["durationMs"]["commit"] / 1000 for event in events[1:]],
        "total": [(after - before).total_seconds() for before, after in pairwise(ends)],
    }


def peak_mb(pid: int) -> float:
    """Return the largest resident set that a process has had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def java() -> int:
    """Return the process id of Spark's driver, a child of this process."""
    own = os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
                line = (entry / "cmdline").read_bytes()
            except OSError:  # it has ended meanwhile
                continue
            if int(fields[1]) == own and b"SparkSubmit" in line:
                return int(entry.name)
    raise LookupError("no JVM below this process")


def main(folder: str, url: str, master: str, keys: str, program: str, *writers: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2" if int(keys) <= 1_000_000 else "16")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        .getOrCreate()
    )
    write_batches(Path(folder) / "source", int(keys))
    took: dict[str, dict[str, list[float]]] = {}
    programs: dict[str, Callable[..., dict[str, list[float]]]] = {
        "puts": puts,
        "tables": partial(puts, table=True),
        "asks": asks,
        "updates": updates,
        "sessions": sessions,
        "costly": partial(updates, function=counted_at_a_cost),
    }
    for turn, name in enumerate(writers):
        for what, seconds in programs[program](spark, Path(folder), url, int(keys), name, turn).items():
            took.setdefault(name, {}).setdefault(what, []).extend(seconds)
    peaks = {"python": peak_mb(os.getpid()), "jvm": peak_mb(java())}
    print(json.dumps({"took": took, "peaks": peaks}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
