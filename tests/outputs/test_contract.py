"""The contract of outputs, for a Parquet output on a disk and for functions of users."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.parquet_outputs import parquet_output
from trident import publishedFiles
from trident.outputs.run_identity import RunIdentity
from trident.testing import FunctionPlace, OutputContract
from trident.testing.contracts.outputs import OutputPlace, Take


class Folder:
    """A Parquet output in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path / "out"
        self._saved = 0

    def open(self, run: RunIdentity) -> Take:
        return parquet_output(str(self.path), run)

    def words(self) -> list[str]:
        files = publishedFiles(self.path)
        assert set(files) == {str(file) for file in self.path.rglob("*.parquet")}, (
            "any reader finds these, and no other"
        )
        return [word for file in files for word in pq.ParquetFile(file).read()["word"].to_pylist()]

    def save(self) -> Path:
        self._saved += 1
        return Path(shutil.copytree(self.path, self.path.parent / f"saved{self._saved}"))

    def restore(self, saved: Path) -> None:
        shutil.rmtree(self.path)
        shutil.copytree(saved, self.path)

    def take_away(self) -> None:
        for folder in self.path.glob("txid=*"):
            shutil.rmtree(folder)


class TestParquetFolder(OutputContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> OutputPlace:
        return Folder(tmp_path)


class Table:
    """A table of a user's, which keeps the attempt with each txid and refuses an earlier one."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("CREATE TABLE batches (txid INTEGER PRIMARY KEY, attempt INTEGER)")
        self._db.execute("CREATE TABLE words (txid INTEGER, word TEXT)")

    def store(self, rows: pa.Table, txid: int, attempt: int) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        newest = self._db.execute("SELECT max(txid), attempt FROM batches").fetchone()
        if newest[0] is not None and (txid, attempt) < tuple(newest):
            self._db.execute("ROLLBACK")
            raise RuntimeError("a later call was faster")
        self._db.execute("INSERT OR REPLACE INTO batches VALUES (?, ?)", (txid, attempt))
        self._db.execute("DELETE FROM words WHERE txid = ?", (txid,))
        self._db.executemany("INSERT INTO words VALUES (?, ?)", [(txid, word) for word in rows["word"].to_pylist()])
        self._db.execute("COMMIT")

    def words(self) -> list[str]:
        return [word for (word,) in self._db.execute("SELECT word FROM words")]

    def close(self) -> None:
        self._db.close()


class TestFunction(OutputContract):
    fenced = compares = False

    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[Any]:
        table = Table(tmp_path / "words.db")
        yield FunctionPlace(table.store, table.words)
        table.close()
