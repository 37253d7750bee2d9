"""Updates by key: tasks that each have the tuples of some keys come to what the driver comes to, in any cut."""

import datetime as dt
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from tests.compiler.window_runner import EPOCH
from trident import (
    Count,
    SessionWindow,
    SlidingCountWindow,
    StatefulOperation,
    Sum,
    TransactionOperation,
    TridentTopology,
)
from trident.base.attempt import TransactionAttempt
from trident.base.errors import StateError, StateKeyError, StateValueError, UserFunctionError
from trident.base.types import arrow_schema, spark_schema
from trident.compiler.keyed_updates import KeyedUpdate, same_in_parts, why_not_by_key
from trident.compiler.spark.frozen_files import FrozenFolders, read_whole
from trident.compiler.spark.keyed_jobs import REPORT, TASK_ROWS, KeyedJob, Wanted
from trident.compiler.stages import cut
from trident.compiler.state_updates import compile_state_update
from trident.compiler.states.due_times import first_ends
from trident.compiler.states.updates import Updated
from trident.compiler.windows.run_types import Clock, WindowBatch
from trident.compiler.windows.time import NEVER
from trident.files.disk import DiskFiles
from trident.plan.nodes import Emitted, StateUpdate
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident_spouts.shares import SharesEmission
from trident_state.keys import decode_keys, encode_keys

FIELDS = "k double, n long"


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


class Last:
    """An aggregator over a window that gives one tuple for each of its tuples."""

    outputFields = "seen long"

    def init(self, batchId: Any, collector: Any) -> list[int]:
        return []

    def aggregate(self, state: list[int], tuple: Any, collector: Any) -> None:
        state.append(tuple.n)

    def complete(self, state: list[int], collector: Any) -> None:
        for n in state:
            collector.emit([n])


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


def update_of(make: Any, fields: str = FIELDS) -> tuple[StateUpdate, pa.Schema, pa.Schema | None]:
    """Return a program's update, and the fields of its puts and of what it emits."""
    topology = TridentTopology()
    make(topology.newStream("s", FixedBatchSpout(fields, [])))
    (group,) = cut(topology).groups
    outputs = [output for stage in group.stages for output in stage.updates]
    (update,) = (o for o in outputs if isinstance(o.step, StateUpdate) and o.name == "held")
    emitted = [o.schema for o in outputs if isinstance(o.step, Emitted)]
    assert isinstance(update.step, StateUpdate)
    return update.step, update.schema, emitted[0] if emitted else None


class Held:
    """A state between two batches, by the bytes of its keys."""

    def __init__(self, puts: pa.Schema) -> None:
        self.keys, self.value = pa.schema(list(puts)[:-1]), puts[-1]
        self.rows: dict[bytes, pa.Scalar] = {}

    def read(self, keys: pa.Table) -> pa.Array:
        found = [self.rows.get(key.as_py()) for key in encode_keys(keys)]
        return pa.array([None if row is None else row.as_py() for row in found], self.value.type)

    def scan(self) -> Iterator[pa.Table]:
        raise AssertionError("the driver of these updates lists nothing")

    def apply(self, puts: pa.Table) -> None:
        keys = encode_keys(puts.select(self.keys.names))
        assert len(set(keys.to_pylist())) == len(keys)
        for key, value in zip(keys.to_pylist(), puts.column(puts.num_columns - 1), strict=True):
            if value.is_valid:
                self.rows[key] = value
            else:
                self.rows.pop(key, None)

    @property
    def contents(self) -> dict[bytes, Any]:
        return {key: value.as_py() for key, value in self.rows.items()}


def by_tasks(job: KeyedJob, tasks: int, draw: random.Random) -> list[pa.RecordBatch]:
    """Run a job as Spark does, with tasks that are doubled, and rows that arrive in any order. Return the reports."""
    cut_by_key, update_keys = job.functions(tasks)
    arrived: dict[int, list[pa.RecordBatch]] = {}
    for number in draw.sample(range(job.parts), job.parts):
        for row in cut_by_key(iter([pa.RecordBatch.from_pydict({"id": [number]})])):
            arrived.setdefault(row.column("task")[0].as_py(), []).append(row)
    reports = []
    for rows in arrived.values():
        draw.shuffle(rows)
        tries = [
            list(update_keys(iter(rows))) for _ in range(draw.choice([1, 1, 2]))
        ]  # a second try of which one counts
        reports += draw.choice(tries)
    return reports


