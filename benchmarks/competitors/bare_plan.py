"""The DataFrame plan alone, batch after batch, and nothing kept: what Spark itself costs."""

from pyspark.sql import SparkSession

from benchmarks.check import Counts, counts_of
from benchmarks.timing import Timed
from benchmarks.words import Splitter
from benchmarks.workload import Workload


def bare_plan(spark: SparkSession, load: Workload, splitter: Splitter) -> tuple[float, Counts]:
    """Seconds for all batches, one after the other; the counts are added up afterwards."""
    with Timed() as timed:
        tables = [splitter.counts(spark.read.parquet(str(path))).toArrow() for path in load.files]
    return timed.seconds, counts_of(tables)


def one_query(spark: SparkSession, load: Workload, splitter: Splitter) -> tuple[float, Counts]:
    """Seconds for one query over all files at once: the limit, without any batch."""
    with Timed() as timed:
        table = splitter.counts(spark.read.parquet(str(load.folder))).toArrow()
    return timed.seconds, counts_of([table])
