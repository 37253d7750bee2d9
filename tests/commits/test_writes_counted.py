"""What a small batch costs, by counting: one durable write of the log, and one round trip to each server."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.request_proxy import RequestProxy
from tests.support.server import RedisServer
from trident import Count, Sum, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local

BATCHES = 30
SPOUT = FixedBatchSpout("word string, n long", [[("a", 1), (f"w{n}", n)] for n in range(BATCHES)])


pytestmark = pytest.mark.usefixtures("nothing_left_running")


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Every transaction of the log that wrote something, in order: its first write, and whether its commit waits for
    the disk (``synchronous=FULL``: in WAL mode SQLite calls fsync in such a commit, and in no other)."""
    seen: list[tuple[str, bool]] = []

    class Connection(sqlite3.Connection):
        full, first = True, ""

        def _note(self, sql: str) -> None:
            words = sql.split()
            if words[:3] == ["PRAGMA", "synchronous", "="]:
                self.full = words[3] == "FULL"
            elif words[0] == "BEGIN":
                self.first = ""
            elif words[0] in ("INSERT", "UPDATE", "DELETE", "CREATE"):
                self.first = self.first or " ".join(words[:3])
            elif words[0] == "COMMIT" and self.first:
                seen.append((self.first, self.full))

        def execute(self, sql: str, *args: Any) -> Any:
            if sql.strip():
                self._note(sql)
            return super().execute(sql, *args)

        def executemany(self, sql: str, *args: Any) -> Any:
            self._note(sql)
            return super().executemany(sql, *args)

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: real(*args, factory=Connection, **more))
    return seen


def topology_into(*states: Any) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", SPOUT).groupBy("word")
    for at, state in enumerate(states):
        aggregator = (Count(), Sum())[at % 2]
        words.persistentAggregate(state, *([] if at % 2 == 0 else ["n"]), aggregator, f"v{at}", name=f"s{at}")
    return topology


def test_a_batch_waits_for_the_disk_once(tmp_path: Path, transactions: list[tuple[str, bool]]) -> None:
    """However many states it has: attempts and COMMITTED ride with the next FROZEN."""
    states = [MemoryMapState.opaque(), MemoryMapState.transactional(), MemoryMapState.opaque()]
    with start_local(topology_into(*states), name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        during = list(transactions)
    begun = during.index(("INSERT OR REPLACE", False))  # the first attempt
    run = during[begun:]
    waits = [first for first, full in run if full]
    freezes = [first for first in waits if first == "DELETE FROM attempts"]
    assert len(freezes) == BATCHES
    assert len(waits) <= BATCHES + 2, "beside the freezes only what an idle second made durable"
    assert sum(not full for _, full in run) >= 2 * BATCHES, "attempts and commits are written, and not waited for"


def test_a_batch_takes_one_round_trip_to_each_store(tmp_path: Path, shared_redis: RedisServer) -> None:
    """Opening, all puts and the commit of a native aggregate; also of a state that the batch leaves alone."""
    asked: list[list[bytes]] = []

    def ask(commands: Sequence[bytes]) -> None:
        asked.append(list(commands))

    with RequestProxy(shared_redis.port, ask) as proxy:
        state = RedisMapState.opaque(f"redis://127.0.0.1:{proxy.port}/0")
        topology = topology_into(state, state)
        with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
            asked.clear()
            running.processAllAvailable(timeout=20)
            during = list(asked)
            assert running.state("s1")["a"] == BATCHES
    writes = [commands for commands in during if any(b"EVALSHA" in command for command in commands)]
    assert len(writes) == 2 * BATCHES, "one request a batch and state"
    assert {len(commands) for commands in writes} == {3}, "open, merge, commit"
    others = len([commands for commands in during if commands]) - len(writes)
    assert others <= 8, "the look at fences and markers once a second, and what each state has forgotten, once"


def test_a_start_asks_each_store_a_dozen_times(tmp_path: Path, shared_redis: RedisServer) -> None:
    """What server it is; three looks at it and at what is there; whether that is whole, the scripts, the fence, the
    markers. (Of few buckets: a request of more than a packet may come in parts, and would be counted as several.)"""
    asked: list[list[bytes]] = []

    def ask(commands: Sequence[bytes]) -> None:
        asked.append(list(commands))

    with RequestProxy(shared_redis.port, ask) as proxy:
        topology = topology_into(RedisMapState.opaque(f"redis://127.0.0.1:{proxy.port}/0", buckets=64))
        for _ in range(2):
            asked.clear()
            with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
                during = list(asked)
                running.processAllAvailable(timeout=20)
    requests = [commands[0].split(b"\r\n")[2] for commands in during if commands]
    requests = [request for request in requests if request != b"CLIENT"]  # redis-py tells each connection who it is
    looks = [b"INFO", b"TYPE"] * 3
    assert requests == [b"INFO", *looks, b"MULTI", b"SCRIPT", b"EVALSHA", b"HMGET"]
