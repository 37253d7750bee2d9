"""Fields whose values are in the names of folders."""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.plans import logged
from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.errors import MalformedInputError, SourceUnreadableError, SpoutContractError, TypeDeclarationError
from trident.spouts import Csv, FileSpout, Folders, Json, Parquet, Text
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_spouts.files.parquet import FilesEmission

COLUMNS = "day date, shop string, no int, share decimal(6, 2)"
PLACES = [
    ("day=2024-02-29", "shop=New%20Ulm", "no=007", "share=1.50"),
    ("day=__HIVE_DEFAULT_PARTITION__", "shop=50%25 a%3Db=c", "no=-3", "share=0.00"),
    ("day=2024-03-01", "shop=Köln 東", "no=__HIVE_DEFAULT_PARTITION__", "share=-12.30"),
    ("day=2024-03-02", "shop=%zz%C3%A9", "no=4", "share=100.00"),
]
FORMATS: list[Any] = [Text("word string"), Json("word string"), Csv("word string"), Parquet("word string")]


def write(root: Path, form: str, places: list[tuple[str, ...]] = PLACES) -> None:
    for at, folders in enumerate(places):
        folder = root.joinpath(*folders)
        folder.mkdir(parents=True, exist_ok=True)
        word = f"w{at}"
        if form == "parquet":
            pq.write_table(pa.table({"word": [word]}), folder / "f.parquet")
        else:
            texts = {"text": f"{word}\n", "json": json.dumps({"word": word}) + "\n", "csv": f"word\n{word}\n"}
            (folder / f"f.{form}").write_text(texts[form], encoding="utf-8")


def rows_of(spout: FileSpout) -> list[dict[str, Any]]:
    executor = spout.open()
    attempt = TransactionAttempt(1, 0)
    plan = logged(executor.plan(attempt, None, 0.0))
    found = executor.emit(attempt, plan).arrow()
    assert executor.emit(TransactionAttempt(1, 1), plan).arrow() == found
    return sorted(found.to_pylist(), key=lambda row: str(row["word"]))


EXPECTED = [
    {"word": "w0", "day": datetime.date(2024, 2, 29), "shop": "New Ulm", "no": 7, "share": Decimal("1.50")},
    {"word": "w1", "day": None, "shop": "50% a=b=c", "no": -3, "share": Decimal("0.00")},
    {"word": "w2", "day": datetime.date(2024, 3, 1), "shop": "Köln 東", "no": None, "share": Decimal("-12.30")},
    {"word": "w3", "day": datetime.date(2024, 3, 2), "shop": "%zzÃ©", "no": 4, "share": Decimal("100.00")},
]


@pytest.mark.parametrize("form", FORMATS, ids=lambda each: each.name)
def test_values_of_folders_follow_the_fields_of_the_file(tmp_path: Path, form: Any) -> None:
    write(tmp_path, form.name)
    spout = FileSpout(Folders(tmp_path, COLUMNS), form)
    assert spout.schema.names == ["word", "day", "shop", "no", "share"]
    assert [list(row.items()) for row in rows_of(spout)] == [list(row.items()) for row in EXPECTED]


def test_fields_of_the_first_parquet_file_come_before_those_of_folders(tmp_path: Path) -> None:
    write(tmp_path, "parquet")
    assert rows_of(FileSpout(Folders(tmp_path / "day=*" / "**" / "*", "day date"), "parquet")) == [
        {"word": row["word"], "day": row["day"]} for row in EXPECTED
    ]


def test_a_malformed_line_has_the_values_of_its_folders(tmp_path: Path) -> None:
    write(tmp_path, "json", PLACES[:1])
    next(tmp_path.rglob("*.json")).write_text("{\n")
    (row,) = rows_of(FileSpout(Folders(tmp_path, "no long"), Json("word string", malformed="keep")))
    assert list(row) == ["word", "_corrupt", "_corrupt_reason", "no"]
    assert (row["_corrupt"], row["no"]) == ("{", 7)


@pytest.mark.parametrize(("text", "value"), [("-12.3", "-12.30"), ("1e2", "100.00"), ("007", "7.00")])
def test_a_decimal_keeps_its_value_with_fewer_digits(tmp_path: Path, text: str, value: str) -> None:
    """Spark 4 reads -12.3 as -1.23, because it does not adjust the scale."""
    write(tmp_path, "json", [(f"share={text}",)])
    (row,) = rows_of(FileSpout(Folders(tmp_path, "share decimal(6, 2)"), "json", "word string"))
    assert row["share"] == Decimal(value)


