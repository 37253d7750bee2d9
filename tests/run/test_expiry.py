"""Values that live for a time, in a running topology: the time logged with a batch's plan counts, no later one."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from tests.support.wall import Wall
from trident import Count, TridentTopology
from trident.errors import StateUnavailableError
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local
from trident_state.memory import MemoryStore
from trident_state.redis import RedisStore

YEAR = 365 * 86_400.0


pytestmark = pytest.mark.usefixtures("nothing_left_running")


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
        wall.advance(59)
        feeder.feed([("a",)], wait=True, timeout=20)
        assert dict(running.state("counts").items()) == {"a": 2, "b": 1}
        wall.advance(2)
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

    wall.advance(YEAR)
    with start_local(topology, **how) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == {"a": 3, "b": 1, "c": 1}
        feeder.feed([("a",)], wait=True, timeout=20)
        assert dict(running.state("counts").items()) == {"a": 1}


class Often:
    """Counts tuples, one at a time."""

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + 1


class Listing:
    """Writes under each key what it finds there and one more, and emits what it finds of all keys."""

    def updateState(self, state: Any, tuples: list[Any], collector: Any) -> None:
        collector.emit([" ".join(f"{word}={n}" for word, n in sorted(state.getTuples()))])
        state.multiUpdate([t.word for t in tuples], [lambda stored: (stored or 0) + 1] * len(tuples))


@pytest.mark.parametrize("home", ["memory", "redis"])
def test_an_update_that_reads_before_it_writes_finds_what_a_combiner_would(
    tmp_path: Path, shared_redis: RedisServer, home: str
) -> None:
    """After a long time without a batch, of which the state's last one knows nothing."""
    wall, feeder = Wall(), FeederBatchSpout("word string")
    state: Any = MemoryMapState.opaque(ttlSecs=60)
    if home == "redis":
        state = RedisMapState.opaque(shared_redis.url, ttlSecs=60)
    topology = TridentTopology()
    words = topology.newStream("words", feeder)
    words.groupBy("word").persistentAggregate(state, "word", Often(), "n long", name="reduced")
    updated = words.partitionPersist(
        state, "word", Listing(), "seen string", keyFields="word", valueType="long", name="updated"
    )
    seen = updated.newValuesStream(everyChange=True).groupBy("seen")
    seen.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="seen")
    with start_local(topology, name="wc", checkpointLocation=tmp_path, clock=wall) as running:
        for passed, words_fed in ((0, "ab"), (59, "a"), (59, "a"), (1000, "ac")):
            wall.advance(passed)
            feeder.feed([(word,) for word in words_fed], wait=True, timeout=20)
        assert dict(running.state("reduced").items()) == {"a": 1, "c": 1}
        assert dict(running.state("updated").items()) == {"a": 1, "c": 1}
        assert dict(running.state("seen").items()) == {"": 2, "a=1 b=1": 1, "a=2": 1}


def test_what_had_passed_away_when_a_driver_was_killed_is_not_back_under_one_with_another_rule(tmp_path: Path) -> None:
    """Its batches are applied again, by the rule that they were frozen under."""
    wall, feeder = Wall(), FeederBatchSpout("word string")

    def start(place: str, life: float | None) -> Any:
        topology = TridentTopology()
        words = topology.newStream("words", feeder).groupBy("word")
        words.persistentAggregate(MemoryMapState.opaque(ttlSecs=life), Count(), "count", name="counts")
        return start_local(topology, name="wc", checkpointLocation=tmp_path / place, clock=wall)

    with start("first", 60) as running:
        feeder.feed([("a",), ("b",)], wait=True, timeout=20)
        wall.advance(40)
        feeder.feed([("b",)], wait=True, timeout=20)
        wall.advance(40)
        feeder.feed([("c",)], wait=True, timeout=20)
        expected = dict(running.state("counts").items())
        assert expected == {"b": 2, "c": 1}
        for place in ("none", "short"):
            shutil.copytree(tmp_path / "first", tmp_path / place)  # as a kill leaves it: no last snapshot
    with start("none", None) as running:
        assert dict(running.state("counts").items()) == expected
    with start("short", 30) as running:
        assert dict(running.state("counts").items()) == expected
        feeder.feed([("b",)], wait=True, timeout=20)
        assert dict(running.state("counts").items()) == {"b": 1, "c": 1}, "the new rule, from the next batch on"
