"""A Kafka broker to start, kill and start again."""

import base64
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from trident.demo.artifacts import java
from trident.demo.kafka.artifacts import broker_jars
from trident.demo.ports import free_port

_START_SECONDS = 120
_CONTROLLER = "CONTROLLER"


class KafkaBroker:
    """A broker and controller in one process, on loopback ports and with a separate folder.

    `servers` is a listener without security. `listeners` are the names of further ones, such as "SASL_PLAINTEXT"; their
    addresses are in `addresses`. `options` are more lines of the broker's configuration. Raises OutOfReachError if
    there are no jars.
    """

    cluster_id = ""
    """The id of the cluster to which the broker of a subclass belongs; "" for a separate cluster."""

    def __init__(
        self, folder: Path, options: Mapping[str, object] | None = None, listeners: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self._jars = broker_jars()
        names = ["PLAINTEXT", *listeners, _CONTROLLER]
        self.addresses = {name: f"127.0.0.1:{free_port()}" for name in names}
        self.servers = self.addresses["PLAINTEXT"]
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        self._settings = folder / "server.properties"
        settings = {**self._defaults(), **(options or {})}
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._run(
            "kafka.tools.StorageTool", "format", "-t", self.cluster_id or _cluster_id(), "-c", str(self._settings)
        )
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def _defaults(self) -> dict[str, object]:
        listened = [f"{name}://{address}" for name, address in self.addresses.items()]
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{self.addresses[_CONTROLLER]}",
            "listeners": ",".join(listened),
            "advertised.listeners": ",".join(each for each in listened if not each.startswith(_CONTROLLER)),
            "controller.listener.names": _CONTROLLER,
            "listener.security.protocol.map": ",".join(
                f"{name}:{'PLAINTEXT' if name == _CONTROLLER else name}" for name in self.addresses
            ),
            "log.dirs": self.folder / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
            "num.io.threads": 4,
        }

    # --- the process -----------------------------------------------------------------------------------------------

    def _command(self, main: str, *words: str) -> list[str]:
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # the process lives for minutes
        return [java(), *options, "-cp", f"{self._jars}/*", main, *words]

    def _run(self, main: str, *words: str) -> None:
        ended = subprocess.run(self._command(main, *words), capture_output=True, text=True, timeout=_START_SECONDS)
        if ended.returncode:
            raise RuntimeError(f"{main} failed: {ended.stdout[-2000:]} {ended.stderr[-2000:]}")

    @property
    def running(self) -> bool:
        """Return whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start on the same ports and folder, and return when the broker answers."""
        if self.running:
            raise RuntimeError("the broker is running already")
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._settings)),
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for the program, which then stops the broker
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
        """Send SIGKILL, as a crash would. Does nothing if it is not running."""
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

    # --- topics ----------------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1, **config: object) -> str:
        """Create a topic; option names have ``_`` for ``.``. Return the topic's name."""
        options = {name.replace("_", "."): str(value) for name, value in config.items()}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=options)
        self.admin.create_topics([new])[topic].result(30)
        deadline = time.monotonic() + 30
        while True:  # the controller knows the topic first, and the broker's clients a moment later
            there = self.admin.list_topics(timeout=10).topics.get(topic)
            if there is not None and there.error is None and len(there.partitions) == partitions:
                return topic
            if time.monotonic() > deadline:
                raise RuntimeError(f"topic {topic} did not appear")
            time.sleep(0.02)


def _cluster_id() -> str:
    # The id must not begin with "-", because the storage tool would treat it as an option.
    return base64.urlsafe_b64encode(b"A" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
