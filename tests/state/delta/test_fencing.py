"""A driver whose version comes late: another driver has taken the state, written it, or dropped it meanwhile."""

import shutil
from pathlib import Path
from typing import Any

import deltalake
import pytest
from deltalake import DeltaTable

from tests.state.delta.states import at_point, filled, merged, setting_in, table_of
from trident.base.attempt import Lease
from trident.base.errors import (
    FencedError,
    LogMismatchError,
    StateBehindError,
    StateCorruptError,
    StateError,
    StateOwnedError,
    StateRecoveringError,
    StateUnavailableError,
)
from trident.testing.contracts.stores.fixtures import FIRST, SECOND, entries, marker
from trident_state.delta.compaction import LEAST
from trident_state.delta.vacuum import Retention


def versions(folder: Path) -> int:
    return int(DeltaTable(table_of(folder)).version())


def test_a_batch_whose_file_is_written_when_another_driver_takes_over_is_refused(folder: Path) -> None:
    setting = setting_in(folder)
    zombie, other = setting.started(), setting.open()
    setting.apply(zombie, 1, {1: 10})
    with at_point("delta.written", lambda: other.acquire(SECOND)), pytest.raises(FencedError, match="epoch 2"):
        setting.apply(zombie, 2, {1: 5})
    assert (marker(other), entries(other, 1)) == (1, {("w1",): 10})
    setting.apply(other, 2, {1: 7}, lease=SECOND)
    assert entries(other, 2) == {("w1",): 17}


@pytest.mark.parametrize("work", ["batch", "cleaning", "checkpoint"])
def test_a_takeover_that_the_former_driver_overtakes_begins_again(
    folder: Path, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = setting_in(folder)
    former, other = filled(setting), setting.open()
    look, done = other._table.look, list[bool]()  # type: ignore[attr-defined]

    def overtaken() -> Any:
        version = look()
        if not done:
            done.append(True)
            if work == "cleaning":
                former.upkeep.cleaner.clean(Retention(0, 2))
            else:
                setting.apply(former, LEAST + 2, {1: 1})
            if work == "checkpoint":  # readers begin with it, and older versions are removed some time later
                former.upkeep._table.checkpoint()  # type: ignore[attr-defined]
                for path in (table_of(folder) / "_delta_log").glob("*.json"):
                    if int(path.stem) <= version.version:
                        path.unlink()
        return version

    monkeypatch.setattr(other._table, "look", overtaken)  # type: ignore[attr-defined]
    other.acquire(SECOND)
    with pytest.raises(FencedError):
        setting.apply(former, LEAST + 3, {1: 1})
    setting.apply(other, marker(other) + 1, {1: 1}, lease=SECOND)


def test_a_takeover_that_a_newer_driver_overtakes_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = setting_in(folder)
    filled(setting)
    slow, newer = setting.open(), setting.open()
    look, done = slow._table.look, list[bool]()  # type: ignore[attr-defined]

    def overtaken() -> Any:
        version = look()
        if not done:
            done.append(True)
            newer.acquire(Lease(3, "third"))
        return version

    monkeypatch.setattr(slow._table, "look", overtaken)  # type: ignore[attr-defined]
    with pytest.raises(FencedError):
        slow.acquire(SECOND)


def test_a_batch_that_another_driver_has_written_meanwhile_counts_once(folder: Path) -> None:
    setting = setting_in(folder)
    zombie, other = setting.started(), setting.open()

    def take_over() -> None:
        other.acquire(SECOND)
        setting.apply(other, 1, {1: 5}, lease=SECOND)

    with at_point("delta.written", take_over), pytest.raises(FencedError):
        setting.apply(zombie, 1, {1: 5})
    assert entries(other, 1) == {("w1",): 5}


def test_the_same_batch_written_twice_by_one_driver_counts_once(folder: Path) -> None:
    """An attempt was believed lost, and its version comes while the next attempt is under way."""
    setting = setting_in(folder)
    slow = setting.started()
    again = setting.open()
    with (
        at_point("delta.written", lambda: setting.apply(again, 1, {1: 5}) and None),
        pytest.raises(StateUnavailableError, match="repeated"),
    ):
        setting.apply(slow, 1, {1: 5})
    applied = setting.apply(slow, 1, {1: 5})
    assert (applied.written, applied.skipped) == (0, 1)
    assert entries(slow, 1) == {("w1",): 5}


def test_a_batch_written_while_the_state_is_dropped_is_gone_with_it(folder: Path) -> None:
    setting = setting_in(folder)
    zombie, other = setting.started(), setting.open()
    setting.apply(zombie, 1, {1: 1})
    with at_point("delta.written", lambda: other.drop(SECOND)), pytest.raises(StateBehindError):
        setting.apply(zombie, 2, {1: 5})
    assert setting.open().report().absent
    new = setting.started(birth=2, lease=Lease(3, "third"))
    assert entries(new, 2) == {}


def test_a_state_that_was_dropped_and_recreated_takes_no_batch_of_a_former_driver(folder: Path) -> None:
    setting = setting_in(folder)
    zombie = setting.started()

    def recreate() -> None:
        setting.open().drop(SECOND)
        setting.started(birth=0, lease=SECOND)

    with at_point("delta.written", recreate), pytest.raises(FencedError):
        setting.apply(zombie, 1, {1: 5})
    assert entries(setting.open(), None) == {}


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("point", ["before", "after"])
def test_a_former_driver_that_creates_a_dropped_state_changes_nothing_of_the_state_that_was_created_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch, point: str, written: bool
) -> None:
    """The creation makes two versions; the other driver comes before or after the first one."""
    setting, third = setting_in(folder), Lease(3, "third")
    setting.started().drop(FIRST)
    write = deltalake.write_deltalake

    def overtaken(*args: Any, **how: Any) -> None:
        monkeypatch.setattr(deltalake, "write_deltalake", write)
        if point == "after":
            write(*args, **how)
        new = setting.started(birth=4, lease=third)
        if written:
            setting.apply(new, 5, {1: 5}, lease=third)
        if point == "before":
            write(*args, **how)

    monkeypatch.setattr(deltalake, "write_deltalake", overtaken)
    with pytest.raises(StateUnavailableError, match="changed by another driver"):
        setting.started(birth=0, lease=SECOND)
    with pytest.raises(FencedError, match="epoch 3"):  # the call is repeated
        setting.started(birth=0, lease=SECOND)
    other = setting.open()
    assert (other.report().birth, marker(other)) == (4, 5 if written else 4)
    setting.apply(other, 6 if written else 5, {1: 5}, lease=third)
    assert entries(other, None) == {("w1",): 10 if written else 5}


