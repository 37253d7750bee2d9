"""Executors write a batch into a state: exactly what the driver would have written, whatever fails on the way."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from tests.support.open_batches import Joined, first_time, opening_as
from tests.support.server import RedisServer
from trident import Count, MapGet, SessionWindow, TridentTopology
from trident.base.errors import (
    BatchFailedError,
    FencedError,
    LogCorruptError,
    StateError,
    StateShapeError,
    TopologyError,
)
from trident.compiler.spark import engine, executor_reach, stage_job
from trident.compiler.spark.executor_reach import ReachedStores
from trident.compiler.spark.frozen_writes import FreezeWriter
from trident.compiler.spark.sessions import Sizes
from trident.compiler.spark.state_puts import SparkPuts
from trident.files.disk import DiskFiles
from trident.frozen.files import FileFolder
from trident.frozen.results import FrozenFiles
from trident.log import RedisLog
from trident.spouts import FixedBatchSpout
from trident.state import RedisMapState
from trident_state.redis import RedisStore
from trident_state.redis.open_batch import OpenBatch
from trident_state.store import SharedBatch
from trident_state.store_messages import Put

pytestmark = pytest.mark.spark

BATCHES = [[f"word{(batch * 7 + row) % 50}" for row in range(400)] for batch in range(2)]
EXPECTED = Counter(word for batch in BATCHES for word in batch)


def topology(state: Any, aggregator: Any = None, name: str = "counts") -> TridentTopology:
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES)).groupBy("word")
    inputs = () if aggregator is None else ("word",)
    words.persistentAggregate(state, *inputs, aggregator or Count(), "count", name=name)
    return made


def contents(made: TridentTopology, spark: SparkSession, folder: Path, **options: Any) -> dict[str, Any]:
    with made.start(spark, name="writers", checkpointLocation=folder, **options) as running:
        running.processAllAvailable(timeout=120)
        return {"found": dict(running.state("counts").items()), "events": running.recentProgress}


@pytest.mark.parametrize("options", [{}, {"groups": 4, "buckets": 64}])
@pytest.mark.parametrize("kind", ["opaque", "transactional"])
def test_counts(shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, kind: str, options: Any) -> None:
    state = getattr(RedisMapState, kind)(shared_redis.url, writers="executors", **options)
    done = contents(topology(state), spark, tmp_path)
    assert done["found"] == EXPECTED
    assert [event["states"]["counts"]["writers"] for event in done["events"]] == ["executors"] * len(BATCHES)


def test_python_combiner(shared_redis: RedisServer, spark: SparkSession, tmp_path: Path) -> None:
    state = RedisMapState.opaque(shared_redis.url, writers="executors", groups=2)
    done = contents(topology(state, Joined()), spark, tmp_path)
    assert done["found"] == {word: word[-1] * count for word, count in EXPECTED.items()}


def test_the_driver_writes_and_asks_a_state_without_a_txid(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "Sizes", lambda spark, inline_bytes: Sizes(spark, 20))  # everything goes into files
    state = RedisMapState.nonTransactional(shared_redis.url, writers="auto")
    made = topology(state)
    done = contents(made, spark, tmp_path, maxSpoutPending=1)  # so that the size of the first result is known
    assert done["found"] == EXPECTED
    assert not [event for event in done["events"] if event["event"] == "failed"]
    assert all("writers" not in event["states"]["counts"] for event in done["events"])


# --- what fails on the way ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FailsOnce(OpenBatch):
    """A batch whose first put arrives and is confirmed, and whose task fails then."""

    folder: Path = Path()

    def put(self, parts: Any) -> Put:
        done = OpenBatch.put(self, parts)
        if first_time(self.folder / f"failed-{self.txid}"):
            raise RuntimeError("this task fails after its put, on purpose")
        return done


def test_a_job_that_fails_after_a_confirmed_put_runs_again(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RedisStore, "open_batch", opening_as(FailsOnce, folder=tmp_path))
    state = RedisMapState.opaque(shared_redis.url, writers="executors", groups=2)
    done = contents(topology(state), spark, tmp_path / "checkpoint")
    assert done["found"] == EXPECTED
    failed = [event for event in done["events"] if event["event"] == "failed"]
    assert len(failed) == len(list(tmp_path.glob("failed-*"))) == len(BATCHES)
    assert all("on purpose" in event["error"] for event in failed)


@dataclass(frozen=True)
class LeavesOut(OpenBatch):
    """A batch whose workers leave out a row of each part."""

    def put(self, parts: Any) -> Put:
        return OpenBatch.put(self, [(keys.slice(1), deltas.slice(1)) for keys, deltas in parts])


def test_keys_that_workers_left_out_are_noticed(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RedisStore, "open_batch", opening_as(LeavesOut))
    state = RedisMapState.opaque(shared_redis.url, writers="executors")
    with pytest.raises(StateError, match=r"the workers wrote \d+ keys of the frozen file"):
        contents(topology(state), spark, tmp_path)


def test_a_start_puts_what_the_run_before_froze_and_a_zombie_puts_nothing(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[tuple[FrozenFiles, SharedBatch]] = []
    putting = SparkPuts.put

    def dies(self: SparkPuts, frozen: FrozenFiles, batch: SharedBatch) -> list[Put]:
        if len(kept) == 1:
            raise StateShapeError("the driver dies here, on purpose")
        kept.append((frozen, batch))
        return putting(self, frozen, batch)

    state = RedisMapState.opaque(shared_redis.url, writers="executors", groups=2)
    with monkeypatch.context() as patched:
        patched.setattr(SparkPuts, "put", dies)
        with pytest.raises(StateShapeError, match="on purpose"):
            contents(topology(state), spark, tmp_path)
    done = contents(topology(state), spark, tmp_path)
    assert done["found"] == EXPECTED
    assert done["events"][0]["txid"] == 2
    assert done["events"][0]["states"]["counts"]["writers"] == "executors"
    before = shared_redis.held()
    [(frozen, batch)] = kept
    puts = SparkPuts(spark, DiskFiles(tmp_path / "writers"), ReachedStores())
    with pytest.raises(FencedError, match="counts"):
        puts.check_reached(batch)
    assert isinstance(batch, OpenBatch)
    with pytest.raises((FencedError, LogCorruptError)):  # or its files are gone by now
        puts.put(frozen, batch)
    puts.close()
    assert shared_redis.held() == before


@pytest.mark.parametrize("aggregator", [None, Joined()])
def test_executors_store_what_the_driver_stores_byte_for_byte(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aggregator: Any
) -> None:
    monkeypatch.setattr("trident.compiler.frozen_parts.PART_ROWS", 10)  # so that each file is put in parts
    stored = []
    for writers in ("driver", "executors"):
        state = RedisMapState.opaque(shared_redis.url, writers=writers, prefix=writers)
        contents(topology(state, aggregator), spark, tmp_path / writers)
        names = sorted(shared_redis.client.scan_iter(f"{writers}:*:b:*"))
        stored.append({name.partition(b":")[2]: shared_redis.client.hgetall(name) for name in names})
    assert stored[0] == stored[1]
    assert len(stored[0]) > 10


def test_auto_leaves_what_came_to_the_driver_to_the_driver(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = RedisMapState.opaque(shared_redis.url, writers="auto")
    monkeypatch.setattr(engine, "Sizes", lambda spark, inline_bytes: Sizes(spark, 200))
    done = contents(topology(state), spark, tmp_path, maxSpoutPending=1)  # the second begins when the first is known
    assert done["found"] == EXPECTED
    assert "executors" in [event["states"]["counts"].get("writers") for event in done["events"]]
    assert "writers" not in done["events"][0]["states"]["counts"]


@dataclass(frozen=True, slots=True)
class OnAnotherHost(FreezeWriter):
    """A worker that joined later. On its machine the path of the checkpoint leads to another folder."""

    local: Path = Path()
    times: int = 0

    def _run(self, batches: Any) -> Any:
        folder = self.folder
        if any(first_time(self.local / f"joined-{number}") for number in range(self.times)):
            folder = FileFolder(DiskFiles(self.local / "own"), folder.folder)
        yield from FreezeWriter(folder, self.part, self.schema)._run(batches)


def joins_later(monkeypatch: pytest.MonkeyPatch, local: Path, times: int) -> None:
    """Let so many of the next tasks that write frozen files write them on another machine."""
    monkeypatch.setattr(stage_job, "FreezeWriter", partial(OnAnotherHost, local=local, times=times))


def test_a_worker_that_joins_later_on_a_host_without_the_checkpoint_fails_an_attempt_and_not_the_batch(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = RedisMapState.opaque(shared_redis.url, writers="executors", groups=2)
    joins_later(monkeypatch, tmp_path, 1)
    done = contents(topology(state), spark, tmp_path / "checkpoint")
    assert done["found"] == EXPECTED
    [failed, *others] = [event for event in done["events"] if event["event"] == "failed"]
    assert not others and failed["phase"] == "run" and "but the driver does not find 1 of them there" in failed["error"]
    committed = [event for event in done["events"] if event["event"] == "committed"]
    assert [event["states"]["counts"]["writers"] for event in committed] == ["executors"] * len(BATCHES)


def test_auto_gives_large_results_to_the_driver_once_it_has_missed_a_file(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "Sizes", lambda spark, inline_bytes: Sizes(spark, 20))
    state = RedisMapState.opaque(shared_redis.url, writers="auto")
    joins_later(monkeypatch, tmp_path, 1_000)
    done = contents(topology(state), spark, tmp_path / "checkpoint", maxSpoutPending=1)
    assert done["found"] == EXPECTED
    assert len([event for event in done["events"] if event["event"] == "failed"]) == 1
    committed = [event for event in done["events"] if event["event"] == "committed"]
    assert all("writers" not in event["states"]["counts"] for event in committed)


def test_auto_falls_back_where_the_workers_reach_no_state(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIDENT_TEST_URL", shared_redis.url)  # Spark's workers began without it
    monkeypatch.setattr(engine, "Sizes", lambda spark, inline_bytes: Sizes(spark, 200))
    done = contents(topology(RedisMapState.opaque("env:TRIDENT_TEST_URL", writers="auto")), spark, tmp_path)
    assert done["found"] == EXPECTED
    assert {event["states"]["counts"].get("writers") for event in done["events"]} == {None}


def test_a_password_comes_from_a_file_and_stands_in_no_plan(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "url").touch(0o600)
    with RedisServer(tmp_path / "server", password="not-in-any-plan") as server:
        (tmp_path / "url").write_text(server.url)
        state = RedisMapState.opaque(f"file:{tmp_path / 'url'}", writers="executors")
        sent: list[bytes] = []
        putting = SparkPuts.put

        def noting(self: SparkPuts, frozen: FrozenFiles, batch: SharedBatch) -> list[Put]:
            sent.append(cloudpickle.dumps(batch))  # type: ignore[no-untyped-call]
            return putting(self, frozen, batch)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(SparkPuts, "put", noting)
            assert contents(topology(state), spark, tmp_path)["found"] == EXPECTED
        assert len(sent) == len(BATCHES)
        assert not any(b"not-in-any-plan" in one for one in sent)
        with pytest.raises(ValueError, match="env:NAME or file:path") as refused:
            RedisMapState.opaque(server.url, writers="executors")
        assert "not-in-any-plan" not in str(refused.value)


# --- what is refused ------------------------------------------------------------------------------------------------


def test_what_executors_cannot_write_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a repeated put counts twice"):
        RedisMapState.nonTransactional("redis://localhost", writers="executors")
    with pytest.raises(ValueError, match="expected 'driver', 'executors' or 'auto'"):
        RedisMapState.opaque("redis://localhost", writers="workers")  # type: ignore[arg-type]
    state = RedisMapState.opaque("redis://localhost", writers="executors")
    with pytest.raises(TopologyError, match="engine='embedded' has no executors"):
        topology(state).start(engine="embedded", checkpointLocation=tmp_path)
    window = TridentTopology()
    words = window.newStream("words", FixedBatchSpout("word string, at timestamp", [])).groupBy("word")
    words.window(SessionWindow("1 minute", "at"), Count(), "count", stateFactory=state, name="visits")
    with pytest.raises(TopologyError, match=r"in words/1:window\(Count\) the state 'visits' .* writers='executors'"):
        window.start(engine="embedded", checkpointLocation=tmp_path)
    reader = TridentTopology()
    capitals = reader.newStaticState(state, keyFields="word string", valueType="string", name="capitals", topology="t")
    words = reader.newStream("words", FixedBatchSpout("word string", BATCHES))
    words.stateQuery(capitals, "word", MapGet(), "capital").foreachArrow(print)
    with pytest.raises(TopologyError, match="engine='embedded' has no executors, but in capitals/0"):
        reader.start(engine="embedded", checkpointLocation=tmp_path)
    with pytest.raises(TopologyError, match="no location for their files;"):
        topology(state).start(log=RedisLog("redis://localhost"))
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES)).groupBy("word")
    counts = words.persistentAggregate(state, Count(), "count", name="counts").newValuesStream(everyChange=True)
    counts.groupBy("count").persistentAggregate(RedisMapState.opaque("redis://localhost"), Count(), "n", name="again")
    with pytest.raises(TopologyError, match="later steps read its new values"):
        made.start(checkpointLocation=tmp_path)


def test_a_state_that_executors_alone_are_to_write_is_not_written_by_the_driver_if_they_do_not_reach_the_files(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_reach, "reachable", lambda session, files: False)
    made = topology(RedisMapState.opaque(shared_redis.url, writers="executors"))
    with pytest.raises(BatchFailedError, match=f"counts: only executors .* reach the frozen files at {tmp_path}/"):
        contents(made, spark, tmp_path, maxAttempts=1)
    made = topology(RedisMapState.opaque(shared_redis.url, writers="auto"))
    assert contents(made, spark, tmp_path)["found"] == EXPECTED
