"""A new state begins with a content, as of before its first batch: once, whatever kills the start, or not at all."""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.recovery.test_founding import Killed
from tests.state.backing.maps import SqliteMap
from tests.support.server import RedisServer
from trident import (
    Average,
    CollectList,
    Count,
    Evolution,
    First,
    InitialState,
    Last,
    Latest,
    MaxBy,
    MinBy,
    Sum,
    TridentTopology,
    col,
    lit,
    openState,
)
from trident.base import crash_points
from trident.errors import StateError, StateShapeError, StateValueError, TopologyError, UserFunctionError
from trident.spouts import FeederBatchSpout, FixedBatchSpout, PollingSpout
from trident.state import BackingMapState, MemoryMapState, RedisMapState, SqliteMapState
from trident.testing import ManualClock
from trident.testing.local import start_local

BATCHES = [[("a", 1), ("b", 2)], [("a", 5)]]
KNOWN = pa.table({"shop": ["a", "z"], "n": pa.array([10, 20], pa.int32())})

pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:state .sales.. appendonly is off", "ignore:state .sales. is new"),
]


def sales(initial: Any, state: Any = None, how: Any = None, batches: Any = BATCHES, **more: Any) -> TridentTopology:
    topology = TridentTopology()
    spout = FixedBatchSpout("shop string, price long", batches) if isinstance(batches, list) else batches
    shops = topology.newStream("sales", spout).groupBy("shop")
    output = () if isinstance(how, dict) else ("n",)
    given = () if how is None or isinstance(how, dict) else ("price",)
    state = MemoryMapState.opaque() if state is None else state
    shops.persistentAggregate(state, *given, how or Count(), *output, name="sales", initialState=initial, **more)
    return topology


def run(topology: TridentTopology, where: Path) -> dict[Any, Any]:
    with start_local(topology, name="t", checkpointLocation=where) as running:
        running.processAllAvailable(timeout=30)
        return dict(running.state("sales").items())


def homes(folder: Path, server: RedisServer) -> dict[str, Callable[[], Any]]:
    return {
        "memory": MemoryMapState.opaque,
        "forgetful": lambda: MemoryMapState.transactional(ttlSecs="1 day"),
        "redis": lambda: RedisMapState.opaque(server.url, buckets=8, groups=2),
        "ageing": lambda: RedisMapState.opaque(server.url, buckets=8, ttlSecs="1 day"),
        "sqlite": lambda: SqliteMapState.transactional(str(folder / "s.db")),
        "own": lambda: BackingMapState.opaque(functools.partial(SqliteMap, str(folder / "own.db"))),
    }


POINTS = ["start.log.taken", "start.state.born", "start.state.created", "start.state.acquired", "start.states.founded"]
LATER = ["start.done", "heal.acquired", "heal.applied"]


@pytest.mark.parametrize("home", ["memory", "forgetful", "redis", "ageing", "sqlite", "own"])
def test_a_state_begins_with_its_content_once(home: str, tmp_path: Path, shared_redis: RedisServer) -> None:
    state, expected = homes(tmp_path, shared_redis)[home], {"a": 12, "b": 1, "z": 20}
    assert run(sales(KNOWN, state()), tmp_path) == expected
    assert run(sales(KNOWN, state()), tmp_path) == expected
    assert run(sales(KNOWN, state(), batches=[*BATCHES, [("z", 1)]]), tmp_path) == {**expected, "z": 21}
    assert run(sales(None, state(), batches=[*BATCHES, [("z", 1)]]), tmp_path) == {**expected, "z": 21}


