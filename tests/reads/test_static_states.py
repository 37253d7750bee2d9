"""States that a topology only reads: given entries, a user's own object, and what another topology writes."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident import Count, MapGet, SnapshotGet, Sum, TridentTopology, TupleCollectionGet
from trident.base.errors import (
    SnapshotMovedError,
    StateError,
    StateKeyError,
    StateShapeError,
    StateValueError,
    UserFunctionError,
)
from trident.reads.static_states import ForeignState
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local

IDLE = FixedBatchSpout("n long", [[1]])


pytestmark = pytest.mark.usefixtures("nothing_left_running")


def asking(topology: TridentTopology) -> TridentTopology:
    """With a stream to run, which a topology needs."""
    topology.newStream("s", IDLE).persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    return topology


def answers(topology: TridentTopology, function: str, *args: Any) -> list[tuple[Any, ...]]:
    with start_local(asking(topology), name="reader") as running:
        running.processAllAvailable(timeout=20)
        found = running.drpc.execute(function, *args)
        assert found.asOfTxid is None, "no batch of ours is read"
        return [tuple(row) for row in found]


def test_reach_over_two_given_maps() -> None:
    """Trident's own example: how many people see a link, by who tweeted it and who follows them."""
    tweeters = {"/a": ["sally", "bob", "tim"], "/b": ["bob"]}
    followers = {"sally": ["bob", "tim", "ann"], "bob": ["sally", "ann"], "tim": ["ann"]}
    topology = TridentTopology()
    who = topology.newStaticState(tweeters, keyFields="url string", valueType="array<string>", name="tweeters")
    whom = topology.newStaticState(followers, keyFields="user string", valueType="array<string>", name="followers")
    (
        topology.newDRPCStream("reach", "url string")
        .stateQuery(who, "url", MapGet(), "tweeters")
        .flatMap("tweeters", lambda users: users, "tweeter string")
        .stateQuery(whom, "tweeter", MapGet(), "followers")
        .flatMap("followers", lambda users: users, "follower string")
        .groupBy("follower")
        .aggregate(Count(), "times")
        .aggregate(Count(), "reach")
    )
    with start_local(asking(topology), name="reach") as running:
        running.processAllAvailable(timeout=20)
        assert [row.reach for row in running.drpc.execute("reach", "/a")] == [4]
        assert [row.reach for row in running.drpc.execute("reach", "/b")] == [2]


def test_given_entries_meet_keys_as_spark_groups_them() -> None:
    topology = TridentTopology()
    entries = {(0.0, True): 1, (float("nan"), None): 2}
    known = topology.newStaticState(entries, keyFields="x double, y boolean", valueType="long", name="known")
    topology.newDRPCStream("ask", "x double, y boolean").stateQuery(known, MapGet(), "n")
    topology.newDRPCStream("all", "z long").stateQuery(known, TupleCollectionGet(), "x, y, n").project("n")
    with start_local(asking(topology), name="reader") as running:
        for x, y, n in ((-0.0, True, 1), (float("nan"), None, 2), (0.0, None, None), (None, True, None)):
            assert [row.n for row in running.drpc.execute("ask", x, y)] == [n]
        assert sorted(row.n for row in running.drpc.execute("all", 0)) == [1, 2]


def test_an_object_of_a_users_own_is_asked_once_a_request_and_batch() -> None:
    calls: list[Any] = []

    class Prices:
        keyFields = "item string, day date"
        valueType = "decimal(6,2)"

        def multiGet(self, keys: list[tuple[str, Any]]) -> list[Any]:
            calls.append(keys)
            return [None for _ in keys]

    class Rate:
        valueType = "double"

        def get(self) -> float:
            return 1.25

    topology = TridentTopology()
    prices, rate = topology.newStaticState(Prices(), name="p"), topology.newStaticState(Rate(), name="r")
    asked = topology.newDRPCStream("ask", "item string, day date").stateQuery(prices, MapGet(), "price")
    asked.stateQuery(rate, SnapshotGet(), "rate")
    assert answers(topology, "ask", "pen", None) == [("pen", None, None, 1.25)]
    assert calls == [[("pen", None)]]


