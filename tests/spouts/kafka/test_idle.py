"""An idle topology over Kafka takes next to nothing of a core, and still counts what comes."""

import time
from pathlib import Path

import pytest

from tests.support.kafka import KafkaBroker
from trident import Count, TridentTopology
from trident.spouts import KafkaSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


@pytest.mark.soak
def test_an_idle_topology_takes_less_than_two_percent_of_a_core(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    """The time is that of all threads of this process: those of the run, and those of librdkafka."""
    kafka.send(kafka.create(topic, 20), ["tea", "milk"])
    topology = TridentTopology()
    values = topology.newStream("values", KafkaSpout(kafka.servers, topic)).groupBy("value")
    values.persistentAggregate(MemoryMapState.transactional(), Count(), "count", name="counts")
    with start_local(topology, name="idle", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        time.sleep(5)  # the pauses between two plans have grown by then
        cpu, began = time.process_time(), time.monotonic()
        time.sleep(20)
        share = (time.process_time() - cpu) / (time.monotonic() - began)
        assert share < 0.02, f"{share:.1%}"
        kafka.send(topic, ["tea"])
        running.processAllAvailable(timeout=60)
        assert dict(running.state("counts").items()) == {b"tea": 2, b"milk": 1}
    print(f"idle: {share:.2%} of a core")
