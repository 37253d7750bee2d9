"""A FileSpout over objects keeps the contract of all spouts."""

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spouts.files.test_compressed import PACK
from tests.spouts.objects.conftest import Objects
from trident.testing import SpoutContract

MakeSpout = Callable[[], Any]
ROWS = [("cow", 1), ("moon", 2), ("cow", 3), ("dog", 4), ("dog", 4), ("spoon", 5), ("dish", 6)]


@pytest.mark.parametrize("order", ["name", "time"])
class TestTextObjects(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return [f"{word} {n} {name}" for name in "ab" for word, n in ROWS]

    @pytest.fixture
    def make_spout(self, objects: Objects, order: str) -> MakeSpout:
        for name in "ab":
            objects.put(name, "".join(f"{word} {n} {name}\n" for word, n in ROWS))
        return lambda: objects.spout(maxBytesPerBatch=30, orderBy=order)


@pytest.mark.parametrize("suffix", ["", ".gz"])
class TestCsvObjects(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return [(f"{word} {name}", n) for name in "ab" for word, n in ROWS]

    @pytest.fixture
    def make_spout(self, objects: Objects, suffix: str) -> MakeSpout:
        for name in "ab":
            text = "word,n\n" + "".join(f'"{word} {name}",{n}\n' for word, n in ROWS)
            objects.put(f"{name}.csv{suffix}", PACK.get(suffix, bytes)(text.encode()))
        return lambda: objects.spout("*.csv*", "csv", "word string, n long", maxBytesPerBatch=30)


class TestParquetObjects(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return [f"{word}{name}" for name in "ab" for word, _ in ROWS]

    @pytest.fixture
    def make_spout(self, objects: Objects) -> MakeSpout:
        for name in "ab":
            objects.put(f"{name}.parquet", parquet_of(pa.table({"word": [f"{word}{name}" for word, _ in ROWS]})))
        return lambda: objects.spout("*.parquet", "parquet", maxFilesPerBatch=1)


def parquet_of(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()
