"""An output that a program leaves out for a while, or that has another path for a while: no gap without a word."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

from trident import TridentTopology, publishedFiles
from trident.errors import OutputConflictError
from trident.spouts import PollingSpout
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


class Program:
    """A topology whose source gets more rows, one row a batch, and whose outputs change from start to start."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.calls = folder, 0, list[tuple[int, int]]()

    def run(self, more: int, path: str | None = None, function: bool = False) -> list[str]:
        """Run it over so many more rows, and return the warnings of its start."""
        self.rows += more
        topology = TridentTopology()
        rows = topology.newStream("rows", PollingSpout("n long", {"a": self._read}, maxRows=1))
        rows.foreachArrow(lambda *_: None, name="always")
        if path is not None:
            rows.writeParquet(self.folder / path, name="out")
        if function:
            rows.foreachArrow(lambda table, txid, attempt: self.calls.append((txid, attempt)), name="function")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with start_local(topology, name="t", checkpointLocation=self.folder / "checkpoint") as running:
                running.processAllAvailable(timeout=30)
        return [str(warning.message) for warning in told]

    def _read(self, position: Any, limit: int) -> Any:
        at = position or 0
        return ([at], at + 1) if at < self.rows else ([], at)

    def txids(self, path: str) -> list[int]:
        return [int(Path(file).parent.name.removeprefix("txid=")) for file in publishedFiles(self.folder / path)]


def test_a_path_that_comes_back_is_refused_and_an_empty_one_begins_anew(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.run(2, "a")
    program.run(2, "b")
    for _ in range(2):
        with pytest.raises(
            OutputConflictError, match=r"a of output 'out' has the batches up to 2, but batch \d+ was already written"
        ):
            program.run(0, "a")
    program.run(1, "b")
    assert program.txids("a") == [1, 2] and program.txids("b") == [3, 4, 5], "the way out: the path of the last program"
    shutil.rmtree(tmp_path / "a")
    program.run(1, "a")
    program.run(1, "a")
    assert program.txids("a") == [6, 7], "the other way out: an empty folder"


def test_an_output_that_was_left_out_is_refused_when_it_comes_back_and_only_then(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.run(2, "a")
    program.run(0)
    program.run(1, "a")  # nothing passed without it
    program.run(2)
    with pytest.raises(
        OutputConflictError, match="the programs that committed the batches up to 5 did not have this out"
    ):
        program.run(1, "a")
    program.run(1, "b")
    program.run(0, "b")
    assert program.txids("a") == [1, 2, 3] and program.txids("b") == [6, 7]


def test_an_output_that_was_left_out_before_its_first_tuple_begins_when_it_comes_back(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.run(0, "a")  # it is opened, and takes nothing
    program.run(2)
    program.run(1, "a")
    program.run(1, "a")
    assert program.txids("a") == [3, 4]
    program.run(1)
    with pytest.raises(OutputConflictError, match="the programs that committed the batches up to 5 did not have this"):
        program.run(1, "a")


def test_a_folder_that_was_moved_with_all_its_batches_goes_on(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.run(2, "a")
    (tmp_path / "a").rename(tmp_path / "b")
    program.run(1, "b")
    assert program.txids("b") == [1, 2, 3]


def test_a_folder_that_was_restored_from_an_older_copy_is_refused(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.run(1, "a")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    program.run(1, "a")
    (tmp_path / "a").rename(tmp_path / "newest")
    (tmp_path / "copy").rename(tmp_path / "a")
    with pytest.raises(OutputConflictError, match=r"has the batches up to 1, but batch 2 was already written"):
        program.run(1, "a")


def test_a_function_that_comes_back_is_told_what_it_did_not_get(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.run(1, function=True)
    program.run(2)
    assert program.run(1, function=True) == [
        "output 'function' is in the program again, but the program had no such output while batches 2 to 3 were "
        "committed: its readers do not get these batches"
    ]
    assert program.run(1, function=True) == [] and program.calls == [(1, 0), (4, 0), (5, 0)]


def test_a_reader_is_told_of_batches_that_were_deleted_between_others(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.run(4, "a")
    shutil.rmtree(tmp_path / "a" / "txid=1")
    assert program.txids("a") == [2, 3, 4], "the oldest batches may go"
    shutil.rmtree(tmp_path / "a" / "txid=3")
    with pytest.raises(
        OutputConflictError, match="batch 4 was published after batch 3, but the batch before it here is 2: "
    ):
        publishedFiles(tmp_path / "a")
    assert len(publishedFiles(tmp_path / "a", afterTxid=3)) == 1, "the way out"
    assert len(publishedFiles(tmp_path / "a", afterTxid=4)) == 0


def test_a_reader_that_goes_on_is_told_of_batches_that_another_one_took_away(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.run(4, "a")
    shutil.rmtree(tmp_path / "a" / "txid=2")
    with pytest.raises(
        OutputConflictError, match="batch 2, the next one after batch 1, is missing, .* here is 3: .*afterTxid=2"
    ):
        publishedFiles(tmp_path / "a", afterTxid=1)
    assert len(publishedFiles(tmp_path / "a", afterTxid=2)) == 2, "the way out"
