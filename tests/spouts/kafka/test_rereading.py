"""Messages that a stream has read, read again from the beginning: up to its position, or a loss is told."""

from datetime import UTC, datetime
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


@pytest.mark.parametrize("policy", ["fail", "earliest"])
def test_a_stream_that_began_at_a_time_is_read_again_from_where_it_began(
    kafka: KafkaBroker, topic: str, policy: Any
) -> None:
    """Messages may have earlier times than those before them, and the first ones of the time may be gone."""
    kafka.send(kafka.create(topic), "ab", timestamp=1_000_000)
    kafka.send(topic, "cde", timestamp=3_000_000)
    began = datetime.fromtimestamp(2_000, UTC)
    spout = KafkaSpout(kafka.servers, topic, startingOffsets=began, onDataLoss=policy)
    executor = spout.open()
    _, position = drained(executor)
    kafka.grow(topic, 2)
    kafka.send(topic, "fg", 1, timestamp=1_000_000)
    _, position = drained(spout.open(), position)
    assert sorted(again(spout, position)) == ["c", "d", "e", "f", "g"]
    assert spout.amount_before(position) == "at most 5 offsets"
    kafka.drop_before(topic, 0, 4)
    if policy == "earliest":
        assert sorted(again(spout, position)) == ["e", "f", "g"]
    else:
        with pytest.raises(DataLossError, match=f"{topic}-0 has lost offsets 2 to 3"):
            again(spout, position)


def test_a_compacted_topic_is_told_once(kafka: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """A table of its last rows is right, a count is not."""
    kafka.send(kafka.create(topic), "abc", key=b"k")
    spout = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=1)
    _, position = drained(spout.open())
    again(spout, position)
    assert not caplog.records
    kafka.configure(topic, cleanup_policy="compact")
    again(spout, position)
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"topic {topic!r} is compacted" in told and "a count or a sum would lack these messages" in told


def test_a_stream_that_began_after_retention_lacks_nothing(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "abcd")
    kafka.drop_before(topic, 0, 2)
    spout = KafkaSpout(kafka.servers, topic)
    _, position = drained(spout.open())
    assert again(spout, position) == ["c", "d"]


def test_a_topic_that_the_program_no_longer_names_is_read_again(kafka: KafkaBroker, topic: str) -> None:
    """A new state begins with all that its stream had."""
    former = f"{topic}-former"
    kafka.send(kafka.create(topic), "ab")
    kafka.send(kafka.create(former), "cd")
    _, position = drained(KafkaSpout(kafka.servers, [former, topic]).open())
    spout = KafkaSpout(kafka.servers, topic)
    kafka.send(topic, "e")
    _, position = drained(spout.open(), position)
    assert sorted(again(spout, position)) == ["a", "b", "c", "d", "e"]
    kafka.delete(former)
    with pytest.raises(DataLossError, match=f"topic '{former}' was deleted"):
        again(spout, position)


def test_another_topic_of_the_name_is_told(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "abc")
    spout = KafkaSpout(kafka.servers, topic)
    _, position = drained(spout.open())
    kafka.delete(topic)
    kafka.send(kafka.create(topic), "xyz")
    with pytest.raises(DataLossError, match=rf"topic '{topic}' was deleted and recreated"):
        again(spout, position)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_messages_that_the_stream_left_out_are_not_read(kafka: KafkaBroker, topic: str, policy: Any) -> None:
    """The first messages are gone, and the stream has continued from the end, beyond some that are there."""
    kafka.send(kafka.create(topic), "abcdef")
    spout = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=2, onDataLoss="latest")
    position = planned(spout.open())
    kafka.drop_before(topic, 0, 4)
    kafka.send(topic, "g")
    executor = spout.open()
    _, position = drained(executor, position)
    kafka.send(topic, "h")
    read, position = drained(executor, position)
    assert read == ["h"], "only messages from before the loss are left out"
    kafka.send(topic, "i")
    _, position = drained(KafkaSpout(kafka.servers, topic).open(), position)
    with pytest.raises(DataLossError, match=r"left out messages that Kafka may still have \(onDataLoss\)"):
        again(KafkaSpout(kafka.servers, topic, onDataLoss=policy), position)


def test_a_beginning_that_is_gone_is_no_reason_to_read_nothing(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "abcdef")
    spout = KafkaSpout(kafka.servers, topic, onDataLoss="latest")
    _, position = drained(spout.open())
    kafka.drop_before(topic, 0, 3)
    assert again(spout, position) == ["d", "e", "f"]


def test_a_loss_over_which_the_stream_has_continued_is_told(
    kafka: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic is another one now, and the position is in it: nothing else says that messages are gone."""
    kafka.send(kafka.create(topic), "abc")
    spout = KafkaSpout(kafka.servers, topic, onDataLoss="earliest")
    _, position = drained(spout.open())
    kafka.delete(topic)
    kafka.send(kafka.create(topic), "xyz")
    _, position = drained(spout.open(), position)
    kafka.send(topic, "u")
    strict = KafkaSpout(kafka.servers, topic)
    _, position = drained(strict.open(), position)
    with pytest.raises(DataLossError, match="Kafka has lost messages that the stream has read"):
        again(strict, position)
    assert again(spout, position) == ["x", "y", "z", "u"]
    assert "Kafka has lost messages that the stream has read" in caplog.text


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
