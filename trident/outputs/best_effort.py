"""Branches that never hold a batch up: run beside the commits, in a thread of their own, and left where they fail.

What enters one is frozen like what enters an output. What becomes of it is nobody's condition: a batch that fails is
told and forgotten, and where the branch is behind, batches are left out.
"""

import shutil
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import OutputError, TopologyError
from trident.compiler.engine import Engine, Result, Slot, StageResult
from trident.compiler.program import Group, Stage
from trident.compiler.stages import cut_nodes
from trident.plan.nodes import BestEffort, ForeachBatch, Sink

BEHIND = 2
"""So many batches wait; the next one takes the oldest one's place."""

_PATIENCE = 5.0
"""Seconds that the end of a run waits for what is under way."""


class Serves(Protocol):
    """The outputs of the branch, opened."""

    def __call__(self, sink: Sink, result: Result, txid: int) -> None: ...

    def close(self) -> None: ...


class Tells(Protocol):
    """Hears how batches went."""

    def ran(self, group: str, attempt: TransactionAttempt, result: StageResult, seconds: float) -> None: ...

    def failed(self, group: str, attempt: TransactionAttempt, phase: str, error: BaseException) -> None: ...


class BestEffortOutlet:
    """One branch at work. `whole` brings a large result to the driver, `serve` opens the branch's own outputs, `group`
    is the batch group before it."""

    def __init__(
        self,
        sink: BestEffort,
        engine: Engine,
        scratch: Path,
        epoch: int,
        whole: Callable[[Result], pa.Table],
        serve: Callable[[Group], Serves],
        tell: Tells,
        group: str,
    ) -> None:
        self._sink, self._engine, self._scratch, self._epoch = sink, engine, scratch, epoch
        self._whole, self._tell, self._before = whole, tell, group
        groups = cut_nodes(sink.branch.roots(), {}).groups
        if not groups or not groups[0].stages:
            raise TopologyError(
                f"{sink.step} ({sink.site.location}): the branch has no effect; end it in peek, Debug or foreachBatch"
            )
        (self._group,) = groups
        (self._stage,) = self._group.stages
        self._serve = serve(self._group)
        self._waiting: deque[tuple[Result, int]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._busy = False
        self._slot: Slot | None = None
        self._thread = threading.Thread(target=self._loop, name=f"trident-{sink.name}", daemon=True)
        self._thread.start()

    def take(self, result: Result, txid: int) -> None:
        """Have the batch's rows run through the branch, soon or never."""
        with self._changed:
            left_out = self._waiting.popleft() if len(self._waiting) >= BEHIND else None
            self._waiting.append((result, txid))
            self._changed.notify_all()
        if left_out is not None:
            self._failed(left_out[1], OutputError(f"{self._sink.step}: the branch is behind; the batch is left out"))

    def close(self) -> None:
        """Work off what waits, but not for long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy, _PATIENCE)
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        self._thread.join(_PATIENCE)
        self._serve.close()

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    break
                result, txid = self._waiting.popleft()
                self._busy = True
            try:
                self._run(result, txid)
            except BaseException as error:
                self._failed(txid, error)
            with self._changed:
                self._busy = False
                self._changed.notify_all()
        if self._slot is not None:
            self._slot.close()

    def _run(self, result: Result, txid: int) -> None:
        if self._slot is None:
            self._slot = self._engine.slot(self._group)
        stage: Stage = self._stage
        given: Any = dict.fromkeys(stage.inputs, self._whole(result))
        place = self._scratch / f"{self._sink.name}-{txid}"
        attempt = TransactionAttempt(txid, 0, self._epoch)
        try:
            ran = self._slot.run(stage, given, attempt, place)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        self._tell.ran(self._group.name, attempt, ran, 0.0)
        for output in stage.outputs:
            assert isinstance(output.step, ForeachBatch), "a branch ends in nothing else"
            self._serve(output.step, ran.results[output.name], txid)

    def _failed(self, txid: int, error: BaseException) -> None:
        self._tell.failed(self._before, TransactionAttempt(txid, 0, self._epoch), "bestEffort", error)
