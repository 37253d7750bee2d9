"""The transaction log as one SQLite file: WAL, one fsync for each frozen batch.

Attempts and COMMITTED are written with synchronous=NORMAL. They reach the operating system, so a killed process loses
nothing; they become durable with the next FROZEN, which is written with synchronous=FULL. A power loss can take away
records of attempts, and COMMITTED: the next start repeats these commits.
"""

import contextlib
import json
import os
import secrets
import sqlite3
import threading
import uuid
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from trident.base.attempt import Holder, Lease
from trident.base.discard_advice import reset_with
from trident.base.durable_files import make_folder
from trident.base.errors import LogError
from trident.base.forked_child import free_in_child, held_at_fork, in_child, leave_to_parent
from trident.base.sqlite_files import FileIdentity, files_of, identities, identity_of, wal_of
from trident.log.base import LogBase, batch_checksum, compact, holder_text, trim_until
from trident.log.frozen_results import FrozenOutput
from trident.log.group_records import AttemptRecord, History, Positions
from trident.log.protocol import (
    BatchRecord,
    Birth,
    LogAbsentError,
    LogBusyError,
    Members,
    OutputProgress,
    Restoration,
    StreamRecord,
)

FORMAT = "trident log 6"
_CHECK_UP_TO = 64 << 20
"""The largest file (bytes) whose pages are all checked when the file is opened. Checking a larger file would delay the
start; its rows are checked when they are read."""

_TOUCH = "UPDATE meta SET renewed = renewed + 1"
"""A write whose only purpose is to be durable. It must change a value: SQLite does not write an unchanged row."""

_NO_OUTPUT = ""
"""The output name in the row of a stage without outputs (only effects). The row shows that the stage is frozen."""

ORIGIN = "CREATE TABLE IF NOT EXISTS origin (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL)"
"""The table that only the log of a fork has."""

READINGS = "CREATE TABLE IF NOT EXISTS readings (name TEXT PRIMARY KEY, body BLOB NOT NULL)"
"""The table that logs of earlier versions lack. The first start over such a log creates it."""

TABLES = """
CREATE TABLE meta (format TEXT NOT NULL, topology TEXT NOT NULL, uuid TEXT NOT NULL, epoch INTEGER NOT NULL,
  token TEXT NOT NULL, holder TEXT NOT NULL DEFAULT '',
  renewed INTEGER NOT NULL DEFAULT 0, files TEXT NOT NULL DEFAULT '');
CREATE TABLE leases (epoch INTEGER PRIMARY KEY, token TEXT NOT NULL);
CREATE TABLE groups (name TEXT PRIMARY KEY, committed INTEGER NOT NULL, frozen INTEGER NOT NULL, kept INTEGER NOT NULL);
CREATE TABLE streams (name TEXT PRIMARY KEY, grp TEXT NOT NULL, position TEXT NOT NULL, source TEXT NOT NULL,
  active INTEGER NOT NULL, began TEXT NOT NULL, feeds TEXT NOT NULL, parted TEXT NOT NULL,
  former TEXT NOT NULL DEFAULT '[]');
CREATE TABLE outputs (name TEXT PRIMARY KEY, grp TEXT NOT NULL);
CREATE TABLE served (output TEXT PRIMARY KEY, last INTEGER NOT NULL, until INTEGER, missed INTEGER NOT NULL);
CREATE TABLE handed (output TEXT PRIMARY KEY, txid INTEGER NOT NULL, attempt INTEGER NOT NULL);
CREATE TABLE attempts (grp TEXT NOT NULL, txid INTEGER NOT NULL, number INTEGER NOT NULL, epoch INTEGER NOT NULL,
  deaths INTEGER NOT NULL, digests TEXT NOT NULL, PRIMARY KEY (grp, txid));
CREATE TABLE batches (grp TEXT NOT NULL, txid INTEGER NOT NULL, plan TEXT NOT NULL, time REAL NOT NULL,
  outline TEXT NOT NULL, checksum INTEGER NOT NULL, committed REAL, PRIMARY KEY (grp, txid));
CREATE TABLE frozen (grp TEXT NOT NULL, txid INTEGER NOT NULL, stage INTEGER NOT NULL, output TEXT NOT NULL,
  body BLOB NOT NULL, files INTEGER NOT NULL, rows INTEGER NOT NULL, size INTEGER NOT NULL,
  checksum INTEGER NOT NULL, PRIMARY KEY (grp, txid, stage, output));
CREATE TABLE states (name TEXT PRIMARY KEY, grp TEXT NOT NULL, birth INTEGER NOT NULL, epoch INTEGER NOT NULL,
  manifest BLOB, founded INTEGER NOT NULL DEFAULT 1, filled TEXT NOT NULL DEFAULT '');
CREATE TABLE contents (state TEXT PRIMARY KEY, grp TEXT NOT NULL, birth INTEGER NOT NULL,
  body BLOB NOT NULL, files INTEGER NOT NULL, rows INTEGER NOT NULL, checksum INTEGER NOT NULL);
"""


