"""Windows by hand: ``groupBy(window)`` over each batch's DataFrame, merged into one Redis hash by a careful user.

Batch after batch, in a loop without a log: no batch is computed while another is merged, and after a crash nobody knows
what was merged. No window is ever closed.
"""

import redis
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.check import Counts
from benchmarks.competitors.foreach_batch import merge_counts, stored_counts
from benchmarks.timing import Timed
from benchmarks.workload import Events


def window_by_hand(spark: SparkSession, events: Events, client: redis.Redis) -> tuple[float, Counts]:
    """Seconds from the first batch to the last merge; the counts are those in Redis, by key and minute."""
    with Timed() as timed:
        for number, file in enumerate(events.files):
            rows = spark.read.schema(events.schema).parquet(str(file))
            minutes = rows.groupBy(F.window("at", "1 minute").alias("w"), "k").count()
            table = minutes.select(F.concat_ws("@", "k", F.unix_seconds("w.start")).alias("key"), "count").toArrow()
            merge_counts(client, number + 1, table["key"].to_pylist(), table["count"].to_pylist())
    return timed.seconds, stored_counts(client)
