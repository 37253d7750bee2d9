"""Files through pyarrow's file systems, as of HDFS. Pyarrow's own local one stands in: HDFS itself is not tested."""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.plans import planned
from trident.errors import SourceUnreadableError, SpoutContractError
from trident.spouts import FileSpout, TransactionAttempt, Watch
from trident.testing import SpoutContract
from trident_spouts.files import spout as spout_module
from trident_spouts.files.hdfs_storage import HdfsStorage

ATTEMPT = TransactionAttempt(1, 0)
LINES = [f"line{at:04}" for at in range(400)]


@pytest.fixture(autouse=True)
def _through_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spout_module, "place_of", lambda path, storage: HdfsStorage.at(f"file://{path}"))


def write(path: Path, lines: list[str]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"line": lines}), path, row_group_size=50)
    else:
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def spout(path: Path, **options: Any) -> FileSpout:
    return FileSpout(path, "parquet" if "parquet" in path.name else "text", "line string", **options)


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".parquet"])
class TestFilesThroughArrow(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return LINES[:20] * 2

    @pytest.fixture
    def make_spout(self, tmp_path: Path, suffix: str) -> Callable[[], Any]:
        (tmp_path / "in").mkdir()
        for name in "ab":
            write(tmp_path / "in" / f"{name}{suffix}", LINES[:20])
        return lambda: spout(tmp_path / "in" / f"*{suffix}", maxFilesPerBatch=1, maxBytesPerBatch=100)


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".parquet"])
@pytest.mark.parametrize("change", ["replaced", "shorter", "gone"])
@pytest.mark.parametrize("when", ["plan", "emit"])
def test_a_file_that_changed_after_it_was_planned_is_not_read(
    tmp_path: Path, suffix: str, change: str, when: str
) -> None:
    path = tmp_path / f"log{suffix}"
    write(path, LINES)
    executor = spout(path).open()
    plan = executor.plan(ATTEMPT, None, 0.0)
    emission = executor.emit(ATTEMPT, plan) if when == "emit" else None
    path.unlink()
    if change != "gone":
        write(path, LINES[:-1] if change == "shorter" else ["other", *LINES])
    with pytest.raises((SourceUnreadableError, SpoutContractError)):
        (emission or executor.emit(ATTEMPT, plan)).arrow()
    write(path, LINES)


def test_lines_that_a_file_grows_by_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    write(path, LINES[:5])
    executor = spout(path).open()
    first = executor.plan(ATTEMPT, None, 0.0)
    write(path, LINES[:8])
    second = executor.plan(ATTEMPT, first, 0.0)
    for plan, lines in ((first, LINES[:5]), (second, LINES[5:8])):
        assert executor.emit(ATTEMPT, plan).arrow().column(0).to_pylist() == lines


def test_a_folder_a_file_and_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.txt", "b.txt", "sub/c.txt", "_hidden"):
        (tmp_path / name).write_text(f"{name}\n")

    def read(pattern: str) -> list[str]:
        executor = spout(tmp_path / pattern, orderBy="name").open()
        table = executor.emit(ATTEMPT, executor.plan(ATTEMPT, None, 0.0)).arrow()
        return table.column(0).to_pylist()  # type: ignore[no-any-return]

    assert read("") == ["a.txt", "b.txt"]
    assert read("b.txt") == ["b.txt"]
    assert read("**/*.txt") == ["a.txt", "b.txt", "sub/c.txt"]
    with pytest.raises(SourceUnreadableError, match="there is no file or folder file:///.*/none"):
        spout(tmp_path / "none").open()


def test_hdfs_without_hadoop_says_what_to_set() -> None:
    with pytest.raises(
        SourceUnreadableError, match=r"cannot open hdfs://127.0.0.1:1: .* set JAVA_HOME, HADOOP_HOME and"
    ):
        HdfsStorage.at("hdfs://127.0.0.1:1/none")


class Reader:
    """Reads what a stream has not read yet; `restarts` says whether each read is of another run."""

    def __init__(self, path: Path, restarts: bool, **options: Any) -> None:
        self._spout, self._restarts = spout(path, **options), restarts
        self._executor: Any = self._spout.open()
        self._position: Any = None

    def __call__(self) -> list[str]:
        if self._restarts:
            self._executor = self._spout.open()
        self._executor._listed_at = float("-inf")
        plans = planned(self._spout, executor=self._executor, previous=self._position)
        self._position = [self._position, *plans][-1]
        return [line for plan in plans for line in self._executor.emit(ATTEMPT, plan).arrow().column(0).to_pylist()]


