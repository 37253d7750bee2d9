"""Looks at files to which nothing has happened: they cost a listing and a comparison, and never hide a change."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.files.test_file_spout import write
from trident.errors import SpoutContractError
from trident.spouts import FileSpout, TransactionAttempt, Watch
from trident_spouts.files import forgotten_files, storage
from trident_spouts.files.planner import Planner


class Run:
    """A run over a folder of five files, of which the stream remembers one and has checksums of two or three."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for at in range(5):
            write(folder / f"f{at}", f"{at} one\n", 100 + at)
        self.folder, self.executor = folder, FileSpout(folder, watch=Watch(rememberedFiles=1)).open()
        self.position: Any = None
        self.recognized = 0
        recognize = Planner.recognize

        def counted(planner: Planner, *given: Any) -> Any:
            self.recognized += 1
            return recognize(planner, *given)

        monkeypatch.setattr(Planner, "recognize", counted)
        self.look()
        assert self.position is not None

    def look(self) -> int:
        """Read what is new, and return how often the files were compared with the record of those that were read."""
        before = self.recognized
        self.executor._listed_at = float("-inf")  # type: ignore[attr-defined]
        plan = self.executor.plan(TransactionAttempt(1, 0), self.position, 1e9)
        self.position = plan or self.position
        return self.recognized - before


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(storage, "TICK_NS", -(10**18))  # times of change count at once
    return Run(tmp_path, monkeypatch)


def test_files_are_recognized_after_a_batch_and_after_any_change(run: Run) -> None:
    assert run.look() == 1, "after a batch"
    assert [run.look(), run.look()] == [0, 0]
    (run.folder / "f4").rename(run.folder / "g4")
    assert [run.look(), run.look()] == [1, 0]
    (run.folder / "f3").unlink()
    assert [run.look(), run.look()] == [1, 0]
    write(run.folder / "new", "new\n", 200)
    assert [run.look(), run.look(), run.look()] == [1, 1, 0]


@pytest.mark.parametrize("name", ["f4", "f3"])
def test_a_change_that_the_status_does_not_show_yet_is_not_missed(
    name: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second change within the same tick of the clock has the same time."""
    monkeypatch.setattr(storage, "TICK_NS", 10**18)
    run.look()
    times = os.stat(run.folder / name)
    (run.folder / name).write_text("other\n")
    os.utime(run.folder / name, ns=(times.st_mtime_ns, times.st_mtime_ns))
    with pytest.raises(SpoutContractError, match=f"{name} was read to byte 6 .* is now another file,"):
        run.look()


def test_checksums_are_computed_once_for_each_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.look()
    computed, of = list[str](), forgotten_files.Sums.of
    monkeypatch.setattr(forgotten_files.Sums, "of", lambda file: computed.append(file.name) or of(file))
    write(run.folder / "new", "new\n", 200)
    run.look()
    run.look()
    assert sorted(set(computed)) == ["f4", "new"] and len(computed) == 2, "what is new, and what is forgotten now"


def test_a_look_after_a_refused_one_is_refused_too(run: Run) -> None:
    assert [run.look(), run.look()] == [1, 0]
    write(run.folder / "f4", "4 other, and longer\n", 104)
    for _ in range(3):
        with pytest.raises(SpoutContractError, match="f4 was read to byte 6"):
            run.look()
