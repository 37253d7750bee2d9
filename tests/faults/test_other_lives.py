"""What lies in a state's place and is not what this log's drivers left there: a server that fell back to before a drop
or a reset, and two logs that were one."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident import Count, TridentTopology, dropState
from trident.base.errors import FencedError, LogMismatchError, StateAheadError, StateLostError
from trident.batches import log_retention
from trident.log.sqlite_log import SqliteLog
from trident.run import registry
from trident.run.start import LOG_FILE
from trident.spouts import FeederBatchSpout
from trident.state import RedisMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


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


def keeping_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the log delete each batch as soon as no state needs it."""
    trim = SqliteLog.trim
    monkeypatch.setattr(log_retention, "TRIM_EVERY", 1)
    monkeypatch.setattr(
        SqliteLog, "trim", lambda self, lease, group, needed, *keep: trim(self, lease, group, needed, 0, 0)
    )


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


def test_a_start_writes_the_batches_since_the_drop_again_if_the_log_has_them(
    server: RedisServer, tmp_path: Path
) -> None:
    counting = Counting(server.url, tmp_path / "checkpoint")
    counting.once("old", "old")
    server.client.save()
    dropState("wc", "counts", counting.checkpoint, url=server.url)
    assert counting.once("new", "newer") == {"new": 1, "newer": 1}
    server.restart()
    assert counting.once("new") == {"new": 2, "newer": 1}
    assert counting.once() == {"new": 2, "newer": 1}


