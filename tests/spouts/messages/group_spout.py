"""A spout that reads a stream of Redis as a consumer of a group."""

import os
import time
from typing import Any

import redis

from trident.spouts import Collector, RichSpout

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
