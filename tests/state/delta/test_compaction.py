"""Merges of files: no reader sees a difference, and nothing counts twice, whatever happens beside them."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.state.delta.states import at_point, filled, merged, quiet, setting_in, table_of
from trident.base import crash_points
from trident.base.attempt import Lease
from trident.base.errors import SnapshotMovedError, StateClosedError
from trident.testing.contracts.stores.fixtures import COUNT, FIRST, JOIN, LAST, SECOND, entries, marker
from trident_state.delta import compaction
from trident_state.delta.compaction import LEAST, MOST, chosen_files
from trident_state.delta.data_files import DataFile
from trident_state.delta.table import MovedError
from trident_state.delta.vacuum import Retention
from trident_state.state_shape import Combine


def paths(folder: Path) -> set[str]:
    """Return the names of the data files on the disk."""
    return {path.name for path in table_of(folder).glob("*.parquet")}


def named(folder: Path) -> set[str]:
    """Return the names of the data files of the last version."""
    return {Path(uri).name for uri in DeltaTable(table_of(folder)).file_uris()}


def both(store: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    at = marker(store)
    assert at is not None
    return entries(store, at - 1), entries(store, at)


@pytest.mark.parametrize("combine", [COUNT, LAST, Combine("Max", max, "max")], ids=["sum", "whole", "max"])
def test_a_merge_changes_no_read(folder: Path, combine: Combine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_ROWS", 100)  # several files
    setting = setting_in(folder, combine)
    store = filled(setting)
    before, frame = both(store), DeltaTable(table_of(folder)).to_pandas()
    assert merged(store) is not None
    assert both(store) == before
    assert both(setting.open()) == before
    assert 3 <= len(named(folder)) < LEAST
    if combine is COUNT:
        after = DeltaTable(table_of(folder)).to_pandas()
        assert after.groupby("word")["value"].sum().equals(frame.groupby("word")["value"].sum())
    assert merged(store) is None
    setting.apply(store, LEAST + 2, {1: 1})
    assert setting.read(store, [5], LEAST + 2) == [before[1]["w5",]]


def test_the_files_of_the_last_batch_stay_out_of_a_merge(folder: Path) -> None:
    store = filled(setting_in(folder), LEAST)
    assert merged(store) is None
    assert [(file.low, file.high) for file in store._table.look().files] == [(n, n) for n in range(1, LEAST + 1)]


def test_removed_keys_leave_the_table_with_a_merge_of_all_batches(folder: Path) -> None:
    setting = setting_in(folder, LAST)
    store = quiet(setting)
    setting.apply(store, 1, {1: 1, 2: 2})
    setting.apply(store, 2, {1: None})
    for txid in range(3, LEAST + 2):
        setting.apply(store, txid, {3: txid})
    before = both(store)
    assert merged(store) is not None
    assert both(store) == before
    assert DeltaTable(table_of(folder)).to_pandas()["word"].value_counts().to_dict() == {"w2": 1, "w3": 2}


def test_a_removed_key_stays_removed_if_an_older_file_has_it(folder: Path) -> None:
    setting = setting_in(folder, LAST)
    store = quiet(setting)
    setting.apply(store, 1, {n: n for n in range(100_000)})
    setting.apply(store, 2, {1: None})
    for txid in range(3, LEAST + 3):
        setting.apply(store, txid, {3: txid})
    assert merged(store) is not None
    last = (LEAST + 2, LEAST + 2)
    assert [(file.low, file.high) for file in store._table.look().files] == [(1, 1), (2, LEAST + 1), last]
    assert setting.read(store, [1, 2, 3], LEAST + 2) == [None, 2, LEAST + 2]


def test_a_merge_of_batches_without_a_value_leaves_an_empty_file(folder: Path) -> None:
    setting = setting_in(folder, LAST)
    store = quiet(setting)
    for txid in range(1, LEAST + 2):
        setting.apply(store, txid, {1: None})
    assert merged(store) is not None
    assert both(store) == ({}, {})
    assert both(setting.open()) == ({}, {})
    setting.apply(store, LEAST + 2, {1: 1})
    assert entries(store, LEAST + 2) == {("w1",): 1}


@pytest.mark.parametrize("ttl", [None, 1000.0], ids=["for ever", "with ttlSecs"])
def test_a_content_of_a_state_whose_values_are_whole_stays_in_a_merge(folder: Path, ttl: float | None) -> None:
    """The content has txid 0, which is also the cutoff of a state in which nothing has expired."""
    setting = setting_in(folder, LAST, ttlSecs=ttl)
    store = quiet(setting, birth=-1)
    for txid in range(LEAST + 2):
        store.apply(FIRST, replace(setting.update(txid, {70: 7} if txid == 0 else {txid: txid}), time=1000.0 + txid))
    before = both(store)
    assert merged(store) is not None
    assert both(store) == before
    assert before[1]["w70",] == 7


def test_expired_values_leave_the_table(folder: Path) -> None:
    setting = setting_in(folder, ttlSecs=10.0)
    store = quiet(setting)
    for txid in range(1, LEAST + 4):
        store.apply(FIRST, replace(setting.update(txid, {txid: txid}), time=1000.0 + 2 * txid))
    before = both(store)
    assert len(before[1]) == 5
    assert merged(store) is not None
    assert both(store) == before
    assert len(DeltaTable(table_of(folder)).to_pandas()) == 6


def test_two_merges_at_once_are_one(folder: Path) -> None:
    setting = setting_in(folder)
    store = filled(setting)
    before, other = both(store), setting.open()
    with at_point("delta.merged", lambda: merged(other)):
        assert merged(store) is None
    assert both(store) == before
    merges = [name for name in paths(folder) if name.startswith("1-8_")]
    assert merges == [name for name in named(folder) if name.startswith("1-8_")], "the second one left no file"


def test_a_merge_of_a_driver_that_was_replaced_changes_no_read(folder: Path) -> None:
    setting = setting_in(folder)
    zombie = filled(setting)
    before, other = both(zombie), setting.open()
    other.upkeep.after = lambda version: None  # type: ignore[attr-defined]

    def take_over() -> None:
        other.acquire(SECOND)
        setting.apply(other, LEAST + 2, {1: 1}, lease=SECOND)

    with at_point("delta.merged", take_over):
        assert merged(zombie) is not None
    assert entries(other, LEAST + 1) == before[1]
    assert setting.read(other, [1, 2], LEAST + 2) == [before[1]["w1",] + 1, before[1]["w2",]]


def long_merge(store: Any, monkeypatch: pytest.MonkeyPatch, between: Callable[[int], None]) -> Any:
    """Merge once, in parts of a few rows each; call `between` with the number of each part of the first files."""
    monkeypatch.setattr(compaction, "_ROWS", 30)
    spans, begun = store._reads.spans, list[bool]()

    def slow(chosen: Any, *rest: Any) -> Iterator[Any]:
        outer = not begun
        begun.append(True)
        for number, part in enumerate(spans(chosen, *rest)):
            if outer:
                between(number)
            yield part

    monkeypatch.setattr(store._reads, "spans", slow)
    return merged(store)


@pytest.mark.parametrize("combine", [COUNT, JOIN], ids=["deltas", "whole"])
def test_newer_files_are_merged_within_a_long_merge(
    folder: Path, combine: Combine, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting, never = setting_in(folder / "merged", combine), setting_in(folder / "never", combine)
    store, plain = filled(setting), filled(never)
    compactor = store.upkeep._compactor
    most, txid = 0, LEAST + 1

    def feed(number: int) -> None:
        nonlocal most, txid
        for _ in range(5):
            txid += 1
            setting.apply(store, txid, {txid: txid})
            never.apply(plain, txid, {txid: txid})
        most = max(most, compactor.waiting(store._table.look()))

    version = long_merge(store, monkeypatch, feed)
    assert txid > 5 * LEAST and most <= LEAST + 5 and version.compactions >= 3
    assert len({file.low for file in version.files}) <= LEAST + 5
    assert both(store) == both(plain)
    assert both(setting.open()) == both(plain)
    assert compactor.waiting(version) == len({file.low for file in version.files}), "no merge is under way any more"


def test_a_long_merge_is_given_up_if_another_driver_merges_its_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if newer files are there to be merged then, which alone would not collide."""
    setting = setting_in(folder)
    store = filled(setting)
    before, other = both(store), setting.open()
    added = range(LEAST + 2, 2 * LEAST + 4)

    def feed(number: int) -> None:
        if number == 1:
            assert merged(other) is not None
            for txid in added:
                setting.apply(store, txid, {1000 + txid: 1})

    assert long_merge(store, monkeypatch, feed) is None
    last = added[-1]
    assert entries(store, last) == before[1] | {(f"w{1000 + txid}",): 1 for txid in added}
    assert entries(setting.open(), last) == entries(store, last)
    assert paths(folder) >= named(folder)


