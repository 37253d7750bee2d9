"""stateQuery(..., asOf="committed"): a stream reads another stream's state without sharing its batches, and what it
found is frozen with the batch, so that a replay finds the same."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trident import Count, MapGet, TridentTopology, TupleCollectionGet
from trident.commits import committer
from trident.errors import CodeChangedError, LogError, StateUnavailableError, TopologyError
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import CRASH_POINTS, DriverCrashedError, TestOutput, crash_at, engines, start_local

pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:state .* is new:RuntimeWarning"),
]
start = engines()
Start = Callable[..., RunningTopology]


def last(state: Any, tuples: list[Any], collector: Any) -> None:
    """Keep the newest price of each item."""
    state.multiPut([t.item for t in tuples], [t.price for t in tuples])


class Shop:
    """Orders that look up the newest price of their item, which another stream brings."""

    def __init__(self, asOf: Any = "committed", function: Any = None, fields: str = "price") -> None:
        self.topology = TridentTopology()
        self.prices = FeederBatchSpout("item string, price long")
        self.orders = FeederBatchSpout("who string, item string")
        stream = self.topology.newStream("prices", self.prices)
        self.state = stream.partitionPersist(
            MemoryMapState.opaque(), last, keyFields="item", valueType="long", name="prices"
        )
        orders = self.topology.newStream("orders", self.orders)
        inputs = [] if isinstance(function, TupleCollectionGet) else ["item"]
        self.priced = orders.stateQuery(self.state, *inputs, function or MapGet(), fields, asOf=asOf)

    def output(self) -> TestOutput:
        output = TestOutput()
        self.priced.foreachArrow(output, name="out")
        return output


def rows(output: TestOutput) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in output.rows]


# --- what is read -----------------------------------------------------------------------------------------------------


def test_the_streams_stay_apart_and_each_batch_sees_the_last_committed_one(start: Start) -> None:
    shop = Shop()
    output = shop.output()
    with start(shop.topology, name="shop") as running:
        shop.orders.feed([("ann", "tea")], wait=True, timeout=60)
        for price in (3, 4):
            shop.prices.feed([("tea", price)], wait=True, timeout=60)
        shop.orders.feed([("bob", "tea"), ("cid", "rum")], wait=True, timeout=60)
        shop.prices.feed([("tea", 5)], wait=True, timeout=60)
        shop.orders.feed([("dan", "tea")], wait=True, timeout=60)
        groups = running.status["groups"]
        assert {name: group["committed"] for name, group in groups.items()} == {"orders": 3, "prices": 3}
    assert rows(output) == [("ann", "tea", None), ("bob", "tea", 4), ("cid", "rum", None), ("dan", "tea", 5)]


class Doubled:
    """A query function of a user's own."""

    def batchRetrieve(self, state: Any, args: Any) -> list[Any]:
        return list(state.multiGet([t.item for t in args]))

    def execute(self, tuple: Any, result: Any, collector: Any) -> None:
        collector.emit([-1 if result is None else 2 * result])


@pytest.mark.parametrize(
    ("function", "fields", "expected"),
    [(Doubled(), "twice long", ("ann", "tea", 6)), (TupleCollectionGet(), "known, price", ("ann", "tea", "tea", 3))],
)
def test_functions_of_ones_own_and_whole_states_may_be_asked(function: Any, fields: str, expected: Any) -> None:
    shop = Shop(function=function, fields=fields)
    output = shop.output()
    with start_local(shop.topology, name="shop"):
        shop.prices.feed([("tea", 3)], wait=True, timeout=20)
        shop.orders.feed([("ann", "tea")], wait=True, timeout=20)
    assert rows(output) == [expected]


