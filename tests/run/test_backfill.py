"""A state with backfill=True that is new begins with the tuples that its streams had before, each of them once."""

import contextlib
import functools
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.source import records
from tests.log.log_contract import frozen
from tests.state.backing.maps import SqliteMap
from tests.support.backfills import TOTAL, TickingSpout, numbered, program
from tests.support.server import RedisServer
from tests.support.waiting import wait_until
from trident import (
    Average,
    CollectList,
    Count,
    First,
    Last,
    Latest,
    MapGet,
    MaxBy,
    MinBy,
    Sum,
    TopK,
    TridentTopology,
    col,
    dropState,
    lit,
)
from trident.base import crash_points
from trident.errors import CodeChangedError, DataLossError, FencedError, StateError, TopologyActiveError, TopologyError
from trident.log.sqlite_log import SqliteLog
from trident.recovery import acquisition
from trident.run import registry
from trident.run.backfill import FOLDER
from trident.spouts import FileSpout, FixedBatchSpout, RateSpout
from trident.state import BackingMapState, MemoryMapState, RedisMapState, SqliteMapState
from trident.testing.local import start_local
from trident_spouts.executor import SpoutKind
from trident_spouts.rereadable_sources import RereadSpout

pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:state .* appendonly is off", "ignore:state .* is new"),
]


