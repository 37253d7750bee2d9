"""DeltaSpout keeps the contract of all spouts: from a snapshot on, and by versions, with partitions."""

from pathlib import Path
from typing import Any

import pytest

from tests.spouts.delta.tables import FEED, Table
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


class TestChanges(SpoutContract):
    @pytest.fixture
    def make_spout(self, tmp_path: Path) -> Any:
        table = Table(tmp_path / "table").add(1, 2, 3, configuration=FEED, partition_by=["word"])
        table.delta.update(updates={"id": "id + 10"}, predicate="id < 3")
        table.delta.delete("id = 3")
        table.add(7, 8, mode="overwrite")
        return lambda: DeltaSpout(table.path, startingVersion="earliest", changes=True, maxFilesPerBatch=1)

    @pytest.fixture
    def every_row(self) -> Any:
        inserts = [(id, f"w{id % 3}", "insert") for id in (1, 2, 3, 7, 8)]
        updates = [(1, "w1"), (2, "w2")]
        images = [(*row, "update_preimage") for row in updates] + [
            (id + 10, w, "update_postimage") for id, w in updates
        ]
        return [*inserts, *images, *((id, w, "delete") for id, w in ((3, "w0"), (11, "w1"), (12, "w2")))]


class TestPartitions(SpoutContract):
    @pytest.fixture
    def make_spout(self, tmp_path: Path) -> Any:
        table = Table(tmp_path / "table").add(1, 2, 3, partition_by=["word"]).add(4, 5, 6)
        return lambda: DeltaSpout(table.path, maxFilesPerBatch=2)

    @pytest.fixture
    def every_row(self) -> Any:
        return every_id(6)
