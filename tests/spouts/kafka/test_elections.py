"""A leader of a cluster of three brokers dies: a clean election goes on, an unclean one is told."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.spouts.kafka.reads import drained, emitted, planned
from tests.support.kafka_cluster import KafkaCluster
from trident.errors import DataLossError
from trident.spouts import KafkaSpout

pytestmark = pytest.mark.soak  # three brokers; test_partition_identity.py compares the same evidence on one


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def read(executor: Any, position: Any = None) -> tuple[list[str], Any]:
    """Read until nothing is left; return the values, and the position as the log keeps it."""
    values: list[str] = []
    while (plan := planned(executor, position)) is not None:
        emission = emitted(executor, plan)
        values += [value.decode() for value in emission.arrow().column("value").to_pylist()]
        position = json.loads(json.dumps(emission.after))
    return values, position


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_a_leader_that_dies_hands_over_and_nothing_is_told(cluster: KafkaCluster, topic: str, kind: Any) -> None:
    cluster.create(topic, [2, 3, 1])
    cluster.send(topic, ["m0", "m1", "m2"])
    spout = KafkaSpout(cluster.servers, topic, kind=kind)
    executor = spout.open()
    values, position = read(executor)
    cluster.nodes[2].kill()
    try:
        cluster.wait(topic, leader=3, in_sync={1, 3})
        cluster.send(topic, ["m3", "m4"])
        more, after = read(executor, position)
        assert values + more == ["m0", "m1", "m2", "m3", "m4"]
        assert after[topic]["epochs"][0] > position[topic]["epochs"][0]
        anew = spout.open()
        assert drained(anew, position)[0] == ["m3", "m4"], "a start compares it, too"
        anew.close()
    finally:
        executor.close()
        cluster.revive()


@pytest.mark.parametrize("same_run", [True, False])
@pytest.mark.parametrize("grown", [1, 2, 4])
def test_an_unclean_election_is_told_however_far_the_log_grows(
    cluster: KafkaCluster, topic: str, grown: int, same_run: bool
) -> None:
    """The follower was away while two messages were written, and becomes the leader when the former one dies."""
    cluster.create(topic, [2, 3])
    cluster.send(topic, ["m0", "m1", "m2"])
    spout = KafkaSpout(cluster.servers, topic)
    executor = spout.open()
    cluster.nodes[3].kill()
    try:
        cluster.wait(topic, leader=2, in_sync={2})
        cluster.send(topic, ["m3 before", "m4 before"])
        values, position = read(executor)
        assert values == ["m0", "m1", "m2", "m3 before", "m4 before"]
        cluster.nodes[2].kill()
        cluster.nodes[3].start()
        cluster.wait(topic, leader=3, in_sync={3})
        cluster.send(topic, [f"m{3 + at} after" for at in range(grown)])
        if not same_run:
            executor.close()
            executor = spout.open()
        with pytest.raises(DataLossError) as caught:
            read(executor, position)
        what = (
            "ends at offset 4, but was read up to 5"
            if grown == 1
            else "no longer has the messages that were read, up to offset 5"
        )
        assert what in str(caught.value)
    finally:
        executor.close()
        cluster.revive()
