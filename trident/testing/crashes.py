"""Drivers that die: within the test's process, or as processes of their own.

Within a process nothing can be killed. A driver dies there by losing its transaction log: from that moment every access
to it fails, so nothing more is frozen or committed, the run ends, and the log is not given back. To the next start that
is a driver that was killed at this point.
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
from trident.log.protocol import TransactionLog
from trident.log.sqlite_log import SqliteLog
from trident.run.options import folder
from trident.run.start import LOG_FILE

CRASH_POINTS = (*crash_points.POINTS, *crash_points.OUTPUT_POINTS)
"""The points at which a driver can be made to die, in the order in which a batch meets them; the last four are met by
batches with an output only."""

CRASH_VARIABLE = crash_points.VARIABLE
"""The environment variable that arms a process from its start: ``TRIDENT_CRASH_AT=freeze.after:3``."""


class DriverCrashedError(LogError):
    """A driver died because a test said so: a CRASH in a `TestSource`, or `crash_at`."""


def check_point(point: str) -> str:
    """Return a crash point; raise ValueError with the list of them where there is none of this name."""
    if point not in CRASH_POINTS:
        raise ValueError(f"unknown crash point {point!r}; expected one of {', '.join(CRASH_POINTS)}")
    return point


def kill_at(point: str | None, count: int = 1) -> None:
    """Have this process killed (SIGKILL) when a crash point is reached for the `count`-th time; None disarms it.

    For drivers in processes of their own. `CRASH_VARIABLE` does the same from outside.
    """
    crash_points.arm("" if point is None else f"{check_point(point)}:{count}")


@contextmanager
def crash_at(point: str, count: int = 1) -> Iterator[None]:
    """Let the drivers of this process die when a crash point is reached for the `count`-th time within the block.

    Start the topology within the block too: with `start_local`, or the function of an `engines` fixture. Its run ends
    with `DriverCrashedError`; it needs a ``checkpointLocation`` or a ``log``.

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
    """A trap at one crash point. It is armed until it is sprung or disarmed."""

    armed: "ClassVar[Trap | None]" = None
    """The trap of this process: it has one at most."""

    def arm(self, point: str, count: int = 1) -> None:
        """Let the drivers of this process die when the point is reached for the `count`-th time."""
        self._point, self._left, self._lock = check_point(point), count, threading.Lock()
        Trap.armed = self
        crash_points.listen(self._reached)

    def disarm(self) -> None:
        """Take the trap away, if it is the one that is armed; the environment's stays."""
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
    """Let the drivers of this process die; return the error to raise in the thread that came to the point."""
    error = DriverCrashedError(f"the driver died: {where}")
    mortal = [log for log in list(_logs) if log.lose(error)]
    if not mortal:
        return DriverCrashedError(
            f"{where}: no driver can die here. Start the topology within crash_at, by start_local or the function of "
            f"an engines fixture, with a checkpointLocation or a log"
        )
    return error


def crash_options(crashes: bool, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a start whose driver can die, if that is asked for by its source or by `crash_at`."""
    if not crashes and Trap.armed is None:
        return dict(options)
    checkpoint, log = options.get("checkpointLocation"), options.get("log")
    if checkpoint is None and log is None:
        raise ValueError(
            "a driver that dies leaves nothing to go on with: give a start with a CRASH a checkpointLocation= (or log=)"
        )
    return {**options, "log": _MortalLogFactory(checkpoint, log)}


class _MortalLogFactory:
    """The log of a start, as its option ``log`` takes it: the one that was given, or the file in the checkpoint."""

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
    """A transaction log that can be lost: then every call but `close` raises what it was lost with."""

    def __init__(self, log: TransactionLog) -> None:
        self._log = log
        self._lost: DriverCrashedError | None = None
        _logs.add(self)

    def lose(self, error: DriverCrashedError) -> bool:
        """Lose the log; return whether it was there until now."""
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
