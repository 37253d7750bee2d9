"""The settings of Spark that exactness rests on, in a session of a user who set them otherwise; and lost tuples."""

import contextlib
import logging
import re
import threading
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.compiler.functions import sometimes
from tests.compiler.stage_runner import STATE, emission, rows, stream
from tests.support.spark import CONNECT
from trident import Count, DeadLetter, Sum, TridentTopology, col, expr
from trident.base.attempt import TransactionAttempt
from trident.base.errors import SourceUnreadableError, SparkFailedError, SparkSetupError, UserFunctionError
from trident.base.spark_types import parse_schema
from trident.compiler.aggregates.specs import fold_spec
from trident.compiler.spark import pinned_confs
from trident.compiler.spark.aggregates import catalyst
from trident.compiler.spark.engine import SparkEngine
from trident.compiler.spark.pinned_confs import PINNED, check_single_evaluation
from trident.compiler.stages import cut
from trident.frozen.results import StageResult
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission
from trident_spouts.files.parquet import FilesEmission

ATTEMPT = TransactionAttempt(1, 0)
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "running.md"
HOSTILE = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.execution.sortBeforeRepartition": "false",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoreInvalidPartitionPaths": "true",
    "spark.sql.files.ignoredPathSegmentRegex": ".*",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96TimestampConversion": "true",
    "spark.sql.parquet.int96AsTimestamp": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.parquet.filterPushdown": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}


def test_the_page_lists_what_is_pinned() -> None:
    listed = re.findall(r"^\| `(spark\.[\w.]+)` \| `([^`]+)` \| \S", PAGE.read_text(), re.MULTILINE)
    assert dict(listed) == dict(PINNED) and len(listed) == len(PINNED)


on_spark_alone = pytest.mark.spark


@pytest.fixture
def hostile(other_spark: SparkSession) -> SparkSession:
    """Return a session in which every pinned setting has another value."""
    assert HOSTILE.keys() == PINNED.keys()
    for key, value in HOSTILE.items():
        other_spark.conf.set(key, value)
    return other_spark


def run(spark: SparkSession, topology: TridentTopology, given: Emission, scratch: Path) -> StageResult:
    """Run stage 1 over a batch, in a session of a new engine beside `spark`."""
    (group,) = cut(topology).groups
    slot = SparkEngine(spark).slot(group)
    try:
        return slot.run(group.stages[0], {group.spouts[0]: given}, ATTEMPT, scratch)
    finally:
        slot.close()


@on_spark_alone
def test_a_runs_sessions_have_what_is_pinned_and_the_given_one_keeps_its_own(
    hostile: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinned_confs, "_warned", set())
    topology = TridentTopology()
    stream(topology, "n long", [1]).persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
    engine = SparkEngine(hostile)
    with caplog.at_level(logging.WARNING, "trident"):
        slot, frames = engine.slot(cut(topology).groups[0]), engine.frames()
    for session in (slot.session, frames.session):
        assert {key: session.conf.get(key) for key in PINNED} == dict(PINNED)
    assert {key: hostile.conf.get(key) for key in PINNED} == HOSTILE
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == len(PINNED), "each setting is told once, though a run has several sessions"
    assert any("spark.sql.ansi.enabled is false in the given session; batches run with true" in w for w in warned)
    slot.close()
    frames.close()


@on_spark_alone
@pytest.mark.parametrize(
    ("kind", "values"),
    [("long", (2**63 - 1, 1)), ("decimal(38,0)", (Decimal(10**38 - 1), Decimal(1)))],
    ids=["long", "decimal"],
)
def test_a_sum_beyond_its_type_is_an_error_whatever_the_session_says(
    hostile: SparkSession, tmp_path: Path, kind: str, values: tuple[Any, Any]
) -> None:
    topology = TridentTopology()
    stream(topology, f"n {kind}", []).groupBy("n").aggregate("n", Sum(), "part").persistentAggregate(
        STATE, "part", Sum(), "sum", name="sum"
    )
    with pytest.raises(UserFunctionError):
        run(hostile, topology, emission(f"n {kind}", *[(value,) for value in values]), tmp_path)


