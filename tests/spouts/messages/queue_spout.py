"""A queue that deletes messages that are acknowledged, and delivers the others again; and a spout that reads it."""

from collections import deque
from typing import Any

from trident.spouts import Collector, RichSpout


class Queue:
    """Messages by id. Those that a reader took come again when they fail, or when their reader is gone."""

    def __init__(self, messages: dict[int, Any]) -> None:
        self.waiting = deque(messages.items())
        self.taken: dict[int, Any] = {}
        self.acked: list[int] = []
        self.failed: list[tuple[int, str]] = []
        self.lose_acks = False

    def reconnect(self) -> None:
        """Deliver everything again that no reader has acknowledged."""
        self.waiting.extendleft(reversed(self.taken.items()))
        self.taken = {}


class QueueSpout(RichSpout):
    """Reads a queue, `at_once` messages in a call."""

    outputFields = "word string"

    def __init__(self, queue: Queue, tracking: Any = "tracked", at_once: int = 1, **limits: Any) -> None:
        self.queue, self.tracking, self.at_once = queue, tracking, at_once
        self.calls: list[str] = []
        for name, value in limits.items():
            setattr(self, name, value)

    def open(self) -> None:
        self.calls.append("open")
        self.queue.reconnect()

    def activate(self) -> None:
        self.calls.append("activate")

    def nextTuple(self, collector: Collector) -> None:
        for _ in range(min(self.at_once, len(self.queue.waiting))):
            message, word = self.queue.waiting.popleft()
            self.queue.taken[message] = word
            collector.emit(word, None if self.tracking == "none" else message)

    def ack(self, messageId: Any) -> None:
        self.queue.acked.append(messageId)
        if not self.queue.lose_acks:
            del self.queue.taken[messageId]

    def fail(self, messageId: Any, reason: str) -> None:
        self.queue.failed.append((messageId, reason))
        self.queue.waiting.append((messageId, self.queue.taken.pop(messageId)))

    def deactivate(self) -> None:
        self.calls.append("deactivate")

    def close(self) -> None:
        self.calls.append("close")
