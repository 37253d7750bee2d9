"""A Delta table holds the rows of the stream as of each batch, whatever kills the driver."""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.outputs.delta.outlets import rows, sink_of
from tests.spouts.delta.tables import FEED, read_all
from tests.support.changes import FIELDS, History
from tests.support.soak import Soak
from trident import TridentTopology
from trident.base import crash_points
from trident.errors import OutputConflictError, TridentError
from trident.outputs.delta.outlet import DeltaOutlet
from trident.outputs.run_identity import RunIdentity
from trident.spouts import DeltaSpout, FixedBatchSpout
from trident.testing.local import start_local


def topology(lake: Path, batches: list[Any]) -> TridentTopology:
    """Return a topology that writes changes as they come, changes of a state, the latest rows, and all tuples."""
    made = TridentTopology()
    stream = made.newStream("rows", FixedBatchSpout(FIELDS, batches))
    stream.writeDelta(lake / "all", partitionBy="g", name="all")
    stream.writeDelta(lake / "seen", key="id", name="seen")
    changes = stream.asChanges("kind")
    changes.writeDelta(lake / "rows", key="id", name="rows")
    changes.toTable("id", name="table").changes().writeDelta(lake / "kept", key="id", partitionBy="g", name="kept")
    return made


def check(lake: Path, history: History) -> None:
    tuples = [change for batch in history.batches for change in batch]
    for name in ("rows", "kept"):
        assert {row[0]: row for row in rows(lake / name, "id", "g", "v")} == history.rows
        assert len(rows(lake / name)) == len(history.rows)
    assert {row[0]: row for row in rows(lake / "seen")} == {change[0]: change for change in tuples}
    assert sorted(rows(lake / "all", "id", "g", "v", "kind"), key=repr) == sorted(tuples, key=repr)


def test_tables_hold_the_rows(tmp_path: Path) -> None:
    history = History(3).grow(15)
    with start_local(topology(tmp_path, history.batches), checkpointLocation=tmp_path / "c") as running:
        running.processAllAvailable(timeout=60)
    check(tmp_path, history)


@pytest.mark.spark
def test_tables_hold_the_rows_that_spark_computed(spark: SparkSession, tmp_path: Path) -> None:
    history = History(4).grow(4)
    made = topology(tmp_path, history.batches)
    with made.start(spark, name="t", checkpointLocation=str(tmp_path / "c"), engine="spark") as running:
        running.processAllAvailable(timeout=120)
    check(tmp_path, history)


def test_the_changes_of_the_table_are_those_of_the_stream(tmp_path: Path) -> None:
    """The table's own feed, read by DeltaSpout, gives the same table again."""
    history = History(5).grow(12)
    DeltaTable.create(str(tmp_path / "rows"), _columns(), configuration=FEED)
    with start_local(topology(tmp_path, history.batches), checkpointLocation=tmp_path / "c") as running:
        running.processAllAvailable(timeout=60)
    again = TridentTopology()
    feed = again.newStream("feed", DeltaSpout(tmp_path / "rows", changes=True, startingVersion="earliest"))
    feed.asChanges().writeDelta(tmp_path / "copy", key="id", name="copy")
    with start_local(again, checkpointLocation=tmp_path / "d") as running:
        running.processAllAvailable(timeout=60)
    assert {row[0]: row for row in rows(tmp_path / "copy", "id", "g", "v")} == history.rows


def _columns() -> Any:
    return pa.schema([("id", pa.int64()), ("g", pa.string()), ("v", pa.int64())])


def test_delta_spout_reads_the_tuples_of_each_batch(tmp_path: Path) -> None:
    history = History(6).grow(5)
    with start_local(topology(tmp_path, history.batches), checkpointLocation=tmp_path / "c") as running:
        running.processAllAvailable(timeout=60)
    batches = read_all(DeltaSpout(tmp_path / "all", startingVersion="earliest", maxFilesPerBatch=1))
    tuples = [change for batch in history.batches for change in batch]
    assert sorted((row for batch in batches for row in batch), key=repr) == sorted(tuples, key=repr)


def test_a_batch_of_several_files_is_written_as_one_version(tmp_path: Path) -> None:
    """A large result is read file by file."""
    parts = [pa.table({"id": range(at, at + 5000), "v": [at] * 5000}) for at in range(0, 15_000, 2500)]
    for key in ((), ("id",)):
        sink = sink_of(tmp_path / str(len(key)), "id long, v long", key=key)
        made = DeltaOutlet(sink, RunIdentity("topology", "uuid", 1, 0), lambda result: iter(parts))
        version = DeltaTable(sink.delta.uri).version()
        for _ in range(2):
            made.take(parts[0], 1)
        assert DeltaTable(sink.delta.uri).version() == version + 1
        held = rows(sink.delta.uri)
        every = [tuple(row.values()) for part in parts for row in part.to_pylist()]
        assert sorted(held) == sorted(dict(every).items() if key else every)


