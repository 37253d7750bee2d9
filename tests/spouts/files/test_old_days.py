"""Days before the calendar changed in 1582, and times before 1900: every file and every reader gives the same ones.

The settings of the user's session for such files change nothing.
"""

import datetime
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from trident import Count, TridentTopology
from trident.compiler.spark.sessions import released
from trident.errors import BatchFailedError
from trident.spouts import FileSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

UTC = datetime.UTC
DAYS = [datetime.date(1200, 1, 1), datetime.date(1582, 10, 4), datetime.date(1582, 10, 15), datetime.date(2020, 2, 29)]
TIMES = [
    datetime.datetime(1200, 1, 1, 12, 30, tzinfo=UTC),
    datetime.datetime(1582, 10, 4, tzinfo=UTC),
    datetime.datetime(1899, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime.datetime(2020, 2, 29, 1, tzinfo=UTC),
]
TABLE = pa.table({"day": DAYS, "at": pa.array(TIMES, pa.timestamp("us", "UTC"))})
PARQUET = "spark.sql.parquet"
REBASE = [f"{PARQUET}.{kind}RebaseModeIn{way}" for kind in ("datetime", "int96") for way in ("Read", "Write")]


@pytest.fixture(params=["LEGACY", pytest.param("EXCEPTION", marks=pytest.mark.soak)])
def given(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """Return a user's session that counts old days as Spark 2 did, or refuses them."""
    session = spark.newSession()
    for key in REBASE:
        session.conf.set(key, request.param)
    yield session
    released(session)


def by_arrow(folder: Path, table: pa.Table = TABLE, **options: Any) -> None:
    """Write a file that does not say which calendar it follows: its reader decides."""
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f"{len(os.listdir(folder))}.parquet", **options)


def by_spark(spark: SparkSession, folder: Path, mode: str, kind: str) -> None:
    """Write files that say which calendar they follow."""
    session = spark.newSession()
    for key in REBASE:
        session.conf.set(key, mode)
    session.conf.set(f"{PARQUET}.outputTimestampType", kind)
    session.createDataFrame(TABLE).coalesce(1).write.mode("append").parquet(str(folder))
    released(session)


def counted(stream: Any, name: str) -> None:
    stream.groupBy("day", "at").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name=name)


def found(running: Any, name: str) -> dict[Any, int]:
    return {tuple(key): count for key, count in running.state(name).items()}


def expected(times: int = 1) -> dict[Any, int]:
    return dict.fromkeys(zip(DAYS, TIMES, strict=True), times)


def both_ways(folder: Path) -> TridentTopology:
    """Count the files' rows as Spark's scan reads them, and as Python reads them in front of a function."""
    fields, topology = "day date, at timestamp", TridentTopology()
    counted(topology.newStream("rows", FileSpout(folder, "parquet", schema=fields)), "scanned")
    again = topology.newStream("again", FileSpout(folder, "parquet", schema=fields))
    counted(again.map(["day", "at"], as_they_are, fields), "read")
    return topology


def as_they_are(day: Any, at: Any) -> Any:
    return day, at


@pytest.mark.spark
@pytest.mark.parametrize("source", ["arrow", "spark"])
def test_files_hold_the_same_days_for_spark_and_for_python(
    given: SparkSession, spark: SparkSession, tmp_path: Path, source: str
) -> None:
    folder = tmp_path / "in"
    if source == "arrow":
        by_arrow(folder)
        by_arrow(folder, use_deprecated_int96_timestamps=True)
    else:
        for mode in ("LEGACY", "CORRECTED"):
            for kind in ("INT96", "TIMESTAMP_MICROS"):
                by_spark(spark, folder, mode, kind)
    with both_ways(folder).start(given, name="t", checkpointLocation=tmp_path / "checkpoint") as running:
        running.processAllAvailable(timeout=120)
        assert found(running, "scanned") == expected(2 if source == "arrow" else 4)
        assert found(running, "read") == expected(2 if source == "arrow" else 4)


