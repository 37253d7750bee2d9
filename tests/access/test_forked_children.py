"""States and topologies that were opened before a fork are read by parent and children at the same time."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.counting import counting
from tests.support.server import RedisServer
from tests.support.soak import some_of
from tests.support.waiting import wait_until
from trident import DRPCClient, openState, openTopology
from trident.log import RedisLog
from trident.state import MemoryMapState, RedisMapState, SqliteMapState
from trident.testing.contracts.stores.fixtures import in_children

WORDS = [f"w{number}" for number in range(40)]
BATCH = [(word,) for number, word in enumerate(WORDS) for _ in range(number + 1)]


class Place:
    """The arguments of a start, and of `openState`."""

    def __init__(self, place: str, folder: Path, redis: RedisServer) -> None:
        self.given: dict[str, Any] = {"checkpointLocation": folder}
        self.opening: dict[str, Any] = {"checkpointLocation": folder}
        self.factory: Any = MemoryMapState.opaque()
        if place == "memory, log in redis":
            self.given["log"] = self.opening["log"] = RedisLog(redis.url, requireDurable=False)
        elif place == "redis":
            self.factory, self.opening = RedisMapState.opaque(redis.url), {"url": redis.url}
        elif place == "sqlite":
            self.factory = SqliteMapState.opaque(folder / "states.db")


PLACES = ["memory", "memory, log in redis", "redis", "sqlite"]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, shared_redis: RedisServer) -> Place:
    return Place(request.param, tmp_path, shared_redis)


def read_all(read: Callable[[str], Any]) -> Callable[[], str]:
    """Return a function that reads each word, and returns the first wrong answer."""

    def work() -> str:
        for number, word in enumerate(WORDS):
            if (found := read(word)) != number + 1:
                return f"{word}: {found}"
        return "right"

    return work


def check(work: Callable[[], str]) -> None:
    """Fail unless this process and its children get right answers."""
    assert work() == "right", "the connections and threads are there now"
    assert in_children(work, work) == ["right"] * 4
    assert work() == "right"


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_an_opened_state_is_read_by_forked_children(place: Place) -> None:
    topology, feeder = counting(place.factory)
    with topology.start(engine="embedded", name="wc", **place.given) as running:
        feeder.feed(BATCH)
        running.processAllAvailable()
    with openState("wc", "counts", **place.opening) as counts:
        check(read_all(lambda word: counts[word]))

        def read_range() -> str:
            found = dict(counts.range("w1", "w2"))
            return (
                "right" if found == {word: n + 1 for n, word in enumerate(WORDS) if "w1" <= word < "w2"} else str(found)
            )

        check(read_range)


@pytest.mark.parametrize("place", some_of(PLACES, ["memory", "redis"]), indirect=True)
def test_an_opened_topology_answers_forked_children(place: Place) -> None:
    """Its functions run in threads, its copies are updated by a thread, and its SQL by processes of the parent."""
    topology, feeder = counting(place.factory)
    with topology.start(engine="embedded", name="wc", **place.given) as running:
        feeder.feed(BATCH)
        running.processAllAvailable()
        with openTopology(topology, name="wc", **place.given) as opened:
            check(read_all(lambda word: opened.drpc.execute("total", word)[0].sum))
            check(read_all(lambda word: opened.state("counts")[word]))

            def sql() -> str:
                rows = opened.sql("select sum(count) as n from counts")
                return "right" if rows[0].n == len(BATCH) else str(rows)

            check(sql)

            def until_changed() -> str:
                feeding = time.monotonic() + 20
                while time.monotonic() < feeding:
                    time.sleep(0.02)
                    if opened.drpc.execute("count", "later")[0]["count"] == 1:
                        return "right"
                return "the child does not follow the driver"

            def feed_once() -> str:
                if not fed:
                    fed.append(1)
                    feeder.feed([("later",)])
                    running.processAllAvailable()
                return "right"

            fed = list[int]()
            assert in_children(until_changed, feed_once) == ["right"] * 4


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Return the url of a server, and a function that lets it commit another batch."""
    topology, feeder = counting()
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed(BATCH)
        running.processAllAvailable()

        def commit() -> None:
            feeder.feed([("later",)])
            running.processAllAvailable()

        with running.serve() as server:
            yield server.url, commit


def test_a_client_asks_in_forked_children(served: tuple[str, Callable[[], None]]) -> None:
    with DRPCClient(served[0]) as client:
        check(read_all(lambda word: client.get("counts", word)))


def test_a_feed_continues_in_parent_and_children(served: tuple[str, Callable[[], None]]) -> None:
    url, commit = served
    with DRPCClient(url) as client:
        changes = client.changes("counts", snapshot=True)
        assert next(changes).snapshot
        commit()

        def read() -> str:
            found = next(changes).rows
            return "right" if found == [("later", 1)] else str(found)

        *children, _ = in_children(read, lambda: "right")
        assert children == ["right"] * 3
        assert read() == "right"
        commit()
        assert next(changes).rows == [("later", 2)]
        changes.close()


def test_a_run_is_refused_in_forked_children(tmp_path: Path) -> None:
    topology, feeder = counting()
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed(BATCH)
        running.processAllAvailable()
        view = running.state("counts")

        def wait() -> str:
            running.processAllAvailable()
            return "waited"

        for work in (
            lambda: str(view["w1"]),
            lambda: str(running.drpc.execute("total", "w1", timeout=5)),
            lambda: str(running.drpc.execute("count", "w1")),
            wait,
        ):
            *children, _ = in_children(work, lambda: "right", count=1)
            assert children == ["refused"]
        wait_until(lambda: view["w1"] == 2)
