"""A Kafka cluster of three brokers for tests, of which two may be killed: the first one is the controller."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from trident.demo.kafka import artifacts
from trident.demo.kafka.broker import KafkaBroker

_SECS = 90
_SESSION = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500, "replica.lag.time.max.ms": 3000}


class Node(KafkaBroker):
    """One broker of a cluster; that of number 1 is the controller, too."""

    cluster_id = "AAAAAAAAAAAAAAAAAAAAAQ"

    def __init__(self, folder: Path, number: int, controller: str) -> None:
        self.number, self._controller = number, controller
        super().__init__(folder, _SESSION)

    def _defaults(self) -> dict[str, object]:
        settings = super()._defaults() | {"node.id": self.number}
        if self.number == 1:
            return settings
        return settings | {
            "process.roles": "broker",
            "controller.quorum.voters": f"1@{self._controller}",
            "listeners": f"PLAINTEXT://{self.servers}",
        }


class KafkaCluster:
    """Three brokers. Skips the test if the broker's jars cannot be fetched."""

    def __init__(self, folder: Path) -> None:
        try:
            self.nodes = {1: Node(folder / "1", 1, "")}
        except artifacts.OutOfReachError as error:
            pytest.skip(str(error))
        controller = self.nodes[1].addresses["CONTROLLER"]
        self.nodes |= {number: Node(folder / str(number), number, controller) for number in (2, 3)}
        self.servers = ",".join(node.servers for node in self.nodes.values())
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def __enter__(self) -> Self:
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda node: node.start(), self.nodes.values()))
        self._wait_for_all()
        return self

    def revive(self) -> None:
        """Start the brokers that were killed, and return when all may be leaders."""
        for node in self.nodes.values():
            if not node.running:
                node.start()
        self._wait_for_all()

    def _wait_for_all(self) -> None:
        # A broker answers before the controller lets it lead.
        _until(lambda: len(self.admin.list_topics(timeout=10).brokers) == len(self.nodes), "a broker is missing")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            node.kill()

    def create(self, topic: str, replicas: list[int]) -> str:
        """Create a topic of one partition on these brokers. One that lags behind may become its leader."""
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        self.admin.create_topics([NewTopic(topic, 1, replica_assignment=[replicas], config=config)])[topic].result(30)
        self.wait(topic, leader=replicas[0], in_sync=set(replicas))
        return topic

    def wait(self, topic: str, leader: int, in_sync: set[int]) -> None:
        """Wait until the partition has this leader and these replicas in sync."""

        def is_so() -> bool:
            found = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
            return 0 in found and found[0].leader == leader and set(found[0].isrs) == in_sync

        _until(is_so, f"{topic} has no leader {leader} with {in_sync} in sync")

    def send(self, topic: str, values: Iterable[str]) -> None:
        """Send values, and return when the leader has them."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, "log_level": 0})
        for value in values:
            producer.produce(topic, value.encode())
        assert producer.flush(_SECS) == 0


def _until(condition: Callable[[], Any], problem: str) -> None:
    deadline = time.monotonic() + _SECS
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.1)
