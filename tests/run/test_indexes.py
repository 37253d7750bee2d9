"""Indexes of states by a field: each read by a field finds the rows that a filter of the whole state finds."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.state.backing.maps import LeastMap
from tests.support.changes import FIELDS, History
from tests.support.indexed_states import PLACES, Make, check, check_rows, ids_of, tables
from tests.support.indexed_states import make as make
from tests.support.postgres_fixtures import postgres as postgres
from tests.support.soak import some_of
from tests.support.spouts import ReplayingSpout
from trident import (
    Average,
    Count,
    IndexGet,
    Last,
    TridentTopology,
    lit,
    openState,
    openTopology,
)
from trident.base import crash_points
from trident.errors import StateKeyError, TopologyError, TxidNotKeptError
from trident.reads.state_view import StateView
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import (
    BackingMapState,
    MemoryMapState,
)
from trident.testing import CRASH, CRASH_POINTS, FAIL, TestSource, run_through
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["opaque", "transactional"])
def test_each_store_finds_the_rows_of_the_batch_and_of_the_one_before(
    place: str, kind: str, make: Make, tmp_path: Path
) -> None:
    history, topology, feeder, state = History(5), TridentTopology(), FeederBatchSpout(FIELDS), make(f"{place} {kind}")
    tables(topology, feeder, state)
    for _ in range(2):  # with a restart between
        with start_local(topology, name=f"on.{place}.{kind}", checkpointLocation=tmp_path / "log") as running:
            for _ in range(2):
                feeder.feed(history.grow(1, 20).batches[-1], wait=True, timeout=20)
                check(running.state, history.rows)
                if len(history.after) > 1:
                    check(lambda name: running.state(name, asOf="previous"), history.after[-2])
                    check(lambda name: running.state(name).asOf(len(history.after) - 1), history.after[-2])


class WeighedMap(LeastMap):
    """A map that knows how many bytes the last write had."""

    def __init__(self, identity: Any, maps: "dict[str, WeighedMap]") -> None:
        super().__init__({})
        self.weight = 0
        maps[identity.name] = self

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        self.weight = max(self.weight, sum(map(len, values)))
        super().multiPut(keys, values)


def test_a_change_costs_the_same_however_many_rows_share_its_value(tmp_path: Path) -> None:
    written = list[int]()
    for shared in (8_000, 32_000):
        maps, topology, feeder = dict[str, WeighedMap](), TridentTopology(), FeederBatchSpout("id long, g string")
        state = BackingMapState.opaque(partial(WeighedMap, maps=maps))
        topology.newStream("s", feeder).toTable("id", state, name="rows", index="g")
        with start_local(topology, name="t", checkpointLocation=tmp_path / str(shared)) as running:
            feeder.feed([(key, "a") for key in range(shared)], wait=True, timeout=20)
            maps["rows.by.g"].weight = 0
            feeder.feed(
                [(key, "b" if key < 5 else "a") for key in (0, 1, 2, shared, shared + 1)], wait=True, timeout=20
            )
            running.processAllAvailable(timeout=20)
            assert len(running.state("rows").by("g", "a")) == shared - 1
        written.append(maps["rows.by.g"].weight)
    assert written[1] < 1.5 * written[0] < 100_000


@pytest.mark.parametrize("seed", some_of(range(20), range(2)))
def test_replays_that_differ_change_nothing(seed: int, make: Make, tmp_path: Path) -> None:
    """An opaque spout cuts the changes otherwise at each attempt, and attempts fail."""
    chance, history = Random(seed), History(seed).grow(6)
    changes = [change for batch in history.batches for change in batch]
    failures = iter(range(4))

    def extent(attempt: Any) -> int:
        return Random(f"{seed}/{attempt.txid}/{attempt.attempt}/{attempt.epoch}").randint(1, 7)

    def sometimes(t: Any) -> bool:
        if chance.random() < 0.05 and next(failures, None) is not None:
            raise RuntimeError("this attempt fails")
        return True

    topology, state = TridentTopology(), make(f"{chance.choice(PLACES[:3])} opaque")
    stream = topology.newStream("s", ReplayingSpout(FIELDS, {"p": changes}, extent)).filter(sometimes)
    stream.asChanges("kind").toTable("id", state, name="rows", index=["g", "v", ("v", "g")])
    stream.asChanges("kind").groupBy("v").persistentAggregate(state, Count(), "n", name="counts", index="n")
    with start_local(topology, name=f"r{seed}", checkpointLocation=tmp_path / "log") as running:
        running.processAllAvailable(timeout=30)
        check(running.state, history.rows)


@pytest.mark.parametrize("point", [point for point in CRASH_POINTS if point.startswith(("freeze", "commit"))])
def test_a_driver_that_dies_anywhere_leaves_index_and_state_together(point: str, tmp_path: Path) -> None:
    history, topology = History(3).grow(5), TridentTopology()
    one, two, three, four, five = history.batches
    script = [one, FAIL, two, CRASH.at(point), three, CRASH, four, five]
    tables(topology, TestSource(FIELDS, script), MemoryMapState.opaque())
    with run_through(topology, checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        check(running.state, history.rows)


@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_readers_outside_find_the_rows_of_one_txid(place: str, make: Make, tmp_path: Path) -> None:
    history, topology, feeder, state = History(9), TridentTopology(), FeederBatchSpout(FIELDS), make(f"{place} opaque")
    tables(topology, feeder, state)

    opened = {
        "memory": lambda: openState("t", "rows", tmp_path / "log"),
        "sqlite": lambda: openState("t", "rows", factory=state),
    }
    with start_local(topology, name="t", checkpointLocation=tmp_path / "log") as running:
        feeder.feed(history.grow(1).batches[-1], wait=True, timeout=20)
        with (
            openTopology(topology, name="t", checkpointLocation=tmp_path / "log") as reader,
            opened[place]() as rows,
        ):
            for _ in range(4):
                feeder.feed(history.grow(1).batches[-1], wait=True, timeout=20)
                running.processAllAvailable(timeout=20)
                check_rows(rows, history.rows)
                while reader.asOfTxid["s"] < len(history.after):
                    pass
                check(reader.state, history.rows)


def test_a_reader_outside_takes_the_batch_that_the_index_has_too(make: Make, tmp_path: Path) -> None:
    """A batch is written to the rows first, then to the index; batch t moves all rows to the group t."""
    topology, feeder, state = TridentTopology(), FeederBatchSpout("id long, g long"), make("sqlite opaque")
    topology.newStream("s", feeder).toTable("id", state, name="rows", index="g")
    seen = list[tuple[int | None, int]]()

    def between(point: str) -> None:
        if point == "commit.state.after":
            with openState("t", "rows", factory=state) as rows:
                for group in (1, 2, 3):
                    found = rows.by("g", group)
                    assert found == ([(7, (group,))] if found.asOfTxid == group else [])
                    seen.append((found.asOfTxid, rows.asOfTxid or 0))

    with start_local(topology, name="t", checkpointLocation=tmp_path / "log") as running:
        feeder.feed([(7, 1)], wait=True, timeout=20)
        crash_points.listen(between)
        try:
            for group in (2, 3):
                feeder.feed([(7, group)], wait=True, timeout=20)
        finally:
            crash_points.listen(None)
        running.processAllAvailable(timeout=20)
    assert {(1, 2), (2, 2), (2, 3), (3, 3)} == set(seen)


@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_each_read_beside_commits_is_as_of_one_txid(place: str, make: Make, tmp_path: Path) -> None:
    """Batch t moves all rows to the group t, so a reader that mixed two batches would find none, or other ones."""
    topology, feeder = TridentTopology(), FeederBatchSpout("id long, g long")
    topology.newStream("s", feeder).toTable("id", make(f"{place} opaque"), name="rows", index="g")
    over, txid = threading.Event(), 1

    def feed() -> None:
        nonlocal txid
        while not over.is_set():
            feeder.feed([(key, txid + 1) for key in range(20)], wait=True, timeout=20)
            txid += 1

    with start_local(topology, name="t", checkpointLocation=tmp_path / "log") as running:
        feeder.feed([(key, 1) for key in range(20)], wait=True, timeout=20)
        feeding = threading.Thread(target=feed)
        feeding.start()
        seen = 0
        try:
            view = running.state("rows")
            while txid <= 12:
                found = view.by("g", txid)
                assert found in ([], [(key, (found.asOfTxid,)) for key in range(20)])
                seen += bool(found)
        finally:
            over.set()
            feeding.join()
    assert seen > 10


def test_a_stream_and_a_request_find_rows_by_a_field(tmp_path: Path) -> None:
    topology, asked, seen = TridentTopology(), FeederBatchSpout("place string"), list[Any]()
    feeder = FeederBatchSpout("country string, id long, name string, city string")
    users = topology.newStream("users", feeder).toTable(["country", "id"], name="users", index=["city", "name"])
    query = topology.newDRPCStream("living", "place string")
    query.stateQuery(users, "place", IndexGet("city"), "country, id, name").project("country, id, name")
    batches = topology.newStream("asked", asked).stateQuery(users, IndexGet("city"), "land, number, whole")
    batches.foreachArrow(lambda batch, txid, attempt: seen.extend(batch.to_pylist()))
    counted = topology.newDRPCStream("named", "name string")
    counted.stateQuery(users, "name", IndexGet(["name"]), "country, id, city").aggregate(Count(), "n")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        feeder.feed([("IT", 1, "Ann", "Rome"), ("NO", 1, "Bob", "Oslo"), ("IT", 2, "Bob", "Rome")], wait=True)
        assert sorted(running.drpc.execute("living", "Rome")) == [("IT", 1, "Ann"), ("IT", 2, "Bob")]
        assert running.drpc.execute("living", "Bonn") == []
        assert running.drpc.execute("named", "Bob") == [(2,)]
        asked.feed(["Oslo"], wait=True, timeout=20)
        feeder.feed([("NO", 1, "Bob", "Rome")], wait=True, timeout=20)
        assert sorted(running.drpc.execute("living", "Rome")) == [("IT", 1, "Ann"), ("IT", 2, "Bob"), ("NO", 1, "Bob")]
        running.processAllAvailable(timeout=20)
    assert seen == [{"place": "Oslo", "land": "NO", "number": 1, "whole": {"name": "Bob", "city": "Oslo"}}]


@pytest.mark.parametrize("way", ["values", "changes"])
def test_a_query_after_the_update_reads_index_and_state_as_of_one_batch(way: str, tmp_path: Path) -> None:
    batches = [[(1, "a"), (2, "b")], [(1, "b"), (2, "c")], [(3, "a")]]
    topology, found = TridentTopology(), dict[int, set[Any]]()
    rows = topology.newStream("s", FixedBatchSpout("id long, g string", batches))
    table = rows.toTable("id", MemoryMapState.opaque(), name="rows", index="g")
    updated = table.newValuesStream() if way == "values" else table.changes().toStream()
    asked = updated.each({"wanted": lit("b")}).stateQuery(table, "wanted", IndexGet("g"), "found, value")

    def keep(tuples: Any, txid: int, attempt: int) -> None:
        found.setdefault(txid, set()).update((row["found"], row["value"]["g"]) for row in tuples.to_pylist())

    asked.foreachArrow(keep, name="kept")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
    assert {txid: rows for txid, rows in found.items() if rows} == {2: {(2, "b")}, 3: {(1, "b")}}


def test_a_request_finds_each_of_many_rows_once(tmp_path: Path) -> None:
    """More rows than an index has parts, so that parts have several keys."""
    topology, rows = TridentTopology(), [(key, "a") for key in range(6_000)]
    table = topology.newStream("s", FixedBatchSpout("id long, g string", [rows])).toTable("id", name="rows", index="g")
    topology.newDRPCStream("found", "g string").stateQuery(table, "g", IndexGet("g"), "id, row")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert sorted(row.id for row in running.drpc.execute("found", "a")) == list(range(6_000))
        assert ids_of(running.state("rows").by("g", "a")) == list(range(6_000))


def walk(view: StateView, value: Any, limit: int, between: Callable[[], None] = lambda: None) -> list[Any]:
    """Return the keys of all pages with a value. `between` runs after each page."""
    page = view.by("g", value, limit=limit)
    found = ids_of(page)
    while page.after is not None:
        assert len(page) == limit and ids_of(page) == sorted(ids_of(page))
        between()
        page = view.by("g", value, limit=limit, after=page.after)
        found += ids_of(page)
    return found


def test_pages_have_each_entry_once_whatever_commits_between_them(tmp_path: Path) -> None:
    chance, topology, feeder = Random(4), TridentTopology(), FeederBatchSpout("id string, g string")
    topology.newStream("s", feeder).toTable("id", MemoryMapState.opaque(), name="rows", index="g")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        held = {f"{key:03}": chance.choice("ab") for key in range(90)}
        feeder.feed(list(held.items()), wait=True, timeout=20)
        view = running.state("rows")

        def move() -> None:
            """Move some of the first 40 rows to another value."""
            moved = {f"{key:03}": chance.choice("abc") for key in chance.sample(range(40), 8)}
            held.update(moved)
            feeder.feed(list(moved.items()), wait=True, timeout=20)

        for limit in (1, 7, 999):
            for value in ("a", "b", "z"):
                assert sorted(walk(view, value, limit)) == [key for key, g in sorted(held.items()) if g == value]
        for limit in (3, 9):
            found = [key for key in walk(view, "a", limit, move) if key >= "040"]
            assert sorted(found) == [key for key, g in sorted(held.items()) if g == "a" and key >= "040"]
        page = view.by("g", "a", limit=4)
        assert page.asOfTxid == running.asOfTxid["s"] and page.toArrow().num_rows == 4
        whole = {*ids_of(page), *ids_of(view.by("g", "a", after=page.after))}
        assert whole == {key for key, g in held.items() if g == "a"}
        with pytest.raises(ValueError, match="limit=0"):
            view.by("g", "odd", limit=0)
        for wrong in ("x", view.range(limit=1).after):
            with pytest.raises(ValueError, match="is not the cursor of a page of state 'rows.by.g'"):
                view.by("g", "odd", after=wrong)


class ReadMap(LeastMap):
    """A map that counts the keys that it has read."""

    def __init__(self, identity: Any, maps: "dict[str, ReadMap]") -> None:
        super().__init__({})
        self.asked = 0
        maps[identity.name] = self

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        self.asked += len(keys)
        return super().multiGet(keys)


def test_a_page_reads_only_the_parts_of_its_keys(tmp_path: Path) -> None:
    maps, topology, feeder = dict[str, ReadMap](), TridentTopology(), FeederBatchSpout("id long, g string")
    state = BackingMapState.opaque(partial(ReadMap, maps=maps))
    topology.newStream("s", feeder).toTable("id", state, name="rows", index="g")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        feeder.feed([(key, "a") for key in range(8_000)], wait=True, timeout=20)
        view, after = running.state("rows"), None
        for _ in range(3):
            maps["rows.by.g"].asked = 0
            after = view.by("g", "a", limit=20, after=after).after
            assert maps["rows.by.g"].asked < 16 + 30


def test_wrong_questions_say_which_fields_and_values_there_are(tmp_path: Path) -> None:
    topology = TridentTopology()
    tables(topology, FixedBatchSpout(FIELDS, [[(1, "a", 2, "insert")]]), MemoryMapState.opaque())
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        rows = running.state("rows")
        with pytest.raises(StateKeyError, match=r"no index by \(h\); its indexes are by \(g\), \(v\), \(v, g\): "):
            rows.by("h", 1)
        with pytest.raises(StateKeyError, match=r"'rows by g': invalid key 7 \(int\): expected g string"):
            rows.by("g", 7)
        with pytest.raises(StateKeyError, match=r"expected a tuple of 2 values \(v bigint, g string\)"):
            rows.by(["v", "g"], 7)
        with pytest.raises(ValueError, match="isolation='latest' has none"):
            running.state("rows", isolation="latest").by("g", "a")
        with pytest.raises(TxidNotKeptError, match="txid 9 has not been committed yet"):
            rows.asOf(9).by("g", "a")
        with pytest.raises(StateKeyError, match=r"'rows.by.g' has no index by \(g\); none is known"):
            running.state("rows.by.g").by("g", "a")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("town", r"toTable\(id\), index='town': no field 'town'; the fields are \(id bigint, g string, v bigint\)"),
        ([], "expected the name of a field, or a list with one entry for each index"),
        (("g", "v"), "expected the name of a field, or a list with one entry for each index"),
        ([3], "3 is not the name of a field, or a tuple of names"),
        ([("g", "g")], "field 'g' is named twice"),
    ],
)
def test_an_index_names_fields(index: Any, message: str) -> None:
    changes = TridentTopology().newStream("s", FixedBatchSpout(FIELDS, [])).asChanges("kind")
    with pytest.raises(TopologyError, match=message):
        changes.toTable("id", name="rows", index=index)


def test_a_state_without_changes_has_no_index() -> None:
    stream = TridentTopology().newStream("s", FixedBatchSpout("id long, g string", []))
    with pytest.raises(TopologyError, match="has ttlSecs, and an expired key gives no deletion"):
        stream.toTable("id", MemoryMapState.opaque(ttlSecs=5), name="a", index="g")
    with pytest.raises(TopologyError, match="a nonTransactional state does not keep the value before a batch"):
        stream.toTable("id", MemoryMapState.nonTransactional(), name="b", index="g")
    with pytest.raises(TopologyError, match="one value without key fields, so an index has nothing to find"):
        stream.persistentAggregate(MemoryMapState.opaque(), "id", Average(), "mean", name="c", index="mean")


def test_a_query_of_an_index_names_one_that_is_there() -> None:
    topology = TridentTopology()
    table = topology.newStream("s", FixedBatchSpout("id long, g string", [])).toTable("id", name="rows", index="g")
    asked = topology.newDRPCStream("f", "place string, n long")
    with pytest.raises(TopologyError, match=r"no index by \(h\); its indexes are by \(g\)"):
        asked.stateQuery(table, "place", IndexGet("h"), "id, g")
    with pytest.raises(TopologyError, match=r"cannot be queried by \(n bigint\): its key is \(g string\)"):
        asked.stateQuery(table, "n", IndexGet("g"), "id, g")
    with pytest.raises(TopologyError, match="name an output field for each key field, and at least one for the value"):
        asked.stateQuery(table, "place", IndexGet("g"), "id")
    with pytest.raises(TopologyError, match="asOf='committed' reads one state as of one batch"):
        asked.stateQuery(table, "place", IndexGet("g"), "id, g", asOf="committed")


def last_values(spout: Any, state: Any, index: bool) -> TridentTopology:
    """Return states with values that readers see as null, and a function that asks one of them."""
    topology, indexes = TridentTopology(), ["c", "last"] if index else None
    grouped = topology.newStream("s", spout).groupBy("k", "c")
    lasts = grouped.persistentAggregate(state, "v", Last(), "last", name="lasts", index=indexes)
    grouped.persistentAggregate(state, {"last": Last("v"), "n": Count()}, name="several", index=indexes)
    if index:
        topology.newDRPCStream("of", "asked string").stateQuery(lasts, "asked", IndexGet("c"), "k, c, last")
    return topology


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("filled", [False, True])
def test_an_index_finds_entries_with_the_value_null(place: str, filled: bool, make: Make, tmp_path: Path) -> None:
    """`Last` of a null has the value null. Values become null and others again; the index may be made at a start."""
    ones = [("a", "R", "x"), ("b", "R", None), ("c", "S", "y")]
    others = [("a", "R", None), ("b", "R", "x"), ("c", "S", "z"), ("d", "R", None)]
    state, name, beginnings = make(f"{place} opaque"), f"nulls.{place}.{filled}", (not filled, True)
    for index in beginnings:
        feeder = FeederBatchSpout("k string, c string, v string")
        topology = last_values(feeder, state, index)
        with start_local(topology, name=name, checkpointLocation=tmp_path / "log") as running:
            for number, rows in enumerate((ones, others, ones)):
                feeder.feed(rows, wait=True, timeout=20)
                if index:
                    check_nulls(running)
                    if number:
                        check_nulls(running, asOf="previous")


def test_an_index_has_a_group_whose_deletion_came_before_its_insertion() -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout(FIELDS)
    changes = topology.newStream("s", feeder).asChanges("kind")
    changes.groupBy("g").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts", index=["n", "g"])
    with start_local(topology, name="t") as running:
        counts = running.state("counts")
        for kind, entries in (("delete", [("a", None)]), ("insert", [])):
            feeder.feed([(1, "a", 2, kind)], wait=True, timeout=20)
            assert [*counts.items()] == counts.by("g", "a") == counts.by("n", None) == entries


def check_nulls(running: RunningTopology, **asOf: Any) -> None:
    """Compare reads by the key, by the value, of SQL and of a request with the entries."""
    for name in ("lasts", "several"):
        view = running.state(name, **asOf)
        entries = dict(view.items())
        for c in ("R", "S"):
            assert dict(view.by("c", c)) == {key: value for key, value in entries.items() if key[1] == c}
        for last in ("x", "z", None):
            assert dict(view.by("last", last)) == {
                key: value for key, value in entries.items() if (value.last if name == "several" else value) == last
            }
    if not asOf:
        entries = dict(running.state("lasts").items())
        of_r = {("R", *key, last) for key, last in entries.items() if key[1] == "R"}
        assert {*running.drpc.execute("of", "R")} == of_r
        counted = running.sql("select count(*) from lasts where c = 'R'").first()
        assert counted is not None and counted[0] == len(of_r) > 1
