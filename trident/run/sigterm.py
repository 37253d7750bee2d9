"""SIGTERM and SIGHUP end a program like Ctrl-C: topologies stop cleanly and release their logs.

systemd, Kubernetes and `kill` end a program with SIGTERM, and a terminal that is closed ends it with SIGHUP. By default
such a signal ends Python in the middle of a batch. Nothing is lost, but the log is not given back, so the next start
counts this driver as dead.

Python lets only the main thread set a handler, so a start in another thread leaves the signals as they are.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from trident.run import registry

Former = Callable[[int, FrameType | None], object] | int
"""The handler that was set before: a function, or ``signal.SIG_DFL``."""


SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def watch() -> None:
    """Set the handler, if this is the main thread, for each signal that is not ignored (`nohup` ignores SIGHUP)."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        former = signal.getsignal(number)
        # None: the handler is not a Python handler, so it could neither be called nor restored.
        if former is None or former == signal.SIG_IGN or isinstance(former, _OnSigterm):
            continue
        with suppress(ValueError):  # a subinterpreter has no signals
            signal.signal(number, _OnSigterm(former))


def unwatch() -> None:
    """Restore the former handlers, if no topology runs any more and this is the main thread."""
    if registry.is_busy() or threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        present = signal.getsignal(number)
        if isinstance(present, _OnSigterm):  # otherwise the program has set another handler since, which is kept
            signal.signal(number, present.former)


class _OnSigterm:
    """The handler. It asks the topologies to stop, then does what the former handler does (by default: exit).

    It runs between any two lines of the main thread, which may hold a lock. So it takes no lock, waits for nothing and
    logs nothing: the end of the program waits for the topologies (`registry`). It is an object and not a function,
    because a program may set a handler that calls this handler, and start again: each of them has a former handler.
    """

    def __init__(self, former: Former) -> None:
        self.former = former

    def __call__(self, number: int, frame: FrameType | None) -> None:
        busy = registry.stop_all_soon()
        if callable(self.former):
            self.former(number, frame)
        elif busy:
            raise SystemExit(128 + number)  # `with` blocks, `finally` and the interpreter's exit handlers run
        else:  # a topology that ended in another thread left this handler behind, or this is a forked child
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
