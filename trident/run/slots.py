"""The slots in which attempts run, each cancelled without touching its neighbours."""

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
from trident.compiler.results import StageResult
from trident.plan.nodes import Node
from trident_spouts.executor import Emission

logger = logging.getLogger(__name__)


class _SlotUse:
    """A slot and the attempt that uses it just now."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.lock = threading.Lock()
        """Guards `attempt` while a cancel is sent. Not the lock of `Slots`: Spark may take seconds to cancel."""
        self.attempt: TransactionAttempt | None = None
        self.cancelled = False
        """Whether the slot is closed behind this use: a cancel that arrives late must not stop the next attempt."""


class Slots:
    """The slots of one group, with a new one where cancelled work does not let go of its own. Any thread.

    A run thread or the commit thread stays in `run` as long as its stage takes; others call `cancel` meanwhile.
    """

    def __init__(self, make: Callable[[], Slot], scratch: Path) -> None:
        self._make = make
        self._scratch = scratch
        self._lock = threading.Lock()
        self._free: list[_SlotUse] = []
        self._busy: dict[tuple[TransactionAttempt, int], _SlotUse] = {}
        """By attempt and stage: a commit turn computes later stages while an earlier attempt may still be ending."""
        self._closed = False

    def run(self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], attempt: TransactionAttempt) -> StageResult:
        """Run a stage of an attempt in a free slot."""
        key = attempt, stage.number
        with self._lock:
            use = self._free.pop() if self._free else None
        # Made outside the lock, because a Spark session takes long to make.
        use = use or _SlotUse(self._make())
        with self._lock:
            if self._closed:  # `close` has not seen this slot, and nothing else would ever close it
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
            # First of all: a cancel that comes from here on finds no attempt. One that is under way is waited for, and
            # has set `cancelled` when that is read below.
            with use.lock:
                use.attempt = None
            with self._lock:
                self._busy.pop(key, None)
                # A run that ended behind `close` must not put its slot back: the list was emptied for the last time.
                use.cancelled |= self._closed
                if not use.cancelled:
                    self._free.append(use)
            if use.cancelled:
                _close(use)
            shutil.rmtree(scratch, ignore_errors=True)

    def cancel(self, attempt: TransactionAttempt, stage: int = 1) -> None:
        """Stop the attempt's work on a stage if it runs; its slot is not used again."""
        with self._lock:
            use = self._busy.get((attempt, stage))
        if use is None:
            return
        with use.lock:
            if use.attempt == attempt:  # else its work has ended, and the slot may work for another attempt
                use.cancelled = True
                use.slot.cancel()

    def close(self) -> None:
        # Set in the same step as the copies are made: every slot is in one of them, or its run sees `_closed`.
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
        logger.warning("a slot failed to close", exc_info=True)
