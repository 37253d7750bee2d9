"""A topology read without its driver: functions and states, over restarts."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.server.counting import counting
from tests.support.server import RedisServer
from tests.support.waiting import wait_until
from trident import Count, TridentTopology, dropState, expr, openTopology
from trident.errors import (
    LogError,
    StateClosedError,
    StateEndedError,
    StateError,
    StateRecoveringError,
    StateShapeError,
    TopologyError,
    TridentError,
)
from trident.log import RedisLog
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory
from trident.testing import DriverCrashedError, crash_at
from trident.testing.local import start_local


@pytest.fixture(params=["memory", "redis"])
def factory(request: pytest.FixtureRequest, shared_redis: RedisServer) -> StateFactory:
    return MemoryMapState.opaque() if request.param == "memory" else RedisMapState.opaque(shared_redis.url)


def test_functions_and_states_answer_while_drivers_come_and_go(factory: StateFactory, tmp_path: Path) -> None:
    topology, feeder = counting(factory)
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed([("dog",), ("cat",)])
        running.processAllAvailable()
        opened = openTopology(topology, name="wc", checkpointLocation=tmp_path)
        wait_until(lambda: opened.drpc.execute("total", "dog cat") == [(2,)])
        feeder.feed([("dog",)])
        running.processAllAvailable()
        wait_until(lambda: opened.asOfTxid == {"words": 2})
        result = opened.drpc.execute("total", "dog cat")
        assert (result, result.asOfTxid) == ([(3,)], 2)
    with opened:
        assert opened.drpc.execute("count", "dog") == [("dog", 2)]
        again, feeder = counting(factory)
        with again.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
            feeder.feed([("dog",)])
            running.processAllAvailable()
            wait_until(lambda: opened.drpc.execute("count", "dog") == [("dog", 3)])
        assert opened.state("counts")["dog"] == 3
        assert opened.asOfTxid == {"words": 3}
        assert opened.states == ("counts",)
    with pytest.raises(StateClosedError, match="topology 'wc' was closed here"):
        opened.drpc.execute("count", "dog")


@pytest.mark.parametrize("how", ["drop", "reset"])
@pytest.mark.parametrize("log", ["files", "redis"])
def test_a_copy_of_a_state_that_was_dropped_is_read_no_more(
    how: str, log: str, tmp_path: Path, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No driver starts again, so no later batch shows it."""
    monkeypatch.setattr("trident.access.follower._CHECK_SECONDS", 0.05)
    place: dict[str, Any] = {"checkpointLocation": tmp_path}
    if log == "redis":
        place["log"] = RedisLog(shared_redis.url, requireDurable=False)
    topology, feeder = counting()
    with topology.start(engine="embedded", name="wc", **place) as running:
        feeder.feed([("dog",)])
        running.processAllAvailable()
    with openTopology(topology, name="wc", **place) as opened:
        assert opened.drpc.execute("count", "dog") == [("dog", 1)]
        if how == "drop":
            dropState("wc", "counts", **place)
        else:
            topology.reset("wc", **place)
        expected = StateRecoveringError if how == "reset" and log == "files" else StateEndedError
        reads: list[Callable[[], object]] = [
            lambda: opened.state("counts").get("dog"),
            lambda: opened.drpc.execute("count", "dog"),
            lambda: opened.asOfTxid,
        ]
        for read in reads:
            wait_until(lambda read=read: isinstance(error_of(read), expected))  # type: ignore[misc]


def error_of(read: Callable[[], object]) -> BaseException | None:
    """Return the error, or the cause of a DRPC error, that a read raises."""
    try:
        read()
    except TridentError as error:
        return error if isinstance(error, StateError) else error.__cause__
    return None


def test_a_batch_that_the_states_hold_and_the_log_has_not_committed_is_not_shown(
    factory: StateFactory, tmp_path: Path
) -> None:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["dog"], ["dog"], ["dog"]]))
    words.groupBy("word").persistentAggregate(factory, Count(), "count", name="counts")
    given: dict[str, Any] = {"name": "wc", "checkpointLocation": tmp_path}
    with crash_at("committed.before", 2), suppress(DriverCrashedError), start_local(topology, **given) as running:
        running.processAllAvailable(timeout=20)
    with openTopology(topology, name="wc", checkpointLocation=tmp_path) as opened:
        assert (opened.asOfTxid, dict(opened.state("counts").items())) == ({"words": 1}, {"dog": 1})
        with start_local(topology, **given) as running:
            running.processAllAvailable(timeout=20)
        wait_until(lambda: opened.asOfTxid == {"words": 3})
        assert opened.state("counts")["dog"] == 3


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    topology, _ = counting()
    with pytest.raises(TopologyError, match="give the checkpointLocation of its topology"):
        openTopology(topology, name="wc")
    with pytest.raises(TopologyError, match=r"openTopology\('wc'\): expected the TridentTopology of the program"):
        openTopology("wc", checkpointLocation=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(LogError, match="no topology 'wc'"):
        openTopology(topology, name="wc", checkpointLocation=tmp_path)


def test_a_state_that_another_program_wrote_is_refused(tmp_path: Path) -> None:
    topology, _ = counting()
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path):
        pass
    other = TridentTopology()
    numbers = other.newStream("words", FixedBatchSpout("word bigint", [[(1,)]]))
    numbers.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with pytest.raises(StateShapeError, match=r"has \(word string\) -> bigint by Count, but this program writes"):
        openTopology(other, name="wc", checkpointLocation=tmp_path)
    other = TridentTopology()
    words = other.newStream("words", FixedBatchSpout("word string", [[("a",)]]))
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="cuonts")
    with pytest.raises(StateError, match="state 'cuonts' of topology 'wc' does not exist yet"):
        openTopology(other, name="wc", checkpointLocation=tmp_path)


def test_a_function_that_needs_spark_is_refused(tmp_path: Path) -> None:
    topology, _ = counting()
    topology.newDRPCStream("upper", "word string").each("word", expr("upper(word)"), "loud string")
    with pytest.raises(TopologyError, match="DRPC 'upper' has an operation that only Spark can run,"):
        openTopology(topology, name="wc", checkpointLocation=tmp_path)
