"""Places where attempts run, each cancelled without touching its neighbours."""

import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError
from trident.compiler.engine import Slot, StageResult
from trident.compiler.program import Stage
from trident.plan.nodes import Node
from trident_spouts.executor import Emission

logger = logging.getLogger(__name__)


class _Place:
    """A slot and the attempt that it works for just now."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.lock = threading.Lock()
        self.attempt: TransactionAttempt | None = None
        self.cancelled = False


class Slots:
    """Hands out slots of one group and makes new ones where cancelled work does not let go of its own."""

    def __init__(self, make: Callable[[], Slot], scratch: Path) -> None:
        self._make = make
        self._scratch = scratch
        self._lock = threading.Lock()
        self._free: list[_Place] = []
        self._busy: dict[tuple[TransactionAttempt, int], _Place] = {}
        """By attempt and stage: a commit turn computes later stages while an earlier attempt may still be ending."""
        self._closed = False

    def run(self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], attempt: TransactionAttempt) -> StageResult:
        """Run a stage of an attempt in a free slot."""
        key = attempt, stage.number
        with self._lock:
            place = self._free.pop() if self._free else None
        place = place or _Place(self._make())
        with self._lock:
            if self._closed:
                place.cancelled = True
            self._busy[key] = place
        with place.lock:
            place.attempt = attempt
        scratch = self._scratch / f"{attempt.epoch}-{attempt.txid}-{attempt.attempt}-{stage.number}"
        try:
            if place.cancelled:
                raise AttemptCancelledError(f"attempt {attempt} was cancelled: the run has ended")
            return place.slot.run(stage, inputs, attempt, scratch)
        finally:
            with place.lock:
                place.attempt = None
            with self._lock:
                self._busy.pop(key, None)
                place.cancelled |= self._closed
                if not place.cancelled:
                    self._free.append(place)
            if place.cancelled:
                _close(place)
            shutil.rmtree(scratch, ignore_errors=True)

    def cancel(self, attempt: TransactionAttempt, stage: int = 1) -> None:
        """Stop the attempt's work on a stage if it runs; its slot is not used again."""
        with self._lock:
            place = self._busy.get((attempt, stage))
        if place is None:
            return
        with place.lock:
            if place.attempt == attempt:
                place.cancelled = True
                place.slot.cancel()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            busy, free, self._free = list(self._busy), self._free, []
        for attempt, stage in busy:
            self.cancel(attempt, stage)
        for place in free:
            _close(place)


def _close(place: _Place) -> None:
    try:
        place.slot.close()
    except Exception:
        logger.warning("a slot failed to close", exc_info=True)
