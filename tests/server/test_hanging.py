"""Calls that hang are told, whichever way they came."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.waiting import wait_until
from trident import CombinerAggregator, TridentTopology
from trident.errors import DRPCTimeoutError
from trident.run.running import RunningTopology
from trident.server.limits import Limits
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState


@dataclass
class Held:
    """A function, and what an aggregator presents, that return when they are let go."""

    go: threading.Event = field(default_factory=threading.Event)

    def hold(self, word: str) -> str:
        self.go.wait(60)
        return word


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[RunningTopology, str, Held]]:
    holds = Held()

    class Slow(CombinerAggregator):
        def init(self, word: str) -> int:
            return 1

        def combine(self, one: int, other: int) -> int:
            return one + other

        def zero(self) -> int:
            return 0

        def present(self, value: int) -> int:
            holds.go.wait(60)
            return value

    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["dog"]]))
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), "word", Slow(), "n long", name="counts")
    topology.newDRPCStream("hold", "word string").each("word", holds.hold, "held string")
    with (
        topology.start(engine="embedded", name="held", checkpointLocation=tmp_path) as running,
        running.serve(limits=Limits(timeoutSecs=0.3)) as server,
    ):
        running.processAllAvailable(30)
        try:
            yield running, server.url, holds
        finally:
            holds.go.set()


def by_the_program(running: RunningTopology, url: str) -> None:
    with pytest.raises(DRPCTimeoutError):
        running.drpc.execute("hold", "dog", timeout=0.3)


def by_http(running: RunningTopology, url: str) -> None:
    assert httpx.post(f"{url}/drpc/hold", json={"args": ["dog"]}, timeout=30).status_code == 504


def by_a_read(running: RunningTopology, url: str) -> None:
    assert httpx.get(f"{url}/state/counts/dog", timeout=30).status_code == 504


def by_a_page(running: RunningTopology, url: str) -> None:
    assert httpx.get(f"{url}/state/counts", timeout=30).status_code == 504


@pytest.mark.parametrize("ask", [by_the_program, by_http, by_a_read, by_a_page])
def test_a_call_that_hangs_is_told_until_it_ends(held: tuple[RunningTopology, str, Held], ask: Any) -> None:
    running, url, holds = held
    ask(running, url)
    (told,) = running.status["hanging"]
    assert told["call"].startswith("a read" if ask in (by_a_read, by_a_page) else "DRPC 'hold': Held.hold")
    assert told["since"]
    shown = httpx.get(f"{url}/status", timeout=30).json()["hanging"]
    assert [call["call"] for call in shown] == [told["call"]]
    holds.go.set()
    wait_until(lambda: not running.status["hanging"])
