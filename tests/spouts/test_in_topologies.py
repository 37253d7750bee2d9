"""Spouts in whole topologies: batches, restarts, and what is counted in the end. On the driver-side engine."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.spouts import ReplayingSpout, Varied
from trident import Count, TridentTopology
from trident.errors import BatchFailedError, GuaranteeError, MalformedInputError, SourceUnreadableError
from trident.spouts import (
    BatchSpout,
    FeederBatchSpout,
    FileSpout,
    FixedBatchSpout,
    IterableSpout,
    OpaquePartitionedSpout,
    PartitionedSpout,
    PollingSpout,
)
from trident.state import MemoryMapState
from trident.testing.local import start_local


def split(line: str) -> Iterator[str]:
    yield from line.split()


def counting(spout: Any) -> TridentTopology:
    topology = TridentTopology()
    stream = topology.newStream("lines", spout).each("line", split, "word string")
    stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def write(path: Path, text: str, at: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))
    return path


def counts(running: Any) -> dict[str, int]:
    running.processAllAvailable(timeout=60)
    return {row["word"]: row["count"] for row in running.state("counts").toPandas().to_dict("records")}


class Lines(BatchSpout):
    outputFields = "line string"

    def emitBatch(self, batchId: int) -> Any:
        return ["a b", "a"] if batchId < 3 else None


class Logs(PartitionedSpout):
    outputFields = "line string"
    logs = {"p": ["a", "b a"], "q": ["a", "b a"]}

    def getPartitions(self) -> list[str]:
        return list(self.logs)

    def emitPartitionBatchNew(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        at = lastMetadata or 0
        return (self.logs[partition][at : at + 1], at + 1) if at < len(self.logs[partition]) else (None, None)

    def emitPartitionBatch(self, attempt: Any, partition: str, metadata: Any) -> Any:
        return self.logs[partition][metadata - 1 : metadata]


class Feed(OpaquePartitionedSpout):
    outputFields = "line string"

    def getPartitions(self) -> list[str]:
        return ["p"]

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        return (["a b a b", "a a"], 1) if lastMetadata is None else (None, lastMetadata)


@pytest.mark.parametrize(
    "spout",
    [
        FixedBatchSpout("line string", [["a b"], [], ["a", "a b a"]]),
        IterableSpout("line string", ["a b", "a", "b a", "a"], batchSize=2),
        PollingSpout("line string", {"p": ["a b", "a"], "q": ["a a b"]}, maxRows=1),
        ReplayingSpout("line string", {"p": ["a", "a", "b"], "q": ["b", "a", "a"]}, Varied(3, ("p", "q"))),
        Lines(),
        Logs(),
        Feed(),
    ],
    ids=lambda spout: type(spout).__name__,
)
def test_every_tuple_of_every_spout_is_counted_once(spout: Any, tmp_path: Path) -> None:
    with start_local(counting(spout), name="t", checkpointLocation=str(tmp_path)) as running:
        assert counts(running) == {"a": 4, "b": 2}


def test_files_are_counted_once_over_restarts_and_as_they_appear(tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", str(tmp_path / "ckpt")
    folder.mkdir()
    (folder / "1.txt").write_text("a b\n" * 100)
    for expected in ({"a": 100, "b": 100}, {"a": 150, "b": 100}, {"a": 151, "b": 100}):
        topology = counting(FileSpout(folder, maxBytesPerBatch=77))
        with start_local(topology, name="t", checkpointLocation=checkpoint, requireExactlyOnce=True) as running:
            assert counts(running) == expected
        with (folder / f"{2 if expected['a'] == 100 else 1}.txt").open("a") as file:
            file.write("a\n" * (50 if expected["a"] == 100 else 1))


def test_a_feeder_feeds_a_running_topology_from_another_thread(tmp_path: Path) -> None:
    spout = FeederBatchSpout("line string")
    with start_local(counting(spout), name="t", checkpointLocation=str(tmp_path)) as running:
        thread = threading.Thread(target=lambda: [spout.feed(["a b"], wait=True, timeout=30) for _ in range(3)])
        thread.start()
        thread.join(60)
        assert running.state("counts")["a"] == 3
    spout.feed(["a"])
    with start_local(counting(spout), name="t", checkpointLocation=str(tmp_path)) as running:
        assert counts(running) == {"a": 4, "b": 3}


def test_a_weak_spout_is_refused_where_exactness_is_required() -> None:
    with pytest.raises(GuaranteeError):
        start_local(counting(FeederBatchSpout("line string")), name="t", requireExactlyOnce=True)


def test_a_bad_file_stops_the_topology_with_its_name_and_mending_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "in" / "1.txt"
    path.parent.mkdir()
    path.write_bytes(b"a b\n\xff\n")
    topology = counting(FileSpout(path.parent))
    running = start_local(topology, name="t", checkpointLocation=str(tmp_path / "ckpt"), maxAttempts=1)
    with pytest.raises(BatchFailedError, match="invalid UTF-8 at byte 4") as caught:
        running.processAllAvailable(timeout=60)
    assert isinstance(caught.value.__cause__, MalformedInputError)
    running.stop()
    status = path.stat()
    path.write_bytes(b"a b\na\n")
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    with start_local(counting(FileSpout(path.parent)), name="t", checkpointLocation=str(tmp_path / "ckpt")) as running:
        assert counts(running) == {"a": 2, "b": 1}


def test_a_planned_file_that_vanished_stops_the_topology_and_names_it(tmp_path: Path) -> None:
    path = tmp_path / "in" / "1.txt"
    path.parent.mkdir()
    path.write_text("a\n")
    failed = threading.Event()

    def fail_once(line: str) -> str:
        if not failed.is_set():
            path.unlink()
            failed.set()
            raise RuntimeError("first attempt")
        return line

    topology = TridentTopology()
    stream = topology.newStream("lines", FileSpout(path.parent)).each("line", fail_once, "word string")
    stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    running = start_local(topology, name="t", checkpointLocation=str(tmp_path / "ckpt"), maxAttempts=2)
    with pytest.raises(BatchFailedError, match=f"planned to read {path} .*, which cannot be read now") as caught:
        running.processAllAvailable(timeout=60)
    assert isinstance(caught.value.__cause__, SourceUnreadableError)
    running.stop()


@pytest.mark.parametrize("what", ["deleted", "touched", "grown", "replaced"])
def test_a_file_that_changes_before_it_is_planned_stops_nothing(tmp_path: Path, what: str) -> None:
    """A listing is good for a second, so the planner may know a file that retention has deleted since."""
    for at, name in enumerate("abc"):
        write(tmp_path / "in" / name, f"{name}\n", at)

    def act(line: str) -> str:
        path = tmp_path / "in" / "b"
        if line == "a" and what == "deleted":
            path.unlink(missing_ok=True)
        elif line == "a" and what == "replaced":
            write(tmp_path / "new", "b2\nb3\n", 7).replace(path)
        elif line == "a":
            write(path, "b\n" if what == "touched" else "b\nb2\n", 8)
        return line

    topology = TridentTopology()
    stream = topology.newStream("lines", FileSpout(tmp_path / "in", maxFilesPerBatch=1)).map("line", act, "word string")
    stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    options: dict[str, Any] = {"name": "t", "checkpointLocation": str(tmp_path / "ckpt"), "maxSpoutPending": 1}
    expected = {"deleted": [], "touched": ["b"], "grown": ["b", "b2"], "replaced": ["b2", "b3"]}[what]
    with start_local(topology, **options) as running:
        assert counts(running) == dict.fromkeys(["a", *expected, "c"], 1)
