"""What a start refuses, and what it warns of because it would surprise later."""

import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.run.test_running import word_count
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base.errors import (
    BatchFailedError,
    GuaranteeError,
    SpoutContractError,
    TopologyError,
    TridentError,
    UserFunctionError,
)
from trident.spouts import BatchSpout, FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local


def counting(*states: str, state: Any = MemoryMapState.opaque) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a", "b"], ["a"]])).groupBy("word")
    for name in states:
        words.persistentAggregate(state(), Count(), "count", name=name)
    return topology


@pytest.mark.parametrize("place", ["s3://bucket/wc", "hdfs:///wc", "dbfs:/wc"])
def test_a_checkpoint_where_files_cannot_be_locked_is_refused(place: str, tmp_path: Path) -> None:
    """Taken for a relative path it would be a local folder that nobody looks for."""
    scheme = place.partition(":")[0]
    with pytest.raises(
        TopologyError, match=rf"checkpointLocation='{place}': .* which {scheme}: does not have. Give a folder"
    ):
        start_local(word_count(), name="wc", checkpointLocation=place)
    assert not (Path.cwd() / f"{scheme}:").exists()


def test_a_checkpoint_that_is_a_file_is_refused_and_a_file_url_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TopologyError, match=r"/file is a file; name a folder"):
        start_local(word_count(), name="wc", checkpointLocation=tmp_path / "file" / "below")
    with start_local(word_count(), name="wc", checkpointLocation=f"file://{tmp_path}/there") as running:
        running.processAllAvailable(timeout=10)
    assert (tmp_path / "there" / "wc" / "log.sqlite").exists()


@pytest.mark.parametrize(
    ("option", "near"),
    [("checkpointlocation", "checkpointLocation"), ("triger", None), ("available_now", "availableNow")],
)
def test_a_misspelt_option_is_told_with_those_there_are(option: str, near: str | None) -> None:
    with pytest.raises(TopologyError) as caught:
        word_count().start(**{option: 1})
    meant = f"; did you mean {near!r}?" if near else ""
    assert str(caught.value).startswith(
        f"start has no option {option!r}{meant}; its options are engine, name, checkpointLoc"
    )


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (
            "ackers",
            "there are no .* attribute tracking decides",
        ),
        ("maxRowsPending", "rows are limited by the source: set maxPending of the RichSpout"),
    ],
)
def test_what_storm_calls_an_option_is_told_with_what_to_write(option: str, says: str) -> None:
    with pytest.raises(TopologyError, match=f"start has no option '{option}': {says}"):
        word_count().start(**{option: 4})


def test_without_a_checkpoint_a_start_says_what_ends_with_it(tmp_path: Path) -> None:
    with pytest.warns(
        RuntimeWarning, match=r"'wc' has no checkpointLocation: its states and its position end with"
    ) as told:
        start_local(word_count(), name="wc").stop()
    assert told[0].filename == __file__  # the line that one can change, by whatever way it was reached
    with pytest.raises(GuaranteeError, match="requireExactlyOnce=True needs a checkpointLocation: .* ends with the"):
        start_local(word_count(), name="wc", requireExactlyOnce=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start_local(word_count(), name="wc", checkpointLocation=tmp_path, requireExactlyOnce=True).stop()


def another_topologys(checkpoint: Path) -> TridentTopology:
    """Let the checkpoint hold the log of a topology of another name."""
    with start_local(counting("counts"), name="another", checkpointLocation=checkpoint) as running:
        running.processAllAvailable(timeout=10)
    shutil.copytree(checkpoint / "another", checkpoint / "wc", ignore=shutil.ignore_patterns("log.uuid"))
    return counting("counts")


def no_log(checkpoint: Path) -> TridentTopology:
    """Let the checkpoint hold a file of SQLite that is no log."""
    (checkpoint / "wc").mkdir(parents=True)
    db = sqlite3.connect(checkpoint / "wc" / "log.sqlite")
    db.execute("CREATE TABLE something (n INTEGER)")
    db.close()
    return counting("counts")


def another_source(checkpoint: Path) -> TridentTopology:
    """Let the checkpoint hold a log whose stream this program does not have."""
    with start_local(counting("counts"), name="wc", checkpointLocation=checkpoint) as running:
        running.processAllAvailable(timeout=10)
    topology = TridentTopology()
    lines = topology.newStream("lines", FixedBatchSpout("word string", [["a"]])).groupBy("word")
    lines.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def a_spout_that_does_not_open(checkpoint: Path) -> TridentTopology:
    class Closed(BatchSpout):
        outputFields = "word string"

        def open(self) -> None:
            raise ConnectionError("refused")

        def emitBatch(self, batchId: int) -> None: ...

    topology = TridentTopology()
    words = topology.newStream("words", Closed()).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="asks /proc which files are open")
