"""Ranges by the indexes of files, and counts by their keys: they are those of a scan, and read less."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.state.delta.states import setting_in
from tests.state.delta.test_compaction import merged, quiet
from trident.testing.contracts.stores.fixtures import COUNT, LAST, Setting, entries
from trident_state.delta import range_reads
from trident_state.delta.data_files import DataFiles
from trident_state.delta.reading import TableReads
from trident_state.delta.vacuum import Retention
from trident_state.key_order import KeyRange
from trident_state.state_shape import Combine

RANGES = [
    KeyRange(b"", None),
    KeyRange(b"\1w2", b"\1w3"),
    KeyRange(b"\1w15", b"\1w150"),
    KeyRange(b"\1w9", None),
    KeyRange(b"\1w4", b"\1w4"),
]


def words_in(held: dict[Any, Any], between: KeyRange) -> list[tuple[str, Any]]:
    found = [(word, value) for (word,), value in held.items() if value is not None]
    inside = [pair for pair in found if between.low <= b"\1" + pair[0].encode()]
    high = between.high
    return sorted(pair for pair in inside if high is None or b"\1" + pair[0].encode() < high)


def check(store: Any, at: int) -> None:
    held = entries(store, at)
    for most in (None, 1, 3, 100):
        found = store.read_ranges(RANGES, most, at)
        for between, table in zip(RANGES, found, strict=True):
            assert list(zip(*table.to_pydict().values(), strict=True)) == words_in(held, between)[:most]


@pytest.mark.parametrize("combine", [COUNT, LAST], ids=["deltas", "whole"])
def test_ranges_of_each_kept_txid_are_those_of_a_scan(
    folder: Path, combine: Combine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reads, "_MORE", 2)
    monkeypatch.setattr(range_reads, "_AT_ONCE", 50)
    setting, draw = setting_in(folder, combine), random.Random(5)  # noqa: S311
    store = quiet(setting)
    for txid in range(1, 40):
        deltas: dict[int, Any] = {n: draw.randint(1, 9) for n in draw.sample(range(400), 30)}
        if combine is LAST:
            deltas |= dict.fromkeys(draw.sample(range(400), 20))
        setting.apply(store, txid, deltas)
        merged(store)
        if txid % 13 == 0:
            check(store, txid)
            check(store, txid - 1)
    for txid in (0, 1, 7, 8, 20, 38, 39):
        check(store.at(txid), txid)
    store.upkeep.cleaner.clean(Retention(0, 2))
    check(store, 39)


def test_a_range_reads_no_other_entries_and_an_index_goes_with_its_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = setting_in(folder)
    store = quiet(setting)
    for txid in range(1, 9):
        setting.apply(store, txid, {n: 1 for n in range(txid * 100, txid * 100 + 100)})

    def whole(*_: Any) -> Any:
        raise AssertionError("the whole state is read")

    monkeypatch.setattr(TableReads, "spans", whole)
    read, made = DataFiles.keys, list[int]()
    monkeypatch.setattr(DataFiles, "keys", lambda files, file: made.append(file.low) or read(files, file))
    for _ in range(3):
        (table,) = store.read_ranges([KeyRange(b"\1w25", b"\1w26")], None, 8)
        assert table.column(0).to_pylist() == [f"w{n}" for n in range(250, 260)]
    assert sorted(made) == list(range(1, 9)), "each file is sorted once"
    setting.apply(store, 9, {250: 1})
    (table,) = store.read_ranges([KeyRange(b"\1w25", b"\1w26")], 1, 9)
    assert (table.to_pydict(), made[8:]) == ({"word": ["w250"], "value": [2]}, [9])
    monkeypatch.undo()
    assert merged(store) is not None
    setting.apply(store, 10, {1: 1})
    index = store._ranges.index
    held = index._folder
    assert len(list(held.iterdir())) == len(index._tables) == 1
    store.close()
    assert list(held.iterdir()) == []


def test_keys_without_an_order_have_no_index(folder: Path) -> None:
    keys = pa.schema({"tags": pa.list_(pa.string())})
    setting = Setting(setting_in(folder).storage, keys=keys)
    store: Any = setting.started()
    assert (store.has_order(), store.read_ranges([KeyRange(b"", None)], None, 0)) == (False, None)
    assert setting_in(folder / "other").open().read_ranges(RANGES, None, None)[0].num_rows == 0  # type: ignore[attr-defined]


def test_a_count_of_sums_decodes_no_value(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = setting_in(folder)
    store = quiet(setting)
    for txid in range(1, 12):
        setting.apply(store, txid, {n: 1 for n in range(txid, txid + 50)})
        merged(store)
    read: list[list[str]] = []
    selected = DataFiles.selected

    def noted(files: DataFiles, file: Any, buckets: range, names: list[str]) -> Any:
        read.append(list(names))
        return selected(files, file, buckets, names)

    monkeypatch.setattr(DataFiles, "selected", noted)
    monkeypatch.setattr(DataFiles, "read", lambda *_: pytest.fail("values are read"))
    assert [store.count_entries(at) for at in (10, 11)] == [59, 60]
    assert [store.at(at).count_entries(at) for at in (0, 1, 5)] == [0, 50, 54]
    assert {tuple(names) for names in read} == {("word",)}


def test_a_count_of_whole_values_leaves_out_removed_and_expired_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_state.delta.entry_counts._AT_ONCE", 10)
    setting = setting_in(folder, LAST)
    store = quiet(setting)
    setting.apply(store, 1, {n: n for n in range(100)})
    setting.apply(store, 2, dict.fromkeys(range(30)))
    setting.apply(store, 3, {5: 1, 200: None})
    assert [store.at(at).count_entries(at) for at in range(4)] == [0, 100, 70, 71]
    assert store.count_entries(None) == 71
    assert setting_in(folder / "other").open().count_entries(None) == 0  # type: ignore[attr-defined]


def test_a_count_is_not_given_if_a_sum_may_take_an_entry_away(folder: Path) -> None:
    value = pa.struct({"rows": pa.int64()})
    parts = Combine("rows", COUNT.function, "parts", parts=(COUNT,), zeros_leave=True)
    setting = setting_in(folder, parts, value)
    store: Any = setting.started()
    setting.apply(store, 1, {1: {"rows": 1}, 2: {"rows": 1}})
    setting.apply(store, 2, {1: {"rows": -1}})
    assert (store.count_entries(2), entries(store, 2)) == (None, {("w2",): {"rows": 1}})
