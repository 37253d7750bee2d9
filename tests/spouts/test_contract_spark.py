"""Spark's workers read what the driver reads, of every spout whose tuples they read."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.testing.test_contracts import Planted
from trident.spouts import FileSpout, RateSpout
from trident.testing import SpoutContract
from trident_spouts.files import line_reader

pytestmark = pytest.mark.spark


def rate(folder: Path) -> RateSpout:
    start = datetime(1970, 1, 1, tzinfo=UTC)
    return RateSpout(50, rows=1000, keys=9, skew=1, lateness=3, startTime=start, maxRowsPerBatch=600, numPartitions=3)


def lines(folder: Path) -> FileSpout:
    (folder / "a.txt").write_text("".join(f"line {n}\n" for n in range(2000)))
    return FileSpout(folder, maxBytesPerBatch=10_000)


def parquet(folder: Path) -> FileSpout:
    for name in "abc":
        pq.write_table(
            pa.table({"name": [name] * 500, "n": range(500)}), folder / f"{name}.parquet", row_group_size=100
        )
    return FileSpout(folder, format="parquet", maxFilesPerBatch=2)


def ranges(folder: Path) -> Planted:
    return Planted()


@pytest.mark.connect
@pytest.mark.parametrize("make", [rate, lines, parquet, ranges])
def test_workers_read_what_the_driver_reads(
    make: Any, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_reader, "MOST_BYTES_IN_PLAN", -1)  # the workers read lines however few there are
    monkeypatch.setattr(line_reader, "on_this_machine", lambda spark: False)
    folder, scratch = tmp_path / "in", tmp_path / "scratch"
    folder.mkdir(), scratch.mkdir()
    spout = make(folder)
    SpoutContract().test_workers_read_what_the_driver_reads(lambda: spout, spark, scratch)
