"""LocalCluster: each call in each condition, racing calls, and what is left after a kill and a shutdown."""

import _thread
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import trident
from tests.run.test_rebalancing import counting
from tests.support.waiting import wait_until
from trident import Count, LocalCluster, TridentTopology
from trident.base.errors import (
    TopologyActiveError,
    TopologyConditionError,
    TopologyError,
    TopologyNotFoundError,
    TridentError,
)
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

ROOT = Path(__file__).parents[2]


def word_count() -> TridentTopology:
    return counting([])


def threads() -> list[str]:
    return sorted(each.name for each in threading.enumerate() if each.name.startswith("trident"))


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(engine="embedded") as made:
        yield made
    assert trident.active() == [] and made.topologies == {}


def test_a_topology_goes_through_all_conditions(cluster: LocalCluster, tmp_path: Path) -> None:
    before = threads()
    conf = {"checkpointLocation": tmp_path, "maxSpoutPending": 1}
    running = cluster.submitTopology("wc", conf, word_count())
    assert cluster.topologies == {"wc": "ACTIVE"} and cluster.isReady("wc") and cluster.isReady()
    assert cluster.running("wc") is running and cluster.status("wc")["condition"] == "ACTIVE"
    cluster.activate("wc")
    assert cluster.deactivate("wc", wait=10) and not cluster.isReady("wc")
    assert cluster.topologies == {"wc": "INACTIVE"} and cluster.deactivate("wc")
    cluster.rebalance("wc", {"words": 3})
    assert cluster.topologies == {"wc": "INACTIVE"} and running.parallelismHints == {"words/1": 3}
    cluster.activate("wc")
    wait_until(lambda: running.asOfTxid["lines"] > 2)
    cluster.killTopology("wc", waitSecs=10)
    assert cluster.topologies == {} and not running.isActive
    wait_until(lambda: threads() == before, 30)
    counted = running.asOfTxid["lines"]
    assert cluster.submitTopology("wc", {**conf, "active": False}, word_count()).asOfTxid == {"lines": counted}
    assert cluster.topologies == {"wc": "INACTIVE"}


def test_a_kill_commits_what_is_planned(cluster: LocalCluster) -> None:
    gate = threading.Event()
    running = cluster.submitTopology("wc", {}, counting([], lambda word: word if gate.wait(20) else word))
    wait_until(lambda: "running" in running.status["groups"]["lines"]["inFlight"].values())
    killing = [threading.Thread(target=cluster.killTopology, args=("wc", 20)) for _ in range(2)]
    for thread in killing:
        thread.start()
    wait_until(lambda: cluster.topologies == {"wc": "KILLED"} and running.condition == "INACTIVE")
    for call in (cluster.activate, cluster.deactivate, lambda name: cluster.rebalance(name, {"words": 3})):
        with pytest.raises(TopologyConditionError, match="'wc': it is KILLED"):
            call("wc")
    with pytest.raises(TopologyActiveError, match="a topology 'wc', which is KILLED"):
        cluster.submitTopology("wc", {}, word_count())
    gate.set()
    for thread in killing:
        thread.join(20)
    assert running.asOfTxid == {"lines": 1} and cluster.topologies == {}


def test_a_kill_waits_no_longer_than_it_says(cluster: LocalCluster) -> None:
    gate = threading.Event()
    running = cluster.submitTopology("wc", {}, counting([], lambda word: word if gate.wait(20) else word))
    wait_until(lambda: "running" in running.status["groups"]["lines"]["inFlight"].values())
    threading.Timer(0.5, gate.set).start()  # the stop waits for the call, but nothing of it is committed
    cluster.killTopology("wc", waitSecs=0.1)
    assert running.asOfTxid == {"lines": 0} and cluster.topologies == {}


def test_a_kill_that_was_interrupted_can_be_repeated(cluster: LocalCluster) -> None:
    gate = threading.Event()
    running = cluster.submitTopology("wc", {}, counting([], lambda word: word if gate.wait(20) else word))
    wait_until(lambda: "running" in running.status["groups"]["lines"]["inFlight"].values())
    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        cluster.killTopology("wc", waitSecs=60)
    gate.set()
    again = threading.Thread(target=cluster.killTopology, args=("wc", 20), daemon=True)
    again.start()
    again.join(20)
    assert not again.is_alive() and cluster.topologies == {}


