"""A server without memory left: the commit waits, says why, and goes through when there is room again."""

from pathlib import Path

import pytest

from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base.errors import StateFullError
from trident.spouts import FeederBatchSpout
from trident.state import RedisMapState
from trident.testing.local import start_local


def test_a_full_server_loses_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis", "always", "--maxmemory-policy", "noeviction") as server:
        feeder = FeederBatchSpout("word string")
        topology = TridentTopology()
        words = topology.newStream("words", feeder).groupBy("word")
        words.persistentAggregate(RedisMapState.opaque(server.url), Count(), "count", name="counts")
        options = {"name": "full", "checkpointLocation": tmp_path / "checkpoint"}
        with start_local(topology, **options) as running:
            feeder.feed(["a"])
            running.processAllAvailable(timeout=20)
            server.client.config_set("maxmemory", "1")
            feeder.feed(["a", "b"])
            with pytest.raises(TimeoutError, match=r"it waits for: state 'counts'.*memory") as waited:
                running.processAllAvailable(timeout=1.5)
            assert isinstance(waited.value.__cause__, StateFullError)
            assert running.state("counts").get("b") is None and running.state("counts")["a"] == 1
            server.client.config_set("maxmemory", "0")
            running.processAllAvailable(timeout=20)
            assert dict(running.state("counts").items()) == {"a": 2, "b": 1}


def test_a_server_that_stays_full_ends_the_run_with_the_batch_frozen(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis", "always") as server:
        feeder = FeederBatchSpout("word string")
        topology = TridentTopology()
        words = topology.newStream("words", feeder).groupBy("word")
        words.persistentAggregate(RedisMapState.opaque(server.url), Count(), "count", name="counts")
        options = {"name": "full", "checkpointLocation": tmp_path / "checkpoint"}
        running = start_local(topology, commitRetrySecs=0.2, **options)
        server.client.config_set("maxmemory", "1")
        feeder.feed(["a"])
        with pytest.raises(StateFullError):
            running.processAllAvailable(timeout=20)
        running.stop()
        server.client.config_set("maxmemory", "0")
        with start_local(topology, **options) as again:
            again.processAllAvailable(timeout=20)
            assert dict(again.state("counts").items()) == {"a": 1}
