"""Batches of an odd size: none at all, one key a thousand times, a key and a value as long as a book."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local

LONG = "x" * 1_000_000
BATCHES: list[list[str]] = [[], ["a"], [], ["a"] * 1000 + ["b"], [LONG], [LONG, "a"], []]
COUNTS = {"a": 1002, "b": 1, LONG: 2}


class Longest:
    """Keeps the longest word itself: a value of a megabyte."""

    outputType = "string"

    def init(self, tuple: Any) -> str:
        return str(tuple[0])

    def combine(self, a: str, b: str) -> str:
        return max(a, b, key=len)

    def zero(self) -> str:
        return ""


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
@pytest.mark.parametrize("home", ["memory", "redis"])
def test_batches_of_any_size_are_counted_once_over_a_restart(
    home: str, kind: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    """The batches that touch nothing move the markers of every state all the same."""

    def state() -> Any:
        if home == "redis":
            return getattr(RedisMapState, kind)(shared_redis.url, buckets=4)
        return getattr(MemoryMapState, kind)()

    for _ in range(2):
        topology = TridentTopology()
        words = topology.newStream("words", FixedBatchSpout("word string", BATCHES))
        words.groupBy("word").persistentAggregate(state(), Count(), "count", name="counts")
        only_b = words.filter("word", lambda word: word == "b").groupBy("word")
        only_b.persistentAggregate(state(), Count(), "count", name="rarely")
        first = words.each("word", lambda word: word[:1], "first string").groupBy("first")
        first.persistentAggregate(state(), "word", Longest(), "longest", name="longest")
        with start_local(topology, name="extremes", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=30)
            assert dict(running.state("counts").items()) == COUNTS
            assert dict(running.state("rarely").items()) == {"b": 1}
            assert dict(running.state("longest").items()) == {"a": "a", "b": "b", "x": LONG}
            (group,) = running.status["groups"].values()
            assert group["committed"] == len(BATCHES)
