"""Readers that stay open while a checkpoint is restored from an older copy and then has other batches of its txids."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import Fed, counting, fixed
from tests.support.waiting import wait_until
from trident import CombinerAggregator, TridentTopology, openState, openTopology
from trident.errors import StateEndedError, StateError, StateNotFollowedError
from trident.reads.state_changes import Position
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

OLDER = 2
READ = 4


class Restored:
    """A checkpoint that stands at txid 4, with a copy of it at txid 2."""

    def __init__(self, folder: Path, driver_lives: bool) -> None:
        """`driver_lives`: whether the copy is of the same driver that wrote the later batches, or of an earlier one."""
        self.place, self.backup = folder / "ck", folder / "backup"
        self.driver = Fed(checkpointLocation=str(self.place))
        for _ in range(OLDER):
            self.driver.feed("dog")
        if driver_lives:
            shutil.copytree(self.place, self.backup)
        else:
            self.driver.running.stop()
            shutil.copytree(self.place, self.backup)
            self.driver = Fed(checkpointLocation=str(self.place))
        for _ in range(READ - OLDER):
            self.driver.feed(*["dog"] * 10)

    def restore(self, batches: int) -> None:
        """Put the copy in place of the checkpoint, and let another driver go on for some batches."""
        self.driver.running.stop()
        copy = self.place.with_name("copy")  # complete before it has its name: a reader maps a file of SQLite's log
        shutil.copytree(self.backup, copy)
        self.place.rename(self.place.with_name("lost"))
        copy.rename(self.place)
        self.driver = Fed(checkpointLocation=str(self.place))
        for _ in range(batches):
            self.driver.feed("dog")


def ended(read: Callable[[], Any]) -> bool:
    """Return whether a read is refused as one of another history. A count that nobody ever had fails the test."""
    try:
        assert read() == 22  # the copy's own last value, while the log is away
    except StateEndedError as error:
        assert "restored from an older copy while the state was open" in str(error)
        return True
    except StateError:
        pass
    return False


@pytest.mark.parametrize("driver_lives", [False, True])
@pytest.mark.parametrize("grown", [0, 1, 2, 3, 5])
def test_a_reader_notices_that_the_log_went_back(tmp_path: Path, grown: int, driver_lives: bool) -> None:
    restored = Restored(tmp_path, driver_lives)
    where = {"checkpointLocation": str(restored.place)}
    with openState("wc", "counts", **where) as state, openTopology(counting(fixed()), name="wc", **where) as opened:
        wait_until(lambda: opened.asOfTxid == {"words": READ})
        assert state["dog"] == opened.state("counts")["dog"] == 22
        restored.restore(grown)
        for read in (lambda: state["dog"], lambda: opened.state("counts")["dog"], opened.state("counts").toArrow):
            wait_until(lambda read=read: ended(read))
        with pytest.raises(StateEndedError):
            opened.asOfTxid  # noqa: B018
        assert opened.watched.status().condition == "unreachable"
    with openState("wc", "counts", **where) as state:
        assert state["dog"] == OLDER + grown
    restored.driver.running.stop()


def test_a_feed_does_not_go_on_in_another_history(tmp_path: Path) -> None:
    restored = Restored(tmp_path, True)
    changes = restored.driver.running.changes("counts")
    place = changes.begin(None)
    assert place.txid == READ and place.digest is not None and Position.read(str(place)) == place
    assert changes.begin(place) == place
    former = Position(place.life, place.txid)  # as an earlier version wrote it
    restored.restore(batches=5)
    changes = restored.driver.running.changes("counts")
    for use in (changes.begin, lambda place: list(changes.after(place))):
        with pytest.raises(StateEndedError, match="has another batch 4: its log was restored from an older copy"):
            use(place)
    (change,) = changes.after(changes.begin(former))
    assert (change.txid, change.digest) == (7, changes.begin(None).digest)
    restored.driver.running.stop()


# --- code of the user's that fails in the reader's process ------------------------------------------------------------


class Longest(CombinerAggregator):
    outputType = "long"
    broken: "BaseException | None" = None

    def init(self, tuple: Any) -> int:
        return len(tuple.word)

    def combine(self, a: int, b: int) -> int:
        if self.broken is not None:
            raise self.broken
        return max(a, b)

    def zero(self) -> int:
        return 0


def longest(spout: Any, aggregator: Longest) -> TridentTopology:
    """Two groups: one whose aggregator may break, and one that is as well as ever."""
    topology = TridentTopology()
    words = topology.newStream("words", spout).groupBy("k")
    words.persistentAggregate(MemoryMapState.opaque(), "word", aggregator, "longest", name="longest")
    other = topology.newStream("other", fixed(["a"]))
    other.groupBy("word").persistentAggregate(MemoryMapState.opaque(), "word", Longest(), "longest", name="well")
    return topology


@pytest.mark.parametrize("error", [FileNotFoundError("/etc/only/on/the/driver"), SystemExit(3)])
def test_a_follower_that_cannot_go_on_says_so_and_goes_on_when_it_can(
    tmp_path: Path, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    feeder, own = FeederBatchSpout("word string, k string"), Longest()
    with start_local(longest(feeder, Longest()), name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed([("dog", "a")], wait=True, timeout=20)
        wait_until(lambda: running.asOfTxid["other"] == 1)
        with openTopology(
            longest(FeederBatchSpout("word string, k string"), own), name="wc", checkpointLocation=tmp_path
        ) as opened:
            assert opened.state("longest")["a"] == 3
            own.broken = error
            feeder.feed([("house", "a")], wait=True, timeout=20)

            def refused() -> bool:
                try:
                    opened.state("longest", isolation="latest")["a"]
                except StateNotFollowedError as stopped:
                    return type(error).__name__ in str(stopped) and "txid 1" in str(stopped)
                return False

            wait_until(refused)
            with pytest.raises(StateNotFollowedError):
                opened.state("longest")["a"]
            status = opened.watched.status()
            assert status.condition == "unreachable" and status.fault is not None
            assert "cannot be followed after txid 1" in caplog.text
            assert opened.state("well")["a"] == 1  # the other group is followed
            own.broken = None
            wait_until(lambda: not refused())
            assert opened.state("longest")["a"] == 5


def test_a_state_that_cannot_follow_is_refused_where_each_read_brings_it_up(tmp_path: Path) -> None:
    feeder, own = FeederBatchSpout("word string, k string"), Longest()
    with start_local(longest(feeder, Longest()), name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed([("dog", "a")], wait=True, timeout=20)
        with openState("wc", "longest", checkpointLocation=tmp_path, aggregator=own) as state:
            assert state["a"] == 3
            own.broken = ValueError("no such package")
            feeder.feed([("house", "a")], wait=True, timeout=20)
            with pytest.raises(StateNotFollowedError, match="cannot follow its driver after txid 1.*no such package"):
                state["a"]
            own.broken = None
            assert state["a"] == running.state("longest")["a"] == 5
