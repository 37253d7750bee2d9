"""Messages that a stream has read, read again from the beginning: up to its position, or a loss is told."""

from pathlib import Path
from typing import Any

import pytest

from tests.spouts.kafka.reads import drained, planned
from tests.support.kafka import KafkaBroker
from trident import Count, TridentTopology
from trident.errors import DataLossError
from trident.spouts import KafkaSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


def again(spout: KafkaSpout, end: Any) -> list[str]:
    executor = spout.open_again(lambda: end)
    try:
        return drained(executor)[0]
    finally:
        executor.close()


def test_messages_are_read_again_up_to_the_position(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "abcdef")
    spout = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=2)
    executor = spout.open()
    position = planned(executor, planned(executor))
    executor.close()
    assert again(spout, position) == ["a", "b", "c", "d"]
    assert again(spout, None) == []
    assert spout.amount_before(position) == "at most 4 offsets"


def test_a_beginning_that_retention_removed_is_told(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "abcdef")
    spout = KafkaSpout(kafka.servers, topic)
    _, position = drained(spout.open())
    kafka.drop_before(topic, 0, 3)
    with pytest.raises(DataLossError, match=rf"{topic}-0 has lost offsets 0 to 2 .* start with onDataLoss='earliest'"):
        again(spout, position)
    assert again(KafkaSpout(kafka.servers, topic, onDataLoss="earliest"), position) == ["d", "e", "f"]


def test_another_topic_of_the_name_is_told(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "abc")
    spout = KafkaSpout(kafka.servers, topic)
    _, position = drained(spout.open())
    kafka.delete(topic)
    kafka.send(kafka.create(topic), "xyz")
    with pytest.raises(DataLossError, match=rf"topic '{topic}' was deleted and recreated"):
        again(spout, position)


def test_a_topic_that_ends_before_the_position_is_told(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "abc")
    spout = KafkaSpout(kafka.servers, topic)
    _, position = drained(spout.open())
    position[topic]["to"] = [5]
    with pytest.raises(DataLossError, match=rf"{topic}-0 ends at offset 3, but was read up to 5"):
        again(spout, position)


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_a_new_state_has_all_messages_once(kafka: KafkaBroker, topic: str, kind: Any, tmp_path: Path) -> None:
    def declared(new: bool) -> TridentTopology:
        topology = TridentTopology()
        spout = KafkaSpout(kafka.servers, topic, kind=kind, maxOffsetsPerBatch=2)
        values = topology.newStream("n", spout).each("value", lambda value: value.decode(), "text string")
        values.groupBy("text").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        if new:
            values.groupBy("text").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="new", backfill=True)
        return topology

    def run(new: bool) -> dict[str, dict[str, int]]:
        with start_local(declared(new), name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=60)
            return {name: dict(running.state(name).items()) for name in running.states}

    kafka.create(topic)
    kafka.send(topic, "abcabca")
    run(False)
    kafka.send(topic, "dab")
    assert run(True) == {name: {"a": 4, "b": 3, "c": 2, "d": 1} for name in ("counts", "new")}