def test_what_fails_in_the_asking_stream_does_not_stop_the_other() -> None:
    shop = Shop()

    def broken(*_: Any) -> None:
        raise RuntimeError("no output")

    shop.priced.foreachArrow(broken, name="out")
    running = start_local(shop.topology, name="shop", maxAttempts=1)
    shop.orders.feed([("ann", "tea")])
    shop.prices.feed([("tea", 3)], wait=True, timeout=20)
    while running.status["groups"]["orders"]["isActive"]:
        time.sleep(0.01)
    shop.prices.feed([("tea", 4)], wait=True, timeout=20)
    assert running.state("prices")["tea"] == 4
    running.stop()


def test_a_state_of_the_same_group_is_read_as_the_batch_before_left_it(start: Start) -> None:
    topology, output = TridentTopology(), TestOutput()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a"], ["a"], ["a"]]))
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    words.stateQuery(counts, "word", MapGet(), "before", asOf="committed").foreachArrow(output, name="out")
    with start(topology, name="own") as running:
        running.processAllAvailable(60)
    assert rows(output) == [("a", None), ("a", 1), ("a", 2)]


def test_requests_and_static_states_take_it_too() -> None:
    topology, output = TridentTopology(), TestOutput()
    names = topology.newStaticState({1: "ann"}, keyFields="user long", valueType="string", name="names")
    users = topology.newStream("users", FixedBatchSpout("user long", [[1, 2]]))
    users.stateQuery(names, "user", MapGet(), "name", asOf="committed").foreachArrow(output, name="out")
    topology.newDRPCStream("name", "user long").stateQuery(names, "user", MapGet(), "name", asOf="committed")
    with start_local(topology, name="static") as running:
        running.processAllAvailable(20)
        assert [row.name for row in running.drpc.execute("name", 1)] == ["ann"]
    assert rows(output) == [(1, "ann"), (2, None)]


# --- what a replay finds ----------------------------------------------------------------------------------------------

POINTS = [
    ("commit.stage.before", 1, 9),
    ("commit.stage.frozen", 1, 3),
    ("commit.stage.before", 2, 3),
    ("commit.stage.frozen", 2, 3),
    ("commit.stage.before", 3, 3),
    ("commit.stage.frozen", 3, 3),
    ("commit.states.after", 1, 3),
]
"""A point of the commit of an order, how often it is reached before the price changes there from 3 to 9 and the commit
fails, and the price that the order gets: the new one only if nothing of the answers was frozen yet."""


class Only:
    """A combiner that keeps the one value of a key."""

    outputType = "long"

    def init(self, tuple: Any) -> Any:
        return tuple.price

    def combine(self, one: Any, other: Any) -> Any:
        return other if one is None else one

    def zero(self) -> Any:
        return None


def paid_twice(shop: Shop) -> TestOutput:
    """Let two states of different stages, and an output, keep the price that each order found."""
    memory = MemoryMapState.opaque()
    early = shop.priced.groupBy("who").persistentAggregate(memory, "price", Only(), "early", name="early")
    both = shop.topology.join([shop.priced, early.newValuesStream()], ["who", "who"], "who, item, price, early")
    both.groupBy("who").persistentAggregate(memory, "price", Only(), "late", name="late")
    output = TestOutput()
    both.foreachArrow(output, name="out")
    return output


