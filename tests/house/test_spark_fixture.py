"""The shared session works in the mode that SPARK_API_MODE names, and its workers run this Python."""

import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.spark import CONNECT

pytestmark = [pytest.mark.spark, pytest.mark.connect]


def _executable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows})


def test_the_session_is_of_the_named_mode(spark: SparkSession) -> None:
    assert ("connect" in type(spark).__module__) is CONNECT


def test_workers_run_this_python(spark: SparkSession) -> None:
    rows = spark.range(2).mapInArrow(_executable, "python string").toArrow()
    assert set(rows["python"].to_pylist()) == {sys.executable}
