"""A KafkaSpout over a real broker: where it begins, what it reads, what comes and grows meanwhile, how far it is."""

import datetime
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.kafka.reads import drained, emitted, planned, read, values
from tests.support.kafka import PASSWORD, KafkaBroker, self_signed
from trident import Count, TridentTopology
from trident.errors import MalformedInputError, SourceUnreadableError, TopologyError
from trident.spouts import KafkaSpout
from trident.state import MemoryMapState
from trident.testing import TestOutput
from trident.testing.local import start_local
from trident_spouts.executor import ReadSoFar
from trident_spouts.kafka import cluster
from trident_spouts.kafka.cluster import Cluster

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}


def test_a_message_has_the_fields_of_sparks_source(kafka: KafkaBroker, topic: str) -> None:
    before = datetime.datetime.now(datetime.UTC)
    kafka.create(topic, 2)
    kafka.send(topic, ["cow", None], 1, key=b"\x00k", headers=[("h", b"1"), ("h", None)])
    kafka.send(topic, [""])
    executor = KafkaSpout(kafka.servers, topic).open()
    plan = planned(executor)
    named = {"id": plan[topic]["id"], "cluster": kafka.admin.describe_cluster().result(30).cluster_id}
    assert plan == {topic: {**named, "from": [0, 0], "to": [1, 2], "epochs": [0, 0], "begun": [0, 0]}}
    rows = emitted(executor, plan).arrow().sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()
    assert all(abs(row.pop("timestamp") - before) < datetime.timedelta(minutes=1) for row in rows)
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert rows == [
        {"key": None, "value": b"", "topic": topic, "partition": 0, "offset": 0, "headers": None},
        {"key": b"\x00k", "value": b"cow", "topic": topic, "partition": 1, "offset": 0, "headers": headers},
        {"key": b"\x00k", "value": None, "topic": topic, "partition": 1, "offset": 1, "headers": headers},
    ]
    executor.close()


def test_messages_count_for_the_latency_from_their_own_times(kafka: KafkaBroker, topic: str) -> None:
    """The driver knows each time; a reader elsewhere leaves that of the last message of each partition."""
    kafka.create(topic, 2)
    for seconds in (1, 5, 3):
        kafka.send(topic, ["a"], timestamp=1_000_000 + seconds * 1000)
    kafka.send(topic, ["b"], 1, timestamp=2_000_000)
    executor = KafkaSpout(kafka.servers, topic).open()
    emission = emitted(executor, planned(executor))
    assert emission.source_times == []
    emission.taken.set()
    emission.look()  # as before Spark reads
    assert emission.source_times == [(1003.0, 1003.0, 3), (2000.0, 2000.0, 1)]
    emission.arrow()
    assert emission.source_times == [(time, time, 1) for time in (1001.0, 1003.0, 1005.0, 2000.0)]
    executor.close()


@pytest.mark.parametrize("wrong", [1_790_000_000_000_000_000, 1_790_000_000_000_000, 253_402_300_800_000])
def test_a_time_that_no_datetime_holds_is_named_and_can_be_left_out(wrong: int, kafka: KafkaBroker, topic: str) -> None:
    """A program that gives nanoseconds or microseconds in place of milliseconds, to a topic that takes any time."""
    kafka.create(topic, message_timestamp_after_max_ms=2**63 - 1)
    kafka.send(topic, ["wrong"], timestamp=wrong)
    kafka.send(topic, ["right"])
    executor = KafkaSpout(kafka.servers, topic).open()
    message = f"the message at {topic}-0, offset 0 has the timestamp {wrong}: expected milliseconds since 19"
    with pytest.raises(MalformedInputError, match=message):
        emitted(executor, planned(executor)).arrow()
    executor.close()
    kafka.drop_before(topic, 0, 1)
    assert drained(KafkaSpout(kafka.servers, topic, onDataLoss="earliest").open())[0] == ["right"]


def test_the_last_time_of_the_year_9999_is_read(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic, message_timestamp_after_max_ms=2**63 - 1)
    kafka.send(topic, ["a"], timestamp=253_402_300_799_999)
    executor = KafkaSpout(kafka.servers, topic).open()
    (time,) = emitted(executor, planned(executor)).arrow().column("timestamp").to_pylist()
    executor.close()
    assert time == datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, datetime.UTC)


# --- where it begins ------------------------------------------------------------------------------------------------