@pytest.fixture(params=[False, True], ids=["one run", "restarts"])
def reader(tmp_path: Path, request: pytest.FixtureRequest) -> Reader:
    return Reader(tmp_path / "*", request.param)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_renamed_file_is_recognized_by_its_time_and_content(tmp_path: Path, reader: Reader, quiet: bool) -> None:
    for name in "ab":  # of equal content and time
        write(tmp_path / f"{name}.tmp", LINES[:50])
        os.utime(tmp_path / f"{name}.tmp", (5, 5))
    assert reader() == LINES[:50] * 2
    (tmp_path / "a.tmp").rename(tmp_path / "a.done")
    assert quiet or reader() == []
    (tmp_path / "b.tmp").rename(tmp_path / "b.done")
    (tmp_path / "a.done").rename(tmp_path / "a.old")
    assert reader() == []
    with (tmp_path / "a.old").open("a") as file:
        file.write("more\n")
    assert reader() == ["more"]
    shutil.copyfile(tmp_path / "b.done", tmp_path / "c.done")
    assert reader() == LINES[:50], "a copy of another time is a file of its own"


def test_a_file_that_grew_before_it_was_renamed_is_refused(tmp_path: Path, reader: Reader) -> None:
    write(tmp_path / "flume.tmp", LINES[:300])
    assert reader() == LINES[:300]
    with (tmp_path / "flume.tmp").open("a") as file:
        file.write("more\n")
    (tmp_path / "flume.tmp").rename(tmp_path / "flume")
    for _ in range(2):
        with pytest.raises(
            SpoutContractError,
            match=r"/flume begins with all that was read from flume\.tmp \(to byte 2,700\), and flume\.tmp is gone\. .*"
            r"Give it its former name back",
        ):
            reader()
    (tmp_path / "flume").rename(tmp_path / "flume.tmp")
    assert reader() == ["more"]
    (tmp_path / "flume.tmp").rename(tmp_path / "flume")
    assert reader() == []


def test_a_new_file_is_read_after_others_are_gone(tmp_path: Path, reader: Reader) -> None:
    write(tmp_path / "a", LINES[:300])
    write(tmp_path / "b", LINES[:3])
    assert sorted(reader()) == sorted(LINES[:300] + LINES[:3])
    (tmp_path / "a").unlink()
    (tmp_path / "b").unlink()
    write(tmp_path / "c", LINES[1:300])
    write(tmp_path / "d", LINES[:5])  # a short beginning may be equal by chance
    assert sorted(reader()) == sorted(LINES[1:300] + LINES[:5])


def forgetful(folder: Path, order: str) -> Reader:
    """Return a stream that has read twelve files, remembers one of them, and restarts before each read."""
    for at in range(12):
        write(folder / f"m{at:02}", [f"old{at}"])
        os.utime(folder / f"m{at:02}", (1_000 + at, 1_000 + at))
    stream = Reader(folder / "*", True, orderBy=order, maxFilesPerBatch=1, watch=Watch(rememberedFiles=1))
    assert len(stream()) == 12 and stream() == []
    return stream


@pytest.mark.parametrize("order", ["time", "name"])
def test_a_late_file_in_the_place_of_one_that_was_forgotten_is_not_lost_in_silence(tmp_path: Path, order: str) -> None:
    """The times of such files show only when they were written, not when they came."""
    stream = forgetful(tmp_path, order)
    (tmp_path / "m00").unlink()
    write(tmp_path / "a-late", ["late"])
    os.utime(tmp_path / "a-late", (900, 900))
    with pytest.raises(SpoutContractError, match="may have been read, or may have changed since .*a-late"):
        stream()


@pytest.mark.parametrize(("change", "guess"), [("touched", "or was touched, is read"), ("late", "counts as read")])
def test_a_stream_says_what_it_guesses_of_forgotten_files(
    tmp_path: Path, change: str, guess: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream = forgetful(tmp_path, "time")
    (tmp_path / "m00").unlink()
    if change == "touched":
        (tmp_path / "m01").touch()
    else:
        (tmp_path / "m01").unlink()
        write(tmp_path / "a-late", ["late"])
        os.utime(tmp_path / "a-late", (900, 900))
    assert stream() == (["old1"] if change == "touched" else [])
    assert guess in caplog.text