def sums(most: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in records(TOTAL):
        for word, seq in part[: most // 2]:
            found[word] = found.get(word, 0) + seq
    return found


def run(topology: TridentTopology, where: Path, *states: str, **more: Any) -> list[dict[Any, Any]]:
    with start_local(topology, name="t", checkpointLocation=where, **more) as running:
        running.processAllAvailable(timeout=60)
        return [dict(running.state(name).items()) for name in states]


def in_order(folder: Path, files: int, new: bool) -> TridentTopology:
    """Count tuples; with `new`, keep what depends on their order, also of the earlier ones."""
    topology = TridentTopology()
    spout = FileSpout(f"{folder}/*.json", "json", "n long", maxFilesPerBatch=files)
    numbers = topology.newStream("numbers", spout).each({"tie": lit(0)})
    numbers.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    if new:
        every = {"first": ("n", First()), "last": ("n", Last()), "list": ("n", CollectList())}
        tied = {"low": MinBy("n", "tie"), "high": MaxBy("n", "tie"), "latest": Latest("tie")}
        some = {"some": ("n", Last(where=col("n") < 20))}
        ordered = {**every, **tied, **some}
        numbers.persistentAggregate(MemoryMapState.opaque(), ordered, name="ordered", backfill=True)
        numbers.persistentAggregate(MemoryMapState.opaque(), "n", Last(), "last", name="last", backfill=True)
    return topology


@pytest.mark.parametrize(("before", "after"), [(9, 1), (1, 9), (2, 2)])
def test_earlier_tuples_come_before_later_ones_whatever_their_batches_were(
    before: int, after: int, tmp_path: Path
) -> None:
    def add(number: int) -> None:
        (tmp_path / f"{number:02}.json").write_text(f'{{"n": {number}}}\n')
        os.utime(tmp_path / f"{number:02}.json", (1000 + number, 1000 + number))

    for number in range(9):
        add(number)
    run(in_order(tmp_path, before, new=False), tmp_path / "log")
    with start_local(in_order(tmp_path, after, new=True), name="t", checkpointLocation=tmp_path / "log") as running:
        for number in (9, 10, 25):
            add(number)
            running.processAllAvailable(timeout=60)
            now = running.state("ordered").get(())
            assert (now.first, now.last, now.low, now.high, now.latest.n) == (0, number, 0, 0, number)
            assert now.list == [*range(min(number, 10) + 1), *([25] if number == 25 else [])]
            assert (now.some, running.state("last").get(())) == (min(number, 10), number)


def test_a_fill_without_tuples_leaves_the_state_empty(tmp_path: Path) -> None:
    def program(numbers: list[int], new: bool) -> TridentTopology:
        topology, spout = TridentTopology(), FixedBatchSpout("n long", [[(number,)] for number in numbers])
        stream = topology.newStream("numbers", spout)
        stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        if new:
            large = stream.filter(col("n") > 100).groupBy("n")
            large.persistentAggregate(MemoryMapState.opaque(), "n", Last(), "last", name="last", backfill=True)
        return topology

    run(program([1, 2], new=False), tmp_path)
    assert run(program([1, 2], new=True), tmp_path, "last") == [{}]
    assert run(program([1, 2, 101], new=True), tmp_path, "last") == [{101: 101}]


def homes(folder: Path, server: RedisServer) -> dict[str, Callable[[], Any]]:
    return {
        "memory": MemoryMapState.opaque,
        "redis": lambda: RedisMapState.opaque(server.url, buckets=8, groups=2),
        "exact redis": lambda: RedisMapState.transactional(server.url, buckets=8),
        "sqlite": lambda: SqliteMapState.transactional(str(folder / "s.db")),
        "own": lambda: BackingMapState.opaque(functools.partial(SqliteMap, str(folder / "own.db"))),
    }


@pytest.mark.parametrize("kind", [SpoutKind.TRANSACTIONAL, SpoutKind.OPAQUE])
@pytest.mark.parametrize("home", ["memory", "redis", "exact redis", "sqlite", "own"])
def test_a_new_state_has_old_tuples_and_new_ones_once(
    home: str, kind: SpoutKind, tmp_path: Path, shared_redis: RedisServer
) -> None:
    state = homes(tmp_path, shared_redis)[home]
    run(program(numbered(150, kind)), tmp_path)
    assert run(program(numbered(150, kind), state()), tmp_path, "sums") == [sums(150)]
    assert not (tmp_path / "t" / FOLDER).exists()
    assert run(program(numbered(300, kind), state()), tmp_path, "sums") == [sums(300)]
    assert run(program(numbered(TOTAL, kind), state(), backfill=False), tmp_path, "sums") == [sums(TOTAL)]


def test_a_new_topology_has_nothing_to_fill(tmp_path: Path) -> None:
    assert run(program(numbered(100), MemoryMapState.opaque()), tmp_path, "sums") == [sums(100)]
    with start_local(program(numbered(100), MemoryMapState.opaque()), name="t") as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("sums").items()) == sums(100)


def test_a_former_driver_goes_on_until_the_new_one_has_caught_up(tmp_path: Path) -> None:
    """It is busy all the time: a start that took its log and was refused then would have stopped it for nothing."""
    before, met = start_local(busy(), name="t", checkpointLocation=tmp_path), list[int]()
    wait_until(lambda: before.asOfTxid["n"] > 20)
    registry.release("t", before)  # the next one starts as if in another process

    def watch(point: str) -> None:
        if point == "backfill.caught.up":
            met.append(before.asOfTxid["n"])

    with listening(watch), start_local(busy(new=True), name="t", checkpointLocation=tmp_path) as running:
        assert met and met[0] > 20
        wait_until(lambda: running.asOfTxid["n"] > met[0] + 20)
        running.deactivate(wait="20 seconds")
        counts, again = (dict(running.state(name).items()) for name in ("counts", "again"))
        assert counts == again and sum(counts.values()) == 5 * running.asOfTxid["n"]
    with pytest.raises(FencedError):
        before.awaitTermination(timeout=20)


def test_a_former_driver_that_freezes_its_first_batch_at_the_takeover_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its first batch no new state has anything to fill, and no batch waits."""
    before = start_local(program(numbered(100)), name="t", checkpointLocation=tmp_path, active=False)
    registry.release("t", before)  # the next one starts as if in another process
    frozen, taken, take = threading.Event(), threading.Event(), SqliteLog.take

    def watch(point: str) -> None:
        if point == "freeze.after" and not taken.is_set():
            frozen.set()
            taken.wait(20)

    def take_late(log: SqliteLog, *how: Any) -> Any:
        if not taken.is_set():
            before.activate()
            assert frozen.wait(20)
        lease = take(log, *how)
        taken.set()
        return lease

    monkeypatch.setattr(SqliteLog, "take", take_late)
    with listening(watch):
        assert run(program(numbered(100), MemoryMapState.opaque()), tmp_path, "sums") == [sums(100)]
    with pytest.raises(FencedError):
        before.awaitTermination(timeout=20)


def test_a_start_that_was_overtaken_does_not_say_that_the_log_is_an_old_copy(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first checks of a start with a state to fill come long before it takes the log."""
    run(program(numbered(100)), tmp_path)
    grown, opened = program(numbered(100), RedisMapState.opaque(shared_redis.url)), acquisition.open_stores

    def open_late(*of: Any) -> dict[str, Any]:
        monkeypatch.setattr(acquisition, "open_stores", opened)
        run(grown, tmp_path)
        return opened(*of)

    monkeypatch.setattr(acquisition, "open_stores", open_late)
    with pytest.raises(
        FencedError, match=r"\(epoch 2\); .*last error: state 'sums' was held by a driver of epoch 2 that"
    ):
        run(grown, tmp_path)
    assert run(grown, tmp_path, "sums") == [sums(100)]


def test_a_start_that_is_overtaken_while_it_commits_for_the_former_program_ends(tmp_path: Path) -> None:
    """It would wait for ever for the commit of a batch that the later driver froze."""
    before = start_local(program(numbered(100)), name="t", checkpointLocation=tmp_path, active=False)
    later = list[SqliteLog]()
    registry.release("t", before)  # the next one starts as if in another process

    def watch(point: str) -> None:
        if point == "start.done" and not later:  # of the part that commits for the former program
            later.append(SqliteLog(tmp_path / "t" / "log.sqlite", "t"))
            frozen(later[0], later[0].take(), 1)

    with listening(watch), pytest.raises(FencedError, match="epoch 3"):
        run(program(numbered(100), MemoryMapState.opaque()), tmp_path)
    later[0].close()
    with pytest.raises(FencedError):
        before.awaitTermination(timeout=20)


def test_a_running_topology_is_replaced_in_its_process(tmp_path: Path) -> None:
    before = start_local(busy(), name="t", checkpointLocation=tmp_path)
    wait_until(lambda: before.asOfTxid["n"] > 5)
    with pytest.raises(TopologyActiveError, match="already active"):
        start_local(busy(new=True), name="t", checkpointLocation=tmp_path)
    topology = busy(new=True)
    with start_local(topology, name="t", checkpointLocation=tmp_path, replace=True) as running:
        wait_until(lambda: running.asOfTxid["n"] > before.asOfTxid["n"] + 5)
        running.deactivate(wait="20 seconds")
        assert dict(running.state("counts").items()) == dict(running.state("again").items())


def test_a_program_that_cannot_commit_what_is_under_way_leaves_the_former_driver_alone(tmp_path: Path) -> None:
    before = start_local(busy(), name="t", checkpointLocation=tmp_path)
    wait_until(lambda: before.asOfTxid["n"] > 5)
    registry.release("t", before)
    changed = TridentTopology()
    words = changed.newStream("n", TickingSpout()).filter("key", lambda key: key > 1).groupBy("key")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="again", backfill=True)
    with pytest.raises(
        CodeChangedError, match=r"a driver of this topology is running or was killed, .* Stop that driver first"
    ):
        start_local(changed, name="t", checkpointLocation=tmp_path)
    reached = before.asOfTxid["n"]
    wait_until(lambda: before.asOfTxid["n"] > reached + 3)
    before.stop()