@on_spark_alone
def test_the_sql_of_a_decimal_sum_takes_no_overflow_for_nothing(hostile: SparkSession) -> None:
    state = stream(TridentTopology(), "n decimal(38,0)", []).persistentAggregate(STATE, "n", Sum(), "sum")
    (member,) = fold_spec(state._node).members
    for partial in (False, True):
        sql, field = catalyst(member, partial), member.output if partial else "n"

        def total(where: str, sql: str = sql, field: str = field) -> Any:
            big = "CAST('99999999999999999999999999999999999999' AS decimal(38,0))"
            frame = hostile.range(2).selectExpr(f"{big} AS {field}", "id").where(where)
            return frame.selectExpr(sql).toArrow().column(0)[0].as_py()

        assert (total("id > 1"), total("id = 1")) == (0, 10**38 - 1)
        with pytest.raises(PySparkException, match="a sum is beyond"):
            total("true")


@on_spark_alone
@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_file_that_cannot_be_read_loses_no_rows_in_silence(hostile: SparkSession, tmp_path: Path, how: str) -> None:
    topology = TridentTopology()
    stream(topology, "n long", []).groupBy("n").persistentAggregate(STATE, Count(), "count", name="counts")
    files = [tmp_path / f"{name}.parquet" for name in "ab"]
    for file in files:
        pq.write_table(pa.table({"n": list(range(1000))}), file, compression="none", use_dictionary=False)
    given = FilesEmission(tuple(map(str, files)), parse_schema("n long"), rows=2000)
    if how == "damaged":
        content = bytearray(files[1].read_bytes())
        content[4:4000] = b"\xff" * 3996  # a page; the footer is whole
        files[1].write_bytes(content)
    else:
        files[1].unlink()
    with pytest.raises(SourceUnreadableError, match=r"b\.parquet"):
        run(hostile, topology, given, tmp_path / "scratch")


@on_spark_alone
@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (col("x") > 10, [2]),
        (col("f") >= float("nan"), [2]),
        (col("r.x") > 10, [1]),
        (col("x") == 0.0, [4, 6, 7]),
        (col("x") == -0.0, [4, 6, 7]),
        (expr("x > 10"), [2]),
    ],
    ids=str,
)
@pytest.mark.parametrize("source", ["files", "a large table"])
def test_a_filter_finds_nan_and_both_zeros_which_statistics_hide(
    hostile: SparkSession, tmp_path: Path, condition: Any, kept: list[int], source: str
) -> None:
    fields = "n long, x double, f float, r struct<x: double>, padding binary"
    values = [1.0, float("nan"), 5.0, -0.0, None], [-0.0], [0.0]
    tables, files, row = [], [], 0
    for some in values:
        numbers = range(row + 1, row + 1 + len(some))
        structs = [{"x": float("nan") if n == 1 else float(n)} for n in numbers]
        table = pa.table(
            [
                pa.array(numbers),
                pa.array(some, pa.float64()),
                pa.array(some, pa.float32()),
                pa.array(structs),
                pa.array([b"x" * (1 << 20)] * len(some)),
            ],
            names=parse_schema(fields).names,
        )
        row += len(some)
        files.append(str(tmp_path / f"{row}.parquet"))
        pq.write_table(table, files[-1])
        tables.append(table)
    topology = TridentTopology()
    stream(topology, fields, []).filter(condition).groupBy("n").persistentAggregate(STATE, Count(), "k", name="kept")
    if source == "files":
        given: Emission = FilesEmission(tuple(files), parse_schema(fields), rows=row)
    else:  # which is written to Parquet files, too, and read by Spark
        given = ArrowEmission(pa.concat_tables(tables))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert [n for n, _ in rows(run(hostile, topology, given, scratch).results["kept"])] == kept


