"""The topologies that run in this process, by name."""

import atexit
import os
import threading
import time
from typing import Protocol

from trident.base.errors import TopologyActiveError
from trident.user_calls.threads import await_left_behind

_lock = threading.Lock()
_running: "dict[str, Running | None]" = {}
_PATIENCE = 20.0
"""Seconds that an interpreter which ends waits for its topologies, for all together."""
_LAST_PATIENCE = 5.0
"""Seconds that it then waits for threads whose jobs are being cancelled."""


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
        """Wait until the run has ended, for `timeout` seconds at most; tell whether it did."""

    def leave_to_parent(self) -> None:
        """Forget the run in a forked child: its threads run in the parent only."""


def running_here() -> "list[Running]":
    """Return the running topologies of this process."""
    with _lock:
        return [running for running in _running.values() if running is not None]


def reserve(name: str, replace: bool) -> None:
    """Take a name for a start; refused while another topology of this process has it."""
    with _lock:
        holder = _running.get(name)
        taken = name in _running
        if not taken:
            _running[name] = None
            return
    if not replace or holder is None:
        raise TopologyActiveError(
            f"a topology named {name!r} is active in this process already. Stop it (trident.active() lists the running "
            f"ones), start this one under another name=, or take its place with replace=True"
        )
    holder.stop()
    reserve(name, False)


def enter(name: str, running: "Running") -> None:
    """The start that reserved the name has succeeded."""
    with _lock:
        _running[name] = running


def release(name: str, running: "Running | None") -> None:
    """The name is free again; only its holder can free it."""
    with _lock:
        if name in _running and _running[name] is running:
            del _running[name]


def _at_exit() -> None:
    """A program that ends stops its topologies, else it ends in the middle of a batch (and loses nothing either).

    Also after an earlier stop: the work that it cancelled may not have ended yet."""
    last = running_here()
    for running in last:
        running.stop_soon()
    until = time.monotonic() + _PATIENCE
    for running in last:
        running.wait_ended(max(0.0, until - time.monotonic()))
    await_left_behind(_LAST_PATIENCE)


def _after_fork() -> None:
    """A forked child has none of the threads: what runs, runs in the parent."""
    global _lock
    _lock = threading.Lock()
    for running in _running.values():
        if running is not None:
            running.leave_to_parent()
    _running.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
