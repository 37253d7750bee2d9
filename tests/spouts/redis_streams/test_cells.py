"""Each kind of the spout with each kind of state, while drivers and the server are killed: the exact counts."""

import multiprocessing
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.redis_streams.cells import STREAMS, counting, run
from tests.support.durable_adds import add_entry
from tests.support.server import RedisServer
from tests.support.soak import Soak
from trident import openState
from trident.plan.guarantee import Promise, guarantees
from trident.state import RedisMapState

POINTS = ("emit.after:2", "freeze.before:1", "freeze.after:2", "commit.state.after:2", "success.before:1")
KINDS = ("transactional", "opaque")
STATES = ("transactional", "opaque", "nonTransactional")


@pytest.fixture(scope="module")
def forks() -> Any:
    """Children from a server that has everything imported: a driver's life takes no second."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["tests.spouts.redis_streams.cells", "trident.compiler.arrow.engine", "trident_state.redis", "pandas"]
    )
    return context


class Writer:
    """Adds words to the streams, also while the server is away: each once, because its id says whether it is there."""

    def __init__(self, server: RedisServer, chance: random.Random) -> None:
        self._client, self._chance = server.connect(), chance
        self.words: Counter[str] = Counter()
        self._last = dict.fromkeys(STREAMS, 0)

    def add(self, count: int) -> None:
        for _ in range(count):
            stream, word = self._chance.choice(STREAMS), f"w{self._chance.randrange(9)}"
            self._last[stream] += self._chance.randint(1, 3)
            self.words[word] += 1
            add_entry(self._client, stream, f"{self._last[stream]}-0", {"word": word})


@contextmanager
def killed_now_and_then(server: RedisServer, chance: random.Random, times: int) -> Iterator[None]:
    """Kill the server several times while the block runs, and start it again each time."""

    def kill() -> None:
        for _ in range(times):
            time.sleep(chance.uniform(0.05, 0.4))
            server.restart()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def live(
    forks: Any, server: RedisServer, kind: str, state: str, folder: Path, chance: random.Random, lives: int = 1
) -> None:
    """Let drivers die one after the other, and the server beside them, and compare the counts."""
    make = getattr(RedisMapState, state)
    writer = Writer(server, chance)
    writer.add(40)
    for point in [*chance.sample(POINTS, lives), ""]:
        child = forks.Process(target=run, args=(server.url, kind, make(server.url), folder, point))
        with killed_now_and_then(server, chance, 1):
            child.start()
            writer.add(30)
            child.join(120)
        assert child.exitcode == -(signal.SIGKILL if point else signal.SIGUSR1), f"life up to {point or 'the end'}"
    child = forks.Process(target=run, args=(server.url, kind, make(server.url), folder, ""))
    child.start()
    child.join(120)
    assert child.exitcode == -signal.SIGUSR1
    with openState("t", "counts", url=server.url) as counts:
        found = Counter(dict(counts.items()))
    if state == "nonTransactional":
        assert found >= writer.words, "nothing is lost"
    else:
        assert found == writer.words


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", STATES)
def test_a_cell_is_exact_through_kills_of_driver_and_server(
    tmp_path: Path, redis_server: RedisServer, forks: Any, kind: str, state: str
) -> None:
    topology = counting(redis_server.url, kind, getattr(RedisMapState, state)(redis_server.url))
    (found,) = guarantees(topology.sinks)
    exact = Promise.AT_LEAST_ONCE if state == "nonTransactional" else Promise.EXACTLY_ONCE
    assert found.promise is exact
    live(forks, redis_server, kind, state, tmp_path / "c", random.Random(f"{kind} {state}"))


@pytest.mark.soak(weight=2)
def test_cells_are_exact_through_many_kills(tmp_path: Path, redis_server: RedisServer, forks: Any, soak: Soak) -> None:
    for number, chance in enumerate(soak.draws(100)):
        redis_server.client.flushall()
        folder = tmp_path / str(number)
        live(forks, redis_server, chance.choice(KINDS), chance.choice(STATES), folder, chance, lives=3)
