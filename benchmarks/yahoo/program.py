"""The benchmark as a topology, for both engines."""

from pathlib import Path
from typing import Any

import redis
from pyspark.sql import SparkSession

from benchmarks.yahoo.events import SCHEMA, WINDOW, Advertising, Counts
from trident import Count, TridentTopology, col
from trident.plan.topology_protocol import EngineName
from trident.spouts import FileSpout
from trident.state import RedisMapState


class Campaigns:
    """The campaign of each advertisement, plain keys in Redis."""

    def __init__(self, url: str) -> None:
        self._url = url

    def multiGet(self, keys: list[str]) -> list[Any]:
        client = redis.Redis.from_url(self._url, decode_responses=True)
        return list(client.mget(keys)) if keys else []


def count_views(topology: TridentTopology, path: str, url: str, files: int = 1) -> None:
    """Count the views by campaign and ten seconds of event time, in Redis; at most so many files are a batch."""
    campaigns = topology.newStaticState(Campaigns(url), keyFields="ad_id string", valueType="string", name="campaigns")
    events = topology.newStream("events", FileSpout(path, "json", SCHEMA, maxFilesPerBatch=files, orderBy="name"))
    views = events.filter(col("event_type") == "view").project("ad_id, event_time")
    views = views.joinTable(campaigns, "ad_id", outputFields="campaign")
    views = views.each({"start": col("event_time") - col("event_time") % WINDOW})
    views.groupBy("campaign, start").persistentAggregate(RedisMapState.opaque(url), Count(), "views", name="views")


def run(data: Advertising, engine: EngineName, folder: Path, url: str, spark: SparkSession | None = None) -> Counts:
    """Count all events, or those that an earlier run in the folder left, and return the counts in Redis."""
    topology = TridentTopology()
    count_views(topology, data.files, url)
    with topology.start(spark, engine=engine, name="yahoo", checkpointLocation=str(folder)) as running:
        running.processAllAvailable()
        rows = running.state("views").toArrow().to_pylist()
    return {(row["campaign"], row["start"]): row["views"] for row in rows}
