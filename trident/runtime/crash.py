"""Numbered points in a batch's life at which a test kills the driver.

A run is armed by the environment: ``TRIDENT_CRASH_AT=frozen.after:3`` sends this process SIGKILL when that point is
reached for the third time. Unarmed, a point costs one comparison.
"""

import os
import signal

POINTS = (
    "start.log.taken",
    "start.state.born",
    "start.state.created",
    "start.state.acquired",
    "start.done",
    "plan.before",
    "plan.made",
    "plan.logged",
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

VARIABLE = "TRIDENT_CRASH_AT"


class _Trap:
    def __init__(self, text: str) -> None:
        point, _, count = text.partition(":")
        if text and point not in POINTS:
            raise ValueError(f"{VARIABLE}={text!r}: no such point; the points are {', '.join(POINTS)}")
        self.point = point
        self.left = int(count or 1)


_trap = _Trap(os.environ.get(VARIABLE, ""))


def arm(text: str) -> None:
    """Arm this process (``point`` or ``point:count``), or disarm it (``""``)."""
    global _trap
    _trap = _Trap(text)


def reach(point: str) -> None:
    """Say that this point is reached; if the run is armed for it, the process dies here."""
    if point == _trap.point:
        _trap.left -= 1
        if _trap.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
