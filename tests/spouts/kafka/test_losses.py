"""What Kafka has lost before it was read: a typed error, or the chosen policy, which tells; never silence."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.kafka.reads import drained, emitted, planned, values
from tests.support.kafka import KafkaBroker
from trident import TridentTopology
from trident.errors import BatchFailedError, DataLossError, SourceUnreadableError
from trident.spouts import KafkaSpout
from trident.testing import TestOutput
from trident.testing.local import start_local

GO_ON = (
    ". To continue without the lost messages, start with onDataLoss='earliest' (from the first available offset) or "
    "onDataLoss='latest' (from the end)"
)
SHORTER = (
    ". onDataLoss='earliest' and onDataLoss='latest' continue at the end of such a partition: messages that "
    "were written since then, before that end, are lost"
)
AGAIN = (
    ". onDataLoss='earliest' continues from the first available offset, and {} count twice; onDataLoss='latest' "
    "continues from the end, and unread messages are lost"
)
COPIED = "messages that were copied from the former topic into this one"
POLICIES = pytest.mark.parametrize("policy", ["fail", "earliest", "latest"])


def check_policy(
    spout: KafkaSpout,
    position: Any,
    loss: str,
    left: list[str],
    caplog: pytest.LogCaptureFixture,
    way_out: str = GO_ON,
    twice: str = "",
) -> Any:
    """Check that a stream at `position` fails, or warns once and reads what the policy leaves; return the position.

    `twice`: what may count a second time with "earliest".
    """
    executor = spout.open()
    caplog.clear()
    try:
        with caplog.at_level(logging.WARNING, "trident.spouts"):
            if spout.onDataLoss == "fail":
                with pytest.raises(DataLossError, match=f"^KafkaSpout: {loss}{re.escape(way_out)}$"):
                    planned(executor, position)
                return position
            rows, after = drained(executor, position)
            planned(executor, position)  # as at every moment of an idle stream, whose position is frozen with a batch
    finally:
        executor.close()
    assert rows == (left if spout.onDataLoss == "earliest" else [])
    (warning,) = [record.getMessage() for record in caplog.records]
    cost = f", and {twice} count twice" if twice and spout.onDataLoss == "earliest" else ""
    assert re.fullmatch(
        f"KafkaSpout: {loss}; reading continues because of onDataLoss='{spout.onDataLoss}'{cost}", warning
    )
    return after


@POLICIES
def test_retention_that_passed_the_position(
    kafka: KafkaBroker, topic: str, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.send(kafka.create(topic), "abcdef")
    spout = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=2, onDataLoss=policy)
    position = planned(spout.open())
    kafka.drop_before(topic, 0, 5)
    loss = rf"{topic}-0 has lost offsets 2 to 4 before they were read \(retention or deleted records\)"
    check_policy(spout, position, loss, ["f"], caplog)


def test_retention_in_what_was_read_is_no_loss(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "abcdef")
    executor = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=4).open()
    position = planned(executor)
    kafka.drop_before(topic, 0, 4)
    assert drained(executor, position)[0] == ["e", "f"]
    executor.close()


@POLICIES
def test_a_topic_that_was_made_anew(
    kafka: KafkaBroker, topic: str, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The new topic has as many messages as the old one: by its offsets alone nobody would notice."""
    kafka.send(kafka.create(topic), "abc")
    spout = KafkaSpout(kafka.servers, topic, onDataLoss=policy)
    _, position = drained(spout.open())
    kafka.delete(topic)
    kafka.send(kafka.create(topic), "xyz")
    loss = rf"topic '{topic}' was deleted and recreated \(id \S+ before, \S+ now\)"
    after = check_policy(spout, position, loss, ["x", "y", "z"], caplog, AGAIN.format(COPIED), COPIED)
    assert policy != "earliest" or after[topic]["id"] != position[topic]["id"]


