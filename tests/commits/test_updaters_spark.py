"""Executors make keyed updates of a state: exactly what the driver would have made, whatever fails on the way."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.run.taking import Taking
from tests.support.open_batches import first_time
from tests.support.server import RedisServer
from trident import (
    Count,
    SessionWindow,
    StatefulOperation,
    Sum,
    TridentTopology,
    TumblingCountWindow,
    TumblingEventTimeWindow,
)
from trident.base.errors import (
    LogCorruptError,
    SnapshotMovedError,
    SparkFailedError,
    StateKeyError,
    TopologyError,
    TridentError,
    UserCodeError,
    UserFunctionError,
)
from trident.commits.carriers import Carriers
from trident.compiler.keyed_job import KeyedJob, KeyedResult
from trident.compiler.spark import engine, keyed_jobs
from trident.compiler.spark.executor_reach import ReachedStores
from trident.compiler.spark.keyed_jobs import UpdateKeys
from trident.compiler.spark.sessions import Sizes
from trident.compiler.spark.state_puts import SparkPuts
from trident.files.disk import DiskFiles
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident_state.redis import RedisStore
from trident_state.redis.open_snapshot import OpenSnapshot

pytestmark = pytest.mark.spark

FIELDS = "word string, n long"
BATCHES = [[(f"word{(batch * 7 + row) % 30}", batch * 1000 + row) for row in range(300)] for batch in range(3)]
HELD = {"keyFields": "word", "valueType": "long", "name": "totals"}


def total(tuple: Any, state: Any) -> int:
    now = int(state.get(tuple.word, 0)) + tuple.n
    state.put(tuple.word, now)
    return now


TOTALS = Counter[str]()
for _word, _n in (row for batch in BATCHES for row in batch):
    TOTALS[_word] += _n


class Joined:
    outputType = "string"

    def init(self) -> str:
        return "<"

    def reduce(self, curr: str, tuple: Any) -> str:
        return f"{curr},{tuple.n}"[-40:]


class Longest(StatefulOperation):
    outputType = "long"

    def initState(self, state: Any) -> None:
        self.state = state

    def execute(self, tuple: Any, collector: Any) -> None:
        most = max(self.state.get(tuple.word) or 0, tuple.n)
        self.state.put(tuple.word, most)
        collector.emit([most])


def kept(state: Any, tuples: Sequence[Any], collector: Any) -> None:
    """Keep the sum of a word; one that ends in 7 is removed at every tuple, and comes again with the next batch."""
    keys = [(t.word,) for t in tuples]
    before = dict(zip(keys, state.multiGet(keys), strict=True))
    for key, t in zip(keys, tuples, strict=True):
        before[key] = (before[key] or 0) + t.n
        collector.emit([t.word, before[key]])
    gone = [key for key in before if key[0].endswith("7")]
    state.multiPut(list(before), list(before.values()))
    state.multiRemove(gone)


def totals(state: Any, function: Any = total) -> tuple[TridentTopology, Taking]:
    topology, taking = TridentTopology(), Taking()
    words = topology.newStream("words", FixedBatchSpout(FIELDS, BATCHES))
    words.statefulEach(function, "total long", stateFactory=state, **HELD).foreachArrow(taking)
    return topology, taking


def run(topology: TridentTopology, spark: SparkSession, folder: Path, **options: Any) -> list[dict[str, Any]]:
    with topology.start(spark, name="updaters", checkpointLocation=folder, **options) as running:
        running.processAllAvailable(timeout=300)
        events = running.recentProgress
        held = dict(running.state("totals").items())
    assert held == TOTALS
    return [event for event in events if event["event"] in ("committed", "failed")]


def writers_in(events: list[dict[str, Any]], state: str = "totals") -> list[str]:
    return [event["states"][state].get("writers", "driver") for event in events if event["event"] == "committed"]


@pytest.mark.connect
def test_totals(shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, made: list[str]) -> None:
    topology, taking = totals(RedisMapState.opaque(shared_redis.url, writers="executors", groups=2))
    assert writers_in(run(topology, spark, tmp_path)) == ["executors"] * 3
    assert len(made) == 3
    before = Counter[str]()
    for txid, batch in enumerate(BATCHES, 1):
        for word in {word for word, _ in batch}:
            expected = []
            for n in (n for w, n in batch if w == word):
                before[word] += n
                expected.append((word, n, before[word]))
            assert taking.rows[txid, word] == expected


def test_executors_store_and_emit_what_the_driver_does_byte_for_byte(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    """The states are opaque and transactional ones in turn."""
    monkeypatch.setattr("trident.compiler.frozen_parts.PART_ROWS", 70)
    stored, emitted, dropped = [], [], []
    for writers in ("driver", "executors"):
        where: Any = {"writers": writers, "prefix": writers, "buckets": 16}
        opaque = RedisMapState.opaque(shared_redis.url, **where)
        transactional = RedisMapState.transactional(shared_redis.url, **where)
        topology, takings = TridentTopology(), [Taking() for _ in range(5)]
        words = topology.newStream("words", FixedBatchSpout(FIELDS, BATCHES))
        grouped, held = words.groupBy("word"), {**HELD, "stateFactory": opaque}
        streams = [
            words.statefulEach(total, "now long", **held),
            words.statefulEach(Longest(), "most", **{**held, "name": "most", "stateFactory": transactional}),
            words.partitionPersist(
                opaque, kept, "word string, now long", keyFields="word", valueType="long", name="kept"
            ).newValuesStream(),
            words.dropDuplicates("word", transactional, name="first"),
            grouped.window(TumblingCountWindow(7), "n", Sum(), "sum", stateFactory=opaque, name="sevens"),
        ]
        for number, (stream, taking) in enumerate(zip(streams, takings, strict=True)):
            stream.foreachArrow(taking, name=f"out{number}")
        grouped.persistentAggregate(transactional, "n", Joined(), "joined", name="joined")
        words.toTable("word", opaque, name="latest")
        words.toTable("word", transactional, orderBy="n", name="newest")
        made.clear()
        events = run(topology, spark, tmp_path / writers)
        dropped.append([event["states"]["first"]["dropped"] for event in events])
        names = sorted(shared_redis.client.scan_iter(f"{writers}:*:b:*"))
        stored.append({name.partition(b":")[2]: shared_redis.client.hgetall(name) for name in names})
        emitted.append([taking.rows for taking in takings])
    assert stored[0] == stored[1]
    assert emitted[0] == emitted[1]
    assert dropped[0] == dropped[1] == [270, 300, 300]
    assert len(stored[0]) > 50 and all(emitted[0])
    assert len(made) == 8 * len(BATCHES), Counter(made)


# --- what fails on the way ------------------------------------------------------------------------------------------


def fails(tuple: Any, state: Any) -> int:
    if tuple.n == 1007:
        raise ValueError("seven, on purpose")
    return total(tuple, state)


def test_an_error_of_the_users_is_the_drivers_error(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, made: list[str]
) -> None:
    said = []
    for writers in ("driver", "executors"):
        state = RedisMapState.opaque(shared_redis.url, writers=writers, prefix=f"fails-{writers}")
        topology, _ = totals(state, fails)
        with pytest.raises(UserFunctionError, match=r"statefulEach\(fails\).*test_updaters_spark.py:\d+") as raised:
            run(topology, spark, tmp_path / writers, maxAttempts=2, commitRetrySecs=0)
        said.append(str(raised.value))
    assert said[0] == said[1]
    assert "seven, on purpose" in said[0] and "n=1007" in said[0]


def test_a_turn_whose_job_failed_begins_again(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    """The files of the first try are there, and nobody names them."""
    making, failed, folders = SparkPuts.update, set[int](), list[Path]()

    def fails_once(puts: SparkPuts, job: KeyedJob) -> KeyedResult:
        result = making(puts, job)
        folder = job.wanted.folder
        folders.append(Path(folder.files.path(folder.folder)))
        if job.txid not in failed:
            failed.add(job.txid)
            raise SparkFailedError("the driver lost it, on purpose")
        named = {file.name for file in result.puts.files}
        assert named < {path.name for path in folders[-1].iterdir()}
        return result

    monkeypatch.setattr(SparkPuts, "update", fails_once)
    topology, _ = totals(RedisMapState.opaque(shared_redis.url, writers="executors"))
    events = run(topology, spark, tmp_path)
    assert ["on purpose" in event["error"] for event in events if event["event"] == "failed"] == [True] * 3
    assert folders[0::2] == folders[1::2]


def test_a_state_that_fell_back_is_healed_before_it_is_updated(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, lost = RedisStore.open_snapshot, list[int]()

    def losing(store: RedisStore, asOf: int, time: float | None = None) -> OpenSnapshot:
        if asOf == 1 and not lost:
            lost.append(shared_redis.client.delete(*shared_redis.client.keys("*updaters/totals*")))
        return opened(store, asOf, time)

    monkeypatch.setattr(RedisStore, "open_snapshot", losing)
    topology, _ = totals(RedisMapState.opaque(shared_redis.url, writers="executors"))
    events = run(topology, spark, tmp_path)
    assert lost and lost[0] > 0
    assert "failed" not in {event["event"] for event in events}


def test_a_zombies_tasks_read_nothing_once_another_driver_has_the_state(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    jobs, making = list[KeyedJob](), SparkPuts.update

    def keeping(puts: SparkPuts, job: KeyedJob) -> KeyedResult:
        jobs.append(job)
        return making(puts, job)

    monkeypatch.setattr(SparkPuts, "update", keeping)
    topology, _ = totals(RedisMapState.opaque(shared_redis.url, writers="executors"))
    run(topology, spark, tmp_path)
    count = len(jobs)
    run(totals(RedisMapState.opaque(shared_redis.url, writers="executors"))[0], spark, tmp_path)  # takes it over
    assert len(jobs) == count == 3
    job = jobs[-1]
    puts = SparkPuts(spark, tmp_path / "updaters", ReachedStores())
    with pytest.raises((SnapshotMovedError, LogCorruptError)):  # or its files are gone by now
        making(puts, job)
    puts.close()
    with pytest.raises(SnapshotMovedError, match="another driver has taken it over"):
        job.snapshot.read(pa.table({"word": ["word1"]}))


@dataclass(frozen=True, slots=True)
class OnAnotherHost(UpdateKeys):
    """A worker that joined later. On its machine the path of the checkpoint leads, once, to another folder."""

    local: Path = Path()

    def _run(self, batches: Any) -> Any:
        job = self.job
        if first_time(self.local / "joined"):
            folder = replace(job.wanted.folder, files=DiskFiles(self.local / "own"))
            job = replace(job, wanted=replace(job.wanted, folder=folder))
        yield from UpdateKeys(job)._run(batches)


@pytest.mark.parametrize("writers", ["executors", "auto"])
def test_an_update_whose_files_the_driver_does_not_find_is_made_again(
    shared_redis: RedisServer,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: list[str],
    writers: Any,
) -> None:
    monkeypatch.setattr(engine, "Sizes", lambda spark, inline_bytes: Sizes(spark, 20))
    monkeypatch.setattr(keyed_jobs, "UpdateKeys", partial(OnAnotherHost, local=tmp_path))
    topology, _ = totals(RedisMapState.opaque(shared_redis.url, writers=writers))
    events = run(topology, spark, tmp_path / "checkpoint", maxSpoutPending=1)
    [failed] = [event for event in events if event["event"] == "failed"]
    assert failed["phase"] == "commit" and "but the driver does not find " in failed["error"]
    assert writers_in(events) == (["executors"] * 3 if writers == "executors" else ["driver"] * 3)
    assert len(made) == (4 if writers == "executors" else 1)


# --- who makes an update --------------------------------------------------------------------------------------------


def test_auto_makes_what_is_the_same_in_parts_and_large(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    monkeypatch.setattr(engine, "Sizes", lambda spark, inline_bytes: Sizes(spark, 20))  # everything goes into files
    state = RedisMapState.opaque(shared_redis.url, writers="auto")
    topology, _ = totals(state)
    words = topology.newStream("more", FixedBatchSpout(FIELDS, BATCHES))
    words.partitionPersist(state, kept, "word string, now long", keyFields="word", valueType="long", name="kept")
    run(topology, spark, tmp_path, maxSpoutPending=1)  # so that the size of the first result is known
    assert made == ["words/1:statefulEach(total)"] * 2, "not the first one, and no updater that sees a list of tuples"


def reaches(tuple: Any, state: Any) -> int:
    state.get("word1")
    return total(tuple, state)


def test_auto_leaves_an_update_that_looks_at_other_keys_to_the_driver(
    shared_redis: RedisServer,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(engine, "Sizes", lambda spark, inline_bytes: Sizes(spark, 20))
    topology, _ = totals(RedisMapState.opaque(shared_redis.url, writers="auto"), reaches)
    run(topology, spark, tmp_path, maxSpoutPending=1)
    assert len(made) == 1, "once it is known, the driver does it at once"
    assert [record.message for record in caplog.records if "the driver computes this update" in record.message]
    topology, _ = totals(RedisMapState.opaque(shared_redis.url, writers="executors", prefix="other"), reaches)
    with pytest.raises(StateKeyError, match=r"the call used the key \(word='word1'\), which is not one of them"):
        run(topology, spark, tmp_path / "other", maxAttempts=1, commitRetrySecs=0)


def test_what_executors_cannot_update_is_refused_by_name(tmp_path: Path) -> None:
    state = RedisMapState.opaque("redis://localhost", writers="executors")

    def refused(says: str, make: Any, kind: type[TridentError] = TopologyError) -> None:
        topology = TridentTopology()
        make(topology.newStream("words", FixedBatchSpout("word string, n long, at timestamp", [])))
        with pytest.raises(kind, match=says):
            topology.start(checkpointLocation=tmp_path)

    refused("no key fields", lambda s: s.persistentAggregate(state, "n", Joined(), "joined", name="joined"))
    refused(
        r"the driver computes its values \(words/1:window\(Sum\).*\): the driver keeps a watermark",
        lambda s: s.window(TumblingEventTimeWindow("1 minute", "at"), "n", Sum(), "sum", stateFactory=state, name="w"),
    )

    def late(s: Any) -> None:
        window = SessionWindow("1 minute", "at")
        s.groupBy("word").window(window, "n", Sum(), "sum", stateFactory=state, name="w").late().peek(print)

    refused(
        r"only the driver finds late tuples, and late\(\) is read; leave late\(\) out; with writers='auto' or "
        r"'driver' the driver writes it \[called at test_updaters_spark.py:\d+\]",
        late,
    )

    def behind(s: Any) -> None:
        counts = s.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        counts.newValuesStream().statefulEach(total, "now long", **HELD, stateFactory=state)

    refused("its tuples come from words/1:persistentAggregate", behind)
    lock = threading.Lock()

    def locked(tuple: Any, state: Any) -> None:
        with lock:
            total(tuple, state)

    says = r"locked .*cannot be sent to Spark's workers"
    refused(says, lambda s: s.statefulEach(locked, **HELD, stateFactory=state), UserCodeError)


def test_what_later_stages_read_of_an_update_goes_there_by_reference(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    """What it emits enters another update, and what that one emits a stage of Spark's."""
    carry, by_reference = Carriers.carry, Counter[str]()

    def noting(self: Carriers, output: Any, result: Any) -> Any:
        emission = carry(self, output, result)
        by_reference[f"{output.step.step} {type(emission).__name__}"] += 1
        return emission

    monkeypatch.setattr(Carriers, "carry", noting)
    state = RedisMapState.opaque(shared_redis.url, writers="executors")
    topology, taking = TridentTopology(), Taking()
    words = topology.newStream("words", FixedBatchSpout(FIELDS, BATCHES))
    first = words.statefulEach(total, "now long", stateFactory=state, **HELD)
    again = first.statefulEach(Longest(), "most", stateFactory=state, **{**HELD, "name": "most"})
    again.each("most", lambda most: -most, "less long").foreachArrow(taking)
    behind = Taking()
    again.foreachArrow(behind, name="behind")
    monkeypatch.setattr("trident.commits.updates.conform", None)  # no tuples come to the driver for an output
    run(topology, spark, tmp_path)
    assert len(made) == 6
    assert {key: [row[:-1] for row in rows] for key, rows in taking.rows.items()} == behind.rows
    assert {name.rpartition(" ")[2] for name in by_reference} == {"SharesEmission"}, by_reference
    seen = {word: rows[-1] for (_, word), rows in taking.rows.items()}
    last = {word: n for batch in BATCHES for word, n in batch}
    assert seen == {word: (word, last[word], TOTALS[word], last[word], -last[word]) for word in TOTALS}
