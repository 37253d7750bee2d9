"""A fork goes on where the savepoint was, and touches nothing of the first topology: states, outputs, sources."""

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.state.backing.maps import SqliteMap
from tests.support.forks import BATCHES, LATER, Queue, change_origin, contents, read, save, words
from tests.support.kills import killed
from tests.support.server import RedisServer
from trident import (
    Average,
    Count,
    Evolution,
    Sum,
    TridentTopology,
    dropSavepoint,
    dropState,
    forkTopology,
    listSavepoints,
    listStates,
)
from trident.base import crash_points
from trident.base.errors import (
    CodeChangedError,
    OutputConflictError,
    SavepointError,
    StateError,
    StateOwnedError,
    StateShapeError,
    TopologyError,
    TridentError,
)
from trident.log import RedisLog, frozen_results
from trident.log.sqlite_log import SqliteLog
from trident.recovery.savepoint import SavedOutput
from trident.spouts import BatchSpout, FixedBatchSpout, PostgresChangesSpout
from trident.state import BackingMapState, MemoryMapState, RedisMapState, SqliteMapState
from trident.testing.local import start_local
from trident_state.state_shape import StateIdentity

WHOLE = {"dog": 3, "cat": 1, "cow": 1}

pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:state .* appendonly is off", "ignore:state .* is new"),
]


# --- where a fork is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["sqlite", "redis"])
@pytest.mark.parametrize("second", ["sqlite", "redis"])
def test_logs_in_files_and_in_redis(first: str, second: str, tmp_path: Path, shared_redis: RedisServer) -> None:
    logs = {"sqlite": None, "redis": RedisLog(shared_redis.url, requireDurable=False)}
    state = lambda: RedisMapState.opaque(shared_redis.url, buckets=8)  # noqa: E731
    save(words(state=state()), tmp_path / "a", log=logs[first])
    before = {key for key in shared_redis.client.scan_iter("*{first*")}
    values = {key: shared_redis.client.dump(key) for key in before}
    forkTopology("first", "before", "second", tmp_path / "a", toCheckpointLocation=tmp_path / "b", toLog=logs[second])
    assert contents(words(LATER, state()), "second", tmp_path / "b", log=logs[second]) == WHOLE
    assert contents(words([*LATER, ["cow"]], state()), "second", tmp_path / "b", log=logs[second])["cow"] == 2
    assert {key: shared_redis.client.dump(key) for key in before} == values, "the fork only reads the savepoint"
    assert contents(words(state=state()), "first", tmp_path / "a", log=logs[first]) == {"dog": 2, "cat": 1}


def test_a_fork_may_keep_its_states_in_another_kind_of_store(tmp_path: Path, shared_redis: RedisServer) -> None:
    save(words(), tmp_path)
    own = functools.partial(SqliteMap, str(tmp_path / "own.db"))
    kinds: list[Callable[[], Any]] = [
        lambda: RedisMapState.transactional(shared_redis.url, buckets=8, groups=2),
        lambda: SqliteMapState.opaque(str(tmp_path / "s.db")),
        lambda: BackingMapState.opaque(lambda identity: own(identity)),
        MemoryMapState.nonTransactional,
    ]
    for number, state in enumerate(kinds):
        forkTopology("first", "before", f"fork{number}", tmp_path)
        assert contents(words(LATER, state()), f"fork{number}", tmp_path) == WHOLE
        assert contents(words(LATER, state()), f"fork{number}", tmp_path) == WHOLE
    dropSavepoint("first", "before", tmp_path)
    assert listSavepoints("first", tmp_path) == []
    assert contents(words(LATER, kinds[0]()), "fork0", tmp_path) == WHOLE, "a fork needs its savepoint no longer"


