"""Rows of Parquet files on Spark come in the order of the files, whatever their sizes, and null columns are read."""

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.plans import planned
from trident import Count, First, Last, TridentTopology, expr
from trident.compiler.spark.engine import SparkEngine
from trident.errors import SpoutContractError
from trident.run.start import start_on
from trident.spouts import FileSpout, TransactionAttempt
from trident.state import MemoryMapState
from trident_spouts import emission as emission_module
from trident_spouts.emission import ArrowEmission
from trident_spouts.files import parquet as parquet_module
from trident_spouts.files.parquet import FilesEmission

FIELDS = "item string, price long"


def files_of(folder: Path, sizes: list[int]) -> list[list[tuple[str, int]]]:
    """Write a file for each size, which is its number of rows, from the oldest to the newest; return the rows."""
    folder.mkdir(exist_ok=True)
    written = []
    for at, size in enumerate(sizes):
        rows = [("tea", at), *((f"item {at} {row * 7919}", at) for row in range(size - 1))]
        path = folder / f"{at:02}.parquet"
        pq.write_table(pa.table({"item": [row[0] for row in rows], "price": [row[1] for row in rows]}), path)
        os.utime(path, (1_700_000_000 + at, 1_700_000_000 + at))
        written.append(rows)
    return written


def emitted(folder: Path, **options: Any) -> FilesEmission:
    spout = FileSpout(folder, format="parquet", schema=options.pop("schema", FIELDS), **options)
    [plan] = planned(spout)
    emission = spout.open().emit(TransactionAttempt(1, 0), plan)
    assert isinstance(emission, FilesEmission)
    return emission


@pytest.mark.spark
@pytest.mark.parametrize("sizes", [[1, 400], [5, 3, 900, 1, 80], [*range(1, 13)]], ids=["two", "five", "many"])
def test_spark_reads_the_files_in_their_order(spark: SparkSession, tmp_path: Path, sizes: list[int]) -> None:
    rows = sum(files_of(tmp_path / "in", sizes), [])
    emission = emitted(tmp_path / "in")
    for frame in (emission.dataframe(spark, tmp_path), emission.dataframe(spark, tmp_path).filter("price >= 0")):
        assert [(row.item, row.price) for row in frame.toLocalIterator()] == rows
    whole = emission.unordered(spark, tmp_path)
    assert whole is not None and sorted(map(tuple, whole.collect())) == sorted(rows)


@pytest.mark.spark
def test_spark_reads_a_table_that_was_written_for_it_in_its_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emission_module, "PART_BYTES", 1 << 16)
    chance = random.Random(5)
    easy, hard = ["x" * 30] * 10_000, [f"{chance.getrandbits(200):x}" for _ in range(10_000)]
    emission = ArrowEmission(pa.table({"item": easy + hard}))
    assert emission.table.nbytes > emission_module.MOST_BYTES_IN_PLAN
    assert [row.item for row in emission.dataframe(spark, tmp_path).toLocalIterator()] == easy + hard


@pytest.mark.spark
def test_what_depends_on_the_order_is_as_on_the_embedded_engine(spark: SparkSession, tmp_path: Path) -> None:
    files_of(tmp_path / "in", [1, 500])
    once: list[tuple[str, int]] = []
    topology = TridentTopology()
    prices = topology.newStream("prices", FileSpout(tmp_path / "in", format="parquet", schema=FIELDS))
    prices.toTable("item", MemoryMapState.opaque(), name="latest")
    prices.groupBy("item").persistentAggregate(
        MemoryMapState.opaque(), {"first": First("price"), "last": Last("price")}, name="ends"
    )
    prices.dropDuplicates("item", name="seen").foreachArrow(
        lambda table, txid, attempt: once.extend(tuple(row.values()) for row in table.to_pylist()), name="once"
    )
    with start_on(
        lambda settings: SparkEngine(spark, settings.files),
        topology,
        name="t",
        checkpointLocation=tmp_path / "log",
    ) as running:
        running.processAllAvailable(timeout=120)
        latest, ends = running.state("latest")["tea"], running.state("ends")["tea"]
    assert (getattr(latest, "price", latest), ends.first, ends.last) == (1, 0, 1)
    assert [price for item, price in once if item == "tea"] == [0]


@pytest.mark.spark
@pytest.mark.parametrize(("native", "scans"), [(True, 0), (False, 1)], ids=["a-count", "a-first"])
def test_an_aggregate_for_which_no_order_matters_scans_all_files_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: bool, scans: int
) -> None:
    ordered, scan = list[int](), parquet_module.scan_in_order
    monkeypatch.setattr(
        parquet_module,
        "scan_in_order",
        lambda session, paths, schema: ordered.append(1) or scan(session, paths, schema),
    )
    files_of(tmp_path / "in", [1, 500])
    topology = TridentTopology()
    prices = topology.newStream("prices", FileSpout(tmp_path / "in", format="parquet", schema=FIELDS))
    kept = prices.filter(expr("price >= 0"))
    if native:
        kept.groupBy("item").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    else:
        kept.toTable("item", MemoryMapState.opaque(), name="counts")
    with start_on(
        lambda settings: SparkEngine(spark, settings.files), topology, name="t", checkpointLocation=tmp_path / "log"
    ) as running:
        running.processAllAvailable(timeout=120)
        assert len(running.state("counts")) == 500
    assert len(ordered) == scans


