"""What Kafka refuses, or cannot take now: a typed error with the way out, and the batch is kept."""

from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from tests.outputs.kafka.outlets import EXPECTED, outlet, rows, topology
from tests.support.kafka import PASSWORD, KafkaBroker
from trident import TridentTopology
from trident.errors import (
    BatchFailedError,
    GuaranteeError,
    OutputRefusedError,
    OutputUnavailableError,
    TopologyError,
)
from trident.outputs.kafka.errors import OutputErrors
from trident.spouts import FixedBatchSpout
from trident.testing.local import start_local
from trident_spouts.kafka import cluster

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for topics that a broker may not know yet."""
    monkeypatch.setattr(cluster, "_ABSENT_SECS", 0.2)


@pytest.mark.usefixtures("impatient")
def test_a_topic_that_does_not_exist_is_named(kafka: KafkaBroker, topic: str) -> None:
    with pytest.raises(OutputRefusedError) as caught:
        outlet(kafka.servers, topic)
    assert str(caught.value) == (
        f"s/1:writeKafka: cannot write at {kafka.servers}: there is no topic '{topic}'; create it, or correct the "
        f"topic's name"
    )


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", ["a/b", "x" * 300, "."])
def test_a_topic_of_a_tuple_with_a_name_that_no_topic_can_have_is_refused_at_once(
    kafka: KafkaBroker, topic: str, name: str
) -> None:
    kafka.create(topic)
    written = outlet(kafka.servers, topic, topic_field="t")
    with pytest.raises(OutputRefusedError, match=f"there is no topic '{name}'; create it"):
        written.take(pa.table({"value": ["a"], "t": [name]}), 1)


def test_a_tuple_that_names_no_topic_fails_its_batch_before_it_is_frozen(
    kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka.create(topic)

    def written(sure: bool) -> None:
        topology = TridentTopology()
        rows = [[("a", None)], [("b", "no topic")], [("c", None)]]
        lines = topology.newStream("lines", FixedBatchSpout("value string, t string", rows))
        lines = lines.filter("t", lambda t: t is None) if sure else lines
        lines.writeKafka(kafka.servers, topic, topicField="t", name="out")
        with start_local(topology, name="t", checkpointLocation=tmp_path, maxAttempts=1) as running:
            running.processAllAvailable(timeout=60)

    with pytest.raises(BatchFailedError, match="lines/1:writeKafka.deliverable: .*'no topic', which is not a valid t"):
        written(False)
    written(True)
    assert kafka.values(topic) == [b"a", b"c"]


@pytest.mark.usefixtures("impatient")
def test_a_topic_of_a_tuple_that_does_not_exist_is_named(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    written = outlet(kafka.servers, topic, topic_field="t")
    with pytest.raises(OutputRefusedError, match=f"there is no topic '{topic}-x'; create it"):
        written.take(pa.table({"value": ["a", "b"], "t": [None, f"{topic}-x"]}), 1)
    assert kafka.values(topic) == []
    kafka.create(f"{topic}-x")
    written.take(pa.table({"value": ["a", "b"], "t": [None, f"{topic}-x"]}), 1)
    assert (kafka.values(topic), kafka.values(f"{topic}-x")) == ([b"a"], [b"b"])


def test_a_message_that_is_too_large_stops_the_run_and_the_batch_is_kept(
    kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka.create(topic, max_message_bytes=120)  # more than the marker of a transaction
    with (
        pytest.raises(OutputRefusedError) as caught,
        start_local(topology(kafka.servers, topic), name=topic, checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=30)
    assert f"letters/1:writeKafka: cannot deliver a message at {kafka.servers}: " in str(caught.value)
    assert "; raise message.max.bytes in options, and max.message.bytes of the topic" in str(caught.value)
    assert "; batch 1 is frozen and kept: correct the cause and start again" in str(caught.value)
    assert kafka.values(topic) == []
    larger = ConfigEntry("max.message.bytes", "1000000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[larger])
    kafka.admin.incremental_alter_configs([change])[change].result(30)
    with start_local(topology(kafka.servers, topic), name=topic, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    assert sorted(value for value in kafka.values(topic) if value) == EXPECTED


def test_a_row_that_is_too_large_for_the_client_is_named(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    written = outlet(kafka.servers, topic, options={"message.max.bytes": 1000})
    with pytest.raises(OutputRefusedError, match=r"cannot send row 1 of the batch at .*; raise message\.max\.bytes"):
        written.take(rows("a", "b" * 2000), 1)
    assert kafka.values(topic) == []


def test_a_wrong_password_is_refused_and_not_shown(
    kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_REQUEST_SECS", 1.0)
    with pytest.raises(OutputRefusedError) as caught:
        outlet(kafka.secured, topic, options={**SASL, "sasl.password": "hush"})
    assert "Invalid username or password" in str(caught.value)
    assert str(caught.value).endswith("; check security.protocol, sasl.* and ssl.* in options")
    assert "hush" not in str(caught.value)


def test_a_password_may_be_in_the_environment(kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**SASL, "sasl.password": "env:KAFKA_PASSWORD"}
    with pytest.raises(
        TopologyError, match="s/1:writeKafka: sasl.password='env:KAFKA_PASSWORD': the environment varia"
    ):
        outlet(kafka.secured, topic, options=options)
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    kafka.create(topic)
    outlet(kafka.secured, topic, options=options).take(rows("a"), 1)
    assert kafka.values(topic) == [b"a"]


@pytest.mark.parametrize(("kind", "what"), [("TOPIC", "write"), ("TRANSACTIONAL_ID", "begin"), ("GROUP", "record")])
def test_a_missing_right_is_told(kafka: KafkaBroker, topic: str, kind: str, what: str) -> None:
    kafka.create(topic)
    named = topic if kind == "TOPIC" else f"trident/{topic}/out"
    parts = (ResourceType[kind], named, ResourcePatternType.LITERAL, "User:me", "*", AclOperation.WRITE)
    if kind == "GROUP":
        parts = (*parts[:-1], AclOperation.READ)
    for future in kafka.admin.create_acls([AclBinding(*parts, AclPermissionType.DENY)]).values():
        future.result(30)
    with pytest.raises(OutputRefusedError, match="the user needs the right to write to the topic, and for guarantee="):
        outlet(kafka.secured, topic, options={**SASL, "sasl.password": PASSWORD}).take(rows("a"), 1)
    for future in kafka.admin.delete_acls([AclBindingFilter(*parts, AclPermissionType.DENY)]).values():
        future.result(30)


def test_brokers_that_are_away_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_SECS", 1.0)
    with pytest.raises(OutputUnavailableError, match="s/1:writeKafka: cannot describe the topics at 127.0.0.1:1: "):
        outlet("127.0.0.1:1", "t")


def test_a_broker_without_transactions_is_told_from_one_that_is_away() -> None:
    errors = OutputErrors("s/1:writeKafka", "host:1")
    assert str(errors.error("begin", KafkaError(KafkaError._UNSUPPORTED_FEATURE))).endswith(
        "; if these brokers have no transactions, use guarantee='at-least-once': a batch may then be written twice "
        "after a crash"
    )
    assert isinstance(errors.error("begin", KafkaError(KafkaError._TRANSPORT)), OutputUnavailableError)
    errors.hear(KafkaError(KafkaError._AUTHENTICATION))
    assert isinstance(errors.error("begin", KafkaError(KafkaError._TIMED_OUT)), OutputRefusedError)


def test_at_least_once_is_less_than_a_topology_may_require(tmp_path: Path) -> None:
    made = topology("localhost:1", "t", guarantee="at-least-once")
    with pytest.raises(GuaranteeError, match="guarantees only: at-least-once; leave out guarantee='at-least-once'"):
        start_local(made, name="t", checkpointLocation=tmp_path, requireExactlyOnce=True)


def test_an_output_needs_a_log_that_lasts() -> None:
    with pytest.raises(
        TopologyError,
        match=r"output 'letters\.writeKafka' \(topic t\) outlives this process, so its batches must be in",
    ):
        start_local(topology("localhost:1", "t"), name="t")