@pytest.mark.parametrize("home", ["memory", "redis", "sqlite"])
@pytest.mark.parametrize("point", [*POINTS, *LATER])
def test_a_start_that_was_killed_is_repeated_wholly(
    point: str, home: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    def listen(reached: str) -> None:
        if reached == point:
            raise Killed

    state, other = homes(tmp_path, shared_redis)[home], pa.table({"shop": ["a"], "n": pa.array([100], pa.int64())})
    crash_points.listen(listen)
    try:
        with pytest.raises(Killed):
            start_local(sales(KNOWN, state()), name="t", checkpointLocation=tmp_path)
    finally:
        crash_points.listen(None)
    founded = point in ("start.states.founded", *LATER)
    expected = {"a": 12, "b": 1, "z": 20} if founded else {"a": 102, "b": 1}
    assert run(sales(other, state()), tmp_path) == expected, "a content counts once its state is founded"


@pytest.mark.parametrize("groups", [None, 1, 4])
def test_a_content_is_seen_as_of_the_batch_before_it_expired(
    groups: int | None, tmp_path: Path, shared_redis: RedisServer
) -> None:
    """No batch has the txid 0, but the content has it: the cutoff 0, of which nothing has expired, spares it."""
    state: Any = MemoryMapState.opaque(ttlSecs=10)
    if groups is not None:
        state = RedisMapState.opaque(shared_redis.url, buckets=16, groups=groups, ttlSecs=10)
    clock, feeder, topology = ManualClock(1_700_000_000), FeederBatchSpout("shop string"), TridentTopology()
    begun = {f"s{n}": n + 1 for n in range(20)}
    content = pa.table({"shop": list(begun), "n": list(begun.values())})
    topology.newStream("sales", feeder).groupBy("shop").persistentAggregate(
        state, Count(), "n", name="sales", initialState=content
    )
    with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        feeder.feed(["first"])
        running.processAllAvailable(timeout=30)
        clock.advance(20)
        feeder.feed([f"s{n}" for n in range(10)])
        running.processAllAvailable(timeout=30)
        view = running.state("sales")
        assert dict(view.items()) == {f"s{n}": 1 for n in range(10)}
        assert view.asOf(1).multiGet(list(begun)) == list(begun.values())
        assert view.asOf(1)["s0"] == 1 and dict(view.asOf(1).items()) == {**begun, "first": 1}


def test_a_state_that_joins_later_begins_there(tmp_path: Path) -> None:
    def topology(batches: Any, state: Any) -> TridentTopology:
        made = sales(state, batches=batches)
        made.newStream("others", FixedBatchSpout("shop string", [])).groupBy("shop").persistentAggregate(
            MemoryMapState.opaque(), Count(), "n", name="others"
        )
        return made

    first = TridentTopology()
    first.newStream("sales", FixedBatchSpout("shop string, price long", BATCHES)).groupBy("shop").persistentAggregate(
        MemoryMapState.opaque(), Count(), "n", name="first"
    )
    with start_local(first, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    assert run(sales(KNOWN, batches=[*BATCHES, [("a", 1)]]), tmp_path) == {"a": 11, "z": 20}


def test_a_content_comes_from_a_frame_a_file_a_function_or_another_state(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(KNOWN, tmp_path / "known.parquet")
    expected, calls = {"a": 12, "b": 1, "z": 20}, list[str]()

    def read() -> Any:
        calls.append("read")
        return KNOWN

    for at, source in enumerate((pd.DataFrame({"shop": ["a", "z"], "n": [10, 20]}), tmp_path / "known.parquet", read)):
        assert run(sales(source), tmp_path / str(at)) == expected
        assert run(sales(source), tmp_path / str(at)) == expected
    assert calls == ["read"]
    with openState("t", "sales", tmp_path / "0") as former:
        assert run(sales(former), tmp_path / "later") == {"a": 14, "b": 2, "z": 20}


def test_values_of_several_aggregators_and_of_one_that_stores_something_else(tmp_path: Path) -> None:
    table = pa.table({"n": [4], "total": [9], "shop": ["a"]})
    now = run(sales(table, how={"n": Count(), "total": Sum("price")}), tmp_path / "several")
    assert {key: tuple(value) for key, value in now.items()} == {"a": (6, 15), "b": (1, 2)}
    means = pa.table({"shop": ["a"], "mean": [2.0], "sales": [4]})
    with pytest.raises(StateShapeError, match=r"also has the column|which differ from the values that queries see"):
        run(sales(means.drop(["sales"]), how=Average()), tmp_path / "mean")
    by = InitialState(means, lambda row: (int(row.mean * row.sales), row.sales))
    assert run(sales(by, how=Average()), tmp_path / "mean") == {"a": 14 / 6, "b": 2.0}


def test_a_table_begins_with_rows(tmp_path: Path) -> None:
    topology = TridentTopology()
    stream = topology.newStream("sales", FixedBatchSpout("shop string, price long", [[("a", 1)]]))
    stream.toTable("shop", name="sales", initialState=pa.table({"shop": ["a", "b"], "price": [7, None]}))
    assert {key: value.price for key, value in run(topology, tmp_path).items()} == {"a": 1, "b": None}


@pytest.mark.parametrize("fields", ["price", "price, n"])
def test_a_table_begins_with_the_rows_of_another_table(fields: str, tmp_path: Path) -> None:
    """The rows of a table are one column, whose name depends on the way to read it."""

    def topology(rows: list[Any], initial: Any = None) -> TridentTopology:
        made = TridentTopology()
        stream = made.newStream("sales", FixedBatchSpout("shop string, price double, n long", [rows]))
        stream.toTable("shop", valueFields=fields, name="sales", initialState=initial)
        return made

    rows = [("a", math.nan, 1), ("b", None, 2), ("c", 3.0, 3)]
    with start_local(topology(rows), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        expected, table = dict(running.state("sales").items()), running.state("sales").toArrow()
    with openState("t", "sales", tmp_path) as former:
        for at, source in enumerate((table, former.toArrow(), former)):
            found = run(topology([("d", 4.0, 4)], source), tmp_path / str(at))
            assert repr({key: found[key] for key in expected}) == repr(expected)
            assert found["d"].price == 4.0


REFUSED: dict[str, tuple[Any, type[Exception]]] = {
    r"has 1 key more than once, such as \{'shop': 'a'\}": (
        pa.table({"shop": ["a", "a", "b"], "n": [1, 2, 3]}),
        StateValueError,
    ),
    r"lacks the key field 'shop'; expected the columns shop string, n bigint": (pa.table({"n": [1]}), StateShapeError),
    r"also has the column 'more'": (pa.table({"shop": ["a"], "n": [1], "more": [1]}), StateShapeError),
    r"has no column with values": (pa.table({"shop": ["a"]}), StateShapeError),
    r"the column 'n' of type double, and the state needs bigint": (
        pa.table({"shop": ["a"], "n": [1.5]}),
        StateShapeError,
    ),
    r"the column 'shop' of type bigint, and the state needs string": (
        pa.table({"shop": [1], "n": [1]}),
        StateShapeError,
    ),
    r"'/nowhere.parquet' cannot be read: it raised FileNotFoundError": ("/nowhere.parquet", UserFunctionError),
}


@pytest.mark.parametrize("told", REFUSED)
def test_a_content_that_does_not_fit_refuses_the_start_before_anything_is_written(told: str, tmp_path: Path) -> None:
    source, kind = REFUSED[told]
    with pytest.raises(kind, match=rf"sales/1:persistentAggregate.* initialState:? .*{told}.*Nothing was written"):
        run(sales(source), tmp_path)
    assert run(sales(KNOWN), tmp_path) == {"a": 12, "b": 1, "z": 20}


def test_a_state_that_has_begun_takes_no_content(tmp_path: Path) -> None:
    run(sales(None), tmp_path)
    with pytest.raises(StateError, match=r"state 'sales' exists since txid 0, so initialState= would never be used"):
        run(sales(KNOWN), tmp_path)
    assert run(sales(None), tmp_path) == {"a": 2, "b": 1}


def test_what_is_no_content_is_refused_when_the_stream_is_built() -> None:
    with pytest.raises(
        TopologyError, match="initialState: 7 is not a source of values: expected a pandas or Spark DataFrame"
    ):
        sales(7)
    with pytest.raises(TopologyError, match="initialState= needs an opaque or transactional state"):
        sales(KNOWN, MemoryMapState.nonTransactional())
    with pytest.raises(TopologyError, match="evolve= needs an opaque or transactional state"):
        sales(None, MemoryMapState.nonTransactional(), evolve=Evolution("int"))


def test_a_server_that_loses_everything_gets_the_content_again_from_the_log(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    rows = [("a", 1)]
    spout = PollingSpout("shop string, price long", {"p": lambda at, limit: (rows[at or 0 :], len(rows))})
    state = RedisMapState.opaque(shared_redis.url, buckets=8)
    with start_local(sales(KNOWN, state, batches=spout), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        shared_redis.client.flushall()
        rows.append(("b", 1))
        running.processAllAvailable(timeout=30)
        assert dict(running.state("sales").items()) == {"a": 11, "b": 1, "z": 20}


def test_a_state_that_began_with_a_content_gets_another_shape(tmp_path: Path) -> None:
    run(sales(KNOWN), tmp_path)
    evolve = Evolution("long", lambda n: (n, 0), by="Count")
    how = {"n": Count(), "total": Sum("price")}
    batches = [*BATCHES, [("z", 3)]]
    now = run(sales(None, how=how, batches=batches, evolve=evolve), tmp_path)
    assert {key: tuple(value) for key, value in now.items()} == {"a": (12, 0), "b": (1, 0), "z": (21, 3)}


@pytest.mark.parametrize("bundle", [False, True])
def test_a_program_that_changes_a_lost_content_is_refused_and_leaves_it_to_the_former_one(
    bundle: bool, tmp_path: Path, shared_redis: RedisServer
) -> None:
    """A start changes nothing before a batch is frozen, so the former program may go on after a start of this one."""
    rows = list[tuple[str, int]]()
    spout = PollingSpout("shop string, price long", {"p": lambda at, limit: (rows[at or 0 :], len(rows))})
    state = RedisMapState.opaque(shared_redis.url, buckets=8)
    former = sales(KNOWN, state, batches=spout)
    how: Any = {"n": Count(), "total": Sum("price")} if bundle else Sum()
    evolve = Evolution("long", lambda n: (n, 2 * n) if bundle else 2 * n, by="Count")
    changed = sales(KNOWN, state, how=how, batches=spout, evolve=evolve)
    assert run(former, tmp_path) == {"a": 10, "z": 20}
    shared_redis.client.flushall()
    with pytest.raises(StateError, match="Start the previous program"):
        run(changed, tmp_path)
    assert run(former, tmp_path) == {"a": 10, "z": 20}
    rows.append(("a", 3))
    now = run(changed, tmp_path)
    expected = {"a": (11, 23), "z": (20, 40)} if bundle else {"a": 23, "z": 40}
    assert {key: tuple(value) if bundle else value for key, value in now.items()} == expected


def in_order() -> dict[str, Any]:
    """Aggregators whose results depend on the order of tuples."""
    every = {"first": ("price", First()), "last": ("price", Last()), "list": ("price", CollectList())}
    tied = {"low": MinBy("price", "tie"), "high": MaxBy("price", "tie"), "latest": Latest("tie")}
    return {**every, **tied, "some": ("price", Last(where=col("price") < 100))}


def ordered(initial: Any, batches: list[list[int]]) -> TridentTopology:
    spout = FixedBatchSpout("shop string, price long", [[("a", price) for price in batch] for batch in batches])
    prices = TridentTopology()
    shops = prices.newStream("sales", spout).each({"tie": lit(0)}).groupBy("shop")
    shops.persistentAggregate(MemoryMapState.opaque(), in_order(), name="sales", initialState=initial)
    return prices


def test_a_content_comes_before_the_first_batch(tmp_path: Path) -> None:
    """Its accumulators have the txids of the topology that made them, which are greater here."""

    def accumulators(last: int) -> tuple[Any, ...]:
        every = (7, 2, 1), (9, 0, last), [(7, 2, [1]), (8, 0, [2]), (9, 0, [last])]
        return *every, (7, 2, 0, 1), (7, 2, 0, 1), (9, 0, (0,), ("a", last, 0)), (9, 0, last)

    source = InitialState(pa.table({"shop": ["a"], "last": [3]}), accumulators)
    now = run(ordered(source, [[50, 51], [200, 52]]), tmp_path)["a"]
    assert (now.first, now.last, now.low, now.high) == (1, 52, 1, 1)
    assert (now.latest.price, now.some) == (52, 52)
    assert now.list == [1, 2, 3, 50, 51, 200, 52]
