"""Earlier txids of a state in a Delta table: they are kept as long as was promised, and deleted files are few."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.state.delta.states import at_point, setting_in, table_of
from tests.state.delta.test_compaction import merged, named, paths, quiet
from trident.base import crash_points
from trident.base.errors import SnapshotMovedError, StateCorruptError
from trident.testing.contracts.stores.fixtures import COUNT, FIRST, LAST, SECOND, Setting
from trident.testing.contracts.stores.history import check_history
from trident_state.delta import batch_rows
from trident_state.delta.vacuum import Retention
from trident_state.state_shape import Combine

Models = dict[int, dict[Any, Any]]


def filled(setting: Setting, batches: int) -> tuple[Any, Models]:
    """Return a store with some batches, each of which changes two keys, and the state after each of them."""
    store, models = quiet(setting), {0: dict[Any, Any]()}
    for txid in range(1, batches + 1):
        setting.apply(store, txid, {0: txid, txid % 11 + 1: 1})
        after = dict(models[txid - 1])
        add = setting.combine is COUNT
        for word, delta in (("w0", txid), (f"w{txid % 11 + 1}", 1)):
            after[word] = after.get(word, 0) + delta if add else delta
        models[txid] = after
        while merged(store) is not None:
            pass
    return store, models


@pytest.mark.parametrize("combine", [COUNT, LAST], ids=["deltas", "whole"])
def test_the_last_txids_are_kept_and_the_files_of_others_go(folder: Path, combine: Combine) -> None:
    setting = setting_in(folder, combine)
    store, models = filled(setting, 60)
    assert store.kept_since() == 0
    check_history(setting, store, models)
    before = paths(folder)
    store.upkeep.cleaner.clean(Retention(0, 20))
    assert store.kept_since() == 41
    check_history(setting, store, models)
    check_history(setting, setting.open(), models)
    assert len(paths(folder)) < len(before) / 2
    with pytest.raises(SnapshotMovedError, match="as of txid 40, which is no longer kept"):
        store.at(40).read(setting.key_table([1]), 40)
    with pytest.raises(SnapshotMovedError, match="txid 61"):
        list(store.at(61).scan(61))
    store.upkeep.cleaner.clean(Retention(0, 1_000))
    assert store.kept_since() == 41, "files that have gone do not come back"
    store.upkeep.cleaner.clean(Retention(0, 2))
    assert (store.kept_since(), paths(folder)) == (59, named(folder))


def test_txids_are_kept_for_hours_after_the_next_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(batch_rows.time, "time", lambda: now[0])
    setting = setting_in(folder)
    store, models = quiet(setting), {0: dict[Any, Any]()}
    for txid in range(1, 61):
        now[0] += 600  # six batches an hour
        setting.apply(store, txid, {0: 1})
        models[txid] = {"w0": txid}
        merged(store)
    store.upkeep.cleaner.clean(Retention(2, 2))
    assert store.kept_since() == 48  # batch 49 came 6,600 s ago
    check_history(setting, store, models)
    store.upkeep.cleaner.clean(Retention(1, 30))
    assert store.kept_since() == 48
    now[0] += 86_400
    store.upkeep.cleaner.clean(Retention(1, 4))
    assert store.kept_since() == 57
    store.upkeep.cleaner.clean(Retention(1, 2))
    assert store.kept_since() == 59


@pytest.mark.parametrize("earlier", [True, False])
def test_a_replaced_driver_takes_nothing_from_its_successor(folder: Path, earlier: bool) -> None:
    setting = setting_in(folder)
    zombie, models = filled(setting, 30)
    other: Any = setting.open()
    cleaner = zombie.upkeep.cleaner
    first = cleaner._first_kept

    def slow(*args: Any) -> int:
        other.acquire(SECOND)  # the zombie has looked at the table already
        return int(first(*args))

    if earlier:
        other.acquire(SECOND)
    else:
        cleaner._first_kept = slow
    held = paths(folder)
    cleaner.clean(Retention(0, 2))
    assert (other.kept_since(), paths(folder)) == (0, held)
    check_history(setting, other, models)


def test_a_cleaning_that_breaks_off_is_finished_by_the_next(folder: Path) -> None:
    class Died(BaseException):
        pass

    def die(reached: str) -> None:
        if reached == "delta.kept":
            raise Died

    setting = setting_in(folder)
    store, models = filled(setting, 40)
    held = paths(folder)
    crash_points.listen(die)
    try:
        with pytest.raises(Died):
            store.upkeep.cleaner.clean(Retention(0, 5))
    finally:
        crash_points.listen(None)
    again: Any = setting.open()
    assert (again.kept_since(), paths(folder)) == (36, held)
    check_history(setting, again, models)
    again.acquire(SECOND)
    again.upkeep.cleaner.clean(Retention(0, 5))
    assert (again.kept_since(), len(paths(folder)) < len(held)) == (36, True)
    check_history(setting, again, models)


def test_batches_and_merges_come_while_files_are_deleted(folder: Path) -> None:
    setting = setting_in(folder)
    store, models = filled(setting, 40)

    def more() -> None:
        for txid in range(41, 50):
            setting.apply(store, txid, {0: 1})
            models[txid] = {**models[txid - 1], "w0": models[txid - 1]["w0"] + 1}
        assert merged(store) is not None

    with at_point("delta.kept", more):
        store.upkeep.cleaner.clean(Retention(0, 5))
    assert store.kept_since() == 36
    check_history(setting, store, models)


def test_files_that_were_replaced_lately_stay_for_reads_under_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(batch_rows.time, "time", lambda: now[0])
    setting = setting_in(folder)
    store = quiet(setting)
    for txid in range(1, 10):
        setting.apply(store, txid, {0: 1})
    now[0] += 86_400
    before = paths(folder)
    assert merged(store) is not None
    now[0] += 60
    monkeypatch.setattr(store.upkeep._table, "old_files", lambda needed, before: [])
    store.upkeep.cleaner.clean(Retention(1, 2))
    assert store.kept_since() == 8
    needed = store._reads.past.needed(store._table.look().files, 8, int(1000 * (now[0] - 3600)))
    assert needed == before | named(folder)
    assert store._reads.past.needed(store._table.look().files, 8, int(1000 * now[0])) == named(folder)


def test_a_file_that_another_program_deleted_is_a_txid_that_is_not_kept(folder: Path) -> None:
    setting = setting_in(folder)
    store, _ = filled(setting, 40)
    for name in paths(folder) - named(folder):
        (table_of(folder) / name).unlink()
    again: Any = setting.open()
    with pytest.raises(SnapshotMovedError, match="as of txid 3: one of its files was deleted"):
        again.at(3).read(setting.key_table([0]), 3)
    assert again.at(40).read(setting.key_table([0]), 40).values.to_pylist() == [820]
    store.upkeep.cleaner.clean(Retention(0, 3))
    assert store.kept_since() == 38


def test_a_merge_that_names_other_files_is_not_believed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trident_state.delta.compaction import Compactor

    facts = Compactor._facts
    monkeypatch.setattr(Compactor, "_facts", lambda self, chosen: facts(self, chosen[1:]))
    setting = setting_in(folder)
    store, _ = filled(setting, 12)
    with pytest.raises(StateCorruptError, match="does not name the files"):
        store.at(3).read(setting.key_table([0]), 3)


def test_a_table_of_an_older_library_is_kept_from_its_next_start_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = setting_in(folder)
    with monkeypatch.context() as patch:
        for module in ("store", "table"):
            patch.setattr(f"trident_state.delta.{module}.KEPT", "unknown")
        patch.setattr("trident_state.delta.data_files._FACTS", b"unknown")
        store, _ = filled(setting, 20)
    old: Any = setting.open()
    assert (old._table.look().kept, old.kept_since()) == (None, 19)
    old.upkeep.after = lambda version: None
    old.acquire(SECOND)
    assert (old._table.look().kept, old.kept_since()) == (20, 20)
    for txid in range(21, 40):
        setting.apply(old, txid, {0: 1}, lease=SECOND)
        merged(old)
    assert [old.at(txid).read(setting.key_table([0]), txid).values[0].as_py() for txid in (20, 30, 39)] == [
        210,
        220,
        229,
    ]


def test_a_state_that_was_dropped_and_made_again_has_only_its_own_txids(folder: Path) -> None:
    setting = setting_in(folder)
    store, _ = filled(setting, 20)
    store.drop()
    again = quiet(setting)
    for txid in range(1, 12):
        setting.apply(again, txid, {5: 1})
        merged(again)
    assert again.kept_since() == 0
    check_history(setting, again, {txid: {"w5": txid} if txid else {} for txid in range(12)})


def test_a_state_that_does_not_exist_keeps_nothing(folder: Path) -> None:
    store: Any = setting_in(folder).open()
    assert store.kept_since() == 0
    with pytest.raises(SnapshotMovedError, match="no longer kept"):
        store.at(0).read(pa.table({"word": ["a"]}), 0)
    store.upkeep.cleaner.clean(Retention(0, 2))


def expiring(folder: Path) -> tuple[Setting, Any, Any]:
    """Return a setting whose values live for 10 s, a store, and a function that applies a batch of one key or none."""
    setting = setting_in(folder, ttlSecs=10.0)
    store = quiet(setting)

    def apply(txid: int, time: float, *keys: int) -> None:
        store.apply(FIRST, replace(setting.update(txid, {key: txid for key in keys}), time=time))

    return setting, store, apply


def test_values_that_expired_later_are_read_as_of_a_kept_txid(folder: Path) -> None:
    setting, store, apply = expiring(folder)
    for txid in range(1, 10):
        apply(txid, 1000.0 + txid, txid)
    apply(10, 1018.0, 10)
    with at_point("delta.merged", lambda: apply(11, 1050.0, 11)):
        assert merged(store) is not None
    apply(12, 1051.0, 12)
    assert store.at(9).read(setting.key_table([1, 9]), 9).values.to_pylist() == [1, 9]
    assert merged(store) is None
    for txid in range(13, 21):
        apply(txid, 1060.0 + txid, txid)
    assert merged(store) is not None
    assert store.at(10).read(setting.key_table([1, 9, 10]), 10).values.to_pylist() == [None, 9, 10]


def test_a_batch_without_rows_may_let_values_expire(folder: Path) -> None:
    setting, store, apply = expiring(folder)
    apply(1, 1000.0, 1)
    apply(2, 1005.0)
    apply(3, 1050.0)
    apply(4, 1051.0)
    for txid in range(5, 8):
        apply(txid, 1052.0, 2)
    found = {txid: store.at(txid).read(setting.key_table([1]), txid).values.to_pylist() for txid in range(1, 8)}
    assert found == {txid: [1 if txid < 3 else None] for txid in range(1, 8)}
    assert [(file.low, file.rows) for file in store._table.look().files][1] == (3, 0)
