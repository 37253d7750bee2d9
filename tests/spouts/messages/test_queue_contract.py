"""The spouts of these tests keep the contract of queues, over a queue in memory, RabbitMQ and a group of Redis."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pika
import pytest

from tests.spouts.messages.group_spout import GROUP, STREAM, GroupSpout
from tests.spouts.messages.queue_spout import Queue, QueueSpout
from tests.spouts.messages.rabbit_spout import QUEUE, RabbitSpout
from tests.support.rabbit import RabbitServer
from tests.support.server import RedisServer
from trident.spouts import Collector
from trident.testing import MessageQueue, QueueContract


class Limited(QueueSpout):
    """A reader of a queue that hands out no more than three messages without an `ack`."""

    prefetch = remember = 3

    def nextTuple(self, collector: Collector) -> None:
        if len(self.queue.taken) < self.prefetch:
            super().nextTuple(collector)


class InMemory(MessageQueue):
    def __init__(self) -> None:
        self.queue, self.numbers = Queue({}), count()

    def spout(self) -> QueueSpout:
        return Limited(self.queue)

    def send(self, count: int) -> Any:
        sent = {number: f"word{number}" for number, _ in zip(self.numbers, range(count), strict=False)}
        self.queue.waiting.extend(sent.items())
        return list(sent.values())

    def left(self) -> int:
        return len(self.queue.waiting) + len(self.queue.taken)


class TestInMemory(QueueContract):
    @pytest.fixture
    def queue(self) -> MessageQueue:
        return InMemory()


class Prefetch(RabbitSpout):
    """A reader with a smaller prefetch count than the others of these tests."""

    prefetch = remember = 3


class Rabbit(MessageQueue):
    def __init__(self, server: RabbitServer) -> None:
        self.server, self.numbers, self.spouts = server, count(), list[Prefetch]()
        with closing(self.connect()) as connection:
            connection.channel().queue_delete(QUEUE)
            connection.channel().queue_declare(QUEUE, durable=True)

    def connect(self) -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.server.port, heartbeat=0))

    def spout(self) -> RabbitSpout:
        self.spouts.append(Prefetch(self.server.port))
        return self.spouts[-1]

    def send(self, count: int) -> Any:
        words = []
        with closing(self.connect()) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for number, _ in zip(self.numbers, range(count), strict=False):
                words.append(f"word{number}")
                properties = pika.BasicProperties(message_id=str(number), delivery_mode=2)
                channel.basic_publish("", QUEUE, words[-1].encode(), properties, mandatory=True)
        return words

    def left(self) -> int:
        with closing(self.connect()) as connection:
            ready = connection.channel().queue_declare(QUEUE, durable=True, passive=True).method.message_count
        return int(ready) + sum(spout.handed_out for spout in self.spouts)


@pytest.fixture(scope="module")
def rabbit() -> Iterator[RabbitServer]:
    with RabbitServer() as server:
        yield server


class TestRabbit(QueueContract):
    @pytest.fixture
    def queue(self, rabbit: RabbitServer) -> MessageQueue:
        return Rabbit(rabbit)


class Group(MessageQueue):
    """A consumer group of Redis has no limit of its own: entries wait in its list of pending ones."""

    def __init__(self, server: RedisServer) -> None:
        self.server, self.numbers = server, count()
        server.client.flushall()
        server.client.xgroup_create(STREAM, GROUP, "0", mkstream=True)

    def spout(self) -> GroupSpout:
        return GroupSpout(self.server.url)

    def send(self, count: int) -> Any:
        words = [f"word{number}" for number, _ in zip(self.numbers, range(count), strict=False)]
        for word in words:
            self.server.client.xadd(STREAM, {"word": word})
        return words

    def left(self) -> int:
        return int(self.server.client.xlen(STREAM))


class TestRedisGroup(QueueContract):
    @pytest.fixture
    def queue(self, redis_server: RedisServer) -> MessageQueue:
        return Group(redis_server)
