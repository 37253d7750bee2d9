"""Executors work on a state again as soon as it has its present shape; until then the driver does."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.server import RedisServer
from trident import Count, Evolution, Sum, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import RedisMapState

pytestmark = pytest.mark.spark

BATCHES = [[(f"word{(batch * 7 + row) % 50}", row) for row in range(200)] for batch in range(3)]


def seen(tuple: Any, state: Any) -> None:
    state.put(tuple.word, state.get(tuple.word, 0) + 1)


def topology(url: str, batches: list[Any], new: bool) -> TridentTopology:
    made = TridentTopology()
    state = RedisMapState.opaque(url, writers="executors", groups=2, buckets=16)
    words = made.newStream("words", FixedBatchSpout("word string, n long", batches)).groupBy("word")
    how: Any = {"times": Count(), "sum": Sum("n")} if new else {"times": Count()}
    evolve = Evolution("times long", add={"sum": lambda old: -old.times}) if new else None
    words.persistentAggregate(state, how, name="counts", evolve=evolve)
    kind, former = ("long", Evolution("int")) if new else ("int", None)
    words.statefulEach("word", seen, valueType=kind, stateFactory=state, name="seen", evolve=former)
    return made


def test_the_values_of_both_carriers_evolve_once(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path
) -> None:
    for new in (False, True):
        made = topology(shared_redis.url, BATCHES if new else BATCHES[:1], new)
        with made.start(spark, name="evolving", checkpointLocation=tmp_path, maxSpoutPending=1) as running:
            running.processAllAvailable(timeout=120)
            counts, found = dict(running.state("counts").items()), dict(running.state("seen").items())
            events = [event for event in running.recentProgress if "states" in event]
    first, all_of = Counter(word for word, _ in BATCHES[0]), Counter(word for batch in BATCHES for word, _ in batch)
    late = Counter[str]()
    for word, n in (pair for batch in BATCHES[1:] for pair in batch):
        late[word] += n
    assert {word: tuple(value) for word, value in counts.items()} == {
        word: (count, late[word] - first[word]) for word, count in all_of.items()
    }
    assert found == all_of
    assert events[-1]["states"]["counts"]["writers"] == "executors"
