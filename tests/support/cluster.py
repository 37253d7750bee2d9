"""A real Redis Cluster on loopback, for tests to start, break and reshape."""

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
    `replicated`: each of them has a replica, the one of the same number in `replicas`.
    """

    def __init__(
        self,
        folder: Path,
        aof: Aof = "always",
        *options: str,
        masters: int = 3,
        full: bool = False,
        replicated: bool = False,
    ) -> None:
        cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS)]
        cluster += ["--cluster-require-full-coverage", "yes" if full else "no", "--repl-diskless-sync-delay", "0"]
        self.servers = [RedisServer(folder / str(n), aof, *cluster, *options) for n in range(masters)]
        copies = range(masters if replicated else 0)
        self.replicas = [RedisServer(folder / f"{n}-replica", aof, *cluster, *options) for n in copies]

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
        for replica in self.replicas:
            replica.start()
            _ask(self.servers[0], "CLUSTER", "MEET", "127.0.0.1", replica.port)
        if self.replicas:
            _until(self._met, "the replicas did not get to know their masters")
            for master, replica in zip(self.servers, self.replicas, strict=True):
                _ask(replica, "CLUSTER", "REPLICATE", _id(master))
            _until(self._replicated, "the replicas did not catch up")
        self.settle()
        return self

    def hand_over(self, number: int) -> None:
        """Let a replica take its master's slots, as an operator would; the master becomes its replica."""
        _ask(self.replicas[number], "CLUSTER", "FAILOVER", "TAKEOVER")
        self.await_heir(number)

    def cut_off_replica(self, number: int) -> None:
        """Pause a replica, so that it receives none of its master's writes from here on."""
        self.replicas[number].pause()
        _ask(self.servers[number], "CLIENT", "KILL", "TYPE", "replica")

    def take_out(self, server: RedisServer) -> None:
        """Take a server without slots out of the cluster; it runs on."""
        name = _id(server)
        _ask(server, "CLUSTER", "RESET")
        for other in (*self.servers, *self.replicas):
            if other is not server:
                _ask(other, "CLUSTER", "FORGET", name)

    def fail_over(self, number: int) -> None:
        """Kill a master; its replica takes its slots. Returns when all others know."""
        self.servers[number].kill()
        self.hand_over(number)

    def await_heir(self, number: int) -> None:
        """Wait until all that run know the replica of this number as the master of its slots."""
        heir, slot = self.replicas[number], self._share(number)[0]
        running = [server for server in (*self.servers, *self.replicas) if server.running]
        _until(lambda: all(_master_of(server, slot) == heir.port for server in running), "no replica took over")

    def settle(self) -> None:
        """Wait until every server that runs knows a running server for every slot."""
        running = [server for server in (*self.servers, *self.replicas) if server.running]
        _until(lambda: all(self._healthy(server) for server in running), "the cluster did not come together")

    def holder(self, tag: str) -> RedisServer:
        """Return the server that has the slot of a hash tag."""
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
        """Give the slot to this server."""
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

    def _met(self) -> bool:
        pairs = zip(self.servers, self.replicas, strict=True)
        return all(_id(master).encode() in _ask(replica, "CLUSTER", "NODES") for master, replica in pairs)

    def _replicated(self) -> bool:
        """Whether every replica has what its master has, and every server knows of all replicas."""
        follow = all(r.client.info("replication").get("master_link_status") == "up" for r in self.replicas)
        answers = [_ask(server, "CLUSTER", "SLOTS") for server in (*self.servers, *self.replicas)]
        return follow and all(len(parts) == 4 for slots in answers for parts in slots)

    def _healthy(self, server: RedisServer) -> bool:
        info = dict(
            line.split(":", 1) for line in _ask(server, "CLUSTER", "INFO").decode().split("\r\n") if ":" in line
        )
        nodes = _ask(server, "CLUSTER", "NODES").decode().splitlines()
        reached = sum(" connected" in line and "fail" not in line.split()[2] for line in nodes)
        return (
            info["cluster_state"] == "ok"
            and info["cluster_slots_ok"] == str(SLOTS)
            and reached == len(self.servers + self.replicas)
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in (*self.servers, *self.replicas):
            server.kill()


def _ask(server: RedisServer, *words: Any) -> Any:
    return server.client.execute_command(*words, NEVER_DECODE=True)  # type: ignore[no-untyped-call]


def _id(server: RedisServer) -> str:
    return str(_ask(server, "CLUSTER", "MYID"), "ascii")


def _master_of(server: RedisServer, slot: int) -> int:
    """Return the port of a slot's master, as a server knows it."""
    parts = _ask(server, "CLUSTER", "SLOTS")
    return next((int(master[1]) for first, last, master, *_ in parts if int(first) <= slot <= int(last)), 0)


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