@pytest.mark.parametrize(
    ("columns", "folder", "message"),
    [
        ("day date", "day=2024-13-01", "f.json: the folder day=2024-13-01 is not a value of type date32"),
        ("day date", "month=2", r"f.json is in no folder day=\.\.\.; expected exactly one between the first wildcard"),
        ("day int", "day=1/day=2", r"f.json is in several folders day=\.\.\."),
        ("day tinyint", "day=300", "the folder day=300 is not a value of type int8"),
        ("day int", "day=", "the folder day= is not a value of type int32"),
        ("day int NOT NULL", "day=__HIVE_DEFAULT_PARTITION__", "the folder day=__HIVE_DEFAULT_PARTITION__ is not"),
    ],
)
def test_a_folder_without_a_value_fails_with_the_name_of_the_file(
    tmp_path: Path, columns: str, folder: str, message: str
) -> None:
    write(tmp_path, "json", [tuple(folder.split("/"))])
    with pytest.raises(MalformedInputError, match=message):
        rows_of(FileSpout(Folders(tmp_path, columns), "json", "word string"))


def test_a_field_is_in_the_file_or_in_its_folders(tmp_path: Path) -> None:
    with pytest.raises(TypeDeclarationError, match="'Day' is also a field of the file; leave it out of one"):
        FileSpout(Folders(tmp_path, "Day date"), "json", "day date")
    with pytest.raises(TypeDeclarationError, match=r"Folders: at timestamp: expected a string, .*declare a string"):
        Folders(tmp_path, "at timestamp")
    write(tmp_path, "parquet", [("Word=a",)])
    with pytest.raises(TypeDeclarationError, match="'Word' is also a field of the file"):
        _ = FileSpout(Folders(tmp_path, "Word string"), "parquet").schema
    with pytest.raises(SpoutContractError, match=r"f.parquet has a column 'word', and so have the names of its"):
        rows_of(FileSpout(Folders(tmp_path, "Word string"), Parquet("n long")))


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_restart_counts_the_files_of_each_folder_once(tmp_path: Path, form: str) -> None:
    root = tmp_path / "in"

    def run() -> dict[Any, Any]:
        topology = TridentTopology()
        spout = FileSpout(Folders(root, "day date"), form, "word string", maxFilesPerBatch=1)
        days = topology.newStream("words", spout).groupBy("day")
        days.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="days")
        with start_local(topology, name="t", checkpointLocation=tmp_path / "log") as running:
            running.processAllAvailable(timeout=20)
            return dict(running.state("days").items())

    write(root, form)
    assert run() == {row["day"]: 1 for row in EXPECTED}
    write(root, form, [(*PLACES[0][:1], "shop=more")])
    assert run()[datetime.date(2024, 2, 29)] == 2


@pytest.mark.spark
def test_values_are_those_of_spark(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, "parquet")
    expected = spark.read.schema(f"word string, {COLUMNS}").option("basePath", str(tmp_path)).parquet(str(tmp_path))
    assert [row.asDict() for row in expected.orderBy("word").collect()] == EXPECTED
    for form in FORMATS:
        write(tmp_path / form.name, form.name)
        spout = FileSpout(Folders(tmp_path / form.name, COLUMNS), form)
        executor, attempt = spout.open(), TransactionAttempt(1, 0)
        emission = executor.emit(attempt, executor.plan(attempt, None, 0.0))
        if isinstance(emission, FilesEmission):
            assert emission.unordered(spark, tmp_path) is None
            day = emission.reader(spark, ["day"])
            assert day is not None
            assert day.numbers.mapInArrow(day.read, "day date").count() == len(EXPECTED)
        found = emission.dataframe(spark, tmp_path)
        assert found.columns == spout.schema.names
        assert [row.asDict() for row in found.orderBy("word").collect()] == EXPECTED


def _of_old_days(root: Path) -> FileSpout:
    (root / "day=2024-02-29").mkdir()
    marked = pa.table({"born": [datetime.date(1500, 1, 1)]}).replace_schema_metadata(
        {"org.apache.spark.legacyDateTime": ""}
    )
    pq.write_table(marked, root / "day=2024-02-29" / "f.parquet")
    return FileSpout(Folders(root, "day date"), Parquet("born date"))


def test_a_file_of_old_days_in_folders_is_refused_with_a_way_out(tmp_path: Path) -> None:
    way = r"rewrite the files with Spark 3\.1 .* without Folders\(...\) and with engine='spark'"
    with pytest.raises(SourceUnreadableError, match=f"in the calendar of Spark 2, which only Spark reads; {way}"):
        rows_of(_of_old_days(tmp_path))


@pytest.mark.spark
def test_spark_refuses_a_file_of_old_days_in_folders_with_the_same_way_out(tmp_path: Path, spark: SparkSession) -> None:
    executor = _of_old_days(tmp_path).open()
    plan = logged(executor.plan(TransactionAttempt(1, 0), None, 0.0))
    emission = executor.emit(TransactionAttempt(1, 0), plan)
    with pytest.raises(SpoutContractError, match="which does not know fields of Folders.*rewrite the files with Spark"):
        emission.dataframe(spark, tmp_path)