def test_a_large_state_is_in_files_of_the_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_results, "MOST_IN_LOG", 10)
    save(words(), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    assert list((tmp_path / "second" / "frozen").rglob("*.arrow"))
    assert contents(words(LATER), "second", tmp_path) == WHOLE


def test_a_fork_of_a_fork(tmp_path: Path) -> None:
    save(words(), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    with start_local(words(LATER), name="second", checkpointLocation=tmp_path) as running:
        read(running)
        running.savepoint("later")
    forkTopology("second", "later", "third", tmp_path)
    assert contents(words([*LATER, ["owl"]]), "third", tmp_path) == {**WHOLE, "owl": 1}


def test_names_and_places_that_are_refused(tmp_path: Path) -> None:
    save(words(), tmp_path)
    with pytest.raises(
        TopologyError, match=r"is the name of the topology itself: .*, call restoreTopology\('first', 'before', ...\)"
    ):
        forkTopology("first", "before", "first", tmp_path, toCheckpointLocation=tmp_path / "other")
    with pytest.raises(TopologyError, match="fork"):
        forkTopology("first", "before", "a/b", tmp_path)
    with pytest.raises(TopologyError, match="give the location of the savepoints"):
        forkTopology("first", "before", "second")
    with pytest.raises(
        SavepointError, match=r"no savepoint 'befor' at .*; did you mean 'before'\? \(there is 'before'\)"
    ):
        forkTopology("first", "befor", "second", tmp_path)
    assert contents(words(), "taken", tmp_path) == {"dog": 2, "cat": 1}
    with pytest.raises(SavepointError, match=r"there is a topology 'taken' .* already"):
        forkTopology("first", "before", "taken", tmp_path)
    assert contents(words(), "taken", tmp_path) == {"dog": 2, "cat": 1}
    forkTopology("first", "before", "second", tmp_path)
    with pytest.raises(SavepointError, match=r"the fork 'second' .* is complete"):
        forkTopology("first", "before", "second", tmp_path)


def test_a_state_at_the_place_of_the_first_topologys_state_is_refused(tmp_path: Path) -> None:
    """A map of the user's own that ignores the identity of its state is one map for both topologies."""
    one = StateIdentity("one", "map", "")
    state = lambda: BackingMapState.opaque(lambda identity: SqliteMap(str(tmp_path / "own.db"), one))  # noqa: E731
    save(words(state=state()), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    with pytest.raises(StateOwnedError, match="holds the state 'counts' of topology 'first'"):
        contents(words(LATER, state()), "second", tmp_path)
    assert contents(words(state=state()), "first", tmp_path) == {"dog": 2, "cat": 1}


# --- half-way ---------------------------------------------------------------------------------------------------------


def test_a_fork_that_was_not_completed_is_refused_until_it_is_repeated(tmp_path: Path) -> None:
    save(words(), tmp_path)
    save(words(LATER), tmp_path, "after")
    killed("fork.enrolled", lambda: forkTopology("first", "before", "second", tmp_path))
    with pytest.raises(SavepointError, match=r"is a fork of 'first' that was not completed: repeat forkTopology"):
        contents(words(LATER), "second", tmp_path)
    with pytest.raises(SavepointError, match=r"was begun from another savepoint, 'before' of 'first'"):
        forkTopology("first", "after", "second", tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    assert contents(words(LATER), "second", tmp_path) == WHOLE


def test_a_start_that_begins_before_the_fork_does_not_go_on_after_it(tmp_path: Path) -> None:
    """The fork begins while the start has checked the log, and has not taken it yet."""
    save(words(), tmp_path)

    def listen(reached: str) -> None:
        if reached == "start.log.taken":
            crash_points.listen(None)
            killed("fork.begun", lambda: forkTopology("first", "before", "second", tmp_path))

    crash_points.listen(listen)
    with pytest.raises(SavepointError, match="that was not completed"):
        contents(words(LATER), "second", tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    assert contents(words(LATER), "second", tmp_path) == WHOLE


def test_a_fork_that_is_started_as_soon_as_it_is_complete_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start takes the log between the last write of the fork and its return of the log."""
    save(words(), tmp_path)
    give_back, started = SqliteLog.give_back, []

    def late(log: SqliteLog, lease: Any) -> None:
        if not started:
            started.append(True)
            assert contents(words(LATER), "second", tmp_path) == WHOLE
        give_back(log, lease)

    monkeypatch.setattr(SqliteLog, "give_back", late)
    forkTopology("first", "before", "second", tmp_path)
    assert started and contents(words(LATER), "second", tmp_path) == WHOLE


def test_a_damaged_savepoint_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    save(words(), tmp_path)
    folder = tmp_path / "first" / "savepoints"
    (file,) = folder.rglob("*.arrow")
    whole, manifest = file.read_bytes(), (folder / "before.json").read_bytes()

    def refused(match: str) -> None:
        with pytest.raises(SavepointError, match=match):
            forkTopology("first", "before", "second", tmp_path)
        assert not (tmp_path / "second").exists()

    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused("is damaged: .*CRC32")
    file.unlink()
    refused("is damaged: .*is missing")
    file.write_bytes(whole)
    (folder / "before.json").write_bytes(manifest.replace(b'"words":2', b'"words":3'))
    refused("its checksum does not match")
    with pytest.raises(SavepointError, match="its checksum does not match"):
        listSavepoints("first", tmp_path)
    (folder / "before.json").write_bytes(manifest[:40])
    refused("is damaged")
    (folder / "before.json").write_bytes(manifest.replace(b'"format":1', b'"format":9'))
    refused("has the format 9")
    (folder / "before.json").write_bytes(manifest)
    forkTopology("first", "before", "second", tmp_path)
    assert contents(words(LATER), "second", tmp_path) == WHOLE


def test_a_drop_that_was_killed_is_repeated(tmp_path: Path) -> None:
    save(words(), tmp_path)
    killed("savepoint.dropped", lambda: dropSavepoint("first", "before", tmp_path))
    assert listSavepoints("first", tmp_path) == []
    save(words(), tmp_path)
    dropSavepoint("first", "before", tmp_path)
    assert not list((tmp_path / "first" / "savepoints").iterdir())
    with pytest.raises(SavepointError, match="no savepoint 'before'"):
        dropSavepoint("first", "before", tmp_path)


# --- a changed program ------------------------------------------------------------------------------------------------


def totals(batches: list[Any], **how: Any) -> TridentTopology:
    topology = TridentTopology()
    stream = topology.newStream("words", FixedBatchSpout("word string, n long", batches)).groupBy("word")
    several, evolve = how["of"], how.get("evolve")
    given = () if isinstance(several, dict) else ("n",)
    stream.persistentAggregate(MemoryMapState.opaque(), several, *given, name="counts", evolve=evolve)
    return topology


ROWS: list[Any] = [[("a", 1), ("b", 2)], [("a", 3)]]


def test_a_state_in_another_shape_needs_evolve(tmp_path: Path) -> None:
    save(totals(ROWS, of=Count()), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    several = {"n": Count(), "sum": Sum("n")}
    with pytest.raises(StateShapeError, match=r"state 'counts' has .* but the topology declares"):
        contents(totals(ROWS, of=several), "second", tmp_path)
    evolve = Evolution("long", lambda n: (n, 1000 * n), by="Count")
    more = [*ROWS, [("a", 5)]]
    for point in ("start.log.taken", "start.state.born", "start.state.created", "start.done", "heal.applied"):
        killed(point, lambda: contents(totals(more, of=several, evolve=evolve), "second", tmp_path))
    found = contents(totals(more, of=several, evolve=evolve), "second", tmp_path)
    assert {key: tuple(value) for key, value in found.items()} == {"a": (3, 2005), "b": (1, 1000)}
    found = contents(totals(more, of=several, evolve=evolve), "second", tmp_path)
    assert {key: tuple(value) for key, value in found.items()} == {"a": (3, 2005), "b": (1, 1000)}
    assert contents(totals(more, of=Count()), "first", tmp_path) == {"a": 3, "b": 1}


def test_a_new_state_of_a_fork_gets_the_tuples_from_before_the_savepoint(tmp_path: Path) -> None:
    save(words(), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    topology = TridentTopology()
    stream = topology.newStream("words", FixedBatchSpout("word string", LATER)).groupBy("word")
    stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="again", backfill=True)
    with start_local(topology, name="second", checkpointLocation=tmp_path) as running:
        assert read(running) == read(running, "again") == WHOLE


def test_a_state_whose_shape_has_not_changed_yet_is_saved_in_its_present_shape(tmp_path: Path) -> None:
    """The program with evolve= has committed nothing, so its state is stored in the former shape."""
    several, evolve = {"n": Count(), "sum": Sum("n")}, Evolution("long", lambda n: (n, 1000 * n), by="Count")
    with start_local(totals(ROWS, of=Count()), name="first", checkpointLocation=tmp_path) as running:
        read(running)
    save(totals(ROWS, of=several, evolve=evolve), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    found = contents(totals([*ROWS, [("a", 5)]], of=several), "second", tmp_path)
    assert {key: tuple(value) for key, value in found.items()} == {"a": (3, 2005), "b": (1, 1000)}
    assert contents(totals(ROWS, of=Count()), "first", tmp_path) == {"a": 2, "b": 1}


def test_explain_knows_a_fork_that_was_not_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(words(), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    words().explain(name="second", checkpointLocation=tmp_path)
    assert "counts: continues at txid 2" in capsys.readouterr().out


def test_a_former_aggregator_that_the_program_lacks_evolves_in_a_fork(tmp_path: Path) -> None:
    """A fork needs no batch of the former program, so the change of values is enough."""
    save(totals(ROWS, of=Count()), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    evolve = Evolution("long", lambda n: (100 * n, n), by="Count")
    topology = TridentTopology()
    stream = topology.newStream("words", FixedBatchSpout("word string, n long", [*ROWS, [("b", 8)]])).groupBy("word")
    stream.persistentAggregate(MemoryMapState.opaque(), "n", Average(), "mean", name="counts", evolve=evolve)
    assert contents(topology, "second", tmp_path) == {"a": 100.0, "b": 54.0}


def test_a_renamed_stream_is_refused_as_at_any_restart(tmp_path: Path) -> None:
    save(words(), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    topology = TridentTopology()
    stream = topology.newStream("renamed", FixedBatchSpout("word string", LATER)).groupBy("word")
    stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    with pytest.raises(CodeChangedError, match="formerly='words'"):
        contents(topology, "second", tmp_path)
    assert contents(words(LATER), "second", tmp_path) == WHOLE


# --- outputs ----------------------------------------------------------------------------------------------------------


def with_outputs(batches: list[Any], folder: Path, seen: list[int], name: str = "alerts") -> TridentTopology:
    topology = words(batches)
    stream = topology.newStream("more", FixedBatchSpout("word string", batches))
    stream.writeParquet(str(folder))
    stream.foreachArrow(lambda table, txid, attempt: seen.append(txid), name=name)
    return topology


def test_an_output_at_the_place_of_the_first_topologys_is_refused(tmp_path: Path) -> None:
    ours, theirs = list[int](), list[int]()
    save(with_outputs(BATCHES, tmp_path / "out", theirs), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    before = sorted(file for file in (tmp_path / "out").rglob("*"))
    with pytest.raises(
        OutputConflictError, match=r"'more.writeParquet' writes to .*/out, as output .* topology 'first'"
    ):
        contents(with_outputs(LATER, tmp_path / "out", ours), "second", tmp_path)
    with pytest.raises(OutputConflictError, match=r"output 'alerts' has the name and perhaps the target"):
        contents(with_outputs(LATER, tmp_path / "other", ours), "second", tmp_path)
    assert ours == [] and sorted((tmp_path / "out").rglob("*")) == before and not (tmp_path / "other").exists()
    contents(with_outputs(LATER, tmp_path / "other", ours, "trial"), "second", tmp_path)
    assert ours == [3] and (tmp_path / "other").exists()
    contents(with_outputs(LATER, tmp_path / "out", theirs), "first", tmp_path)
    assert theirs == [1, 2, 3]


def test_the_outputs_and_sources_of_a_forks_first_topology_are_refused_in_its_forks(tmp_path: Path) -> None:
    """All three topologies may run, and the third knows the first only through the second."""
    theirs, ours = list[int](), list[int]()
    save(with_outputs(BATCHES, tmp_path / "out", theirs), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    change_origin(tmp_path, "second", held=("the slot 'shop'",))
    with start_local(with_outputs(BATCHES, tmp_path / "b", [], "b"), name="second", checkpointLocation=tmp_path) as run:
        read(run)
        run.savepoint("later")
    forkTopology("second", "later", "third", tmp_path)
    for batches, folder, name, topology in (
        (LATER, "out", "c", "first"),
        (LATER, "c", "alerts", "first"),
        (LATER, "b", "c", "second"),
        (LATER, "c", "b", "second"),
    ):
        with pytest.raises(OutputConflictError, match=f"of topology '{topology}', from which 'third' was forked"):
            contents(with_outputs(batches, tmp_path / folder, ours, name), "third", tmp_path)
    spout = PostgresChangesSpout("env:NOWHERE", "orders", "word string, n long", slot="shop", publication="orders")
    slot = words(LATER)
    slot.newStream("orders", spout).asChanges().toTable("word", name="orders")
    with pytest.raises(SavepointError, match=r"the slot 'shop' belongs to topology 'second', .*, or to a topology"):
        contents(slot, "third", tmp_path)
    contents(with_outputs(LATER, tmp_path / "c", ours, "c"), "third", tmp_path)
    assert ours == [3]


def test_an_output_that_the_program_lacks_now_may_come_back(tmp_path: Path) -> None:
    """The first topology's log knows it by its name alone."""
    theirs = list[int]()
    contents(with_outputs(BATCHES[:1], tmp_path / "out", theirs), "first", tmp_path)
    save(words(), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    with pytest.raises(OutputConflictError, match=r"has the name and perhaps the target, as output .* 'first'"):
        contents(with_outputs(LATER, tmp_path / "other", theirs), "second", tmp_path)
    forkTopology("first", "before", "third", tmp_path, ownOutputs=["alerts", "more.writeParquet"])
    contents(with_outputs(LATER, tmp_path / "other", theirs), "third", tmp_path)
    assert theirs == [1, 2, 3]


def test_a_place_is_known_by_another_spelling(tmp_path: Path) -> None:
    save(with_outputs(BATCHES, tmp_path / "out", []), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with pytest.raises(OutputConflictError, match=r"writes to .*/out, as output"):
        contents(with_outputs(LATER, tmp_path / "link", [], "trial"), "second", tmp_path)
    saved = SavedOutput("stock", "table shop.orders")
    change_origin(tmp_path, "second", outputs=(saved,))
    spellings = [("orders", True), ("shop.orders", True), ("other.orders", False), ("order", False)]
    spellings += [('"orders"', True), ('"shop"."orders"', True), ('shop."Orders"', False), ('"shop.orders"', False)]
    for table, same in spellings:
        topology = words(LATER)
        topology.newStream("more", FixedBatchSpout("word string", LATER)).writeJdbc("env:NOWHERE", table, name="mine")
        refusal = OutputConflictError if same else TridentError
        with pytest.raises(refusal) as raised:
            contents(topology, "second", tmp_path)
        assert ("from which 'second' was forked" in str(raised.value)) == same


@pytest.mark.parametrize(
    ("scheme", "bucket", "same"), [("s3a", "lake", True), ("S3", "lake", True), ("s3", "pond", False)]
)
def test_the_place_of_a_delta_table_is_known_by_another_scheme(
    scheme: str, bucket: str, same: bool, tmp_path: Path
) -> None:
    save(words(), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    change_origin(tmp_path, "second", outputs=(SavedOutput("sales", "s3://lake/sales"),))
    topology, options = words(LATER), {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true"}
    more = topology.newStream("more", FixedBatchSpout("word string", LATER))
    more.writeDelta(f"{scheme}://{bucket}/sales", name="mine", storageOptions=options)
    with pytest.raises(TridentError) as raised:
        contents(topology, "second", tmp_path)
    assert ("from which 'second' was forked" in str(raised.value)) == same


def test_an_output_that_writes_elsewhere_may_keep_its_name(tmp_path: Path) -> None:
    seen = list[int]()
    save(with_outputs(BATCHES, tmp_path / "out", []), tmp_path)
    forkTopology("first", "before", "second", tmp_path, ownOutputs=["alerts"])
    contents(with_outputs(LATER, tmp_path / "other", seen), "second", tmp_path)
    assert seen == [3]


def test_a_function_of_a_best_effort_branch_is_an_output_too(tmp_path: Path) -> None:
    def program(name: str) -> TridentTopology:
        topology = words(LATER)
        stream = topology.newStream("more", FixedBatchSpout("word string", LATER))
        stream.bestEffort().foreachArrow(lambda table, txid, attempt: None, name=name)
        return topology

    save(program("mail"), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    with pytest.raises(OutputConflictError, match="output 'mail' has the name"):
        contents(program("mail"), "second", tmp_path)
    assert contents(program("other"), "second", tmp_path) == WHOLE


# --- sources ----------------------------------------------------------------------------------------------------------


def queued(spout: Any) -> TridentTopology:
    topology = TridentTopology()
    topology.newStream("words", spout).groupBy("word").persistentAggregate(
        MemoryMapState.opaque(), Count(), "n", name="counts"
    )
    return topology


@pytest.mark.filterwarnings("ignore")
def test_a_queue_is_left_to_the_first_topology(tmp_path: Path) -> None:
    save(queued(Queue(["dog", "cat"])), tmp_path)
    (info,) = listSavepoints("first", tmp_path)
    assert info.heldStreams == ("words",)
    with pytest.raises(SavepointError, match=r"'words' reads from Queue\(\), which only one .* anew=\['words'\]"):
        forkTopology("first", "before", "second", tmp_path)
    with pytest.raises(SavepointError, match=r"anew='word': the savepoint has no stream .*did you mean 'words'"):
        forkTopology("first", "before", "second", tmp_path, anew=["word"])
    assert not (tmp_path / "second").exists()
    forkTopology("first", "before", "second", tmp_path, anew=["words"])
    assert contents(queued(Queue(["dog"])), "second", tmp_path) == {"dog": 2, "cat": 1}


class Numbered(BatchSpout):
    outputFields = "word string"

    def emitBatch(self, batchId: int) -> Any:
        return LATER[batchId - 1] if batchId <= len(LATER) else None


class Acknowledging(Numbered):
    def ack(self, batchId: int) -> None: ...


class Reading(Acknowledging):
    forkable = True


def test_a_spout_of_ones_own_is_forked_if_it_only_reads(tmp_path: Path) -> None:
    for number, (spout, held) in enumerate([(Numbered(), ()), (Acknowledging(), ("words",)), (Reading(), ())]):
        save(queued(spout), tmp_path / str(number))
        (info,) = listSavepoints("first", tmp_path / str(number))
        assert info.heldStreams == held
    forkTopology("first", "before", "second", tmp_path / "0")
    assert contents(queued(Numbered()), "second", tmp_path / "0") == WHOLE


def test_a_slot_of_the_first_topology_is_refused_in_the_fork(tmp_path: Path) -> None:
    """The start is refused before the slot is looked at, so no server is needed."""
    save(words(), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    change_origin(tmp_path, "second", held=("the slot 'shop'",))
    spout = PostgresChangesSpout("env:NOWHERE", "orders", "word string, n long", slot="shop", publication="orders")
    topology = words(LATER)
    topology.newStream("orders", spout).asChanges().toTable("word", name="orders")
    with pytest.raises(SavepointError, match=r"the slot 'shop' belongs to topology 'first'"):
        contents(topology, "second", tmp_path)


def test_lists_of_states_show_the_fork(tmp_path: Path) -> None:
    save(words(), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    found = {info.topology: (info.name, info.txid) for info in listStates(tmp_path)}
    assert found == {"first": ("counts", 2), "second": ("counts", 2)}


def test_a_state_of_a_fork_without_a_start_is_dropped(tmp_path: Path, shared_redis: RedisServer) -> None:
    """No store has it yet, so its location is not needed."""

    def program(batches: list[Any], states: Callable[[], Any]) -> TridentTopology:
        topology = words(batches, states())
        stream = topology.newStream("more", FixedBatchSpout("word string", batches)).groupBy("word")
        stream.persistentAggregate(states(), Count(), "n", name="others")
        return topology

    redis = functools.partial(RedisMapState.opaque, shared_redis.url, buckets=8)
    save(program(BATCHES, redis), tmp_path)
    forkTopology("first", "before", "fork", tmp_path)
    with pytest.raises(StateError, match="the log of topology 'fork' has no state 'count'; did you mean 'counts'"):
        dropState("fork", "count", tmp_path)
    for state in ("counts", "others"):
        dropState("fork", state, tmp_path)
    assert contents(program(LATER, redis), "fork", tmp_path) == {"dog": 1, "cow": 1}
    with pytest.raises(StateError, match="state 'counts' is not in memory"):
        dropState("fork", "counts", tmp_path)
    assert contents(program(LATER, redis), "first", tmp_path) == WHOLE


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_reset_of_a_fork_keeps_what_it_must_not_touch(kind: str, tmp_path: Path, shared_redis: RedisServer) -> None:
    log = None if kind == "sqlite" else RedisLog(shared_redis.url, requireDurable=False)

    def program(batches: list[Any], out: str) -> TridentTopology:
        topology = words(batches)
        topology.newStream("rows", FixedBatchSpout("n long", [[1]])).writeParquet(tmp_path / out, name="rows")
        return topology

    save(program(BATCHES, "out"), tmp_path, log=log)
    forkTopology("first", "before", "fork", tmp_path, toLog=log)
    assert contents(program(LATER, "own"), "fork", tmp_path, log=log) == WHOLE
    for _ in range(2):
        program(LATER, "own").reset("fork", tmp_path, log=log)
        with pytest.raises(OutputConflictError, match="as output 'rows' of topology 'first', from which 'fork' was"):
            contents(program(LATER, "out"), "fork", tmp_path, log=log)
    shutil.rmtree(tmp_path / "own")
    assert contents(program(LATER, "own"), "fork", tmp_path, log=log) == {"dog": 3, "cat": 1, "cow": 1}
    program(LATER, "own").reset("fork", tmp_path, log=log)
    forkTopology("first", "before", "fork", tmp_path, toLog=log)
    with pytest.raises(OutputConflictError, match="as output 'rows' of topology 'first'"):
        contents(program(LATER, "out"), "fork", tmp_path, log=log)
    program(LATER, "own").reset("fork", tmp_path, log=log, force=True)
    shutil.rmtree(tmp_path / "out")
    assert contents(program(LATER, "out"), "fork", tmp_path, log=log) == {"dog": 3, "cat": 1, "cow": 1}


@pytest.mark.parametrize("point", ["reset.owner", "reset.log"])
def test_a_reset_of_a_fork_that_dies_is_done_by_the_next_one(point: str, tmp_path: Path) -> None:
    def die(reached: str) -> None:
        if reached == point:
            raise OSError("the process dies")

    save(words(), tmp_path)
    forkTopology("first", "before", "fork", tmp_path)
    assert contents(words(LATER), "fork", tmp_path) == WHOLE
    crash_points.listen(die)
    try:
        with pytest.raises(OSError, match="the process dies"):
            words().reset("fork", tmp_path)
    finally:
        crash_points.listen(None)
    words().reset("fork", tmp_path)
    assert {each.name.partition(".sqlite")[0] for each in (tmp_path / "fork").iterdir()} == {"log"}
    assert contents(words(LATER), "fork", tmp_path) == {"dog": 3, "cat": 1, "cow": 1}
