"""A consumer group of Redis, through kills of driver and server (`kills.live`)."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.messages.group_spout import GROUP, STREAM, GroupSpout
from tests.spouts.messages.kills import RealQueue, live
from tests.support.durable_adds import add_entry
from tests.support.server import RedisServer
from tests.support.soak import Soak


class RedisGroup(RealQueue):
    """A stream with one group, from which entries are deleted once they are acknowledged."""

    points = (
        *("emit.after:2", "freeze.before:1", "freeze.after:2", "commit.state.after:2"),
        *("committed.after:1", "success.before:1", "success.after:1"),
    )
    delay, restarts, healthy = (0.05, 0.4), 9, 2

    def __init__(self, server: RedisServer) -> None:
        self.server = server

    def spout(self) -> GroupSpout:
        return GroupSpout(self.server.url)

    def create(self) -> None:
        self.server.connect().xgroup_create(STREAM, GROUP, id="0", mkstream=True)

    def send(self, words: dict[int, str]) -> None:
        client = self.server.connect()
        for number, word in words.items():
            add_entry(client, STREAM, f"{number}-0", {"word": word})

    def restart(self) -> None:
        self.server.restart()

    def left(self) -> int:
        client = self.server.connect()
        return int(client.xlen(STREAM)) + int(client.xpending(STREAM, GROUP)["pending"])


def test_a_group_is_counted_exactly_through_kills(tmp_path: Path, redis_server: RedisServer, forks: Any) -> None:
    live(forks, RedisGroup(redis_server), redis_server, tmp_path / "c", random.Random(7), 2)


@pytest.mark.soak(weight=2)
def test_a_group_is_counted_exactly_through_many_kills(
    tmp_path: Path, redis_server: RedisServer, forks: Any, soak: Soak
) -> None:
    for number, chance in enumerate(soak.draws(100)):
        redis_server.client.flushall()
        live(forks, RedisGroup(redis_server), redis_server, tmp_path / str(number), chance, 3)