def test_an_object_that_gives_what_was_not_declared_is_refused() -> None:
    class Wrong:
        keyFields = "n long"
        valueType = "long"

        def multiGet(self, keys: list[int]) -> list[Any]:
            return ["one"] if keys == [1] else []

    topology = TridentTopology()
    known = topology.newStaticState(Wrong(), name="known")
    topology.newDRPCStream("ask", "n long").stateQuery(known, MapGet(), "x")
    with start_local(asking(topology), name="reader") as running:
        with pytest.raises(
            StateValueError, match=r"static state 'known' holds values of type bigint, not 'one' \(str\)"
        ):
            running.drpc.execute("ask", 1)
        with pytest.raises(StateValueError, match="multiGet returned 0 values for 1 keys"):
            running.drpc.execute("ask", 2)


@pytest.mark.parametrize(
    ("entries", "error", "message"),
    [
        ({"a": 1}, StateKeyError, r"invalid key 'a' \(str\): 'n' is bigint"),
        ({1: "x"}, StateValueError, r"holds values of type bigint, not 'x' \(str\)"),
    ],
)
def test_entries_of_another_type_are_refused_at_the_start(entries: Any, error: type[Exception], message: str) -> None:
    topology = TridentTopology()
    known = topology.newStaticState(entries, keyFields="n long", valueType="long", name="known")
    topology.newDRPCStream("ask", "n long").stateQuery(known, MapGet(), "x")
    with pytest.raises(error, match="static state 'known'.*" + message):
        start_local(asking(topology), name="reader")


def test_a_batch_asks_a_static_state_and_what_it_found_is_counted_once(tmp_path: Path) -> None:
    topology = TridentTopology()
    known = topology.newStaticState(
        {"x": "letter", "1": "digit"}, keyFields="c string", valueType="string", name="known"
    )
    rows = topology.newStream("s", FixedBatchSpout("c string", [["x", "1", "?"], ["x"]]))
    kinds = rows.stateQuery(known, "c", MapGet(), "kind").groupBy("kind")
    kinds.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="kinds")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("kinds").items()) == {"letter": 2, "digit": 1, None: 1}


# --- another topology's ---------------------------------------------------------------------------------------------


def written(url: str, spout: Any, groups: int = 1) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", spout)
    state = RedisMapState.opaque(url, buckets=16, groups=groups)
    words.groupBy("word").persistentAggregate(state, "n", Sum(), "sum", name="sums")
    return topology


def reading(url: str, valueType: str = "long", name: str = "sums", groups: int = 1) -> TridentTopology:
    topology = TridentTopology()
    state = RedisMapState.opaque(url, buckets=16, groups=groups)
    sums = topology.newStaticState(state, keyFields="word string", valueType=valueType, name=name, topology="writer")
    topology.newDRPCStream("ask", "word string").stateQuery(sums, MapGet(), "sum").project("sum")
    topology.newDRPCStream("all", "x long").stateQuery(sums, TupleCollectionGet(), "word, sum").project("word, sum")
    return asking(topology)


def test_another_topologys_state_is_read_in_whole_batches_while_it_is_written(
    shared_redis: RedisServer, tmp_path: Path
) -> None:
    """Every batch adds 1 to two words: whoever reads both in one request finds them equal, over two hash-tag groups."""
    spout = FeederBatchSpout("word string, n long")
    pairs = [(f"w{n}", 1) for n in range(40)]
    writer = start_local(written(shared_redis.url, spout, groups=2), name="writer", checkpointLocation=tmp_path)
    spout.feed(pairs, wait=True, timeout=20)
    over = threading.Event()

    def feed() -> None:
        while not over.is_set():
            spout.feed(pairs, wait=True, timeout=20)

    feeding = threading.Thread(target=feed)
    with writer, start_local(reading(shared_redis.url, groups=2), name="reader") as reader:
        feeding.start()
        try:
            last = 0
            for _ in range(100):
                found = {row["sum"] for row in reader.drpc.execute("all", 0)}
                assert len(found) == 1, f"half a batch: {found}"
                assert last <= max(found), "back in time"
                last = max(found)
        finally:
            over.set()
            feeding.join()
        assert last > 1
    with start_local(reading(shared_redis.url, groups=2), name="reader") as reader:
        assert [row["sum"] for row in reader.drpc.execute("ask", "w7")] == [spout._batches.committed], (
            "its writer has stopped"
        )


