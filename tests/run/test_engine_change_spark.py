"""A topology that changes its engine between two starts goes on exactly where the other engine stopped."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.server import RedisServer
from trident import (
    Count,
    FilterNull,
    MapGet,
    Sum,
    TridentTopology,
    TumblingEventTimeWindow,
    expr,
    publishedFiles,
    readParquet,
)
from trident.compiler.spark.engine import SparkEngine
from trident.errors import MissingSessionError
from trident.log import frozen_results
from trident.run.running import RunningTopology
from trident.run.start import start_on
from trident.state import MemoryMapState, RedisMapState, StateFactory
from trident.testing import CRASH, DriverCrashedError, EngineStart, TestSource
from trident.testing.local import start_local, start_options

pytestmark = pytest.mark.spark

ORDERS = [("spark", "embedded"), ("embedded", "spark")]


def ends(start: Callable[..., RunningTopology], topology: TridentTopology, **options: Any) -> bool:
    """Run the topology until its source has nothing more, or its driver dies. Return whether it died."""
    try:
        with start(topology, name="t", availableNow=True, **options) as running:
            running.awaitTermination(timeout=90)
    except DriverCrashedError:
        return True
    return False


# --- batches of every kind wait -------------------------------------------------------------------------------------

ROWS = [[(f"k{n % 3}", n, 60 * batch + n) for n in range(6)] for batch in range(6)]
DIES = ["freeze.after", "commit.state.after", "committed.before", "output.published", "freeze.before"]


Taken = dict[tuple[str, int], list[tuple[Any, ...]]]
"""The rows that an output was handed, by output and txid."""


def at(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def into(taken: Taken, output: str) -> Callable[[pa.Table, int, int], None]:
    """Return an output that notes its rows; a batch that comes again must have the same rows."""

    def take(table: pa.Table, txid: int, attempt: int) -> None:
        rows = sorted(tuple(row.values()) for row in table.to_pylist())
        assert taken.setdefault((output, txid), rows) == rows

    return take


def everything(source: TestSource, state: StateFactory, out: Path, taken: Taken) -> TridentTopology:
    """Two states in two stages, an answered query, a window, tables for functions, and Parquet."""
    topology = TridentTopology()
    rows = topology.newStream("rows", source)
    counts = rows.groupBy("k").persistentAggregate(state, Count(), "count", name="counts")
    counts.newValuesStream(everyChange=True).groupBy("count").persistentAggregate(state, Count(), "n", name="seen")
    known = rows.stateQuery(counts, "k", MapGet(), "before").filter("before", FilterNull())
    known.persistentAggregate(state, "n", Sum(), "sum", name="known")
    timed = rows.each("at", at, "time timestamp").groupBy("k")
    minutes = timed.window(TumblingEventTimeWindow("1 minute", "time"), state, "n", Sum(), "total", name="minutes")
    minutes.project("k, total").foreachArrow(into(taken, "minutes"), name="minutes.out")
    rows.foreachArrow(into(taken, "rows"), name="rows.out")
    rows.writeParquet(out)
    return topology


@pytest.mark.parametrize("where", ["memory", "redis"])
def test_drivers_that_die_anywhere_hand_over_to_the_other_engine(
    where: str, spark: SparkSession, shared_redis: RedisServer, tmp_path: Path
) -> None:
    """The engines take turns; each driver dies at another point, with batches planned, frozen or half committed."""
    script: list[object] = [ROWS[0]]
    for point, batch in zip(DIES, ROWS[1:], strict=True):
        script += [CRASH.at(point), batch]
    source, taken = TestSource("k string, n long, at long", script, "transactional"), Taken()
    state = MemoryMapState.opaque() if where == "memory" else RedisMapState.opaque(shared_redis.url)
    starts: list[Callable[..., RunningTopology]] = [EngineStart("spark", lambda: spark), start_local]
    topology, deaths = everything(source, state, tmp_path / "out", taken), 0
    while ends(starts[deaths % 2], topology, checkpointLocation=tmp_path / "c"):
        deaths += 1
    assert deaths == len(DIES)
    with start_local(topology, name="t", checkpointLocation=tmp_path / "c") as running:
        assert dict(running.state("counts").items()) == dict.fromkeys(("k0", "k1", "k2"), 12)
        assert dict(running.state("seen").items()) == dict.fromkeys(range(2, 13, 2), 3)
        assert running.state("known").value == 5 * 15, "all tuples but those of the first batch"
    txids = range(1, 7)
    assert [taken["rows", txid] for txid in txids] == [sorted(batch) for batch in ROWS]
    sums = [("k0", 3), ("k1", 5), ("k2", 7)]
    assert [taken["minutes", txid] for txid in txids] == [[], *[sums] * 5], "a minute ends with the next one's tuples"
    assert readParquet(spark, tmp_path / "out").count() == 36


# --- large results in files -------------------------------------------------------------------------------------------

BIG = [[(n, f"k{n % 7}") for n in range(start, start + 1500)] for start in range(0, 6000, 1500)]


def big(source: TestSource, out: Path, taken: list[Any]) -> TridentTopology:
    topology = TridentTopology()
    numbers = topology.newStream("numbers", source)
    numbers.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    numbers.foreachArrow(lambda table, txid, attempt: taken.append((txid, table.num_rows)))
    numbers.writeParquet(out, partitionBy="k")
    return topology


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_large_frozen_batches_of_one_engine_are_committed_by_the_other(
    order: tuple[str, str], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's workers have written some of the files, and the driver the others."""
    monkeypatch.setattr(frozen_results, "MOST_IN_LOG", 100)

    def on_spark(topology: TridentTopology, **options: Any) -> RunningTopology:
        options = start_options(topology, options)
        return start_on(lambda settings: SparkEngine(spark, settings.files, 100), topology, **options)

    starts: dict[str, Callable[..., RunningTopology]] = {"spark": on_spark, "embedded": start_local}
    source = TestSource("n long, k string", [*BIG[:3], CRASH.at("freeze.after"), BIG[3]])
    topology = big(source, tmp_path / "out", taken := [])
    first, second = (starts[engine] for engine in order)
    assert ends(first, topology, checkpointLocation=tmp_path / "c", maxSpoutPending=1)
    files = [path.name for path in (tmp_path / "c" / "t" / "frozen").rglob("*-4-*/*.arrow")]
    assert files and {name.startswith("driver") for name in files} == {order[0] == "embedded"}
    assert [txid for txid, _ in taken] == [1, 2, 3], "batch 4 waits in these files"
    assert not ends(second, topology, checkpointLocation=tmp_path / "c")
    assert taken[-1] == (4, 1500)
    with start_local(topology, name="t", checkpointLocation=tmp_path / "c") as running:
        assert dict(running.state("counts").items()) == dict.fromkeys(range(6000), 1)
    assert readParquet(spark, tmp_path / "out").count() == 6000 and len(publishedFiles(tmp_path / "out")) >= 28


def test_a_batch_that_waits_for_a_step_of_spark_is_refused_with_the_way_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Behind a state only Spark can go on with it: the log and the batch stay as they are for Spark."""
    topology = TridentTopology()
    words = topology.newStream("words", TestSource("word string", [["a"], CRASH.at("freeze.after"), ["a", "b"]]))
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    twice = counts.newValuesStream(everyChange=True).each("count", expr("2 * count"), "twice long")
    twice.persistentAggregate(MemoryMapState.opaque(), "twice", Sum(), "sum", name="sum")
    on_spark = EngineStart("spark", lambda: spark)
    assert ends(on_spark, topology, checkpointLocation=tmp_path)
    with pytest.raises(MissingSessionError, match=r"each\(expr\).*With engine='spark' the topology runs unchanged"):
        start_local(topology, name="t", checkpointLocation=tmp_path)
    assert not ends(on_spark, topology, checkpointLocation=tmp_path)
    with EngineStart("spark", lambda: spark)(topology, name="t", checkpointLocation=tmp_path) as running:
        assert running.state("sum").value == 2 * (1 + 2 + 1)