def test_of_two_racing_submits_one_wins(cluster: LocalCluster) -> None:
    for round_ in range(5):
        barrier, outcomes = threading.Barrier(2), list[Any]()

        def submit(barrier: threading.Barrier = barrier, outcomes: list[Any] = outcomes) -> None:
            barrier.wait()
            try:
                outcomes.append(cluster.submitTopology("wc", {"active": False}, word_count()))
            except TridentError as error:
                outcomes.append(error)

        racing = [threading.Thread(target=submit) for _ in range(2)]
        for thread in racing:
            thread.start()
        for thread in racing:
            thread.join()
        (refused,) = (each for each in outcomes if isinstance(each, TridentError))
        assert isinstance(refused, TopologyActiveError) and "kill it first" in str(refused), round_
        cluster.killTopology("wc")


def test_wrong_calls_are_refused(cluster: LocalCluster) -> None:
    cluster.submitTopology("wc", None, word_count())
    for call in (cluster.activate, cluster.deactivate, cluster.killTopology, cluster.status, cluster.isReady):
        with pytest.raises(TopologyNotFoundError, match="no topology 'wx'; its topologies are wc"):
            call("wx")
    for conf, message in (
        ({"name": "x"}, "conf has 'name', which the cluster sets"),
        ({"maxAttempts": 0}, "maxAttempts=0: expected a whole number of at least 1"),
        ({"maxAttempt": 1}, "no option 'maxAttempt'; did you mean 'maxAttempts'"),
    ):
        with pytest.raises(TopologyError, match=message):
            cluster.submitTopology("other", conf, word_count())
    with pytest.raises(TopologyError, match="is not a TridentTopology"):
        cluster.submitTopology("other", {}, "topology")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="cores="):
        LocalCluster(engine="embedded", cores=2)
    assert cluster.topologies == {"wc": "ACTIVE"}


def test_a_topology_that_failed_keeps_its_name_until_it_is_killed(cluster: LocalCluster) -> None:
    running = cluster.submitTopology("bad", {"maxAttempts": 1}, counting([], lambda word: word[99]))
    wait_until(lambda: cluster.topologies == {"bad": "FAILED"})
    assert not cluster.isReady("bad")
    with pytest.raises(TopologyActiveError, match="which is FAILED; kill it first"):
        cluster.submitTopology("bad", {}, word_count())
    with pytest.raises(TopologyConditionError, match="'bad': it is FAILED"):
        cluster.activate("bad")
    cluster.killTopology("bad")
    assert cluster.topologies == {} and running.exception() is not None


def test_after_a_shutdown_there_is_nothing(cluster: LocalCluster) -> None:
    runs = [cluster.submitTopology(name, {}, word_count()) for name in ("a", "b")]
    cluster.shutdown()
    cluster.shutdown()
    assert not any(run.isActive for run in runs) and cluster.topologies == {} and not cluster.isReady()
    with pytest.raises(TopologyConditionError, match="was shut down; create another LocalCluster"):
        cluster.submitTopology("a", {}, word_count())


@pytest.mark.spark
def test_a_given_session_is_used_and_stays(spark: SparkSession) -> None:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with LocalCluster(spark) as cluster:
        running = cluster.submitTopology("wc", {}, topology)
        running.processAllAvailable(timeout=60)
        assert dict(running.state("counts").items()) == {"dog": 2, "cat": 1}
        cluster.killTopology("wc")
        assert cluster.topologies == {}
        if hasattr(spark, "sparkContext"):
            assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    assert spark.range(3).count() == 3


OWNER = """
from pyspark import SparkContext
from tests.cluster.test_local_cluster import word_count
from trident import LocalCluster
with LocalCluster(cores=2) as cluster:
    running = cluster.submitTopology("wc", {"active": False}, word_count())
    print(SparkContext._active_spark_context.master)
print(SparkContext._active_spark_context, cluster.topologies)
"""


@pytest.mark.soak
@pytest.mark.spark
def test_a_cluster_stops_the_session_that_it_made() -> None:
    env = {**os.environ, "SPARK_API_MODE": "classic"}
    child = subprocess.run(
        [sys.executable, "-c", OWNER], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120
    )
    assert child.stdout.splitlines() == ["local[2]", "None {}"], child.stdout + child.stderr[-2000:]
