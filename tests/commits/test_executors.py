"""What the driver makes of its executors' reports, in a commit turn: tasks in this process, a real server."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.state.redis.states import LEASE, SECOND, SHAPE, contents, opened, started, update, words
from tests.support.group_carriers import group_carriers
from tests.support.inline_puts import InlinePuts, frozen_files
from tests.support.server import RedisServer
from trident import Count, MapGet, TridentTopology
from trident.base.errors import (
    FencedError,
    LogCorruptError,
    SnapshotMovedError,
    StateBehindError,
    StateError,
    StateRecoveringError,
    StateUnavailableError,
)
from trident.commits.carriers import Carriers
from trident.compiler.stages import cut
from trident.files.disk import DiskFiles
from trident.frozen.results import FrozenFiles
from trident.plan.nodes import StateQuery, StateWriter
from trident.reads.static_states import SharedForeignState, open_statics
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident_spouts.shared_reading import SharesEmission
from trident_state.state_shape import StateIdentity, StateKind
from trident_state.store import Shared
from trident_state.store_messages import Applied

GIVEN = {number: number + 1 for number in range(20)}
EXPECTED = {f"w{number}": count for number, count in GIVEN.items()}


def carriers_of(writers: Any, puts: InlinePuts, folder: Path, store: Shared) -> tuple[Carriers, StateQuery]:
    made = TridentTopology()
    stream = made.newStream("words", FixedBatchSpout("word string", [["w1"]]))
    state = RedisMapState.opaque("redis://localhost", writers=writers)
    counts = stream.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    asked = stream.stateQuery(counts, "word", MapGet(), "before")
    asked.each("before", _known, "known long").groupBy("word").persistentAggregate(state, Count(), "n", name="again")
    step = asked._node
    assert isinstance(step, StateQuery)
    return group_carriers(cut(made).groups[0], {"counts": store}, puts, DiskFiles(folder), LEASE), step


def write(carriers: Carriers, frozen: FrozenFiles) -> Applied:
    """Write a result as batch 1 of state `counts`."""
    return carriers.write(writer(carriers, "counts"), 1, frozen, False)


def writer(carriers: Carriers, state: str) -> StateWriter:
    return next(step for step in carriers.plan.group.states if step.state.name == state)


def writes(carriers: Carriers, state: str, frozen: FrozenFiles) -> str:
    """Return the carrier that writes a result into a state, as far as is known now."""
    return carriers.of("write", writer(carriers, state), frozen).name


def _known(before: int | None) -> int:
    return before or 0


def batch_in(folder: Path) -> FrozenFiles:
    rows = words(list(GIVEN)).append_column("count", pa.array(list(GIVEN.values()), pa.int64()))
    return frozen_files(folder, [rows.slice(0, 7), rows.slice(7)])


class Looking(InlinePuts):
    """Workers before whose first look something happens."""

    def __init__(self, checkpoint: Path, before: Callable[[], object]) -> None:
        super().__init__(checkpoint)
        self._before = [before]

    def check_reached(self, shared: Any) -> None:
        while self._before:
            self._before.pop()()
        super().check_reached(shared)


@pytest.mark.parametrize("writers", ["executors", "auto"])
def test_a_server_that_comes_back_empty_before_the_workers_look_is_not_taken_for_another_one(
    shared_redis: RedisServer, tmp_path: Path, writers: str
) -> None:
    with started(shared_redis.url, groups=2) as store:
        looked, _ = carriers_of(writers, Looking(tmp_path, shared_redis.client.flushall), tmp_path, store)
        with pytest.raises(StateBehindError):
            write(looked, batch_in(tmp_path))
        store.create(LEASE, 0)
        store.acquire(LEASE)
        assert writes(looked, "counts", batch_in(tmp_path)) == "executors"
        applied = write(looked, batch_in(tmp_path))
        assert applied.written == len(GIVEN)
        assert contents(store, 1) == EXPECTED


def test_a_server_that_comes_back_empty_before_the_workers_ask_is_healed_first(
    shared_redis: RedisServer, tmp_path: Path
) -> None:
    with started(shared_redis.url) as store:
        store.apply(LEASE, update(1, GIVEN))
        looked, step = carriers_of("executors", Looking(tmp_path, shared_redis.client.flushall), tmp_path, store)
        asking = frozen_files(tmp_path, [words([1, 2, 99])])
        with pytest.raises(StateRecoveringError):
            looked.ask(step, asking, 1)
        store.create(LEASE, 0)
        store.acquire(LEASE)
        store.apply(LEASE, update(1, GIVEN))
        emission = looked.ask(step, asking, 1)
        assert isinstance(emission, SharesEmission)
        assert emission.arrow()["before"].to_pylist() == [2, 3, None]


@pytest.mark.parametrize("writers", ["executors", "auto"])
def test_a_server_that_is_away_when_the_workers_look_is_waited_for(
    shared_redis: RedisServer, tmp_path: Path, writers: str
) -> None:
    def away() -> None:
        raise StateUnavailableError("the workers cannot reach it just now, on purpose")

    with started(shared_redis.url) as store:
        looked, _ = carriers_of(writers, Looking(tmp_path, away), tmp_path, store)
        with pytest.raises(StateUnavailableError, match="on purpose"):
            write(looked, batch_in(tmp_path))
        assert writes(looked, "counts", batch_in(tmp_path)) == "executors", "the driver would write for ever after"


def test_what_later_steps_read_is_written_by_the_driver(shared_redis: RedisServer, tmp_path: Path) -> None:
    made = TridentTopology()
    stream = made.newStream("words", FixedBatchSpout("word string", [["w1"]]))
    state = RedisMapState.opaque("redis://localhost", writers="auto")
    counts = stream.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    counts.newValuesStream(everyChange=True).groupBy("count").persistentAggregate(state, Count(), "n", name="again")
    with started(shared_redis.url) as store:
        stores = {"counts": store, "again": store}
        looked = group_carriers(cut(made).groups[0], stores, InlinePuts(tmp_path), DiskFiles(tmp_path), LEASE)
        assert writes(looked, "again", batch_in(tmp_path)) == "executors"
        assert writes(looked, "counts", batch_in(tmp_path)) == "driver"


def test_workers_that_find_a_later_driver_tell_of_it(shared_redis: RedisServer, tmp_path: Path) -> None:
    with started(shared_redis.url) as store:
        looked, _ = carriers_of("auto", Looking(tmp_path, lambda: store.acquire(SECOND)), tmp_path, store)
        with pytest.raises(FencedError):
            write(looked, batch_in(tmp_path))


def test_tasks_that_report_twice_count_once(shared_redis: RedisServer, tmp_path: Path) -> None:
    with started(shared_redis.url, groups=2) as store:
        looked, _ = carriers_of("executors", InlinePuts(tmp_path, doubled=True), tmp_path, store)
        write(looked, batch_in(tmp_path))
        assert contents(store, 1) == EXPECTED


def test_a_refused_put_says_how_far_the_state_fell_back(shared_redis: RedisServer, tmp_path: Path) -> None:
    with started(shared_redis.url) as store:
        store.apply(LEASE, update(1, GIVEN))
        batch = store.open_batch(LEASE, update(2, {}))
        shared_redis.client.hset(store._layout().meta(0), "epoch", 0)  # as of the driver before
        with pytest.raises(StateBehindError, match="went back to epoch 0") as refused:
            InlinePuts(tmp_path).put(batch_in(tmp_path), batch)
        assert refused.value.marker == 1


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_frozen_file_that_is_not_what_was_frozen_is_not_put(
    shared_redis: RedisServer, tmp_path: Path, how: str
) -> None:
    with started(shared_redis.url) as store:
        frozen = batch_in(tmp_path)
        path = tmp_path / frozen.folder / frozen.files[1].name
        content = path.read_bytes()
        path.unlink()
        if how == "damaged":
            path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
        batch = store.open_batch(LEASE, update(1, {}))
        with pytest.raises(LogCorruptError, match=how):
            InlinePuts(tmp_path).put(frozen, batch)
        assert store.durable() == 0


@pytest.mark.parametrize("writers", ["executors", "auto"])
def test_the_state_of_a_writer_that_is_too_quick_is_asked_by_the_driver_if_that_may(
    shared_redis: RedisServer, tmp_path: Path, writers: Any
) -> None:
    """The turn is repeated where the writer wrote two batches while the workers asked."""
    made = TridentTopology()
    state = RedisMapState.opaque("redis://localhost", writers=writers)
    given = made.newStaticState(state, keyFields="word string", valueType="long", name="counts", topology="other")
    asked = made.newStream("words", FixedBatchSpout("word string", [["w1"]])).stateQuery(given, "word", MapGet(), "n")
    asked.each("n", _known, "known long").groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count")
    step = asked._node
    assert isinstance(step, StateQuery)
    with started(shared_redis.url) as writer, opened(shared_redis.url) as store:
        writer.apply(LEASE, update(1, GIVEN))
        statics = {"counts": SharedForeignState(store, StateKind.OPAQUE)}
        looked = group_carriers(cut(made).groups[0], {}, InlinePuts(tmp_path), DiskFiles(tmp_path), LEASE, statics)
        asking = frozen_files(tmp_path, [words([1, 2, 99])])
        emission = looked.ask(step, asking, 0)
        assert isinstance(emission, SharesEmission)
        writer.apply(LEASE, update(2, GIVEN))
        assert emission.arrow()["n"].to_pylist() == [2, 3, None], "as of the batch that was committed then"
        writer.apply(LEASE, update(3, GIVEN))
        with pytest.raises(SnapshotMovedError):
            emission.arrow()
        again = looked.ask(step, asking, 0)
        assert isinstance(again, pa.Table) == (writers == "auto"), "the driver asks"
        if not isinstance(again, pa.Table):
            assert again.arrow()["n"].to_pylist() == [6, 9, None]
        other = looked.ask(step, frozen_files(tmp_path, [words([1])], "frozen/g/1-2-0-1"), 0)
        assert isinstance(other, SharesEmission)


def test_workers_find_another_server_than_the_driver_does(shared_redis: RedisServer, tmp_path: Path) -> None:
    with started(shared_redis.url) as writer, opened(shared_redis.url) as store:
        writer.apply(LEASE, update(1, GIVEN))
        snapshot = SharedForeignState(store, StateKind.OPAQUE).open_snapshot(0)
        snapshot.check_reached()
        writer.acquire(SECOND)
        snapshot.check_reached()  # its own driver may change
        shared_redis.client.flushall()
        with pytest.raises(StateError, match="reaches a different server from the driver."):
            snapshot.check_reached()


def test_a_state_that_was_created_anew_is_not_mixed_with_the_one_before(
    shared_redis: RedisServer, tmp_path: Path
) -> None:
    """Both have the same markers; the second one belongs to another log, and has other groups."""
    with opened(shared_redis.url) as store:
        with started(shared_redis.url) as writer:
            writer.apply(LEASE, update(1, GIVEN))
            snapshot = SharedForeignState(store, StateKind.OPAQUE).open_snapshot(0)
            assert snapshot.read(words([1])).to_pylist() == [2]
            writer.drop()
        another = StateIdentity("wordcount", "counts", "log-2")
        with started(shared_redis.url, SHAPE, StateKind.OPAQUE, another) as writer:
            writer.apply(LEASE, update(1, {1: 70}))
            with pytest.raises(StateError, match="was dropped or reset while it was open"):
                snapshot.read(words([1]))
            with pytest.raises(StateError, match="was dropped or reset while it was open"):
                list(snapshot.scan())
            again = SharedForeignState(store, StateKind.OPAQUE).open_snapshot(0)
            assert again.read(words([1])).to_pylist() == [70]
            writer.drop()
        with started(shared_redis.url, SHAPE, StateKind.OPAQUE, another, groups=4) as writer:
            writer.apply(LEASE, update(1, {1: 70}))
            with pytest.raises(StateRecoveringError, match="is missing.*unless the state was dropped"):
                again.read(words([1]))
            with pytest.raises(StateRecoveringError):
                SharedForeignState(store, StateKind.OPAQUE).read(words([1]))


class Locked:
    """A query function that cannot be sent anywhere."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def batchRetrieve(self, state: Any, args: Any) -> Any:
        return state.multiGet([each.word for each in args])

    def execute(self, each: Any, result: Any, collector: Any) -> None:
        collector.emit([result])


@pytest.mark.parametrize("entries", [10, 100_000])
@pytest.mark.parametrize("function", [MapGet(), Locked()])
def test_entries_are_sent_to_the_workers_if_they_are_few_and_the_function_can_be_sent(
    tmp_path: Path, entries: int, function: Any
) -> None:
    made = TridentTopology()
    given = made.newStaticState(
        {f"w{n}": n for n in range(entries)}, keyFields="word string", valueType="long", name="given"
    )
    words_ = made.newStream("words", FixedBatchSpout("word string", [["w1"]]))
    asked = words_.stateQuery(given, "word", function, "n long")
    asked.each("n", _known, "known long").groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count")
    step = asked._node
    assert isinstance(step, StateQuery)
    program = cut(made)
    statics = open_statics(program)
    looked = group_carriers(program.groups[0], {}, InlinePuts(tmp_path), DiskFiles(tmp_path), LEASE, statics)
    emission = looked.ask(step, frozen_files(tmp_path, [words([1, 2, 199_999])]), 0)
    if entries == 10 and isinstance(function, MapGet):
        assert isinstance(emission, SharesEmission) and emission.arrow()["n"].to_pylist() == [1, 2, None]
    else:
        assert isinstance(emission, pa.Table), "the driver asks"