@contextlib.contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    crash_points.listen(listener)
    try:
        yield
    finally:
        crash_points.listen(None)


def busy(new: bool = False) -> TridentTopology:
    topology = TridentTopology()
    keys = topology.newStream("n", TickingSpout()).groupBy("key")
    keys.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    if new:
        keys.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="again", backfill=True)
    return topology


def test_a_join_of_tables_begins_with_their_old_rows(tmp_path: Path) -> None:
    """Tables, the keys by which they refer to each other, and an aggregate over the changes of their join."""

    def shop(orders: list[Any], prices: list[Any], joined: bool) -> TridentTopology:
        topology = TridentTopology()
        bought = topology.newStream("orders", FixedBatchSpout("id long, item string, n long", orders))
        priced = topology.newStream("prices", FixedBatchSpout("item string, price long", prices))
        met = topology.merge(bought.project("item"), priced.project("item")).groupBy("item")
        met.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="met")
        if joined:
            rows = bought.toTable("id", MemoryMapState.opaque(), name="rows", backfill=True)
            items = priced.toTable("item", MemoryMapState.opaque(), name="items", backfill=True)
            sales = rows.join(items, "item").each(["n", "price"], lambda n, price: n * price, "cost long")
            sales.groupBy("item").persistentAggregate(
                MemoryMapState.opaque(), "cost", Sum(), "cost", name="costs", backfill=True
            )
        return topology

    orders = [[(1, "pen", 2), (2, "cup", 1)], [(3, "pen", 1), (2, "cup", 5)]]
    prices = [[("pen", 3)], [("cup", 10), ("pen", 4)]]
    run(shop(orders, [], False), tmp_path)
    run(shop(orders, prices, False), tmp_path)
    more = [*orders, [(4, "cup", 1), (1, "pen", 7)]]
    costs, met = run(shop(more, prices, True), tmp_path, "costs", "met")
    assert costs == {"pen": 7 * 4 + 1 * 4, "cup": 5 * 10 + 1 * 10} and met == {"pen": 5, "cup": 4}


