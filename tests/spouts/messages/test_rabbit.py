"""A RabbitMQ queue, through kills of driver and broker (`kills.live`)."""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError

from tests.spouts.messages.kills import RealQueue, live
from tests.spouts.messages.rabbit_spout import QUEUE, RabbitSpout
from tests.support.rabbit import RabbitServer
from tests.support.server import RedisServer
from tests.support.soak import Soak


class RabbitQueue(RealQueue):
    """A durable queue with publisher confirms; a broker takes long to restart, so only the first life has that."""

    points = (
        *("emit.after:2", "freeze.before:1", "freeze.after:2"),
        *("committed.after:1", "success.before:1", "success.after:1"),
    )
    delay, restarts = (0.0, 0.3), 1

    def __init__(self, server: RabbitServer) -> None:
        self.server = server

    def spout(self) -> RabbitSpout:
        return RabbitSpout(self.server.port)

    def connect(self) -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.server.port, heartbeat=0))

    def create(self) -> None:
        with closing(self.connect()) as connection:
            connection.channel().queue_declare(QUEUE, durable=True)

    def send(self, words: dict[int, str]) -> None:
        """Send words; one that was not confirmed is sent again under the same id."""
        left, deadline = dict(words), time.monotonic() + 120
        while left:
            try:
                with closing(self.connect()) as connection:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    for number, word in list(left.items()):
                        properties = pika.BasicProperties(message_id=str(number), delivery_mode=2)
                        channel.basic_publish("", QUEUE, word.encode(), properties, mandatory=True)
                        del left[number]
            except (AMQPError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def restart(self) -> None:
        self.server.restart()

    def left(self) -> int:
        with closing(self.connect()) as connection:
            return int(connection.channel().queue_declare(QUEUE, durable=True, passive=True).method.message_count)


@pytest.fixture(scope="module")
def rabbit() -> Iterator[RabbitQueue]:
    with RabbitServer() as server:
        yield RabbitQueue(server)


def test_a_queue_is_counted_exactly_through_kills(
    tmp_path: Path, rabbit: RabbitQueue, redis_server: RedisServer, forks: Any
) -> None:
    live(forks, rabbit, redis_server, tmp_path / "c", random.Random(7), 2)


@pytest.mark.soak(weight=2)
def test_a_queue_is_counted_exactly_through_many_kills(
    tmp_path: Path, rabbit: RabbitQueue, redis_server: RedisServer, forks: Any, soak: Soak
) -> None:
    for number, chance in enumerate(soak.draws(100)):
        redis_server.client.flushall()
        live(forks, rabbit, redis_server, tmp_path / str(number), chance, 2)
