"""Structured Streaming's own stateful count: RocksDB under a checkpoint, the output thrown away, nothing to query."""

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.check import Counts
from benchmarks.timing import Timed
from benchmarks.words import Splitter
from benchmarks.workload import Workload


def structured_streaming(
    spark: SparkSession, load: Workload, splitter: Splitter, checkpoint: Path
) -> tuple[float, Counts]:
    """Seconds from the query's start to its end; the counts are read from its checkpoint afterwards."""
    lines = spark.readStream.schema("line string").option("maxFilesPerTrigger", 1).parquet(str(load.folder))
    writer = splitter.counts(lines).writeStream.outputMode("update").format("noop")
    writer = writer.option("checkpointLocation", str(checkpoint))
    with Timed() as timed:
        writer.trigger(availableNow=True).start().awaitTermination()
    return timed.seconds, _counts(spark, checkpoint)


def _counts(spark: SparkSession, checkpoint: Path) -> Counts:
    state = spark.read.format("statestore").load(str(checkpoint))
    table = state.selectExpr("key.word as word", "value.count as count").toArrow()
    return dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))
