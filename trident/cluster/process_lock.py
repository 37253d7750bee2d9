"""Locks of files that belong to a process.

They end with the process, no child inherits them, and a check does not take them.

They are POSIX record locks. A `flock`, or a lock of an open file description, belongs to a descriptor, which a forked
child inherits: a helper process that the user's code started would keep the lock of a dead driver. A record lock
belongs to the process that took it, and `F_GETLK` names its process without taking it.

Two properties of record locks need care. They do not exclude threads of one process from each other, and the process
loses a lock when it closes any descriptor of the file. So this module keeps the locks of this process by file, and
opens no file that this process has locked.
"""

import fcntl
import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LINUX = sys.platform.startswith("linux")
_FLOCK = "hhqqi4x" if _LINUX else "qqihhi"
"""The C structure flock: type, whence, start, length, pid on Linux; start, length, pid, type, whence elsewhere."""

_FileId = tuple[int, int]

_own = threading.Lock()
_held: dict[_FileId, int] = {}
"""The files that this process has locked, by device and inode, each with the open descriptor."""


def holder_of(path: Path) -> int | None:
    """Return the process that has locked a file; None if no process has. Takes no lock, and creates no file.

    The process is 0 if it is on another machine, or in another container.
    """
    with _own:
        try:
            lock = _opened(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        if lock is None:
            return os.getpid()
        try:
            return _asked(lock)
        finally:
            os.close(lock)


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Lock a file within the block, without waiting, and yield whether that was possible.

    The file is created if it is missing. Yield False if another process, or another thread of this process, has locked
    the file.
    """
    with _own:
        lock = _opened(path, os.O_RDWR | os.O_CREAT)
        if lock is not None:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _held[_id(os.fstat(lock))] = lock
            except (BlockingIOError, PermissionError):  # POSIX allows both, EAGAIN and EACCES
                os.close(lock)
                lock = None
            except BaseException:
                os.close(lock)
                raise
    try:
        yield lock is not None
    finally:
        if lock is not None:
            with _own:
                _release(lock)


def _opened(path: Path, mode: int) -> int | None:
    """Open a file.

    Return None if this process has locked the file, and so must not open it. The caller holds `_own`.
    """
    try:
        if _id(path.stat()) in _held:
            return None
    except FileNotFoundError:
        pass
    lock = os.open(path, mode, 0o600)
    if _id(os.fstat(lock)) in _held:  # renamed between the two checks: closing it would free the lock
        raise AssertionError(f"{path} was replaced while this process had it locked")
    return lock


def _release(lock: int) -> None:
    """Close the descriptor of a lock, which frees the lock. In a forked child, `_after_fork` has already closed it."""
    file = next((file for file, held in _held.items() if held == lock), None)
    if file is not None:
        del _held[file]
        os.close(lock)


def _asked(lock: int) -> int | None:
    wanted = (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0) if _LINUX else (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET, 0)
    answer = struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, struct.pack(_FLOCK, *wanted)))
    kind, pid = (answer[0], answer[4]) if _LINUX else (answer[3], answer[2])
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def _id(status: os.stat_result) -> _FileId:
    return status.st_dev, status.st_ino


def _after_fork() -> None:
    """Forget the parent's locks in a forked child, which does not own them. Closing its descriptors releases none."""
    global _own
    _own = threading.Lock()  # at the fork, a thread of the parent may have held the former lock
    for lock in _held.values():
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)
