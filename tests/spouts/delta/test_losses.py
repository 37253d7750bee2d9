"""What a Delta table has lost or changed before it was read: typed errors that name it, and the policies."""

import logging
import shutil
from pathlib import Path

import pytest

from tests.spouts.delta.tables import Table, ids_of, last_position, read_all
from trident.base.attempt import TransactionAttempt
from trident.errors import DataLossError, SourceChangedError, SourceUnreadableError, SpoutContractError
from trident.spouts import DeltaSpout

NEXT = TransactionAttempt(2, 0, 1)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "table").add(1, 2).add(3)


# --- rows that are deleted or changed -------------------------------------------------------------------------------


def change(table: Table, how: str) -> None:
    if how == "DELETE":
        table.delta.delete("id = 1")
    elif how == "UPDATE":
        table.delta.update(updates={"word": "'other'"}, predicate="id = 3")
    else:
        table.add(9, mode="overwrite")


@pytest.mark.parametrize(("how", "files"), [("DELETE", 1), ("UPDATE", 1), ("WRITE", 2)])
def test_a_version_that_changes_or_deletes_rows_stops_the_stream(table: Table, how: str, files: int) -> None:
    spout = DeltaSpout(table.path)
    position = last_position(spout)
    change(table, how)
    table.add(4)
    with pytest.raises(SourceChangedError) as caught:
        read_all(spout, position)
    assert str(caught.value) == (
        f"DeltaSpout: {table.path}: version 2 ({how}) changes or deletes rows that the table had (files replaced "
        f"or removed: {files}). To follow such changes, read them with changes=True; to skip such versions, including "
        f"the rows that they add, start with onChange='skip'"
    )


