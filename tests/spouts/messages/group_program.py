"""A driver that counts the words of a Redis consumer group, in a process of its own, to be killed."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import redis

from trident import Count, TridentTopology
from trident.base import crash_points
from trident.base.errors import FailedException
from trident.errors import StateUnavailableError
from trident.spouts import Collector, RichSpout
from trident.state import RedisMapState
from trident.testing.local import start_local

STREAM, GROUP = "orders", "counters"


class GroupSpout(RichSpout):
    """Reads a stream as a consumer of a group. An entry is deleted once it is acknowledged."""

    outputFields = "word string"
    maxRows = 12

    def __init__(self, url: str) -> None:
        self._url = url

    def open(self) -> None:
        self._server = redis.Redis.from_url(self._url, decode_responses=True, socket_timeout=5)
        self._consumer = f"driver-{os.getpid()}"
        self._again: list[tuple[str, dict[str, str]]] = []
        self._claimed = False

    def nextTuple(self, collector: Collector) -> None:
        try:
            entries = self._entries()
        except (redis.ConnectionError, redis.TimeoutError):
            time.sleep(0.02)
            return  # the server is away: asked again by the next batch
        for entry, fields in entries:
            collector.emit(fields["word"], messageId=entry)

    def _entries(self) -> list[tuple[str, dict[str, str]]]:
        if not self._claimed:  # what dead drivers have left
            start = "0-0"
            while True:
                start, entries, *_ = self._server.xautoclaim(STREAM, GROUP, self._consumer, 0, start)
                self._again += [entry for entry in entries if entry[1] is not None]
                if start == "0-0":
                    break
            self._claimed = True
        if self._again:
            again, self._again = self._again, []
            return again
        read: Any = self._server.xreadgroup(GROUP, self._consumer, {STREAM: ">"}, count=5)
        return read[0][1] if read else []

    def ack(self, messageId: Any) -> None:
        with self._server.pipeline() as both:
            both.xack(STREAM, GROUP, messageId)
            both.xdel(STREAM, messageId)
            both.execute()

    def fail(self, messageId: Any, reason: str) -> None:
        self._claimed = False  # claims it again, with what else is pending

    def close(self) -> None:
        self._server.close()


def counting(url: str, failing: float) -> TridentTopology:
    """Count words, with a function that fails with this probability."""
    chance = random.Random()

    def fails_at_times(word: str) -> bool:
        if chance.random() < failing:
            raise FailedException("now and then")
        return True

    topology = TridentTopology()
    words = topology.newStream("words", GroupSpout(url)).each("word", fails_at_times).groupBy("word")
    words.persistentAggregate(RedisMapState.opaque(url), Count(), "count", name="counts")
    return topology


def run(url: str, folder: Path, crash_at: str) -> None:
    """One life of the driver. Killed at a point, or at the end, when all is committed."""
    crash_points.arm(crash_at)
    while True:
        try:
            topology = counting(url, 0.01)
            running = start_local(topology, name="t", checkpointLocation=folder, maxAttempts=50)
            break
        except StateUnavailableError:  # a start needs its states; whoever starts a driver does so again
            time.sleep(0.05)
    running.processAllAvailable(timeout=60)
    os.kill(os.getpid(), signal.SIGUSR1)  # it dies of another signal than a killed one
