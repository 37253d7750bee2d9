"""DeltaSpout keeps the contract of sources that change."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.delta.tables import FEED, Table
from trident.spouts import DeltaSpout
from trident.testing import ChangingSource, SourceContract


class ChangingTable(ChangingSource):
    """A table in a folder."""

    def __init__(self, root: Path, starting: str, changes: bool) -> None:
        self.starting, self.root, self.last, self.changes = starting, root, 0, changes
        self.starts_at_its_end = starting == "latest"
        self.folder = root / "table"
        self.create(0)
        self.first = [] if starting == "latest" else [self.row(0)]

    def create(self, *ids: int) -> None:
        Table(self.folder).add(*ids, configuration=FEED)

    def row(self, id: int) -> tuple[Any, ...]:
        return (id, f"w{id % 3}", "insert") if self.changes else (id, f"w{id % 3}")

    def spout(self) -> DeltaSpout:
        return DeltaSpout(
            self.folder,
            "id long, word string",
            startingVersion=self.starting,
            maxFilesPerBatch=1,  # type: ignore[arg-type]
            changes=self.changes,
        )

    def add(self, count: int) -> list[tuple[Any, ...]]:
        if not self.folder.exists():
            self.create()
        ids = range(self.last + 1, self.last + count + 1)
        self.last += count
        for each in ids:
            Table(self.folder).add(each)
        first, self.first = self.first, []
        return [*first, *map(self.row, ids)]

    def copy(self) -> None:
        shutil.rmtree(self.root / "backup", ignore_errors=True)
        shutil.copytree(self.folder, self.root / "backup")

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.root / "backup", self.folder)

    def replace(self) -> None:
        shutil.rmtree(self.folder)
        self.create()
        self.first = []

    def remove(self) -> None:
        shutil.rmtree(self.folder)
        self.first = []

    def hide(self) -> None:
        self.folder.rename(self.root / "away")

    def show(self) -> None:
        (self.root / "away").rename(self.folder)


@pytest.mark.parametrize(
    ("starting", "changes"), [("snapshot", False), ("latest", False), ("earliest", False), ("snapshot", True)]
)
class TestChangingTable(SourceContract):
    @pytest.fixture
    def source(self, tmp_path: Path, starting: str, changes: bool) -> ChangingTable:
        return ChangingTable(tmp_path, starting, changes)