@pytest.mark.parametrize("how", ["DELETE", "UPDATE", "WRITE"])
def test_a_policy_leaves_such_versions_out_and_says_so_once(
    table: Table, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    position = last_position(DeltaSpout(table.path))
    change(table, how)
    table.add(4)
    with caplog.at_level(logging.WARNING, "trident.spouts"):
        executor = DeltaSpout(table.path, onChange="skip").open()
        plan = executor.plan(NEXT, position, 0.0)
        assert executor.emit(NEXT, plan).arrow().to_pydict()["id"] == [4]
    (warning,) = caplog.messages
    assert warning == (
        f"DeltaSpout: {table.path}: version 2 ({how}) changes or deletes rows: skipped because of onChange='skip'"
    )


def test_rows_that_a_restore_brings_back_do_not_count_twice(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    spout = DeltaSpout(table.path, onChange="skip")
    position = last_position(spout)
    table.delta.delete("id = 3")  # of one file, which is removed: the restore only adds it again
    table.delta.restore(1)
    table.add(9)
    assert [action for action in table.actions(3) if "remove" in action] == []
    assert ids_of(read_all(spout, position)) == [[9]]
    assert "version 3 (RESTORE) brings back rows: skipped because of onChange='skip'" in caplog.messages[1]
    read = last_position(DeltaSpout(table.path, startingVersion=3, onChange="skip"))
    assert read is not None
    with pytest.raises(
        SourceChangedError, match=r"3 \(RESTORE\) brings back rows that the table had \(files added again: 1\)\."
    ):
        read_all(DeltaSpout(table.path, startingVersion=3))


def test_what_was_deleted_before_the_snapshot_is_no_change(table: Table) -> None:
    table.delta.delete("id = 1")
    assert ids_of(read_all(DeltaSpout(table.path))) == [[2, 3]]


# --- what is gone ---------------------------------------------------------------------------------------------------


def test_a_table_that_was_made_anew_is_noticed_by_a_running_and_by_a_new_driver(table: Table) -> None:
    spout = DeltaSpout(table.path)
    executor = spout.open()
    position = executor.plan(NEXT, None, 0.0)
    assert executor.plan(NEXT, position, 0.0) is None
    shutil.rmtree(table.path)
    table.add(7).add(8).add(9).add(10)
    for driver in (executor, spout.open()):
        with pytest.raises(
            DataLossError,
            match=r"the table was dropped and recreated \(id \S+ before, \S+ now\), and its unread rows are gone;",
        ):
            driver.plan(NEXT, position, 0.0)


def test_a_table_that_is_gone_is_unreadable(table: Table) -> None:
    executor = DeltaSpout(table.path).open()
    position = executor.plan(NEXT, None, 0.0)
    shutil.rmtree(table.path)
    with pytest.raises(SourceUnreadableError, match="there is no Delta table"):
        executor.plan(NEXT, position, 0.0)


def test_a_table_that_was_restored_from_a_copy_is_noticed(table: Table, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table.path, copy)
    spout = DeltaSpout(table.path)
    executor = spout.open()
    table.add(4)
    position = executor.plan(NEXT, None, 0.0)
    for versions in (0, 1, 3):
        shutil.rmtree(table.path)
        shutil.copytree(copy, table.path)
        for version in range(versions):
            table.add(5 + version)
        for driver in (executor, spout.open()):
            with pytest.raises(
                DataLossError, match="version 2 is not the one that the topology read: the table was restored"
            ):
                driver.plan(NEXT, position, 0.0)


def test_a_log_that_was_cleaned_up_before_it_was_read_is_a_loss(table: Table) -> None:
    spout = DeltaSpout(table.path, startingVersion="earliest")
    position = last_position(spout)
    table.add(4).add(5).add(6)
    plan = spout.open().plan(NEXT, position, 0.0)
    table.forget_log_before(4)
    with pytest.raises(
        DataLossError, match="version 2 was cleaned up from the table's log before it was read. Keep the log"
    ):
        spout.open().plan(NEXT, position, 0.0)
    with pytest.raises(DataLossError, match="version 2 was cleaned up from the table's log before it was read"):
        spout.open().emit(NEXT, plan)
    with pytest.raises(
        DataLossError, match="startingVersion='earliest', but the table's log begins with version 4: older"
    ):
        spout.open().plan(NEXT, None, 0.0)
    assert ids_of(read_all(DeltaSpout(table.path))) == [[1, 2, 3, 4, 5, 6]], "a snapshot needs only the checkpoint"


def test_a_log_that_was_cleaned_up_after_it_was_read_is_none(table: Table) -> None:
    spout = DeltaSpout(table.path, startingVersion="earliest")
    executor = spout.open()
    position = executor.plan(NEXT, None, 0.0)
    table.add(4)
    table.forget_log_before(2)
    plans = [driver.plan(NEXT, position, 0.0) for driver in (executor, spout.open())]
    assert plans[0] == plans[1] and plans[0]["from"] == [2, 0, False]
    assert executor.plan(NEXT, plans[0], 0.0) is None
    assert ids_of(read_all(spout, position)) == [[4]]


def test_files_that_vacuum_has_removed_are_a_loss(table: Table) -> None:
    spout = DeltaSpout(table.path, startingVersion="earliest", maxFilesPerBatch=1)
    plan = spout.open().plan(NEXT, None, 0.0)
    table.delta.optimize.compact()
    table.delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(DataLossError, match=r"the data file part-\S+ was removed before its rows were read, by VACUUM"):
        spout.open().emit(NEXT, plan).arrow()


def test_a_file_that_is_not_the_one_in_the_log_is_refused(table: Table) -> None:
    spout = DeltaSpout(table.path, startingVersion="earliest", maxFilesPerBatch=1)
    executor = spout.open()
    plan = executor.plan(NEXT, None, 0.0)
    first, other = (next(a["add"] for a in table.actions(version) if "add" in a) for version in (0, 1))
    file = table.path / first["path"]
    content = (table.path / other["path"]).read_bytes()
    file.write_bytes(content)
    with pytest.raises(SourceUnreadableError, match=r"has \d+, but \d+ bytes according to the table's log; it was"):
        executor.emit(NEXT, plan).arrow()
    file.write_bytes(b"x" * first["size"])
    with pytest.raises(SourceUnreadableError, match=r"cannot read the data file part-\S+: Parquet magic bytes"):
        executor.emit(NEXT, plan).arrow()


def test_the_metadata_of_another_spout_is_refused(table: Table) -> None:
    with pytest.raises(
        SpoutContractError,
        match=r"DeltaSpout: this spout cannot replay the batch {'offset': 7} of the log: another spout wrote it",
    ):
        read_all(DeltaSpout(table.path), {"offset": 7})
