"""SparkSpout on Spark: its DataFrames are read by the workers, and checked before they are used."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spouts.test_spark_spout import ROWS, SCHEMA, frame_of_ids, next_ids, spout
from tests.support.pages import blocks_of
from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.errors import SpoutContractError, UserFunctionError
from trident.spouts import SparkSpout
from trident.state import MemoryMapState
from trident.testing import SpoutContract, crash_at, engines, run_through

pytestmark = pytest.mark.spark
HERE = Path(__file__).name
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "spark-readers.md"
start = engines(["spark"], spark="spark")


def test_workers_read_what_the_local_road_reads(spark: SparkSession, tmp_path: Path) -> None:
    SpoutContract().test_workers_read_what_the_driver_reads(lambda: spout(), spark, tmp_path)


def counting(path: str) -> TridentTopology:
    """Return a topology over the ids that `spark.read` finds in a Parquet folder."""

    def read(spark: SparkSession, metadata: Any) -> Any:
        return spark.read.parquet(path).where(f"id > {metadata['from']} and id <= {metadata['to']}")

    topology = TridentTopology()
    ids = topology.newStream("ids", SparkSpout(read, next_ids, SCHEMA)).each("word", str.upper, "loud string")
    ids.groupBy("loud").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    return topology


def test_a_killed_driver_goes_on_and_each_row_counts_once(start: Any, spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    spark.createDataFrame(ROWS, SCHEMA).write.parquet(path)
    folder = tmp_path / "log"
    with (
        crash_at("freeze.after", count=2),
        run_through(counting(path), start=start, checkpointLocation=folder) as running,
    ):
        assert dict(running.state("counts").items()) == {"WORD 0": 3, "WORD 1": 4, "WORD 2": 4}


def test_the_guides_functions_name_a_day_and_read_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page: dict[str, Any] = {}
    for block in blocks_of(PAGE):
        exec(block, page)
    rows = spark.createDataFrame([("ann", "/home", 1)], "user string, page string, n int")
    rows.write.parquet(str(tmp_path / "events" / "day=1"))
    (tmp_path / "events" / "day=2").mkdir()  # not complete
    executor = page["spout"].open()
    plan = executor.plan(TransactionAttempt(1, 0, 1), None, 0.0)
    assert plan == {"day": "day=1"} and executor.plan(TransactionAttempt(2, 0, 1), plan, 0.0) is None
    source = PAGE.read_text(encoding="utf-8").replace('f"events/', f'f"{tmp_path}/events/')  # Java keeps its own folder
    exec(re.findall(r"^def events.*?\n\n", source, re.M | re.S)[0], page)
    assert page["events"](spark, plan).collect() == [("ann", "/home")]


def frame_with(spark: SparkSession, tmp_path: Path, read: Any, schema: str = SCHEMA) -> Any:
    emission = SparkSpout(read, next_ids, schema).open().emit(TransactionAttempt(1, 0, 1), {"from": 0, "to": 4})
    return emission.dataframe(spark, tmp_path)


def test_a_dataframe_that_does_not_fit_is_refused_and_its_function_named(spark: SparkSession, tmp_path: Path) -> None:
    other = spark.newSession()
    cases = [
        (lambda spark, metadata: [(1, "a")], r"returned \[\(1, 'a'\)\] \(list\); expected a DataFrame"),
        (
            lambda spark, metadata: spark.range(3),
            r"with the fields \(id bigint NOT NULL\), but \(id bigint, wor",
        ),
        (
            lambda spark, metadata: spark.createDataFrame([(1, 2)], "id int, word string"),
            r"with 'id' as int, but bigint is declared; cast it there: .withColumn\('id', col\('id'\).cast",
        ),
        (
            lambda spark, metadata: spark.readStream.format("rate").load().selectExpr("value id", "'a' word"),
            r"returned a streaming DataFrame; make it with spark.read",
        ),
        (lambda spark, metadata: frame_of_ids(other, metadata), r"returned a DataFrame of another SparkSession"),
    ]
    for read, message in cases:
        with pytest.raises(SpoutContractError, match=rf"SparkSpout: \S*<lambda> \({HERE}:\d+\) .*{message}"):
            frame_with(spark, tmp_path, read)
    with pytest.raises(SpoutContractError, match="in which 'word' may be null, but the field is NOT NULL; declare it"):
        frame_with(spark, tmp_path, frame_of_ids, "id long, word string NOT NULL")


def test_an_error_of_the_function_names_it_on_spark_connect_too(spark: SparkSession, tmp_path: Path) -> None:
    def absent(spark: SparkSession, metadata: Any) -> Any:
        return spark.read.parquet("/no/such/folder")

    with pytest.raises(UserFunctionError, match=rf"SparkSpout: absent \({HERE}:\d+\) raised AnalysisException"):
        frame_with(spark, tmp_path, absent)