def test_a_start_refuses_a_state_that_was_dropped_until_it_is_dropped_again(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has let a batch since the drop go."""
    counting = Counting(server.url, tmp_path / "checkpoint")
    counting.once("old", "old")
    server.client.save()
    dropState("wc", "counts", counting.checkpoint, url=server.url)
    keeping_nothing(monkeypatch)
    assert counting.once("new") == {"new": 1}
    server.restart()
    says = r"'counts' was dropped and recreated after txid 2, .* the batches after 3\. .* again with dropState\('wc'"
    for _ in range(2):
        with pytest.raises(StateLostError, match=says):
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


@pytest.mark.parametrize("idle", [True, False])
@pytest.mark.parametrize("before", [1, 2, 3])
def test_a_driver_stops_where_its_server_falls_back_to_before_a_reset(
    server: RedisServer, tmp_path: Path, before: int, idle: bool
) -> None:
    """Of which epoch the driver was that left it says nothing: they begin anew with a reset."""
    counting = Counting(server.url, tmp_path / "checkpoint")
    for _ in range(before):
        counting.once("old")
    server.client.save()
    counting.topology.reset("wc", counting.checkpoint)
    anew = Counting(server.url, counting.checkpoint)
    anew.once("new")
    running = anew.start()
    server.restart()
    if not idle:
        anew.feeder.feed([("new",)])
    with pytest.raises(
        LogMismatchError,
        match=r"the store of state 'counts' has the state of another log .* was restored to a time before",
    ):
        running.awaitTermination(20)
    assert running.status["groups"]["words"]["committed"] == 1


def fall_back(server: RedisServer, part: str, before: dict[bytes, bytes]) -> None:
    """These keys are again what they were, and nothing else is there of this part."""
    changes = server.client.pipeline(transaction=True)
    for name in server.client.keys(part):
        changes.delete(name)
    for name, held in before.items():
        changes.restore(name, 0, held)
    changes.execute()


@pytest.mark.parametrize("part", ["*/0}:*", "*/1}:*"])
def test_a_part_that_fell_back_to_before_a_drop_is_healed_though_it_has_other_buckets(
    server: RedisServer, tmp_path: Path, part: str
) -> None:
    counting = Counting(server.url, tmp_path / "checkpoint", groups=2, buckets=4)
    words = list("abcdefgh")
    counting.once(*words)
    before = {name: server.client.dump(name) for name in server.client.keys(part)}
    dropState("wc", "counts", counting.checkpoint, url=server.url)
    anew = Counting(server.url, counting.checkpoint, groups=2, buckets=64)
    with anew.start() as running:
        anew.feed(*words)
        fall_back(server, part, before)
        anew.feed(*words)
        assert dict(running.state("counts").items()) == dict.fromkeys(words, 2)


@pytest.mark.parametrize("options", [{"groups": 2}, {"groups": 2, "ttlSecs": 3600.0}, {"ttlSecs": 3600.0}])
def test_an_update_that_reads_a_state_of_other_buckets_has_it_healed_first(
    server: RedisServer, tmp_path: Path, options: dict[str, Any]
) -> None:
    part = "*/1}:*" if "groups" in options else "*"

    def begun(buckets: int) -> tuple[FeederBatchSpout, Any]:
        feeder, topology = FeederBatchSpout("word string"), TridentTopology()
        state = RedisMapState.opaque(server.url, buckets=buckets, **options)
        words = topology.newStream("words", feeder)
        words.partitionPersist(state, _plus_one, keyFields="word", valueType="long", name="counts")
        return feeder, start_local(topology, name="wc", checkpointLocation=tmp_path)

    feeder, running = begun(4)
    with running:
        feeder.feed(["a", "b"], wait=True, timeout=20)
    before = {name: server.client.dump(name) for name in server.client.keys(part)}
    dropState("wc", "counts", tmp_path, url=server.url)
    feeder, running = begun(8)
    with running:
        feeder.feed(["a", "b"], wait=True, timeout=20)
        fall_back(server, part, before)
        feeder.feed(["a", "b", "c"], wait=True, timeout=20)
        assert dict(running.state("counts").items()) == {"a": 2, "b": 2, "c": 1}


def _plus_one(state: Any, tuples: Sequence[Any], collector: Any) -> None:
    keys = [[each.word] for each in tuples]
    state.multiPut(keys, [(held or 0) + 1 for held in state.multiGet(keys)])


def test_what_another_log_founded_in_parts_is_refused_and_can_be_reset(server: RedisServer, tmp_path: Path) -> None:
    counting = Counting(server.url, tmp_path / "checkpoint", groups=2)
    counting.once()
    server.client.delete(*server.client.keys("*/0}:*"))  # the group that is founded last
    shutil.rmtree(counting.checkpoint)
    with pytest.raises(LogMismatchError, match=r"'counts' belongs to another log .* topology\.reset"):
        counting.start()
    assert server.client.keys("*") == [b"trident:{wc/counts/1}:m"]
    counting.topology.reset("wc", counting.checkpoint, force=True)
    assert counting.once("word") == {"word": 1}


def test_an_old_copy_of_the_log_is_told_by_what_a_later_driver_founded_in_parts(
    server: RedisServer, tmp_path: Path
) -> None:
    counting = Counting(server.url, tmp_path / "checkpoint", groups=2)
    counting.once()
    shutil.copytree(counting.checkpoint, tmp_path / "copy")
    dropState("wc", "counts", counting.checkpoint, url=server.url)
    counting.once()
    server.client.delete(*server.client.keys("*/0}:*"))
    copy = Counting(server.url, tmp_path / "copy", groups=2)
    with pytest.raises(
        StateAheadError, match=r"held by a driver of epoch 3 that .* did not start .its own epochs go up to 1.: .* copy"
    ):
        copy.start()
    assert counting.once("word") == {"word": 1}


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
            StateAheadError,
            match=r"held by a driver of epoch 2 that .* did not start .its own epochs go up to 1.: .* copy",
        ):
            here.start()
    assert there.once("there") == {"both": 1, "there": 2}


def test_a_log_whose_epochs_have_passed_those_of_its_copy_is_still_refused(server: RedisServer, tmp_path: Path) -> None:
    """Starts of another program, or drops of other states, count its epoch up."""
    here = Counting(server.url, tmp_path / "here")
    here.once("both")
    shutil.copytree(here.checkpoint, tmp_path / "there")
    there = Counting(server.url, tmp_path / "there")
    there.once()
    log = SqliteLog(here.checkpoint / "wc" / LOG_FILE, "wc")
    for _ in range(3):
        log.give_back(log.take())
    log.close()
    with pytest.raises(StateAheadError, match=r"of epoch 2 that this log, .*, did not start"):
        here.start()
    assert there.once("there") == {"both": 1, "there": 1}


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
    with pytest.raises(StateLostError, match="state 'counts' is missing in .*, completely or in part"):
        counting.start()
