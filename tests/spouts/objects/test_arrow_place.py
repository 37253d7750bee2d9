"""Files through pyarrow's file systems, as of HDFS. Pyarrow's own local one stands in: HDFS itself is not tested."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trident.errors import SourceUnreadableError, SpoutContractError
from trident.spouts import FileSpout, TransactionAttempt
from trident.testing import SpoutContract
from trident_spouts.files import spout as spout_module
from trident_spouts.files.arrow_place import ArrowPlace

ATTEMPT = TransactionAttempt(1, 0)
LINES = [f"line{at:04}" for at in range(400)]


@pytest.fixture(autouse=True)
def _through_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spout_module, "place_of", lambda path, storage: ArrowPlace.at(f"file://{path}"))


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
        ArrowPlace.at("hdfs://127.0.0.1:1/none")
