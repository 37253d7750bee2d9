"""Indexes of states by a field: each read by a field finds the rows that a filter of the whole state finds."""

import re
import shutil
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.state.backing.maps import LeastMap, SqliteMap
from tests.support.changes import FIELDS, History
from tests.support.postgres import PostgresServer
from tests.support.postgres_fixtures import postgres as postgres
from tests.support.server import RedisServer
from tests.support.soak import some_of
from tests.support.spouts import ReplayingSpout
from trident import (
    Average,
    Count,
    Evolution,
    IndexGet,
    Last,
    TridentTopology,
    dropState,
    lit,
    openState,
    openTopology,
)
from trident.base import crash_points
from trident.errors import CodeChangedError, StateKeyError, StateShapeError, TopologyError, TxidNotKeptError
from trident.reads.state_view import StateView
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import (
    BackingMapState,
    DeltaMapState,
    MemoryMapState,
    PostgresMapState,
    RedisMapState,
    SqliteMapState,
)
from trident.testing import CRASH, CRASH_POINTS, FAIL, DriverCrashedError, TestSource, crash_at, run_through
from trident.testing.crashes import Trap
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")

GROUPS = ("a", "b", "c", None)
PLACES = ("memory", "redis", "sqlite", "delta", "postgres", "backing")
Make = Callable[[str], Any]


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Return a function that returns a state of a place and a kind, such as ``memory opaque``."""

    def made(which: str) -> Any:
        place, kind = which.split()
        if place == "redis":
            server: RedisServer = request.getfixturevalue("shared_redis")
            return getattr(RedisMapState, kind)(server.url, buckets=4)
        if place == "postgres":
            database: PostgresServer = request.getfixturevalue("postgres")
            return getattr(PostgresMapState, kind)(database.url)
        if place == "backing":
            return getattr(BackingMapState, kind)(partial(SqliteMap, str(tmp_path / "own.db")))
        return {
            "memory": getattr(MemoryMapState, kind),
            "sqlite": lambda: getattr(SqliteMapState, kind)(tmp_path / "states.sqlite"),
            "delta": lambda: getattr(DeltaMapState, kind)(str(tmp_path / "states")),
        }[place]()

    return made


def tables(topology: TridentTopology, spout: Any, state: Any) -> None:
    """Add states with indexes: a table by two fields, alone and together, and counts by their value."""
    changes = topology.newStream("s", spout).asChanges("kind")
    changes.toTable("id", state, name="rows", index=["g", "v", ("v", "g")])
    changes.groupBy("v").persistentAggregate(state, Count(), "n", name="counts", index="n")


def check(view: Callable[[str], StateView], rows: Mapping[int, Any]) -> None:
    """Compare reads by each value with the rows that have it."""
    check_rows(view("rows"), rows)
    counts = view("counts")
    numbers = dict(counts.items())
    for number in (1, 2):
        found = ((v, n) for v, n in numbers.items() if n == number)
        assert sorted(counts.by("n", number), key=str) == sorted(found, key=str)


def check_rows(table: StateView, rows: Mapping[int, Any]) -> None:
    for group in GROUPS:
        assert _ids(table.by("g", group)) == sorted(key for key, (_, g, _) in rows.items() if g == group)
    for value in (-4, 0, 3, None):
        assert _ids(table.by("v", value)) == sorted(key for key, (_, _, v) in rows.items() if v == value)
        both = table.by(["v", "g"], (value, "a"))
        assert dict(both) == {key: (g, v) for key, g, v in rows.values() if (v, g) == (value, "a")}


def _ids(found: list[tuple[Any, Any]]) -> list[Any]:
    return [key for key, _ in found]


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
        assert _ids(running.state("rows").by("g", "a")) == list(range(6_000))


def walk(view: StateView, value: Any, limit: int, between: Callable[[], None] = lambda: None) -> list[Any]:
    """Return the keys of all pages with a value. `between` runs after each page."""
    page = view.by("g", value, limit=limit)
    found = _ids(page)
    while page.after is not None:
        assert len(page) == limit and _ids(page) == sorted(_ids(page))
        between()
        page = view.by("g", value, limit=limit, after=page.after)
        found += _ids(page)
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
        whole = {*_ids(page), *_ids(view.by("g", "a", after=page.after))}
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
    with pytest.raises(TopologyError, match="has ttlSecs, and a key that expires gives no deletion"):
        stream.toTable("id", MemoryMapState.opaque(ttlSecs=5), name="a", index="g")
    with pytest.raises(TopologyError, match="a nonTransactional state does not keep the value of before a batch"):
        stream.toTable("id", MemoryMapState.nonTransactional(), name="b", index="g")
    with pytest.raises(TopologyError, match="one value without key fields, so there is nothing to find"):
        stream.persistentAggregate(MemoryMapState.opaque(), "id", Average(), "mean", name="c", index="mean")


def test_a_query_of_an_index_names_one_that_is_there() -> None:
    topology = TridentTopology()
    table = topology.newStream("s", FixedBatchSpout("id long, g string", [])).toTable("id", name="rows", index="g")
    asked = topology.newDRPCStream("f", "place string, n long")
    with pytest.raises(TopologyError, match=r"no index by \(h\); its indexes are by \(g\)"):
        asked.stateQuery(table, "place", IndexGet("h"), "id, g")
    with pytest.raises(TopologyError, match=r"cannot be queried by \(n bigint\): its key is \(g string\)"):
        asked.stateQuery(table, "n", IndexGet("g"), "id, g")
    with pytest.raises(TopologyError, match="name 1 output fields for the key, and at least one for the value"):
        asked.stateQuery(table, "place", IndexGet("g"), "id")
    with pytest.raises(TopologyError, match="asOf='committed' reads one state as of one batch"):
        asked.stateQuery(table, "place", IndexGet("g"), "id, g", asOf="committed")


def later(spout: Any, state: Any, index: bool) -> TridentTopology:
    """Return tables whose indexes a later program adds."""
    topology = TridentTopology()
    changes = topology.newStream("s", spout).asChanges("kind")
    names: Any = {"rows": ["g", "v", ("v", "g")], "counts": "n", "means": "mean"} if index else {}
    changes.toTable("id", state, name="rows", index=names.get("rows"))
    changes.groupBy("v").persistentAggregate(state, Count(), "n", name="counts", index=names.get("counts"))
    means = changes.groupBy("g")
    means.persistentAggregate(state, "v", Average(), "mean", name="means", index=names.get("means"))
    return topology


def check_later(view: Callable[[str], StateView], rows: Mapping[int, Any]) -> None:
    check(view, rows)
    means = dict(view("means").items())
    for mean in {*means.values(), 1.5, None}:
        found = {g for g, each in means.items() if each == mean}
        assert set(_ids(view("means").by("mean", mean))) == found


@pytest.mark.parametrize("place", PLACES)
def test_an_index_of_a_state_with_rows_begins_with_them(place: str, make: Make, tmp_path: Path) -> None:
    history, state = History(9), make(f"{place} opaque")
    for index in (False, True, True):
        feeder = FeederBatchSpout(FIELDS)
        with start_local(later(feeder, state, index), name=f"later.{place}", checkpointLocation=tmp_path) as running:
            if index:
                check_later(running.state, history.rows)
            for _ in range(2):
                feeder.feed(history.grow(1, 30).batches[-1], wait=True, timeout=20)
                if index:
                    check_later(running.state, history.rows)
                    check_later(lambda name: running.state(name, asOf="previous"), history.after[-2])
    if place != "memory":
        return
    with openTopology(
        later(FeederBatchSpout(FIELDS), state, True), name="later.memory", checkpointLocation=tmp_path
    ) as o:
        check_later(o.state, history.rows)


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


STARTS = ("start.log.taken", "start.state.born", "start.state.created", "start.state.acquired", "start.states.founded")


@pytest.mark.parametrize("point", STARTS)
@pytest.mark.parametrize("place", ["memory", "sqlite", "delta"])
def test_a_start_that_dies_while_it_fills_an_index_is_finished_by_the_next(
    place: str, point: str, make: Make, tmp_path: Path
) -> None:
    class Died(BaseException):
        pass

    def die(reached: str) -> None:
        if reached == point:
            raise Died

    history, state = History(3), make(f"{place} opaque")

    def started(index: bool, batches: int) -> None:
        feeder = FeederBatchSpout(FIELDS)
        with start_local(later(feeder, state, index), name="t", checkpointLocation=tmp_path) as running:
            for _ in range(batches):
                feeder.feed(history.grow(1, 30).batches[-1], wait=True, timeout=20)
            if index:
                check_later(running.state, history.rows)

    started(False, 3)
    for between in (False, True):  # a former program that comes between changes the rows once more
        crash_points.listen(die)
        try:
            with pytest.raises(Died):
                started(True, 0)
        finally:
            crash_points.listen(None)
        if between or point == "start.states.founded":
            break
        started(False, 1)
    started(True, 0)
    started(True, 2)


def grown(source: Any, state: Any, index: Any) -> TridentTopology:
    """Return a table whose index a later program adds."""
    topology = TridentTopology()
    topology.newStream("s", source).toTable("id", state, name="rows", index=index)
    return topology


ROWS = [[(1, "a")], [(1, "b"), (2, "b")]]


def run_grown(folder: Path, batches: int, state: Any, index: Any = None) -> list[int]:
    """Run the program until it has so many batches, and return the ids of "b" by the index, if it has one."""
    spout = FixedBatchSpout("id long, g string", ROWS[:batches])
    with start_local(grown(spout, state, index), name="t", checkpointLocation=folder) as running:
        running.processAllAvailable(timeout=20)
        return _ids(running.state("rows").by("g", "b")) if index else []


def test_an_index_waits_for_the_last_batch_of_the_former_program(tmp_path: Path) -> None:
    state = MemoryMapState.opaque()
    run_grown(tmp_path, 1, state)
    with crash_at("freeze.after"), pytest.raises(DriverCrashedError):
        run_grown(tmp_path, 2, state)
    with pytest.raises(CodeChangedError, match=r"is a new index of state 'rows', which has rows, and batch 2 waits"):
        run_grown(tmp_path, 2, state, "g")
    run_grown(tmp_path, 2, state)
    assert run_grown(tmp_path, 2, state, "g") == [1, 2]


def test_an_index_is_not_filled_from_a_state_that_lacks_batches(tmp_path: Path) -> None:
    """The state is an older copy, which the former program completes from the log."""
    state, log, file, copy = SqliteMapState.opaque(tmp_path / "s"), tmp_path / "log", tmp_path / "s", tmp_path / "copy"
    run_grown(log, 1, state)
    shutil.copy(file, copy)
    run_grown(log, 2, state)
    shutil.copy(copy, file)
    with pytest.raises(CodeChangedError, match="and state 'rows' lacks batches up to 2. Start the previous program"):
        run_grown(log, 2, state, "g")
    run_grown(log, 2, state)
    assert run_grown(log, 2, state, "g") == [1, 2]


NUMBERED = [[(1, 1), (2, 2)], [(3, 1)], [(4, 2), (1, 2)], [(2, 1)]]


def run_widened(folder: Path, state: Any, kind: str, batches: int, index: Any = "n") -> tuple[dict[int, int], Any]:
    """Run a table with a number of this type until it has so many batches; return its rows, and the ids by number."""
    topology = TridentTopology()
    evolve = Evolution("n int") if kind == "long" else None
    rows = topology.newStream("s", FixedBatchSpout(f"id long, n {kind}", NUMBERED[:batches]))
    rows.toTable("id", state, name="rows", index=index, evolve=evolve)
    with run_through(topology, name="t", checkpointLocation=folder) as running:
        view = running.state("rows")
        return {key: row.n for key, row in view.items()}, index and [_ids(view.by("n", n)) for n in (1, 2)]


WIDENED = [
    ({1: 1, 2: 2}, [[1], [2]]),
    ({1: 1, 2: 2, 3: 1}, [[1, 3], [2]]),
    ({1: 2, 2: 2, 3: 1, 4: 2}, [[3], [1, 2, 4]]),
]


def test_the_way_out_for_an_index_by_a_wider_field(tmp_path: Path) -> None:
    """The text of the refusal is followed, also back to the former program while that is possible."""
    state = MemoryMapState.opaque()

    def follow(kind: str, batches: int) -> Any:
        with pytest.raises(StateShapeError, match="It is an index of state 'rows': drop it with dropState") as refused:
            run_widened(tmp_path, state, kind, batches)
        told = r"drop it with dropState\('t', 'rows.by.n', checkpointLocation='(.*?)'\), and the next start fills it"
        (folder,) = re.findall(told, str(refused.value))
        dropState("t", "rows.by.n", checkpointLocation=folder)
        return run_widened(tmp_path, state, kind, batches)

    run_widened(tmp_path, state, "int", 1)
    assert follow("long", 1) == WIDENED[0]
    assert follow("int", 2) == WIDENED[1], "no batch of the new program was committed"
    assert follow("long", 2) == WIDENED[1]
    assert run_widened(tmp_path, state, "long", 3) == WIDENED[2]


def test_an_index_and_a_wider_field_begin_at_one_start(make: Make, tmp_path: Path) -> None:
    state = make("sqlite opaque")
    run_widened(tmp_path, state, "int", 2, index=None)
    assert run_widened(tmp_path, state, "long", 3) == WIDENED[2]


@pytest.mark.parametrize(
    ("which", "point"),
    [
        ("memory opaque", "start.state.born"),
        ("memory opaque", "evolve.recorded"),
        ("sqlite opaque", "evolve.before"),
        ("sqlite opaque", "evolve.recorded"),
        ("sqlite opaque", "heal.created"),
        ("sqlite opaque", "commit.states.after"),
    ],
)
def test_an_index_by_a_wider_field_is_exact_after_a_crash(
    which: str, point: str, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident.testing.crashes.CRASH_POINTS", (*CRASH_POINTS, *crash_points.EVOLVE_POINTS))
    state = make(which)
    run_widened(tmp_path / "log", state, "int", 2)
    dropState("t", "rows.by.n", tmp_path / "log", factory=None if which.startswith("memory") else state)
    with crash_at(point):
        assert run_widened(tmp_path / "log", state, "long", 3) == WIDENED[2]
        assert Trap.armed is None, "the driver died there"
    assert run_widened(tmp_path / "log", state, "long", 4)[1] == [[2, 3], [1, 4]]
