"""Numbered points in a batch's life at which a test kills the driver.

A run is armed by the environment: ``TRIDENT_CRASH_AT=frozen.after:3`` sends this process SIGKILL when that point is
reached for the third time. Unarmed, a point costs one comparison.
"""

import os
import signal
from collections.abc import Callable

POINTS = (
    "start.log.taken",
    "start.enrolled",
    "start.state.born",
    "start.state.created",
    "start.state.acquired",
    "start.states.founded",
    "start.done",
    "plan.before",
    "plan.made",
    "attempt.logged",
    "emit.before",
    "emit.after",
    "run.before",
    "run.after",
    "freeze.before",
    "freeze.after",
    "commit.before",
    "commit.stage.before",
    "commit.stage.frozen",
    "commit.state.before",
    "commit.state.after",
    "commit.states.after",
    "committed.before",
    "committed.after",
    "success.before",
    "success.after",
    "snapshot.before",
    "snapshot.published",
    "trim.before",
    "trim.after",
)
"""Every point, in the order in which a batch meets them."""

OUTPUT_POINTS = ("output.before", "output.staged", "output.published", "output.after")
"""Points that only a batch with an output meets."""

VARIABLE = "TRIDENT_CRASH_AT"


class _Trap:
    def __init__(self, text: str) -> None:
        point, _, count = text.partition(":")
        if text and point not in (*POINTS, *OUTPUT_POINTS):
            there = ", ".join((*POINTS, *OUTPUT_POINTS))
            raise ValueError(f"{VARIABLE}={text!r}: no such point; the points are {there}")
        self.point = point
        self.left = int(count or 1)

    def __call__(self, point: str) -> None:
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


_trap: Callable[[str], None] | None = None


def arm(text: str) -> None:
    """Arm this process (``point`` or ``point:count``), or disarm it (``""``)."""
    listen(_Trap(text) if text else None)


def listen(heard: Callable[[str], None] | None) -> None:
    """Have this called at every point, in the thread that reaches it."""
    global _trap
    _trap = heard


def reach(point: str) -> None:
    """Say that this point is reached; if the run is armed for it, the process dies here."""
    if _trap is not None:
        _trap(point)


arm(os.environ.get(VARIABLE, ""))