def test_a_batch_is_committed_while_a_merge_is_under_way(folder: Path) -> None:
    setting = setting_in(folder)
    store = filled(setting)
    before = both(store)
    with at_point("delta.merged", lambda: setting.apply(store, LEAST + 2, {1: 1}) and None):
        assert merged(store) is not None
    assert entries(store, LEAST + 1) == before[1]
    assert setting.read(store, [1], LEAST + 2) == [before[1]["w1",] + 1]


def test_a_merge_that_is_committed_while_a_batch_is_written_keeps_the_batch(folder: Path) -> None:
    setting = setting_in(folder)
    store = filled(setting)
    before = both(store)
    with at_point("delta.written", lambda: merged(store) and None):
        setting.apply(store, LEAST + 2, {1: 1})
    assert entries(setting.open(), LEAST + 1) == before[1]
    assert setting.read(store, [1], LEAST + 2) == [before[1]["w1",] + 1]


@pytest.mark.parametrize("recreated", [False, True])
def test_a_merge_of_a_state_that_was_dropped_is_nothing(folder: Path, recreated: bool) -> None:
    setting = setting_in(folder)
    store = filled(setting)
    other = setting.open()

    def drop() -> None:
        other.drop(SECOND)
        if recreated:
            setting.started(lease=SECOND)

    with at_point("delta.merged", drop):
        assert merged(store) is None
    assert setting.open().report().absent is not recreated
    assert entries(setting.open(), None) == {}


