"""The sources of the demo's novel: text files, or a Kafka broker that the demo starts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trident.demo import CORPUS

SOURCES = ("files", "kafka")

TOPIC = "novel"
_PARTITIONS = 3


class NoSourceError(RuntimeError):
    """The source that was asked for does not exist, or cannot be started on this machine."""


@dataclass(frozen=True)
class Source:
    """A source of the novel's lines, ready to be read."""

    text: str
    servers: str = ""
    """The brokers of Kafka; "" for files."""
    environment: dict[str, str] = field(default_factory=dict)
    """The environment variables that the driver needs for this source."""


@contextmanager
def opened(name: str, folder: Path) -> Iterator[Source]:
    """Yield a source that is ready. If this function started a broker, it stops it at the end. Raises NoSourceError."""
    if name not in SOURCES:
        raise NoSourceError(f"SOURCE={name!r} is not one of {', '.join(map(repr, SOURCES))}")
    files = sorted(CORPUS.glob("*.txt"))
    size = sum(path.stat().st_size for path in files)
    novel = f"Moby-Dick: {len(files)} files, {size / 1e6:.1f} MB of English"
    if name == "files":
        yield Source(novel)
        return
    try:
        from trident.demo.kafka.artifacts import OutOfReachError, connector_jars
        from trident.demo.kafka.broker import KafkaBroker
    except ImportError as error:
        raise NoSourceError("SOURCE=kafka needs confluent-kafka: pip install 'trident-pyspark[kafka]'") from error
    try:
        jars = ",".join(map(str, connector_jars()))
        broker = KafkaBroker(folder / "kafka")
    except OutOfReachError as error:
        raise NoSourceError(f"SOURCE=kafka needs jars from Maven Central: {error}") from error
    with broker:
        broker.create(TOPIC, _PARTITIONS)
        lines = _send(broker.servers, files)
        given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
        text = f"{novel}; {lines:,} messages in {_PARTITIONS} partitions of a Kafka broker at {broker.servers}"
        yield Source(text, broker.servers, {"PYSPARK_SUBMIT_ARGS": f"--jars {jars} {given}"})


def _send(servers: str, files: list[Path]) -> int:
    """Write each line of the files into Kafka, and return the number of lines."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 2})
    count = 0
    for path in files:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                producer.produce(TOPIC, line.rstrip("\n"), path.stem)
                count += 1
        producer.poll(0)
    if producer.flush(60):
        raise NoSourceError(f"the broker at {servers} did not accept the lines of the novel")
    return count
