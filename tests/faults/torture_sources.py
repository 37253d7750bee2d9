"""The sources that a torture reads: numbers that a spout makes up, a Kafka broker, a Redis with streams.

A server is filled by a writer in the torturing process, which writes each record once whatever happens to the server.
So the number of records of each partition is known, and with it every sum.
"""

import contextlib
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from tests.faults.torture_driver import PARTITIONS, STREAMS, TOPIC, record
from tests.support.server import RedisServer

PAUSE = 0.05
"""Seconds from one portion of records to the next."""
PORTION = 3
"""Records of a partition in one portion."""


class Source(ABC):
    """A source with a server to kill, open as long as the block."""

    name: str

    def __init__(self, folder: Path) -> None:
        self.environment: dict[str, str] = {}
        """What the driver's environment needs."""
        self._written = [0] * PARTITIONS
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the driver finds it."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the server, wait for a moment, and start it again."""

    @abstractmethod
    def _send(self, partition: int, n: int) -> None:
        """Send a record; return when it is sent, or will be."""

    @abstractmethod
    def _flush(self) -> None:
        """Return when everything is with the server."""

    def stop(self) -> list[int]:
        """Write no more, and return how many records each partition has."""
        self._stop.set()
        self._thread.join()
        self._flush()
        return self._written

    def _write(self) -> None:
        while not self._stop.wait(PAUSE):
            for partition in range(PARTITIONS):
                for _ in range(PORTION):
                    self._send(partition, self._written[partition])
                    self._written[partition] += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()


class KafkaSource(Source):
    name = "kafka"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from confluent_kafka import Producer

        from tests.support.kafka import KafkaBroker, connector_jars

        jars = ",".join(map(str, connector_jars()))
        self.environment = {"PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}
        self._broker = KafkaBroker(folder / "kafka").start()
        self._broker.create(TOPIC, PARTITIONS)
        # An idempotent producer repeats what was not confirmed, in order, and the broker drops what it has already.
        self._producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True, "log_level": 0})

    @property
    def address(self) -> str:
        return self._broker.servers

    def kill(self) -> None:
        self._broker.kill()
        time.sleep(0.2)
        self._broker.start()

    def _send(self, partition: int, n: int) -> None:
        word, seq = record(partition, n)
        self._producer.produce(TOPIC, f"{word} {seq}", partition=partition)
        self._producer.poll(0)

    def _flush(self) -> None:
        assert self._producer.flush(60) == 0, "the broker does not take the last records"

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self._broker.kill()


class StreamsSource(Source):
    name = "redisStreams"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = RedisServer(folder / "streams").start()
        self._client = self._server.connect()

    @property
    def address(self) -> str:
        return self._server.url

    def _flush(self) -> None:
        """Nothing is to be done: each record is with the server before the next one is sent."""

    def kill(self) -> None:
        self._server.kill()
        time.sleep(0.2)
        self._server.start()

    def _send(self, partition: int, n: int) -> None:
        word, seq = record(partition, n)
        while True:
            try:
                self._client.xadd(STREAMS[partition], {"word": word, "seq": seq}, id=f"{n + 1}-0")
                return
            except (redis.ConnectionError, redis.TimeoutError):
                time.sleep(0.02)
            except redis.ResponseError as error:
                if "equal or smaller" in str(error):
                    return  # it was added, and the reply was lost
                assert "LOADING" in str(error), error
                time.sleep(0.02)

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self._server.kill()


SOURCES: dict[str, type[Source] | None] = {"numbers": None, "kafka": KafkaSource, "redisStreams": StreamsSource}
"""By name; None: the driver makes its records up, and there is no server."""


def kafka_out_of_reach() -> str:
    """Return why there can be no Kafka; "" if there can."""
    try:
        from tests.support.kafka import out_of_reach
    except ImportError as error:
        return str(error)
    return out_of_reach()


@contextlib.contextmanager
def opened(name: str, folder: Path) -> Iterator[Source | None]:
    """Have a source ready."""
    kind = SOURCES[name]
    if kind is None:
        yield None
        return
    with kind(folder) as source:
        yield source


def described(name: str, source: Source | None, spout: str, state: str, loose: bool) -> str:
    """Return what a driver is to read and how, for its command line."""
    address = "" if source is None else source.address
    return json.dumps({"source": name, "address": address, "spout": spout, "state": state, "loose": loose})
