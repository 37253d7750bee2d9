"""Other processes write the rows of a batch that the driver opened: repeated, late and lost puts change nothing."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from tests.state.delta.states import setting_in, table_of
from trident.base.errors import FencedError, SnapshotMovedError, StateError, StateUnavailableError, StateValueError
from trident.testing.contracts.stores.fixtures import COUNT, FIRST, JOIN, LAST, SECOND, Setting, entries, marker
from trident_state.delta.vacuum import Retention
from trident_state.state_shape import Combine
from trident_state.store_messages import Put, Update

COMBINES = {"deltas": COUNT, "whole": LAST}


def without_keys(setting: Setting, txid: int) -> Update:
    return setting.update(txid, {})


def put(setting: Setting, batch: Any, part: dict[int, Any]) -> Put:
    """Do what a worker does with the batch that came to it as bytes."""
    sent = cloudpickle.loads(cloudpickle.dumps(batch))
    given = setting.update(batch.txid, part)
    return sent.put([(given.keys, given.deltas)])  # type: ignore[no-any-return]


@pytest.mark.parametrize("combine", COMBINES.values(), ids=COMBINES)
def test_parts_give_what_one_writer_gives(folder: Path, combine: Combine) -> None:
    setting = setting_in(folder, combine)
    store: Any = setting.started()
    setting.apply(store, 1, {n: n for n in range(100)})
    batch = store.open_batch(FIRST, without_keys(setting, 2))
    puts = [put(setting, batch, {n: 1 for n in range(at, 150, 3)}) for at in range(3)]
    assert entries(setting.open(), None) == {(f"w{n}",): n for n in range(100)}, "nothing is committed"
    assert store.commit_batch(batch, without_keys(setting, 2), puts).written == 150
    whole = combine is LAST
    assert entries(store, 2) == {(f"w{n}",): 1 if whole or n >= 100 else n + 1 for n in range(150)}
    assert entries(store, 1) == {(f"w{n}",): n for n in range(100)}


def test_a_put_that_came_twice_counts_once(folder: Path) -> None:
    setting = setting_in(folder)
    store: Any = setting.started()
    batch = store.open_batch(FIRST, without_keys(setting, 1))
    put(setting, batch, {1: 5})
    again = put(setting, batch, {1: 5})
    store.commit_batch(batch, without_keys(setting, 1), [again])
    assert entries(store, 1) == {("w1",): 5}
    assert len(list(table_of(folder).glob("*.parquet"))) == 2, "the file that no version names is cleaned up later"


def test_a_batch_that_was_committed_before_is_skipped(folder: Path) -> None:
    setting = setting_in(folder)
    store: Any = setting.started()
    for _ in range(2):
        batch = store.open_batch(FIRST, without_keys(setting, 1))
        done = store.commit_batch(batch, without_keys(setting, 1), [put(setting, batch, {1: 5, 2: 7})])
    assert (done.written, done.skipped) == (0, 2)
    assert entries(store, 1) == {("w1",): 5, ("w2",): 7}


def test_the_commit_of_a_driver_that_was_replaced_is_refused(folder: Path) -> None:
    setting = setting_in(folder)
    store: Any = setting.started()
    batch = store.open_batch(FIRST, without_keys(setting, 1))
    puts = [put(setting, batch, {1: 5})]
    setting.open().acquire(SECOND)
    with pytest.raises(FencedError):
        store.commit_batch(batch, without_keys(setting, 1), puts)
    with pytest.raises(FencedError):
        cloudpickle.loads(cloudpickle.dumps(batch)).check_reached()
    assert marker(setting.open()) == 0


def test_values_that_expire_are_nothing_to_the_workers(folder: Path) -> None:
    from dataclasses import replace

    setting = setting_in(folder, ttlSecs=10.0)
    store: Any = setting.started()
    store.apply(FIRST, replace(setting.update(1, {1: 1, 2: 1}), time=1000.0))
    update = replace(without_keys(setting, 2), time=1010.0)
    assert store.open_snapshot(1, 1010.0).read(setting.key_table([1])).to_pylist() == [None]
    assert store.open_snapshot(1).read(setting.key_table([1])).to_pylist() == [1]
    batch = store.open_batch(FIRST, update)
    store.commit_batch(batch, update, [put(setting, batch, {1: 5})])
    assert entries(store, 2) == {("w1",): 5}


def test_a_sum_beyond_the_type_is_refused_in_the_worker(folder: Path) -> None:
    setting = setting_in(folder)
    store: Any = setting.started()
    setting.apply(store, 1, {1: 2**63 - 1})
    batch = store.open_batch(FIRST, without_keys(setting, 2))
    with pytest.raises(StateValueError, match="Count"):
        put(setting, batch, {1: 1})


def test_a_combiner_runs_in_the_worker(folder: Path) -> None:
    setting = setting_in(folder, JOIN, pa.string())
    store: Any = setting.started()
    setting.apply(store, 1, {1: "a"})
    batch = store.open_batch(FIRST, without_keys(setting, 2))
    store.commit_batch(batch, without_keys(setting, 2), [put(setting, batch, {1: "b", 2: "c"})])
    assert entries(store, 2) == {("w1",): "ab", ("w2",): "c"}


def test_a_snapshot_reads_the_same_while_batches_and_merges_come(folder: Path) -> None:
    setting = setting_in(folder)
    store: Any = setting.started()
    setting.apply(store, 1, {n: n for n in range(20)})
    snapshot = cloudpickle.loads(cloudpickle.dumps(store.open_snapshot(1)))
    for txid in range(2, 20):
        setting.apply(store, txid, {1: 1})
    store.upkeep.run()
    assert snapshot.read(setting.key_table([1, 5, 99])).to_pylist() == [1, 5, None]
    assert sum(page.num_rows for page in snapshot.scan()) == 20
    assert (snapshot.groups, snapshot.count_due(0)) == (1, None)
    store.upkeep.cleaner.clean(Retention(0, 2))
    fresh = cloudpickle.loads(cloudpickle.dumps(snapshot))
    with pytest.raises(SnapshotMovedError, match="replaced"):
        fresh.read(setting.key_table([1]))


def test_a_worker_that_sees_another_place_says_so(folder: Path) -> None:
    setting = setting_in(folder)
    store: Any = setting.started()
    batch = store.open_batch(FIRST, without_keys(setting, 1))
    batch.check_reached()
    table_of(folder).rename(folder / "moved")
    with pytest.raises(StateError, match="does not find the driver's table"):
        batch.check_reached()


def test_a_put_whose_file_was_cleaned_up_is_put_again(folder: Path) -> None:
    setting = setting_in(folder)
    store: Any = setting.started()
    batch = store.open_batch(FIRST, without_keys(setting, 1))
    puts = [put(setting, batch, {1: 5})]
    store.upkeep.cleaner.clean(Retention(0, 2))
    (file,) = table_of(folder).glob("*.parquet")
    file.unlink()  # by somebody else: the state cleans up no file of a batch that is not committed
    with pytest.raises(StateUnavailableError, match="put again"):
        store.commit_batch(batch, without_keys(setting, 1), puts)
    store.commit_batch(batch, without_keys(setting, 1), [put(setting, batch, {1: 5})])
    assert entries(store, 1) == {("w1",): 5}