@pytest.mark.parametrize("point", ["delta.merged", "delta.compacted"])
def test_a_merge_that_breaks_off_changes_no_read(folder: Path, point: str) -> None:
    class Died(BaseException):
        pass

    def die(reached: str) -> None:
        if reached == point:
            raise Died

    setting = setting_in(folder)
    store = filled(setting)
    before = both(store)
    crash_points.listen(die)
    try:
        with pytest.raises(Died):
            merged(store)
    finally:
        crash_points.listen(None)
    again: Any = setting.open()
    assert both(again) == before
    again.acquire(SECOND)
    assert (merged(again) is None) is (point == "delta.compacted")
    assert both(again) == before


def test_a_scan_under_way_reads_the_files_that_a_merge_replaced(folder: Path) -> None:
    setting = setting_in(folder)
    store = filled(setting)
    expected = both(store)[1]
    scan = store.scan(LEAST + 1, 5)
    rows = next(scan).to_pylist()
    assert merged(store) is not None
    for page in scan:
        rows += page.to_pylist()
    assert {(row["word"],): row["value"] for row in rows} == expected


def test_a_read_whose_files_were_cleaned_up_is_repeated(folder: Path) -> None:
    setting = setting_in(folder)
    store = filled(setting)
    at = store._table.look()
    merged(store)
    store._files.forget(set())
    for name in paths(folder) - named(folder):
        (table_of(folder) / name).unlink()
    with pytest.raises(SnapshotMovedError, match="replaced"), store._checking(at):
        store._reads.values(at, pa.array([b"sw1"], pa.binary()), LEAST + 1, 0)
    assert setting.read(store, [1], LEAST + 1) == [101]


def test_old_files_go_after_the_hours_that_they_are_kept(folder: Path) -> None:
    store = filled(setting_in(folder))
    merged(store)
    before = paths(folder)
    store.upkeep.cleaner.clean(Retention(1, 2))
    assert paths(folder) == before
    store.upkeep.cleaner.clean(Retention(0, 2))
    assert paths(folder) == named(folder)
    assert both(store)[1]["w1",] == 101


def test_a_merge_whose_reply_was_lost_keeps_its_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The object store's client sends the commit again, and finds its own version in the way."""
    store = filled(setting_in(folder))
    expected, commit = both(store), store.upkeep._table.commit

    def unheard(*args: Any, **how: Any) -> Any:
        commit(*args, **how)
        raise MovedError("Concurrent transaction failed.")

    monkeypatch.setattr(store.upkeep._table, "commit", unheard)
    version = merged(store)
    assert version is not None and named(folder) <= paths(folder)
    store._files.forget(set())
    assert both(store) == expected


def test_the_files_of_a_batch_under_way_stay_however_old_they_are(folder: Path) -> None:
    setting = setting_in(folder)
    store: Any = quiet(setting)
    setting.apply(store, 1, {1: 1})
    with at_point("delta.written", lambda: store.upkeep.cleaner.clean(Retention(0, 2))):
        setting.apply(store, 2, {1: 1})
    assert entries(setting.open(), 2) == {("w1",): 2}


