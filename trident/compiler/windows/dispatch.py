"""The choice of the function that runs a step of a window."""

from trident.compiler.windows.combined import combined_update
from trident.compiler.windows.count import count_update
from trident.compiler.windows.gathered import gathered_update
from trident.compiler.windows.late_tuples import late_tuples
from trident.compiler.windows.sessions import session_update
from trident.compiler.windows.time import watermark_update
from trident.compiler.windows.types import RunLate, RunWindow
from trident.operations.windows import CountWindow, SessionWindow
from trident.plan.nodes import LateTuples, Watermark, WindowUpdate


def compile_window(step: WindowUpdate) -> RunWindow:
    """Return a function that runs one step of a window over a batch."""
    if isinstance(step, Watermark):
        return watermark_update(step)
    if isinstance(step.windowing.config, CountWindow):
        return count_update(step)
    if isinstance(step.windowing.config, SessionWindow):
        return session_update(step)
    return combined_update(step) if step.windowing.panes else gathered_update(step)


def compile_late(step: LateTuples) -> RunLate:
    """Return a function that selects from a batch's tuples those that are late for a window."""
    return late_tuples(step)
