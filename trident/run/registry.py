"""The topologies that run in this process, by name."""

import atexit
import os
import threading
import time
from typing import Protocol

from trident.base.errors import TopologyActiveError
from trident.user_calls.daemon_threads import await_left_behind

_lock = threading.Lock()
_running: "dict[str, Running | None]" = {}
_reserved_by: dict[str, object] = {}
"""The start that reserved each name. A name is reserved while `_running` has None for it."""
_PATIENCE = 20.0
"""Seconds that an ending interpreter waits for all its topologies together to stop."""
_LAST_PATIENCE = 5.0
"""Seconds that an ending interpreter waits after that for threads whose jobs are being cancelled."""


class Running(Protocol):
    """A running topology, as the end of its process sees it."""

    @property
    def name(self) -> str:
        """The topology's name."""

    def stop(self) -> None:
        """Stop, and return when the run has ended."""

    def stop_soon(self) -> None:
        """Ask the run to stop, and return at once."""

    def wait_ended(self, timeout: float | None) -> bool:
        """Wait until the run has ended, for `timeout` seconds at most. Return whether it has ended."""

    def leave_to_parent(self) -> None:
        """Forget the run in a forked child, because only the parent has its threads."""


def running_here() -> "list[Running]":
    """Return the running topologies of this process."""
    with _lock:
        return [running for running in _running.values() if running is not None]


def is_busy() -> bool:
    """Return whether a topology runs in this process, or is being started."""
    return bool(_running)


def stop_all_soon() -> bool:
    """Ask all topologies of this process to stop. Return whether there are any. Do not wait, and take no lock.

    A signal handler calls this, in a thread that may hold the lock.
    """
    busy = is_busy()
    for running in list(_running.values()):
        if running is not None:
            running.stop_soon()
    return busy


def check_free(name: str, replace: bool) -> bool:
    """Return whether a start under this name would replace a topology that runs in this process.

    Raises TopologyActiveError if a start could not reserve the name now.
    """
    with _lock:
        if name in _running and (not replace or _running[name] is None):
            raise _taken(name)
        return name in _running


def _taken(name: str) -> TopologyActiveError:
    return TopologyActiveError(
        f"a topology named {name!r} is already active in this process. Stop it (trident.active() lists active "
        f"topologies), start this one under another name=, or replace it with replace=True"
    )


def reserve(name: str, replace: bool, start: object) -> None:
    """Reserve a name for a start. With `replace`, first stop the running topology that has the name.

    `start` is any object that represents the start. An interrupt may come at any line, also after the name is reserved;
    so the caller calls `unreserve` with the same object whenever its start fails.

    Raises TopologyActiveError if another topology of this process has the name.
    """
    with _lock:
        holder = _running.get(name)
        taken = name in _running
        if not taken:
            _reserved_by[name] = start  # first, so that `unreserve` finds it
            _running[name] = None
            return
    if not replace or holder is None:
        raise _taken(name)
    holder.stop()
    reserve(name, False, start)


def unreserve(name: str, start: object) -> None:
    """Free a name if this start has reserved it, and no run or standby has entered it since."""
    with _lock:
        if _reserved_by.get(name) is start and _running.get(name, start) is None:
            del _running[name]


def enter(name: str, running: "Running") -> None:
    """Register a running topology under the name that its start reserved."""
    with _lock:
        _running[name] = running


def release(name: str, running: "Running") -> None:
    """Free a name if it belongs to `running`."""
    with _lock:
        if name in _running and _running[name] is running:
            del _running[name]


def _at_exit() -> None:
    """Stop the topologies of a program that ends.

    Otherwise they would end in the middle of a batch; nothing would be lost, but the next start would repeat the batch.
    """
    left = running_here()
    for running in left:
        running.stop_soon()
    until = time.monotonic() + _PATIENCE
    for running in left:
        running.wait_ended(max(0.0, until - time.monotonic()))
    await_left_behind(_LAST_PATIENCE)  # even if all were stopped before: cancelled work may still be running


def _after_fork() -> None:
    """Forget the topologies in a forked child, which has none of their threads."""
    global _lock
    _lock = threading.Lock()  # a thread of the parent may have held the former lock at the fork
    for running in _running.values():
        if running is not None:
            running.leave_to_parent()
    _running.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