class SqliteLog(LogBase):
    """A topology's log in the file `path`, which is created if it is missing.

    Thread-safe: one connection under one lock. It is closed before a fork, and opened again when it is next used.

    `reading`: open the log read-only, even while a driver writes it. Then every write raises LogError.
    """

    def __init__(self, path: Path, topology: str, reading: bool = False) -> None:
        super().__init__(f"the log {path}", "checkpointLocation", reading)
        self._path = path
        self._lock = free_in_child(threading.RLock())
        self._db: sqlite3.Connection | None = None
        self._closed = False
        self._kept: tuple[sqlite3.Connection, FileIdentity] | None = None
        """For a read-only log: the connection that an `at_once` block uses, and the identity of the file."""
        in_child(self, SqliteLog._begin_again)
        held_at_fork(self._lock, self, SqliteLog._close_idle)
        if reading:
            self._check_identity(topology)
            return
        if not path.exists():
            make_folder(path.parent)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._watched = files_of(path)
        self._files = identities(self._watched)
        self._own_lease: Lease | None = None
        self._wrote = False
        """True if something was written since the last `renew`."""
        with self._lock, self._translated(), contextlib.ExitStack() as undo:
            undo.callback(self.close)  # otherwise a refused log stays open as long as the error object exists
            self._create(topology)
            undo.pop_all()

    def _connected(self) -> sqlite3.Connection:
        """Return the connection. The caller holds the lock.

        Raises LogError if another file has taken the log's place since the connection was closed for a fork.
        """
        if self._db is None:
            if self._closed:
                raise LogError(f"{self._where} is closed")
            self._check_same(identities(self._watched[:1]))
            with self._translated(), contextlib.ExitStack() as undo:
                db = undo.enter_context(contextlib.closing(_opened(self._path, "mode=rw")))
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = FULL")
                db.execute("PRAGMA schema_version").fetchone()  # SQLite creates and locks the other files at a read
                files = identities(self._watched)
                self._check_same(files[:1])
                undo.pop_all()
            self._db, self._files = db, files
            self._sync_full = True  # the PRAGMA in force on this connection; `_write` changes it
        return self._db

    def _close_idle(self) -> None:
        """Close the connections before a fork.

        SQLite would believe that the child has its parent's locks, and the child would read by the shared-memory file
        that the parent removes when it closes the log: a state as of this moment, for ever.
        """
        if self._kept is not None:
            self._kept[0].close()
            self._kept = None
        if self._db is not None and not self._db.in_transaction:
            self._db.close()
            self._db = None

    def _begin_again(self) -> None:
        """Forget, in a forked child, connections that were in use at the fork."""
        leave_to_parent((self._kept, self._db))
        self._kept = self._db = None

    # --- identity and lease ------------------------------------------------------------------------------------

    def _create(self, topology: str) -> None:
        """Create the tables in an empty file; check a file that is not empty."""
        if self._path.stat().st_size <= _CHECK_UP_TO:
            verdict = self._connected().execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise self._corrupt(verdict)
        with self._transaction() as db:
            tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not tables:
                for statement in TABLES.split(";"):
                    db.execute(statement)
                db.execute("INSERT INTO meta VALUES (?, ?, ?, 0, '', '', 0, '')", (FORMAT, topology, uuid.uuid4().hex))
        self._check_identity(topology)

    def _check_identity(self, topology: str) -> None:
        """Read the log's uuid. Raises LogError if the file is not this topology's log, or has another format."""
        tables = {row[0] for row in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "meta" not in tables:
            raise self._corrupt("it is a SQLite file, but not a transaction log")
        row = next(iter(self._rows("SELECT format, topology, uuid FROM meta")), None)
        if row is None:
            raise self._corrupt("its format is missing")
        if row[0] != FORMAT:
            raise self._other_format(row[0], FORMAT)
        if row[1] != topology:
            raise LogError(f"{self._where} belongs to topology {row[1]!r}, not to {topology!r}")
        self._uuid: str = row[2]

    @property
    def uuid(self) -> str:
        if self._reading:  # after a reset, the path may have another log
            return str(self._rows("SELECT uuid FROM meta")[0][0])
        return self._uuid

    def take(self, holder: Holder | None = None, after: Lease | None = None) -> Lease:
        token = secrets.token_hex(8)
        with self._write(None, durable=True) as db:
            former = Lease(*db.execute("SELECT epoch, token FROM meta").fetchone())
            if after is not None and after != former:
                raise self._overtaken(former.epoch)
            epoch = former.epoch + 1
            db.execute("UPDATE meta SET epoch = ?, token = ?, holder = ?", (epoch, token, holder_text(holder, epoch)))
            db.execute("INSERT INTO leases VALUES (?, ?)", (epoch, token))
        self._own_lease = Lease(epoch, token)
        return self._own_lease

    def lease(self) -> Lease | None:
        epoch, token = self._rows("SELECT epoch, token FROM meta")[0]
        lease = Lease(epoch, token) if epoch else None
        if not self._reading and lease == self._own_lease:  # under another lease, report the takeover
            self._check_file()
        return lease

    def holder(self) -> Holder | None:
        # All columns, because a read-only log may have been written by a version without the column for the holder.
        _, _, _, epoch, token, *others = self._rows("SELECT * FROM meta")[0]
        return self._holder(next(iter(others), ""), Lease(epoch, token))

    def renew(self, lease: Lease) -> None:
        with self._lock:
            if not self._wrote:
                with self._write(lease) as db:  # without fsync: a standby reads through the same OS
                    db.execute(_TOUCH)
            self._wrote = False

    def renewals(self) -> object:
        with self._lock:
            self._check_file()  # otherwise a driver would wait forever for a removed log
            version = self._rows("PRAGMA data_version")[0][0]
            return self._db, version  # each connection counts from its first read

    def issued(self, lease: Lease) -> bool:
        rows = self._rows("SELECT token FROM leases WHERE epoch = ?", lease.epoch)
        return bool(rows) and bool(rows[0][0] == lease.token)

    def give_back(self, lease: Lease) -> None:
        with self._write(lease) as db:
            db.execute("UPDATE meta SET token = ''")

    def files_address(self) -> str:
        return str(self._rows("SELECT files FROM meta")[0][0])

    def keep_files_at(self, lease: Lease, address: str) -> None:
        with self._write(lease, durable=True) as db:
            db.execute("UPDATE meta SET files = ?", (address,))

    def origin(self) -> bytes | None:
        if not self._has_table("origin"):
            return None
        rows = self._rows("SELECT body FROM origin")
        return bytes(rows[0][0]) if rows else None

    def keep_origin(self, lease: Lease, origin: bytes) -> None:
        with self._write(lease, durable=True) as db:
            db.execute(ORIGIN)
            db.execute("INSERT OR REPLACE INTO origin VALUES (1, ?)", (origin,))

    def start_over(self, lease: Lease, origin: bytes) -> None:
        tables = [row[0] for row in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        with self._write(lease, durable=True) as db:
            for table in tables:
                if table != "meta":
                    db.execute(f'DELETE FROM "{table}"')
            self._uuid = uuid.uuid4().hex
            db.execute("UPDATE meta SET uuid = ?, token = '', holder = '', files = ''", (self._uuid,))
            db.execute(ORIGIN)
            db.execute("INSERT INTO origin VALUES (1, ?)", (origin,))

    # --- batches -----------------------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        return [row[0] for row in self._rows("SELECT name FROM groups ORDER BY name")]

    def history(self, group: str) -> History:
        rows = self._rows("SELECT committed, frozen FROM groups WHERE name = ?", group)
        committed, frozen = rows[0] if rows else (0, 0)
        stored = {row[0] for row in self._rows("SELECT txid FROM frozen WHERE grp = ? AND txid > ?", group, committed)}
        waiting = tuple(range(committed + 1, frozen + 1))
        self._check_complete(group, waiting, [txid in stored for txid in waiting])
        rows = self._rows("SELECT name, position FROM streams WHERE grp = ? AND active", group)
        return History(committed, {name: self._json(position) for name, position in rows}, waiting)

    def last_committed(self, group: str) -> int:
        rows = self._rows("SELECT committed FROM groups WHERE name = ?", group)
        return rows[0][0] if rows else 0

    def members(self) -> Members:
        rows = self._rows("SELECT * FROM streams")
        streams = {
            name: self._stream_record(group, self._json(position), source, bool(active), [*map(self._json, others)])
            for name, group, position, source, active, *others in rows
        }
        return Members(streams, dict(self._rows("SELECT name, grp FROM outputs")))

    def restore(self, lease: Lease, restoration: Restoration) -> None:
        with self._write(lease, durable=True) as db:
            for group, txid in restoration.batches.items():
                outline = db.execute("SELECT outline FROM batches WHERE grp = ? AND txid = ?", (group, txid - 1))
                batch = BatchRecord({}, restoration.time, next((row[0] for row in outline), ""))
                self._freeze(db, group, txid, batch, {}, {})
                self._commit(db, group, txid, restoration.time)
            _replace_streams(db, restoration.streams)
            for state, birth in restoration.births.items():
                _insert_birth(db, lease, state, birth, restoration.contents.get(state))
            _replace_readings(db, restoration.readings)

    def enroll(self, lease: Lease, members: Members) -> None:
        with self._write(lease, durable=True) as db:
            _replace_streams(db, members.streams)
            db.execute("DELETE FROM outputs")
            db.executemany("INSERT INTO outputs VALUES (?, ?)", members.outputs.items())
            founded = [(name, txid, txid, txid) for name, txid in members.founded.items()]
            db.executemany("INSERT OR IGNORE INTO groups VALUES (?, ?, ?, ?)", founded)

    def outputs(self) -> dict[str, OutputProgress]:
        rows = self._rows("SELECT output, last, until, missed FROM served")
        return {output: OutputProgress(*numbers) for output, *numbers in rows}

    def keep_outputs(self, lease: Lease, outputs: Mapping[str, OutputProgress]) -> None:
        rows = [(output, progress.last, progress.until, progress.missed) for output, progress in outputs.items()]
        with self._write(lease, durable=True) as db:
            db.execute("DELETE FROM served")
            db.executemany("INSERT INTO served VALUES (?, ?, ?, ?)", rows)

    def readings(self) -> dict[str, bytes]:
        if not self._has_table("readings"):
            return {}
        return {name: bytes(body) for name, body in self._rows("SELECT name, body FROM readings")}

    def keep_readings(self, lease: Lease, readings: Mapping[str, bytes]) -> None:
        with self._write(lease, durable=True) as db:
            _replace_readings(db, readings)

    def handing_over(self, lease: Lease, output: str, txid: int, least: int) -> int:
        rows = self._rows("SELECT attempt + 1 FROM handed WHERE output = ? AND txid = ?", output, txid)
        attempt = max(least, *rows[0]) if rows else least
        with self._write(lease, durable=attempt > 0) as db:
            db.execute("INSERT OR REPLACE INTO handed VALUES (?, ?, ?)", (output, txid, attempt))
        return attempt

    def attempts(self, group: str) -> dict[int, AttemptRecord]:
        rows = self._rows("SELECT txid, number, epoch, deaths, digests FROM attempts WHERE grp = ?", group)
        return {
            txid: AttemptRecord(number, epoch, deaths, self._json(digests))
            for txid, number, epoch, deaths, digests in rows
        }

    def attempted(self, lease: Lease, group: str, txid: int, record: AttemptRecord) -> None:
        row = (group, txid, record.number, record.epoch, record.deaths, compact(dict(record.digests)))
        with self._write(lease) as db:
            db.execute("INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?, ?)", row)

    def batch(self, group: str, txid: int) -> BatchRecord | None:
        query = "SELECT plan, time, outline, checksum FROM batches WHERE grp = ? AND txid = ?"
        rows = self._rows(query, group, txid)
        return self._batch_record(group, txid, *rows[0]) if rows else None

    def commit_time(self, group: str, txid: int) -> float | None:
        # All columns, because a read-only log may have been written by a version without the column for the time.
        rows = self._rows("SELECT * FROM batches WHERE grp = ? AND txid = ?", group, txid)
        return next(iter(rows[0][6:]), None) if rows else None

    def freeze(
        self,
        lease: Lease,
        group: str,
        txid: int,
        batch: BatchRecord,
        positions: Positions,
        outputs: Mapping[str, FrozenOutput],
    ) -> None:
        with self._write(lease, durable=True) as db:
            self._freeze(db, group, txid, batch, positions, outputs)

    def _freeze(
        self,
        db: sqlite3.Connection,
        group: str,
        txid: int,
        batch: BatchRecord,
        positions: Positions,
        outputs: Mapping[str, FrozenOutput],
    ) -> None:
        plan = compact(batch.plan)
        row = (group, txid, plan, batch.time, batch.outline, batch_checksum(txid, plan, batch.time, batch.outline))
        db.execute("DELETE FROM attempts WHERE grp = ? AND txid <= ?", (group, txid))
        moved = db.execute(
            "UPDATE groups SET frozen = ? WHERE name = ? AND frozen = ?", (txid, group, txid - 1)
        ).rowcount
        if moved != 1:
            raise LogError(f"group {group!r}: batch {txid} cannot be frozen: it does not follow the last frozen batch")
        moves = [(compact(position), name, group) for name, position in positions.items()]
        db.executemany("UPDATE streams SET position = ? WHERE name = ? AND grp = ?", moves)
        db.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, NULL)", row)
        self._insert_frozen(db, group, txid, 1, outputs)

    def freeze_stage(
        self, lease: Lease, group: str, txid: int, stage: int, outputs: Mapping[str, FrozenOutput]
    ) -> None:
        with self._write(lease, durable=True) as db:
            self._insert_frozen(db, group, txid, stage, outputs)

    def _insert_frozen(
        self, db: sqlite3.Connection, group: str, txid: int, stage: int, outputs: Mapping[str, FrozenOutput]
    ) -> None:
        rows = [
            (group, txid, stage, name, o.body, int(o.files), o.rows, o.size, o.checksum) for name, o in outputs.items()
        ]
        rows = rows or [(group, txid, stage, _NO_OUTPUT, b"", 0, 0, 0, 0)]
        db.executemany("INSERT OR IGNORE INTO frozen VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def frozen(self, group: str, txid: int, stage: int) -> dict[str, FrozenOutput] | None:
        rows = self._rows(
            "SELECT output, body, files, rows, checksum FROM frozen WHERE grp = ? AND txid = ? AND stage = ?",
            group,
            txid,
            stage,
        )
        if not rows:
            return None
        outputs = {name: FrozenOutput(body, bool(files), count, crc) for name, body, files, count, crc in rows}
        outputs.pop(_NO_OUTPUT, None)
        return outputs

    def committed(
        self, lease: Lease, group: str, txid: int, time: float | None = None, took: Collection[str] = ()
    ) -> None:
        with self._write(lease) as db:
            self._commit(db, group, txid, time)
            db.executemany("UPDATE served SET last = ? WHERE output = ?", [(txid, output) for output in took])

    def _commit(self, db: sqlite3.Connection, group: str, txid: int, time: float | None) -> None:
        moved = db.execute(
            "UPDATE groups SET committed = ? WHERE name = ? AND committed = ? AND frozen >= ?",
            (txid, group, txid - 1, txid),
        )
        if moved.rowcount != 1:
            raise LogError(f"group {group!r}: batch {txid} cannot commit: it is not the next frozen batch")
        db.execute("UPDATE batches SET committed = ? WHERE grp = ? AND txid = ?", (time, group, txid))

    # --- states ------------------------------------------------------------------------------------------------

    def births(self) -> dict[str, Birth]:
        rows = self._rows("SELECT name, grp, birth, epoch, founded, filled FROM states")
        return {
            name: Birth(group, txid, epoch, bool(founded), filled) for name, group, txid, epoch, founded, filled in rows
        }

    def content(self, state: str, txid: int) -> FrozenOutput | None:
        query = "SELECT body, files, rows, checksum FROM contents WHERE state = ? AND birth = ?"
        rows = self._rows(query, state, txid)
        return FrozenOutput(rows[0][0], bool(rows[0][1]), *rows[0][2:]) if rows else None

    def born(self, lease: Lease, state: str, birth: Birth, content: FrozenOutput | None = None) -> None:
        with self._write(lease, durable=True) as db:
            _insert_birth(db, lease, state, birth, content)

    def founded(self, lease: Lease, states: Collection[str]) -> None:
        with self._write(lease, durable=True) as db:
            db.executemany("UPDATE states SET founded = 1 WHERE name = ?", [(state,) for state in states])

    def forget(self, lease: Lease, *states: str) -> None:
        with self._write(lease, durable=True) as db:
            for table, name in (("states", "name"), ("contents", "state")):
                db.executemany(f"DELETE FROM {table} WHERE {name} = ?", [(state,) for state in states])

    def manifest(self, state: str) -> bytes | None:
        rows = self._rows("SELECT manifest FROM states WHERE name = ?", state)
        return rows[0][0] if rows else None

    def publish(self, lease: Lease, state: str, manifest: bytes) -> None:
        with self._write(lease, durable=True) as db:
            if db.execute("UPDATE states SET manifest = ? WHERE name = ?", (manifest, state)).rowcount != 1:
                raise LogError(f"state {state!r} cannot publish a snapshot: it is not in this log")

    # --- retention ---------------------------------------------------------------------------------------------

    def trim(self, lease: Lease, group: str, needed: int, keep_batches: int, keep_bytes: int) -> list[str]:
        with self._write(lease) as db:
            sizes = db.execute(
                "SELECT txid, sum(size) FROM frozen WHERE grp = ? AND txid <= ? GROUP BY txid ORDER BY txid DESC",
                (group, needed),
            ).fetchall()
            until = trim_until(sizes, needed, keep_batches, keep_bytes)
            deleted = db.execute(
                "DELETE FROM frozen WHERE grp = ? AND txid <= ? RETURNING CASE WHEN files THEN body END", (group, until)
            ).fetchall()
            deleted += db.execute(
                "DELETE FROM contents WHERE grp = ? AND birth < ? RETURNING CASE WHEN files THEN body END",
                (group, until),
            ).fetchall()
            db.execute("DELETE FROM batches WHERE grp = ? AND txid < ?", (group, until))
            db.execute("UPDATE groups SET kept = max(kept, ?) WHERE name = ?", (until, group))
        return [json.loads(body)["folder"] for (body,) in deleted if body is not None]

    def folders(self, group: str) -> set[str]:
        query = "SELECT body FROM {} WHERE grp = ? AND files"
        bodies = [row for table in ("frozen", "contents") for row in self._rows(query.format(table), group)]
        return {json.loads(body)["folder"] for (body,) in bodies}

    def kept_since(self, group: str) -> int:
        rows = self._rows("SELECT kept FROM groups WHERE name = ?", group)
        return rows[0][0] if rows else 0

    def sync(self, lease: Lease) -> None:
        with self._write(lease, durable=True) as db:
            db.execute(_TOUCH)

    def close(self) -> None:
        if not self._reading:
            with self._lock, self._translated():
                self._closed = True
                if self._db is not None:
                    self._db.close()
                    self._db = None

    # --- transactions ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _write(self, lease: Lease | None, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """Run the block in one transaction under the lease. A durable transaction is on disk when the block ends.

        The lease is compared within the transaction, which has SQLite's write lock, so no takeover can come between
        the check and the write.
        """
        self._check_writable()
        with self._lock, self._translated():
            db = self._connected()
            if durable != self._sync_full:
                db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._sync_full = durable
            with self._transaction():
                if lease is not None:
                    self._check_lease(db, lease)
                self._check_file()
                yield db
            self._wrote = True

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit the block's writes, or none of them if the block raises."""
        db = self._connected()
        try:
            db.execute("BEGIN IMMEDIATE")  # takes the write lock at once
            yield db
            db.execute("COMMIT")
        except BaseException:
            # A signal's exception can come after COMMIT, and SQLite ends some transactions itself (a full disk).
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _check_file(self) -> None:
        """Raise LogError if a file was removed or replaced, because POSIX would let this driver write to the old file.

        The last writes are in the WAL file, and the locks against other processes are in the shared-memory file. SQLite
        removes both when the last connection closes, and this connection is open.
        """
        self._connected()
        self._check_same(identities(self._watched))

    def _check_same(self, now: tuple[FileIdentity, ...]) -> None:
        """Raise LogError if one of the files was replaced since the log was opened; `now`: all, or the first."""
        if now != self._files[: len(now)]:
            pairs = zip(self._watched, now, self._files, strict=False)
            gone = [path.name for path, one, other in pairs if one != other]
            raise LogError(
                f"{self._where} was removed or replaced during this run ({', '.join(gone)}): the driver's writes "
                f"would be lost, so it stops. Restore the checkpoint, or discard log and states with "
                f"{reset_with('name, ...')}"
            )

    def _check_lease(self, db: sqlite3.Connection, lease: Lease) -> None:
        epoch, token = db.execute("SELECT epoch, token FROM meta").fetchone()
        if (epoch, token) != (lease.epoch, lease.token):
            raise self._taken_over(epoch, lease)

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._lock, self._translated():
            if not self._reading:
                return self._connected().execute(query, values).fetchall()
            # After a reset, the path may have another log.
            if self._kept is not None and identity_of(self._path) == self._kept[1]:
                rows = self._kept[0].execute(query, values).fetchall()
                if identity_of(self._path) == self._kept[1]:
                    return rows
            return _read_only(self._path, query, values)

    def _has_table(self, name: str) -> bool:
        return bool(self._rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name))

    def size(self) -> int | None:
        return sum(path.stat().st_size for path in (self._path, wal_of(self._path)) if path.exists())

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        with self._lock, contextlib.ExitStack() as undo:
            # Without a WAL file each read must open the log again: see `_read_only`.
            if self._reading and self._kept is None and wal_of(self._path).exists():
                identity = identity_of(self._path)
                with self._translated():
                    db = undo.enter_context(contextlib.closing(_opened(self._path, "mode=ro")))
                self._kept = db, identity
                undo.callback(setattr, self, "_kept", None)
            yield

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise SQLite's errors as LogError or LogCorruptError."""
        try:
            yield
        except sqlite3.OperationalError as error:
            kind = LogBusyError if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY else LogError
            raise kind(f"{self._where} cannot be used: {error}") from error
        except sqlite3.DatabaseError as error:
            raise self._corrupt(str(error)) from error


def _read_only(path: Path, query: str, values: tuple[Any, ...]) -> list[Any]:
    """Return the rows of a query, read over a separate connection that leaves no files.

    While a driver has the log open, or after a driver was killed, the last writes are in a WAL file beside the log, and
    are read, too. If there is no WAL file, the log is opened as immutable, because otherwise SQLite would create a WAL
    file. If a driver begins to write in that moment, the file changes, and the query is repeated. It is repeated, too,
    if the file was replaced: SQLite opens the WAL file by its path, and would read the new one over the old log.
    """
    while True:
        identity = identity_of(path)
        if identity is None:
            raise LogAbsentError(f"there is no log {path}")
        before, alone = _stamp(path), not wal_of(path).exists()
        with contextlib.closing(_opened(path, "immutable=1" if alone else "mode=ro")) as db:
            rows = db.execute(query, values).fetchall()
        if identity_of(path) == identity and (not alone or before == _stamp(path)):
            return rows


def _opened(path: Path, how: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{how}"
    db = sqlite3.connect(uri, timeout=10, isolation_level=None, check_same_thread=False, uri=True)
    db.execute("PRAGMA trusted_schema = OFF")
    return db


def holds_no_log(path: Path) -> bool:
    """Return whether the file exists and has no table: it was emptied, or it lost the WAL file that had the tables."""
    if not path.exists():
        return False
    try:
        return _read_only(path, "SELECT count(*) FROM sqlite_master", ()) == [(0,)]
    except sqlite3.DatabaseError:  # the code that opens the file raises the error
        return False


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


def _replace_streams(db: sqlite3.Connection, streams: Mapping[str, StreamRecord]) -> None:
    db.execute("DELETE FROM streams")
    rows = [
        (
            name,
            s.group,
            compact(s.position),
            s.source,
            int(s.active),
            *map(compact, (s.began, s.feeds, s.parted, s.former)),
        )
        for name, s in streams.items()
    ]
    db.executemany("INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _replace_readings(db: sqlite3.Connection, readings: Mapping[str, bytes]) -> None:
    db.execute(READINGS)
    db.execute("DELETE FROM readings")
    db.executemany("INSERT INTO readings VALUES (?, ?)", readings.items())


def _insert_birth(db: sqlite3.Connection, lease: Lease, state: str, birth: Birth, content: FrozenOutput | None) -> None:
    row = (state, birth.group, birth.txid, lease.epoch, int(birth.founded), birth.filled)
    db.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, NULL, ?, ?)", row)
    db.execute("DELETE FROM contents WHERE state = ?", (state,))
    if content is not None:
        held = (content.body, int(content.files), content.rows, content.checksum)
        db.execute("INSERT INTO contents VALUES (?, ?, ?, ?, ?, ?, ?)", (*row[:3], *held))
