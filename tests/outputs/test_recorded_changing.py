"""RecordedSpout keeps the contract of sources that change: a recording put back to a copy, made anew, or away."""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trident import TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.errors import DataLossError, SourceUnreadableError
from trident.spouts import FeederBatchSpout, RecordedSpout
from trident.testing import ChangingSource, SourceContract
from trident.testing.local import start_local


class Recording(ChangingSource):
    """A topology that records what it is fed, two rows in a batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()
        self.running: Any = None
        self.begin()

    @property
    def path(self) -> Path:
        return self.folder / "now" / "numbers"

    def begin(self) -> None:
        self.feeder, topology = FeederBatchSpout("n long"), TridentTopology()
        topology.newStream("numbers", self.feeder).writeParquet(self.path, name="numbers")
        self.running = start_local(topology, name="t", checkpointLocation=self.folder / "now" / "checkpoint")

    def end(self) -> None:
        self.running.stop()

    def spout(self) -> Any:
        return RecordedSpout(self.path)

    def add(self, count: int) -> list[tuple[int]]:
        rows = [(next(self._numbers),) for _ in range(count)]
        for at in range(0, count, 2):
            self.feeder.feed(rows[at : at + 2], wait=True, timeout=20)
        return rows

    def copy(self) -> None:
        self.end()
        shutil.copytree(self.folder / "now", self.folder / "copy")
        self.begin()

    def restore(self) -> None:
        self.end()
        shutil.rmtree(self.folder / "now")
        (self.folder / "copy").rename(self.folder / "now")
        self.begin()

    def replace(self) -> None:
        self.end()
        shutil.rmtree(self.folder / "now")
        self.begin()

    def hide(self) -> None:
        self.path.rename(self.folder / "away")

    def show(self) -> None:
        (self.folder / "away").rename(self.path)


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    recording = Recording(tmp_path)
    yield recording
    recording.end()


class TestRecordings(SourceContract):
    @pytest.fixture
    def source(self, recording: Recording) -> ChangingSource:
        return recording


def attempt(txid: int) -> TransactionAttempt:
    return TransactionAttempt(txid, 0, 1)


def test_a_batch_whose_file_was_written_anew_with_the_same_size_is_noticed(recording: Recording) -> None:
    recording.add(4)
    executor = recording.spout().open()
    first = executor.plan(attempt(1), None, 0.0)
    second = executor.plan(attempt(2), first, 0.0)
    (file,) = (recording.path / "txid=1").glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    with pytest.raises(SourceUnreadableError, match="batch 1 of .* was changed after it was planned"):
        executor.emit(attempt(1), first)
    for again in (executor, recording.spout().open()):
        with pytest.raises(DataLossError, match="the last batch that this stream has played, now has other rows"):
            again.plan(attempt(2), first, 0.0)
    assert second["txid"] == 2
