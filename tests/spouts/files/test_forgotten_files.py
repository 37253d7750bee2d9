"""Files that were read so long ago that the stream has forgotten them: they are recognised, or the stream stops."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.files.test_file_spout import write
from tests.support.plans import logged, planned
from tests.support.waiting import wait_until
from trident.errors import SpoutContractError
from trident.spouts import FileSpout, TransactionAttempt, Watch
from trident_spouts.executor import Metadata
from trident_spouts.files import file_recognition, forgotten_files, storage
from trident_spouts.files.read_files import ReadFiles


@pytest.fixture(autouse=True)
def all_changes_are_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have times of change count at once, as those of files that were not changed just now."""
    monkeypatch.setattr(storage, "TICK_NS", -(10**18))


class Reader:
    """Reads a folder of five files, by a stream that remembers two, in runs of one batch or more."""

    def __init__(self, folder: Path, order: str) -> None:
        self.folder, self.order, self.position = folder, order, None
        for at in range(5):
            write(folder / f"f{at}", f"{at} one\n{at} two\n", 100 + at)
        assert len(self()) == 10

    def spout(self, maxFilesPerBatch: int | None = None, **watch: Any) -> FileSpout:
        watched = Watch(**{"rememberedFiles": 2, **watch})
        return FileSpout(self.folder, orderBy=self.order, maxFilesPerBatch=maxFilesPerBatch, watch=watched)  # type: ignore[arg-type]

    def __call__(self, **options: Any) -> list[str]:
        """Read what is new, in a run of its own, and return the lines."""
        plans = planned(self.spout(**options), previous=self.position)
        lines = [line for plan in plans for line in _lines(self.spout(), plan)]
        self.position = plans[-1] if plans else self.position
        return lines

    def refused(self, match: str) -> None:
        for _ in range(2):
            with pytest.raises(SpoutContractError, match=match):
                self()


def _lines(spout: FileSpout, plan: Metadata) -> Iterator[str]:
    yield from spout.open().emit(TransactionAttempt(1, 0), plan).arrow().column(0).to_pylist()


@pytest.fixture(params=["time", "name"])
def reader(tmp_path: Path, request: pytest.FixtureRequest) -> Reader:
    (tmp_path / "in").mkdir()
    return Reader(tmp_path / "in", request.param)


def test_a_new_file_that_sorts_among_those_read_long_ago_is_read_in_the_next_run_and_in_this_one(
    reader: Reader,
) -> None:
    write(reader.folder / "f00-late", "late\n", 101)
    write(reader.folder / "f9", "new\n", 900)
    assert reader() == ["late", "new"]
    executor = reader.spout().open()
    assert executor.plan(TransactionAttempt(2, 0), reader.position, 0.0) is None
    write(reader.folder / "f01-late", "later\n", 102)
    plan = logged(executor.plan(TransactionAttempt(2, 0), reader.position, 0.0))
    assert list(_lines(reader.spout(), plan)) == ["later"]
    assert executor.plan(TransactionAttempt(3, 0), plan, 0.0) is None


def test_the_lag_does_not_count_a_late_file_as_read(reader: Reader) -> None:
    write(reader.folder / "f00-late", "late\n", 101)
    executor = reader.spout(maxFilesPerBatch=1).open()
    executor.plan(TransactionAttempt(2, 0), reader.position, 0.0)
    assert executor.read_so_far(reader.position).lag == len("late\n")  # type: ignore[attr-defined]


def test_one_that_grows_is_read_on(reader: Reader) -> None:
    with (reader.folder / "f1").open("a") as file:
        file.write("1 three\n")
    assert reader() == ["1 three"]
    assert reader() == []


def replaced(path: Path) -> None:
    write(path.with_name("_new"), "another\nfile\n", 300)
    path.with_name("_new").rename(path)


