"""Drivers that crash, in the test's process or as separate processes.

A driver within the test's process cannot be killed alone. Its crash is simulated by the loss of its transaction log:
from that moment every access to the log fails, so nothing more is frozen or committed, the run ends, and the log is
not released. To the next start this looks like a driver that was killed at that moment.
"""

import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from trident.base import crash_points
from trident.base.errors import LogError
from trident.configuration.file_locations import folder
from trident.log.protocol import TransactionLog
from trident.log.sqlite_log import SqliteLog
from trident.run.start import LOG_FILE

CRASH_POINTS = (*crash_points.POINTS, *crash_points.OUTPUT_POINTS)
"""The points at which a driver can be made to die, in the order in which a batch reaches them. Only a batch with an
output reaches the last four."""

CRASH_VARIABLE = crash_points.VARIABLE
"""The environment variable that kills a process like `kill_at`: ``TRIDENT_CRASH_AT=freeze.after:3``."""


class DriverCrashedError(LogError):
    """A driver died because a test requested it: by a CRASH in a `TestSource`, or by `crash_at`."""


def check_point(point: str) -> str:
    """Return `point`. Raises ValueError, with the list of crash points, if it is not one of them."""
    if point not in CRASH_POINTS:
        raise ValueError(f"unknown crash point {point!r}; expected one of {', '.join(CRASH_POINTS)}")
    return point


def kill_at(point: str | None, count: int = 1) -> None:
    """Kill this process (SIGKILL) when the crash point is reached for the `count`-th time; None cancels that.

    Use it for drivers in separate processes. The environment variable `CRASH_VARIABLE` does the same from outside.
    """
    crash_points.arm("" if point is None else f"{check_point(point)}:{count}")


@contextmanager
def crash_at(point: str, count: int = 1) -> Iterator[None]:
    """Let the drivers of this process die when a crash point is reached for the `count`-th time within the block.

    Start the topology within the block, too: with `start_local`, or with the function of an `engines` fixture, and with
    a ``checkpointLocation`` or a ``log``. The run ends with `DriverCrashedError`.

    >>> from trident.testing import crash_at
    >>> with crash_at("freeze.afterwards"):  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    ValueError: unknown crash point 'freeze.afterwards'; expected one of start.log.taken, ...
    """
    trap = Trap()
    trap.arm(point, count)
    try:
        yield
    finally:
        trap.disarm()


class Trap:
    """A trap at one crash point, armed until the drivers of this process die in it or `disarm` is called."""

    armed: "ClassVar[Trap | None]" = None
    """The trap that is armed in this process. There is at most one."""

    def arm(self, point: str, count: int = 1) -> None:
        """Arm this trap: the drivers of this process die when `point` is reached for the `count`-th time."""
        self._point, self._left, self._lock = check_point(point), count, threading.Lock()
        Trap.armed = self
        crash_points.listen(self._reached)

    def disarm(self) -> None:
        """Disarm this trap if it is armed. A crash point that `CRASH_VARIABLE` names is armed again."""
        if Trap.armed is self:
            Trap.armed = None
            crash_points.arm(os.environ.get(CRASH_VARIABLE, ""))

    def _reached(self, point: str) -> None:
        if point != self._point:
            return
        with self._lock:
            self._left -= 1
            if self._left:
                return
        self.disarm()
        raise crash(f"crash point {point}")


# --- logs that drivers lose ---------------------------------------------------------------------------------------

_logs: "weakref.WeakSet[_MortalLog]" = weakref.WeakSet()


def crash(where: str) -> DriverCrashedError:
    """Let the drivers of this process die, and return the error to raise in the thread that reached the crash point.

    `where` describes that point. If no driver of this process can die, the error says so.
    """
    error = DriverCrashedError(f"the driver died: {where}")
    mortal = [log for log in list(_logs) if log.lose(error)]
    if not mortal:
        return DriverCrashedError(
            f"{where}: a crash is not possible here. Start the topology within crash_at, with start_local or the "
            f"function of an engines fixture, and with a checkpointLocation or a log"
        )
    return error


def crash_options(crashes: bool, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` with a log that the driver can lose, if `crashes` or an armed trap asks for a driver's death.

    `crashes` says whether a source of the topology has a CRASH. Raises ValueError if there is no checkpoint and no log.
    """
    if not crashes and Trap.armed is None:
        return dict(options)
    checkpoint, log = options.get("checkpointLocation"), options.get("log")
    if checkpoint is None and log is None:
        raise ValueError(
            "a topology without a log cannot continue after a crash: pass checkpointLocation= (or log=) to a start "
            "that is to crash, by a CRASH in its source or by crash_at"
        )
    return {**options, "log": _MortalLogFactory(checkpoint, log)}


class _MortalLogFactory:
    """A value for the option ``log`` of a start. It opens the given log, or the checkpoint's file, as a mortal log."""

    def __init__(self, checkpoint: str | Path | None, log: Any) -> None:
        self._checkpoint, self._log = checkpoint, log

    def open(self, topology: str) -> "_MortalLog":
        if self._log is not None:
            return _MortalLog(self._log.open(topology))
        assert self._checkpoint is not None
        return _MortalLog(SqliteLog(folder(self._checkpoint) / topology / LOG_FILE, topology))

    def __repr__(self) -> str:
        return repr(self._log) if self._log is not None else f"<the log in {self._checkpoint}>"


class _MortalLog:
    """A transaction log that can be lost. After that every call except `close` raises the error of the loss."""

    def __init__(self, log: TransactionLog) -> None:
        self._log = log
        self._lost: DriverCrashedError | None = None
        _logs.add(self)

    def lose(self, error: DriverCrashedError) -> bool:
        """Let every later call raise `error`. Return whether the log was not lost before."""
        was_there = self._lost is None
        self._lost = self._lost or error
        return was_there

    def close(self) -> None:
        """Close the log, lost or not."""
        _logs.discard(self)
        with suppress(LogError):
            self._log.close()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._log, name)
        if not callable(value):
            return value

        def call(*args: Any, **options: Any) -> Any:
            if self._lost is not None:
                raise self._lost
            return value(*args, **options)

        return call