def test_a_drop_spares_the_files_of_a_state_that_was_recreated_meanwhile(folder: Path) -> None:
    setting = setting_in(folder)
    dropping = setting.started()
    setting.apply(dropping, 1, {1: 1})
    third = Lease(3, "third")

    def recreate() -> None:
        new = setting.started(birth=0, lease=third)
        setting.apply(new, 1, {2: 2}, lease=third)

    with at_point("delta.dropped", recreate):
        dropping.drop(FIRST)
    assert entries(setting.open(), None) == {("w2",): 2}


def test_a_drop_that_a_merge_overtakes_leaves_no_file_in_the_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = setting_in(folder)
    store = filled(setting)
    dropping: Any = setting.open()
    commit = dropping._table.commit

    def overtaken(*args: Any, **how: Any) -> Any:
        monkeypatch.setattr(dropping._table, "commit", commit)
        assert merged(store) is not None
        return commit(*args, **how)

    monkeypatch.setattr(dropping._table, "commit", overtaken)
    dropping.drop(SECOND)
    assert setting.open().report().absent
    assert DeltaTable(table_of(folder)).file_uris() == []
    assert entries(setting.started(birth=0, lease=Lease(3, "third")), None) == {}


def test_a_drop_leaves_no_data_file(folder: Path) -> None:
    setting = setting_in(folder)
    store = setting.started()
    setting.apply(store, 1, {1: 1})
    store.drop(FIRST)
    assert list(table_of(folder).glob("*.parquet")) == []


def test_a_drop_by_another_log_is_refused(folder: Path) -> None:
    setting = setting_in(folder)
    store = setting.started()
    from dataclasses import replace

    foreign = replace(setting, identity=replace(setting.identity, log="log-2"))
    with pytest.raises(LogMismatchError, match="log-1"):
        foreign.open().drop(SECOND)
    assert marker(store) == 0