def test_latest_stays_where_it_was_when_the_stream_began(kafka: KafkaBroker, topic: str) -> None:
    """The first batch has no message: it holds the place over a restart."""
    kafka.send(kafka.create(topic), ["before"])
    spout = KafkaSpout(kafka.servers, topic, startingOffsets="latest")
    executor = spout.open()
    first = planned(executor)
    assert (first[topic]["from"], first[topic]["to"]) == ([1], [1])
    assert emitted(executor, first).arrow().num_rows == 0
    executor.close()
    kafka.send(topic, ["after"])
    assert drained(spout.open(), first)[0] == ["after"]


def test_latest_misses_nothing_while_the_first_batch_is_planned_again(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), ["before"])
    executor = KafkaSpout(kafka.servers, topic, startingOffsets="latest").open()
    planned(executor)
    kafka.send(topic, ["after"])
    assert drained(executor)[0] == ["after"]


def test_a_time_begins_at_the_first_message_from_then_on(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic, 2)
    noon = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    for minute in range(3):
        kafka.send(topic, [minute], timestamp=int(noon.timestamp() * 1000) + minute * 60_000)
    kafka.send(topic, ["early"], 1, timestamp=1)
    assert read(kafka.servers, topic, startingOffsets=noon + datetime.timedelta(seconds=1)) == ["1", "2"]


def test_given_offsets_are_where_it_begins(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic, 2)
    kafka.send(topic, "abc")
    kafka.send(topic, "xyz", 1)
    assert read(kafka.servers, topic, startingOffsets={topic: {0: 0, 1: 2}}) == ["a", "b", "c", "z"]
    with pytest.raises(TopologyError, match=f"startingOffsets begins {topic}-1 at 4; expected an offset from 0 to 3"):
        read(kafka.servers, topic, startingOffsets={topic: {0: 0, 1: 4}})
    with pytest.raises(
        TopologyError, match=f"startingOffsets names {topic}-2, which is not one of the partitions to rea"
    ):
        read(kafka.servers, topic, startingOffsets={topic: {2: 0}})


def test_a_topic_that_does_not_exist_is_named(kafka: KafkaBroker, topic: str) -> None:
    with pytest.raises(SourceUnreadableError) as caught:
        read(kafka.servers, [topic])
    assert str(caught.value) == (
        f"KafkaSpout: cannot read at {kafka.servers}: there is no topic '{topic}'; create it, or correct topics="
    )


# --- what comes meanwhile ---------------------------------------------------------------------------------------------


def test_a_partition_that_is_added_is_read_from_its_beginning(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "ab")
    executor = KafkaSpout(kafka.servers, topic, startingOffsets="latest").open()
    position = planned(executor)
    kafka.grow(topic, 3)
    kafka.send(topic, "yz", 2)
    assert drained(executor, position)[0] == ["y", "z"]
    executor.close()


def test_topics_of_a_pattern_are_read_when_they_appear(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(f"{topic}-1"), "a")
    kafka.send(kafka.create(f"more-{topic}-1"), "no")
    executor = KafkaSpout(kafka.servers, pattern=f"{topic}-.*", startingOffsets="latest").open()
    position = planned(executor)
    assert [*position] == [f"{topic}-1"]
    kafka.send(kafka.create(f"{topic}-2"), "bc")
    rows, position = drained(executor, position)
    assert rows == ["b", "c"] and [*position] == [f"{topic}-1", f"{topic}-2"]
    executor.close()


@pytest.mark.parametrize("starting", ["latest", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)])
def test_a_stream_without_topics_has_begun(kafka: KafkaBroker, topic: str, starting: Any) -> None:
    """Another program reads a topic that appeared while no program ran."""
    spout = KafkaSpout(kafka.servers, pattern=f"{topic}-.*", startingOffsets=starting)
    executor = spout.open()
    first = planned(executor)
    assert first == {} and emitted(executor, first).arrow().num_rows == 0
    assert planned(executor, first) is None
    executor.close()
    kafka.send(kafka.create(f"{topic}-1"), "a", timestamp=1)
    assert drained(spout.open(), first)[0] == ["a"]


def test_a_topology_keeps_that_its_stream_without_topics_has_begun(
    kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    def run() -> dict[Any, Any]:
        topology, spout = TridentTopology(), KafkaSpout(kafka.servers, pattern=f"{topic}-.*", startingOffsets="latest")
        topology.newStream("s", spout).groupBy("value").persistentAggregate(
            MemoryMapState.opaque(), Count(), "n", name="counts"
        )
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=20)
            return dict(running.state("counts").items())

    assert run() == {}
    kafka.send(kafka.create(f"{topic}-1"), "a")
    assert run() == run() == {b"a": 1}


