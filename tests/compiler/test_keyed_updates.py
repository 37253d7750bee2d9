"""Updates by key: tasks that each have the tuples of some keys come to what the driver comes to, in any cut."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from tests.compiler.keyed_runner import FIELDS, KEYS, Held, Last, by_tasks, rows_by_key, update_of
from trident import SlidingCountWindow, StatefulOperation, TransactionOperation, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.errors import StateError, StateKeyError, StateValueError, UserFunctionError
from trident.base.spark_types import arrow_schema, spark_schema
from trident.compiler.keyed_job import KeyedJob, Wanted
from trident.compiler.keyed_updates import KeyedUpdate, same_in_parts, why_not_by_key
from trident.compiler.spark.keyed_jobs import REPORT, result_of
from trident.compiler.stages import cut
from trident.compiler.state_updates import compile_state_update
from trident.compiler.states.update_types import WindowBatch
from trident.compiler.states.updates import Updated
from trident.files.disk import DiskFiles
from trident.frozen.files import FrozenFolders, read_whole, secure
from trident.plan.nodes import StateUpdate
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident_spouts.shared_reading import SharesEmission


class Joined:
    """A reducer that tells the order of its tuples."""

    outputType = "string"

    def init(self) -> str:
        return "<"

    def reduce(self, curr: str, tuple: Any) -> str:
        return f"{curr}{tuple.n},"


class Running(StatefulOperation):
    """An operation that puts at the end of a batch, and removes what has become too long."""

    def initState(self, state: Any) -> None:
        self.state, self.held = state, dict[Any, str]()

    def execute(self, tuple: Any, collector: Any) -> None:
        now = self.held.get(tuple.k, self.state.get(tuple.k) or "") + f"{tuple.n},"
        self.held[tuple.k] = now
        for part in now.split(",")[:-1][:2]:
            collector.emit([f"{part} of {now}"])

    def prePrepare(self, txid: int) -> None:
        for key, value in self.held.items():
            self.state.put(key, None if len(value) > 20 else f"{value}|{txid}|")


def put(state: Any, tuples: Sequence[Any], collector: Any) -> None:
    """Append to what is stored, tuple by tuple; every third one removes its key."""
    keys = [(t.k,) for t in tuples]
    for (key, t), now in zip(zip(keys, tuples, strict=True), state.multiGet(keys), strict=True):
        value = f"{now or ''}{t.n},"
        state.multiPut([key], [None if t.n % 3 == 0 else value])
        collector.emit([t.k, value])


def running(tuple: Any, state: Any) -> str:
    now = f"{state.get(tuple.k, '')}{tuple.n},"
    if tuple.n % 5 == 0:
        state.delete(tuple.k)
    else:
        state.put(tuple.k, now)
    return now


HELD = {"keyFields": "k", "valueType": "string", "name": "held"}


def reducing(s: Any) -> None:
    s.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "n", Joined(), "seen", name="held")


def updating(s: Any) -> None:
    s.partitionPersist(MemoryMapState.opaque(), put, "k double, seen string", **HELD).newValuesStream().peek(print)


def stateful(s: Any) -> None:
    s.statefulEach(running, "now string", **HELD).peek(print)


def stateful_object(s: Any) -> None:
    s.statefulEach(Running(), "now string", **HELD).peek(print)


def first(s: Any) -> None:
    s.dropDuplicates("k", MemoryMapState.opaque(), name="held").peek(print)


def latest(s: Any) -> None:
    s.toTable("k", MemoryMapState.opaque(), name="held")


def counted(s: Any) -> None:
    s.groupBy("k").window(SlidingCountWindow(3, 2), "n", Last(), "seen long", name="held").peek(print)


KINDS = [reducing, updating, stateful, stateful_object, first, latest, counted]


TUPLES = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 9)), max_size=30)


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(TUPLES, min_size=1, max_size=4),
    parts=st.integers(1, 4),
    tasks=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_tasks_come_to_what_the_driver_comes_to(
    make: Any, tmp_path: Path, batches: list[Any], parts: int, tasks: int, seed: int
) -> None:
    """The driver's update keeps nothing that the tasks lack: each batch is made anew, by all tuples and by each key."""
    step, puts, emitted = update_of(make)
    assert why_not_by_key(step) is None
    driver, theirs, entering = Held(puts), Held(puts), arrow_schema(step.source.schema)
    for txid, batch in enumerate(batches, 1):
        table = pa.Table.from_pylist([{"k": k, "n": n} for k, n in batch], entering)
        ends = [number * len(batch) // parts for number in range(parts + 1)]
        tables = [table.slice(start, end - start) for start, end in zip(ends, ends[1:], strict=False)]
        expected = made_by_driver(step, table, driver, txid)
        shares = SharesEmission(tuple(range(parts)), tables.__getitem__, spark_schema(entering), len(batch))
        folder = FrozenFolders(DiskFiles(tmp_path), "log").folder("g", TransactionAttempt(txid, 0, 1), 2)
        job = KeyedJob(KeyedUpdate.of(step), shares, theirs, txid, 0.0, Wanted(folder, puts, emitted))  # type: ignore[arg-type]
        result = result_of(job, pa.Table.from_batches(by_tasks(job, tasks, random.Random(seed)), REPORT))
        theirs.apply(read_whole(DiskFiles(tmp_path), result.puts))
        assert theirs.contents == driver.contents
        if emitted is None:
            assert result.emitted is None
        else:
            assert result.emitted is not None and result.emitted.schema == emitted
            assert rows_by_key(read_whole(DiskFiles(tmp_path), result.emitted)) == rows_by_key(expected.emitted)


def made_by_driver(step: StateUpdate, table: pa.Table, held: Held, txid: int) -> Updated:
    updated = compile_state_update(step)([table], held, WindowBatch(txid, lambda: 0.0, None))
    held.apply(updated.puts)
    return updated


# --- what an update by key may not do, and what is none -------------------------------------------------------------


def elsewhere(tuple: Any, state: Any) -> None:
    state.get(tuple.k + 1, "")


def puts_elsewhere(state: Any, tuples: Any, collector: Any) -> None:
    state.multiPut([(t.k + 1,) for t in tuples], ["x" for _ in tuples])


def lists(tuple: Any, state: Any) -> None:
    list(state.keys())


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda s: s.statefulEach(elsewhere, **HELD), "the call used the key (k=2.0), which is not one of them"),
        (
            lambda s: s.partitionPersist(MemoryMapState.opaque(), puts_elsewhere, **HELD),
            "the call used the key (k=2.0), which is not one of them",
        ),
        (lambda s: s.statefulEach(lists, **HELD), "the call listed all entries, also those of other keys"),
    ],
    ids=["reads", "puts", "lists"],
)
def test_other_keys_than_those_of_the_tuples_are_refused(make: Any, says: str) -> None:
    step, puts, _ = update_of(make)
    table = pa.table({"k": pa.array([1.0]), "n": pa.array([1])})
    with pytest.raises(StateKeyError) as refused:
        KeyedUpdate.of(step)(table, Held(puts), 1, 0.0)
    assert says in str(refused.value) and "state 'held'" in str(refused.value)
    assert "writers='driver'" in str(refused.value)


