"""Counts by hand in a Delta table: ``foreachBatch`` with a MERGE, as the documentation of Delta shows it.

Each batch is counted by Spark, brought to the driver as Arrow, and merged by the package deltalake. The merge sets the
batch's number as an application transaction, so a batch that runs again after a failure is not merged twice.
"""

from pathlib import Path

import deltalake
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.keyed_files import KeyCounts, KeyedFiles
from benchmarks.timing import Timed

_COUNTS = pa.schema([pa.field("key", pa.int64()), pa.field("count", pa.int64())])
_APPLICATION = "counts"


def delta_merge(spark: SparkSession, load: KeyedFiles, folder: Path) -> tuple[float, KeyCounts]:
    """Return the seconds from the query's start to its end, and the counts in the table."""
    table = str(folder / "table")
    deltalake.DeltaTable.create(table, _COUNTS)

    def apply(batch: DataFrame, batch_id: int) -> None:
        merge_counts(table, batch.groupBy("key").count().toArrow(), batch_id)

    rows = spark.readStream.schema(load.schema).option("maxFilesPerTrigger", 1).parquet(str(load.folder))
    writer = rows.writeStream.foreachBatch(apply).option("checkpointLocation", str(folder / "checkpoint"))
    with Timed() as timed:
        writer.trigger(availableNow=True).start().awaitTermination()
    return timed.seconds, KeyCounts.of(deltalake.DeltaTable(table).to_pyarrow_table())


def merge_counts(folder: str, counts: pa.Table, batch: int) -> None:
    """Merge one batch's counts, unless the table has them."""
    table = deltalake.DeltaTable(folder)
    last = table.transaction_version(_APPLICATION)
    if last is not None and last >= batch:
        return
    done = deltalake.CommitProperties(app_transactions=[deltalake.Transaction(_APPLICATION, batch)])
    merge = table.merge(counts.cast(_COUNTS), "t.key = s.key", "s", "t", commit_properties=done)
    merge.when_matched_update({"count": "t.count + s.count"}).when_not_matched_insert_all().execute()