def rewritten_with_its_time(path: Path) -> None:
    status = path.stat()
    path.write_text("1 odd\n1 two\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def synchronized(path: Path) -> None:
    write(path.with_name("_new"), "1 corrected\n1 two\n", 102)
    path.with_name("_new").rename(path)


def of_another_folder(path: Path) -> None:
    """A folder is renamed to the name of another one: its files keep their inodes and times of change."""
    other = path.parent.with_name("other")
    shutil.copytree(path.parent, other)
    synchronized(other / path.name)
    path.parent.rename(path.parent.with_name("former"))
    other.rename(path.parent)


@pytest.mark.parametrize("change", [replaced, rewritten_with_its_time, synchronized, of_another_folder])
def test_one_that_has_another_content_stops_the_stream(reader: Reader, change: Callable[[Path], None]) -> None:
    change(reader.folder / "f1")
    reader.refused(r"f1 was read to byte 12 \(long ago\) and is now another file,")


def touched(path: Path) -> None:
    path.touch()


def copied(path: Path) -> None:
    shutil.copyfile(path, path.with_name("_copy"))
    path.with_name("_copy").rename(path)


def renamed(path: Path) -> None:
    path.rename(path.with_name("f1-renamed"))


def allowed(path: Path) -> None:
    path.chmod(0o600)


def moved_away_and_back(path: Path) -> None:
    path.rename(path.parent.with_name("away"))
    path.parent.with_name("away").rename(path)


def deleted(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [touched, copied, renamed, allowed, moved_away_and_back, deleted])
def test_one_with_its_content_goes_on(reader: Reader, change: Callable[[Path], None]) -> None:
    change(reader.folder / "f1")
    assert reader() == []
    time.sleep(0.02)  # f9 may get the inode of f1, and the kernel gives births in ticks
    write(reader.folder / "f9", "new\n", 900)
    assert reader() == ["new"]


def test_one_that_was_away_during_a_run_is_the_same_when_it_is_back(reader: Reader) -> None:
    (reader.folder / "f1").rename(reader.folder.with_name("away"))
    write(reader.folder / "f8", "new\n", 800)
    assert reader() == ["new"]
    reader.folder.with_name("away").rename(reader.folder / "f1")
    assert reader() == []


# --- even longer ago ----------------------------------------------------------------------------------------------


@pytest.fixture
def far_back(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader that has read more files than it has checksums of."""
    monkeypatch.setattr("trident_spouts.files.read_files.KNOWN_BY_CHECKSUM", 1)
    write(reader.folder / "f5", "5\n", 105)
    assert reader() == ["5"]
    evidence = ReadFiles.decode(reader.position["seen"]).forgotten  # type: ignore[index, call-overload]
    assert evidence is not None and evidence.more and len(evidence.known) == 2
    return reader


def test_a_late_file_among_those_of_which_nothing_is_known_stops_the_stream(far_back: Reader) -> None:
    write(far_back.folder / "f00-late", "late\n", 101)
    far_back.refused(
        r"1 file\(s\) may have been read, or may have changed since they were read: .*/f00-late\. .* Restore them "
        r"as they were, or move them away.* With "
        r"Watch\(onForgotten='skip'\) these files count as read: new content in them is lost"
    )
    (far_back.folder / "f00-late").rename(far_back.folder.with_name("late"))
    write(far_back.folder / "f9", "new\n", 900)
    assert far_back() == ["new"]


def test_a_change_of_one_of_which_nothing_is_known_counts_as_read_if_it_may(
    far_back: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    write(far_back.folder / "f0", "0 odd\n0 two\n0 three\n", 101)
    far_back.refused("1 file.s. may have been read, or may have changed since they were read: .*/f0. ")
    write(far_back.folder / "f9", "new\n", 900)
    assert far_back(onForgotten="skip") == ["new"]
    assert "f0 count(s) as read; new content there is skipped" in caplog.text
    assert far_back() == []


def test_deletions_of_some_of_which_nothing_is_known_are_no_doubt_but_a_guess_is_told(
    far_back: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    (far_back.folder / "f0").unlink()
    assert far_back() == []
    assert "The stream does not remember so many" not in caplog.text
    write(far_back.folder / "f9", "new\n", 900)
    assert far_back() == ["new"]
    assert "some of them were removed, and a new file that has the name of a removed one is read. The stream does" in (
        caplog.text
    )


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths at which a file is compared as a whole, where files of over 5,000 bytes are long ones."""
    lengths, digest = list[int](), file_recognition.digest
    monkeypatch.setattr(file_recognition, "PROVED_AT_ONCE", 5_000)
    monkeypatch.setattr(
        file_recognition, "digest", lambda file, start, end: lengths.append(end) or digest(file, start, end)
    )
    return lengths


def test_a_long_file_that_grows_is_compared_as_a_whole_when_a_run_begins_and_now_and_then(
    tmp_path: Path, compared: list[int]
) -> None:
    path = write(tmp_path / "log", "line\n" * 2_000)
    [position] = planned(FileSpout(tmp_path))
    executor = FileSpout(tmp_path).open()
    for txid in range(2, 12):
        with path.open("a") as file:
            file.write("more\n" * 200)
        position = logged(executor.plan(TransactionAttempt(txid, 0), position, 0.0))
    assert compared == [10_000, 13_000, 17_000]
    path.write_text("line\n" * 1_000 + "odd!\n" + path.read_text()[5_005:])
    with pytest.raises(SpoutContractError, match="log was read to byte 20000 .* now .* or was rewritten"):
        planned(FileSpout(tmp_path), previous=position)


def test_a_long_log_is_not_compared_between_two_lines_but_when_it_changes_at_the_same_length(
    tmp_path: Path, compared: list[int]
) -> None:
    path = write(tmp_path / "log", "line\n" * 2_000)
    [position] = planned(FileSpout(tmp_path))
    executor = FileSpout(tmp_path).open()
    for txid in range(2, 12):
        with path.open("a") as file:
            file.write("more\n")
        position = logged(executor.plan(TransactionAttempt(txid, 0), position, 0.0))
        assert executor.plan(TransactionAttempt(txid + 1, 0), position, 0.0) is None
    assert compared == [10_000], "as a whole when the run begins"
    wait_until(lambda: time.time_ns() - path.stat().st_ctime_ns > 200_000_000)
    assert executor.plan(TransactionAttempt(12, 0), position, 0.0) is None
    path.write_text("line\n" * 1_000 + "odd!\n" + path.read_text()[5_005:])
    wait_until(lambda: time.time_ns() - path.stat().st_ctime_ns > 200_000_000)
    with pytest.raises(SpoutContractError, match="log was read to byte 10050 .* now .* or was rewritten"):
        executor.plan(TransactionAttempt(12, 0), position, 0.0)


def test_the_evidence_survives_as_text() -> None:
    known = {2**40 + at: forgotten_files.Known(7 * at, 3 * at, 2**31 + at) for at in range(5)}
    evidence = forgotten_files.Forgotten(known, False, 5, forgotten_files.Fingerprint(5, 6, 7), 8)
    assert forgotten_files.Forgotten.of_json(evidence.to_json(9)) == evidence
    cut = forgotten_files.Forgotten.of_json(evidence.to_json(2))
    assert (list(cut.known.items()), cut.more, cut.complete) == (list(known.items())[-2:], True, False)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="rememberedFiles=0: expected a whole number of at least 1"):
        FileSpout("/data", watch=Watch(rememberedFiles=0))
    with pytest.raises(ValueError, match="onForgotten='trust' is not one of 'fail', 'skip'"):
        FileSpout("/data", watch=Watch(onForgotten="trust"))  # type: ignore[arg-type]
    assert (
        repr(FileSpout("/data", watch=Watch(rememberedFiles=5))) == "FileSpout('/data', watch=Watch(rememberedFiles=5))"
    )
