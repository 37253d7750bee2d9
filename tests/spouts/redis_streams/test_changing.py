"""RedisStreamSpout keeps the contract of sources that change, over a server that is stopped, and put back to a copy."""

import itertools
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident.spouts import RedisStreamSpout
from trident.testing import ChangingSource, SourceContract


class Stream(ChangingSource):
    """A stream of numbers, on a server whose data file is its backup."""

    def __init__(self, server: RedisServer, kind: Any, latest: bool) -> None:
        self.server, self.kind, self.starts_at_its_end = server, kind, latest
        self._numbers = itertools.count()
        self._dump: bytes | None = None

    def spout(self) -> Any:
        starting = {"startingIds": "latest"} if self.starts_at_its_end else {}
        return RedisStreamSpout(
            self.server.url, "s", "n long", kind=self.kind, maxEntriesPerBatch=2, retrySecs=0.5, **starting
        )

    def add(self, count: int) -> list[tuple[int]]:
        rows = [(next(self._numbers),) for _ in range(count)]
        for (n,) in rows:
            self.server.client.xadd("s", {"n": n})
        return rows

    def copy(self) -> None:
        self._dump = self.server.client.dump("s")

    def restore(self) -> None:
        assert self._dump is not None
        self.server.client.restore("s", 0, self._dump, replace=True)

    def replace(self) -> None:
        self.server.client.delete("s")

    def remove(self) -> None:
        self.server.client.delete("s")

    def hide(self) -> None:
        self.server.kill()

    def show(self) -> None:
        self.server.start()


@pytest.mark.parametrize(("kind", "latest"), [("transactional", False), ("opaque", True)])
class TestStreams(SourceContract):
    @pytest.fixture
    def source(self, redis_server: RedisServer, kind: Any, latest: bool) -> Stream:
        return Stream(redis_server, kind, latest)