def test_a_stream_that_reads_other_topics_keeps_its_place_in_the_former_ones(kafka: KafkaBroker, topic: str) -> None:
    one, two = kafka.create(f"{topic}-1"), kafka.create(f"{topic}-2")
    kafka.send(one, "ab")
    kafka.send(two, "x")
    _, position = drained(KafkaSpout(kafka.servers, one).open())
    kafka.send(one, "c")
    rows, position = drained(KafkaSpout(kafka.servers, two, startingOffsets="latest").open(), position)
    assert rows == ["x"], "a topic that comes later begins at its beginning"
    assert drained(KafkaSpout(kafka.servers, [one, two]).open(), position)[0] == ["c"]


# --- gaps -----------------------------------------------------------------------------------------------------------


def test_aborted_messages_do_not_count_and_open_ones_wait(kafka: KafkaBroker, topic: str) -> None:
    from confluent_kafka import Producer

    kafka.create(topic)
    kafka.send_transaction(topic, ["lost"], commit=False)
    kafka.send_transaction(topic, ["one"], commit=True)
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    kafka.send(topic, ["behind"])
    executor = KafkaSpout(kafka.servers, topic).open()
    rows, position = drained(executor)
    assert rows == ["one"] and position[topic]["to"] == [4]
    assert read(kafka.servers, topic, isolationLevel="read_uncommitted") == ["lost", "one", "open", "behind"]
    producer.commit_transaction(30)
    deadline = time.monotonic() + 30
    while planned(executor, position) is None:  # a broker writes the markers of a commit after it has confirmed it
        assert time.monotonic() < deadline
    assert drained(executor, position)[0] == ["open", "behind"]
    # A range may end in offsets without a message: the message behind them belongs to a later batch.
    assert read(kafka.servers, topic, maxOffsetsPerBatch=1) == ["one", "open", "behind"]
    executor.close()


def test_a_range_of_aborted_messages_alone_is_an_empty_batch(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    kafka.send_transaction(topic, ["lost"] * 5, commit=False)
    executor = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=3).open()
    rows, position = drained(executor)
    assert rows == [] and position[topic]["to"] == [6]
    executor.close()


def test_what_compaction_took_is_no_loss(kafka: KafkaBroker, topic: str) -> None:
    options: dict[str, Any] = {"cleanup_policy": "compact", "segment_ms": 100, "min_cleanable_dirty_ratio": 0.01}
    kafka.create(topic, **options, max_compaction_lag_ms=100, delete_retention_ms=0)
    kafka.send(topic, ["old"] * 50, key=b"k")
    deadline = time.monotonic() + 30
    while len(kafka.values(topic)) > 10:
        assert time.monotonic() < deadline, "the broker compacts nothing"
        time.sleep(0.3)
        kafka.send(topic, ["new"], key=b"k")  # a new message ends the segment, and only ended ones are compacted
    there = kafka.values(topic)
    executor = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=7).open()
    rows, position = drained(executor)
    assert set(rows) <= {"old", "new"} and len(rows) <= len(there) and rows[-1] == "new"
    assert position[topic]["to"][0] > 50
    executor.close()


# --- planning -------------------------------------------------------------------------------------------------------


def test_a_batch_shares_its_limit_among_partitions(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic, 2)
    kafka.send(topic, range(30))
    kafka.send(topic, range(10), 1)
    executor = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=8).open()
    plan = planned(executor)
    assert plan[topic]["to"] == [6, 2]
    assert planned(executor, plan)[topic]["from"] == [6, 2]
    assert Counter(drained(executor)[0]) == Counter(map(str, [*range(30), *range(10)]))
    executor.close()


@pytest.mark.parametrize("many", [100, pytest.param(1000, marks=pytest.mark.soak)])
def test_the_number_of_requests_does_not_grow_with_the_partitions(kafka: KafkaBroker, topic: str, many: int) -> None:
    """Among those of a plan are some of the opening, whose statistics come late, and a refresh of the metadata."""
    kafka.create(f"{topic}-1", 10)
    kafka.create(f"{topic}-2", many)
    kafka.send(f"{topic}-1", "a", 9)
    kafka.send(f"{topic}-2", "a", many - 1)
    sent = [requests_of_a_plan(kafka, name) for name in (f"{topic}-1", f"{topic}-2")]
    assert all(0 < sum(each.values()) <= 8 for each in sent), f"requests of one plan: {sent}"