@pytest.mark.parametrize("refused", [another_topologys, no_log, another_source, a_spout_that_does_not_open])
def test_a_start_that_is_refused_leaves_no_file_open(
    refused: Callable[[Path], TridentTopology], tmp_path: Path
) -> None:
    """As long as its error is kept, nothing is closed by being forgotten."""
    topology = refused(tmp_path)
    with pytest.raises(TridentError) as kept:
        start_local(topology, name="wc", checkpointLocation=tmp_path)
    files = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.exists(entry.path)]
    assert [file for file in files if file.startswith(str(tmp_path))] == [], kept.value


@pytest.mark.parametrize("home", ["memory", "redis"])
def test_a_state_that_is_added_to_a_stream_under_way_is_told_to_lack_what_was_before(
    home: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    def state() -> Any:
        return MemoryMapState.opaque() if home == "memory" else RedisMapState.opaque(shared_redis.url)

    with start_local(counting("old", state=state), name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=10)
    lacks = r"state 'new' is new, but its stream is at txid 2: .* not in the state. .* topology.reset\('wc', checkpoint"
    with (  # noqa: PT031  the warning comes at the start; the run is stopped within, before its folder goes
        pytest.warns(RuntimeWarning, match=lacks),
        start_local(counting("old", "new", state=state), name="wc", checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=10)
        assert dict(running.state("old").items()) == {"a": 2, "b": 1} and not list(running.state("new").items())


def test_a_reset_of_a_name_that_was_never_started_says_which_were(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counting("counts").reset("wc", tmp_path)  # nothing is there at all: the first run of a cell that begins anew
        start_local(counting("counts"), name="wc", checkpointLocation=tmp_path).stop()
    with pytest.warns(RuntimeWarning, match=r"no topology 'w' in .*; there are wc$") as told:
        counting("counts").reset("w", tmp_path)
    assert told[0].filename == __file__
    assert (tmp_path / "wc" / "log.sqlite").exists()


# --- what is not worth a second try --------------------------------------------------------------------------------


def failing(error: BaseException) -> tuple[TridentTopology, list[str]]:
    tried: list[str] = []

    def fail(word: str) -> str:
        tried.append(word)
        raise error

    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a"]])).map("word", fail, "word string")
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology, tried


def test_what_would_fail_in_the_same_way_again_is_tried_once(caplog: pytest.LogCaptureFixture) -> None:
    class Hopeless(UserFunctionError):
        hopeless = True

    topology, tried = failing(Hopeless("no way"))
    running = start_local(topology, name="wc")
    with pytest.raises(BatchFailedError, match=r"^batch 1 failed and would fail again: no way$"):
        running.awaitTermination(timeout=10)
    assert tried == ["a"]
    assert "failed: batch 1 failed and would fail again: no way" in repr(running).replace("BatchFailedError: ", "")


def test_what_may_pass_is_tried_again_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    topology, tried = failing(OSError("away"))
    running = start_local(topology, name="wc", maxAttempts=3)
    with pytest.raises(BatchFailedError, match=r"^batch 1 failed 3 times, the last time with: ") as caught:
        running.awaitTermination(timeout=10)
    assert isinstance(caught.value.__cause__, UserFunctionError)
    assert tried == ["a"] * 3
    told = [record for record in caplog.records if "run failed" in record.message and record.levelname == "WARNING"]
    assert len(told) == 1


def test_every_error_says_whether_it_is_hopeless() -> None:
    assert SpoutContractError.hopeless and TopologyError.hopeless
    assert not UserFunctionError.hopeless and not BatchFailedError.hopeless


@pytest.mark.parametrize("option", ["availableNow", "requireExactlyOnce", "replace"])
def test_an_option_that_is_true_or_false_takes_nothing_else(option: str) -> None:
    with pytest.raises(TopologyError, match=f"{option}='no': expected True or False"):
        start_local(word_count(), **{option: "no"})
