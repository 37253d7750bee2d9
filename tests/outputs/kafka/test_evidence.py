"""The record of an output proves where it was written, and by whom; an output that fell back is told."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from tests.outputs.kafka.outlets import Memory, outlet, rows
from tests.support.kafka import KafkaBroker
from tests.support.waiting import wait_until
from trident import TridentTopology
from trident.errors import FencedError, OutputConflictError
from trident.spouts import FeederBatchSpout
from trident.testing.local import start_local


def rewritten(kafka: KafkaBroker, name: str, txid: int | None = None, **parts: Any) -> None:
    """Change the record of an output, as a restored or copied group has it; None takes a part away."""
    group = f"trident/{name}/out"
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(name, 0)])

    def stored() -> Any:
        listed = kafka.admin.list_consumer_group_offsets([asked], require_stable=True)[group]
        return listed.result(30).topic_partitions[0]

    wait_until(lambda: stored().metadata)  # a transaction that has just ended may not be stable yet
    record = {name: part for name, part in (json.loads(stored().metadata) | parts).items() if part is not None}
    offset = TopicPartition(name, 0, stored().offset if txid is None else txid, json.dumps(record))
    altered = kafka.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [offset])])
    altered[group].result(30)


def written(kafka: KafkaBroker, topic: str, *txids: int, **options: Any) -> None:
    """Write a batch of one row for each txid, in one run."""
    one = outlet(kafka.servers, topic, **options)
    for txid in txids:
        one.take(rows(f"row {txid}"), txid)
    one.close()


def values(kafka: KafkaBroker, topic: str) -> list[str]:
    return [value.decode() for value in kafka.values(topic) if value is not None]


def test_an_output_that_fell_back_between_two_runs_is_told_and_can_go_on(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    written(kafka, topic, 1, 2)
    with pytest.raises(OutputConflictError) as caught:
        outlet(kafka.servers, topic, epoch=2, last_frozen=5, memory=Memory(5))
    assert str(caught.value) == (
        f"s/1:writeKafka: the consumer group 'trident/{topic}/out' says that batch 2 is the last one in Kafka, but "
        f"the output has written batch 5: the brokers were restored from an older copy or have lost records, so later "
        f"batches are missing in the topic; or the output wrote to another topic= or with guarantee='at-least-once' "
        f"since. To continue after batch 5, without the missing batches, delete the group (kafka-consumer-groups "
        f"--delete --group trident/{topic}/out). Nothing was written"
    )
    group = f"trident/{topic}/out"
    kafka.admin.delete_consumer_groups([group])[group].result(30)
    written(kafka, topic, 6, epoch=3, last_frozen=5, memory=Memory(5))
    written(kafka, topic, 7, epoch=4, last_frozen=6, memory=Memory(6))
    assert values(kafka, topic) == ["row 1", "row 2", "row 6", "row 7"]


@pytest.mark.parametrize("what", ["group", "topic", "other"])
def test_an_output_whose_record_is_gone_goes_on_whatever_starts_find_no_rows(
    kafka: KafkaBroker, topic: str, what: str
) -> None:
    """The record is lost, and each start after that knows where the output began again."""
    kafka.create(topic)
    written(kafka, topic, 1, 2)
    group, there = f"trident/{topic}/out", topic
    if what == "group":
        kafka.admin.delete_consumer_groups([group])[group].result(30)
    elif what == "topic":
        kafka.delete(topic)
        kafka.create(topic)
    else:
        there = f"{topic}-2"
        kafka.create(there)
    for epoch in (2, 3, 4):
        written(kafka, there, epoch=epoch, last_frozen=2, memory=Memory(2))
    written(kafka, there, 3, epoch=5, last_frozen=2, memory=Memory(2))
    with pytest.raises(
        OutputConflictError, match="batch 3 is the last one in Kafka, but the output has written batch 4"
    ):
        written(kafka, there, epoch=6, last_frozen=4, memory=Memory(4))
    assert values(kafka, there)[-1] == "row 3"


def test_a_batch_in_doubt_when_the_record_was_lost_stays_in_doubt_at_later_starts(
    kafka: KafkaBroker, topic: str
) -> None:
    """Batch 2 is frozen, the driver died, and the record was lost: whether Kafka has it, nobody knows."""
    kafka.create(topic)
    written(kafka, topic, 1, 2)
    group = f"trident/{topic}/out"
    kafka.admin.delete_consumer_groups([group])[group].result(30)
    for epoch in (2, 3):
        with pytest.raises(OutputConflictError, match="batch 2 may be in Kafka already"):
            written(kafka, topic, 2, epoch=epoch, last_frozen=2, memory=Memory(1))
    assert values(kafka, topic) == ["row 1", "row 2"]


def test_a_first_record_falls_back_like_any_other(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    written(kafka, topic)
    with pytest.raises(
        OutputConflictError, match="batch 0 is the last one in Kafka, but the output has written batch 2"
    ):
        written(kafka, topic, epoch=2, last_frozen=2, memory=Memory(2))


def test_an_output_that_fell_back_within_a_run_is_told(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    one = outlet(kafka.servers, topic)
    one.take(rows("a"), 1)
    one.take(rows("b"), 2)
    one.close()  # as after an error
    rewritten(kafka, topic, txid=1)
    with pytest.raises(
        OutputConflictError, match="batch 1 is the last one in Kafka, but the output has written batch 2"
    ):
        one.take(rows("c"), 3)
    assert values(kafka, topic) == ["a", "b"]


def test_a_copy_of_the_log_is_refused_and_fences_nobody_out(kafka: KafkaBroker, topic: str) -> None:
    """Both copies have the uuid and go on to the same txids."""
    kafka.create(topic)
    first = outlet(kafka.servers, topic, epoch=2, token="one", memory=Memory(tokens=["one"]))
    first.take(rows("a"), 1)
    for epoch, problem in ((2, "epoch is 2"), (3, "epoch is 3")):
        with pytest.raises(
            OutputConflictError, match=f"by a driver of epoch 2 that this log did not start .*{problem}"
        ):
            outlet(kafka.servers, topic, epoch=epoch, last_frozen=1, token="two", memory=Memory(tokens=["two"]))
    first.take(rows("b"), 2)
    first.close()


def test_a_driver_that_starts_late_is_told_of_the_later_one(kafka: KafkaBroker, topic: str) -> None:
    """It took the log first: no copy of the log is at work."""
    kafka.create(topic)
    written(kafka, topic, 1, epoch=3)
    with pytest.raises(FencedError, match=r"another driver \(epoch 3; this driver has 2\) has taken over this output"):
        outlet(kafka.servers, topic, epoch=2, last_frozen=1)


def test_a_record_that_a_mirror_copied_is_refused(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    written(kafka, topic, 1)
    rewritten(kafka, topic, cluster="theirs")
    with pytest.raises(
        OutputConflictError, match=r"was written in the cluster theirs, but is now in the cluster .* \(a"
    ):
        outlet(kafka.servers, topic, last_frozen=1)


def test_the_record_of_a_topic_that_was_made_anew_says_nothing_of_the_new_one(
    kafka: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch that the former topic had is not skipped in the new one."""
    kafka.create(topic)
    written(kafka, topic, 1, 2)
    rewritten(kafka, topic, topic="former")
    with caplog.at_level(logging.WARNING, "trident.outputs"):
        written(kafka, topic, 2, 3, last_frozen=2, memory=Memory(1))
    assert "was deleted and recreated (id former before," in caplog.text
    assert values(kafka, topic) == ["row 1", "row 2", "row 2", "row 3"]  # this topic plays both


def test_a_topic_made_anew_between_runs_and_in_a_run_is_told_and_gets_later_batches_once(
    kafka: KafkaBroker, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create(topic)

    def anew() -> None:
        kafka.delete(topic)
        kafka.create(topic)

    def run(*batches: Any) -> None:
        feeder, topology = FeederBatchSpout("value string"), TridentTopology()
        topology.newStream("letters", feeder).writeKafka(kafka.servers, topic)
        with start_local(topology, name=topic, checkpointLocation=tmp_path) as running:
            for batch in batches:
                anew() if batch is None else feeder.feed([batch], wait=True, timeout=60)
            running.stop()

    with caplog.at_level(logging.WARNING, "trident.outputs"):
        run("a", "b")
        assert not caplog.records
        anew()
        run("c", None, "d", "e")
    told = [record.getMessage() for record in caplog.records if record.name == "trident.outputs"]
    assert values(kafka, topic) == ["d", "e"]
    assert (
        len(told) == 2
        and "although batch 2 was written: Kafka deleted the record" in told[0]
        and "recreated (id" in told[1]
    )
