"""A real Kafka broker for tests to start, kill and restart, and Spark's connector: both are artifacts of Maven Central.

They are fetched once, by the Ivy that pyspark brings, into a folder of the user's cache. Where they are out of reach,
`broker_jars` and `connector_jars` skip the test and say why.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from tests.support.spark import SHORT_LIVED

BROKER = "org.apache.kafka:kafka_2.13:4.1.0"
CONNECTORS = [f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}" for version in (pyspark.__version__, "4.2.0")]
"""Spark's connector of pyspark's version, else the one before: some releases reach Maven Central weeks after PyPI."""
PASSWORD = 'se cret"with\\signs'
"""The password of the user ``me`` at the listener with SASL: it needs every escape that there is."""

_FETCH_SECONDS = 300
_START_SECONDS = 60


def cache_folder() -> Path:
    """Return the user's cache folder for what tests fetch."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trident-pyspark"


def broker_jars() -> Path:
    """Return the folder with the jars of the broker. Skips the test if they cannot be fetched."""
    folder, reason = _first([BROKER])
    return pytest.skip(reason) if reason else folder


def connector_jars() -> list[Path]:
    """Return the jars that Spark lacks for its Kafka connector. Skips the test if they cannot be fetched."""
    folder, reason = _first(CONNECTORS)
    if reason:
        pytest.skip(reason)
    in_spark = {_artifact(jar) for jar in (Path(pyspark.__file__).parent / "jars").iterdir()}
    return sorted(jar for jar in folder.glob("*.jar") if _artifact(jar) not in in_spark)


def out_of_reach() -> str:
    """Return why there is no broker or no connector; "" if there are both."""
    return _first([BROKER])[1] or _first(CONNECTORS)[1]


def _artifact(jar: Path) -> str:
    """Return the name of a jar without its version."""
    return re.sub(r"-\d[^-]*(-.*)?\.jar$", "", jar.name)


def _first(artifacts: Sequence[str]) -> tuple[Path, str]:
    """Return the folder of the first artifact that can be fetched, or why none can."""
    reasons = []
    for artifact in artifacts:
        folder, reason = _resolve(artifact)
        if not reason:
            return folder, ""
        reasons.append(f"{artifact} cannot be fetched: {reason}")
    return folder, "; ".join(reasons)


