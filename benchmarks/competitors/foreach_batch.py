"""Hand-written exactly-once: ``foreachBatch`` with an opaque update in Redis, as a careful user would write it.

Each batch is counted by Spark, brought to the driver as Arrow, and merged into one hash: pipelined reads, then
pipelined writes, 5,000 fields a command. A value is ``txid,prev,value``, so that a batch that runs again after a
failure starts from `prev` (Trident's opaque rule). What it does not do: two batches at once, a fence against a second
driver, a log of what it applied, a read that shows no half batch.
"""

from pathlib import Path
from typing import cast

import redis
from pyspark.sql import DataFrame, SparkSession

from benchmarks.check import Counts
from benchmarks.timing import Timed
from benchmarks.words import Splitter
from benchmarks.workload import Workload

FIELDS_PER_COMMAND = 5_000


def foreach_batch(
    spark: SparkSession, load: Workload, splitter: Splitter, client: redis.Redis, checkpoint: Path
) -> tuple[float, Counts]:
    """Return the seconds from the query's start to its end, and the counts in Redis."""

    def apply(batch: DataFrame, batch_id: int) -> None:
        table = splitter.counts(batch).toArrow()
        merge_counts(client, batch_id + 1, table["word"].to_pylist(), table["count"].to_pylist())

    lines = spark.readStream.schema("line string").option("maxFilesPerTrigger", 1).parquet(str(load.folder))
    writer = lines.writeStream.foreachBatch(apply).option("checkpointLocation", str(checkpoint))
    with Timed() as timed:
        writer.trigger(availableNow=True).start().awaitTermination()
    return timed.seconds, stored_counts(client)


def merge_counts(client: redis.Redis, txid: int, words: list[str], counts: list[int]) -> None:
    """Merge one batch's counts."""
    merged: list[tuple[str, str]] = []
    for word, count, stored in zip(words, counts, _stored(client, words), strict=True):
        if stored is None:
            merged.append((word, f"{txid},0,{count}"))
            continue
        last, prev, value = stored.split(b",")
        base = int(prev) if int(last) == txid else int(value)
        merged.append((word, f"{txid},{base},{base + count}"))
    pipeline = client.pipeline(transaction=False)
    for start in range(0, len(merged), FIELDS_PER_COMMAND):
        pipeline.hset("counts", mapping=dict(merged[start : start + FIELDS_PER_COMMAND]))
    pipeline.execute()


def _stored(client: redis.Redis, words: list[str]) -> list[bytes | None]:
    pipeline = client.pipeline(transaction=False)
    for start in range(0, len(words), FIELDS_PER_COMMAND):
        pipeline.hmget("counts", words[start : start + FIELDS_PER_COMMAND])
    return [value for values in pipeline.execute() for value in values]


def stored_counts(client: redis.Redis) -> Counts:
    stored = cast(dict[bytes, bytes], client.hgetall("counts"))
    return {word.decode(): int(value.split(b",")[2]) for word, value in stored.items()}
