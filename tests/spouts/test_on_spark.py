"""Emissions on Spark, in the mode that SPARK_API_MODE names: the workers read what the driver would."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions

from tests.spouts.files.test_compressed import PACK
from tests.support.plans import planned
from trident.base.spark_types import arrow_schema
from trident.compiler.columns.function_errors import decoded
from trident.errors import MalformedInputError, SourceUnreadableError
from trident.spouts import ArrowEmission, Csv, Emission, FileSpout, Json, TransactionAttempt, UnionEmission
from trident_spouts import emission as emissions
from trident_spouts.emission import spark_path
from trident_spouts.files import line_reader
from trident_spouts.rows import read_schema, table_of
from trident_spouts.spark_workers import on_this_machine, parallelism

pytestmark = pytest.mark.spark

EVERY_TYPE = read_schema(
    "i tinyint, j smallint, k int, l long, f float, d double, m decimal(10,2), s string, b boolean, raw binary, "
    "day date, at timestamp, local timestamp_ntz, a array<long>, p map<string,int>, o struct<x: int, y: array<string>>"
)
VALUES: tuple[Any, ...] = (
    *(
        1,
        2,
        3,
        2**60,
        0.5,
        0.1,
        Decimal("12.50"),
        "caf\u00e9 \U0001f404",
        True,
        b"\x00\xff",
        datetime.date(1969, 12, 31),
    ),
    *(datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC), datetime.datetime(2024, 1, 1, 12)),
    *([1, None, 2], {"a": 1}, {"x": 1, "y": ["z"]}),
)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are read by the workers, however few they are."""
    monkeypatch.setattr(line_reader, "MOST_BYTES_IN_PLAN", -1)
    monkeypatch.setattr(line_reader, "on_this_machine", lambda spark: False)


def rows(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def check_same(emission: Emission, spark: SparkSession, scratch: Path) -> pa.Table:
    """Check that the DataFrame and arrow() hold the same rows under the same schema, and return them."""
    frame = emission.dataframe(spark, scratch)
    driver, workers = emission.arrow(), frame.toArrow()
    assert workers.schema.names == driver.schema.names
    assert [field.dataType for field in frame.schema.fields] == [
        field.dataType for field in emissions.spark_schema(driver.schema).fields
    ]
    assert rows(workers) == rows(driver)
    return workers


@pytest.mark.connect
@pytest.mark.parametrize("inline", [True, False])
def test_a_table_of_every_type_reaches_spark_unchanged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: bool
) -> None:
    monkeypatch.setattr(emissions, "MOST_BYTES_IN_PLAN", 1 << 20 if inline else 0)
    table = table_of([VALUES, (None,) * len(VALUES)], EVERY_TYPE, "here")
    check_same(ArrowEmission(table), spark, tmp_path)
    assert len(list(tmp_path.iterdir())) == (0 if inline else 1)


@pytest.mark.connect
def test_an_empty_table_keeps_its_schema(spark: SparkSession, tmp_path: Path) -> None:
    assert check_same(ArrowEmission(arrow_schema(EVERY_TYPE).empty_table()), spark, tmp_path).num_rows == 0


@pytest.mark.connect
def test_a_large_table_goes_by_reference_and_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"n": range(1_000_000)})
    frame = ArrowEmission(table).dataframe(spark, tmp_path)
    parts = frame.groupBy(functions.spark_partition_id()).sum("n").collect()
    assert len(parts) == len(list(tmp_path.iterdir())) == 2
    assert sum(part[1] for part in parts) == 499_999_500_000


@pytest.mark.connect
def test_a_union_holds_all_its_parts(spark: SparkSession, tmp_path: Path) -> None:
    parts = tuple(ArrowEmission(pa.table({"n": [at, at + 1]})) for at in (1, 5))
    assert check_same(UnionEmission(parts), spark, tmp_path).num_rows == 4


