"""What a start finds after a power loss, a crash between any two lines, or a change of the code, and makes of it."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import trident
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base.errors import CodeChangedError, StateAheadError, StateUnavailableError
from trident.batches import log_retention
from trident.frozen.results import FrozenFiles
from trident.log.frozen_results import freeze
from trident.log.sqlite_log import SqliteLog
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local

BATCHES = [["a", "b"], ["a"], ["c", "a"], ["b"], ["a"]]
WORDS = FixedBatchSpout("word string", BATCHES)
COUNTS = {"a": 4, "b": 2, "c": 1}


pytestmark = pytest.mark.usefixtures("nothing_left_running")


def edit(checkpoint: Path, statement: str, *values: Any) -> None:
    """Change the log of topology "wc" behind its back."""
    with sqlite3.connect(checkpoint / "wc" / "log.sqlite") as db:
        db.execute(statement, values)
    db.close()


def two_stages(state: Any, spout: Any = WORDS) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", spout).groupBy("word")
    counts = words.persistentAggregate(state, Count(), "count", name="counts")
    counts.newValuesStream(everyChange=True).groupBy("count").persistentAggregate(state, Count(), "n", name="seen")
    return topology


def run(topology: TridentTopology, checkpoint: Path, *states: str, **options: Any) -> list[dict[Any, Any]]:
    with start_local(topology, name="wc", checkpointLocation=checkpoint, **options) as running:
        running.processAllAvailable(timeout=20)
        return [dict(running.state(state).items()) for state in states]


def test_commits_that_a_power_loss_took_from_the_log_are_found_again_in_the_states(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    """COMMITTED is not fsynced by itself: a server that is elsewhere may be several batches ahead of the log."""
    topology = two_stages(RedisMapState.opaque(shared_redis.url))
    before = run(topology, tmp_path, "counts", "seen", maxSpoutPending=4)
    edit(tmp_path, "UPDATE groups SET committed = frozen - 4")
    assert run(topology, tmp_path, "counts", "seen", maxSpoutPending=4) == before
    assert before[0] == COUNTS


def answered_stage(state: Any) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", WORDS)
    counts = words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    before = words.stateQuery(counts, "word", trident.MapGet(), "before")
    before.groupBy("before").persistentAggregate(state, Count(), "n", name="seen")
    return topology


def given_away(state: Any) -> TridentTopology:
    """The second stage has no state."""
    topology = TridentTopology()
    words = topology.newStream("words", WORDS).groupBy("word")
    counts = words.persistentAggregate(state, Count(), "count", name="counts")
    counts.newValuesStream().foreachArrow(lambda table, txid, attempt: None, name="totals")
    return topology


def looked_at(state: Any) -> TridentTopology:
    """Nor anything else that is frozen."""
    topology = TridentTopology()
    words = topology.newStream("words", WORDS).groupBy("word")
    words.persistentAggregate(state, Count(), "count", name="counts").newValuesStream().peek(lambda t: None)
    return topology


@pytest.mark.parametrize("staged", [two_stages, answered_stage, given_away, looked_at])
def test_an_old_copy_of_the_log_that_lacks_a_later_stage_is_refused(
    staged: Any, tmp_path: Path, shared_redis: RedisServer
) -> None:
    """The copy was made when batches 2 to 5 were frozen, and none of them was in the states; now all are."""
    checkpoint, newest = tmp_path / "checkpoint", tmp_path / "newest"
    topology = staged(RedisMapState.opaque(shared_redis.url))
    before = run(topology, checkpoint, "counts", maxSpoutPending=4)
    shutil.copytree(checkpoint, newest)
    edit(checkpoint, "UPDATE groups SET committed = frozen - 4")
    edit(checkpoint, "DELETE FROM frozen WHERE stage = 2 AND txid > 1")
    with pytest.raises(
        StateAheadError,
        match=r"'counts' is at txid 5, but the log .* a later stage of batch 2: the log is an old copy",
    ):
        run(topology, checkpoint)
    shutil.rmtree(checkpoint)
    newest.rename(checkpoint)
    assert run(topology, checkpoint, "counts") == before


def test_a_stage_that_is_new_after_a_power_loss_is_refused_and_the_former_program_goes_on(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    """The states are beyond the batches that are committed again, so nobody could tell it what was in them."""
    state = RedisMapState.opaque(shared_redis.url)
    run(one_state(state=state, batches=WORDS), tmp_path, maxSpoutPending=4)
    edit(tmp_path, "UPDATE groups SET committed = frozen - 4")
    more = FixedBatchSpout("word string", [*BATCHES, ["a", "d"]])
    with pytest.raises(
        CodeChangedError, match=r"batch 2 .*leads to state counts, state seen.*Start the previous program"
    ):
        run(two_stages(state, more), tmp_path)
    run(one_state(state=state, batches=WORDS), tmp_path)
    assert run(two_stages(state, more), tmp_path, "counts", "seen") == [{"a": 5, "b": 2, "c": 1, "d": 1}, {5: 1, 1: 1}]


def one_state(
    name: str = "counts", value: str = "word string", batches: Any = None, state: Any = None
) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", batches or FeederBatchSpout(value)).groupBy("word")
    words.persistentAggregate(state or MemoryMapState.opaque(), Count(), "count", name=name)
    return topology


def crashed(topology: TridentTopology, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, commits: bool) -> None:
    """A run whose memory states took no last snapshot; with `commits` False its last batch is frozen only."""
    from trident.commits.committer import Committer
    from trident_state.memory.store import MemoryStore

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "close", lambda self: None)
        if not commits:
            patch.setattr(Committer, "commit", _away)
        with start_local(topology, name="wc", checkpointLocation=checkpoint, commitRetrySecs=0) as running:
            try:
                running.processAllAvailable(timeout=20)
            except StateUnavailableError:
                assert not commits
            running._runs["words"].error = None


def _away(*_: object) -> None:
    raise StateUnavailableError("away")


def test_a_state_that_moved_to_a_later_stage_is_healed_from_where_it_was_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed(one_state(batches=WORDS), tmp_path, monkeypatch, commits=True)
    topology = TridentTopology()
    words = topology.newStream("words", WORDS)
    others = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="others")
    answered = words.stateQuery(others, "word", trident.MapGet(), "before")
    answered.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    assert run(topology, tmp_path, "counts") == [COUNTS]


def test_a_refused_start_leaves_no_new_state_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashed(one_state(batches=FixedBatchSpout("word string", [["a"]])), tmp_path, monkeypatch, commits=False)
    changed = TridentTopology()
    lines = changed.newStream("words", FixedBatchSpout("word string", [["a"], ["b"]])).groupBy("word")
    lines.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="new")
    with pytest.raises(CodeChangedError, match=r"batch 1 .* frozen .* the previous program"):
        run(changed, tmp_path)
    assert run(one_state(batches=FixedBatchSpout("word string", [["a"], ["b"]])), tmp_path, "counts") == [
        {"a": 1, "b": 1}
    ]
    assert run(changed, tmp_path, "new") == [{}]


def test_a_state_that_comes_back_after_batches_without_it_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(one_state(batches=FixedBatchSpout("word string", [["a"]])), tmp_path)
    run(one_state("others", batches=WORDS), tmp_path)
    with pytest.raises(
        CodeChangedError, match=r"stream 'words' fed 'counts' in an earlier program, and was then read by"
    ):
        run(one_state(batches=WORDS), tmp_path)


def test_a_store_that_is_away_when_the_log_would_be_trimmed_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trident_state.memory.store import MemoryStore

    durable, away = MemoryStore.durable, [3]

    def sometimes(self: MemoryStore) -> int:
        if away[0] and trims:
            away[0] -= 1
            raise StateUnavailableError("away")
        return durable(self)

    trims: list[int] = []
    trim = SqliteLog.trim
    original = log_retention.Trimming.trim_if_due

    def watched(self: log_retention.Trimming, committed: int) -> None:
        trims.append(1)
        original(self, committed)

    monkeypatch.setattr(log_retention, "TRIM_EVERY", 2)
    monkeypatch.setattr(log_retention.Trimming, "trim_if_due", watched)
    monkeypatch.setattr(MemoryStore, "durable", sometimes)
    trimmed: list[int] = []

    def trimmed_(self: SqliteLog, lease: Any, group: str, needed: int, *keep: int) -> list[str]:
        trimmed.append(needed)
        return trim(self, lease, group, needed, *keep)

    monkeypatch.setattr(SqliteLog, "trim", trimmed_)
    batches = FixedBatchSpout("word string", [["a"]] * 12)
    assert run(one_state(batches=batches), tmp_path, "counts") == [{"a": 12}]
    assert away == [0] and trimmed


def test_a_spout_that_is_idle_in_a_batch_of_its_group_gives_nothing_to_it(tmp_path: Path) -> None:
    topology = TridentTopology()
    one = topology.newStream("one", FixedBatchSpout("word string", [["a"], ["a"], ["b"]]))
    other = topology.newStream("other", FixedBatchSpout("word string", [["a"]]))
    words = topology.merge(one, other).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    assert run(topology, tmp_path, "counts") == [{"a": 3, "b": 1}]
    assert run(topology, tmp_path, "counts") == [{"a": 3, "b": 1}]


def test_a_group_without_states_goes_on_over_restarts(tmp_path: Path) -> None:
    seen: list[str] = []
    topology = TridentTopology()
    topology.newStream("words", FixedBatchSpout("word string", [["a"], [], ["b"]])).peek(lambda t: seen.append(t.word))
    run(topology, tmp_path)
    edit(tmp_path, "UPDATE groups SET committed = frozen - 1")
    run(topology, tmp_path)
    assert seen == ["a", "b"]


def test_what_memory_has_not_secured_is_never_trimmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_retention, "TRIM_EVERY", 1)
    batches = FixedBatchSpout("word string", [["a"]] * 40)
    with monkeypatch.context() as patch:
        patch.setattr(SqliteLog, "trim", _stingy(SqliteLog.trim))
        crashed(one_state(batches=batches), tmp_path, patch, commits=True)
        assert run(one_state(batches=batches), tmp_path, "counts") == [{"a": 40}]


def _stingy(trim: Any) -> Any:
    def trimmed(self: SqliteLog, lease: Any, group: str, needed: int, *keep: int) -> Any:
        return trim(self, lease, group, needed, 0, 0)

    return trimmed


def test_files_that_a_killed_driver_left_behind_are_swept(tmp_path: Path) -> None:
    run(one_state(batches=WORDS), tmp_path)
    uuid = (tmp_path / "wc" / "log.uuid").read_text().strip()
    frozen = f"frozen/{uuid}/words"
    scratch, unnamed, named = (
        tmp_path / "wc" / place for place in (f"scratch-{uuid}/1-9-0-1", f"{frozen}/1-9-0-1", f"{frozen}/1-4-0-1")
    )
    for folder in (scratch, unnamed, named):
        folder.mkdir(parents=True)
        (folder / "part.arrow").write_bytes(b"left behind")
    body = frozen_files(FrozenFiles(f"{frozen}/1-4-0-1", (), pa.schema([])))
    edit(tmp_path, "INSERT INTO frozen VALUES ('words', 4, 2, 'x', ?, 1, 0, 0, 0)", body)
    run(one_state(batches=WORDS), tmp_path)
    assert (scratch.exists(), unnamed.exists(), named.exists()) == (False, False, True)


def test_files_of_another_logs_drivers_are_not_swept(tmp_path: Path) -> None:
    """A start that slept through a reset comes to the folder of the next log, whose epochs begin at 1 again."""
    run(one_state(batches=WORDS), tmp_path)
    uuid = (tmp_path / "wc" / "log.uuid").read_text().strip()
    ours, theirs = (tmp_path / "wc" / "frozen" / log / "words" / "1-9-0-1" for log in (uuid, "f" * 32))
    for folder in (ours, theirs):
        folder.mkdir(parents=True)
        (folder / "part.arrow").write_bytes(b"about to be named")
    run(one_state(batches=WORDS), tmp_path)
    assert (ours.exists(), theirs.exists()) == (False, True)


def frozen_files(files: FrozenFiles) -> bytes:
    return freeze(files).body
