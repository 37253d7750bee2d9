"""The files of a SQLite database in WAL mode, and the numbers that identify them.

SQLite continues to write a removed file without an error, and the writes are lost when it closes.
"""

from pathlib import Path

FileIdentity = tuple[int, int] | None
"""A file's device and inode; None if there is no file."""


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def files_of(path: Path) -> tuple[Path, Path, Path]:
    """Return the database, the WAL file with the last writes, and the shared-memory file with locks and an index.

    SQLite removes the last two when the last connection closes. They stay while a connection that has read is open.
    """
    return path, wal_of(path), path.with_name(f"{path.name}-shm")


def identity_of(path: Path) -> FileIdentity:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def identities(files: tuple[Path, ...]) -> tuple[FileIdentity, ...]:
    return tuple(map(identity_of, files))