class Checkpointed(TransactionOperation):
    def initState(self, checkpoint: Any) -> None: ...
    def rollback(self, checkpoint: Any) -> None: ...
    def execute(self, tuple: Any, collector: Any) -> None: ...
    def finishBatch(self, txid: int) -> Any: ...


class Preparing(Running):
    def preCommit(self, txid: int) -> None:
        print(txid)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda s: s.statefulEach(Checkpointed(), name="held"), "keeps its own state,"),
        (lambda s: s.statefulEach(Preparing(), "now string", **HELD), "calls its preCommit"),
        (lambda s: s.persistentAggregate(MemoryMapState.opaque(), "n", Joined(), "seen", name="held"), "no key fields"),
        (lambda s: s.partitionPersist(MemoryMapState.opaque(), put, valueType="string", name="held"), "no key fields"),
        (
            lambda s: s.partitionPersist(MemoryMapState.opaque(), "n", put, **HELD),
            "lack the key field 'k' of its state; give it as an input field",
        ),
        (
            lambda s: s.partitionPersist(MemoryMapState.opaque(), put, **{**HELD, "keyFields": "word string"}),
            "lack the key field 'word'",
        ),
    ],
)
def test_why_an_update_is_not_made_by_key(make: Any, says: str) -> None:
    why = why_not_by_key(update_of(make)[0])
    assert why is not None and says in why