def rows_by_key(table: pa.Table | None) -> dict[str, list[Any]]:
    """Return the rows of each key, in their order; NaN is one key."""
    rows: dict[str, list[Any]] = {}
    for row in [] if table is None else table.to_pylist():
        rows.setdefault(repr(row["k"] or 0.0 if row["k"] is not None else None), []).append(repr(row))
    return rows


KEYS = [0.0, -0.0, 1.0, 2.0, float("nan"), None]
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
        result = job.result(pa.Table.from_batches(by_tasks(job, tasks, random.Random(seed)), REPORT))
        theirs.apply(read_whole(DiskFiles(tmp_path), result.puts))
        assert theirs.contents == driver.contents
        if emitted is None:
            assert result.emitted is None
        else:
            assert result.emitted is not None and result.emitted.schema == emitted
            assert rows_by_key(read_whole(DiskFiles(tmp_path), result.emitted)) == rows_by_key(expected.emitted)


# --- sessions ---------------------------------------------------------------------------------------------------------

GAP, SLACK = 10, 4
LAST_SECOND = (dt.datetime.max.replace(tzinfo=dt.UTC) - EPOCH) // dt.timedelta(seconds=1)


def summed(s: Any) -> None:
    window = SessionWindow(GAP, "at", lateness=SLACK)
    s.groupBy("k").window(window, MemoryMapState.opaque(), {"n": Count(), "sum": Sum("n")}, name="held").peek(print)


def gathered(s: Any) -> None:
    window = SessionWindow(GAP, "at", lateness=SLACK)
    s.groupBy("k").window(window, MemoryMapState.opaque(), "n", All(), "all string", name="held").peek(print)


class All(Last):
    """An aggregator that tells every tuple of a session."""

    def complete(self, state: list[int], collector: Any) -> None:
        collector.emit([str(state)])


class Indexed:
    """A state between two batches that knows what is due. Some keys it tells too early, as a rounded score does."""

    groups = 3

    def __init__(self, held: Held, early: random.Random) -> None:
        self.held, self.early = held, early

    def read(self, keys: pa.Table) -> pa.Array:
        return self.held.read(keys)

    def found(self, until: int) -> list[bytes]:
        ends = {key: first_ends(pa.array([row.as_py()], self.held.value.type))[0].as_py() for key, row in self.rows()}
        return [key for key, end in ends.items() if end <= until or self.early.random() < 0.2]

    def rows(self) -> list[tuple[bytes, pa.Scalar]]:
        return list(self.held.rows.items())

    def table(self, keys: list[bytes]) -> pa.Table:
        return decode_keys(pa.array(keys, pa.binary()), self.held.keys)


class InDriver(Indexed):
    """As an update in the driver sees it."""

    def due(self, until: int) -> pa.Table:
        return self.table(self.found(until))


class InGroups(Indexed):
    """As workers see it. The index has several groups, and each group has pages of two keys."""

    def due(self, group: int, until: int) -> Iterator[pa.Table]:
        keys = [key for key in sorted(self.found(until)) if sum(key) % self.groups == group]
        for at in range(0, len(keys), 2):
            yield self.table(keys[at : at + 2])


def closings(batches: Sequence[Sequence[tuple[Any, int, int | None]]], whole: Callable[[list[int]], Any]) -> list[Any]:
    """What leaves with each batch, by a model that knows nothing of states."""
    mark: int | None = None
    opened: dict[str, list[list[tuple[int, int, int]]]] = {}
    left, order = [], 0
    for batch in batches:
        before = mark
        mark = max(
            [*[t - SLACK for _, _, t in batch if t is not None], *([] if mark is None else [mark])], default=None
        )
        for k, n, t in batch:
            order += 1
            if t is None or (before is not None and t + GAP <= before):
                continue
            own = opened.setdefault(repr(k or 0.0 if k is not None else None), [])
            met = [session for session in own if any(abs(t - other) < GAP for other, _, _ in session)]
            own[:] = [session for session in own if session not in met]
            own.append(sorted([(t, order, n), *(row for session in met for row in session)]))
        now = []
        for key, own in opened.items():
            for session in [s for s in own if mark is not None and min(s[-1][0] + GAP, LAST_SECOND + 1) <= mark]:
                own.remove(session)
                now.append((key, session[0][0], whole([n for _, _, n in session])))
        left.append(sorted(now))
    return left