def test_a_merge_that_slept_until_its_file_was_cleaned_up_changes_nothing(folder: Path) -> None:
    setting = setting_in(folder)
    zombie, other = filled(setting), setting.open()

    def clean_up() -> None:
        other.acquire(SECOND)
        other.upkeep.cleaner.clean(Retention(0, 2))  # type: ignore[attr-defined]

    expected = both(zombie)[1]
    with at_point("delta.merged", clean_up):
        assert merged(zombie) is None
    assert paths(folder) == named(folder)
    assert entries(setting.open(), LEAST + 1) == expected


def test_the_log_gets_checkpoints_and_readers_begin_with_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_state.delta.maintenance.CHECKPOINT_EVERY", 5)
    setting = setting_in(folder, ttlSecs=100.0)
    store = quiet(setting)
    store.upkeep.after = lambda version: store.upkeep.run()
    for txid in range(1, 20):
        store.apply(FIRST, replace(setting.update(txid, {txid % 5: 1}), time=1000.0 + txid))
    store.close()
    checkpoints = sorted((table_of(folder) / "_delta_log").glob("*.checkpoint.parquet"))
    assert len(checkpoints) >= 2
    last = int(checkpoints[-1].name.split(".")[0])
    for path in (table_of(folder) / "_delta_log").glob("*.json"):
        if int(path.stem) < last:
            path.unlink()
    again = setting.open()
    assert again.report() == store.report()
    assert both(again) == both(store)
    again.acquire(SECOND)
    again.apply(SECOND, replace(setting.update(20, {1: 1}), time=1021.0))
    assert marker(again) == 20


def test_a_state_that_is_closed_ends_its_merge_and_leaves_no_file(folder: Path) -> None:
    store = filled(setting_in(folder))
    before = paths(folder)
    store.upkeep._compactor.stopped.set()
    with pytest.raises(StateClosedError):
        merged(store)
    assert paths(folder) == before


@pytest.mark.parametrize("combine", [COUNT, JOIN], ids=["deltas", "whole"])
def test_many_batches_leave_few_files_and_reads_stay_right(folder: Path, combine: Combine) -> None:
    setting = setting_in(folder, combine)
    store: Any = setting.started()
    expected: dict[Any, int] = {}
    wrong: list[str] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            at = marker(store)
            assert at is not None
            try:
                found = setting.read(store, [7], at)
            except SnapshotMovedError:
                continue
            if found != [at or None]:
                wrong.append(f"{found} as of {at}")

    reader = threading.Thread(target=read)
    reader.start()
    for txid in range(1, 41):
        batch = {7: 1, txid % 13 + 100: txid}
        setting.apply(store, txid, batch)
        for key, delta in batch.items():
            expected[f"w{key}",] = expected.get((f"w{key}",), 0) + delta
    over.set()
    reader.join()
    store.upkeep.run()
    store.close()
    assert wrong == []
    assert entries(setting.open(), 40) == expected
    assert len(named(folder)) < 2 * LEAST + 8


def _run(txid: int, rows: int, used: int = 0) -> DataFile:
    return DataFile(txid, txid, 0, 9, rows, used, txid, "", 1)


@pytest.mark.parametrize("rows", [lambda n: 1, lambda n: 10**6, lambda n: 10 ** (n % 7), lambda n: 10**6 * (n % 2)])
def test_few_runs_are_left_and_a_row_is_not_merged_often(rows: Callable[[int], int]) -> None:
    """Whatever the sizes of the batches are."""
    files: list[DataFile] = []
    most = moved = total = 0
    for txid in range(1, 3_000):
        files.append(_run(txid, rows(txid)))
        total += rows(txid)
        chosen = chosen_files(files, txid, False)
        if chosen:
            size = sum(file.rows for file in chosen)
            moved += size
            at = files.index(chosen[0])
            assert files[at : at + len(chosen)] == chosen and chosen[-1].high < txid
            files[at : at + len(chosen)] = [DataFile(chosen[0].low, chosen[-1].high, 0, 9, size, 0, 0, "", 1)]
        most = max(most, len(files))
    assert most <= MOST + 2
    assert moved <= 16 * total + 3_000 * 4_096


def test_deltas_that_would_leave_their_type_are_merged_with_all_that_is_older() -> None:
    files = [_run(1, 10**6), *(_run(txid, 10, 2**45) for txid in range(2, 12))]
    assert len(chosen_files(files, 12, False)) == 10
    assert len(chosen_files(files, 12, True)) == 11


def test_a_later_driver_of_another_lease_keeps_on_merging(folder: Path) -> None:
    setting = setting_in(folder)
    store = filled(setting)
    store.close()
    third: Any = setting.open()
    third.acquire(Lease(3, "third"))
    setting.apply(third, LEAST + 2, {1: 1}, lease=Lease(3, "third"))
    third.upkeep.run()
    assert len(named(folder)) == 2