def requests_of_a_plan(kafka: KafkaBroker, topic: str) -> Counter[str]:
    """Return how many requests of each sort a plan makes that has a message to read, by librdkafka's own statistics."""
    executor: Any = KafkaSpout(kafka.servers, topic, startingOffsets="latest").open()
    told: list[Counter[str]] = []

    def told_by(statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        told.append(sum((Counter(broker["req"]) for broker in brokers), Counter()))

    config: Any = {"bootstrap.servers": kafka.servers, "statistics.interval.ms": 100, "stats_cb": told_by}
    executor._planner._cluster = watched = Cluster(config, "read_committed")

    def so_far() -> Counter[str]:
        told.clear()
        deadline = time.monotonic() + 10
        while len(told) < 3:  # statistics are told after the fact
            assert time.monotonic() < deadline
            watched._admin.poll(0.1)
        return told[-1]

    position = planned(executor)
    kafka.send(topic, ["more"])
    before = so_far()
    assert planned(executor, position)[topic]["to"][0] == position[topic]["to"][0] + 1
    after = so_far()
    executor.close()
    return Counter(
        {sort: after[sort] - before[sort] for sort in ("ListOffsets", "Metadata", "DescribeTopicPartitions")}
    )


def test_an_idle_stream_has_no_batch_and_tells_how_far_it_is(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic, 2)
    kafka.send(topic, range(5))
    executor: Any = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=3).open()
    assert executor.read_so_far(None) is None
    first = planned(executor)
    assert executor.read_so_far(None) == ReadSoFar(0, 5, "offsets", {f"{topic}-0": 5, f"{topic}-1": 0})
    assert executor.read_so_far(first) == ReadSoFar(3, 5, "offsets", {f"{topic}-0": 2, f"{topic}-1": 0})
    kafka.send(topic, range(4), 1)
    _, position = drained(executor, first)
    assert executor.read_so_far(first) == ReadSoFar(3, 9, "offsets", {f"{topic}-0": 2, f"{topic}-1": 4})
    assert executor.read_so_far(position) == ReadSoFar(9, 9, "offsets", {f"{topic}-0": 0, f"{topic}-1": 0})
    assert planned(executor, position) is None
    executor.close()


# --- secrets --------------------------------------------------------------------------------------------------------


def test_a_user_is_known_by_a_password_from_the_environment(
    kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.send(kafka.create(topic), "ab")
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    options = {**SASL, "sasl.password": "env:KAFKA_PASSWORD"}
    assert read(kafka.secured, topic, options=options) == ["a", "b"]


def test_a_user_is_known_over_tls_by_scram(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "ab")
    address, options = kafka.encrypted
    assert read(address, topic, options=options) == ["a", "b"]


def test_a_broker_with_another_certificate_is_refused(
    kafka: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_REQUEST_SECS", 1.0)
    address, options = kafka.encrypted
    other = options | {"ssl.ca.location": str(self_signed(tmp_path) / "certificate.pem")}
    with pytest.raises(
        SourceUnreadableError, match=r"certificate verify failed.*; check security\.protocol, sasl\.\* "
    ):
        read(address, topic, options=other)


def test_a_wrong_password_is_refused_and_not_shown(
    kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_REQUEST_SECS", 1.0)
    with pytest.raises(SourceUnreadableError) as caught:
        read(kafka.secured, topic, options={**SASL, "sasl.password": "hush"})
    assert "Invalid username or password" in str(caught.value)
    assert str(caught.value).endswith("; check security.protocol, sasl.* and ssl.* in options")
    assert "hush" not in str(caught.value)


# --- in a topology --------------------------------------------------------------------------------------------------


def test_a_topology_reads_on_where_it_ended(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    kafka.send(kafka.create(topic, 2), "abc")
    output = TestOutput()

    def topology() -> TridentTopology:
        topology = TridentTopology()
        spout = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=2)
        topology.newStream("letters", spout).each("value", bytes.decode, "letter string").foreachArrow(output)
        return topology

    for more in ("", "de", "f"):
        kafka.send(topic, more, 1)
        with start_local(topology(), name="letters", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=60)
            assert running.readSoFar["letters"].done == running.readSoFar["letters"].total
    assert sorted(row.letter for row in output.rows) == [*"abcdef"]


def test_values_are_in_the_order_of_their_partition(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), range(25_000))
    executor = KafkaSpout(kafka.servers, topic).open()
    table = emitted(executor, planned(executor)).arrow()
    assert table.column("offset").to_pylist() == [*range(25_000)]
    assert values(table) == [str(number) for number in range(25_000)]
    executor.close()
