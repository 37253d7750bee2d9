"""A checkpoint that is removed or replaced under a living driver: it stops, and a second driver can run."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from trident import TridentTopology
from trident.base.errors import LogError, LogMismatchError
from trident.run import registry
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout
from trident.testing.local import start_local

Handed = list[tuple[str, int, list[str]]]


def started(who: str, folder: Path, handed: Handed) -> tuple[RunningTopology, FeederBatchSpout]:
    """A driver that hands every batch over to one output."""
    feeder, topology = FeederBatchSpout("word string"), TridentTopology()

    def note(table: pa.Table, txid: int, attempt: int) -> None:
        handed.append((who, txid, table["word"].to_pylist()))

    topology.newStream("words", feeder).foreachArrow(note, name="noted")
    running = start_local(topology, name="t", checkpointLocation=folder)
    registry.release("t", running)  # as another process, which would not know of it
    return running, feeder


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_driver_whose_checkpoint_is_taken_away_stops_and_another_one_runs(how: str, tmp_path: Path) -> None:
    checkpoint, handed = tmp_path / "checkpoint", Handed()
    first, fed = started("first", checkpoint, handed)
    fed.feed(["a"])
    first.processAllAvailable(timeout=30)
    if how == "removed":
        shutil.rmtree(checkpoint)
    else:  # by a copy of itself
        checkpoint.rename(tmp_path / "away")
        shutil.copytree(tmp_path / "away", checkpoint)
    second, other = started("second", checkpoint, handed)
    fed.feed(["b"])
    other.feed(["c"])
    second.processAllAvailable(timeout=30)
    with pytest.raises(LogError, match="was removed or replaced during this run"):
        first.awaitTermination(timeout=30)
    assert [words for who, _, words in handed if who == "first"] == [["a"]], "nothing that it could not log"
    assert [words for who, _, words in handed if who == "second"] == [["c"]]
    other.feed(["d"])
    second.processAllAvailable(timeout=30)
    second.stop()
    first.stop()


def test_a_driver_that_is_idle_notices_it_too(tmp_path: Path) -> None:
    handed: Any = []
    running, _ = started("only", tmp_path / "checkpoint", handed)
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(LogError, match="was removed or replaced during this run"):
        running.awaitTermination(timeout=30)


@pytest.mark.parametrize("how", ["emptied", "without its last writes"])
def test_a_start_over_an_empty_log_touches_nothing(how: str, tmp_path: Path) -> None:
    handed: Any = []
    running, fed = started("first", tmp_path / "checkpoint", handed)
    fed.feed(["a"])
    running.processAllAvailable(timeout=30)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "checkpoint", copy)
    running.stop()
    log = copy / "t" / "log.sqlite"
    if how == "emptied":
        log.write_bytes(b"")
    for end in ("-wal", "-shm"):  # as a copy of *.sqlite alone lacks them
        log.with_name(f"log.sqlite{end}").unlink()
    before = {path.name: path.read_bytes() for path in (copy / "t").iterdir() if path.is_file()}
    with pytest.raises(LogMismatchError, match="log.sqlite in it is empty: it was emptied, or log.sqlite-wal, which"):
        started("second", copy, handed)
    assert {path.name: path.read_bytes() for path in (copy / "t").iterdir() if path.is_file()} == before
