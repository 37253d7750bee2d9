"""The transaction log as a SQLite file: the contract of all logs, and what it says of damage."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.log_contract import LogContract, frozen
from tests.support.waiting import wait_until
from trident.base.errors import LogCorruptError, LogError
from trident.log import sqlite_log
from trident.log.frozen_results import thaw
from trident.log.protocol import Birth
from trident.log.sqlite_log import SqliteLog
from trident.testing.contracts.stores.fixtures import in_children


def opened(folder: Path) -> SqliteLog:
    return SqliteLog(folder / "log.sqlite", "topology")


class _Folder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self) -> SqliteLog:
        return opened(self.folder)

    def look(self) -> SqliteLog:
        return SqliteLog(self.folder / "log.sqlite", "topology", reading=True)


class TestSqliteLog(LogContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> _Folder:
        return _Folder(tmp_path)


def test_looks_at_once_see_a_log_that_takes_the_place_of_another(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.take()
    looking = _Folder(tmp_path).look()
    with looking.at_once():
        former = looking.uuid
        assert former == log.uuid
        log.close()
        for path in tmp_path.iterdir():
            path.unlink()
        other = opened(tmp_path)
        assert looking.uuid == other.uuid != former
        other.close()
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith(("-wal", "-shm"))]


def test_a_log_that_is_replaced_between_its_opening_and_the_query_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite opens the WAL file only with the query, by its path: it could be that of the new log."""
    log = opened(tmp_path)
    log.take()
    looking, opening, others = _Folder(tmp_path).look(), sqlite_log._opened, list[str]()

    def replaced(path: Path, how: str) -> sqlite3.Connection:
        db = opening(path, how)
        if how != "mode=rw" and not others:
            log.close()
            for file in tmp_path.iterdir():
                file.rename(tmp_path.parent / f"former-{file.name}")
            other = opened(tmp_path)
            others.append(other.uuid)
            other.close()
        return db

    monkeypatch.setattr(sqlite_log, "_opened", replaced)
    former = log.uuid
    assert looking.uuid == others[0] != former


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.sqlite").write_bytes(b"not a database, but long enough to look like a file" * 40)
    with pytest.raises(LogCorruptError, match=r"is damaged: file is not a database.*topology\.reset"):
        opened(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    db = sqlite3.connect(other / "log.sqlite")
    db.execute("CREATE TABLE mine (x)")
    db.close()
    with pytest.raises(LogCorruptError, match="not a transaction log"):
        opened(other)


def test_damaged_pages_are_found_when_the_log_is_opened(tmp_path: Path) -> None:
    log = opened(tmp_path)
    lease = log.take()
    for txid in range(1, 60):
        frozen(log, lease, txid)
    log.close()
    path = tmp_path / "log.sqlite"
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 16] = b"\xff" * 16
    path.write_bytes(data)
    with pytest.raises(LogCorruptError, match="is damaged"):
        opened(tmp_path)


def test_a_changed_bit_in_frozen_content_is_found_by_its_checksum(tmp_path: Path) -> None:
    log = opened(tmp_path)
    frozen(log, log.take(), 1)
    log.close()
    db = sqlite3.connect(tmp_path / "log.sqlite")
    db.execute("UPDATE frozen SET body = CAST(substr(body, 1, length(body) - 1) || x'7F' AS BLOB)")
    db.execute("UPDATE batches SET plan = '{\"s\":2}'")
    db.commit()
    db.close()
    again = opened(tmp_path)
    found = again.frozen("g", 1, 1)
    assert found is not None
    with pytest.raises(LogCorruptError, match="batch 1: the checksum of a frozen result does not match"):
        thaw(found["counts"], "batch 1")
    with pytest.raises(LogCorruptError, match="the checksum of the plan of batch 1 does not match"):
        again.batch("g", 1)


def test_a_log_of_another_topology_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(LogError, match="belongs to topology 'topology', not to 'mine'"):
        SqliteLog(tmp_path / "log.sqlite", "mine")


def test_who_looks_leaves_no_trace_whether_a_driver_writes_was_killed_or_has_gone(tmp_path: Path) -> None:
    log, names = opened(tmp_path), {"log.sqlite", "log.sqlite-wal", "log.sqlite-shm"}
    log.born(log.take(), "counts", Birth("g", 0))
    looking = _Folder(tmp_path).look()
    assert looking.births() == {"counts": Birth("g", 0)}
    killed = tmp_path / "killed"
    killed.mkdir()
    for path in tmp_path.glob("log.sqlite*"):  # as a killed driver leaves them
        (killed / path.name).write_bytes(path.read_bytes())
    assert _Folder(killed).look().births() == {"counts": Birth("g", 0)}
    assert {path.name for path in killed.iterdir()} == names
    log.close()
    assert looking.births() == {"counts": Birth("g", 0)}
    assert [path.name for path in tmp_path.glob("log.sqlite*")] == ["log.sqlite"]
    again = opened(tmp_path)
    again.forget(again.take(), "counts")
    assert looking.births() == {}, "a later driver's writes are seen"
    again.close()


