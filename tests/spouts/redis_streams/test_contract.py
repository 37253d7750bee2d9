"""RedisStreamSpout keeps the contract of all spouts, over a real server."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident.spouts import RedisStreamSpout
from trident.testing import SpoutContract

MakeSpout = Callable[[], Any]
WORDS = "cow moon dog spoon dish fiddle cat laugh run over little sport see such jumped".split()


def fill(server: RedisServer, *streams: str) -> None:
    """Add an entry for each word to each stream, with ids of the test's own."""
    for stream in streams:
        for n, word in enumerate(WORDS):
            server.client.xadd(stream, {"word": word, "n": n}, id=f"{n + 1}-{n % 3}")


@pytest.mark.parametrize(("kind", "most"), [("transactional", 1), ("opaque", 7)])
class TestRedisStreamSpout(SpoutContract):
    @pytest.fixture
    def make_spout(self, shared_redis: RedisServer, kind: Any, most: int) -> MakeSpout:
        fill(shared_redis, "a", "b", "c")
        return lambda: RedisStreamSpout(
            shared_redis.url, ["a", "b", "c"], "word string, n long", kind=kind, maxEntriesPerBatch=most, idField="id"
        )

    @pytest.fixture
    def every_row(self) -> list[Any]:
        return [(f"{n + 1}-{n % 3}", word, n) for n, word in enumerate(WORDS)] * 3


class TestFromAnId(SpoutContract):
    @pytest.fixture
    def make_spout(self, shared_redis: RedisServer) -> MakeSpout:
        fill(shared_redis, "a")
        return lambda: RedisStreamSpout(shared_redis.url, "a", startingIds="8-1", maxEntriesPerBatch=3)

    @pytest.fixture
    def every_row(self) -> list[Any]:
        """Return the entries behind the id 8-1, which is that of the eighth word."""
        return [(f"{n + 1}-{n % 3}", "a", {"word": word, "n": str(n)}) for n, word in enumerate(WORDS)][8:]
