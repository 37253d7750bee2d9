"""FileSpout keeps the contract of sources that change, over a folder that is put back, made anew, or not mounted."""

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from trident.spouts import FileSpout
from trident.testing import ChangingSource, SourceContract


class Folder(ChangingSource):
    """A folder that gets a file for each `add`; a file has a line for each row."""

    def __init__(self, path: Path, options: dict[str, Any]) -> None:
        self.path, self.options = path / "in", options
        self._backup = path / "backup"
        self._numbers = itertools.count()
        self.path.mkdir()

    def spout(self) -> FileSpout:
        return FileSpout(self.path, maxBytesPerBatch=8, **self.options)

    def add(self, count: int) -> Sequence[str]:
        rows = [f"row {next(self._numbers)}" for _ in range(count)]
        name = f"{len(list(self.path.iterdir())):03d}.txt"
        (self.path / f".{name}").write_text("".join(f"{row}\n" for row in rows))
        (self.path / f".{name}").rename(self.path / name)
        return rows

    def copy(self) -> None:
        shutil.rmtree(self._backup, ignore_errors=True)
        shutil.copytree(self.path, self._backup)

    def restore(self) -> None:
        shutil.rmtree(self.path)
        shutil.copytree(self._backup, self.path)

    def replace(self) -> None:
        shutil.rmtree(self.path)
        self.path.mkdir()

    def hide(self) -> None:
        self.path.rename(self.path.with_name("away"))

    def show(self) -> None:
        self.path.with_name("away").rename(self.path)


@pytest.mark.parametrize("options", [{}, {"orderBy": "name"}], ids=["by-time", "by-name"])
class TestFolders(SourceContract):
    @pytest.fixture
    def source(self, tmp_path: Path, options: dict[str, Any]) -> Folder:
        return Folder(tmp_path, options)
