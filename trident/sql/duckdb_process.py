"""The parent's side of the DuckDB process: it starts the process, sends requests and ends it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from trident.base.forked_child import in_child
from trident.sql import duckdb_worker

_LOOK_SECONDS = 0.05
"""Seconds between two checks whether the caller still waits."""

_MOST_IDLE = 2
"""The most processes that are kept for further queries."""

_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The only environment variables that the process gets: the locations of shared libraries."""


class ProcessEnded(Exception):
    """The process ended before it had answered; `code` is its exit code, negative for a signal."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        super().__init__(f"exit code {code}" if code is None or code >= 0 else f"ended by {signal.Signals(-code).name}")


class SealedProcess:
    """One process. It answers one request after the other, and is ended if an answer takes too long."""

    def __init__(self) -> None:
        self._connection, its = socket.socketpair()
        with its:
            number = its.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(Path(duckdb_worker.__file__)), str(number), json.dumps(sys.path)],
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                cwd="/",
                start_new_session=True,  # only the program handles an interrupt from the terminal
            )
        self.close = weakref.finalize(self, _end, self._process, self._connection)
        """End the process at once."""

    def ask(
        self, request: Mapping[str, Any], content: Any, files: Sequence[int], check: Callable[[], None]
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request, and return the head and the bytes of the answer.

        `check` is called while the process works. An error that it raises ends the process, and is raised here. Raises
        ProcessEnded if the process ends without an answer.
        """
        try:
            self._connection.settimeout(None)  # a request is small, and the process reads it at once
            duckdb_worker.send(self._connection, dict(request), content, files)
            self._connection.settimeout(_LOOK_SECONDS)
            head, answer, _ = duckdb_worker.receive(self._connection, check)
        except ConnectionError:
            code = self._process.wait()  # the process has closed its end of the connection, so it is ending
            self.close()
            raise ProcessEnded(code) from None
        except BaseException:
            self.close()
            raise
        return head, answer

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def isOpen(self) -> bool:
        """Return whether the process can take another request, as far as is known."""
        return self.close.alive and self._process.poll() is None


class SealedProcesses:
    """The processes of one topology: each query has one to itself, and a few are kept for the next queries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[SealedProcess] = []
        in_child(self, SealedProcesses._begin_again)

    def _begin_again(self) -> None:
        """Leave the processes to the parent, in a forked child."""
        self._idle, self._lock = [], threading.Lock()

    @contextmanager
    def taken(self) -> Iterator[SealedProcess]:
        """Yield a process that no other thread uses, until the end of the block."""
        with self._given_back(self._take()) as process:
            yield process

    def started(self) -> AbstractContextManager[SealedProcess]:
        """Like `taken`, but with a new process."""
        return self._given_back(SealedProcess())

    @contextmanager
    def _given_back(self, process: SealedProcess) -> Iterator[SealedProcess]:
        try:
            yield process
        finally:
            self._give_back(process)

    def close(self) -> None:
        """End the processes that no query uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()

    def _take(self) -> SealedProcess:
        with self._lock:
            while self._idle:
                if (process := self._idle.pop()).isOpen:
                    return process
        return SealedProcess()

    def _give_back(self, process: SealedProcess) -> None:
        with self._lock:
            if process.isOpen and len(self._idle) < _MOST_IDLE:
                self._idle.append(process)
                return
        process.close()


def _end(process: "subprocess.Popen[bytes]", connection: socket.socket) -> None:
    connection.close()
    with suppress(OSError):
        process.kill()
    process.wait()
