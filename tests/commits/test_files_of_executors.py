"""A batch names a file of an executor only if the driver finds it: on another machine the folder may be another."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.compiler.arrow.engine import ArrowEngine
from trident.configuration.settings import Settings
from trident.errors import BatchFailedError, SparkFailedError
from trident.files.disk import DiskFiles
from trident.files.store import FileStore
from trident.frozen.files import FrozenFolders, secure, write_frozen
from trident.frozen.results import FrozenFiles
from trident.run.start import start_on
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

BATCHES = [["a", "b", "a"], ["b", "c"], ["c"]]
EXPECTED = Counter(word for batch in BATCHES for word in batch)

StoreOf = Callable[[TransactionAttempt, FileStore], FileStore]


def topology() -> TridentTopology:
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES)).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return made


class ByExecutors(ArrowEngine):
    """An engine that writes each result into a file, in the store that `store_of` returns for the attempt."""

    def __init__(self, folders: FrozenFolders, store_of: StoreOf) -> None:
        super().__init__()
        self._folders, self._store_of = folders, store_of

    def slot(self, group: Any) -> Any:
        slot: Any = super().slot(group)
        real = slot.run

        def run(stage: Any, inputs: Any, attempt: TransactionAttempt, scratch: Path) -> Any:
            done = real(stage, inputs, attempt, scratch)
            folder = self._folders.folder(group.name, attempt, stage.number)
            store = self._store_of(attempt, folder.files)

            def written(name: str, rows: pa.Table) -> FrozenFiles:
                file = write_frozen(iter(rows.to_batches()), store, folder.folder, name, rows.schema)
                return FrozenFiles(folder.folder, () if file is None else (file,), rows.schema)

            return replace(done, results={name: written(name, rows) for name, rows in done.results.items()})

        slot.run = run
        return slot


def start(folder: Path, store_of: StoreOf) -> Any:
    def engine(settings: Settings) -> ByExecutors:
        assert settings.files is not None
        return ByExecutors(settings.files, store_of)

    return start_on(engine, topology(), name="t", checkpointLocation=folder)


def test_a_file_on_another_machine_fails_the_attempt_and_not_the_batch(tmp_path: Path) -> None:
    def store_of(attempt: TransactionAttempt, files: FileStore) -> FileStore:
        return DiskFiles(tmp_path / "elsewhere") if (attempt.txid, attempt.attempt) == (2, 0) else files

    with start(tmp_path / "here", store_of) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == EXPECTED
        [failed] = [event for event in running.recentProgress if event["event"] == "failed"]
    assert (failed["txid"], failed["phase"]) == (2, "run")
    assert "an executor on " in failed["error"] and str(tmp_path / "here") in failed["error"]
    assert "Mount the driver's folder there; or put the checkpointLocation on a disk" in failed["error"]


def test_a_batch_that_was_never_frozen_is_computed_by_the_next_start(tmp_path: Path) -> None:
    def store_of(attempt: TransactionAttempt, files: FileStore) -> FileStore:
        return files if attempt.txid == 1 else DiskFiles(tmp_path / "elsewhere")

    with pytest.raises(BatchFailedError, match="batch [23]") as failed, start(tmp_path / "here", store_of) as running:
        running.processAllAvailable(timeout=20)
    assert isinstance(failed.value.__cause__, SparkFailedError)
    with start_local(topology(), name="t", checkpointLocation=tmp_path / "here") as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == EXPECTED


def test_a_file_of_another_size_is_not_frozen(tmp_path: Path) -> None:
    words = pa.table({"word": ["a", "b"]})
    files = [write_frozen(iter(words.to_batches()), DiskFiles(tmp_path), "x", str(n), words.schema) for n in range(2)]
    frozen = FrozenFiles("x", tuple(file for file in files if file is not None), words.schema)
    secure(DiskFiles(tmp_path), [frozen])
    path = tmp_path / "x" / frozen.files[1].name
    path.write_bytes(path.read_bytes()[:-1])
    size = frozen.files[1].bytes
    said = f"executors wrote 2 files .* does not find 1 of .* wrote {size} bytes, and the driver finds {size - 1} bytes"
    with pytest.raises(SparkFailedError, match=said):
        secure(DiskFiles(tmp_path), [frozen])
