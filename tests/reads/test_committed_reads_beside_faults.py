"""Readers beside a writer that commits, fails, repeats and restarts: never half a batch, one txid a read."""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.reads.reading_kit import LEASE, States, state_node
from tests.reads.test_committed_reads import writing
from tests.support.request_proxy import Cut, RequestProxy
from tests.support.server import RedisServer
from trident import MapGet, Sum, TridentTopology
from trident.access.opening import openState
from trident.base.errors import StateError, StateUnavailableError
from trident.reads.committed_reads import read_consistently
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local
from trident_state.memory import store as memory
from trident_state.memory.entries import Entries
from trident_state.store_messages import Update

WORDS = [f"w{n}" for n in range(40)]


pytestmark = pytest.mark.usefixtures("nothing_left_running")


@contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, chance: random.Random) -> Iterator[list[int]]:
    """Memory states break off in the middle of every third batch or so; how often they did."""
    real, often = Entries.put, [0]

    def put(self: Entries, slots: Any, triples: Any) -> None:
        if len(slots) <= 8 and chance.random() < 0.06:  # not while a snapshot is loaded
            often[0] += 1
            raise StateUnavailableError("broken off for a test")
        real(self, slots, triples)

    with monkeypatch.context() as patching:
        patching.setattr(memory, "_CHUNK", 8)
        patching.setattr(Entries, "put", put)
        yield often


@contextmanager
def cut_off(server: RedisServer, chance: random.Random, calm: threading.Event) -> Iterator[tuple[str, list[int]]]:
    """A server behind a network that cuts off every fifth commit, after any of its commands; not while it is calm."""
    often = [0]

    def ask(commands: Sequence[bytes]) -> Cut | None:
        if calm.is_set() or chance.random() > 0.2 or not any(b"EVALSHA" in command for command in commands):
            return None
        often[0] += 1
        return Cut(chance.randint(0, len(commands)))

    with RequestProxy(server.port, ask) as proxy:
        yield f"redis://127.0.0.1:{proxy.port}/0", often


def topology_of(state: Any) -> tuple[TridentTopology, FeederBatchSpout]:
    """What goes into ``ins`` leaves ``outs``, for every word alike."""
    feeder, topology = FeederBatchSpout("word string, n long, m long"), TridentTopology()
    words = topology.newStream("words", feeder).groupBy("word")
    ins = words.persistentAggregate(state, "n", Sum(), "value", name="ins")
    outs = words.persistentAggregate(state, "m", Sum(), "value", name="outs")
    asked = topology.newDRPCStream("both").each("args", split, "word string")
    asked.stateQuery(ins, "word", MapGet(), "a").stateQuery(outs, "word", MapGet(), "b").project("word", "a", "b")
    return topology, feeder


def split(args: str) -> Iterator[str]:
    yield from args.split(" ")


class Readers:
    """Threads that read both states of a run in one request, and one that reads a state from outside of any run."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.reads, self._over = 0, threading.Event()

    @contextmanager
    def of(self, running: RunningTopology) -> Iterator[None]:
        over = threading.Event()

        def read() -> None:
            last = 0
            while not over.is_set():
                try:
                    found = running.drpc.execute("both", " ".join(WORDS), timeout=20)
                except StateError:  # it may have to wait, and says so; it may not answer wrongly
                    continue
                self._look({(row.a, row.b) for row in found})
                assert isinstance(found.asOfTxid, int), "one batch group: one txid"
                last = self._newer(found.asOfTxid, last)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(30)

    @contextmanager
    def outside(self, **place: Any) -> Iterator[None]:
        def read() -> None:
            last = 0
            while not self._over.is_set():
                try:
                    with openState("bank", "ins", **place) as view:
                        while not self._over.is_set():
                            found = set(view.multiGet(WORDS))
                            self.reads += 1
                            if len(found) != 1:
                                self.wrong.append(f"from outside: {found}")
                            last = self._newer(max(found), last)
                except StateError:
                    time.sleep(0.01)

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(30)

    def _look(self, found: set[tuple[int, int]]) -> None:
        self.reads += 1
        (a, b), *others = found
        if others or a + b:
            self.wrong.append(f"in one request: {sorted(found)[:3]}")

    def _newer(self, found: int, last: int) -> int:
        if found < last:
            self.wrong.append(f"{found} after {last}")
        return found


@pytest.mark.parametrize("home", ["memory", "redis"])
def test_nobody_sees_half_a_batch_while_commits_break_off_and_drivers_come_and_go(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    chance, readers, given, calm = random.Random(11), Readers(), 0, threading.Event()
    calm.set()
    with ExitStack() as stack:
        if home == "redis":
            url, faults = stack.enter_context(cut_off(shared_redis, chance, calm))
            state: Any = RedisMapState.opaque(url, groups=2, buckets=32)
            place: dict[str, Any] = {"url": shared_redis.url}
        else:
            faults = stack.enter_context(interrupted(monkeypatch, chance))
            state, place = MemoryMapState.opaque(), {"checkpointLocation": tmp_path}
        topology, feeder = topology_of(state)
        for number in range(3):
            with start_local(topology, name="bank", checkpointLocation=tmp_path) as running, ExitStack() as reading:
                feeder.feed([(word, 1, -1) for word in WORDS], wait=True, timeout=30)
                given += 1
                if number == 0:
                    stack.enter_context(readers.outside(**place))
                reading.enter_context(readers.of(running))
                calm.clear()
                for _ in range(12):
                    feeder.feed([(word, 1, -1) for word in WORDS], wait=True, timeout=30)
                    given += 1
                calm.set()
        with start_local(topology, name="bank", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=30)
            assert set(running.state("ins").multiGet(WORDS)) == {given}
    assert not readers.wrong, readers.wrong[:5]
    assert faults[0] >= 5 and readers.reads > 50, "too little happened: this shows nothing"


@pytest.mark.parametrize(("home", "count"), [("memory", 1_000_000), ("redis", 300_000)])
def test_a_scan_of_very_many_keys_ends_beside_batches_of_ten_milliseconds(
    shared_redis: RedisServer, home: str, count: int
) -> None:
    """All of it as of one txid, though the writer never pauses by itself."""
    states = States({"g": [state_node("ins")]}, None if home == "memory" else RedisMapState.opaque(shared_redis.url))
    words = pa.array([f"w{n}" for n in range(count)])
    zeros = pa.array(np.zeros(count, np.int64))
    states.stores["ins"].apply(LEASE, Update(1, pa.table({"word": words}), zeros))
    states.txids["g"] = 1
    some = [f"w{n}" for n in range(0, count, count // 500)]

    def batch() -> None:
        states.commit("g", {"ins": dict.fromkeys(some, 1)})
        time.sleep(0.008)

    with writing(batch):
        began, at = time.monotonic(), states.txids["g"]
        pages = read_consistently(states, ["ins"], lambda snapshot: list(snapshot.scan("ins")))
        seconds = time.monotonic() - began
        while states.txids["g"] < at + 10:
            assert time.monotonic() < began + 60, "the writer stands still"
    table = pa.concat_tables(pages)
    assert table.num_rows == count and seconds < 30
    moved = table.filter(pc.is_in(table["word"], pa.array(some)))["value"].to_pylist()
    assert len(moved) == len(some) and len(set(moved)) == 1
    for store in states.stores.values():
        store.close()
