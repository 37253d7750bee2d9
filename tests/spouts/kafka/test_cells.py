"""Every cell of the guarantee table over Kafka, while driver, broker and store are killed: the exact multiset.

KafkaSpout has no third, non-transactional kind: where a stream stands is always in the log. What such a spout loses
and doubles, tests/faults/test_guarantees.py shows. These are soaks: `make test` kills brokers in test_outages.py, and
drivers and stores over the other source that has cells, in tests/spouts/redis_streams/test_cells.py.
"""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.spouts.kafka.cells import CELLS
from tests.support.kafka import KafkaBroker
from tests.support.server import RedisServer
from tests.support.soak import Soak

ROOT = Path(__file__).parents[3]
LETTERS = "abcdefgh"


class Writer:
    """Writes letters into a topic until it is stopped, each once, also while the broker is killed."""

    def __init__(self, kafka: KafkaBroker, topic: str) -> None:
        self.written: Counter[str] = Counter()
        self._topic = topic
        # An idempotent producer repeats what was not confirmed, and the broker drops what it has already.
        self._producer = Producer({"bootstrap.servers": kafka.servers, "enable.idempotence": True, "log_level": 0})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        while not self._stop.is_set():
            for at, letter in enumerate(random.choices(LETTERS, k=10)):
                self._producer.produce(self._topic, letter, partition=at % 3)
                self.written[letter] += 1
            self._producer.poll(0)
            self._stop.wait(0.1)

    def stop(self) -> None:
        """Return when the broker has everything."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0


@contextmanager
def driver(
    kafka: KafkaBroker, topic: str, redis: RedisServer, folder: Path, until: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a driver of all cells, and kill it at the end."""
    words = [kafka.servers, topic, redis.url, str(folder), until]
    command = [sys.executable, "-m", "tests.spouts.kafka.cells", *words]
    with (folder / "driver.log").open("a") as log:
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(30)


def lived_through(
    kafka: KafkaBroker, topic: str, redis: RedisServer, folder: Path, rounds: int, chance: random.Random
) -> None:
    """Kill drivers, the broker and the store, round by round, and compare what all cells have counted."""
    kafka.create(topic, 3)
    writer = Writer(kafka, topic)
    for number in range(rounds):
        with driver(kafka, topic, redis, folder, "killed") as child:
            assert child.stdout is not None and child.stdout.readline() == "started\n", (
                folder / "driver.log"
            ).read_text()
            time.sleep(chance.uniform(0.2, 1.0))
            if number % 2 == 0:
                kafka.kill()
                time.sleep(chance.uniform(0, 0.5))
                kafka.start()
            else:
                redis.restart()
            time.sleep(chance.uniform(0, 0.7))
    writer.stop()
    counted = folder / "counts.json"
    with driver(kafka, topic, redis, folder, str(counted)) as child:
        assert child.wait(180) == 0, (folder / "driver.log").read_text()
    counts = json.loads(counted.read_text())
    for spout, state in CELLS:
        cell = Counter(counts[f"{spout}/{state}"])
        if state == "nonTransactional":  # promised at least once
            assert cell >= writer.written, f"{spout}/{state} lost tuples"
        else:
            assert cell == writer.written, f"{spout}/{state} is not exact"


@pytest.mark.soak
def test_every_cell_is_exact_though_driver_broker_and_store_are_killed(
    mortal: KafkaBroker, redis_server: RedisServer, topic: str, tmp_path: Path
) -> None:
    lived_through(mortal, topic, redis_server, tmp_path, 2, random.Random(1))


@pytest.mark.soak
def test_every_cell_is_exact_through_many_kills(
    mortal: KafkaBroker, redis_server: RedisServer, topic: str, tmp_path: Path, soak: Soak
) -> None:
    for number, chance in enumerate(soak.draws(10)):
        folder = tmp_path / str(number)
        folder.mkdir()
        redis_server.client.flushall()
        lived_through(mortal, f"{topic}-{number}", redis_server, folder, 10, chance)
