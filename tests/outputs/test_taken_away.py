"""Readers that take batches away from a Parquet output: whole folders, files only, the oldest ones or all of them."""

import errno
import random
import shutil
from pathlib import Path

import pytest

from tests.outputs.test_output_gaps import Program
from tests.support.parquet_outputs import parquet_output
from tests.support.soak import Soak
from trident import publishedFiles
from trident.base import durable_files
from trident.errors import OutputConflictError, OutputUnavailableError
from trident.outputs import parquet_folder
from trident.testing.contracts.outputs import OutputLog, Take, rows_of

pytestmark = pytest.mark.usefixtures("nothing_left_running")


class Reader:
    """A program that loads batches and removes their folders, the oldest first."""

    def __init__(self, out: Path) -> None:
        self._out, self.loaded = out, list[int]()

    def take_away(self, most: int = 1_000) -> None:
        for txid in parquet_folder.txids(self._out)[:most]:
            self.loaded.append(txid)
            shutil.rmtree(self._out / f"txid={txid}")


def test_a_run_goes_on_after_readers_took_all_batches_away(tmp_path: Path) -> None:
    program, reader = Program(tmp_path), Reader(tmp_path / "a")
    for _ in range(3):
        program.run(2, "a")
        reader.take_away()
        program.run(0, "a")
    assert reader.loaded == [1, 2, 3, 4, 5, 6]


def test_an_output_without_a_record_of_its_progress_gets_one(tmp_path: Path) -> None:
    """The driver died between the batch and its record."""
    log, out = OutputLog(), str(tmp_path / "out")
    parquet_output(out, log.start())(rows_of("a"), 1)
    log.committed(1, 1)
    shutil.rmtree(tmp_path / "out" / "_trident" / "progress")
    parquet_output(out, log.start())
    Reader(tmp_path / "out").take_away()
    parquet_output(out, log.start())(rows_of("b"), 2)
    assert len(publishedFiles(out)) == 1


def test_files_that_are_taken_away_without_their_folder_do_not_stop_a_repeated_commit(tmp_path: Path) -> None:
    log, out = OutputLog(frozen=1), tmp_path / "out"
    parquet_output(str(out), log.start())(rows_of("a"), 1)
    for file in out.rglob("*.parquet"):
        file.unlink()
    take = parquet_output(str(out), log.start())
    take(rows_of("a"), 1)
    take(rows_of("b"), 2)
    assert len(publishedFiles(out, afterTxid=1)) == 1


def test_older_batches_that_are_left_when_the_last_one_went_are_no_emptied_output(tmp_path: Path) -> None:
    log, out = OutputLog(), tmp_path / "out"
    take = parquet_output(str(out), log.start())
    for txid in (1, 2):
        take(rows_of("a"), txid)
        log.committed(txid, 1)
    shutil.rmtree(out / "txid=2")
    with pytest.raises(OutputConflictError, match="batch 2 was published in .* deleted,"):
        take(rows_of("b"), 3)
    with pytest.raises(OutputConflictError, match="has the batches up to 1, but batch 2 was already written"):
        parquet_output(str(out), log.start())


def test_a_batch_whose_first_try_failed_after_it_was_there_is_the_one_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    take = parquet_output(str(out), OutputLog().start())

    def failing(folder: Path) -> None:
        if folder == out:
            raise OSError(errno.EIO, "the disk fails")
        durable_files.fsync_folder(folder)

    monkeypatch.setattr(parquet_folder, "fsync_folder", failing)
    with pytest.raises(OutputUnavailableError, match="the disk fails"):
        take(rows_of("a"), 1)
    monkeypatch.undo()
    take(rows_of("a"), 1)
    take(rows_of("b"), 2)
    assert len(publishedFiles(out)) == 2


def random_life(folder: Path, draws: random.Random) -> None:
    """Check that a reader gets each batch once, in order, or the output is refused because it fell back."""
    log, out, history = OutputLog(), folder / "out", list[str]()
    reader, take = Reader(out), parquet_output(str(out), log.start())
    saved: tuple[Path, int] | None = None  # a copy, and the number of batches when it was taken
    for _ in range(25):
        act = draws.choice(["batch", "batch", "twice", "empty", "restart", "all", "oldest", "save", "restore"])
        history.append(act)
        fell_back = act == "restore" and saved is not None and saved[1] < log.known.last
        try:
            if act == "save":
                shutil.rmtree(folder / "saved", ignore_errors=True)
                saved = Path(shutil.copytree(out, folder / "saved")), log.known.last
            elif act == "restore" and fell_back:
                shutil.rmtree(out)
                shutil.copytree(folder / "saved", out)
                take = parquet_output(str(out), log.start()) if draws.random() < 0.5 else take
                take(rows_of("x"), log.frozen + 1)
            elif act == "restart":
                take = parquet_output(str(out), log.start())
            elif act == "all":
                reader.take_away()
            elif act == "oldest":
                reader.take_away(draws.randint(1, 2))
            elif act in ("batch", "twice", "empty"):
                take = _commit(log, out, take, reader, draws, act)
        except OutputConflictError:
            assert fell_back, history
            return
        assert not fell_back, history
    reader.take_away()
    assert reader.loaded == sorted(set(reader.loaded)), history
    assert set(reader.loaded) == log_of(history, log), history


def _commit(log: OutputLog, out: Path, take: Take, reader: Reader, draws: random.Random, act: str) -> Take:
    """Hand the next batch over, perhaps twice, with a reader and a restart in between."""
    txid, rows = log.frozen + 1, rows_of("" if act == "empty" else "ab")
    log.frozen = txid
    take(rows, txid)
    if act == "twice":
        if draws.random() < 0.5:
            reader.take_away()
        if draws.random() < 0.5:
            take = parquet_output(str(out), log.start())
        take(rows, txid)
    log.committed(txid, rows.num_rows)
    return take


def log_of(history: list[str], log: OutputLog) -> set[int]:
    """Return the txids of the batches with rows."""
    acts = [act for act in history if act in ("batch", "twice", "empty")]
    assert len(acts) == log.frozen
    return {txid for txid, act in enumerate(acts, 1) if act != "empty"}


def test_random_lives(tmp_path: Path) -> None:
    for seed in range(15):
        random_life(tmp_path / str(seed), random.Random(seed))


@pytest.mark.soak
def test_more_random_lives(soak: Soak, tmp_path: Path) -> None:
    for case, draws in enumerate(soak.draws(200)):
        random_life(tmp_path / str(case), draws)
        shutil.rmtree(tmp_path / str(case))
