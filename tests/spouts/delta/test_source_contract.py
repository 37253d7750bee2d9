"""DeltaSpout keeps the contract of sources that change."""

import shutil
from pathlib import Path

import pytest

from tests.spouts.delta.tables import Table
from trident.spouts import DeltaSpout
from trident.testing import ChangingSource, SourceContract


class ChangingTable(ChangingSource):
    """A table in a folder."""

    def __init__(self, root: Path, starting: str) -> None:
        self.starting, self.root, self.last = starting, root, 0
        self.starts_at_its_end = starting == "latest"
        self.folder = root / "table"
        Table(self.folder).add(0)
        self.first = [] if starting == "latest" else [(0, "w0")]

    def spout(self) -> DeltaSpout:
        return DeltaSpout(
            self.folder,
            "id long, word string",
            startingVersion=self.starting,
            maxFilesPerBatch=1,  # type: ignore[arg-type]
        )

    def add(self, count: int) -> list[tuple[int, str]]:
        ids = range(self.last + 1, self.last + count + 1)
        self.last += count
        for each in ids:
            Table(self.folder).add(each)
        first, self.first = self.first, []
        return [*first, *((each, f"w{each % 3}") for each in ids)]

    def copy(self) -> None:
        shutil.rmtree(self.root / "backup", ignore_errors=True)
        shutil.copytree(self.folder, self.root / "backup")

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.root / "backup", self.folder)

    def replace(self) -> None:
        shutil.rmtree(self.folder)
        Table(self.folder).add(*[])
        self.first = []

    def hide(self) -> None:
        self.folder.rename(self.root / "away")

    def show(self) -> None:
        (self.root / "away").rename(self.folder)


@pytest.mark.parametrize("starting", ["snapshot", "latest", "earliest"])
class TestChangingTable(SourceContract):
    @pytest.fixture
    def source(self, tmp_path: Path, starting: str) -> ChangingTable:
        return ChangingTable(tmp_path, starting)
