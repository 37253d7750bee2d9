"""A spout that reads a queue of RabbitMQ, through its well-kept client pika."""

import time
from typing import Any

import pika
from pika.exceptions import AMQPError

from trident.spouts import Collector, RichSpout

QUEUE = "orders"
PREFETCH = 50
PATIENCE = 30.0
"""Seconds in which a broker that is away must be back."""


class RabbitSpout(RichSpout):
    """Reads a queue whose senders give every message an id. Acknowledgements are not confirmed by the server."""

    outputFields = "word string"
    maxRows = 12
    prefetch = remember = PREFETCH  # of so many messages at most the server may not have heard the ack

    def __init__(self, port: int) -> None:
        self._port = port

    def open(self) -> None:
        self._tags: dict[str, list[int]] = {}  # several where the sender repeated a message under its id
        self._channel: Any = None

    def _connected(self) -> Any:
        if self._channel is None or not self._channel.is_open:
            self._tags.clear()  # they belong to the former channel; the server delivers what they named again
            parameters = pika.ConnectionParameters("127.0.0.1", self._port, heartbeat=0, socket_timeout=5)
            self._channel = pika.BlockingConnection(parameters).channel()
            self._channel.basic_qos(prefetch_count=self.prefetch)
        return self._channel

    @property
    def handed_out(self) -> int:
        """The number of messages that the server has handed out on the open channel and not heard of."""
        channel = getattr(self, "_channel", None)
        return sum(map(len, list(self._tags.values()))) if channel is not None and channel.is_open else 0

    def nextTuple(self, collector: Collector) -> None:
        delivered, properties, body = self._next_delivery()
        if delivered is not None:
            self._tags.setdefault(properties.message_id, []).append(delivered.delivery_tag)
            collector.emit(body.decode(), messageId=properties.message_id)

    def _next_delivery(self) -> Any:
        """Return what the queue gives. Wait for a broker that is away: a spout with nothing lets a driver end."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self._connected().basic_get(QUEUE)
            except (AMQPError, OSError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def ack(self, messageId: Any) -> None:
        for tag in self._tags.pop(messageId, ()):  # without one the server will deliver the message again
            self._channel.basic_ack(tag)

    def fail(self, messageId: Any, reason: str) -> None:
        for tag in self._tags.pop(messageId, ()):
            self._channel.basic_nack(tag, requeue=True)

    def close(self) -> None:
        if self._channel is not None and self._channel.is_open:
            self._channel.connection.close()