@pytest.mark.parametrize("name", ["plain.parquet", "sp ace%20.parquet", "a[1]{b,c}?*.parquet", "k=v,\u00e9 #.parquet"])
def test_a_path_is_read_literally(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    pq.write_table(pa.table({"n": [1, 2, 3]}), path)
    assert spark.read.parquet(spark_path(str(path))).count() == 3


def emission_of(spout: FileSpout, batch: int = 0) -> Emission:
    return spout.open().emit(TransactionAttempt(batch + 1, 0), planned(spout)[batch])


@pytest.mark.connect
def test_parquet_files_are_one_scan_without_python(spark: SparkSession, tmp_path: Path) -> None:
    for at in range(3):
        table = table_of([VALUES, (None,) * len(VALUES)], EVERY_TYPE, "here")
        pq.write_table(table, tmp_path / f"{at}.parquet")
    frame = emission_of(FileSpout(tmp_path, "parquet")).dataframe(spark, tmp_path)
    assert frame.count() == 6
    check_same(emission_of(FileSpout(tmp_path, "parquet")), spark, tmp_path)


def test_a_column_that_a_file_lacks_is_null(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"more": ["x"], "n": [2]}), tmp_path / "b.parquet")
    spout = FileSpout(tmp_path, "parquet", schema="n long, more string")
    assert rows(check_same(emission_of(spout), spark, tmp_path)) == ["{'n': 1, 'more': None}", "{'n': 2, 'more': 'x'}"]