def test_outputs_and_other_states_get_only_what_comes_from_then_on(tmp_path: Path) -> None:
    taken = list[tuple[str, int]]()

    def seen(batches: list[Any], new: bool) -> TridentTopology:
        topology = TridentTopology()
        words = topology.newStream("n", FixedBatchSpout("word string", batches)).groupBy("word")
        words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        if new:
            again = words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="again", backfill=True)
            values = again.newValuesStream(everyChange=True)
            values.foreachArrow(
                lambda table, txid, attempt: taken.extend(map(tuple, table.to_pandas().values)), name="o"
            )
            values.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "m", name="sizes")
        return topology

    run(seen([["a", "b"], ["a"]], False), tmp_path)
    again, sizes = run(seen([["a", "b"], ["a"], ["a"]], True), tmp_path, "again", "sizes")
    assert again == {"a": 3, "b": 1} and taken == [("a", 3)] and sizes == {3: 1}


def test_an_average_begins_with_what_it_stores(tmp_path: Path) -> None:
    def means(batches: list[Any], new: bool) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("n", FixedBatchSpout("n long", batches))
        stream.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        if new:
            stream.persistentAggregate(MemoryMapState.opaque(), "n", Average(), "mean", name="means", backfill=True)
        return topology

    run(means([[1, 2], [6]], False), tmp_path)
    with start_local(means([[1, 2], [6], [11]], True), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert running.state("means").value == 5.0


def test_a_state_is_built_only_on_states_that_begin_with_it(tmp_path: Path) -> None:
    def declared(new: bool) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("n", numbered(100))
        table = stream.toTable("word", MemoryMapState.opaque(), name="table", backfill=True)
        if new:
            table.changes().persistentAggregate(MemoryMapState.opaque(), "seq", Sum(), "sum", name="s", backfill=True)
        return topology

    run(declared(False), tmp_path)
    with pytest.raises(TopologyError, match=r"state 's' has backfill=True and is built on state 'table', which exists"):
        run(declared(True), tmp_path)


def test_what_takes_changes_of_a_filled_state_is_filled_too(tmp_path: Path) -> None:
    def declared(new: bool) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("n", numbered(100))
        stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        if new:
            table = stream.toTable("word", MemoryMapState.opaque(), name="table", backfill=True)
            table.changes().persistentAggregate(MemoryMapState.opaque(), "seq", Sum(), "sum", name="s")
        return topology

    run(declared(False), tmp_path)
    with pytest.raises(TopologyError, match=r"built on the changes of state 'table', which begins with the rows of"):
        run(declared(True), tmp_path)
    assert run(declared(False), tmp_path) == []


def test_a_state_that_began_without_earlier_tuples_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(program(numbered(100)), tmp_path)
    run(program(numbered(150), MemoryMapState.opaque(), backfill=False), tmp_path)
    late = program(numbered(150), MemoryMapState.opaque())
    late.explain(name="t", checkpointLocation=tmp_path)
    assert re.search(r"sums: is refused: it exists since txid \d+, so backfill=True would", capsys.readouterr().out)
    with pytest.raises(
        StateError, match=r"exists since txid \d+, so backfill=True would never be used. Remove it; or "
    ):
        run(late, tmp_path)
    dropState("t", "sums", tmp_path)
    for _ in range(2):
        assert run(late, tmp_path, "sums") == [sums(150)]


def test_a_filled_state_may_be_built_on_a_state_of_a_new_stream(tmp_path: Path) -> None:
    """Nothing is older than the new state of the new stream, so it begins empty, and stays with backfill=True."""

    def shop(orders: list[Any], new: bool) -> TridentTopology:
        topology, taken = TridentTopology(), list[Any]()
        bought = topology.newStream("orders", FixedBatchSpout("item string, n long", orders))
        bought.groupBy("item").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        if new:
            priced = topology.newStream("prices", FixedBatchSpout("item string, price long", [[("pen", 3)]]))
            prices = priced.toTable("item", MemoryMapState.opaque(), name="prices", backfill=True)
            prices.changes().foreachArrow(lambda table, txid, attempt: taken.append(txid), name="taken")
            known = bought.stateQuery(prices, "item", MapGet(), "price").groupBy("item")
            known.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="known", backfill=True)
        return topology

    orders = [[("pen", 2)], [("cup", 1)]]
    run(shop(orders, False), tmp_path)
    for more in (1, 2):
        orders.append([("pen", 10)])
        prices, known = run(shop(orders, True), tmp_path, "prices", "known")
        assert prices.keys() == {"pen"} and known == {"pen": 2 + 10 * more, "cup": 1}