TIMES = st.one_of(st.none(), st.integers(-40, 40), st.integers(-40, 40), st.integers(60, 90))
VISITS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 9), TIMES), max_size=20)


@pytest.mark.parametrize("make", [summed, gathered], ids=lambda make: make.__name__)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(VISITS, min_size=1, max_size=5),
    parts=st.integers(1, 4),
    tasks=st.integers(1, 5),
    seed=st.integers(0, 1000),
    never=st.booleans(),
)
def test_sessions_close_alike_in_the_driver_by_an_index_and_by_tasks(
    make: Any, tmp_path: Path, batches: list[Any], parts: int, tasks: int, seed: int, never: bool
) -> None:
    """Each batch is made by the driver's own index, by the state's, or by tasks, in turn; a model tells what leaves."""
    step, puts, emitted = update_of(make, f"{FIELDS}, at timestamp")
    assert why_not_by_key(step) is None and emitted is not None
    draw, held, by_listing = random.Random(seed), Held(puts), Held(puts)
    entering, listing, mark = arrow_schema(step.source.schema), compile_state_update(step), NEVER
    batches = [*batches, [], [(1.0, 5, LAST_SECOND if never else 10_000)]]
    whole = str if make is gathered else lambda session: (len(session), sum(session))
    expected = closings(batches, whole)
    for txid, batch in enumerate(batches, 1):
        rows = [{"k": k, "n": n, "at": None if t is None else EPOCH + dt.timedelta(seconds=t)} for k, n, t in batch]
        table = pa.Table.from_pylist(rows, entering)
        latest = max([t for _, _, t in batch if t is not None], default=None)
        clock = Clock(mark, mark if latest is None else max(mark, (latest - SLACK) * 1_000_000))
        mark = clock.after
        window = WindowBatch(txid, lambda: 0.0, None, clock=clock)
        by_listing.scan = partial(pages_of, by_listing)  # type: ignore[method-assign]
        listed = listing([table], by_listing, window)
        if not batch or draw.random() < 0.4:  # an empty batch has no parts, and stays with the driver
            updated = compile_state_update(step)([table], InDriver(held, draw), window)  # type: ignore[arg-type]
            put, left, dropped = updated.puts, updated.emitted, updated.dropped
        else:
            ends = [number * len(batch) // parts for number in range(parts + 1)]
            tables = [table.slice(start, end - start) for start, end in zip(ends, ends[1:], strict=False)]
            shares = SharesEmission(tuple(range(parts)), tables.__getitem__, spark_schema(entering), len(batch))
            folder = FrozenFolders(DiskFiles(tmp_path), "log").folder("g", TransactionAttempt(txid, 0, 1), 2)
            snapshot, wanted = InGroups(held, draw), Wanted(folder, puts, emitted)
            job = KeyedJob(KeyedUpdate.of(step), shares, snapshot, txid, 0.0, wanted, clock)  # type: ignore[arg-type]
            result = job.result(pa.Table.from_batches(by_tasks(job, tasks, draw), REPORT))
            assert result.emitted is not None
            put, left = (read_whole(DiskFiles(tmp_path), each) for each in (result.puts, result.emitted))
            dropped = result.dropped
        assert left is not None
        held.apply(put)
        by_listing.apply(listed.puts)
        assert held.contents == by_listing.contents and dropped == listed.dropped
        assert rows_by_key(left) == rows_by_key(listed.emitted)
        found = [
            (
                repr(row["k"] or 0.0 if row["k"] is not None else None),
                (row["windowStart"] - EPOCH) // dt.timedelta(seconds=1),
                row["all"] if make is gathered else (row["n"], row["sum"]),
            )
            for row in left.to_pylist()
        ]
        assert sorted(found) == expected[txid - 1]


def test_many_due_keys_are_divided_among_tasks_like_tuples(tmp_path: Path) -> None:
    """A batch of a few tuples may close millions of sessions."""
    step, puts, emitted = update_of(summed, f"{FIELDS}, at timestamp")
    folder = FrozenFolders(DiskFiles(tmp_path), "log").folder("g", TransactionAttempt(1, 0, 1), 2)
    shares = SharesEmission((0,), {}.__getitem__, spark_schema(arrow_schema(step.source.schema)), 5)
    snapshot: Any = InGroups(Held(puts), random.Random(1))
    job = KeyedJob(
        KeyedUpdate.of(step), shares, snapshot, 1, 0.0, Wanted(folder, puts, emitted), Clock(0, 9), 10 * TASK_ROWS
    )
    assert job.tasks == 11


def pages_of(held: Held) -> Iterator[pa.Table]:
    keys = decode_keys(pa.array(list(held.rows), pa.binary()), held.keys)
    values = pa.array([row.as_py() for row in held.rows.values()], held.value.type)
    yield keys.append_column("value", values)


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
        (lambda s: s.statefulEach(elsewhere, **HELD), "the key (k=2.0) is none of these"),
        (lambda s: s.partitionPersist(MemoryMapState.opaque(), puts_elsewhere, **HELD), "the key (k=2.0) is none"),
        (lambda s: s.statefulEach(lists, **HELD), "a list of all entries has others"),
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
        (lambda s: s.statefulEach(Checkpointed(), name="held"), "keeps its state by itself"),
        (lambda s: s.statefulEach(Preparing(), "now string", **HELD), "its preCommit is called in the driver"),
        (lambda s: s.persistentAggregate(MemoryMapState.opaque(), "n", Joined(), "seen", name="held"), "no key fields"),
        (lambda s: s.partitionPersist(MemoryMapState.opaque(), put, valueType="string", name="held"), "no key fields"),
        (
            lambda s: s.partitionPersist(MemoryMapState.opaque(), "n", put, **HELD),
            "no field 'k' like that of its state's key; give it as an input field",
        ),
        (
            lambda s: s.partitionPersist(MemoryMapState.opaque(), put, **{**HELD, "keyFields": "word string"}),
            "no field 'word'",
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
    with pytest.raises(StateError, match=r"the workers updated the state by \d of 6 tuples"):
        job.result(pa.Table.from_batches(kept, REPORT))


def test_the_folder_of_the_files_is_durable_before_they_are_named(tmp_path: Path, monkeypatch: Any) -> None:
    synced = list[Path]()
    monkeypatch.setattr("trident.files.disk.fsync_folder", synced.append)
    job = job_of(stateful, tmp_path, TABLES)
    reports = pa.Table.from_batches(by_tasks(job, 2, random.Random(1)), REPORT)
    assert set(synced) == {tmp_path / job.wanted.folder.folder}, "by the tasks"
    synced.clear()
    job.result(reports)
    assert synced == [tmp_path / "frozen" / "log" / "g", tmp_path / "frozen" / "log", tmp_path / "frozen", tmp_path]


def fails(tuple: Any, state: Any) -> None:
    raise ValueError(f"not {tuple.n}")


def test_an_error_of_the_users_is_a_row_with_its_step_and_line(tmp_path: Path) -> None:
    job = job_of(lambda s: s.statefulEach(fails, **HELD), tmp_path, TABLES[:1])
    with pytest.raises(UserFunctionError, match=r"statefulEach\(fails\).*test_keyed_updates.py:\d+.*not 1") as raised:
        job.result(pa.Table.from_batches(by_tasks(job, 1, random.Random(1)), REPORT))
    assert any("in the worker" in note for note in raised.value.__notes__)


def test_a_time_that_no_state_holds_is_refused_before_it_is_frozen(tmp_path: Path, monkeypatch: Any) -> None:
    far = pa.array([2**59], pa.timestamp("us"))
    monkeypatch.setattr(
        "trident.compiler.keyed_updates.compile_state_update",
        lambda step: lambda tables, stored, batch: Updated(pa.table({"k": [1.0], "value": far}), None),
    )
    job = job_of(reducing, tmp_path, [TABLES[0].slice(0, 1)])
    with pytest.raises(StateValueError, match=r"state 'held', batch 1, k=1.0.*outside the years 1 to 9999"):
        job.result(pa.Table.from_batches(by_tasks(job, 1, random.Random(1)), REPORT))
    assert not list(tmp_path.rglob("*.arrow"))


def test_an_update_travels_without_the_plan_around_it() -> None:
    topology = TridentTopology()
    words = topology.newStream("s", FixedBatchSpout(FIELDS, [[(float(n), n) for n in range(5000)]]))
    words.statefulEach(running, **HELD)
    (group,) = cut(topology).groups
    (step,) = group.states
    sent = cloudpickle.dumps(KeyedUpdate.of(step))  # type: ignore[arg-type, no-untyped-call]
    assert len(sent) < 10_000