@pytest.mark.parametrize("share", [1, 7, 50, 4 << 20])
def test_lines_are_read_once_however_they_are_shared(
    far: None, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfthe cow\r\njumped\n\nover the " + b"very " * 20 + b"moon\n")
    (tmp_path / "b.txt").write_bytes("na\u00efve\nlast".encode())
    monkeypatch.setattr(line_reader, "PART_BYTES", share)
    monkeypatch.setattr(line_reader, "parallelism", lambda spark: 5)
    spout = FileSpout(tmp_path, maxBytesPerBatch=40)
    found: list[str] = []
    for batch in range(len(planned(spout))):
        found += check_same(emission_of(spout, batch), spark, tmp_path).column(0).to_pylist()
    assert sorted(found) == sorted(["the cow", "jumped", "", "over the " + "very " * 20 + "moon", "na\u00efve", "last"])


@pytest.fixture(params=["far", "near"])
def either(request: pytest.FixtureRequest) -> None:
    """By the workers, and by the driver as a small batch is."""
    if request.param == "far":
        request.getfixturevalue("far")


@pytest.mark.connect
def test_json_is_read_with_its_types(either: None, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"n": 1, "at": "2024-01-01T00:00:00Z", "o": {"x": [1.5]}}\n\n{"d": 1.25}\nno\n')
    spout = FileSpout(
        tmp_path, Json(malformed="keep"), "n long, at timestamp, o struct<x: array<double>>, d decimal(9,2)"
    )
    table = check_same(emission_of(spout), spark, tmp_path)
    assert table.column("_corrupt").to_pylist() == [None, None, "no"]
    said = "expected a JSON object: Expecting value at column 1"
    assert table.column("_corrupt_reason").to_pylist() == [None, None, said]


def test_a_file_that_only_grew_is_read_to_where_it_was_planned(
    either: None, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "log.txt"
    path.write_text("1\n2\n")
    emission = emission_of(FileSpout(tmp_path))
    with path.open("a") as file:
        file.write("3\n")
    assert emission.dataframe(spark, tmp_path).toArrow().column(0).to_pylist() == ["1", "2"]


@pytest.mark.connect
def test_a_workers_error_carries_the_typed_one(far: None, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"cow\n\xffmoon\n")
    with pytest.raises(PySparkException) as caught:
        emission_of(FileSpout(tmp_path)).dataframe(spark, tmp_path).toArrow()
    error = decoded(str(caught.value))
    assert isinstance(error, MalformedInputError)
    assert str(error).startswith(f"{path}: invalid UTF-8 at byte 4 (ff: invalid start byte); convert the file, ")


def test_a_file_that_vanishes_while_it_is_read_is_named(far: None, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"n": 1}\n')
    frame = emission_of(FileSpout(tmp_path, "json", "n long")).dataframe(spark, tmp_path)
    path.unlink()
    with pytest.raises(PySparkException) as caught:
        frame.toArrow()
    error = decoded(str(caught.value))
    assert isinstance(error, SourceUnreadableError)
    assert str(error) == f"FileSpout: cannot read {path}: No such file or directory"


def test_a_small_batch_of_lines_is_read_by_the_driver_and_fails_there(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"cow\n\xffmoon\n")
    with pytest.raises(MalformedInputError, match=f"{path}: invalid UTF-8 at byte 4 "):
        emission_of(FileSpout(tmp_path)).dataframe(spark, tmp_path)


@pytest.mark.connect
def test_the_cores_are_known_in_both_modes(spark: SparkSession) -> None:
    assert parallelism(spark) == 2
    assert on_this_machine(spark)


CSV = 'word;n;at\n"cow; ""moo""";517.0;2024-07-01 12:00:00\n"";;\n;-3;2024-07-01T12:00:00Z\nx;y;z\n"lost;1;\n'


@pytest.mark.parametrize(("suffix", "multi"), [("", False), ("", True), (".gz", False), (".zst", True)])
def test_csv_is_read_with_its_types(
    either: None, spark: SparkSession, tmp_path: Path, suffix: str, multi: bool
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv{suffix}").write_bytes(PACK.get(suffix, bytes)(CSV.encode()))
    options: Any = {"sep": ";", "numbers": "lenient", "timeZone": "Europe/Berlin", "multiLine": multi}
    spout = FileSpout(tmp_path, Csv(malformed="keep", **options), "n long, at timestamp, word string")
    rows = check_same(emission_of(spout), spark, tmp_path).to_pylist()
    assert [(row["n"], row["word"], row["_corrupt"]) for row in rows] == 2 * [
        (517, 'cow; "moo"', None),
        (None, "", None),
        (-3, None, None),
        (None, None, "x;y;z"),
        (None, None, '"lost;1;'),
    ]
    assert [row["at"] and row["at"].hour for row in rows[:3]] == [10, None, 12]
    assert [row["_corrupt_reason"] for row in rows[2:5]] == [
        None,
        "field 'n': expected bigint, got 'y'",
        "the quotes of value 1 are not closed" + (" (values that hold newlines need multiLine=True)" * (not multi)),
    ]


def test_json_documents_are_read_by_workers(far: None, spark: SparkSession, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.json").write_text('[\n {"n": 1},\n {"n": "x"},\n {"n": 3}\n]\n')
    spout = FileSpout(tmp_path, Json("n long", multiLine=True, malformed="keep"))
    rows = check_same(emission_of(spout), spark, tmp_path).to_pylist()
    assert [(row["n"], row["_corrupt"]) for row in rows] == 2 * [(1, None), (None, '{"n": "x"}'), (3, None)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_each_worker_knows_the_lines_before_the_header(
    far: None, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(line_reader, "PART_BYTES", 1_000)
    content = "a title\n" * 1_000 + "n\n" + "".join(f"{n}\n" for n in range(500))
    (tmp_path / f"a.csv{suffix}").write_bytes(PACK.get(suffix, bytes)(content.encode()))
    emission = emission_of(FileSpout(tmp_path, Csv(skipLines=1_000), "n long"))
    assert emission.python_only(spark)
    assert check_same(emission, spark, tmp_path)["n"].to_pylist() == [*range(500)]


@pytest.mark.connect
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_row_that_a_worker_cannot_read_is_named_with_its_line(
    far: None, spark: SparkSession, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(PACK.get(suffix, bytes)(("n\n" + "1\n" * 5000 + "x\n").encode()))
    with pytest.raises(PySparkException) as caught:
        emission_of(FileSpout(tmp_path, "csv", "n long")).dataframe(spark, tmp_path).toArrow()
    error = decoded(str(caught.value))
    assert isinstance(error, MalformedInputError)
    assert str(error).startswith(f"{path}:5002: field 'n': expected bigint, got 'x'; correct the row")


@pytest.mark.parametrize("sizes", [[1, 0, 3], [0, 2], [2, 0]])
def test_the_rows_behind_a_chunk_without_rows_are_there(sizes: list[int], spark: SparkSession, tmp_path: Path) -> None:
    table = pa.concat_tables(pa.table({"n": pa.array(range(size), pa.int64())}) for size in sizes)
    assert table.column(0).num_chunks == len(sizes)
    assert rows(ArrowEmission(table).dataframe(spark, tmp_path).toArrow()) == rows(table)
