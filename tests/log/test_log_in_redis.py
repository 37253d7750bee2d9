"""A run whose transaction log is in Redis: another machine goes on, two drivers, what start and reset say."""

import contextlib
from pathlib import Path

import pytest

from tests.access.small_topologies import everything
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base.errors import (
    FencedError,
    LogError,
    LogMismatchError,
    SpoutError,
    StateUnavailableError,
    TopologyError,
)
from trident.log import RedisLog
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory
from trident.testing.local import start_local


def counting(feeder: FeederBatchSpout, state: StateFactory) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", feeder).groupBy("word")
    words.persistentAggregate(state, Count(), "count", name="counts")
    return topology


def started(server: RedisServer, feeder: FeederBatchSpout | None = None, **options: object) -> RunningTopology:
    topology = counting(feeder or FeederBatchSpout("word string"), RedisMapState.opaque(server.url))
    return start_local(topology, name="wc", log=RedisLog(server.url), **options)


def test_a_run_needs_no_folder_at_all_and_goes_on_where_it_ended(redis_server: RedisServer) -> None:
    for times in (1, 2, 3):
        feeder = FeederBatchSpout("word string")
        with started(redis_server, feeder) as running:
            feeder.feed(["a", "b"])
            feeder.feed(["a"])
            running.processAllAvailable(timeout=20)
            assert dict(running.state("counts").items()) == {"a": 2 * times, "b": times}


def test_a_later_driver_elsewhere_fences_the_first_one(redis_server: RedisServer, tmp_path: Path) -> None:
    feeders = [FeederBatchSpout("word string") for _ in range(2)]
    first = started(redis_server, feeders[0], checkpointLocation=tmp_path / "one")
    feeders[0].feed(["a"])
    first.processAllAvailable(timeout=20)
    from trident.run import registry

    registry.release("wc", first)  # what another process would not know of
    with started(redis_server, feeders[1], checkpointLocation=tmp_path / "two") as second:
        with contextlib.suppress(SpoutError, FencedError):  # the run may have failed by now
            feeders[0].feed(["a"], timeout=0)
        with pytest.raises(FencedError):
            first.awaitTermination(timeout=20)
        feeders[1].feed(["a"])
        second.processAllAvailable(timeout=20)
        assert second.state("counts")["a"] == 2


def test_a_server_that_is_restarted_in_the_middle_of_a_run_costs_nothing(redis_server: RedisServer) -> None:
    feeder = FeederBatchSpout("word string")
    with started(redis_server, feeder) as running:
        for n in range(6):
            feeder.feed(["a", f"w{n}"])
            if n % 2:
                redis_server.restart()
        running.processAllAvailable(timeout=60)
        assert running.state("counts")["a"] == 6


def test_a_server_that_stays_away_ends_the_run_and_the_next_start_goes_on(redis_server: RedisServer) -> None:
    feeder = FeederBatchSpout("word string")
    topology = counting(feeder, RedisMapState.opaque(redis_server.url))
    running = start_local(topology, name="wc", log=RedisLog(redis_server.url, retrySecs=0.3))
    redis_server.kill()
    feeder.feed(["a"])
    with pytest.raises((LogError, StateUnavailableError), match="does not answer"):
        running.processAllAvailable(timeout=20)
    running.stop()
    redis_server.start()
    feeder = FeederBatchSpout("word string")
    with started(redis_server, feeder) as running:
        feeder.feed(["a"])
        running.processAllAvailable(timeout=20)
        assert running.state("counts")["a"] >= 1


def test_reset_gives_up_log_and_states_together_and_fences_who_still_runs(redis_server: RedisServer) -> None:
    feeder = FeederBatchSpout("word string")
    log = RedisLog(redis_server.url)
    topology = counting(feeder, RedisMapState.opaque(redis_server.url))
    with start_local(topology, name="wc", log=log) as running:
        feeder.feed(["a"])
        running.processAllAvailable(timeout=20)
    assert redis_server.client.dbsize() > 1
    topology.reset("wc", log=log)
    assert redis_server.client.dbsize() == 0
    with pytest.raises(
        TopologyError, match="reset needs the location of the log: give the checkpointLocation= or log="
    ):
        topology.reset("wc")


def test_a_state_of_another_log_is_refused_with_the_call_that_gives_both_up(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    with started(redis_server):
        pass
    topology = counting(FeederBatchSpout("word string"), RedisMapState.opaque(redis_server.url))
    with pytest.raises(LogMismatchError, match="not to the one in .*wc"):
        start_local(topology, name="wc", checkpointLocation=tmp_path)
    log = RedisLog(redis_server.url, prefix="other")
    with pytest.raises(LogMismatchError, match=r"not to the one at RedisLog\(.*reset\('wc', log=RedisLog\('redis://"):
        start_local(topology, name="wc", log=log)


def test_a_state_in_memory_needs_a_folder_beside_it(redis_server: RedisServer, tmp_path: Path) -> None:
    log = RedisLog(redis_server.url)
    with pytest.raises(
        TopologyError, match="state 'counts'.*is in this process's memory.*give start.*checkpointLocation"
    ):
        start_local(counting(FeederBatchSpout("word string"), MemoryMapState.opaque()), name="wc", log=log)
    for times in (1, 2):
        feeder = FeederBatchSpout("word string")
        topology = counting(feeder, MemoryMapState.opaque())
        with start_local(topology, name="wc", log=log, checkpointLocation=tmp_path) as running:
            feeder.feed(["a"])
            running.processAllAvailable(timeout=20)
            assert running.state("counts")["a"] == times
    assert not list(tmp_path.rglob("*.sqlite*"))


def test_a_url_is_not_yet_a_log(redis_server: RedisServer) -> None:
    topology = counting(FeederBatchSpout("word string"), RedisMapState.opaque(redis_server.url))
    with pytest.raises(TopologyError, match=r"log= takes a RedisLog \(from trident.log\), not a str"):
        start_local(topology, name="wc", log=redis_server.url)


@pytest.mark.parametrize("first", ["Redis", "file"])
def test_a_folder_is_one_logs_and_another_one_sweeps_nothing_in_it(
    redis_server: RedisServer, tmp_path: Path, first: str
) -> None:
    """Whoever forgets log=, or gives one too many, must not lose the snapshots that the right log names."""
    log, folder = RedisLog(redis_server.url), tmp_path / "checkpoint"
    right, wrong = (log, None) if first == "Redis" else (None, log)
    for times in (1, 2):
        feeder = FeederBatchSpout("word string")
        with start_local(
            counting(feeder, MemoryMapState.opaque()), name="wc", log=right, checkpointLocation=folder
        ) as running:
            feeder.feed(["a"])
            running.processAllAvailable(timeout=20)
            assert running.state("counts")["a"] == times
        before = everything(folder)
        told = (
            r"belongs to a log \(.* that is not in this folder.*log=RedisLog"
            if wrong is None
            else r"another log .* at RedisLog\("
        )
        topology = counting(FeederBatchSpout("word string"), MemoryMapState.opaque())
        with pytest.raises(LogMismatchError, match=told):
            start_local(topology, name="wc", log=wrong, checkpointLocation=folder)
        assert everything(folder) == before
    topology.reset("wc", folder, log=log)
    with start_local(topology, name="wc", log=wrong, checkpointLocation=folder):
        pass