# --- columns that Spark's scan does not read -----------------------------------------------------------------------


def test_a_column_without_any_value_is_left_to_python(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [1], "note": ["x"]}), tmp_path / "in" / "1.parquet")
    assert emitted(tmp_path / "in", schema="id long, note string").beyond_spark is False
    pq.write_table(pa.table({"id": [2], "note": pa.nulls(1)}), tmp_path / "in" / "2.parquet")
    emission = emitted(tmp_path / "in", schema="id long, note string")
    assert emission.beyond_spark is True
    assert emission.arrow().to_pylist() == [{"id": 1, "note": "x"}, {"id": 2, "note": None}]


@pytest.mark.spark
def test_a_column_without_any_value_is_null_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [1], "note": ["x"]}), tmp_path / "in" / "1.parquet")
    pq.write_table(pa.table({"id": [2], "note": pa.nulls(1)}), tmp_path / "in" / "2.parquet")
    frame = emitted(tmp_path / "in", schema="id long, note string").dataframe(spark, tmp_path)
    assert list(map(tuple, frame.collect())) == [(1, "x"), (2, None)]


@pytest.mark.parametrize("options", [{}, {"write_statistics": False}])
def test_a_null_in_a_field_that_has_none_is_left_to_python_which_refuses_it(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [1, None], "note": ["x", None]}), tmp_path / "in" / "1.parquet", **options)
    emission = emitted(tmp_path / "in", schema="id long not null, note string")
    assert emission.beyond_spark is True
    with pytest.raises(SpoutContractError, match="field 'id': null, but the field is NOT NULL"):
        emission.arrow()
    assert emitted(tmp_path / "in", schema="id long, note string").beyond_spark is False


def test_a_column_without_a_null_is_scanned_by_spark_for_a_field_that_has_none(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "note": ["x", None]}), tmp_path / "in" / "1.parquet")
    assert emitted(tmp_path / "in", schema="id long not null, note string").beyond_spark is False
    required = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"id": [3]}, required), tmp_path / "in" / "2.parquet", write_statistics=False)
    assert emitted(tmp_path / "in", schema="id long not null").beyond_spark is False
    assert emitted(tmp_path / "in", schema="id long, tags array<long> not null").beyond_spark is True


@pytest.mark.spark
def test_a_null_in_a_field_that_has_none_is_refused_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [1, None]}), tmp_path / "in" / "1.parquet")
    with pytest.raises(Exception, match="field 'id': null, but the field is NOT NULL"):
        emitted(tmp_path / "in", schema="id long not null").dataframe(spark, tmp_path).collect()


def test_unsigned_numbers_are_left_to_python(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": pa.array([5], pa.uint64())}), tmp_path / "in" / "1.parquet")
    emission = emitted(tmp_path / "in", schema="id long")
    assert (emission.arrow().to_pylist(), emission.beyond_spark) == ([{"id": 5}], True)


@pytest.mark.parametrize("names", [["Word", "WORD"], ["word", "word"]])
def test_columns_of_which_none_is_surely_the_field_are_refused(tmp_path: Path, names: list[str]) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table([["a"], ["b"]], names=names), tmp_path / "in" / "a.parquet")
    with pytest.raises(SpoutContractError, match="a.parquet has 2 columns that match the field 'word': '"):
        emitted(tmp_path / "in", schema="word string")


def test_a_column_that_has_the_fields_name_is_meant_whatever_others_are_called(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table([["a"], ["b"]], names=["word", "WORD"]), tmp_path / "in" / "a.parquet")
    emission = emitted(tmp_path / "in", schema="word string")
    assert (emission.arrow().to_pylist(), emission.beyond_spark) == ([{"word": "a"}], True)


@pytest.mark.spark
@pytest.mark.parametrize("count", [1, 3])
def test_files_whose_names_have_a_colon_are_read_by_python(spark: SparkSession, tmp_path: Path, count: int) -> None:
    """Hadoop's local file system takes the text before the colon for the scheme of a URL."""
    (tmp_path / "in").mkdir()
    for hour in range(count):
        pq.write_table(pa.table({"id": [hour]}), tmp_path / "in" / f"2024-01-01T1{hour}:00:00.parquet")
    emission = emitted(tmp_path / "in", schema="id long")
    assert emission.dataframe(spark, tmp_path).toArrow().column(0).to_pylist() == list(range(count))
    assert emission.unordered(spark, tmp_path) is None and not emission.one_partition
