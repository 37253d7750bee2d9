"""A real queue with acknowledgements, through kills of driver and broker. Counts are exact, the queue is empty."""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError

from tests.spouts.messages.rabbit_spout import QUEUE, RabbitSpout
from tests.spouts.messages.word_driver import run
from tests.support.rabbit import RabbitServer
from tests.support.server import RedisServer
from tests.support.soak import Soak
from trident import openState

POINTS = (
    "emit.after:2",
    "freeze.before:1",
    "freeze.after:2",
    "committed.after:1",
    "success.before:1",
    "success.after:1",
)


@pytest.fixture(scope="module")
def rabbit() -> Iterator[RabbitServer]:
    with RabbitServer() as server:
        yield server


def connect(rabbit: RabbitServer) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", rabbit.port, heartbeat=0))


def add(rabbit: RabbitServer, chance: random.Random, first: int, count: int) -> Counter[str]:
    """Send words durably, each with an id; one that was not confirmed is sent again under the same id. Return them."""
    words = Counter[str]()
    properties = [pika.BasicProperties(message_id=str(n), delivery_mode=2) for n in range(first, first + count)]
    bodies = [f"w{chance.randrange(9)}" for _ in properties]
    at = 0
    while at < count:
        try:
            with closing(connect(rabbit)) as connection:
                channel = connection.channel()
                channel.queue_declare(QUEUE, durable=True)
                channel.confirm_delivery()
                while at < count:
                    channel.basic_publish("", QUEUE, bodies[at].encode(), properties[at], mandatory=True)
                    words[bodies[at]] += 1
                    at += 1
        except (AMQPError, OSError):
            time.sleep(0.1)
    return words


def left(rabbit: RabbitServer) -> int:
    """Return how many messages the queue holds, those under way included: the drivers are gone."""
    with closing(connect(rabbit)) as connection:
        return int(connection.channel().queue_declare(QUEUE, durable=True, passive=True).method.message_count)


def live(
    forks: Any, rabbit: RabbitServer, server: RedisServer, folder: Path, chance: random.Random, lives: int
) -> None:
    """Let drivers die one after the other, and the broker beside one of them; then compare counts and queue."""
    words, ends = add(rabbit, chance, 1, 40), []
    for number, point in enumerate([*chance.choices(POINTS, k=lives), ""]):
        child = forks.Process(target=run, args=(RabbitSpout(rabbit.port), server.url, folder, point))
        child.start()
        if number < lives:  # the last life takes what others left unacknowledged, undisturbed
            words += add(rabbit, chance, 1000 * (number + 1), 30)
        if number == 0:
            kill = threading.Timer(chance.uniform(0.0, 0.3), rabbit.restart)
            kill.start()
            kill.join()
        child.join(120)
        ends.append(-(child.exitcode or 0))
        assert ends[-1] == signal.SIGUSR1 or (point and ends[-1] == signal.SIGKILL), f"life up to {point or 'the end'}"
    assert signal.SIGKILL in ends
    with openState("t", "counts", url=server.url) as counts:
        assert Counter(dict(counts.items())) == words
    assert left(rabbit) == 0, "a message was never acknowledged"


def test_a_queue_is_counted_exactly_through_kills(
    tmp_path: Path, rabbit: RabbitServer, redis_server: RedisServer, forks: Any
) -> None:
    live(forks, rabbit, redis_server, tmp_path / "c", random.Random(7), 2)


@pytest.mark.soak(weight=2)
def test_a_queue_is_counted_exactly_through_many_kills(
    tmp_path: Path, rabbit: RabbitServer, redis_server: RedisServer, forks: Any, soak: Soak
) -> None:
    for number, chance in enumerate(soak.draws(100)):
        redis_server.client.flushall()
        live(forks, rabbit, redis_server, tmp_path / str(number), chance, 2)