@POLICIES
def test_a_topic_of_a_pattern_that_was_deleted(
    kafka: KafkaBroker, topic: str, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.send(kafka.create(f"{topic}-1"), "a")
    kafka.send(kafka.create(f"{topic}-2"), "b")
    spout = KafkaSpout(kafka.servers, pattern=f"{topic}-.*", onDataLoss=policy)
    _, position = drained(spout.open())
    kafka.delete(f"{topic}-2")
    check_policy(spout, position, f"topic '{topic}-2' was deleted, with messages that were not read", [], caplog)


@POLICIES
def test_a_partition_that_is_shorter_than_what_was_read(
    kafka: KafkaBroker, topic: str, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a restore from a backup: it goes on at the end, because what stands before it was read."""
    kafka.send(kafka.create(topic), "abc")
    spout = KafkaSpout(kafka.servers, topic, onDataLoss=policy)
    _, position = drained(spout.open())
    position[topic]["to"] = [8]
    loss = f"{topic}-0 ends at offset 3, but was read up to 8: Kafka has lost records, or was restored"
    check_policy(spout, position, loss, [], caplog, SHORTER)


@POLICIES
def test_a_replay_of_what_is_partly_gone(
    kafka: KafkaBroker, topic: str, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.send(kafka.create(topic, 2), "abcdef")
    kafka.send(topic, "xyz", 1)
    executor = KafkaSpout(kafka.servers, topic, onDataLoss=policy).open()
    plan = planned(executor)
    emission = emitted(executor, plan)
    kafka.drop_before(topic, 0, 4)
    with pytest.raises(SourceUnreadableError, match=rf"Kafka no longer has all of {topic}-0\[0, 6\): "):
        emission.arrow()
    loss = f"KafkaSpout: {topic}-0 has lost offsets 0 to 3 before they were read"
    if policy == "fail":
        with pytest.raises(DataLossError, match=loss):
            emitted(executor, plan, 1)
    else:
        with caplog.at_level(logging.WARNING, "trident.spouts"):
            assert values(emitted(executor, plan, 1).arrow()) == [*"efxyz"]
        assert [record.getMessage() for record in caplog.records][0].startswith(loss)
    executor.close()


def test_a_topic_that_is_made_anew_between_plan_and_reading_is_not_read_in_its_place(
    kafka: KafkaBroker, topic: str
) -> None:
    kafka.send(kafka.create(topic), "abc")
    executor = KafkaSpout(kafka.servers, topic).open()
    plan = planned(executor)
    emission = emitted(executor, plan)
    kafka.delete(topic)
    kafka.send(kafka.create(topic), "xyz")
    with pytest.raises(SourceUnreadableError, match=f"topic '{topic}' was deleted or recreated after the plan"):
        emission.arrow()
    with pytest.raises(SourceUnreadableError, match="was deleted or recreated after the plan"):
        emission.check_scanned()  # as after Spark has read it
    with pytest.raises(DataLossError, match=f"topic '{topic}' was deleted and recreated"):
        emitted(executor, plan, 1)
    executor.close()


def test_a_stream_stops_with_the_loss_and_goes_on_with_a_policy(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    kafka.send(kafka.create(topic), "ab")
    output = TestOutput()

    def topology(**options: Any) -> TridentTopology:
        topology = TridentTopology()
        topology.newStream("letters", KafkaSpout(kafka.servers, topic, **options)).foreachArrow(output)
        return topology

    with start_local(topology(), name="letters", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    kafka.send(topic, "cdef")
    kafka.drop_before(topic, 0, 4)
    message = f"would fail again: KafkaSpout: {topic}-0 has lost offsets 2 to 3"
    with (
        pytest.raises(BatchFailedError, match=message),
        start_local(topology(), name="letters", checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=60)
    with start_local(topology(onDataLoss="earliest"), name="letters", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    assert sorted(row.value for row in output.rows) == [b"a", b"b", b"e", b"f"]