def test_a_reset_needs_another_name(tmp_path: Path) -> None:
    """The log begins anew, with txids that the table already has."""

    def made(name: str) -> TridentTopology:
        topology = TridentTopology()
        topology.newStream("s", FixedBatchSpout("v long", [[1], [2]])).writeDelta(tmp_path / "t", name=name)
        return topology

    def run(name: str) -> None:
        with start_local(made(name), name="t", checkpointLocation=tmp_path / "c") as running:
            running.processAllAvailable(timeout=60)

    run("first")
    made("first").reset("t", tmp_path / "c")
    with pytest.raises(OutputConflictError, match="belongs to another log"):
        run("first")
    run("second")
    assert sorted(rows(tmp_path / "t")) == [(1,), (1,), (2,), (2,)]


def test_rows_that_exchange_their_keys_stay(tmp_path: Path) -> None:
    """The changes of a state by another key: a row is added to a key before its former row leaves."""
    batches: list[Any] = [
        [(1, "a", 0, "insert"), (2, "b", 0, "insert")],
        [
            (1, "a", 0, "update_preimage"), (2, "b", 0, "update_preimage"),
            (1, "b", 0, "update_postimage"), (2, "a", 0, "update_postimage"),
        ],
    ]  # fmt: skip
    made = TridentTopology()
    changes = made.newStream("rows", FixedBatchSpout(FIELDS, batches)).asChanges("kind")
    changes.toTable("id").changes().project("g", "id").writeDelta(tmp_path / "t", key="g")
    with start_local(made, checkpointLocation=tmp_path / "c") as running:
        running.processAllAvailable(timeout=60)
    assert sorted(rows(tmp_path / "t", "g", "id")) == [("a", 2), ("b", 1)]


def live(lake: Path, crash_at: str, seed: int) -> None:
    """Live once, as a driver: killed at a point, or at the end, when all is committed."""
    crash_points.arm(crash_at)
    made = topology(lake, History(seed).grow(6).batches)
    start_local(made, name="t", checkpointLocation=lake / "c", commitRetrySecs=30).processAllAvailable(timeout=60)
    os.kill(os.getpid(), signal.SIGUSR1)


def die(lake: Path, points: list[str], seed: int) -> None:
    """Run drivers that are killed at the points, then one to the end, and compare the tables."""
    forks: Any = multiprocessing.get_context("forkserver")
    for point in (*points, ""):
        child = forks.Process(target=live, args=(lake, point, seed))
        child.start()
        child.join(60)
        assert child.exitcode in (-signal.SIGKILL, -signal.SIGUSR1), f"up to {point or 'the end'}"
    check(lake, History(seed).grow(6))


@pytest.mark.parametrize("points", [["output.staged:6", "output.published:5"], ["output.published:1"]])
def test_drivers_that_die_write_each_batch_once(tmp_path: Path, points: list[str]) -> None:
    die(tmp_path, points, 5)


def big(lake: Path) -> None:
    """Write a batch of many rows by key, and return."""
    made = TridentTopology()
    batches: list[Any] = [[(id, n) for id in range(40_000)] for n in range(3)]
    made.newStream("s", FixedBatchSpout("id long, n long", batches)).writeDelta(lake / "t", key="id")
    with start_local(made, name="t", checkpointLocation=lake / "c") as running:
        running.processAllAvailable(timeout=60)


def test_a_driver_that_dies_while_files_are_written(tmp_path: Path) -> None:
    """It is killed when the files of a version are there, and the version perhaps not."""
    forks: Any = multiprocessing.get_context("forkserver")
    for version in range(1, 4):
        child = forks.Process(target=big, args=(tmp_path,))
        child.start()
        while child.is_alive() and len(list((tmp_path / "t").glob("*.parquet*"))) < version:
            time.sleep(0.001)
        child.kill()
        child.join(60)
    big(tmp_path)
    assert sorted(rows(tmp_path / "t")) == [(id, 2) for id in range(40_000)]


@pytest.mark.soak
def test_drivers_that_die_anywhere(tmp_path: Path, soak: Soak) -> None:
    for number, chance in enumerate(soak.draws(12)):
        places = ("output.before", "output.staged", "output.published", "output.after", "committed.before")
        points = [f"{chance.choice(places)}:{chance.randint(1, 8)}" for _ in range(chance.randint(1, 4))]
        die(tmp_path / str(number), points, chance.randint(0, 999))


@pytest.mark.parametrize("texts", [[(1, 1), (None, 2)], [(1, 1), *[(None, 2)] * 3000]])
def test_a_null_in_a_key_fails_the_batch_before_it_is_frozen(tmp_path: Path, texts: list[Any]) -> None:
    made = TridentTopology()
    made.newStream("s", FixedBatchSpout("id long, v long", [texts])).writeDelta(tmp_path / "t", key="id")
    with (
        pytest.raises(TridentError, match=r"writeDelta.*key field 'id' is null"),
        start_local(made, checkpointLocation=tmp_path / "c") as running,
    ):
        running.processAllAvailable(timeout=60)
    assert rows(tmp_path / "t") == []