def test_what_depends_on_the_tuples_around_it_is_not_divided_unasked() -> None:
    alike = {make.__name__: same_in_parts(update_of(make)[0]) for make in KINDS}
    assert [name for name, same in alike.items() if not same] == ["updating", "stateful_object"]


# --- reports --------------------------------------------------------------------------------------------------------


def job_of(make: Any, folder: Path, tables: list[pa.Table]) -> KeyedJob:
    step, puts, emitted = update_of(make)
    schema = spark_schema(arrow_schema(step.source.schema))
    shares = SharesEmission(tuple(range(len(tables))), tables.__getitem__, schema, sum(len(t) for t in tables))
    files = FrozenFolders(DiskFiles(folder), "log").folder("g", TransactionAttempt(1, 0, 1), 2)
    return KeyedJob(KeyedUpdate.of(step), shares, Held(puts), 1, 0.0, Wanted(files, puts, emitted))  # type: ignore[arg-type]


TABLES = [pa.table({"k": [1.0, 2.0, 3.0], "n": [1, 2, 3]}), pa.table({"k": [4.0, 5.0, 1.0], "n": [4, 5, 6]})]


def test_tuples_that_did_not_arrive_are_noticed(tmp_path: Path) -> None:
    job = job_of(stateful, tmp_path, TABLES)
    reports = by_tasks(job, 3, random.Random(1))
    entered = [report.column("entered")[0].as_py() for report in reports]
    kept = [report for report, rows in zip(reports, entered, strict=True) if rows != max(entered)]
    with pytest.raises(StateError, match=r"the workers applied \d tuples to the state, but the batch has 6"):
        result_of(job, pa.Table.from_batches(kept, REPORT))


def test_the_folder_of_the_files_is_durable_before_they_are_named(tmp_path: Path, monkeypatch: Any) -> None:
    synced = list[Path]()
    monkeypatch.setattr("trident.files.disk.fsync_folder", synced.append)
    job = job_of(stateful, tmp_path, TABLES)
    reports = pa.Table.from_batches(by_tasks(job, 2, random.Random(1)), REPORT)
    assert set(synced) == {tmp_path / job.wanted.folder.folder}, "by the tasks"
    made = result_of(job, reports)
    synced.clear()
    secure(DiskFiles(tmp_path), [made.puts])
    assert synced == [tmp_path / "frozen" / "log" / "g", tmp_path / "frozen" / "log", tmp_path / "frozen", tmp_path]


def fails(tuple: Any, state: Any) -> None:
    raise ValueError(f"not {tuple.n}")


def test_an_error_of_the_users_is_a_row_with_its_step_and_line(tmp_path: Path) -> None:
    job = job_of(lambda s: s.statefulEach(fails, **HELD), tmp_path, TABLES[:1])
    with pytest.raises(UserFunctionError, match=r"statefulEach\(fails\).*test_keyed_updates.py:\d+.*not 1") as raised:
        result_of(job, pa.Table.from_batches(by_tasks(job, 1, random.Random(1)), REPORT))
    assert any("in the worker" in note for note in raised.value.__notes__)


def test_a_time_that_no_state_holds_is_refused_before_it_is_frozen(tmp_path: Path, monkeypatch: Any) -> None:
    far = pa.array([2**59], pa.timestamp("us"))
    monkeypatch.setattr(
        "trident.compiler.keyed_updates.compile_state_update",
        lambda step: lambda tables, stored, batch: Updated(pa.table({"k": [1.0], "value": far}), None),
    )
    job = job_of(reducing, tmp_path, [TABLES[0].slice(0, 1)])
    with pytest.raises(StateValueError, match=r"state 'held', batch 1, k=1.0.*outside the years 1 to 9999"):
        result_of(job, pa.Table.from_batches(by_tasks(job, 1, random.Random(1)), REPORT))
    assert not list(tmp_path.rglob("*.arrow"))


def test_an_update_travels_without_the_plan_around_it() -> None:
    topology = TridentTopology()
    words = topology.newStream("s", FixedBatchSpout(FIELDS, [[(float(n), n) for n in range(5000)]]))
    words.statefulEach(running, **HELD)
    (group,) = cut(topology).groups
    (step,) = group.states
    sent = cloudpickle.dumps(KeyedUpdate.of(step))  # type: ignore[arg-type, no-untyped-call]
    assert len(sent) < 10_000
