"""A real Redis Cluster of masters on loopback, for tests to start, break and reshape."""

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from tests.support.server import Aof, RedisServer

SLOTS = 16384
NODE_TIMEOUT_MS = 1000


class RedisCluster:
    """`masters` servers, the slots divided evenly among them.

    `full`: every server refuses everything while any slot has no server (Redis' own default).
    """

    def __init__(self, folder: Path, aof: Aof = "always", *options: str, masters: int = 3, full: bool = False) -> None:
        cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS)]
        cluster += ["--cluster-require-full-coverage", "yes" if full else "no"]
        self.servers = [RedisServer(folder / str(n), aof, *cluster, *options) for n in range(masters)]

    @property
    def url(self) -> str:
        """Of every master, so that one of them may be away at a start: ``redis://127.0.0.1:port,127.0.0.1:port``."""
        return "redis://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def start(self) -> Self:
        """Start the servers, give them their slots, and return when all of them agree."""
        for server in self.servers:
            server.start()
        for number, server in enumerate(self.servers):
            _ask(server, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            _ask(server, "CLUSTER", "ADDSLOTSRANGE", *self._share(number))
            _ask(self.servers[0], "CLUSTER", "MEET", "127.0.0.1", server.port)
        self.settle()
        return self

    def settle(self) -> None:
        """Wait until every server that runs knows a running server for every slot."""
        running = [server for server in self.servers if server.running]
        _until(lambda: all(self._healthy(server) for server in running), "the cluster did not come together")

    def holder(self, tag: str) -> RedisServer:
        """The server that the slot of a hash tag was given to."""
        slot = int(_ask(self.servers[0], "CLUSTER", "KEYSLOT", f"{{{tag}}}"))
        return next(s for n, s in enumerate(self.servers) if self._share(n)[0] <= slot <= self._share(n)[1])

    def begin_moving(self, tag: str, to: RedisServer) -> int:
        """Open the way for a slot: its keys may be moved one by one. Gives the slot."""
        slot = int(_ask(to, "CLUSTER", "KEYSLOT", f"{{{tag}}}"))
        source = self.holder(tag)
        _ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", _id(source))
        _ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", _id(to))
        return slot

    def move_keys(self, tag: str, to: RedisServer, count: int = 1_000_000) -> int:
        """Move so many of the keys of a slot that `begin_moving` opened; how many there were."""
        slot = int(_ask(to, "CLUSTER", "KEYSLOT", f"{{{tag}}}"))
        names = _ask(self.holder(tag), "CLUSTER", "GETKEYSINSLOT", slot, count)
        if names:
            _ask(self.holder(tag), "MIGRATE", "127.0.0.1", to.port, "", 0, 20_000, "KEYS", *names)
        return len(names)

    def end_moving(self, tag: str, to: RedisServer) -> None:
        """The slot belongs to this server from here on."""
        slot = int(_ask(to, "CLUSTER", "KEYSLOT", f"{{{tag}}}"))
        for server in (to, *[server for server in self.servers if server is not to]):
            _ask(server, "CLUSTER", "SETSLOT", slot, "NODE", _id(to))

    def flush(self) -> None:
        for server in self.servers:
            server.client.flushall()

    def keys(self) -> set[str]:
        return {name for server in self.servers for name in map(str, server.client.keys("*"))}

    def _share(self, number: int) -> tuple[int, int]:
        per = SLOTS / len(self.servers)
        return round(number * per), round((number + 1) * per) - 1

    def _healthy(self, server: RedisServer) -> bool:
        info = dict(
            line.split(":", 1) for line in _ask(server, "CLUSTER", "INFO").decode().split("\r\n") if ":" in line
        )
        nodes = _ask(server, "CLUSTER", "NODES").decode().splitlines()
        reached = sum(" connected" in line and "fail" not in line.split()[2] for line in nodes)
        return info["cluster_state"] == "ok" and info["cluster_slots_ok"] == str(SLOTS) and reached == len(self.servers)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers:
            server.kill()


def _ask(server: RedisServer, *words: Any) -> Any:
    return server.client.execute_command(*words, NEVER_DECODE=True)  # type: ignore[no-untyped-call]


def _id(server: RedisServer) -> str:
    return str(_ask(server, "CLUSTER", "MYID"), "ascii")


def _until(holds: Callable[[], bool], failed: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except redis.ConnectionError:
            pass
        if time.monotonic() > deadline:
            raise RuntimeError(failed)
        time.sleep(0.02)
