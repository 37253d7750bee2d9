"""The driver's own I/O as steps: every statement, commit and close of the SQLite log, every file of a snapshot.

A commit that is half done is a real one: the write of the log's WAL ends in the middle of a page, by a limit on the
size of files where the driver goes on to meet SQLite's error, by cutting the file where the driver is killed.
"""

import contextlib
import errno
import os
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from tests.faults.steps import Steps
from trident.base.durable_files import Summed

_PAGE = 24 + 4096
"""A frame of the WAL: its header and a page."""
_TORN = 2000
"""Bytes of a frame that are written where it is torn."""


@contextlib.contextmanager
def watched(steps: Steps) -> Iterator[None]:
    """While this lasts, the I/O of logs and snapshots in this process is counted, and may fail."""
    with _log(steps), _snapshots(steps):
        yield


# --- the log -----------------------------------------------------------------------------------------------------


def _log(steps: Steps) -> Any:
    """A transaction is two steps, named after what it writes first: that statement, and the commit. Statements between
    them fail like the first one: nothing of a transaction is anywhere before its commit."""

    class Connection(sqlite3.Connection):
        path = ""
        writes: str | None = None
        """What the open transaction wrote first; "" while it has written nothing."""

        def execute(self, sql: str, *args: Any) -> Any:
            def do() -> Any:
                return super(Connection, self).execute(sql, *args)

            what = " ".join(sql.split()[:3])
            if sql in ("COMMIT", "ROLLBACK"):
                written, self.writes = self.writes, None
                return self._commit(f"log: commit of {written}", do) if written and sql == "COMMIT" else do()
            if self.writes is None or (self.writes == "" and not what.startswith("SELECT")):
                self.writes = "" if sql == "BEGIN IMMEDIATE" else None if self.writes is None else what
                return steps.step(f"log: {what or 'nothing'}", do, _io_error, parts=0)
            return do()

        def _commit(self, name: str, do: Any) -> Any:
            def half(part: int) -> None:
                _half(Path(f"{self.path}-wal"), part, do, dies=_dies(steps))

            return steps.step(name, do, _io_error, half, parts=3)

        def close(self) -> None:
            def half(part: int) -> None:
                super(Connection, self).execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

            steps.step("log: close", super().close, _io_error, half, parts=2)

    real = sqlite3.connect

    def connect(path: Path, **options: Any) -> Any:
        found = steps.step("log: open", lambda: real(path, factory=Connection, **options), _io_error, parts=0)
        found.path = str(path).removeprefix("file:").partition("?")[0]  # the log is opened by a URI
        return found

    return mock.patch.object(sqlite3, "connect", connect)


def _dies(steps: Steps) -> bool:
    return steps.fault is not None and steps.fault.how == "kill"


def _io_error() -> sqlite3.OperationalError:
    return sqlite3.OperationalError("disk I/O error")


def _half(wal: Path, part: int, commit: Any, dies: bool) -> None:
    """A commit of which the WAL gets `part` - 1 whole pages and the beginning of the next one."""
    size = wal.stat().st_size if wal.exists() else 0
    until = size + (part - 1) * _PAGE + _TORN
    if dies:
        commit()
        if wal.stat().st_size > until:
            os.truncate(wal, until)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (until, hard))
    try:
        commit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --- snapshots ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _snapshots(steps: Steps) -> Iterator[None]:
    ours: dict[int, str] = {}
    """Descriptors that were opened under a state's folder, and what they are."""
    real = {name: getattr(os, name) for name in ("open", "fsync", "unlink", "mkdir")}
    real_write = Summed.write

    def name_of(path: Any) -> str | None:
        path = Path(path) if isinstance(path, str | os.PathLike) else None
        if path is None or "states" not in path.parts:
            return None
        return "file" if path.suffix == ".arrow" else "folder"

    def open_(path: Any, *args: Any, **options: Any) -> int:
        what = name_of(path)
        if what is None:
            return int(real["open"](path, *args, **options))
        handle = int(steps.step(f"{what}: open", lambda: real["open"](path, *args, **options), _no_space))
        ours[handle] = what
        return handle

    def fsync(handle: int) -> None:
        what = ours.pop(handle, None)
        if what is None:
            real["fsync"](handle)
        else:
            steps.step(f"{what}: fsync", lambda: real["fsync"](handle), _broken)

    def on_path(call: str) -> Any:
        def patched(path: Any, *args: Any, **options: Any) -> None:
            what = name_of(path)
            if what is None:
                real[call](path, *args, **options)
            else:
                steps.step(f"{what}: {call}", lambda: real[call](path, *args, **options), _no_space)

        return patched

    def write(self: Summed, data: bytes) -> int:
        if self.bytes:  # a file is small: what counts is whether it was written at all, in part, or wholly
            return real_write(self, data)

        def half(part: int) -> None:
            self._file.write(memoryview(data)[: len(memoryview(data)) // 2])
            self._file.flush()

        return int(steps.step("file: write", lambda: real_write(self, data), _no_space, half, parts=2))

    patches = {"open": open_, "fsync": fsync, "unlink": on_path("unlink"), "mkdir": on_path("mkdir")}
    with mock.patch.multiple(os, **patches), mock.patch.object(Summed, "write", write):
        yield


def _no_space() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def _broken() -> OSError:
    return OSError(errno.EIO, "Input/output error")