def test_a_batch_asks_again_where_another_topologys_state_was_written_too_fast(
    shared_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spout = FixedBatchSpout("word string, n long", [[("a", 7)]])
    with start_local(written(shared_redis.url, spout), name="writer", checkpointLocation=tmp_path) as writer:
        writer.processAllAvailable(timeout=20)
    topology = TridentTopology()
    state = RedisMapState.opaque(shared_redis.url)
    sums = topology.newStaticState(state, keyFields="word string", valueType="long", name="sums", topology="writer")
    words = topology.newStream("words", FixedBatchSpout("word string", [["a", "a"]]))
    found = words.stateQuery(sums, "word", MapGet(), "sum").groupBy("word")
    found.persistentAggregate(MemoryMapState.opaque(), "sum", Sum(), "total", name="totals")
    real, tries = ForeignState._as_of, list[int]()

    def moved(self: ForeignState, read: Any) -> Any:
        tries.append(1)
        if len(tries) <= 3:
            raise SnapshotMovedError("state 'sums' stands at 9 already")
        return real(self, read)

    monkeypatch.setattr(ForeignState, "_as_of", moved)
    with start_local(topology, name="reader") as reader:
        reader.processAllAvailable(timeout=20)
        assert dict(reader.state("totals").items()) == {"a": 14} and len(tries) == 4


def test_a_state_that_is_not_there_or_holds_something_else_is_refused_at_the_start(
    shared_redis: RedisServer, tmp_path: Path
) -> None:
    with start_local(
        written(shared_redis.url, FixedBatchSpout("word string, n long", [[("a", 1)]])),
        name="writer",
        checkpointLocation=tmp_path,
    ) as writer:
        writer.processAllAvailable(timeout=20)
    with pytest.raises(StateError, match=r"topology 'writer' has no state 'sum' in RedisMapState.*correct the names"):
        start_local(reading(shared_redis.url, name="sum"), name="reader")
    with pytest.raises(
        StateShapeError, match=r"'sums' of topology 'writer' holds \(word string\) -> bigint but is declared as"
    ):
        start_local(reading(shared_redis.url, valueType="string"), name="reader")
    assert start_local(reading(shared_redis.url), name="reader").drpc.execute("ask", "a")[0]["sum"] == 1


def test_a_query_function_of_a_users_own_asks_what_it_likes() -> None:
    class Both:
        outputType = "long, long"

        def batchRetrieve(self, state: Any, args: Any) -> Any:
            found = state.multiGet([arg.low for arg in args] + [arg.high for arg in args])
            return list(zip(found[: len(args)], found[len(args) :], strict=True))

        def execute(self, tuple: Any, result: Any, collector: Any) -> None:
            if None not in result:
                collector.emit(list(result))

    class TooFew(Both):
        def batchRetrieve(self, state: Any, args: Any) -> Any:
            return []

    topology = TridentTopology()
    known = topology.newStaticState({1: 10, 2: 20}, keyFields="n long", valueType="long", name="known")
    topology.newDRPCStream("both", "low long, high long").stateQuery(known, "low, high", Both(), "a, b").project("a, b")
    topology.newDRPCStream("few", "low long, high long").stateQuery(known, "low, high", TooFew(), "a, b")
    with start_local(asking(topology), name="reader") as running:
        assert [tuple(row) for row in running.drpc.execute("both", 1, 2)] == [(10, 20)]
        assert running.drpc.execute("both", 1, 3) == []
        with pytest.raises(
            UserFunctionError, match="returned 0 results for 1 tuples; batchRetrieve must return one for each"
        ):
            running.drpc.execute("few", 1, 2)
