"""DeltaSpout keeps the contract of all spouts: from a snapshot on, and by versions, with partitions."""

from pathlib import Path
from typing import Any

import pytest

from tests.spouts.delta.tables import Table
from trident.spouts import DeltaSpout
from trident.testing import SpoutContract


def every_id(most: int) -> list[tuple[int, str]]:
    return [(id, f"w{id % 3}") for id in range(1, most + 1)]


@pytest.mark.parametrize("start", ["snapshot", "earliest"])
class TestDeltaSpout(SpoutContract):
    @pytest.fixture
    def make_spout(self, tmp_path: Path, start: Any) -> Any:
        table = Table(tmp_path / "table").add(1, 2, 3).add(4).add(5, 6, partition_by=None)
        table.delta.optimize.compact()
        table.add(7, 8).add(9)
        return lambda: DeltaSpout(table.path, startingVersion=start, maxFilesPerBatch=1)

    @pytest.fixture
    def every_row(self) -> Any:
        return every_id(9)


class TestPartitions(SpoutContract):
    @pytest.fixture
    def make_spout(self, tmp_path: Path) -> Any:
        table = Table(tmp_path / "table").add(1, 2, 3, partition_by=["word"]).add(4, 5, 6)
        return lambda: DeltaSpout(table.path, maxFilesPerBatch=2)

    @pytest.fixture
    def every_row(self) -> Any:
        return every_id(6)