def changing(shop: Shop, point: str, count: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Change the price when the commit of an order reaches a point for the `count`-th time; then fail the commit."""
    reached: list[str] = []
    reach = committer.reach

    def reach_and_fail(at: str) -> None:
        reach(at)
        if at == point and threading.current_thread().name.startswith("trident-orders-commit"):
            reached.append(at)
            if len(reached) == count:
                shop.prices.feed([("tea", 9)], wait=True, timeout=20)
                raise error

    monkeypatch.setattr(committer, "reach", reach_and_fail)
    return reached


@pytest.mark.parametrize(("point", "count", "price"), POINTS)
def test_a_commit_that_is_repeated_finds_what_the_batch_found(
    point: str, count: int, price: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop()
    output = paid_twice(shop)
    reached = changing(shop, point, count, StateUnavailableError("away for a moment"), monkeypatch)
    with start_local(shop.topology, name="shop") as running:
        shop.prices.feed([("tea", 3)], wait=True, timeout=20)
        shop.orders.feed([("ann", "tea")], wait=True, timeout=20)
        assert dict(running.state("early").items()) == dict(running.state("late").items()) == {"ann": price}
        assert running.state("prices")["tea"] == 9
    assert len(reached) >= count and rows(output) == [("ann", "tea", price, price)]


@pytest.mark.parametrize(("point", "count", "price"), POINTS)
def test_a_driver_that_starts_again_finds_what_the_batch_found(
    tmp_path: Path, point: str, count: int, price: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop()
    paid_twice(shop)
    with monkeypatch.context() as patch:
        changing(shop, point, count, LogError("the driver ends here"), patch)
        running = start_local(shop.topology, name="shop", checkpointLocation=tmp_path)
        shop.prices.feed([("tea", 3)], wait=True, timeout=20)
        shop.orders.feed([("ann", "tea")])
        while running.status["groups"]["orders"]["isActive"]:
            time.sleep(0.01)
        running.stop()
    shop = Shop()
    output = paid_twice(shop)
    with start_local(shop.topology, name="shop", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(20)
        assert dict(running.state("early").items()) == dict(running.state("late").items()) == {"ann": price}
        assert running.state("prices")["tea"] == 9
    assert rows(output) == [("ann", "tea", price, price)]


# --- what a start says ------------------------------------------------------------------------------------------------


def test_a_lookup_that_is_added_is_refused_with_the_way_out_and_the_way_out_starts(tmp_path: Path) -> None:
    def declared(lookup: Any, batches: int) -> TridentTopology:
        topology = TridentTopology()
        prices = topology.newStream("prices", FixedBatchSpout("item string, price long", [[("tea", 3)]]))
        kept = prices.partitionPersist(MemoryMapState.opaque(), last, keyFields="item", valueType="long", name="prices")
        orders = topology.newStream("orders", FixedBatchSpout("item string", [["tea"]] * batches))
        if lookup != "none":
            orders = orders.stateQuery(kept, "item", MapGet(), "price", asOf=lookup)
        orders.foreachArrow(handed, name="out")
        return topology

    handed = TestOutput()

    def started(lookup: Any, batches: int) -> None:
        with start_local(declared(lookup, batches), name="shop", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(20)

    started("none", 3)
    with pytest.raises(CodeChangedError) as refused:
        started(None, 4)
    said = str(refused.value)
    assert "output 'out' had batches up to txid 3 of the batch group 'orders'; it is now in group 'prices'" in said
    assert "or keep its stream separate: with asOf='committed', orders/1:stateQuery(MapGet) (test_committed_qu" in said
    assert "reads state 'prices' without connecting its stream" in said
    started("committed", 4)
    assert [tuple(row) for row in handed.rows][-1] == ("tea", 3)
    assert [batch.txid for batch in handed.batches] == [1, 2, 3, 4]


def test_states_that_a_lookup_would_connect_are_refused_with_the_way_out(tmp_path: Path) -> None:
    def started(lookup: Any) -> None:
        shop = Shop(lookup)
        shop.priced.groupBy("who").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="orders")
        with start_local(shop.topology, name="shop", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(20)

    started("committed")
    with pytest.raises(
        CodeChangedError, match=r"'prices'.*Keep these streams separate: with asOf='committed', orders/1:"
    ):
        started(None)


def test_explain_says_which_streams_share_batches_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    for asOf in (None, "committed"):
        shop = Shop(asOf)
        shop.output()
        shop.topology.explain()
    tied, apart = capsys.readouterr().out.split("stream prices\n")[1:]
    assert (
        "batch group orders: the streams orders, prices share txids, because of orders/1:stateQuery(MapGet), "
        "which asks state prices (asOf='committed' would not connect them)\n" in tied
    )
    assert "batch group orders\n" in apart and "batch group prices\n" in apart
    assert "asks state prices by item as committed" in apart and "answers of prices" in apart


def test_a_lookup_that_is_changed_while_a_batch_waits_is_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop()
    shop.output()
    with monkeypatch.context() as patch:
        changing(shop, "commit.stage.frozen", 1, LogError("the driver ends here"), patch)
        running = start_local(shop.topology, name="shop", checkpointLocation=tmp_path)
        shop.orders.feed([("ann", "tea")])
        while running.status["groups"]["orders"]["isActive"]:
            time.sleep(0.01)
        running.stop()
    shop = Shop(None)
    shop.output()
    with pytest.raises(CodeChangedError, match=r"batch 1 of the batch group 'orders' is frozen but not committed"):
        start_local(shop.topology, name="shop", checkpointLocation=tmp_path)
    shop = Shop()
    output = shop.output()
    with start_local(shop.topology, name="shop", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(20)
    assert rows(output) == [("ann", "tea", None)]  # there was no price yet when the batch looked


def test_another_word_is_refused_and_a_preview_runs_no_query() -> None:
    with pytest.raises(TopologyError, match=r"orders/1:stateQuery\(MapGet\).*: asOf='latest': expected 'committed'"):
        Shop("latest")
    with pytest.raises(TopologyError, match="take"):
        Shop().priced.take(1)


# --- drivers that die -------------------------------------------------------------------------------------------------

BATCHES = 5


def shop_of_batches() -> tuple[TridentTopology, TestOutput]:
    """Return orders that look up a price which changes with every batch of prices, kept by two states and an output."""
    shop = Shop()
    topology = shop.topology = TridentTopology()
    prices = topology.newStream(
        "prices", FixedBatchSpout("item string, price long", [[("tea", n)] for n in range(1, BATCHES + 1)])
    )
    kept = prices.partitionPersist(MemoryMapState.opaque(), last, keyFields="item", valueType="long", name="prices")
    orders = topology.newStream(
        "orders", FixedBatchSpout("who string, item string", [[(f"o{n}", "tea")] for n in range(BATCHES)])
    )
    priced = orders.stateQuery(kept, "item", MapGet(), "found", asOf="committed")
    shop.priced = priced.each("found", lambda found: found or 0, "price long").project("who, item, price")
    return topology, paid_twice(shop)


def run_over_deaths(begin: Start, point: str, folder: Path) -> bool:
    """Run the shop to its end, with a driver that dies at a crash point, and check what is kept. Return if it died."""
    handed: list[tuple[Any, ...]] = []
    died = False
    for life in range(2):
        topology, output = shop_of_batches()
        try:
            with crash_at(point, 2 if life == 0 else 10_000):
                running = begin(topology, name="shop", checkpointLocation=folder)
                try:
                    running.processAllAvailable(60)
                    if life == 1:
                        early, late = (dict(running.state(name).items()) for name in ("early", "late"))
                        assert running.state("prices")["tea"] == BATCHES
                finally:
                    running.stop()
        except DriverCrashedError:
            died = True
        handed += rows(output)
    assert early == late and [*sorted(early)] == [f"o{n}" for n in range(BATCHES)]
    found = [early[f"o{n}"] for n in range(BATCHES)]
    assert found == sorted(found), "a later batch never finds an earlier price"
    assert {*handed} == {(who, "tea", price, price) for who, price in early.items()}
    return died


OTHERS = ("start.", "trim.", "output.staged", "output.published")
"""The points that no batch of this topology meets: those of a start, of a long log, and of Parquet."""


@pytest.mark.parametrize("point", [point for point in CRASH_POINTS if not point.startswith(OTHERS)])
def test_a_driver_that_dies_anywhere_leaves_one_answer_for_each_tuple(tmp_path: Path, point: str) -> None:
    assert run_over_deaths(start_local, point, tmp_path)


@pytest.mark.spark
def test_a_driver_that_dies_on_spark_leaves_one_answer_for_each_tuple(start: Start, tmp_path: Path) -> None:
    assert run_over_deaths(start, "commit.stage.frozen", tmp_path)