def test_another_topologys_log_and_what_is_none_are_not_read(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(LogError, match="belongs to topology 'topology', not to 'other'"):
        SqliteLog(tmp_path / "log.sqlite", "other", reading=True)
    (tmp_path / "garbage").write_bytes(b"garbage" * 1000)
    with pytest.raises(LogCorruptError, match="is damaged"):
        SqliteLog(tmp_path / "garbage", "topology", reading=True)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_log_that_is_removed_or_replaced_under_its_driver_takes_nothing_more(tmp_path: Path, replaced: bool) -> None:
    log = opened(tmp_path)
    lease = log.take()
    frozen(log, lease, 1)
    for path in tmp_path.glob("log.sqlite*"):
        path.rename(tmp_path / f"away-{path.name}")
    other = opened(tmp_path) if replaced else None
    for use in (log.lease, lambda: frozen(log, lease, 2), lambda: log.committed(lease, "g", 1), log.take):
        with pytest.raises(LogError, match="was removed or replaced during this run"):
            use()
    if other is not None:
        assert other.groups() == [] and other.lease() is None, "nothing of it reaches the new file"
        frozen(other, other.take(), 1)
    else:
        assert list(tmp_path.glob("log.sqlite*")) == []
        for path in tmp_path.glob("away-*"):
            path.rename(tmp_path / path.name.removeprefix("away-"))
        frozen(log, lease, 2)  # it was put back
        assert log.history("g").frozen == (1, 2)


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_log_whose_second_file_is_removed_under_its_driver_takes_nothing_more(tmp_path: Path, end: str) -> None:
    log = opened(tmp_path)
    lease = log.take()
    frozen(log, lease, 1)
    (tmp_path / f"log.sqlite{end}").unlink()
    for use in (log.lease, lambda: frozen(log, lease, 2), lambda: log.committed(lease, "g", 1), log.renewals):
        with pytest.raises(LogError, match=rf"removed or replaced during this run \(log.sqlite{end}\)"):
            use()


def test_a_forked_child_reads_a_log_that_its_parent_closes_and_opens_again(tmp_path: Path) -> None:
    first, logs = opened(tmp_path), list[SqliteLog]()
    frozen(first, first.take(), 1)
    has_read, goes_on = tmp_path / "has_read", tmp_path / "goes_on"

    def read() -> str:
        looking = _Folder(tmp_path).look()
        before = looking.history("g").frozen
        has_read.touch()
        wait_until(goes_on.exists)
        return f"{before}, then {looking.history('g').frozen}"

    def open_again() -> str:
        if not logs:
            wait_until(has_read.exists)
            first.close()
            logs.append(opened(tmp_path))
            frozen(logs[0], logs[0].take(), 2)
            goes_on.touch()
        return "right"

    assert in_children(read, open_again, count=1) == ["(1,), then (1, 2)", "right"]
    logs[0].close()


def test_a_forked_child_writes_a_log_that_its_parent_closes(tmp_path: Path) -> None:
    first, closed = opened(tmp_path), tmp_path / "closed"
    frozen(first, first.take(), 1)
    taken = tmp_path / "taken"

    def write() -> str:
        log = opened(tmp_path)
        lease = log.take()
        taken.touch()
        wait_until(closed.exists)
        frozen(log, lease, 2)
        return str(log.history("g").frozen)

    def close() -> str:
        wait_until(taken.exists)
        first.close()
        closed.touch()
        return "right"

    assert in_children(write, close, count=1) == ["(1, 2)", "right"]


def fork() -> None:
    assert in_children(lambda: "right", lambda: "right", count=1) == ["right", "right"]


def test_a_log_that_is_replaced_after_a_fork_takes_nothing_more(tmp_path: Path) -> None:
    log, path = opened(tmp_path), tmp_path / "log.sqlite"
    lease = log.take()
    frozen(log, lease, 1)
    fork()
    frozen(log, lease, 2)
    fork()
    path.rename(tmp_path / "away")
    for replaced in (False, True):
        if replaced:
            shutil.copy(tmp_path / "away", path)
        for use in (log.lease, lambda: frozen(log, lease, 3), log.renewals):
            with pytest.raises(LogError, match=r"removed or replaced during this run \(log.sqlite\)"):
                use()
    assert path.read_bytes() == (tmp_path / "away").read_bytes()
    (tmp_path / "away").rename(path)
    frozen(log, lease, 3)  # it was put back
    assert log.history("g").frozen == (1, 2, 3)
    fork()
    log.close()
    with pytest.raises(LogError, match="is closed"):
        log.lease()
    assert list(tmp_path.iterdir()) == [path]


def test_a_fork_within_looks_at_once_leaves_them_as_they_were(tmp_path: Path) -> None:
    log, looking = opened(tmp_path), _Folder(tmp_path).look()
    with looking.at_once():
        before = looking.uuid
        fork()
        assert looking.uuid == before
    log.close()


def test_a_log_of_another_format_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    SqliteLog(path, "topology").close()
    db = sqlite3.connect(path)
    db.execute("UPDATE meta SET format = 'trident log 3'")
    db.commit()
    db.close()
    before = path.read_bytes()
    for reading in (False, True):
        with pytest.raises(LogError, match="has the format 'trident log 3', but this version .* reads '"):
            SqliteLog(path, "topology", reading=reading)
    assert path.read_bytes() == before


def test_a_sync_writes_something_else_sqlite_would_not_fsync(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite", "topology")
    lease, wal = log.take(), tmp_path / "log.sqlite-wal"
    before = wal.stat().st_size
    log.sync(lease)
    assert wal.stat().st_size > before
    log.close()


def test_a_signal_behind_the_commit_of_a_new_log_is_what_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopping:
        def split(self, sign: str) -> Iterator[str]:
            yield "COMMIT"
            raise SystemExit(143)  # as a handler of SIGTERM raises it

    monkeypatch.setattr(sqlite_log, "TABLES", Stopping())
    with pytest.raises(SystemExit):
        SqliteLog(tmp_path / "log.sqlite", "t")