def test_a_start_after_a_crash_continues_with_the_old_tuples(tmp_path: Path) -> None:
    """No tuple is read again, also by another process, in which no object has the same address."""
    run(program(numbered(100)), tmp_path)
    found, spouts = [], [numbered(100), FixedBatchSpout("word string, seq long", []), TickingSpout(), RateSpout()]
    for end in (lambda: None, lambda: 1):
        found.append([repr(RereadSpout(spout, end)) for spout in spouts])
    assert found[0] == found[1]

    def die(point: str) -> None:
        if point == "start.backfilled":
            raise OSError("the driver dies")

    for _ in range(2):
        with listening(die), pytest.raises(OSError, match="the driver dies"):
            run(program(numbered(100), MemoryMapState.opaque()), tmp_path)
    assert len([path for path in (tmp_path / "t" / FOLDER).iterdir() if path.is_dir()]) == 1
    assert run(program(numbered(150), MemoryMapState.opaque()), tmp_path, "sums") == [sums(150)]


@pytest.mark.parametrize("torn", [False, True])
def test_a_run_that_is_ahead_of_a_restored_log_begins_again(torn: bool, tmp_path: Path) -> None:
    """A copy of a log lies in another folder than the remains of a crash, which nobody restores with it."""

    def die(point: str) -> None:
        if point == "start.backfilled":
            raise OSError("the driver dies")

    run(program(numbered(60)), tmp_path)
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    run(program(numbered(100)), tmp_path)
    with listening(die), pytest.raises(OSError, match="the driver dies"):
        run(program(numbered(100), MemoryMapState.opaque()), tmp_path)
    shutil.move(tmp_path / "t" / FOLDER, tmp_path / "copy" / FOLDER)
    shutil.rmtree(tmp_path / "t")
    shutil.move(tmp_path / "copy", tmp_path / "t")
    if torn:
        (tmp_path / "t" / FOLDER / "upto.json").write_text("")
    assert run(program(numbered(100), MemoryMapState.opaque()), tmp_path, "sums") == [sums(100)]


