"""Parquet read by Python in the workers: the same tuples as Spark's own scan, each row group in one share."""

import datetime
import decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from trident import Sum, TridentTopology, expr
from trident.base.errors import SourceUnreadableError, SpoutContractError
from trident.base.spark_types import arrow_schema, ddl, parse_schema
from trident.base.value_conversion import conform
from trident.compiler.spark.errors import translated
from trident.spouts import FileSpout, TransactionAttempt
from trident.state import MemoryMapState
from trident_spouts.emission import PART_BYTES
from trident_spouts.files.parquet import FilesEmission
from trident_spouts.files.parquet_reader import RowGroups, footer, read_groups, shares

UTC = datetime.UTC

EVERYTHING = pa.table(
    {
        "text": pa.array(["a", None, "é"]).dictionary_encode(),
        "n": pa.array([1, None, -3], pa.int32()),
        "x": [0.5, float("nan"), None],
        "price": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")], pa.decimal128(10, 2)),
        "at": pa.array(
            [datetime.datetime(2020, 3, 29, 1, 30, tzinfo=UTC), None, datetime.datetime(1970, 1, 1, tzinfo=UTC)]
        ),
        "wall": pa.array([datetime.datetime(2020, 3, 29, 2, 30), None, datetime.datetime(1999, 1, 1)]),
        "day": [datetime.date(2020, 2, 29), None, datetime.date(1970, 1, 1)],
        "bits": [b"\x00\xff", None, b""],
        "yes": [True, None, False],
        "many": [["a", None], None, []],
        "pair": [{"k": "a", "v": 1}, None, {"k": None, "v": 2}],
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "with.dot": [1, 2, None],
    }
)

DECLARED = (
    "text string, n int, x double, price decimal(10,2), at timestamp, wall timestamp_ntz, day date, bits binary, "
    "yes boolean, many array<string>, pair struct<k: string, v: bigint>, map map<string, bigint>, `with.dot` bigint"
)


def by_python(emission: FilesEmission, spark: SparkSession, names: list[str]) -> pa.Table:
    """Return the tuples of these fields as the workers read them."""
    read = emission.reader(spark, names)
    assert read is not None
    schema = parse_schema(DECLARED) if emission.schema == parse_schema(DECLARED) else emission.schema
    fields = type(schema)([schema[name] for name in names])
    return conform(read[0].mapInArrow(read[1], fields).toArrow(), arrow_schema(fields))


def by_spark(emission: FilesEmission, spark: SparkSession, scratch: Path, names: list[str]) -> pa.Table:
    table = conform(emission.dataframe(spark, scratch).toArrow(), arrow_schema(emission.schema))
    return table.select(names)


@pytest.mark.connect
@pytest.mark.spark
@pytest.mark.parametrize("int96", [False, True], ids=["new timestamps", "old timestamps"])
def test_every_type_is_read_as_spark_reads_it(spark: SparkSession, tmp_path: Path, int96: bool) -> None:
    kept = EVERYTHING.drop_columns(["wall"]) if int96 else EVERYTHING
    path = str(tmp_path / "a.parquet")
    pq.write_table(kept, path, row_group_size=2, use_deprecated_int96_timestamps=int96)
    fields = [field for field in parse_schema(DECLARED) if field.name in kept.column_names]
    emission = FilesEmission((path,), type(parse_schema("n int"))(fields))
    names = emission.schema.names
    scan, read = (
        table.to_pylist() for table in (by_spark(emission, spark, tmp_path, names), by_python(emission, spark, names))
    )
    assert repr(read) == repr(scan) and len(read) == 3
    assert by_python(emission, spark, ["day", "text"]).to_pylist() == [
        {"day": row["day"], "text": row["text"]} for row in scan
    ]


@pytest.mark.spark
def test_columns_are_found_as_spark_finds_them(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"Word": ["a"], "n": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": [2], "WORD": ["b"], "word": ["c"]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"n": [3]}), tmp_path / "c.parquet")
    paths = tuple(str(tmp_path / f"{name}.parquet") for name in "abc")
    emission = FilesEmission((paths[0], paths[2]), parse_schema("word string, n bigint, none string"))
    names = emission.schema.names
    found = [(row["word"], row["n"], row["none"]) for row in by_python(emission, spark, names).to_pylist()]
    assert found == [("a", 1, None), (None, 3, None)]
    assert by_python(emission, spark, names).equals(by_spark(emission, spark, tmp_path, names))
    assert by_python(emission, spark, ["none"]).num_rows == 2
    exact = FilesEmission((paths[1],), parse_schema("word string"))
    assert by_python(exact, spark, ["word"]).to_pylist() == [{"word": "c"}]


@pytest.mark.spark
def test_where_only_spark_knows_the_calendar_or_the_names_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    path = str(tmp_path / "old.parquet")
    pq.write_table(pa.table({"d": [1]}).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}), path)
    old = FilesEmission((path,), parse_schema("d bigint"))
    assert old.reader(session, ["d"]) is None
    pq.write_table(pa.table({"d": [1]}), path)
    assert old.reader(session, ["d"]) is not None
    session.conf.set("spark.sql.caseSensitive", "true")
    assert old.reader(session, ["d"]) is None


