"""A real queue: a consumer group of Redis, through kills of driver and server. Counts are exact, the queue is empty."""

import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.spouts.messages.group_spout import GROUP, STREAM, GroupSpout
from tests.spouts.messages.word_driver import run
from tests.support.server import RedisServer
from tests.support.soak import Soak
from trident import openState

POINTS = ("emit.after:2", "freeze.before:1", "freeze.after:2", "commit.state.after:2", "committed.after:1")
POINTS_OF_ACKS = ("success.before:1", "success.after:1")


def add(server: RedisServer, chance: random.Random, first: int, count: int) -> Counter[str]:
    """Add words to the stream, each once, also while the server is away. Return them."""
    client, words = server.connect(), Counter[str]()
    for number in range(first, first + count):
        word = f"w{chance.randrange(9)}"
        words[word] += 1
        while True:
            try:
                client.xadd(STREAM, {"word": word}, id=f"{number}-0")
            except (redis.ConnectionError, redis.TimeoutError):
                time.sleep(0.02)
                continue
            except redis.ResponseError as error:
                assert "equal or smaller" in str(error)  # it was added, and the reply was lost
            break
    return words


def live(forks: Any, server: RedisServer, folder: Path, chance: random.Random, lives: int) -> None:
    """Let drivers die one after the other, and the server beside them; then compare counts and queue."""
    server.connect().xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    words, ends = add(server, chance, 1, 40), []
    for number, point in enumerate([*chance.choices((*POINTS, *POINTS_OF_ACKS), k=lives), "", ""]):
        child = forks.Process(target=run, args=(GroupSpout(server.url), server.url, folder, point))
        child.start()
        if number <= lives:  # the last life takes what others left unacknowledged, undisturbed
            kill = threading.Timer(chance.uniform(0.05, 0.4), server.restart)
            kill.start()
            words += add(server, chance, 1000 * (number + 1), 30)
            kill.join()
        child.join(120)
        ends.append(-(child.exitcode or 0))
        assert ends[-1] == signal.SIGUSR1 or (point and ends[-1] == signal.SIGKILL), f"life up to {point or 'the end'}"
    assert signal.SIGKILL in ends
    with openState("t", "counts", url=server.url) as counts:
        assert Counter(dict(counts.items())) == words
    client = server.connect()
    assert client.xlen(STREAM) == 0, "an entry was never acknowledged"
    assert client.xpending(STREAM, GROUP)["pending"] == 0


def test_a_group_is_counted_exactly_through_kills(tmp_path: Path, redis_server: RedisServer, forks: Any) -> None:
    live(forks, redis_server, tmp_path / "c", random.Random(7), 2)


@pytest.mark.soak(weight=2)
def test_a_group_is_counted_exactly_through_many_kills(
    tmp_path: Path, redis_server: RedisServer, forks: Any, soak: Soak
) -> None:
    for number, chance in enumerate(soak.draws(100)):
        redis_server.client.flushall()
        live(forks, redis_server, tmp_path / str(number), chance, 3)
