"""Values that live for a time, in a running topology: the time logged with a batch's plan counts, no later one."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trident
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.errors import StateUnavailableError
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local
from trident_state.memory import MemoryStore
from trident_state.redis import RedisStore

YEAR = 365 * 86_400.0


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    for running in trident.active():
        running.stop()


class Wall:
    """The time of day as a test sets it; waiting is as ever."""

    now = 1_000_000.0
    monotonic = staticmethod(time.monotonic)

    def time(self) -> float:
        return self.now


@pytest.mark.parametrize("home", ["memory", "redis"])
def test_a_frozen_batch_that_is_committed_a_year_later_finds_what_was_there_when_it_was_planned(
    tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    wall, feeder = Wall(), FeederBatchSpout("word string")
    state: Any = MemoryMapState.opaque(ttlSecs=60)
    if home == "redis":
        state = RedisMapState.opaque(shared_redis.url, ttlSecs=60)
    topology = TridentTopology()
    words = topology.newStream("words", feeder).groupBy("word")
    words.persistentAggregate(state, Count(), "count", name="counts")
    how: dict[str, Any] = {"name": "wc", "checkpointLocation": tmp_path, "clock": wall}

    with start_local(topology, **how) as running:
        feeder.feed([("a",), ("b",)], wait=True, timeout=20)
        wall.now += 59
        feeder.feed([("a",)], wait=True, timeout=20)
        assert dict(running.state("counts").items()) == {"a": 2, "b": 1}
        wall.now += 2
        feeder.feed([("c",)], wait=True, timeout=20)
        assert dict(running.state("counts").items()) == {"a": 2, "c": 1}
        assert "b" not in running.state("counts")

    store: Any = MemoryStore if home == "memory" else RedisStore

    def away(self: Any, *args: Any, **more: Any) -> Any:
        raise StateUnavailableError("state 'counts': away for a test")

    with monkeypatch.context() as patching:
        patching.setattr(store, "apply", away)
        running = start_local(topology, commitRetrySecs=0, **how)
        feeder.feed([("a",), ("b",)])
        with pytest.raises(StateUnavailableError, match="away for a test"):
            running.awaitTermination(20)

    wall.now += YEAR
    with start_local(topology, **how) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == {"a": 3, "b": 1, "c": 1}
        feeder.feed([("a",)], wait=True, timeout=20)
        assert dict(running.state("counts").items()) == {"a": 1}