@given(sizes=st.lists(st.lists(st.integers(1, 400), min_size=1, max_size=5), max_size=4), most=st.integers(1, 6))
def test_every_row_group_is_in_one_share_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[list[int]], most: int
) -> None:
    folder = tmp_path_factory.mktemp("groups")
    paths = []
    for at, groups in enumerate(sizes):
        paths.append(str(folder / f"{at}.parquet"))
        with pq.ParquetWriter(paths[-1], pa.schema([("n", pa.int64())]), use_dictionary=False) as writer:
            for number, rows in enumerate(groups):
                writer.write_table(pa.table({"n": [number] * rows}), row_group_size=rows)
    for part in (1, PART_BYTES):
        cut = shares(paths, [footer(path) for path in paths], most, part)
        assert 1 <= len(cut) <= most
        found = [(groups.path, number) for share in cut for groups in share for number in groups.numbers]
        assert found == [
            (path, number) for path, groups in zip(paths, sizes, strict=True) for number in range(len(groups))
        ]
        assert all(share for share in cut) or not paths


def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": ["1"]}), path)
    with pytest.raises(SpoutContractError, match="a.parquet, field 'n': the column is string"):
        list(read_groups(RowGroups(str(path), (0,)), parse_schema("n bigint")))
    path.write_bytes(path.read_bytes()[:4] + b"\xff" * 40 + path.read_bytes()[44:])
    with pytest.raises(SourceUnreadableError, match="a.parquet is not a readable Parquet file: "):
        list(read_groups(RowGroups(str(path), (0,)), parse_schema("n string")))


# --- times in nanoseconds, as pandas writes them ----------------------------------------------------------------------

AT = [pd.Timestamp("2013-01-01 10:15:00.123456"), None, pd.Timestamp("1969-12-31 23:59:59")]


def nanoseconds(path: Path, zone: str | None) -> Path:
    """Write times as ``DataFrame.to_parquet`` writes them."""
    frame = pd.DataFrame({"n": [1, 2, 3], "at": pd.Series(AT, dtype="datetime64[ns]").dt.tz_localize(zone)})
    frame.to_parquet(path)
    assert pq.read_schema(path).field("at").type == pa.timestamp("ns", zone)
    return path


@pytest.mark.spark
@pytest.mark.parametrize(("zone", "kind"), [("UTC", "timestamp"), (None, "timestamp_ntz")])
@pytest.mark.parametrize("known", [True, False])
def test_times_in_nanoseconds_are_read_where_spark_alone_would_read(
    spark: SparkSession, tmp_path: Path, zone: str | None, kind: str, known: bool
) -> None:
    path = nanoseconds(tmp_path / "a.parquet", zone)
    spout = FileSpout(tmp_path, format="parquet")
    assert ddl(spout.schema) == f"n bigint, at {kind}"
    executor = spout.open()
    emission = executor.emit(TransactionAttempt(1, 0), executor.plan(TransactionAttempt(1, 0), None, 0.0))
    if not known:  # a spout of a user's own does not say what the footers say
        emission = FilesEmission((str(path),), spout.schema)
    assert isinstance(emission, FilesEmission)
    table = conform(emission.dataframe(spark, tmp_path).toArrow(), arrow_schema(spout.schema))
    assert table == emission.arrow()
    assert table["at"].cast(pa.timestamp("us")).to_pylist() == [at and at.to_pydatetime() for at in AT]


@pytest.mark.spark
def test_a_topology_over_times_in_nanoseconds_needs_no_python_function_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    nanoseconds(tmp_path / "in" / "a.parquet", "UTC")
    topology = TridentTopology()
    flights = topology.newStream("flights", FileSpout(tmp_path / "in", format="parquet"))
    hours = flights.each(expr("hour(at)"), "hour int")
    hours.groupBy("hour").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sums")
    with topology.start(spark, name="nanoseconds", checkpointLocation=tmp_path / "checkpoint") as running:
        running.processAllAvailable(120)
        assert sum(value for _, value in running.state("sums").items()) == 6


def test_a_time_finer_than_a_microsecond_is_refused_with_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"at": pa.array([1], pa.timestamp("ns", "UTC"))}), path)
    with pytest.raises(SpoutContractError) as refused:
        list(read_groups(RowGroups(str(path), (0,)), parse_schema("at timestamp")))
    assert "a.parquet, field 'at': the column is timestamp[ns, tz=UTC] and " in str(refused.value)
    assert str(refused.value).endswith(
        'write it with coerce_timestamps="us", allow_truncated_timestamps=True (pandas, pyarrow)'
    )
    assert SpoutContractError.hopeless


def test_another_type_than_declared_is_not_tried_again() -> None:
    said = (
        "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file a.parquet. Data "
        "type mismatches when reading Parquet column. Expected Spark type int, actual Parquet type INT64. SQLSTATE"
    )
    error = translated(PySparkException(said))
    assert isinstance(error, SpoutContractError) and error.hopeless
    assert str(error).endswith("give the types of the file as schema=, and cast after the source")
    assert not translated(PySparkException("[FAILED_READ_FILE.NO_HINT] a.parquet")).hopeless  # type: ignore[attr-defined]
