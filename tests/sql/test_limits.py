"""A query that asks for too much ends within its limit, with an error of its own type."""

import os
import resource
import threading
import time
from pathlib import Path

import pytest

from trident import Count, TridentTopology
from trident.base.errors import SqlError, SqlLimitError, SqlTimeoutError
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

LONG = "select count(*) from range(1000000) a, range(1000000) b where hash(a.range) < hash(b.range)"

GREEDY = (
    "select length(repeat('x', 4000000000))",
    "select len(range(4000000000))",
    "select len(list_resize([1], 4000000000))",
    "with a as (select repeat('x', 1000000) s), b as (select s || s || s || s s from a),"
    " c as (select s || s || s || s s from b), d as (select s || s || s || s s from c),"
    " e as (select s || s || s || s s from d) select length(s) from e",
    "select count(distinct repeat('x', range)) from range(100000)",
    "select len(list(range)) from range(100000000)",
    "select repeat('x', 1000000) from range(1000)",
    "select range from range(100000000) order by hash(range) limit 10000000",
    "with recursive r(s) as (select 'xxxxxxxxxx' union all select s || s from r where length(s) < 10000000000)"
    " select max(length(s)) from r",
)


@pytest.mark.parametrize("query", GREEDY)
def test_memory(shop: RunningTopology, query: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SqlLimitError, match="maxBytes") as caught:
        shop.sql(query, maxBytes=64 << 20, maxRows=100_000_000)
    assert not isinstance(caught.value, SqlTimeoutError)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10, "the driver itself needs no memory"
    assert shop.sql("select sum(n) as s from counts").first().s == 200


def test_the_states_that_a_query_reads(shop: RunningTopology) -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout("text string")
    topology.newStream("texts", feeder).groupBy("text").persistentAggregate(
        MemoryMapState.opaque(), Count(), "n", name="texts"
    )
    with start_local(topology, name="texts") as running:
        feeder.feed([(f"{number}{'x' * 1_000_000}",) for number in range(18)])
        running.processAllAvailable()
        with pytest.raises(SqlLimitError, match=r"reads more than 16777216 bytes of states, up to state 'texts'"):
            running.sql("select count(*) from texts", maxBytes=16 << 20)
        assert running.sql("select count(*) as c from texts").first().c == 18
        key = f"3{'x' * 1_000_000}"
        assert running.sql("select n from texts where text = ?", [key], maxBytes=16 << 20).first().n == 1


def test_rows(shop: RunningTopology) -> None:
    with pytest.raises(SqlLimitError, match=r"the result has more than 199 rows, its limit: .*maxRows="):
        shop.sql("select id from orders", maxRows=199)
    assert len(shop.sql("select id from orders", maxRows=200)) == 200
    began = time.monotonic()
    with pytest.raises(SqlLimitError, match="more than 1000000 rows"):
        shop.sql("from range(1000000000000)")
    assert time.monotonic() - began < 10


def test_time(shop: RunningTopology) -> None:
    began = time.monotonic()
    with pytest.raises(SqlTimeoutError, match=r"ended after 0\.5 s, its time limit"):
        shop.sql(LONG, timeout="500 ms")
    assert time.monotonic() - began < 5
    assert shop.sql("select 1 as one").first().one == 1


def test_a_query_that_takes_long_to_plan(shop: RunningTopology) -> None:
    """DuckDB looks at no interrupt while it plans."""
    tables = ", ".join(f"range(2) t{number}" for number in range(200))
    began = time.monotonic()
    with pytest.raises(SqlError):
        shop.sql(f"select count(*) from {tables} where {' + '.join(f't{n}.range' for n in range(200))} = 7", timeout=1)
    assert time.monotonic() - began < 5


def test_a_process_that_dies_is_an_error(shop: RunningTopology) -> None:
    shop.sql("select 1")
    (process,) = shop.queries._processes._idle  # noqa: SLF001
    timer = threading.Timer(0.5, os.kill, (process.pid, 9))
    timer.start()
    with pytest.raises(SqlLimitError, match=r"the process of the query was ended by SIGKILL"):
        shop.sql(LONG, timeout=20)
    assert shop.sql("select 1 as one").first().one == 1


def test_a_process_that_died_between_two_queries_is_replaced(shop: RunningTopology) -> None:
    shop.sql("select 1")
    for process in shop.queries._processes._idle:  # noqa: SLF001
        os.kill(process.pid, 9)
    assert shop.sql("select 1 as one").first().one == 1


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"timeout": "soon"}, "timeout='soon' is not a duration"),
        ({"timeout": 0}, "timeout=0: expected a positive duration"),
        ({"maxRows": 0}, "maxRows=0: expected a whole number of at least 1"),
        ({"maxBytes": 1000}, "maxBytes=1000: expected a whole number of at least 16777216"),
    ],
)
def test_limits_that_are_none(shop: RunningTopology, limit: dict[str, object], message: str) -> None:
    with pytest.raises(SqlError, match=message):
        shop.sql("select 1", **limit)  # type: ignore[arg-type]


def test_no_commit_waits_for_a_query(shop: RunningTopology, tmp_path: Path) -> None:
    """Batches commit at once while a query over their state works for seconds."""
    topology, feeder = TridentTopology(), FeederBatchSpout("id long")
    topology.newStream("ids", feeder).groupBy("id").persistentAggregate(
        MemoryMapState.opaque(), Count(), "n", name="counts"
    )
    with start_local(topology, name="counting", checkpointLocation=tmp_path) as running:
        feeder.feed([(1,)])
        running.processAllAvailable()
        running.sql("select 1")
        over = list[float]()

        def ask() -> None:
            with pytest.raises(SqlTimeoutError):
                running.sql(f"{LONG} and (select n from counts) > 0", timeout=3)
            over.append(time.monotonic())

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.3)
        for _ in range(5):  # a hold would let one batch through, and no second one
            feeder.feed([(1,)])
            running.processAllAvailable(timeout=2)
        assert not over, "the batches were committed while the query worked"
        asking.join()
        assert running.state("counts")[1] == 6
