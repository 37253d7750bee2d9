"""Tags of a state in a Delta table: a tagged txid stays readable, whatever batches, merges and cleanings do."""

from pathlib import Path
from typing import Any

import pytest

from tests.state.delta.states import at_point, setting_in, table_of
from tests.state.delta.test_compaction import merged, named, paths
from tests.state.delta.test_history import expiring, filled
from trident.base import crash_points
from trident.base.errors import SnapshotMovedError, StateBehindError, TagExistsError
from trident.testing.contracts.stores.fixtures import COUNT, LAST, SECOND, Setting
from trident_state.delta.vacuum import Retention
from trident_state.state_shape import Combine
from trident_state.tags import StateTag


def tag(name: str, txid: int) -> StateTag:
    return StateTag(name, txid, {"words": txid}, ("counts",), 1_000)


def scanned(store: Any, txid: int) -> dict[Any, Any]:
    pages = list(store.at(txid).scan(txid, 5))
    return {word: value for page in pages for word, value in zip(*(c.to_pylist() for c in page.columns), strict=True)}


def tag_files(folder: Path) -> list[str]:
    return sorted(path.name for path in table_of(folder).glob("_tags-*"))


def more(setting: Setting, store: Any, models: dict[int, Any], txids: range) -> None:
    """Apply batches of one key, with merges in between."""
    for txid in txids:
        setting.apply(store, txid, {0: 1})
        models[txid] = {**models[txid - 1], "w0": models[txid - 1].get("w0", 0) + 1}
        while merged(store) is not None:
            pass


@pytest.mark.parametrize("combine", [COUNT, LAST], ids=["deltas", "whole"])
def test_a_tagged_txid_stays_and_its_neighbours_go(folder: Path, combine: Combine) -> None:
    setting = setting_in(folder, combine)
    store, models = filled(setting, 20)
    for txid in (0, 13, 19, 20):
        store.tag(tag(f"at-{txid}", txid))
    kept = models[20]
    for txid in range(21, 49):
        setting.apply(store, txid, {0: 1, txid % 11 + 1: 5})
        while merged(store) is not None:
            pass
        if txid % 12 == 0:
            store.upkeep.cleaner.clean(Retention(0, 2))
    store.upkeep.cleaner.clean(Retention(0, 2))
    assert store.kept_since() == 47
    for opened in (store, setting.open()):
        for txid in (0, 13, 19):
            assert scanned(opened, txid) == models[txid]
            found = opened.at(txid).read(setting.key_table(range(12)), txid)
            assert (found.asOf, found.values.to_pylist()) == (txid, [models[txid].get(f"w{n}") for n in range(12)])
            assert opened.at(txid).count_entries(txid) == len(models[txid])
        assert scanned(opened, 20) == kept
        with pytest.raises(SnapshotMovedError, match="as of txid 14, which is no longer kept"):
            scanned(opened, 14)
    assert [(each.name, each.txid) for each in store.tags()] == [
        ("at-0", 0),
        ("at-13", 13),
        ("at-19", 19),
        ("at-20", 20),
    ]
    tagged = {path for each in store.tags() for path, _ in each.files}
    assert paths(folder) == named(folder) | tagged
    for each in store.tags():
        store.untag(each.name)
    store.upkeep.cleaner.clean(Retention(0, 2))
    assert (store.tags(), paths(folder)) == ((), named(folder))
    assert len(tag_files(folder)) == 1, "the files of earlier tags go too"
    with pytest.raises(SnapshotMovedError, match="as of txid 13, which is no longer kept"):
        scanned(store, 13)


def test_a_tag_does_not_move_and_may_come_twice(folder: Path) -> None:
    setting = setting_in(folder)
    store, _ = filled(setting, 5)
    store.tag(tag("x", 3))
    held = tag_files(folder)
    store.tag(tag("x", 3))
    assert tag_files(folder) == held
    with pytest.raises(TagExistsError, match="'x' exists already, as of txid 3"):
        store.tag(tag("x", 4))
    store.untag("y")
    assert tag_files(folder) == held
    store.untag("x")
    store.tag(tag("x", 4))
    assert [each.txid for each in setting.open().tags()] == [4]  # type: ignore[attr-defined]


def test_a_txid_that_is_not_kept_has_no_tag_unless_it_has_one(folder: Path) -> None:
    setting = setting_in(folder)
    store, models = filled(setting, 30)
    store.tag(tag("x", 12))
    store.upkeep.cleaner.clean(Retention(0, 2))
    for txid in (11, 13, 31):
        with pytest.raises(SnapshotMovedError, match=f"cannot be tagged as of txid {txid}, which is no longer kept"):
            store.tag(tag("y", txid))
    store.tag(tag("y", 12))
    store.untag("x")
    store.upkeep.cleaner.clean(Retention(0, 2))
    assert scanned(store, 12) == models[12]


