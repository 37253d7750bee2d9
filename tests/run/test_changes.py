"""Streams of changes end to end: states over them are those of a model that keeps whole tables."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.changes import FIELDS, History, applied, expected, found, program
from tests.support.server import RedisServer
from tests.support.soak import some_of
from tests.support.spouts import ReplayingSpout
from trident import Count, Sum, TridentTopology
from trident.errors import BatchFailedError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, SqliteMapState
from trident.testing import CRASH, CRASH_POINTS, FAIL, TestSource, run_through
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")

PLACES = ("memory", "redis", "sqlite")
KINDS = ("opaque", "transactional")


@pytest.fixture
def makes(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], Callable[[], Any]]:
    """Return a function that returns the maker of states of a place and a kind."""

    def maker(place: str, kind: str) -> Callable[[], Any]:
        if place == "memory":
            return getattr(MemoryMapState, kind)  # type: ignore[no-any-return]
        if place == "sqlite":
            return lambda: getattr(SqliteMapState, kind)(tmp_path / "states.sqlite")
        server: RedisServer = request.getfixturevalue("shared_redis")
        return lambda: getattr(RedisMapState, kind)(server.url, buckets=4)

    return maker


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_states_follow_a_table_over_restarts(place: str, kind: str, makes: Any, tmp_path: Path) -> None:
    history, topology, feeder = History(7), TridentTopology(), FeederBatchSpout(FIELDS)
    program(topology, topology.newStream("s", feeder), makes(place, kind))
    for _ in range(4):
        first = len(history.batches)
        history.grow(3)
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            for batch, rows in zip(history.batches[first:], history.after[first:], strict=True):
                feeder.feed(batch, wait=True, timeout=20)
                wanted = expected(rows.values())
                assert found(running, wanted) == wanted


@pytest.mark.parametrize("seed", some_of(range(20), range(2)))
def test_replays_that_differ_change_nothing(seed: int, makes: Any, tmp_path: Path) -> None:
    """An opaque spout cuts the changes otherwise at each attempt, also between the two images of an update."""
    chance, history = Random(seed), History(seed).grow(6)
    rows = [change for batch in history.batches for change in batch]
    failing = {(txid, 0) for txid in range(1, 30) if chance.random() < 0.4}

    def extent(attempt: Any) -> int:
        return Random(f"{seed}/{attempt.txid}/{attempt.attempt}/{attempt.epoch}").randint(1, 7)

    def check(t: Any, failed: set[Any] = set()) -> bool:  # noqa: B006
        if chance.random() < 0.05 and len(failed) < len(failing):
            failed.add(len(failed))
            raise RuntimeError("this attempt fails")
        return True

    place = chance.choice(PLACES)
    for timeout in (0.05, 0.1, 30):
        topology = TridentTopology()
        stream = topology.newStream("s", ReplayingSpout(FIELDS, {"p": rows}, extent)).filter(check)
        program(topology, stream, makes(place, "opaque"))
        with start_local(topology, name=f"r{seed}", checkpointLocation=tmp_path) as running:
            try:
                running.processAllAvailable(timeout=timeout)
            except TimeoutError:
                continue
            wanted = expected(history.rows.values())
            assert found(running, wanted) == wanted


@pytest.mark.parametrize("point", [point for point in CRASH_POINTS if point.startswith(("freeze", "commit"))])
def test_a_driver_that_dies_anywhere_counts_each_change_once(point: str, tmp_path: Path) -> None:
    history, topology = History(3).grow(5), TridentTopology()
    one, two, three, four, five = history.batches
    script = [one, FAIL, two, CRASH.at(point), three, CRASH, four, five]
    program(topology, topology.newStream("s", TestSource(FIELDS, script)), MemoryMapState.opaque)
    with run_through(topology, checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        wanted = expected(history.rows.values())
        assert found(running, wanted) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_the_changes_of_a_state_lead_from_each_batch_to_the_next(kind: str, makes: Any, tmp_path: Path) -> None:
    history, topology = History(11).grow(8), TridentTopology()
    changes = topology.newStream("s", FixedBatchSpout(FIELDS, history.batches)).asChanges("kind")
    make, given = makes("memory", kind), dict[str, dict[int, list[Any]]]()
    states = {
        "rows": changes.toTable("id", make(), name="rows"),
        "sizes": changes.groupBy("g").persistentAggregate(make(), Count(), "n", name="sizes"),
    }
    for name, state in states.items():
        at = given.setdefault(name, {})
        state.changes().foreachArrow(partial(_note, at), name=name)
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    now: dict[str, dict[Any, Any]] = {"rows": {}, "sizes": {}}
    for txid, rows in enumerate(history.after, 1):
        now["rows"] = applied(now["rows"], given["rows"].get(txid, []), "id")
        now["sizes"] = applied(now["sizes"], given["sizes"].get(txid, []), "g")
        wanted = expected(rows.values())
        assert {key: (row["g"], row["v"]) for key, row in now["rows"].items()} == wanted["rows"]
        assert {key: row["n"] for key, row in now["sizes"].items()} == wanted["sizes"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", some_of(range(12), range(2)))
def test_a_join_of_two_tables_is_that_of_their_rows_now(seed: int, place: str, makes: Any, tmp_path: Path) -> None:
    one, two, topology, make = History(seed), History(seed + 100), TridentTopology(), makes(place, "opaque")
    feeders = FeederBatchSpout(FIELDS), FeederBatchSpout(FIELDS)
    left, right = (
        topology.newStream(name, feeder).asChanges("kind").toTable("id", make(), name=f"table_{name}")
        for name, feeder in zip("ab", feeders, strict=True)
    )
    for how in ("inner", "left"):
        left.join(right, joinType=how, outputFields="h, w").toTable("id", make(), name=how)
    left.join(left, outputFields="h, w").toTable("id", make(), name="self")
    for _ in range(3):  # with a restart between
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            for _ in range(2):
                for history, feeder in zip((one, two), feeders, strict=True):
                    feeder.feed(history.grow(1).batches[-1], wait=True, timeout=20)
            joined = {key: (*row[1:], *two.rows[key][1:]) for key, row in one.rows.items() if key in two.rows}
            alone = {key: (*row[1:], None, None) for key, row in one.rows.items()}
            itself = {key: (*row[1:], *row[1:]) for key, row in one.rows.items()}
            assert found(running, ["inner", "left", "self"]) == {
                "inner": joined,
                "left": alone | joined,
                "self": itself,
            }


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", some_of(range(12), range(2)))
def test_a_join_by_a_foreign_key_is_that_of_the_rows_now(seed: int, place: str, makes: Any, tmp_path: Path) -> None:
    orders, groups, topology, make = History(seed), History(seed + 100), TridentTopology(), makes(place, "opaque")
    feeders = FeederBatchSpout(FIELDS), FeederBatchSpout(FIELDS)
    left = topology.newStream("a", feeders[0]).asChanges("kind").toTable("id", make(), name="orders")
    other = topology.newStream("b", feeders[1]).asChanges("kind")
    by_name = other.groupBy("g").persistentAggregate(make(), {"n": Count(), "total": Sum("v")}, name="groups")
    rows = other.toTable("id", make(), name="rows")
    for how in ("inner", "left"):
        joined = left.join(by_name, "g", how)
        joined.toTable("id", make(), name=how)
        joined.groupBy("n").persistentAggregate(make(), Count(), "orders", name=f"{how}.by_n")
    left.join(rows, "v", outputFields="h, w").toTable("id", make(), name="values")
    left.join(left, "v", outputFields="h, w").toTable("id", make(), name="self")
    for _ in range(3):  # with a restart between
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            for _ in range(2):
                for history, feeder in zip((orders, groups), feeders, strict=True):
                    feeder.feed(history.grow(1).batches[-1], wait=True, timeout=20)
            of_group: dict[Any, tuple[Any, ...]] = {}
            for _, g, v in groups.rows.values():
                n, total = of_group.get(g, (0, 0))
                of_group[g] = (n + 1, total + (v or 0))
            of_group.pop(None, None)  # a null refers to nothing
            inner = {key: (g, v, *of_group[g]) for key, g, v in orders.rows.values() if g in of_group}
            left_rows = {key: (g, v, *of_group.get(g, (None, None))) for key, g, v in orders.rows.values()}
            wanted: dict[str, Any] = {
                "inner": inner,
                "left": left_rows,
                "inner.by_n": dict(Counter(row[2] for row in inner.values())),
                "left.by_n": dict(Counter(row[2] for row in left_rows.values())),
            }
            for name, them in (("values", groups.rows), ("self", orders.rows)):
                wanted[name] = {key: (g, v, *them[v][1:]) for key, g, v in orders.rows.values() if v in them}
            assert found(running, wanted) == wanted


def test_rows_of_a_table_may_exchange_the_keys_of_another(tmp_path: Path) -> None:
    """The changes of a table come in the order of its keys, so a key may be added before its former row leaves."""
    topology, chance = TridentTopology(), Random(5)
    feeder = FeederBatchSpout("id long, seat long, kind string")
    table = topology.newStream("s", feeder).asChanges("kind").toTable("id", name="table")
    kept = table.changes().filter("id", lambda each: each != 3)
    kept.map(lambda t: (t.seat, t.id), outputFields="at long, who long").toTable("at", name="seats")
    table.join(table, outputFields="same").toTable("seat", valueFields="id", name="joined")
    seats = dict(zip(range(8), range(8), strict=True))
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        feeder.feed([(key, seat, "insert") for key, seat in seats.items()], wait=True, timeout=20)
        for _ in range(6):
            moved = chance.sample(sorted(seats), 4)
            now = dict(zip(moved, chance.sample([seats[key] for key in moved], 4), strict=True))
            images = [((key, seats[key], "update_preimage"), (key, now[key], "update_postimage")) for key in moved]
            feeder.feed([image for pair in images for image in pair], wait=True, timeout=20)
            seats |= now
            at = {seat: key for key, seat in seats.items()}
            assert found(running, ["seats", "joined"]) == {
                "seats": {seat: (key,) for seat, key in at.items() if key != 3},
                "joined": {seat: (key,) for seat, key in at.items()},
            }


def _note(at: dict[int, list[Any]], batch: Any, txid: int, attempt: int) -> None:
    at[txid] = batch.to_pylist()


def test_an_aggregate_of_an_aggregate_counts_each_key_once(tmp_path: Path) -> None:
    """newValuesStream would count a key again at each change of its value."""
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a", "b"], ["a", "c"], ["a", "b"]]))
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    having = counts.changes().groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "k", name="having")
    total = counts.changes().persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "total", name="total")
    assert having.name == "having" and total.name == "total"
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("having").items()) == {1: 1, 2: 1, 3: 1}
        assert dict(running.state("total").items()) == {(): 6}


def test_an_update_that_enters_or_leaves_a_filter_is_an_insert_or_a_delete(tmp_path: Path) -> None:
    topology, seen = TridentTopology(), list[Any]()
    images = [(1, 9, "insert"), (1, 9, "update_preimage"), (1, 2, "update_postimage")]
    images += [(1, 2, "update_preimage"), (1, 8, "update_postimage"), (1, 8, "delete"), (2, 1, "insert")]
    stream = topology.newStream("s", FixedBatchSpout("id long, v long, kind string", [images]))
    large = stream.asChanges("kind").filter("v", lambda v: v > 5)
    large.foreachArrow(lambda batch, txid, attempt: seen.extend(batch.to_pylist()))
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
    assert [(row["v"], row["_change_type"]) for row in seen] == [
        (9, "insert"),
        (9, "delete"),
        (8, "insert"),
        (8, "delete"),
    ]


def test_an_update_that_goes_to_another_stream_of_a_split_leaves_the_first_one(tmp_path: Path) -> None:
    history, topology = History(13).grow(8), TridentTopology()

    def by_group(t: Any) -> Any:
        if t.g is not None:
            yield "grouped", (t.id, t.g)
            yield "all", t.v
        yield "all", t.v

    changes = topology.newStream("s", FixedBatchSpout(FIELDS, history.batches)).asChanges("kind")
    parts = changes.split(by_group, streams={"grouped": "id long, name string", "all": "v long"})
    parts.grouped.toTable("id", name="names")
    parts.all.persistentAggregate(MemoryMapState.opaque(), {"n": Count(), "v": Sum("v")}, name="sum")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        rows = history.rows.values()
        assert found(running, ["names", "sum"]) == {
            "names": {key: (g,) for key, g, _ in rows if g is not None},
            "sum": {
                (): (
                    sum(1 + (g is not None) for _, g, _ in rows),
                    sum((v or 0) * (1 + (g is not None)) for _, g, v in rows),
                )
            },
        }


@pytest.mark.parametrize(("kind", "wrap"), [("double", lambda value: value), ("array<double>", lambda value: [value])])
def test_the_two_zeros_are_two_values_of_a_row(kind: str, wrap: Any, tmp_path: Path) -> None:
    """A function may tell them apart, so the row that a change takes away must be the one that was added."""
    zero, below = wrap(0.0), wrap(-0.0)
    batches = [[(1, zero, "insert")], [(1, zero, "update_preimage"), (1, below, "update_postimage")]]
    topology = TridentTopology()
    rows = topology.newStream(
        "s", FixedBatchSpout(f"id long, v {kind}, kind string", [*batches, [(1, below, "delete")]])
    )
    table = rows.asChanges("kind").toTable("id", name="table")
    texts = table.changes().each("v", lambda value: repr(value), "text string").groupBy("text")
    texts.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == {}


@pytest.mark.parametrize("kind", ["double", "struct<x: double>"])
def test_the_two_zeros_are_one_key_of_a_table(kind: str, tmp_path: Path) -> None:
    """A row that came with one of them is taken away under the same one, which a function may tell apart."""
    zero, below = (0.0, -0.0) if kind == "double" else ((0.0,), (-0.0,))
    batches = [[(below, 1, "insert")], [(zero, 2, "insert")], [(below, 3, "insert")], [(zero, 3, "delete")]]
    topology = TridentTopology()
    rows = topology.newStream("s", FixedBatchSpout(f"id {kind}, v long, kind string", batches)).asChanges("kind")
    texts = rows.toTable("id", name="table").changes().each("id", lambda key: repr(key), "text string").groupBy("text")
    texts.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == {}


def test_a_deletion_of_an_unknown_row_waits_for_its_insertion(tmp_path: Path) -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout("g string, v long, kind string")
    changes = topology.newStream("s", feeder).asChanges("kind")
    changes.groupBy("g").persistentAggregate(MemoryMapState.opaque(), "v", Sum(), "v", name="sums")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        feeder.feed([("a", 3, "delete")], wait=True, timeout=20)
        assert running.state("sums").get("a") is None
        feeder.feed([("a", 3, "insert"), ("a", 4, "insert")], wait=True, timeout=20)
        assert dict(running.state("sums").items()) == {"a": 4}


def test_an_unknown_kind_fails_its_batch_and_says_what_is_accepted(tmp_path: Path) -> None:
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout("v long, op string", [[(1, "c"), (2, "x")]]))
    changes = stream.asChanges("op", {"c": "insert", "d": "delete"})
    changes.persistentAggregate(MemoryMapState.opaque(), "v", Sum(), "v", name="sum")
    with (
        pytest.raises(BatchFailedError, match="'op' holds 'x', which is not a kind of change; expected 'c', 'd'"),
        start_local(topology, name="t", checkpointLocation=tmp_path, maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=20)


def test_a_tuple_of_an_unknown_kind_may_become_a_dead_letter(tmp_path: Path) -> None:
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout("v long, op string", [[(1, "c"), (2, "x"), (3, None)]]))
    changes = stream.asChanges("op", {"c": "insert", "d": "delete"}, onError="deadLetter")
    changes.persistentAggregate(MemoryMapState.opaque(), "v", Sum(), "v", name="sum")
    letters = list[Any]()
    changes.deadLetters().foreachArrow(lambda batch, txid, attempt: letters.extend(batch.to_pylist()))
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("sum").items()) == {(): 1}
    assert len(letters) == 2