def test_a_folder_with_other_files_is_refused(folder: Path) -> None:
    table_of(folder).mkdir(parents=True)
    (table_of(folder) / "notes.txt").write_text("mine")
    with pytest.raises(StateOwnedError, match=r"other files \(notes.txt\)"):
        setting_in(folder).open().report()


def test_a_place_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="refuses: .*NotADirectory"):
        setting_in(tmp_path / "file").started()


def test_a_table_of_somebody_else_is_refused(folder: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(str(table_of(folder)), pa.table({"word": ["a"]}))
    with pytest.raises(StateOwnedError, match="has a Delta table that is not a state"):
        setting_in(folder).open().report()


def test_a_table_that_another_program_rewrote_is_refused(folder: Path) -> None:
    setting = setting_in(folder)
    store = setting.started()
    setting.apply(store, 1, {1: 1})
    setting.apply(store, 2, {1: 1})
    DeltaTable(table_of(folder)).optimize.compact()
    with pytest.raises(StateCorruptError, match=r"version \d+ of its Delta table .*: another program wrote .*restore"):
        setting.apply(store, 3, {1: 1})


@pytest.mark.parametrize("away", ["restored", "deleted"])
def test_a_table_that_lost_rows_without_the_state_is_refused(folder: Path, away: str) -> None:
    setting = setting_in(folder)
    store = setting.started()
    for txid in (1, 2):
        setting.apply(store, txid, {1: 1})
    before = versions(folder)
    if away == "restored":
        DeltaTable(table_of(folder)).restore(before - 1)
    else:
        DeltaTable(table_of(folder)).delete()
    for read in (lambda: setting.apply(store, 3, {1: 1}), lambda: entries(setting.open(), None)):
        with pytest.raises(StateCorruptError, match="restored or deleted"):
            read()
    DeltaTable(table_of(folder)).restore(before)
    setting.apply(store, 3, {1: 1})
    assert entries(store, 3) == {("w1",): 3}


def test_a_process_that_may_replace_versions_writes_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = setting_in(folder)
    store = setting.started()
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", "true")
    for write in (lambda: setting.open().create(SECOND, 0), lambda: store.acquire(SECOND)):
        with pytest.raises(StateError, match="the variable AWS_S3_ALLOW_UNSAFE_RENAME is set"):
            write()


def test_a_table_that_has_gone_or_is_an_older_copy_is_behind(folder: Path) -> None:
    setting = setting_in(folder)
    store = setting.started()
    setting.apply(store, 1, {1: 1})
    copy = folder / "copy"
    shutil.copytree(table_of(folder), copy)
    for txid in (2, 3):
        setting.apply(store, txid, {1: 1})
    shutil.rmtree(table_of(folder))
    with pytest.raises(StateBehindError) as caught:
        setting.apply(store, 4, {1: 1})
    assert caught.value.marker == -1 and store.report().absent
    copy.rename(table_of(folder))
    with pytest.raises(StateBehindError) as caught:
        setting.apply(store, 4, {1: 1})
    assert caught.value.marker == 1
    for txid in (2, 3, 4):
        setting.apply(store, txid, {1: 1})
    assert entries(store, 4) == entries(setting.open(), 4) == {("w1",): 4}


def test_a_read_of_a_state_whose_table_is_gone_says_so(folder: Path) -> None:
    setting = setting_in(folder)
    store = setting.started()
    setting.apply(store, 1, {1: 1})
    shutil.rmtree(table_of(folder))
    with pytest.raises(StateRecoveringError, match=r"is missing in its store or was emptied: a read as of txid 1"):
        setting.read(store, [1], 1)


def test_a_driver_that_slept_until_its_commit_was_cleaned_up_looks_again(folder: Path) -> None:
    """It created the table, and finds neither its own commit nor the next one: both are behind a checkpoint."""
    setting = setting_in(folder)
    sleeper, other = setting.started(), setting.open()
    other.acquire(SECOND)
    for txid in (1, 2, 3):
        setting.apply(other, txid, {1: 1}, lease=SECOND)
    table = sleeper._table  # type: ignore[attr-defined]
    other.upkeep._table.checkpoint()  # type: ignore[attr-defined]
    last = DeltaTable(str(table_of(folder))).version()
    for path in (table_of(folder) / "_delta_log").glob("*.json"):
        if int(path.stem) < last:
            path.unlink()
    table._stamp = None  # the driver slept before it looked for its own commit
    version = table.look()
    assert version is not None and version.version == last
