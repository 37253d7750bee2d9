"""An output that is kept up to date until the run ends, below a notebook's cell or as text on the terminal."""

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from trident.base.interruptible_waits import Flag

logger = logging.getLogger(__name__)

MimeTexts = dict[str, str]
"""A text for each MIME type: "text/plain", and for notebooks "text/html"."""

_SHARE = 20
"""A display is rendered only as often as rendering takes at most 1 / `_SHARE` of the time."""

_LOOK_SECONDS = 0.25
"""The most seconds until the thread of a display notices the end of the run."""


def in_notebook() -> bool:
    """Return whether this Python is a notebook's kernel (and not, say, a terminal's IPython)."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class LiveOutput:
    """Shows a part of a run. Shows it again after each change, until the run ends or `stop` is called.

    In a notebook, the output below the cell is replaced after each change. Elsewhere the text is printed. The thread
    that does this ends with the run.

    Parameters
    ----------
    active : returns whether the run has not ended. mark : returns a value that changes whenever there may be something
    new to show; it is quick. render : returns what is shown. every : the least number of seconds between two calls of
    `mark`; more if `render` takes long. first : returns what is shown first, and may raise; by default `render`. ended
    : called once at the end, in the same thread.
    """

    def __init__(
        self,
        active: Callable[[], bool],
        mark: Callable[[], object],
        render: Callable[[], MimeTexts],
        every: float,
        first: Callable[[], MimeTexts] | None = None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._active, self._mark, self._render, self._every, self._ended = active, mark, render, every, ended
        self._stopped = Flag()
        self._handle: Any = None
        self._costs = deque([0.0], maxlen=3)
        """The seconds that the last refreshes took, without the first output, which may import pandas."""
        self._shown = mark()
        shown = (first or render)()
        if in_notebook():
            from IPython.display import display

            self._handle = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._put(shown)
        self._thread = threading.Thread(target=self._follow, daemon=True, name="trident-live")
        self._thread.start()

    def _ipython_display_(self) -> None:
        """Show nothing for a cell whose value is this object, because the output is already shown."""

    def stop(self, timeout: float | None = 5) -> None:
        """Show the newest state of the run once more, then end."""
        self._stopped.set()
        self._thread.join(timeout)

    def _follow(self) -> None:
        try:
            while True:
                last = self._wait()
                mark = self._mark()
                if mark != self._shown:
                    began = monotonic()
                    self._put(self._render())
                    self._costs.append(monotonic() - began)
                    self._shown = mark
                if last:
                    return
        except Exception:  # the run continues without its display
            logger.exception("a live display stopped because of an error")
        finally:
            self._ended()

    def _wait(self) -> bool:
        """Wait until it is time to refresh again. Return whether this is the last refresh."""
        # The fastest of the last refreshes counts: a single slow one, on a busy machine, must not stop the display.
        until = monotonic() + max(self._every, _SHARE * min(self._costs))
        while (left := until - monotonic()) > 0:
            if self._stopped.wait(min(left, _LOOK_SECONDS)) or not self._active():
                return True
        return self._stopped.is_set() or not self._active()

    def _put(self, texts: MimeTexts) -> None:
        if self._handle is None:
            print(texts["text/plain"], flush=True)
        else:
            self._handle.update(texts, raw=True)