@pytest.mark.parametrize("point", ["before", "delta.kept"])
def test_a_tag_that_comes_while_files_are_deleted(folder: Path, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    setting = setting_in(folder)
    store, models = filled(setting, 40)
    other: Any = setting.open()
    refused: list[str] = []

    def tagged() -> None:
        try:
            other.tag(tag("x", 12))
        except SnapshotMovedError as error:
            refused.append(str(error))

    cleaner = store.upkeep.cleaner
    if point == "before":  # the cleaner has chosen the files, and its version comes after the tag's
        first = cleaner._table.old_files

        def slow(*args: Any) -> Any:
            chosen = first(*args)
            tagged()
            return chosen

        monkeypatch.setattr(cleaner._table, "old_files", slow)
        cleaner.clean(Retention(0, 5))
        assert not refused
        monkeypatch.undo()
        cleaner.clean(Retention(0, 5))
        assert scanned(store, 12) == models[12]
    else:
        with at_point(point, tagged):
            cleaner.clean(Retention(0, 5))
        assert len(refused) == 1
        assert store.tags() == ()
    assert store.kept_since() == 36


def test_two_programs_tag_at_the_same_time(folder: Path) -> None:
    setting = setting_in(folder)
    store, _ = filled(setting, 9)
    other: Any = setting.open()
    with at_point("delta.tags.written", lambda: other.tag(tag("y", 5))):
        store.tag(tag("x", 4))
    assert [(each.name, each.txid) for each in setting.open().tags()] == [("y", 5), ("x", 4)]  # type: ignore[attr-defined]
    with at_point("delta.tags.written", lambda: other.tag(tag("z", 6))), pytest.raises(TagExistsError):
        store.tag(tag("z", 7))
    store.upkeep.cleaner.clean(Retention(0, 2))
    assert len(tag_files(folder)) == 1


class Died(BaseException):
    pass


@pytest.mark.parametrize("point", ["delta.tags.written", "delta.tags.committed"])
def test_a_program_that_dies_while_it_tags_or_drops(folder: Path, point: str) -> None:
    def die(reached: str) -> None:
        if reached == point:
            raise Died

    setting = setting_in(folder)
    store, models = filled(setting, 20)
    done = point == "delta.tags.committed"

    def dying(work: Any) -> None:
        crash_points.listen(die)
        try:
            with pytest.raises(Died):
                work()
        finally:
            crash_points.listen(None)

    dying(lambda: store.tag(tag("x", 12)))
    again: Any = setting.open()
    assert [each.name for each in again.tags()] == (["x"] if done else [])
    again.tag(tag("x", 12))
    again.acquire(SECOND)
    again.upkeep.cleaner.clean(Retention(0, 2))
    assert scanned(again, 12) == models[12]
    dying(lambda: again.untag("x"))
    last: Any = setting.open()
    assert [each.name for each in last.tags()] == ([] if done else ["x"])
    last.untag("x")
    again.upkeep.cleaner.clean(Retention(0, 2))
    assert (last.tags(), paths(folder), len(tag_files(folder))) == ((), named(folder), 1)


def test_tags_come_beside_batches_merges_and_a_takeover(folder: Path) -> None:
    setting = setting_in(folder)
    store, models = filled(setting, 12)
    other: Any = setting.open()
    with at_point("delta.written", lambda: other.tag(tag("a", 12))):
        more(setting, store, models, range(13, 14))
    with at_point("delta.merged", lambda: other.tag(tag("b", 13))):
        more(setting, store, models, range(14, 30))
    with at_point("delta.tags.written", lambda: more(setting, store, models, range(30, 50))):
        other.tag(tag("c", 29))
    with at_point("delta.tags.written", lambda: other.acquire(SECOND)):
        store.tag(tag("d", 40))
    other.upkeep.cleaner.clean(Retention(0, 2))
    assert [each.name for each in other.tags()] == ["a", "b", "c", "d"]
    for each in other.tags():
        assert scanned(other, each.txid) == models[each.txid]


def test_a_dropped_state_has_no_tags(folder: Path) -> None:
    setting = setting_in(folder)
    store, _ = filled(setting, 20)
    store.tag(tag("x", 12))
    with at_point("delta.tags.written", store.drop), pytest.raises(StateBehindError):
        setting.open().tag(tag("y", 13))  # type: ignore[attr-defined]
    again, models = filled(setting, 5)
    assert again.tags() == ()
    again.tag(tag("x", 3))
    assert scanned(again, 3) == models[3]


def test_a_tag_keeps_the_values_that_expired_later(folder: Path) -> None:
    setting, store, apply = expiring(folder)
    for txid in range(1, 9):
        apply(txid, 1000.0 + txid, txid)
    apply(9, 1012.5, 9)
    store.tag(tag("x", 9))
    for txid in range(10, 40):
        apply(txid, 1050.0 + txid, txid % 3 + 20)
        merged(store)
    store.upkeep.cleaner.clean(Retention(0, 2))
    values = store.at(9).read(setting.key_table(range(1, 10)), 9).values.to_pylist()
    assert values == [None, None, 3, 4, 5, 6, 7, 8, 9]


def test_a_reader_whose_tags_are_replaced_reads_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = setting_in(folder)
    store, _ = filled(setting, 9)
    store.tag(tag("x", 4))
    reader: Any = setting.open()
    read, first = type(reader._folder).read, list[str]()

    def late(place: Any, path: str) -> bytes | None:
        if not first:
            first.append(path)
            store.untag("x")
            store.upkeep.cleaner.clean(Retention(0, 2))
        return read(place, path)  # type: ignore[no-any-return]

    monkeypatch.setattr(type(reader._folder), "read", late)
    assert (reader.tags(), first) != ((), [])
    assert reader.tags() == ()