def test_a_start_after_a_crash_begins_again_with_other_rows_or_functions(tmp_path: Path) -> None:
    """The rows that it read before the crash differ from those that the program gives now."""

    def declared(rows: list[Any], factor: int, new: bool, most: int = 1) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("n", FixedBatchSpout("n long", rows))
        stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        if new:
            made = stream.each("n", (lambda n: 2 * n) if factor == 2 else (lambda n: 3 * n), "m long")
            made.persistentAggregate(MemoryMapState.opaque(), "m", Sum(), "sum", name="sums", backfill=True)
            best = made.persistentAggregate
            best(MemoryMapState.opaque(), "m", TopK(most), "best", name="best", backfill=True)
        return topology

    def die(point: str) -> None:
        if point == "start.backfilled":
            raise OSError("the driver dies")

    run(declared([[1], [2]], 2, False), tmp_path)
    for args in ([[1], [2]], 2, True), ([[1], [5]], 2, True), ([[1], [5]], 3, True), ([[1], [5]], 3, True, 2):
        with listening(die), pytest.raises(OSError, match="the driver dies"):
            run(declared(*args), tmp_path)
    assert len([each for each in (tmp_path / "t" / FOLDER).iterdir() if each.is_dir()]) == 4
    with start_local(declared([[1], [5]], 3, True, 2), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        assert running.state("sums").value == 18 and list(running.state("best").value) == [15, 3]


def test_old_batches_that_are_gone_are_told(tmp_path: Path) -> None:
    def declared(batches: list[Any], new: bool) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("n", FixedBatchSpout("n long", batches))
        stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        if new:
            stream.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sums", backfill=True)
        return topology

    run(declared([[1], [2], [3]], False), tmp_path)
    with pytest.raises(DataLossError, match=r"was read up to batch 2, so a state with backfill=True would lack"):
        run(declared([[1]], True), tmp_path)


def test_files_are_read_again_up_to_where_they_were_read(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def declared(*new: str) -> TridentTopology:
        topology = TridentTopology()
        lines = topology.newStream("n", FileSpout(folder / "*.txt", maxBytesPerBatch=20)).groupBy("line")
        lines.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        for name in new:
            lines.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=name, backfill=True)
        return topology

    (folder / "one.txt").write_text("a\nb\n" * 40)
    (folder / "two.txt").write_text("b\nc\n" * 40)
    run(declared(), tmp_path)
    with (folder / "two.txt").open("a") as file:  # grows before the start, and a third file comes
        file.write("d\n" * 10)
    (folder / "three.txt").write_text("e\n" * 5)
    counts, again = run(declared("again"), tmp_path, "counts", "again")
    assert counts == again == {"a": 40, "b": 80, "c": 40, "d": 10, "e": 5}
    (folder / "one.txt").unlink()
    with pytest.raises(DataLossError, match=r"1 file\(s\) of .* that were read are gone, such as one.txt"):
        run(declared("third"), tmp_path)


def test_explain_says_how_much_a_start_would_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(program(numbered(100)), tmp_path)
    for new, line in (
        (program(numbered(100), MemoryMapState.opaque()), "stream 'n': 100 records"),
        (program(numbered(100), MemoryMapState.opaque(), backfill=False), "sums: begins empty"),
    ):
        new.explain(name="t", checkpointLocation=tmp_path)
        text = capsys.readouterr().out
        filled = "sums: is filled with the tuples that its streams had so far, before the start takes the log over"
        assert line in text and (filled in text) == ("records" in line)


@pytest.mark.spark
def test_spark_fills_a_state_too(spark: Any, tmp_path: Path) -> None:
    def on_spark(topology: TridentTopology) -> list[dict[Any, Any]]:
        with topology.start(spark, name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=120)
            return [dict(running.state(name).items()) for name in running.states]

    on_spark(program(numbered(100, batch=60)))
    counts, found = on_spark(program(numbered(200, batch=60), MemoryMapState.opaque()))
    assert found == sums(200) and sum(counts.values()) == 200
