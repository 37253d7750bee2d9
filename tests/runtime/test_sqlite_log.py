"""The transaction log: what it holds, whom it refuses, and what it says of damage."""

import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest

from trident.base.attempt import Lease, TransactionAttempt
from trident.base.errors import FencedError, LogCorruptError, LogError
from trident.runtime.coordinator import History
from trident.runtime.frozen import FrozenOutput, freeze, thaw
from trident.runtime.log import Birth
from trident.runtime.sqlite_log import SqliteLog

TABLE = pa.table({"word": ["a", "b"], "count": pa.array([1, 2], pa.int64())})


def opened(folder: Path) -> SqliteLog:
    return SqliteLog(folder / "log.sqlite", "topology")


def frozen(log: SqliteLog, lease: Lease, txid: int, output: FrozenOutput | None = None) -> None:
    attempt = TransactionAttempt(txid, 0, lease.epoch)
    log.planned(lease, "g", attempt, {"s": txid}, 0.5)
    log.freeze(lease, "g", attempt, {"s": txid}, {"counts": output or freeze(TABLE)})


def test_a_log_keeps_its_uuid_and_each_lease_is_one_epoch_later(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert log.lease() is None
    assert log.take().epoch == 1
    log.close()
    again = opened(tmp_path)
    assert again.uuid == log.uuid and again.take().epoch == 2


def test_history_tells_what_is_committed_frozen_and_planned(tmp_path: Path) -> None:
    log = opened(tmp_path)
    lease = log.take()
    assert log.history("g") == History()
    for txid in (1, 2):
        frozen(log, lease, txid)
    log.committed(lease, "g", 1)
    log.planned(lease, "g", TransactionAttempt(3, 2, 1), {"s": 3}, 0.5)
    log.planned(lease, "g", TransactionAttempt(4, 0, 1), {"s": 4}, 0.5)
    assert log.history("g") == History(1, {"s": 2}, (2,), ((2, {"s": 3}), (0, {"s": 4})))
    assert log.plan("g", 3) == ({"s": 3}, 0.5)


def test_what_was_frozen_comes_back_to_the_bit(tmp_path: Path) -> None:
    log = opened(tmp_path)
    frozen(log, log.take(), 1)
    log.close()
    found = opened(tmp_path).frozen("g", 1, 1)
    assert found is not None and thaw(found["counts"], "here") == TABLE


def test_another_plan_for_a_batch_voids_the_plans_after_it_and_the_same_one_does_not(tmp_path: Path) -> None:
    log = opened(tmp_path)
    lease = log.take()
    for txid in (1, 2, 3):
        log.planned(lease, "g", TransactionAttempt(txid, 0, 1), {"s": txid}, 0.5)
    log.planned(lease, "g", TransactionAttempt(1, 1, 1), {"s": 1}, 0.5)
    assert len(log.history("g").planned) == 3
    log.planned(lease, "g", TransactionAttempt(1, 2, 1), {"s": 9}, 0.5)
    assert log.history("g").planned == ((2, {"s": 9}),)


@pytest.mark.parametrize("txid", [1, 3])
def test_only_the_batch_after_the_last_frozen_one_can_freeze(tmp_path: Path, txid: int) -> None:
    log = opened(tmp_path)
    lease = log.take()
    frozen(log, lease, 1)
    with pytest.raises(LogError, match=f"batch {txid} cannot freeze"):
        log.freeze(lease, "g", TransactionAttempt(txid, 0, 1), {"s": txid}, {"counts": freeze(TABLE)})
    assert log.history("g").frozen == (1,)


def test_only_the_next_frozen_batch_can_commit(tmp_path: Path) -> None:
    log = opened(tmp_path)
    lease = log.take()
    frozen(log, lease, 1)
    for txid in (2, 0):
        with pytest.raises(LogError, match=f"batch {txid} cannot commit"):
            log.committed(lease, "g", txid)


def test_a_driver_whose_lease_is_over_cannot_write(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    old = first.take()
    frozen(first, old, 1)
    new = second.take()
    output = {"counts": freeze(TABLE)}
    attempt = TransactionAttempt(2, 0, old.epoch)
    for write in (
        lambda: first.planned(old, "g", attempt, {"s": 2}, 0.5),
        lambda: first.unplanned(old, "g", 2),
        lambda: first.freeze(old, "g", attempt, {}, output),
        lambda: first.freeze_stage(old, "g", 1, 2, output),
        lambda: first.committed(old, "g", 1),
        lambda: first.born(old, "counts", Birth("g", 0)),
        lambda: first.publish(old, "counts", b""),
        lambda: first.trim(old, "g", 1, 0, 0),
        lambda: first.sync(old),
    ):
        with pytest.raises(FencedError, match=r"epoch 2, ours is 1"):
            write()
    assert second.history("g").frozen == (1,)
    frozen(second, new, 2)


def test_an_equal_epoch_with_another_token_is_another_driver(tmp_path: Path) -> None:
    log = opened(tmp_path)
    lease = log.take()
    with pytest.raises(FencedError):
        log.sync(Lease(lease.epoch, "other"))


def test_trim_keeps_what_is_needed_and_the_last_batches_before_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    lease = log.take()
    for txid in range(1, 11):
        frozen(log, lease, txid)
        log.committed(lease, "g", txid)
    assert log.trim(lease, "g", needed=8, keep_batches=3, keep_bytes=1 << 30) == []
    assert log.kept_since("g") == 5
    assert log.frozen("g", 5, 1) is None and log.frozen("g", 6, 1) is not None
    log.trim(lease, "g", needed=8, keep_batches=3, keep_bytes=freeze(TABLE).size)
    assert log.kept_since("g") == 7 and log.frozen("g", 8, 1) is not None
    log.trim(lease, "g", needed=0, keep_batches=3, keep_bytes=0)
    assert log.kept_since("g") == 7


def test_states_are_born_once_and_publish_manifests(tmp_path: Path) -> None:
    log = opened(tmp_path)
    lease = log.take()
    log.born(lease, "counts", Birth("g", 4))
    assert log.births() == {"counts": Birth("g", 4)} and log.manifest("counts") is None
    log.publish(lease, "counts", b"{}")
    assert log.manifest("counts") == b"{}"
    with pytest.raises(LogError, match="'other' cannot publish"):
        log.publish(lease, "other", b"{}")


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.sqlite").write_bytes(b"not a database, but long enough to look like a file" * 40)
    with pytest.raises(LogCorruptError, match=r"is damaged: file is not a database.*topology\.reset"):
        opened(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    db = sqlite3.connect(other / "log.sqlite")
    db.execute("CREATE TABLE mine (x)")
    db.close()
    with pytest.raises(LogCorruptError, match="not a log of ours"):
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
    with pytest.raises(LogCorruptError, match="batch 1: the checksum of a frozen result does not fit"):
        thaw(found["counts"], "batch 1")
    with pytest.raises(LogCorruptError, match="the checksum of the plan of batch 1 does not fit"):
        again.plan("g", 1)


def test_a_log_of_another_topology_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(LogError, match="belongs to topology 'topology', not to 'mine'"):
        SqliteLog(tmp_path / "log.sqlite", "mine")
