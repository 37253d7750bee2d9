"""Numbered points in a batch's life at which a test kills the driver.

An environment variable arms a process: a process with ``TRIDENT_CRASH_AT=freeze.after:3`` kills itself by SIGKILL when
it reaches the point ``freeze.after`` for the third time. In a process that is not armed, a point costs one comparison.
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
"""All points except those that have a tuple of their own, in the order in which a start and then a batch reach them."""

OUTPUT_POINTS = ("output.before", "output.staged", "output.published", "output.after")
"""Points that only a batch with an output reaches."""

EVOLVE_POINTS = (
    "evolve.before",
    "evolve.recorded",
    "heal.dropped",
    "heal.created",
    "heal.acquired",
    "heal.applied",
)
"""Points that only the first batch after a change of a state's shape reaches, or the repair of a store."""

SAVEPOINT_POINTS = (
    "savepoint.pages",
    "savepoint.state",
    "savepoint.files",
    "savepoint.published",
    "savepoint.dropped",
)
"""Points that only a savepoint reaches, in order."""

FORK_POINTS = ("fork.taken", "fork.begun", "fork.state", "fork.enrolled", "fork.done")
"""Points that only a fork reaches, in order."""

RESTORE_POINTS = ("restore.taken", "restore.files", "restore.done")
"""Points that only a return to a savepoint reaches, in the order in which it does."""

RESET_POINTS = ("reset.owner", "reset.log")
"""The points in a reset of a fork."""

BACKFILL_POINTS = ("backfill.caught.up", "backfill.former.committed", "start.backfilled")
"""Points that are reached only by a start that fills new states with the earlier tuples of their streams."""

DELTA_POINTS = ("delta.written", "delta.committed", "delta.merged", "delta.compacted", "delta.dropped")
"""Points that only a state in a Delta table reaches: before and after the version of a batch or a merge, and in a
drop."""

_ALL_POINTS = (
    *(*POINTS, *OUTPUT_POINTS, *EVOLVE_POINTS, *SAVEPOINT_POINTS, *FORK_POINTS, *BACKFILL_POINTS),
    *DELTA_POINTS,
    *RESTORE_POINTS,
    *RESET_POINTS,
)

VARIABLE = "TRIDENT_CRASH_AT"


class _Trap:
    def __init__(self, text: str) -> None:
        point, _, count = text.partition(":")
        if text and point not in _ALL_POINTS:
            raise ValueError(f"{VARIABLE}={text!r}: no such point; the points are {', '.join(_ALL_POINTS)}")
        self.point = point
        self.visits_left = int(count or 1)

    def __call__(self, point: str) -> None:
        if point == self.point:
            self.visits_left -= 1
            if self.visits_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


_listener: Callable[[str], None] | None = None


def arm(text: str) -> None:
    """Make this process kill itself at the point in `text` (``point`` or ``point:count``); "" disarms the process."""
    listen(_Trap(text) if text else None)


def listen(listener: Callable[[str], None] | None) -> None:
    """Call `listener` at every point, in the thread that reaches the point. None ends the calls."""
    global _listener
    _listener = listener


def reach(point: str) -> None:
    """Report that this thread is at `point`. If the process is armed for this point, it kills itself here."""
    if _listener is not None:
        _listener(point)


arm(os.environ.get(VARIABLE, ""))
