"""A real Kafka broker for tests to start, kill and restart, and Spark's connector: both are artifacts of Maven Central.

Where they are out of reach, `KafkaBroker` and `connector_jars` skip the test and say why.
"""

import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from trident.demo.kafka import artifacts
from trident.demo.kafka.broker import KafkaBroker as Broker

PASSWORD = 'se cret"with\\signs'
"""The password of the user ``me`` at the listener with SASL: it needs every escape that there is."""

_LOGIN = "org.apache.kafka.common.security"
_SECURED, _ENCRYPTED = "SASL_PLAINTEXT", "SASL_SSL"
_SCRAM = "SCRAM-SHA-512"


def connector_jars() -> list[Path]:
    """Return the jars that Spark lacks for its Kafka connector. Skips the test if they cannot be fetched."""
    try:
        return artifacts.connector_jars()
    except artifacts.OutOfReachError as error:
        pytest.skip(str(error))


def out_of_reach() -> str:
    """Return why there is no broker or no connector; "" if there are both."""
    try:
        artifacts.broker_jars()
        artifacts.connector_jars()
    except artifacts.OutOfReachError as error:
        return str(error)
    return ""


def self_signed(folder: Path) -> Path:
    """Make a certificate for 127.0.0.1 in a new folder `tls`, and return that. Skips the test without openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("TLS needs a certificate, which the program openssl makes")
    made = folder / "tls"
    made.mkdir(parents=True)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = made / "key.pem", made / "certificate.pem"
    subprocess.run([*command, "-keyout", str(files[0]), "-out", str(files[1])], check=True, capture_output=True)
    (made / "both.pem").write_text("".join(file.read_text() for file in files))
    return made


class KafkaBroker(Broker):
    """A broker for tests. At `secured` clients must be ``me`` with `PASSWORD` (SASL, PLAIN), as at `encrypted`.

    Whoever comes without a login may do anything, and ``me`` what no rule forbids. Skips the test if the broker's jars
    cannot be fetched.
    """

    def __init__(
        self, folder: Path, options: Mapping[str, object] | None = None, listeners: Sequence[str] = ()
    ) -> None:
        quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        plain = f'{_LOGIN}.plain.PlainLoginModule required username="broker" password="broker" user_me="{quoted}";'
        prefix = f"listener.name.{_SECURED.lower()}"
        settings: dict[str, object] = {
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
            f"{prefix}.plain.sasl.jaas.config": plain.replace("\\", "\\\\"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "log.retention.ms": -1,  # many tests send messages of long ago
            "log.retention.check.interval.ms": 500,
            "log.cleaner.backoff.ms": 200,
            **(options or {}),
        }
        try:
            super().__init__(folder, settings | self._tls(folder), (_SECURED, *self._encrypted, *listeners))
        except artifacts.OutOfReachError as error:
            pytest.skip(str(error))
        self.secured = self.addresses[_SECURED]

    def _tls(self, folder: Path) -> dict[str, object]:
        """Return the settings of the listener with TLS, if there is a program that makes a certificate."""
        self._encrypted = [_ENCRYPTED] if shutil.which("openssl") else []
        if not self._encrypted:
            return {}
        self._certificates = self_signed(folder.with_name(f"{folder.name}-files"))
        prefix = f"listener.name.{_ENCRYPTED.lower()}"
        return {
            f"{prefix}.sasl.enabled.mechanisms": _SCRAM,
            f"{prefix}.{_SCRAM.lower()}.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
            f"{prefix}.ssl.keystore.type": "PEM",
            f"{prefix}.ssl.keystore.location": self._certificates / "both.pem",
        }

    @property
    def encrypted(self) -> tuple[str, dict[str, Any]]:
        """The listener with TLS and SCRAM, and a client's options for it. Skips the test if there is none."""
        if not self._encrypted:
            pytest.skip("TLS needs a certificate, which the program openssl makes")
        user = UserScramCredentialUpsertion(
            "me", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
        )
        self.admin.alter_user_scram_credentials([user])["me"].result(30)
        options = {"security.protocol": _ENCRYPTED, "sasl.mechanism": _SCRAM, "sasl.username": "me"}
        authority = str(self._certificates / "certificate.pem")
        return self.addresses[_ENCRYPTED], options | {"sasl.password": PASSWORD, "ssl.ca.location": authority}

    # --- its disk --------------------------------------------------------------------------------------------------

    def back_up(self, copy: Path) -> None:
        """Copy what the broker has on its disk, at one moment, as a snapshot of the disk does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self.folder / "data", copy)
        finally:
            self._process.send_signal(signal.SIGCONT)

    def restore(self, copy: Path) -> None:
        """Kill the broker, put a copy back in place of what it has on its disk, and start it again."""
        self.kill()
        shutil.rmtree(self.folder / "data")
        shutil.copytree(copy, self.folder / "data")
        self.start()

    # --- what is in it ---------------------------------------------------------------------------------------------

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

    def configure(self, topic: str, **config: str) -> None:
        """Set configurations of a topic; write ``cleanup_policy`` for ``cleanup.policy``."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in config.items()
        ]
        altered = self.admin.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)]
        )
        for result in altered.values():
            result.result(30)

    def send(self, topic: str, values: Iterable[object], partition: int = 0, **message: Any) -> None:
        """Send values to one partition, and return when the broker has them."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for value in values:
            written = value if value is None or isinstance(value, bytes) else str(value).encode()
            producer.produce(topic, written, partition=partition, **message)
            producer.poll(0)
        assert producer.flush(30) == 0

    def send_transaction(
        self, topic: str, values: Sequence[object], *, commit: bool, partition: int = 0, key: bytes | None = None
    ) -> None:
        """Send values to one partition in a transaction that is committed or aborted."""
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": f"test-{uuid.uuid4()}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, str(value).encode(), key, partition=partition)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)

    def values(self, topic: str) -> list[bytes | None]:
        """Return the values of all committed messages of a topic."""
        return [message.value() for message in self.messages(topic)]

    def _await_markers(self, topic: str) -> None:
        """Wait until ended transactions are readable: a commit returns before its marker is in the topic.

        A transaction that a test left open is never readable, so the wait is short.
        """
        partitions = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        spec: Any = OffsetSpec
        latest: Any = {TopicPartition(topic, partition): spec.latest() for partition in partitions}
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            ends = [
                {at.partition: future.result().offset for at, future in found.items()}
                for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
                for found in [self.admin.list_offsets(latest, isolation_level=level)]
            ]
            if ends[0] == ends[1]:
                return
            time.sleep(0.02)

    def messages(self, topic: str) -> list[Any]:
        """Return all committed messages of a topic."""
        self._await_markers(topic)
        config = {"bootstrap.servers": self.servers, "group.id": "test", "enable.partition.eof": True}
        # Else the broker waits for half a second before it says that a partition has no more.
        consumer = Consumer({**config, "isolation.level": "read_committed", "fetch.wait.max.ms": 10})
        try:
            left = set(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
            messages = []
            while left:
                message = consumer.poll(30)
                assert message is not None, "Kafka does not answer"
                if message.error() is None:
                    messages.append(message)
                else:
                    left.discard(message.partition())
            return messages
        finally:
            consumer.close()