@on_spark_alone
@pytest.mark.parametrize("reader", ["spark", "python"])
def test_files_with_another_number_of_rows_than_was_told_are_refused(
    spark: SparkSession, tmp_path: Path, reader: str
) -> None:
    topology = TridentTopology()
    numbers = stream(topology, "n long", [])
    if reader == "python":
        numbers = numbers.filter("n", bool)
    numbers.groupBy("n").persistentAggregate(STATE, Count(), "count", name="counts")
    file = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": [1, 2]}), file)
    told = FilesEmission((file,), parse_schema("n long"), rows=3)
    with pytest.raises(
        SourceUnreadableError, match=r"had 3 rows when the batch was planned, and have 2 now: .*a\.parq"
    ):
        run(spark, topology, told, tmp_path / "scratch")
    right = FilesEmission((file,), parse_schema("n long"), rows=2)
    assert rows(run(spark, topology, right, tmp_path / "scratch").results["counts"]) == [(1, 1), (2, 1)]


@on_spark_alone
def test_tuples_for_several_readers_are_refused_where_tasks_are_run_twice(other_spark: SparkSession) -> None:
    check_single_evaluation(other_spark)
    other_spark.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    other_spark.conf.set("spark.speculation", "true")
    with pytest.raises(SparkSetupError, match=r"start Spark with spark\.speculation=false"):
        check_single_evaluation(other_spark)


@contextlib.contextmanager
def blocks_dropped(spark: SparkSession) -> Iterator[None]:
    """Drop all blocks of all tuples that are kept, again and again, as where executors are lost."""
    context = spark.sparkContext._jsc  # type: ignore[attr-defined]
    kept: set[int] = set()
    over = threading.Event()

    def drop() -> None:
        while not over.wait(0.02):
            kept.update(context.getPersistentRDDs())
            for number in kept:
                context.sc().unpersistRDD(number, True)

    thread = threading.Thread(target=drop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@on_spark_alone
@pytest.mark.skipif(CONNECT, reason="drops blocks by the driver's own JVM")
def test_tuples_that_are_lost_between_their_readers_fail_the_attempt(spark: SparkSession, tmp_path: Path) -> None:
    topology = TridentTopology()
    kept = (
        stream(topology, "n long", []).parallelismHint(2).each("n", sometimes, "m long", onError=DeadLetter(0, 10_000))
    )
    kept.groupBy("n").persistentAggregate(STATE, Count(), "count", name="counts")
    kept.groupBy("n").persistentAggregate(STATE, "m", Sum(), "sum", name="sums")
    topology.deadLetterState(STATE)
    given = emission("n long", *[(n,) for n in range(2000)])
    exact, errors = 0, list[str]()
    for attempt in range(6):
        with blocks_dropped(spark) if attempt else contextlib.nullcontext():
            try:
                found = run(spark, topology, given, tmp_path / f"{attempt}").results
            except SparkFailedError as error:
                errors.append(str(error))
                continue
        seen: Counter[int] = Counter(found["counts"].column("n").to_pylist())
        for name, table in found.items():
            if name.endswith("~"):
                seen.update(int(re.sub(r"\D", "", text)) for text in table.column("tuple").to_pylist())
        assert {*found["sums"].column("n").to_pylist()} == {*found["counts"].column("n").to_pylist()}
        assert seen == dict.fromkeys(range(2000), 1), "every tuple is counted or dead, and once"
        exact += 1
    assert exact and errors, (exact, errors)
    assert all("tuples that several steps share" in error for error in errors)


@on_spark_alone
@pytest.mark.skipif(CONNECT, reason="a client cannot free what its server keeps")
def test_tuples_that_were_kept_are_freed_when_the_batch_is_done(spark: SparkSession, tmp_path: Path) -> None:
    topology = TridentTopology()
    numbers = stream(topology, "n long", []).each("n", abs, "m long")
    numbers.groupBy("m").persistentAggregate(STATE, Count(), "count", name="counts")
    numbers.persistentAggregate(STATE, "m", Sum(), "sum", name="sum")
    before = set(spark.sparkContext._jsc.getPersistentRDDs())  # type: ignore[attr-defined]
    assert rows(run(spark, topology, emission("n long", (1,), (-2,)), tmp_path).results["sum"]) == [(3,)]
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= before  # type: ignore[attr-defined]