@cache
def _resolve(artifact: str) -> tuple[Path, str]:
    """Return the folder with an artifact's jars, and why they are not there; "" if they are."""
    group, name, version = artifact.split(":")
    folder = cache_folder() / f"{name}-{version}"
    if folder.is_dir():
        return folder, ""
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"), None)
    if ivy is None or shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return folder, "there is no Java, or no Ivy in pyspark/jars"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        jars = Path(scratch) / "jars"
        command = [java(), "-jar", str(ivy), "-dependency", group, name, version, "-confs", "default"]
        command += ["-cache", f"{scratch}/ivy", "-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS)
        except subprocess.TimeoutExpired:
            return folder, f"Ivy did not end within {_FETCH_SECONDS} s"
        if ended.returncode or not list(jars.glob(f"{name}-*.jar")):
            lines = [line.strip() for line in ended.stdout.splitlines() if "UNRESOLVED" in line or "rror" in line]
            return folder, "; ".join(lines[:3]) or f"Ivy ended with {ended.returncode}"
        with suppress(OSError):  # another process was first
            jars.rename(folder)
    return folder, ""


def java() -> str:
    """Return the Java that tests run."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class KafkaBroker:
    """A broker and controller in one process of one's own, on loopback ports and a folder of its own.

    `servers` is a listener without security; at `secured` clients must be ``me`` with `PASSWORD` (SASL, PLAIN).
    """

    def __init__(self, folder: Path, options: Mapping[str, object] | None = None) -> None:
        self.folder = folder
        plain, sasl, controller = self._ports = _free_ports(3)
        self.servers, self.secured = f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}"
        self._process: subprocess.Popen[bytes] | None = None
        self._jars = broker_jars()
        quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        settings: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl},"
            f"CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain"
            f'.PlainLoginModule required username="broker" password="broker" user_me="{quoted}";'.replace("\\", "\\\\"),
            "log.dirs": folder / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
            "log.retention.check.interval.ms": 500,
            "log.cleaner.backoff.ms": 200,
            "num.io.threads": 4,
            **(options or {}),
        }
        folder.mkdir(parents=True)
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._run("kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(self._settings))
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    # --- the process -----------------------------------------------------------------------------------------------

    def _command(self, main: str, *words: str) -> list[str]:
        options = ["-Xmx256m", SHORT_LIVED, "-XX:+UseSerialGC"]
        return [java(), *options, "-cp", f"{self._jars}/*", main, *words]

    def _run(self, main: str, *words: str) -> None:
        ended = subprocess.run(self._command(main, *words), capture_output=True, text=True, timeout=_START_SECONDS)
        assert ended.returncode == 0, f"{main} failed: {ended.stdout[-2000:]} {ended.stderr[-2000:]}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start on the same ports and folder, and return when the broker answers."""
        assert not self.running, "the broker is running already"
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._settings)),
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then stop it
            )
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.admin.list_topics(timeout=1)
                return self
            except KafkaException:
                if not self.running or time.monotonic() > deadline:
                    self.kill()
                    text = (self.folder / "server.log").read_text(errors="replace")
                    raise RuntimeError(f"the broker did not start:\n{text[-3000:]}") from None

    def kill(self) -> None:
        """SIGKILL, as a crash would. Does nothing if it is not running."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(timeout=30)
            self._process = None

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    # --- what is in it ---------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1, **config: object) -> str:
        """Create a topic; option names have ``_`` for ``.``. Return the topic's name."""
        options = {name.replace("_", "."): str(value) for name, value in config.items()}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=options)
        self.admin.create_topics([new])[topic].result(30)
        deadline = time.monotonic() + 30
        while True:  # it is known to the controller first, and to the broker's clients a moment later
            there = self.admin.list_topics(timeout=10).topics.get(topic)
            if there is not None and there.error is None and len(there.partitions) == partitions:
                return topic
            assert time.monotonic() < deadline, f"topic {topic} did not appear"
            time.sleep(0.02)

    def delete(self, topic: str) -> None:
        """Delete a topic, and return when no client sees it any more."""
        self.admin.delete_topics([topic])[topic].result(30)
        while topic in self.admin.list_topics(timeout=10).topics:
            time.sleep(0.02)

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
        while len(self.admin.list_topics(topic, timeout=10).topics[topic].partitions) < partitions:
            time.sleep(0.02)

    def drop_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records before an offset, as retention does."""
        deleted = self.admin.delete_records([TopicPartition(topic, partition, offset)])
        for result in deleted.values():
            result.result(30)

    def send(
        self, topic: str, values: Iterable[object], partition: int = 0, servers: str | None = None, **message: Any
    ) -> None:
        """Send values to one partition, and return when the broker has them."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for value in values:
            producer.produce(topic, None if value is None else str(value).encode(), partition=partition, **message)
            producer.poll(0)
        assert producer.flush(30) == 0

    def send_transaction(self, topic: str, values: Sequence[object], *, commit: bool, partition: int = 0) -> None:
        """Send values to one partition in a transaction that is committed or aborted."""
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": f"test-{uuid.uuid4()}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, str(value).encode(), partition=partition)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)

    def values(self, topic: str) -> list[bytes | None]:
        """Return the values of all committed messages of a topic."""
        config = {"bootstrap.servers": self.servers, "group.id": "test", "enable.partition.eof": True}
        consumer = Consumer({**config, "isolation.level": "read_committed"})
        try:
            left = set(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
            values = []
            while left:
                message = consumer.poll(30)
                assert message is not None, "Kafka does not answer"
                if message.error() is None:
                    values.append(message.value())
                else:
                    left.discard(message.partition())
            return values
        finally:
            consumer.close()


def _cluster_id() -> str:
    import base64

    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
