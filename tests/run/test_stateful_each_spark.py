"""Stateful operations behind the work of Spark, whose partitions change between two starts."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.totals import Total
from trident import Count, TridentTopology, expr
from trident.run.start import start
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import ManualClock

pytestmark = pytest.mark.spark


def numbered(tuple: Any, state: Any) -> int:
    n = int(state.get(tuple.big, 0)) + 1
    state.put(tuple.big, n)
    return n


def test_a_rebalance_keeps_the_states_of_operations(spark: SparkSession, tmp_path: Path) -> None:
    """2 -> 5 -> 3 partitions; native steps before the operations, a Python step and an aggregate behind them."""
    found: list[Any] = []
    for batches, partitions in enumerate((2, 5, 3), 1):
        topology = TridentTopology()
        spout = FixedBatchSpout("word string", [["dog", "cat", "dog"]] * batches)
        words = topology.newStream("words", spout).partitionBy("word").parallelismHint(partitions)
        runs = words.each(expr("upper(word)"), "big string").statefulEach(
            numbered, "n long", keyFields="big", valueType="long", name="runs"
        )
        totals = runs.statefulEach("n", Total(), "total long", name="total")
        parity = totals.each("n", lambda n: n % 2, "odd long").groupBy("odd")
        parity.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="parity")
        with topology.start(spark, name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=120)
            states = [dict(running.state(name).items()) for name in ("runs", "parity")]
            found.append((*states, json.loads(running.state("total").value)))
    assert found == [
        ({"DOG": 2, "CAT": 1}, {1: 2, 0: 1}, 4),
        ({"DOG": 4, "CAT": 2}, {1: 3, 0: 3}, 13),
        ({"DOG": 6, "CAT": 3}, {1: 5, 0: 4}, 27),
    ]


def test_timers_fire_behind_steps_of_spark_in_a_batch_without_tuples(spark: SparkSession, tmp_path: Path) -> None:
    def step(tuple: Any, state: Any) -> None:
        state.put(tuple.big, state.get(tuple.big, 0) + 1)
        state.setTimer(tuple.big, state.now() + timedelta(days=1))

    def fire(timer: Any, state: Any) -> None:
        state.put(timer.key, state.get(timer.key) + 100)

    clock = ManualClock(1e9)
    for end in (1, 101):
        topology = TridentTopology()
        words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"]]))
        words.each(expr("upper(word)"), "big string").statefulEach(
            step, keyFields="big", valueType="long", onTimer=fire, name="quiet"
        )
        with start(topology, spark, name="t", checkpointLocation=tmp_path, clock=clock) as running:
            running.processAllAvailable(timeout=120)
            assert dict(running.state("quiet").items()) == {"DOG": end, "CAT": end}
        clock.advance(86_400)
