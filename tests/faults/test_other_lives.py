"""What lies in a state's place and is not what this log's drivers left there: a server that fell back to before a drop
or a reset, and two logs that were one."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trident
from tests.support.server import RedisServer
from trident import Count, TridentTopology, dropState
from trident.base.errors import FencedError, LogMismatchError, StateAheadError, StateLostError
from trident.runtime import registry
from trident.spouts import FeederBatchSpout
from trident.state import RedisMapState
from trident.testing.local import start_local


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    for running in trident.active():
        running.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """One that comes back with what it last saved."""
    with RedisServer(tmp_path / "redis", "none") as server:
        yield server


class Counting:
    """Words are fed and counted; each start is another driver."""

    def __init__(self, url: str, checkpoint: Path, **options: Any) -> None:
        self.url, self.checkpoint, self.feeder = url, checkpoint, FeederBatchSpout("word string")
        self.topology = TridentTopology()
        words = self.topology.newStream("words", self.feeder).groupBy("word")
        words.persistentAggregate(RedisMapState.opaque(url, **options), Count(), "count", name="counts")

    def start(self) -> Any:
        return start_local(self.topology, name="wc", checkpointLocation=self.checkpoint)

    def feed(self, *words: str) -> None:
        for word in words:
            self.feeder.feed([(word,)], wait=True, timeout=20)

    def once(self, *words: str) -> dict[str, int]:
        with self.start() as running:
            self.feed(*words)
            return dict(running.state("counts").items())


def test_a_state_that_was_dropped_does_not_come_back_with_a_server_that_fell_back(
    server: RedisServer, tmp_path: Path
) -> None:
    counting = Counting(server.url, tmp_path / "checkpoint")
    assert counting.once("old", "old", "old") == {"old": 3}
    server.client.save()
    dropState("wc", "counts", counting.checkpoint, url=server.url)
    with counting.start() as running:
        counting.feed("new")
        server.restart()
        counting.feed("new")
        assert dict(running.state("counts").items()) == {"new": 2}


def test_a_start_refuses_a_state_that_was_dropped_until_it_is_dropped_again(
    server: RedisServer, tmp_path: Path
) -> None:
    counting = Counting(server.url, tmp_path / "checkpoint")
    counting.once("old", "old")
    server.client.save()
    dropState("wc", "counts", counting.checkpoint, url=server.url)
    assert counting.once("new") == {"new": 1}
    server.restart()
    for _ in range(2):
        with pytest.raises(StateLostError, match=r"'counts' was dropped and began anew after txid 2, .* drop it again"):
            counting.start()
    dropState("wc", "counts", counting.checkpoint, url=server.url)
    assert counting.once("newer") == {"newer": 1}


def test_what_was_dropped_is_dropped_again_where_no_batch_came_since(server: RedisServer, tmp_path: Path) -> None:
    counting = Counting(server.url, tmp_path / "checkpoint")
    counting.once("old", "old")
    server.client.save()
    dropState("wc", "counts", counting.checkpoint, url=server.url)
    assert counting.once() == {}
    server.restart()
    assert counting.once("new") == {"new": 1}


def test_a_driver_stops_where_its_server_falls_back_to_before_a_reset(server: RedisServer, tmp_path: Path) -> None:
    counting = Counting(server.url, tmp_path / "checkpoint")
    counting.once("old", "old", "old")
    server.client.save()
    counting.topology.reset("wc", counting.checkpoint)
    anew = Counting(server.url, counting.checkpoint)
    anew.once("new")  # a second start, so that its driver is of a later epoch than what comes back
    running = anew.start()
    server.restart()
    anew.feeder.feed([("new",)])
    with pytest.raises(LogMismatchError, match=r"'counts' lies in its store as another log .* fell back to before"):
        running.awaitTermination(20)
    assert running.status["groups"]["words"]["committed"] == 1


def test_a_batch_that_another_copy_of_the_log_made_is_not_taken_for_ours(server: RedisServer, tmp_path: Path) -> None:
    """Both froze a batch 2 of their own; only one of them is in the state."""
    here = Counting(server.url, tmp_path / "here")
    first = here.start()
    here.feed("both")
    shutil.copytree(here.checkpoint, tmp_path / "there")
    registry.release("wc", first)  # the second one runs as if on another machine
    there = Counting(server.url, tmp_path / "there")
    second = there.start()
    here.feeder.feed([("here",)])
    with pytest.raises(FencedError):
        first.awaitTermination(20)
    there.feed("there")
    second.stop()
    for _ in range(3):  # as often as a supervisor tries
        with pytest.raises(
            StateAheadError, match=r"held by the driver of epoch 2, .* gave out no epoch after 1: .* copy"
        ):
            here.start()
    assert there.once("there") == {"both": 1, "there": 2}


def test_a_part_that_went_is_healed_though_what_is_left_of_the_state_holds_no_keys(
    server: RedisServer, tmp_path: Path
) -> None:
    counting, other = Counting(server.url, tmp_path / "checkpoint", groups=2), "trident:{wc/counts/1}:m"
    counting.once("word")
    before = server.client.hgetall(other)
    assert before[b"keys"] == b"0"
    with counting.start() as running:
        counting.feed("word")
        server.client.delete(other, *server.client.keys("*/0}:*"))
        server.client.hset(other, mapping=before)  # as the driver before left it
        counting.feed("word")
        assert dict(running.state("counts").items()) == {"word": 3}
    server.client.delete(*server.client.keys("*/0}:*"))
    with pytest.raises(StateLostError, match="state 'counts' is gone or in parts gone"):
        counting.start()
