"""A broker that is away for a while: at the start, in the middle of a batch, for a minute."""

import threading
import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.support.kafka import PASSWORD, KafkaBroker
from trident import TridentTopology
from trident.errors import BatchFailedError, SourceUnreadableError
from trident.spouts import KafkaSpout
from trident.testing import TestOutput
from trident.testing.local import start_local
from trident_spouts.kafka import cluster
from trident_spouts.kafka.cluster import Cluster


def counting(
    kafka: KafkaBroker, topic: str, output: TestOutput, slow: threading.Event | None = None
) -> TridentTopology:
    """Return a topology that hands over each message; with `slow`, it waits in the midst of its second batch."""
    topology = TridentTopology()
    seen: list[bytes] = []

    def wait(value: bytes) -> None:
        seen.append(value)
        if slow is not None and len(seen) == 15:
            slow.wait(60)

    spout = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=10)
    topology.newStream("numbers", spout).peek("value", wait).foreachArrow(output)
    return topology


def check_all(output: TestOutput, count: int) -> None:
    assert Counter(int(row.value) for row in output.rows) == Counter(range(count))


def test_a_topology_waits_for_a_broker_at_its_start(mortal: KafkaBroker, topic: str, tmp_path: Path) -> None:
    mortal.send(mortal.create(topic), range(20))
    former = Cluster({"bootstrap.servers": mortal.servers, "log_level": 2}, "read_committed")
    assert former.ends([(topic, 0)]) == {(topic, 0): 20}
    mortal.kill()
    output = TestOutput()
    with start_local(counting(mortal, topic, output), name="t", checkpointLocation=tmp_path) as running:
        time.sleep(1)
        mortal.start()
        running.processAllAvailable(timeout=60)
    check_all(output, 20)
    # The broker has another leader epoch now. A client that goes on with the former one is refused for minutes.
    for _ in range(3):
        assert former.ends([(topic, 0)]) == {(topic, 0): 20}


def test_a_right_that_is_taken_away_stops_the_run_and_given_back_it_goes_on(
    kafka: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_REQUEST_SECS", 1.0)
    kafka.send(kafka.create(topic), ["a"])
    sasl = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": PASSWORD,
    }
    spout = KafkaSpout(kafka.secured, topic, options=sasl)
    output, made = TestOutput(), TridentTopology()
    made.newStream("letters", spout).foreachArrow(output)
    rule = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:me", "*", AclOperation.READ)
    told = "Topic authorization failed; the user needs the right to describe and to read the topics"
    running = start_local(made, name="t", checkpointLocation=tmp_path, maxAttempts=2)
    running.processAllAvailable(timeout=60)
    for future in kafka.admin.create_acls([AclBinding(*rule, AclPermissionType.DENY)]).values():
        future.result(30)
    kafka.send(topic, ["b"])
    with pytest.raises(BatchFailedError, match=told):
        running.awaitTermination(60)
    client = Cluster({"bootstrap.servers": kafka.secured, "log_level": 2, **sasl}, "read_committed")
    with pytest.raises(SourceUnreadableError, match=told):  # a new client has to look for the leaders first
        client.ends([(topic, 0)])
    for future in kafka.admin.delete_acls([AclBindingFilter(*rule, AclPermissionType.DENY)]).values():
        future.result(30)
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    assert sorted(row.value for row in output.rows) == [b"a", b"b"]


class Undecided:
    """A client whose first request for offsets finds a leader that has changed: it gives no offset, and no error."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def list_offsets(self, wanted: dict[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        asked: dict[Any, Future[Any]] = {partition: Future() for partition in wanted}
        for future in asked.values():
            future.set_result(SimpleNamespace(offset=confluent_kafka.OFFSET_INVALID, leader_epoch=None))
        return asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.mark.parametrize("which", ["earliest", "ends", "high_watermarks", "at_time"])
def test_a_partition_without_an_offset_is_asked_again(kafka: KafkaBroker, topic: str, which: str) -> None:
    """Else it would count as one without new messages, and a time as one that no message has."""
    kafka.send(kafka.create(topic), range(3), timestamp=1_000)
    cluster = Cluster({"bootstrap.servers": kafka.servers, "log_level": 2}, "read_committed")
    cluster._admin = Undecided(cluster._admin)
    more = (1_000,) if which == "at_time" else ()
    found = getattr(cluster, which)([(topic, 0)], *more)
    assert found == {(topic, 0): 0 if which in ("earliest", "at_time") else 3}


def test_a_broker_that_dies_in_the_middle_of_a_batch(mortal: KafkaBroker, topic: str, tmp_path: Path) -> None:
    mortal.send(mortal.create(topic), range(40))
    output, back = TestOutput(), threading.Event()
    with start_local(counting(mortal, topic, output, back), name="t", checkpointLocation=tmp_path) as running:
        time.sleep(0.5)
        mortal.kill()
        back.set()
        time.sleep(1)
        mortal.start()
        mortal.send(topic, range(40, 60))
        running.processAllAvailable(timeout=60)
    check_all(output, 60)


@pytest.mark.soak
def test_a_broker_that_is_away_for_a_minute(mortal: KafkaBroker, topic: str, tmp_path: Path) -> None:
    mortal.send(mortal.create(topic), range(40))
    output = TestOutput()
    with start_local(counting(mortal, topic, output), name="t", checkpointLocation=tmp_path) as running:
        mortal.kill()
        time.sleep(60)
        mortal.start()
        mortal.send(topic, range(40, 60))
        running.processAllAvailable(timeout=120)
    check_all(output, 60)
