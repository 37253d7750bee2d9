"""A start over a state in a former shape: reads before the first commit, refusals, stores that lose it meanwhile."""

import datetime
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.state.backing.maps import LeastMap, SqliteMap
from tests.support.kills import killed
from tests.support.server import RedisServer
from trident import Count, Evolution, MapGet, Max, Sum, TridentTopology, dropState, openState
from trident.base import crash_points
from trident.errors import (
    StateError,
    StateLostError,
    StateShapeError,
    StateUnavailableError,
    TopologyError,
    UserFunctionError,
)
from trident.spouts import FixedBatchSpout, PollingSpout
from trident.state import BackingMapState, DeltaMapState, MemoryMapState, RedisMapState
from trident.testing import ManualClock
from trident.testing.local import start_local
from trident_state.redis.store import RedisStore

FIRST = [[("a", 1), ("b", 2)], [("a", 5)]]
MORE = [*FIRST, [("a", 7), ("c", 1)], [("b", 1)]]
BOTH = {"n": Count(), "total": Sum("price")}
FROM_COUNT = Evolution("long", lambda n: (n, 100 * n), by="Count")

pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:state .sales.. appendonly is off"),
]


def sales(
    batches: Any, state: Any, how: Any = None, evolve: Any = None, group: bool = True, content: Any = None
) -> TridentTopology:
    topology = TridentTopology()
    spout = FixedBatchSpout("shop string, price long", batches) if isinstance(batches, list) else batches
    stream = topology.newStream("sales", spout)
    grouped: Any = stream.groupBy("shop") if group else stream
    output = () if isinstance(how, dict) else ("n",)
    kept = grouped.persistentAggregate(
        state, how or Count(), *output, name="sales", evolve=evolve, initialState=content
    )
    if group:
        asked = topology.newDRPCStream("ask").each("args", str, "shop string")
        asked.stateQuery(kept, "shop", MapGet(), list(how) if isinstance(how, dict) else "n")
    return topology


def priced(batches: Any, state: Any, how: Any, evolve: Any = None, content: Any = None) -> TridentTopology:
    topology = TridentTopology()
    stream = topology.newStream("sales", FixedBatchSpout("shop string, price long", batches)).groupBy("shop")
    stream.persistentAggregate(state, "price", how, "n", name="sales", evolve=evolve, initialState=content)
    return topology


def run(topology: TridentTopology, where: Path) -> dict[Any, Any]:
    with start_local(topology, name="t", checkpointLocation=where) as running:
        running.processAllAvailable(timeout=30)
        return dict(running.state("sales").items())


def plain(values: dict[Any, Any]) -> dict[Any, Any]:
    return {key: tuple(value) for key, value in values.items()}


def stores(folder: Path, server: RedisServer) -> dict[str, Callable[[], Any]]:
    return {
        "memory": MemoryMapState.opaque,
        "redis": lambda: RedisMapState.opaque(server.url, buckets=8),
        "own": lambda: BackingMapState.opaque(functools.partial(SqliteMap, str(folder / "own.db"))),
        "delta": lambda: DeltaMapState.opaque(folder / "tables"),
    }


