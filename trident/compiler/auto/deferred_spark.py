"""A Spark engine that starts beside the run, when it is first needed."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

from trident.base.errors import AttemptCancelledError
from trident.compiler.engine import Engine

logger = logging.getLogger(__name__)

_ENDED = "the run has ended"

_LOOK = 0.05
"""Seconds between two checks whether the work that waits for Spark was cancelled."""


class DeferredSpark:
    """A Spark engine that `make` creates in a thread. `session`: whether it needs no new JVM. Thread-safe."""

    def __init__(self, make: Callable[[], Engine], session: bool = False) -> None:
        self._make = make
        self.session = session
        self._lock = threading.Lock()
        self._future: Future[Engine] | None = None
        self._over = False

    @property
    def engine(self) -> Engine | None:
        """The engine if it is up; else None."""
        future = self._future
        return future.result() if future is not None and future.done() and future.exception() is None else None

    def begin(self, why: str) -> None:
        """Start the engine, unless that was tried before. Return at once. A failure is only logged."""
        with self._lock:
            if self._future is None and not self._over:
                logger.info("Spark comes up: %s", why)
                self._future = self._coming()

    def get(self, check: Callable[[], None] = lambda: None) -> Engine:
        """Return the engine. Wait until it is running, and call `check` meanwhile, which may raise an error.

        Raises AttemptCancelledError once the run has ended, also if it ends meanwhile. Raises the error that keeps the
        engine from starting; the next call tries again.
        """
        with self._lock:
            if self._over:
                raise AttemptCancelledError(_ENDED)
            if self._future is None or (self._future.done() and self._future.exception() is not None):
                self._future = self._coming()
            future = self._future
        while not future.done():
            if self._over:
                raise AttemptCancelledError(_ENDED)
            check()
            wait([future], _LOOK)
        return future.result()

    def _coming(self) -> Future[Engine]:
        future: Future[Engine] = Future()
        # A daemon thread: a program may end while Spark is still starting.
        threading.Thread(target=self._come, args=(future,), name="trident-spark", daemon=True).start()
        return future

    def _come(self, future: Future[Engine]) -> None:
        try:
            engine = self._make()
        except BaseException as error:
            logger.warning("Spark did not start: %s", error)
            future.set_exception(error)
            return
        with self._lock:
            future.set_result(engine)
            over = self._over
        if over:
            engine.close()

    def close(self) -> None:
        """Close the engine. One that is still starting is closed when it is running."""
        with self._lock:
            self._over, engine = True, self.engine
        if engine is not None:
            engine.close()
