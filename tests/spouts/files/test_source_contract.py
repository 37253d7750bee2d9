"""A FileSpout keeps the contract of sources that change: logs that grow, folders that get files, and a manifest."""

import shutil
from pathlib import Path

import pytest

from trident.spouts import FileSpout, Manifest, Watch
from trident.testing import ChangingSource, SourceContract


class Folder(ChangingSource):
    """A folder with logs that grow by lines, and a file for every second addition."""

    def __init__(self, root: Path, remembered: int, logs: bool) -> None:
        self.folder, self.backup, self.away = root / "in", root / "backup", root / "away"
        self.remembered, self.logs = remembered, logs
        self.folder.mkdir()
        self.number = self.additions = 0

    def spout(self) -> FileSpout:
        return FileSpout(self.folder / "*.log", maxBytesPerBatch=40, watch=Watch(rememberedFiles=self.remembered))

    def lines(self, count: int) -> list[str]:
        self.number += count
        return [f"line {at:04}" for at in range(self.number - count, self.number)]

    def add(self, count: int) -> list[str]:
        self.additions += 1
        lines = self.lines(count)
        name = "app.log" if self.logs and self.additions % 2 else f"{self.additions:04}.log"
        self.folder.mkdir(exist_ok=True)
        with (self.folder / name).open("a") as log:
            log.write("".join(f"{line}\n" for line in lines))
        return lines

    def copy(self) -> None:
        shutil.rmtree(self.backup, ignore_errors=True)
        shutil.copytree(self.folder, self.backup)

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.backup, self.folder)

    def replace(self) -> None:
        self.folder.rename(self.folder.with_name(f"former{self.additions}"))
        self.folder.mkdir()

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def hide(self) -> None:
        self.folder.rename(self.away)

    def show(self) -> None:
        self.away.rename(self.folder)


class WholeFolder(Folder):
    """A folder that is read as such, and not by a glob: it is missing where a glob finds nothing."""

    def spout(self) -> FileSpout:
        return FileSpout(self.folder, maxBytesPerBatch=40, watch=Watch(rememberedFiles=self.remembered))


class NamedFiles(Folder):
    """A manifest that names the files."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, 1_000, logs=False)
        self.names: list[str] = []
        (self.folder / "manifest").write_text("")

    def spout(self) -> FileSpout:
        return FileSpout(Manifest(self.folder / "manifest"), maxBytesPerBatch=40)

    def add(self, count: int) -> list[str]:
        lines = super().add(count)
        with (self.folder / "manifest").open("a") as manifest:
            manifest.write(f"{self.additions:04}.log\n")
        return lines

    def replace(self) -> None:
        super().replace()
        (self.folder / "manifest").write_text("")

    def remove(self) -> None:
        (self.folder / "manifest").unlink()


class TestFolder(SourceContract):
    @pytest.fixture(params=[1, 1_000], ids=["remembers-1", "remembers-all"])
    def remembered(self, request: pytest.FixtureRequest) -> int:
        return int(request.param)

    @pytest.fixture(params=[True, False], ids=["logs", "files"])
    def source(self, tmp_path: Path, remembered: int, request: pytest.FixtureRequest) -> Folder:
        return WholeFolder(tmp_path, remembered, request.param)


class TestGlob(SourceContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> Folder:
        return Folder(tmp_path, 1, logs=True)


class TestManifest(SourceContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> NamedFiles:
        return NamedFiles(tmp_path)
