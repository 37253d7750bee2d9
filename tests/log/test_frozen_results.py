"""Results that are too large for a row of the log: files beside it, written by the driver, as durable as the log."""

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from trident import Count, TridentTopology
from trident.base.errors import LogCorruptError, OutputError
from trident.batches import log_retention
from trident.log import RedisLog, frozen_results
from trident.log.sqlite_log import SqliteLog
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

BATCHES = [[f"word{n % 7}", "all"] for n in range(20)]
COUNTS = {"all": 20} | {f"word{n}": 3 if n < 6 else 2 for n in range(7)}


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every result is as a large one."""
    monkeypatch.setattr(frozen_results, "MOST_IN_LOG", -1)


def topology(function: Any = None) -> TridentTopology:
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES))
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    letters = (
        counts.newValuesStream(everyChange=True).each("word", lambda word: word[0], "letter string").groupBy("letter")
    )
    letters.persistentAggregate(MemoryMapState.opaque(ttlSecs=3600), Count(), "count", name="letters")
    words.foreachArrow(function or (lambda table, txid, attempt: None), name="out")
    return made


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in (folder / "t" / "frozen").rglob("*.arrow")}


@pytest.mark.usefixtures("in_files")
def test_a_driver_that_died_is_followed_by_one_that_reads_the_files(tmp_path: Path) -> None:
    seen: list[tuple[int, list[Any]]] = []

    def fails(table: pa.Table, txid: int, attempt: int) -> None:
        if txid == 11:
            shutil.copytree(tmp_path / "one", tmp_path / "two", dirs_exist_ok=True)  # as a kill would leave it
            raise OutputError("no")
        seen.append((txid, table["word"].to_pylist()))

    with pytest.raises(OutputError), start_local(topology(fails), name="t", checkpointLocation=tmp_path / "one") as run:
        run.processAllAvailable(timeout=60)
    assert len(files(tmp_path / "two")) >= 30, "the stages' and the output's, of eleven batches"
    more = topology(lambda table, txid, attempt: seen.append((txid, table["word"].to_pylist())))
    with start_local(more, name="t", checkpointLocation=tmp_path / "two") as running:
        running.processAllAvailable(timeout=60)
        assert dict(running.state("counts").items()) == COUNTS
        assert dict(running.state("letters").items()) == {"a": 20, "w": 20}
    assert seen == [(n + 1, batch) for n, batch in enumerate(BATCHES)]


@pytest.mark.usefixtures("in_files")
def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    def fails(table: pa.Table, txid: int, attempt: int) -> None:
        raise OutputError("no")

    with pytest.raises(OutputError), start_local(topology(fails), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    for name in files(tmp_path):
        (tmp_path / name).unlink()
    with (
        pytest.raises(LogCorruptError, match=r"the frozen file .*driver-.*\.arrow is missing"),
        start_local(topology(), name="t", checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=60)


@pytest.mark.usefixtures("in_files")
def test_files_go_only_when_the_log_can_not_come_back_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power loss leaves of the log what its last fsync had, and of deleted files nothing."""
    monkeypatch.setattr(log_retention, "TRIM_EVERY", 4)
    real_rmtree = shutil.rmtree
    path, durable = tmp_path / "run" / "t" / "log.sqlite", tmp_path / "durable"
    deleted, turn = list[str](), threading.RLock()

    def keep() -> None:
        """What is on the disk after an fsync: all that was written up to it."""
        real_rmtree(durable, ignore_errors=True)
        durable.mkdir()
        for file in path.parent.glob("log.sqlite*"):
            shutil.copy(file, durable / file.name)

    for name in ("freeze", "freeze_stage", "born", "publish", "sync", "take"):
        real = getattr(SqliteLog, name)

        def durably(self: SqliteLog, *args: Any, _real: Any = real) -> Any:
            with turn:
                done = _real(self, *args)
                keep()
                return done

        monkeypatch.setattr(SqliteLog, name, durably)

    def rmtree(folder: Any, **options: Any) -> None:
        if os.sep + "frozen" + os.sep in str(folder):
            with turn:
                named = SqliteLog(durable / "log.sqlite", "t", reading=True).folders("words")
            place = str(Path(folder).relative_to(path.parent))
            assert place not in named, "a power loss now would bring back a batch without its files"
            deleted.append(place)
        real_rmtree(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    options: dict[str, Any] = {"checkpointLocation": tmp_path / "run", "rewindBytes": 4000}
    with start_local(topology(), name="t", **options) as running:
        running.processAllAvailable(timeout=60)
    assert deleted


@pytest.mark.usefixtures("in_files")
def test_without_a_folder_that_lasts_everything_goes_into_the_log(tmp_path: Path, shared_redis: Any) -> None:
    log = RedisLog(shared_redis.url, requireDurable=False)
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES))
    from trident.state import RedisMapState

    words.groupBy("word").persistentAggregate(
        RedisMapState.opaque(shared_redis.url, buckets=4), Count(), "count", name="counts"
    )
    with start_local(made, name="t", log=log) as running:
        running.processAllAvailable(timeout=60)
        assert dict(running.state("counts").items()) == COUNTS
    assert not log.open("t").folders("words")
