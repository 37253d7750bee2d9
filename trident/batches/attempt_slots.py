"""The slots in which attempts run. Each attempt can be cancelled without an effect on the others."""

import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError
from trident.compiler.engine import Slot
from trident.compiler.program import Stage
from trident.frozen.results import StageResult
from trident.plan.nodes import Node
from trident.plan.parallelism_hints import Hints
from trident_spouts.executor import Emission

logger = logging.getLogger(__name__)


class _SlotUse:
    """A slot, and the attempt that runs in it now."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.lock = threading.Lock()
        """Guards `attempt` while a cancel is sent. The lock of `Slots` is not held for that, because Spark may take
        seconds to cancel."""
        self.attempt: TransactionAttempt | None = None
        self.cancelled = False
        """True if the slot is closed after this attempt: a cancel that takes effect late must not stop the next
        attempt."""


class Slots:
    """The slots of one group. Thread-safe.

    A stage runs in a free slot. If none is free, a new one is made: cancelled work may never leave its slot. A run
    thread or the commit thread stays in `run` until its stage ends; other threads call `cancel` meanwhile.
    """

    def __init__(self, make: Callable[[Hints], Slot], scratch: Path, hints: Hints) -> None:
        self._make = make
        self._hints = hints
        self._scratch = scratch
        self._lock = threading.Lock()
        self._free: list[_SlotUse] = []
        self._busy: dict[tuple[TransactionAttempt, int], _SlotUse] = {}
        """The slots in use, by attempt and stage number. The stage number is needed because a commit turn numbers its
        own tries: stage 1 of an attempt with the same number may still be ending."""
        self._closed = False

    def run(self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], attempt: TransactionAttempt) -> StageResult:
        """Run a stage of an attempt in a free slot. Raises AttemptCancelledError if the slots are closed."""
        key = attempt, stage.number
        with self._lock:
            use = self._free.pop() if self._free else None
            hints = self._hints
        # Made outside the lock, because a Spark session takes long to make.
        use = use or _SlotUse(self._make(hints))
        with self._lock:
            if self._closed:  # `close` has not seen this slot, so the slot is closed at the end of this call
                use.cancelled = True
            self._busy[key] = use
        with use.lock:
            use.attempt = attempt
        scratch = self._scratch / f"{attempt.epoch}-{attempt.txid}-{attempt.attempt}-{stage.number}"
        try:
            if use.cancelled:
                raise AttemptCancelledError(f"attempt {attempt} was cancelled: the run has ended")
            return use.slot.run(stage, inputs, attempt, scratch)
        finally:
            # Clear the attempt first: a later cancel then finds no attempt. A cancel in progress holds the lock, so
            # this waits until it has set `cancelled`, which is read below.
            with use.lock:
                use.attempt = None
            with self._lock:
                self._busy.pop(key, None)
                # A stage that ends after `close` must not put its slot back: `close` has emptied the list for the last
                # time.
                use.cancelled |= self._closed
                if not use.cancelled:
                    self._free.append(use)
            if use.cancelled:
                _close(use)
            shutil.rmtree(scratch, ignore_errors=True)

    def cancel(self, attempt: TransactionAttempt, stage: int = 1) -> None:
        """Stop the attempt's work on a stage, if that is running. The slot is not used again."""
        with self._lock:
            use = self._busy.get((attempt, stage))
        if use is None:
            return
        with use.lock:
            # otherwise its work has ended, and the slot may already work for another attempt
            if use.attempt == attempt:
                use.cancelled = True
                use.slot.cancel()

    def rebalance(self, hints: Hints) -> None:
        """Use these hints for all new slots. Call this while no attempt is running.

        Cancelled work may still be in a slot of the former hints, which then closes when that work ends.
        """
        with self._lock:
            self._hints, free, self._free = hints, self._free, []
            for use in self._busy.values():
                use.cancelled = True
        for use in free:
            _close(use)

    def close(self) -> None:
        # `_closed` is set in the step that copies the lists: every slot is in one of the copies, or its `run` sees
        # `_closed`.
        with self._lock:
            self._closed = True
            busy, free, self._free = list(self._busy), self._free, []
        for attempt, stage in busy:
            self.cancel(attempt, stage)
        for use in free:
            _close(use)


def _close(use: _SlotUse) -> None:
    try:
        use.slot.close()
    except Exception:
        logger.warning("the engine's resources for one batch in flight could not be closed", exc_info=True)