@pytest.mark.parametrize("home", ["memory", "redis", "own"])
def test_until_the_first_commit_reads_show_the_new_values_and_the_stored_ones_stay(
    home: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    state, checkpoint = stores(tmp_path, shared_redis)[home], tmp_path / "c"
    where: dict[str, Any] = {
        "memory": {"checkpointLocation": checkpoint},
        "redis": {"url": shared_redis.url},
        "own": {"factory": state()},
    }[home]
    run(sales(FIRST, state()), checkpoint)
    migrated = {"a": (2, 200), "b": (1, 100)}
    with start_local(sales(FIRST, state(), BOTH, FROM_COUNT), name="t", checkpointLocation=checkpoint) as running:
        view = running.state("sales")
        assert plain(dict(view.items())) == migrated and view["a"].total == 200 and view.get("z") is None
        assert [tuple(row) for row in running.drpc.execute("ask", "a")] == [("a", "a", 2, 200)]
        with openState("t", "sales", **where) as outside:
            assert outside["a"] == 2
    assert run(sales(FIRST, state()), checkpoint) == {"a": 2, "b": 1}
    assert plain(run(sales(MORE, state(), BOTH, FROM_COUNT), checkpoint)) == {"a": (3, 207), "b": (2, 101), "c": (1, 1)}
    with openState("t", "sales", **where) as outside:
        assert plain(dict(outside.items())) == {"a": (3, 207), "b": (2, 101), "c": (1, 1)}
    assert plain(run(sales(MORE, state(), BOTH), checkpoint)) == {"a": (3, 207), "b": (2, 101), "c": (1, 1)}


@pytest.mark.parametrize("home", ["memory", "redis", "own", "delta"])
def test_values_of_an_aggregate_that_this_program_cannot_combine_become_those_of_another(
    home: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    state, checkpoint = stores(tmp_path, shared_redis)[home], tmp_path / "c"
    run(sales(FIRST, state()), checkpoint)
    evolves = Evolution("long", lambda n: 3 * n, by="Count")
    assert run(priced(FIRST, state(), Max(), evolves), checkpoint) == {"a": 6, "b": 3}
    assert run(priced(MORE, state(), Max(), evolves), checkpoint) == {"a": 7, "b": 3, "c": 1}
    assert run(priced(MORE, state(), Max()), checkpoint) == {"a": 7, "b": 3, "c": 1}


def test_a_reader_that_is_opened_before_the_first_commit_follows_the_former_program(tmp_path: Path) -> None:
    """A store in a former shape that this program cannot combine tells readers of no way to combine it either."""
    state = MemoryMapState.opaque()
    run(sales(FIRST, state), tmp_path)
    assert plain(run(sales(FIRST, state, BOTH, FROM_COUNT), tmp_path)) == {"a": (2, 200), "b": (1, 100)}
    with openState("t", "sales", checkpointLocation=tmp_path) as outside:
        assert outside["a"] == 2
        assert run(sales(MORE, state), tmp_path) == {"a": 3, "b": 2, "c": 1}
        assert dict(outside.items()) == {"a": 3, "b": 2, "c": 1}


@pytest.mark.parametrize("home", ["memory", "redis", "own"])
def test_a_state_whose_creation_a_former_program_began_evolves_no_values_of_this_one(
    home: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    state, checkpoint = stores(tmp_path, shared_redis)[home], tmp_path / "c"

    def ends(point: str) -> None:
        if point == "start.state.created":
            raise KeyboardInterrupt

    crash_points.listen(ends)
    with pytest.raises(KeyboardInterrupt):
        run(sales(FIRST, state()), checkpoint)
    crash_points.listen(None)
    evolves = Evolution("long", lambda n: 100 * n, by="Count")
    for _ in range(2):
        assert run(priced(FIRST, state(), Sum(), evolves), checkpoint) == {"a": 6, "b": 2}
    assert run(priced(MORE, state(), Sum(), evolves), checkpoint) == {"a": 13, "b": 3, "c": 1}


def test_explain_says_what_a_start_would_do_with_each_state(
    tmp_path: Path, shared_redis: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    state = RedisMapState.opaque(shared_redis.url, buckets=8)
    run(sales(FIRST, state), tmp_path)

    def told(how: Any, evolve: Any = None, name: str = "t") -> str:
        topology = sales(MORE, state, how, evolve)
        spare = topology.newStream("more", FixedBatchSpout("shop string", [])).groupBy("shop")
        spare.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="spare", initialState=tmp_path / "x")
        topology.explain(name=name, checkpointLocation=tmp_path)
        text = capsys.readouterr().out
        return text[text.index("a start of") :]

    shapes = (
        "    stored:   (shop string) -> bigint by Count\n"
        "    declared: (shop string) -> struct<n:bigint,total:bigint> by {n: Count, total: Sum}\n"
    )
    begins = "  spare: begins with its initialState\n"
    assert told(BOTH, FROM_COUNT) == (
        f"a start of 't' there\n{begins}"
        f"  sales: changes its values with the first batch, after txid 2\n{shapes}"
        f"    the previous program must have been stopped cleanly (not killed) if the state is in memory\n"
    )
    assert told(BOTH) == (
        f"a start of 't' there\n{begins}"
        f"  sales: is refused: another shape (another value type, one aggregator before, several now)\n{shapes}"
    )
    assert told(None) == f"a start of 't' there\n{begins}  sales: continues at txid 2\n"
    assert told(None, name="u").startswith("a start of 'u' there: begins a new log, because ")
    run(sales(MORE, state, BOTH, FROM_COUNT), tmp_path)
    assert told(BOTH) == f"a start of 't' there\n{begins}  sales: continues at txid 4\n"
    with pytest.raises(
        TopologyError, match="with a location, also pass name=, the name under which the topology starts there"
    ):
        sales(MORE, state).explain(checkpointLocation=tmp_path)


def test_a_value_without_keys_evolves_and_a_second_time(tmp_path: Path) -> None:
    state = MemoryMapState.opaque()
    run(sales(FIRST, state, group=False), tmp_path)
    now = run(sales(MORE, state, BOTH, FROM_COUNT, group=False), tmp_path)
    assert [tuple(value) for value in now.values()] == [(6, 309)]
    third = {**BOTH, "most": Max("price")}
    all_former = [Evolution("long", lambda n: (n, 100 * n, None), by="Count"), Evolution("n long, total long")]
    last = run(sales([*MORE, [("d", 9)]], state, third, all_former, group=False), tmp_path)
    assert [tuple(value) for value in last.values()] == [(7, 318, 9)]


def test_values_that_a_function_takes_away_and_a_time_to_live(tmp_path: Path) -> None:
    state = MemoryMapState.opaque(ttlSecs="1 day")
    run(sales(FIRST, state), tmp_path)
    few = Evolution("long", lambda n: (n, 0) if n > 1 else None, by="Count")
    assert plain(run(sales(MORE, state, BOTH, few), tmp_path)) == {"a": (3, 7), "b": (1, 1), "c": (1, 1)}


def test_a_function_that_fails_refuses_the_start_and_the_former_program_goes_on(tmp_path: Path) -> None:
    state = MemoryMapState.opaque()
    run(sales(FIRST, state), tmp_path)
    failing = Evolution("long", lambda n: (n, 1 // (n - 2)), by="Count")
    with pytest.raises(UserFunctionError, match=r"evolve: <lambda> .*ZeroDivisionError.*the stored 2 \(int\)"):
        run(sales(FIRST, state, BOTH, failing), tmp_path)
    assert run(sales(MORE, state), tmp_path) == {"a": 3, "b": 2, "c": 1}


def test_a_former_shape_that_is_not_the_stored_one_is_refused_with_the_one_that_is(tmp_path: Path) -> None:
    run(sales(FIRST, MemoryMapState.opaque()), tmp_path)
    other = Evolution("long", lambda n: (n, 0), by="Sum")
    with pytest.raises(StateShapeError, match=r"evolve=Evolution\(was='bigint', by='Count', \.\.\.\); or export"):
        run(sales(MORE, MemoryMapState.opaque(), BOTH, other), tmp_path)


def test_a_state_that_lacks_batches_of_an_unknown_aggregator_waits_for_the_former_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver in memory that was killed: its last batches are in the log, and only Count can add them up."""
    state = MemoryMapState.opaque()
    with monkeypatch.context() as patch:
        patch.setattr("trident_state.memory.store.MemoryStore.close", lambda self: None)
        run(sales(FIRST, state), tmp_path)
    with pytest.raises(StateShapeError, match=r"lacks batches up to 2.*Start the previous program once and stop it"):
        run(sales(MORE, state, BOTH, FROM_COUNT), tmp_path)
    run(sales(FIRST, state), tmp_path)
    assert plain(run(sales(MORE, state, BOTH, FROM_COUNT), tmp_path))["a"] == (3, 207)


def test_a_state_that_lacks_batches_gets_them_in_the_former_shape_if_the_program_knows_its_aggregators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = MemoryMapState.opaque()
    with monkeypatch.context() as patch:
        patch.setattr("trident_state.memory.store.MemoryStore.close", lambda self: None)
        run(sales(FIRST, state, {"n": Count()}), tmp_path)
    more = Evolution("n long", add={"total": 1000})
    now = run(sales(MORE, state, BOTH, more), tmp_path)
    assert plain(now) == {"a": (3, 1007), "b": (2, 1001), "c": (1, 1)}


@pytest.mark.parametrize("waits", ["old", "new"])
def test_a_waiting_batch_is_committed_by_the_program_that_froze_it(
    waits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sum and Max have values of one type: only what is frozen with a batch tells whose it is."""
    state, evolve = MemoryMapState.opaque(), Evolution("long", lambda n: -n, by="Sum")

    run(priced(FIRST, state, Sum()), tmp_path)
    with monkeypatch.context() as patch:

        def away(*args: Any) -> None:
            raise StateError("away")

        patch.setattr("trident_state.memory.store.MemoryStore.apply", away)
        with pytest.raises(StateError, match="away"):
            run(priced(MORE, state, Sum()) if waits == "old" else priced(MORE, state, Max(), evolve), tmp_path)
    if waits == "old":
        with pytest.raises(StateShapeError, match=r"batch 3 of group 'sales' is frozen in it but not committed"):
            run(priced(MORE, state, Max(), evolve), tmp_path)
        assert run(priced(MORE, state, Sum()), tmp_path) == {"a": 13, "b": 3, "c": 1}
        assert run(priced(MORE, state, Max(), evolve), tmp_path) == {"a": -13, "b": -3, "c": -1}
    else:
        assert run(priced(MORE, state, Max(), evolve), tmp_path) == {"a": 7, "b": 1, "c": 1}


def test_a_server_that_loses_the_migration_gets_it_again_from_the_log(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    """Heal a state while the topology runs: its values in the new shape are in the log, like a batch."""
    state, rows = RedisMapState.opaque(shared_redis.url, buckets=8), [("a", 1), ("b", 2), ("a", 5)]
    spout = PollingSpout("shop string, price long", {"p": lambda at, limit: (rows[at or 0 :], len(rows))})
    run(sales(spout, state), tmp_path)
    with start_local(sales(spout, state, BOTH, FROM_COUNT), name="t", checkpointLocation=tmp_path) as running:
        rows.append(("a", 7))
        running.processAllAvailable(timeout=30)
        shared_redis.client.flushall()
        rows.append(("b", 1))
        running.processAllAvailable(timeout=30)
        assert plain(dict(running.state("sales").items())) == {"a": (3, 207), "b": (2, 101)}


def test_a_server_that_does_not_answer_while_it_is_emptied_gets_no_batch_in_the_former_shape(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, evolve = RedisMapState.opaque(shared_redis.url, buckets=8), Evolution("long", lambda n: -n, by="Sum")
    run(priced(FIRST, state, Sum()), tmp_path)
    drop, calls = RedisStore.drop, list[str]()

    def failing(self: RedisStore, lease: Any = None) -> None:
        calls.append("drop")
        if len(calls) < 3:
            raise StateUnavailableError("away")
        drop(self, lease)

    monkeypatch.setattr(RedisStore, "drop", failing)
    assert run(priced([*FIRST, [("a", -9), ("b", 0)]], state, Max(), evolve), tmp_path) == {"a": -6, "b": 0}
    assert len(calls) == 3


def test_a_server_that_loses_the_former_values_before_they_are_migrated_says_so(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    state = RedisMapState.opaque(shared_redis.url, buckets=8)
    run(sales(FIRST, state), tmp_path)
    shared_redis.client.flushall()
    with pytest.raises(StateLostError, match="is missing in"):
        run(sales(MORE, state, BOTH, FROM_COUNT), tmp_path)


def test_a_map_that_cannot_be_emptied_does_not_evolve(tmp_path: Path) -> None:
    held: dict[bytes, bytes] = {}
    state = BackingMapState.opaque(lambda identity: LeastMap(held))
    for batches, how, evolve in ((FIRST, None, None), (MORE, BOTH, FROM_COUNT), (MORE, None, None)):
        topology = sales(batches, state, how, evolve)
        if how is not None:
            with pytest.raises(StateError, match="cannot be listed or dropped"):
                start_local(topology, name="t", checkpointLocation=tmp_path)
            continue
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=30)
            assert running.state("sales")["a"] == (2 if batches is FIRST else 3)


@pytest.mark.parametrize("home", ["memory", "redis"])
def test_timers_that_the_former_program_set_fire_in_the_present_one(
    home: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    state, clock = stores(tmp_path, shared_redis)[home](), ManualClock()
    rows, fired = [("a", 1)], list[Any]()
    spout = PollingSpout("shop string, price long", {"p": lambda at, limit: (rows[at or 0 :], len(rows))})
    former = "struct<value:int,timers:array<struct<at:long,name:string>>>"

    def kept(tuple: Any, state: Any) -> None:
        state.put(tuple.shop, state.get(tuple.shop, 0) + tuple.price)
        state.setTimer(tuple.shop, state.now() + datetime.timedelta(hours=1))

    def fires(timer: Any, state: Any) -> None:
        fired.append((timer.key, state.get(timer.key)))

    def timed(valueType: str, evolve: Any = None) -> TridentTopology:
        topology = TridentTopology()
        topology.newStream("sales", spout).statefulEach(
            kept,
            keyFields="shop",
            valueType=valueType,
            stateFactory=state,
            onTimer=fires,
            name="sales",
            evolve=evolve,
        )
        return topology

    for topology in (timed("int"), timed("long", Evolution(former))):
        with start_local(topology, name="t", checkpointLocation=tmp_path, clock=clock) as running:
            running.processAllAvailable(timeout=30)
        clock.advance(1800)
    rows.append(("b", 2**40))
    with start_local(timed("long", Evolution(former)), name="t", checkpointLocation=tmp_path, clock=clock) as running:
        running.processAllAvailable(timeout=30)
        clock.advance(3700)
        rows.append(("c", 1))
        running.processAllAvailable(timeout=30)
        assert dict(running.state("sales").items()) == {"a": 1, "b": 2**40, "c": 1}
    assert fired == [("a", 1), ("b", 2**40)]


@pytest.mark.parametrize("home", ["memory", "redis", "own"])
def test_a_first_content_in_the_place_of_a_batch_that_waits_has_the_former_shape(
    home: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    """The state is dropped, and begins again with the content, before a batch that was frozen is committed."""
    state, batches = stores(tmp_path, shared_redis)[home](), [[("a", 24)]]
    content = pa.table({"shop": ["a", "z"], "n": [100, 7]})
    killed("commit.before", lambda: run(sales(batches, state, content=content), tmp_path))
    dropState("t", "sales", checkpointLocation=tmp_path, factory=state)
    killed("start.done", lambda: run(sales(batches, state, content=content), tmp_path))
    double = Evolution("long", lambda n: 2 * n, by="Count")
    changed = priced([*batches, [("b", 5)]], state, Sum(), double, content)
    with pytest.raises(StateShapeError, match=r"lacks batches up to 1.*Start the previous program once and stop it"):
        run(changed, tmp_path)
    assert run(sales(batches, state, content=content), tmp_path) == {"a": 100, "z": 7}
    assert run(changed, tmp_path) == {"a": 200, "z": 14, "b": 5}


def test_a_batch_that_was_frozen_before_a_drop_stays_out_of_the_state_that_evolves(tmp_path: Path) -> None:
    """The state that began after the drop changes its shape while that batch still waits to be committed."""
    state, batches = MemoryMapState.opaque(), [[("a", 24)]]
    from_sum, from_count = Evolution("long", abs, by="Sum"), Evolution("long", abs, by="Count")
    killed("commit.before", lambda: run(priced(batches, state, Sum()), tmp_path))
    dropState("t", "sales", checkpointLocation=tmp_path)
    killed("commit.before", lambda: run(sales(batches, state, evolve=from_sum), tmp_path))
    now = run(priced([*batches, [("b", 5)]], state, Sum(), from_count), tmp_path)
    assert now == {"b": 5}
    assert run(priced([*batches, [("b", 5)], [("a", 1)]], state, Sum(), from_count), tmp_path) == {"a": 1, "b": 5}
