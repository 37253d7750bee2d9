"""The benchmark by hand: Structured Streaming with ``foreachBatch``, which increments hashes of Redis.

The campaigns are broadcast once. A batch that runs again after a crash is counted twice.
"""

from collections.abc import Callable
from pathlib import Path

import redis
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.yahoo.events import SCHEMA, WINDOW, Advertising, Counts


def by_hand(spark: SparkSession, data: Advertising, folder: Path, client: redis.Redis) -> Counts:
    """Count all events, a file a batch, and return the counts in Redis."""
    writer = increments(spark, data, client, files=1).option("checkpointLocation", str(folder))
    writer.trigger(availableNow=True).start().awaitTermination()
    counted: dict[tuple[str, int], int] = {}
    for name in client.scan_iter("views:*"):
        campaign = name.decode().removeprefix("views:")
        counted |= {(campaign, int(start)): int(views) for start, views in client.hgetall(name).items()}
    return counted


def increments(
    spark: SparkSession,
    data: Advertising,
    client: redis.Redis,
    files: int,
    done: Callable[[int], None] = lambda batch_id: None,
) -> DataStreamWriter:
    """Return the query over at most so many files a batch; `done` gets the number of each batch that is in Redis."""
    ads = F.broadcast(spark.createDataFrame([*data.campaigns.items()], "ad_id string, campaign string"))

    def apply(batch: DataFrame, batch_id: int) -> None:
        start = (F.col("event_time") - F.col("event_time") % WINDOW).alias("start")
        counts = batch.where("event_type = 'view'").join(ads, "ad_id").groupBy("campaign", start).count().toArrow()
        pipeline = client.pipeline(transaction=False)
        for row in counts.to_pylist():
            pipeline.hincrby(f"views:{row['campaign']}", str(row["start"]), row["count"])
        pipeline.execute()
        done(batch_id)

    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).json(data.folder)
    return events.writeStream.foreachBatch(apply)
