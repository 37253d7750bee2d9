"""A batch is in Kafka once: whatever kills the driver or the broker, and whoever else writes under its name."""

import multiprocessing
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from tests.outputs.kafka.outlets import EXPECTED, MID, outlet, rows, run, topology
from tests.support.kafka import KafkaBroker
from trident import TridentTopology
from trident.base import crash_points
from trident.base.attempt import Lease
from trident.errors import FencedError, OutputConflictError, OutputUnavailableError
from trident.outputs.kafka.record import Place
from trident.spouts import FeederBatchSpout
from trident.testing.local import start_local


@pytest.fixture(scope="module")
def forks() -> Any:
    """Children from a server that has everything imported: a driver's life takes no second."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.outputs.kafka.outlets", "trident.compiler.arrow.engine"])
    return context


def live(forks: Any, kafka: KafkaBroker, topic: str, folder: Path, crash_at: str, **options: Any) -> None:
    """Run one driver, up to a crash point or to its end."""
    child = forks.Process(target=run, args=(kafka.servers, topic, folder, crash_at, options))
    child.start()
    child.join(60)
    assert child.exitcode == -(signal.SIGKILL if crash_at else signal.SIGUSR1), f"life up to {crash_at or 'the end'}"


def values(kafka: KafkaBroker, topic: str) -> list[bytes]:
    return sorted(value for value in kafka.values(topic) if value is not None)


# --- the driver dies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "in_kafka"),
    [
        pytest.param("output.before", 2, marks=pytest.mark.soak),
        (MID, 2),
        ("output.staged", 2),
        ("output.published", 3),
        pytest.param("committed.before", 3, marks=pytest.mark.soak),
    ],
)
def test_a_batch_is_there_once_whatever_kills_the_driver(
    kafka: KafkaBroker, topic: str, tmp_path: Path, forks: Any, point: str, in_kafka: int
) -> None:
    """Before the transaction, within it, before and after its commit, before the log knows of it."""
    kafka.create(topic, 2)
    live(forks, kafka, topic, tmp_path, f"{point}:3")
    deadline = time.monotonic() + 10
    while len(values(kafka, topic)) < 4 * in_kafka:  # a commit is confirmed before all readers see it
        assert time.monotonic() < deadline
    assert values(kafka, topic) == EXPECTED[: 4 * in_kafka], "what the dead driver had committed"
    live(forks, kafka, topic, tmp_path, "")
    assert values(kafka, topic) == EXPECTED


def test_a_driver_that_dies_again_while_it_goes_on_writes_nothing_twice(
    kafka: KafkaBroker, topic: str, tmp_path: Path, forks: Any
) -> None:
    kafka.create(topic, 2)
    for point in ("committed.before:2", "output.staged:1", "output.published:1", ""):
        live(forks, kafka, topic, tmp_path, point)
    assert values(kafka, topic) == EXPECTED


def test_at_least_once_writes_a_batch_again_and_its_headers_tell(
    kafka: KafkaBroker, topic: str, tmp_path: Path, forks: Any
) -> None:
    kafka.create(topic)
    for point in ("committed.before:2", ""):
        live(forks, kafka, topic, tmp_path, point, guarantee="at-least-once")
    found = kafka.messages(topic)
    assert len(found) == 28, "batch 2 is there twice"
    unique = {(tuple(message.headers()), message.value()) for message in found}
    assert len(unique) == 24
    assert found[0].headers() == [
        ("trident.output", f"{topic}/letters.writeKafka".encode()), ("trident.txid", b"1"), ("trident.row", b"0")
    ]  # fmt: skip


# --- the broker dies ------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_broker_that_dies_meanwhile_holds_each_tuple_once(mortal: KafkaBroker, topic: str, tmp_path: Path) -> None:
    mortal.create(topic, 2)
    feeder, topology = FeederBatchSpout("value string"), TridentTopology()
    topology.newStream("numbers", feeder).writeKafka(mortal.servers, topic)
    with start_local(topology, name=topic, checkpointLocation=tmp_path) as running:
        for number in range(60):
            feeder.feed([f"{number}-{row}" for row in range(5)])
        time.sleep(0.2)
        mortal.kill()
        time.sleep(0.3)
        mortal.start()
        running.processAllAvailable(timeout=60)
    assert values(mortal, topic) == sorted(f"{number}-{row}".encode() for number in range(60) for row in range(5))


# --- two drivers ----------------------------------------------------------------------------------------------------


@pytest.fixture
def at_point() -> Iterator[Any]:
    """Do something at the first visit of a crash point."""

    def listen(point: str, action: Any) -> None:
        def reached(name: str) -> None:
            if name == point:
                crash_points.listen(None)
                action()

        crash_points.listen(reached)

    yield listen
    crash_points.listen(None)


def test_a_driver_that_was_taken_over_within_its_transaction_cannot_commit_it(
    kafka: KafkaBroker, topic: str, at_point: Any
) -> None:
    kafka.create(topic)
    sleeper = outlet(kafka.servers, topic)
    sleeper.take(rows("a"), 1)
    later: list[Any] = []

    def take_over() -> None:
        later.append(outlet(kafka.servers, topic, epoch=2, last_frozen=2))
        later[0].take(rows("b"), 2)

    at_point("output.staged", take_over)
    with pytest.raises(OutputUnavailableError, match=r"another producer uses its transactional\.id"):
        sleeper.take(rows("b"), 2)
    assert values(kafka, topic) == [b"a", b"b"]
    for letter, txid in (("b", 2), ("c", 3)):
        with pytest.raises(FencedError, match="another driver .epoch 2; this driver has 1. has taken over this output"):
            sleeper.take(rows(letter), txid)
    later[0].take(rows("c"), 3)  # the sleeper has not begun a producer, which would have fenced this one out
    later[0].take(rows("c"), 3)
    assert values(kafka, topic) == [b"a", b"b", b"c"]
    later[0].close()


def test_a_transaction_that_kafka_ended_while_the_driver_slept_is_written_again(tmp_path: Path, at_point: Any) -> None:
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
    feeder, topology = FeederBatchSpout("value string"), TridentTopology()
    with KafkaBroker(tmp_path / "kafka", often) as own:
        own.create("out", 2)
        options = {"transaction.timeout.ms": 1000}
        topology.newStream("numbers", feeder).writeKafka(own.servers, "out", options=options)
        slept = list[list[bytes]]()

        def sleep() -> None:
            time.sleep(4)
            slept.append(values(own, "out"))

        with start_local(topology, name="t", checkpointLocation=tmp_path / "log") as running:
            feeder.feed(["a", "b"], wait=True, timeout=60)
            at_point("output.staged", sleep)
            feeder.feed(["c", "d"])
            running.processAllAvailable(timeout=60)
            feeder.feed(["e"], wait=True, timeout=60)
        assert slept == [[b"a", b"b"]] and values(own, "out") == [b"a", b"b", b"c", b"d", b"e"]


# --- the record -----------------------------------------------------------------------------------------------------


def test_the_record_is_the_offset_of_a_group_of_the_outputs_own(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    written = outlet(kafka.servers, topic)
    written.take(rows("a", "b"), 7)
    written.take(rows(), 8)
    written.close()
    place = written._topic_now(Place(kafka.admin.describe_cluster().result(30).cluster_id))
    assert written._keeper.read() == (7, 2, "uuid", f"{topic}/out", place, Lease(1, ""), 0, 0)


def test_another_log_is_refused_and_fences_nobody_out(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    written = outlet(kafka.servers, topic)
    written.take(rows("a"), 1)
    with pytest.raises(OutputConflictError) as caught:
        outlet(kafka.servers, topic, log="other")
    assert str(caught.value) == (
        f"s/1:writeKafka: the consumer group 'trident/{topic}/out' belongs to another log (uuid uuid), not to this "
        f"one (uuid other), up to batch 1: its batches have other txids. Start with the checkpointLocation that "
        f"belongs to it; or, to write the stream to the topic again from its beginning, delete the group, or give "
        f"the output another name="
    )
    written.take(rows("b"), 2)
    assert values(kafka, topic) == [b"a", b"b"]
    written.close()


def test_an_old_copy_of_the_log_is_refused(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    outlet(kafka.servers, topic).take(rows("a"), 3)
    with pytest.raises(OutputConflictError, match="says that batch 3 is in Kafka, but the last batch in the log is 2"):
        outlet(kafka.servers, topic, last_frozen=2)


def test_a_batch_of_other_rows_is_refused(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    outlet(kafka.servers, topic).take(rows("a"), 3)
    with pytest.raises(OutputConflictError, match="says that batch 3 has 1 rows in Kafka, but the log has 2"):
        outlet(kafka.servers, topic, last_frozen=3).take(rows("a", "b"), 3)


def test_a_lost_record_is_told_where_a_batch_may_be_there_and_there_is_a_way_out(
    kafka: KafkaBroker, topic: str
) -> None:
    kafka.create(topic)
    written = outlet(kafka.servers, topic)
    written.take(rows("a"), 1)
    written.close()
    group = f"trident/{topic}/out"
    kafka.admin.delete_consumer_groups([group])[group].result(30)
    again = outlet(kafka.servers, topic, last_frozen=1)
    with pytest.raises(OutputConflictError, match=r"no longer has a record of this output .*, and batch 1 may be in"):
        again.take(rows("a"), 1)
    outlet(kafka.servers, topic, last_frozen=1, guarantee="at-least-once").take(rows("a"), 1)
    last = outlet(kafka.servers, topic, last_frozen=1)
    last.take(rows("b"), 2)
    last.take(rows("b"), 2)
    assert values(kafka, topic) == [b"a", b"a", b"b"]


def test_a_group_with_consumers_of_its_own_is_refused(kafka: KafkaBroker, topic: str) -> None:
    from confluent_kafka import Consumer

    kafka.create(topic)
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": topic})
    consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    consumer.close()
    with pytest.raises(OutputConflictError, match="has offset 5 with the metadata None, which no output wrote"):
        outlet(kafka.servers, topic, options={"transactional.id": topic})


def test_outputs_of_one_topology_do_not_disturb_each_other(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    kafka.create(topic)
    with start_local(topology(kafka.servers, topic, "two"), name=topic, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    assert values(kafka, topic) == sorted([*EXPECTED, *EXPECTED])
