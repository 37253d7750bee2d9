"""The migration of a log that an earlier version wrote. It happens when the log is opened for writing."""

import json
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from trident.base.errors import LogError

VERSION = "0.1.0"
"""The library's version that wrote the former formats."""
FORMER_SQLITE, FORMER_REDIS = "trident log 2", "trident log 1"


def check_nothing_waits(where: str, groups: Sequence[tuple[str, int, int]]) -> None:
    """Raise LogError if one of the groups, given as (name, committed, frozen), has waiting batches.

    The former format does not say which program froze them, so this version could not tell whether it may commit
    them.
    """
    for group, committed, frozen in groups:
        if frozen > committed:
            raise LogError(
                f"{where} was written by version {VERSION}, and batch {committed + 1} of group {group!r} is frozen and "
                f"not committed: start the topology once with that version, so that it commits, then with this one. "
                f"Nothing was written"
            )


def batch_checksum(txid: int, plan: str, time: float, outline: str) -> int:
    """Return the checksum of a batch's record."""
    return zlib.crc32(f"{txid}|{time!r}|{plan}|{outline}".encode())


def migrate(db: sqlite3.Connection, where: str, tables: str, format: str) -> None:
    """Migrate a SQLite log of version 0.1.0 within the open transaction.

    Positions move from groups to streams, and plans of batches of which nothing was frozen are dropped. The token
    becomes empty, which fences a driver of version 0.1.0 that still holds the log.
    """
    groups = db.execute("SELECT name, committed, frozen, positions, kept FROM groups").fetchall()
    check_nothing_waits(where, [row[:3] for row in groups])
    frozen = {row[0]: row[2] for row in groups}
    batches = db.execute("SELECT grp, txid, plan, time FROM batches").fetchall()
    for table in ("groups", "batches"):
        db.execute(f"DROP TABLE {table}")
    for statement in tables.split(";"):
        name = statement.partition("CREATE TABLE ")[2].partition(" ")[0]
        if name in ("groups", "batches", "streams", "outputs", "attempts", "leases"):
            db.execute(statement)
    db.executemany("INSERT INTO groups VALUES (?, ?, ?, ?)", [(row[0], row[1], row[2], row[4]) for row in groups])
    db.executemany(
        "INSERT OR REPLACE INTO streams VALUES (?, ?, ?, '', 1, 'null', 'null', '{}', '[]')", _streams(groups)
    )
    kept = [row for row in batches if row[1] <= frozen.get(row[0], 0)]
    rows = [(group, txid, plan, time, "", batch_checksum(txid, plan, time, "")) for group, txid, plan, time in kept]
    db.executemany("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, NULL)", rows)
    db.execute("ALTER TABLE states ADD COLUMN founded INTEGER NOT NULL DEFAULT 1")
    db.execute("UPDATE meta SET format = ?, token = ''", (format,))


def add_former_names(db: sqlite3.Connection) -> None:
    """Add the column of former stream names to a log of a version that did not record them."""
    columns = {row[1] for row in db.execute("PRAGMA table_info(streams)")}
    if "former" not in columns:
        db.execute("ALTER TABLE streams ADD COLUMN former TEXT NOT NULL DEFAULT '[]'")


def add_commit_times(db: sqlite3.Connection) -> None:
    """Add the times of commits to a log of a version that did not record them."""
    columns = {row[1] for row in db.execute("PRAGMA table_info(batches)")}
    if "committed" not in columns:
        db.execute("ALTER TABLE batches ADD COLUMN committed REAL")


def add_holder(db: sqlite3.Connection) -> None:
    """Add the lease's holder and the number of renewals to a log of a version that did not record them."""
    columns = {row[1] for row in db.execute("PRAGMA table_info(meta)")}
    if "holder" not in columns:
        db.execute("ALTER TABLE meta ADD COLUMN holder TEXT NOT NULL DEFAULT ''")
        db.execute("ALTER TABLE meta ADD COLUMN renewed INTEGER NOT NULL DEFAULT 0")


def add_files_address(db: sqlite3.Connection) -> None:
    """Add the address of the topology's files to a log of a version that did not record it."""
    columns = {row[1] for row in db.execute("PRAGMA table_info(meta)")}
    if "files" not in columns:
        db.execute("ALTER TABLE meta ADD COLUMN files TEXT NOT NULL DEFAULT ''")


def add_output_tables(db: sqlite3.Connection, tables: str) -> None:
    """Add the tables of how far outputs came to a log of a version that did not record it."""
    known = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for name in {"served", "handed"} - known:
        db.execute(f"CREATE TABLE {name} {tables.partition(f'CREATE TABLE {name} ')[2].partition(';')[0]}")


def _streams(groups: Sequence[tuple[Any, ...]]) -> list[tuple[str, str, str]]:
    return [
        (stream, row[0], json.dumps(position, separators=(",", ":")))
        for row in groups
        for stream, position in json.loads(row[3]).items()
    ]


def migrated_group(
    group: str, fields: Mapping[str, bytes]
) -> tuple[dict[str, bytes | str | int], dict[str, bytes | str | int], list[str]]:
    """Return the changes that migrate the hash of a group from version 0.1.0.

    Returns the fields to set in the hash of streams, the fields to set in the group's hash, and the fields to remove
    from the group's hash.
    """
    frozen = int(fields["frozen"])
    streams, new = dict[str, bytes | str | int](), dict[str, bytes | str | int]()
    for stream, position in json.loads(fields.get("positions", b"{}")).items():
        record = json.dumps([group, "", True, None, None, {}])
        streams |= {f"stream:{stream}": record, f"position:{stream}": json.dumps(position)}
    for name, text in fields.items():
        prefix, _, txid = name.partition(":")
        if prefix == "s":
            new[f"s:{txid}:1"] = text
        elif prefix == "p" and int(txid) <= frozen:
            _, plan, time, _ = json.loads(text)
            new[f"b:{txid}"] = json.dumps([plan, time, "", batch_checksum(int(txid), plan, time, "")])
    return streams, new, [name for name in fields if name.partition(":")[0] in ("positions", "p", "s")]