@pytest.mark.spark
def test_a_day_is_the_same_key_in_a_small_batch_and_in_a_large_one(given: SparkSession, tmp_path: Path) -> None:
    small = list(zip(DAYS, TIMES, strict=True))
    large = small * 20_000  # reaches Spark as a Parquet file
    topology = TridentTopology()
    counted(topology.newStream("rows", FixedBatchSpout("day date, at timestamp", [small, large])), "counts")
    with topology.start(given, name="t", checkpointLocation=tmp_path / "checkpoint") as running:
        running.processAllAvailable(timeout=120)
        assert found(running, "counts") == expected(20_001)


@pytest.mark.spark
def test_what_an_output_writes_holds_the_same_days(given: SparkSession, tmp_path: Path) -> None:
    def write(df: Any, txid: int, attempt: int) -> None:
        df.write.mode("overwrite").parquet(str(tmp_path / "out"))

    topology = TridentTopology()
    spout = FixedBatchSpout("day date, at timestamp", [list(zip(DAYS, TIMES, strict=True))])
    topology.newStream("rows", spout).foreachBatch(write, name="out")
    with topology.start(given, name="t", checkpointLocation=tmp_path / "checkpoint") as running:
        running.processAllAvailable(timeout=120)
    files = (tmp_path / "out").glob("*.parquet")
    written = pa.concat_tables(pq.read_table(path, coerce_int96_timestamp_unit="us") for path in files)
    days, times = written["day"].to_pylist(), written["at"].cast(pa.timestamp("us", "UTC")).to_pylist()
    assert dict.fromkeys(zip(days, times, strict=True), 1) == expected()


def by_an_old_version(folder: Path, version: str, table: pa.Table = TABLE) -> None:
    """Write two files as Spark did before 3.0, or with 96-bit timestamps before 3.1.

    Only the version that they name tells which calendar they follow.
    """
    said = table.replace_schema_metadata({"org.apache.spark.version": version})
    by_arrow(folder, said)
    by_arrow(folder, said, use_deprecated_int96_timestamps=True)


@pytest.mark.spark
@pytest.mark.parametrize("version", ["2.4.8", "3.0.3"])
def test_files_of_old_versions_hold_the_same_days_for_spark_and_for_python(
    spark: SparkSession, tmp_path: Path, version: str
) -> None:
    by_an_old_version(tmp_path / "in", version)
    with both_ways(tmp_path / "in").start(spark, name="t", checkpointLocation=tmp_path / "checkpoint") as running:
        running.processAllAvailable(timeout=120)
        assert found(running, "read") == found(running, "scanned") != expected(2)


@pytest.mark.parametrize("field", ["day date", "at timestamp", "days array<date>", "pair struct<day: date>"])
def test_without_spark_days_by_another_calendar_are_refused(tmp_path: Path, field: str) -> None:
    nested = TABLE.append_column("days", pa.array([[day] for day in DAYS])).append_column(
        "pair", pa.array([{"day": day} for day in DAYS])
    )
    folder = tmp_path / "in"
    by_an_old_version(folder, "2.4.8", nested.slice(3))
    assert len(handed(folder, field)) == 2, "days that both calendars count alike"
    by_an_old_version(folder, "2.4.8", nested)
    with pytest.raises(BatchFailedError, match=r"2\.parquet has days before 1582-10-15 or times before 1900-01-01 in"):
        handed(folder, field)


def handed(folder: Path, field: str) -> list[Any]:
    """Return the rows that the local engine reads from the files."""
    rows: list[Any] = []
    topology = TridentTopology()
    stream = topology.newStream("rows", FileSpout(folder, "parquet", schema=field))
    stream.foreachArrow(lambda table, txid, attempt: rows.extend(table.to_pylist()), name="out")
    with start_local(topology, name="t", maxAttempts=1) as running:
        running.processAllAvailable(timeout=60)
    return rows
