"""RecordedSpout plays the batches of a writeParquet output again, with their bounds."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.inline_puts import frozen_files
from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.callsite import CallSite
from trident.base.spark_types import parse_schema
from trident.errors import (
    BatchFailedError,
    DataLossError,
    OutputConflictError,
    OutputError,
    SourceUnreadableError,
    SpoutContractError,
)
from trident.files.disk import DiskFiles
from trident.outputs.parquet_outlet import ParquetOutlet
from trident.outputs.run_identity import RunIdentity
from trident.plan.nodes import SpoutSource, WriteParquet
from trident.spouts import FeederBatchSpout, FileSpout, FixedBatchSpout, RecordedSpout
from trident.state import MemoryMapState
from trident.testing import SpoutContract, TestOutput
from trident.testing.local import start_local

FIELDS = "word string, n long"
BATCHES = [[("cow", 1), ("moon", 2)], [], [("cow", 3)], [("dog", 4), ("dog", 4), ("dish", 5)]]


def recorded(folder: Path, batches: Any = BATCHES, **options: Any) -> Path:
    topology = TridentTopology()
    topology.newStream("words", FixedBatchSpout(FIELDS, batches)).writeParquet(folder / "recording", **options)
    with start_local(topology, checkpointLocation=folder / "checkpoint-of-the-recording") as running:
        running.processAllAvailable(timeout=60)
    return folder / "recording"


def played(spout: Any) -> list[list[tuple[str, int]]]:
    topology, output = TridentTopology(), TestOutput()
    topology.newStream("words", spout).foreachArrow(output)
    with start_local(topology) as running:
        running.processAllAvailable(timeout=60)
    return [[tuple(row) for row in batch.rows] for batch in output.batches]


def plan(executor: Any, previous: Any = None) -> Any:
    return executor.plan(TransactionAttempt(1, 0), previous, 0.0)


class TestContract(SpoutContract):
    @pytest.fixture
    def make_spout(self, tmp_path: Path) -> Callable[[], Any]:
        path = recorded(tmp_path)
        return lambda: RecordedSpout(path)

    @pytest.fixture
    def every_row(self) -> Any:
        return [row for batch in BATCHES for row in batch]


@pytest.mark.parametrize("options", [{}, {"partitionBy": "word"}], ids=["plain", "partitioned"])
def test_batches_have_the_bounds_and_the_order_that_they_had(options: Any, tmp_path: Path) -> None:
    given = [*BATCHES, [(word, n) for n, word in enumerate("b a c a b b c a".split())]]
    batches = played(RecordedSpout(recorded(tmp_path, given, **options)))
    assert batches == [batch for batch in given if batch], "empty ones are not recorded"


def many_files(folder: Path, partitions: tuple[str, ...]) -> list[int]:
    """Record a batch of several files as workers write it, and return what it plays."""
    tables = [pa.table({"word": ["ba"[n % 3 == 0] for n in part], "n": part}) for part in map(list, LARGE)]
    frozen = frozen_files(folder, tables)
    run = RunIdentity("t", "uuid", 1, 0)
    fields: Any = {"step": "s", "site": CallSite("x"), "schema": parse_schema(FIELDS)}
    sink = WriteParquet(
        SpoutSource("s", FixedBatchSpout(FIELDS, []), **fields), "out", str(folder / "out"), partitions, **fields
    )
    outlet = ParquetOutlet(sink, run, DiskFiles(folder), None)
    outlet.take(frozen, 1)
    return [n for batch in played(RecordedSpout(folder / "out")) for _, n in batch]


LARGE = [range(9, 0, -1), range(30, 10, -2), range(40, 45)] * 3


@pytest.mark.parametrize("partitions", [(), ("word",)], ids=["plain", "partitioned"])
def test_a_large_batch_of_many_files_has_the_order_that_it_had(partitions: tuple[str, ...], tmp_path: Path) -> None:
    assert many_files(tmp_path, partitions) == [n for part in LARGE for n in part]


def test_a_recording_without_the_order_of_its_rows_is_refused(tmp_path: Path) -> None:
    """One file has an order of its own; of several files an earlier version noted none."""
    path = recorded(tmp_path, partitionBy="word")
    for manifest in path.glob("*/_manifest.json"):
        record = json.loads(manifest.read_text())
        del record["ordered"]
        manifest.write_text(json.dumps(record))
    with pytest.raises(BatchFailedError, match=r"batch 1 of .* has 2 files.* did not record the order") as refused:
        played(RecordedSpout(path))
    assert isinstance(refused.value.__cause__, SpoutContractError)
    (pattern,) = re.findall(r"FileSpout\('(.*)', format='parquet'\)", str(refused.value))
    rows = [row for batch in played(FileSpout(pattern, format="parquet")) for row in batch]
    assert sorted(rows) == sorted(row for batch in BATCHES for row in batch), "the way out reads each row once"


def test_a_recording_that_goes_on_is_played_as_it_grows(tmp_path: Path) -> None:
    feeder, recording, playing = FeederBatchSpout(FIELDS), TridentTopology(), TridentTopology()
    recording.newStream("words", feeder).writeParquet(tmp_path / "recording")
    with start_local(recording, name="recording", checkpointLocation=tmp_path / "checkpoint"):
        feeder.feed(BATCHES[0], wait=True, timeout=60)
        spout = RecordedSpout(tmp_path / "recording")
        words = playing.newStream("words", spout).groupBy("word")
        words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        with start_local(playing, name="playing") as running:
            running.processAllAvailable(timeout=60)
            assert dict(running.state("counts").items()) == {"cow": 1, "moon": 1}
            feeder.feed(BATCHES[2], wait=True, timeout=60)
            running.processAllAvailable(timeout=60)
            assert dict(running.state("counts").items()) == {"cow": 2, "moon": 1}
            assert running.readSoFar["words"][:3] == (2, 2, "batches")


def test_its_fields_are_those_of_the_recording(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    assert RecordedSpout(path).schema.simpleString() == "struct<word:string,n:bigint>"
    assert repr(RecordedSpout(str(path))) == f"RecordedSpout({str(path)!r})"


def test_where_nothing_was_recorded_an_error_says_so(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(OutputError, match="is not a folder of a writeParquet output"):
            TridentTopology().newStream("words", RecordedSpout(path))


def test_a_batch_that_is_gone_is_no_batch_to_leave_out(tmp_path: Path) -> None:
    executor = RecordedSpout(recorded(tmp_path)).open()
    first = plan(executor)
    shutil.rmtree(tmp_path / "recording" / "txid=1")
    with pytest.raises(
        SourceUnreadableError,
        match=r"RecordedSpout: batch 1 of .*recording is missing; restore its "
        r"folder",
    ):
        executor.emit(TransactionAttempt(1, 0), first)


def test_a_batch_that_is_gone_behind_the_last_one_stops_the_player(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    executor = RecordedSpout(path).open()
    first = plan(executor)
    shutil.rmtree(path / "txid=3")  # the second batch is empty, and not there
    with pytest.raises(SourceUnreadableError, match="batch 3 of .* missing; restore its folder"):
        plan(executor, first)  # it has seen the batch
    with pytest.raises(DataLossError, match=r"batch 3 of .* is missing: .* up to batch 1, .* is 4\. Restore"):
        plan(RecordedSpout(path).open(), first)


def test_a_recording_whose_oldest_batches_are_gone_is_played_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = recorded(tmp_path)
    shutil.rmtree(path / "txid=1")
    executor = RecordedSpout(path).open()
    for _ in range(2):
        assert plan(executor)["txid"] == 3
    assert caplog.messages == [
        f"RecordedSpout: {path} begins with batch 3: the batches up to 1 are missing, and are not played"
    ]


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    (file,) = (path / "txid=1").glob("*.parquet")
    file.write_bytes(file.read_bytes() + b"x")
    topology = TridentTopology()
    topology.newStream("words", RecordedSpout(path)).foreachArrow(TestOutput())
    running = start_local(topology, maxAttempts=1)
    with pytest.raises(BatchFailedError) as failure:
        running.awaitTermination(timeout=60)
    assert isinstance(failure.value.__cause__, OutputConflictError)
    assert "the batch was changed after it was published" in str(failure.value)


def test_another_recording_at_the_same_path_is_refused(tmp_path: Path) -> None:
    first = plan(RecordedSpout(recorded(tmp_path / "a")).open())
    other = RecordedSpout(recorded(tmp_path / "b")).open()
    with pytest.raises(SpoutContractError, match=r"has played the recording [0-9a-f-]+ up to batch 1, but .* another"):
        plan(other, first)
    with pytest.raises(SpoutContractError, match="RecordedSpout: this spout cannot replay the batch 7"):
        plan(other, 7)
