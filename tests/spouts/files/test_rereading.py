"""Files that a stream has read, read again from the beginning up to its position, while files come, grow and rotate."""

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from trident.errors import DataLossError
from trident.spouts import FileSpout, TransactionAttempt, Watch
from trident_spouts.executor import Metadata, SpoutExecutor
from trident_spouts.files import storage
from trident_spouts.files.storage import TICK_NS


def step(executor: SpoutExecutor, position: Metadata) -> tuple[list[str], Metadata]:
    """Return the lines of the next batch, and the position after it."""
    executor._listed_at = float("-inf")  # type: ignore[attr-defined]  # list the files anew, as after some time
    plan = executor.plan(TransactionAttempt(1, 0, 1), position, 1e12)
    if plan is None:
        return [], position
    return executor.emit(TransactionAttempt(1, 0, 1), plan).arrow().column("line").to_pylist(), plan


def drained(executor: SpoutExecutor, position: Metadata, into: list[str]) -> Metadata:
    while True:
        lines, position = step(executor, position)
        if not lines:
            return position
        into += lines


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("order", ["time", "name"])
@pytest.mark.parametrize("remembered", [2, 1_000])
def test_what_was_read_is_read_again_and_nothing_else(seed: int, order: Any, remembered: int, tmp_path: Path) -> None:
    """The second reader follows in rounds, each up to where the first one is then."""
    chance = random.Random(seed)
    watch = Watch(rememberedFiles=remembered)
    spout = FileSpout(tmp_path / "*.txt", orderBy=order, maxBytesPerBatch=chance.choice([10, 60, 400]), watch=watch)
    first, lines, position = spout.open(), list[str](), None
    ends: list[Any] = [None]
    second, again, behind = spout.open_again(lambda: ends[-1]), list[str](), None
    clock, written, names = 1_000_000, 0, list[str]()
    for turn in range(30):
        act = chance.random()
        if act < 0.5 or not names:
            clock += chance.randint(1, 5)
            name = f"f{turn:03}.txt"
            rows = [f"{name} {number}" for number in range(chance.randint(1, 8))]
            (tmp_path / name).write_text("".join(f"{row}\n" for row in rows))
            os.utime(tmp_path / name, (clock, clock))
            names.append(name)
            written += len(rows)
        elif act < 0.65 and remembered > 2:  # a file that is no longer remembered must not grow
            clock += 1
            name = chance.choice(names)
            with (tmp_path / name).open("a") as file:
                file.write(f"{name} more {turn}\n")
            os.utime(tmp_path / name, (clock, clock))
            written += 1
        elif act < 0.9:
            found, position = step(first, position)
            lines += found
        else:
            ends.append(position)
            behind = drained(second, behind, again)
            assert sorted(again) == sorted(lines), (seed, turn)
    position = drained(first, position, lines)
    ends.append(position)
    behind = drained(second, behind, again)
    assert sorted(again) == sorted(lines) and len(again) == written


def test_a_forgotten_file_that_is_gone_is_told(tmp_path: Path) -> None:
    for at in range(6):
        (tmp_path / f"{at}.txt").write_text(f"line {at}\n")
        os.utime(tmp_path / f"{at}.txt", (1_000 + at, 1_000 + at))
    time.sleep(2 * TICK_NS / 1e9)  # so that the times of change are proofs
    spout = FileSpout(tmp_path / "*.txt", watch=Watch(rememberedFiles=1))
    lines = list[str]()
    position = drained(spout.open(), None, lines)
    (tmp_path / "0.txt").unlink()
    with pytest.raises(DataLossError, match=r"1 file\(s\) of .* that were read are gone"):
        drained(spout.open_again(lambda: position), None, lines)
    assert (spout.amount_before(position) or "").startswith("at least ")


def test_a_rotated_file_is_read_again_under_its_new_name(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("a\nb\n")
    spout = FileSpout(tmp_path / "*.txt")
    lines = list[str]()
    position = drained(spout.open(), None, lines)
    (tmp_path / "log.txt").rename(tmp_path / "log-1.txt")
    (tmp_path / "log.txt").write_text("c\n")
    again = list[str]()
    drained(spout.open_again(lambda: position), None, again)
    assert again == ["a", "b"]


@pytest.fixture
def position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Metadata:
    """The position after six files, of which the stream has one by its name and one by its checksums."""
    monkeypatch.setattr("trident_spouts.files.read_files.KNOWN_BY_CHECKSUM", 1)
    monkeypatch.setattr(storage, "TICK_NS", -(10**18))
    for at in range(6):
        _write(tmp_path / f"f{at}.txt", at)
    return drained(_remembering(tmp_path).open(), None, [])


def _write(path: Path, at: int) -> None:
    path.write_text(f"line {at}\n" * (1 if at < 6 else 2))
    os.utime(path, (1_000 + at % 6, 1_000 + at % 6))


def _remembering(folder: Path, *, skip: bool = False) -> FileSpout:
    watch = Watch(rememberedFiles=1, onForgotten="skip" if skip else "fail")
    return FileSpout(folder / "*.txt", watch=watch)


@pytest.mark.parametrize("skipped", ["f00-late.txt", "f0.txt"], ids=["a late file", "a rewritten file"])
@pytest.mark.parametrize("followed", [True, False], ids=["by the stream", "by the second reader"])
def test_files_that_were_skipped_are_not_read_as_if_the_stream_had_read_them(
    skipped: str, followed: bool, position: Metadata, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The stream counts them as read, and it is not known what it has read of them."""
    _write(tmp_path / skipped, 6)
    spout = _remembering(tmp_path, skip=True)
    if followed:
        (tmp_path / "f9.txt").write_text("new\n")
        lines = list[str]()
        position = drained(spout.open(), position, lines)
        assert lines == ["new"] and f"{skipped} count(s) as read" in caplog.text
        position = drained(spout.open(), position, lines)
    for again in (spout, _remembering(tmp_path)) if followed else (spout,):
        with pytest.raises(DataLossError, match=r"1 file\(s\) of .* were skipped .* To continue, remove backfill=True"):
            drained(again.open_again(lambda: position), None, [])
