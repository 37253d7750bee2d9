"""Executors write a batch into a state: exactly what the driver would have written, whatever fails on the way."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import RedisMapState

pytestmark = pytest.mark.spark

BATCHES = [[f"word{(batch * 7 + row) % 50}" for row in range(400)] for batch in range(4)]
EXPECTED = Counter(word for batch in BATCHES for word in batch)


class Joined:
    """A combiner that only Python knows."""

    outputType = "string"

    def init(self, tuple: Any) -> str:
        return str(tuple.word)[-1]

    def combine(self, a: str, b: str) -> str:
        return a + b

    def zero(self) -> str:
        return ""


def topology(state: Any, aggregator: Any = None, name: str = "counts") -> TridentTopology:
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES)).groupBy("word")
    inputs = () if aggregator is None else ("word",)
    words.persistentAggregate(state, *inputs, aggregator or Count(), "count", name=name)
    return made


def contents(made: TridentTopology, spark: SparkSession, folder: Path, **options: Any) -> dict[str, Any]:
    with made.start(spark, name="writers", checkpointLocation=folder, **options) as running:
        running.processAllAvailable(timeout=120)
        return {"found": dict(running.state("counts").items()), "events": running.recentProgress}


@pytest.mark.parametrize("options", [{}, {"groups": 4, "buckets": 64}])
@pytest.mark.parametrize("kind", ["opaque", "transactional"])
def test_counts(shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, kind: str, options: Any) -> None:
    state = getattr(RedisMapState, kind)(shared_redis.url, writers="executors", **options)
    done = contents(topology(state), spark, tmp_path)
    assert done["found"] == EXPECTED
    assert [event["states"]["counts"]["writers"] for event in done["events"]] == ["executors"] * 4


def test_python_combiner(shared_redis: RedisServer, spark: SparkSession, tmp_path: Path) -> None:
    state = RedisMapState.opaque(shared_redis.url, writers="executors", groups=2)
    done = contents(topology(state, Joined()), spark, tmp_path)
    assert done["found"] == {word: word[-1] * count for word, count in EXPECTED.items()}
