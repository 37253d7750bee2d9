"""Best-effort branches, which never delay a batch. Each runs in a separate thread, in parallel with the commits.

The tuples that enter a branch are frozen, like those of an output, but no commit depends on the branch. If a function
of the branch fails on a tuple, the tuple is skipped, and a progress event counts it. If a batch fails for another
reason, an event reports it, and the batch is dropped. If the branch is too slow, batches are left out.
"""

import shutil
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import OutputError, TopologyError
from trident.compiler.engine import Engine, Slot
from trident.compiler.program import Group, Stage
from trident.compiler.stages import cut_nodes
from trident.frozen.results import Result, StageResult
from trident.plan.nodes import BestEffort, ForeachBatch, Sink

MOST_WAITING = 2
"""The most batches that wait for a branch. The next batch replaces the oldest."""

_PATIENCE = 5.0
"""Seconds that the end of a run waits for a branch's waiting batches, and then for the branch's thread."""


_PHASE = "bestEffort"


class BranchOutputs(Protocol):
    """The opened outputs of a branch. A call hands a batch to one of them."""

    def __call__(self, sink: Sink, result: Result, txid: int) -> None: ...

    def close(self) -> None: ...


class BatchListener(Protocol):
    """Gets the outcome of each batch of a branch."""

    def ran(self, group: str, attempt: TransactionAttempt, result: StageResult, seconds: float) -> None: ...

    def skipped(self, group: str, attempt: TransactionAttempt, phase: str, tuples: Mapping[str, int]) -> None: ...

    def failed(
        self, group: str, attempt: TransactionAttempt, phase: str, error: BaseException, rows: int | None = None
    ) -> None: ...


class BestEffortOutlet:
    """One best-effort branch of a run.

    Parameters
    ----------
    read_whole : reads a large result into the driver. open_outputs : opens the outputs of the branch itself. listener :
    gets the outcome of each batch. group : the batch group that feeds the branch.
    """

    def __init__(
        self,
        sink: BestEffort,
        engine: Engine,
        scratch: Path,
        epoch: int,
        read_whole: Callable[[Result], pa.Table],
        open_outputs: Callable[[Group], BranchOutputs],
        listener: BatchListener,
        group: Group,
    ) -> None:
        self._sink, self._engine, self._scratch, self._epoch = sink, engine, scratch, epoch
        self._read_whole, self._listener, self._feeding_group = read_whole, listener, group.name
        groups = cut_nodes(sink.branch.roots(), {}).groups
        if not groups or not groups[0].stages:
            raise TopologyError(
                f"{sink.step} ({sink.site.location}): the branch has no effect; end it with peek, Debug or foreachBatch"
            )
        (branch,) = groups
        self._group = replace(branch, skips=True, facts=group.facts)
        (self._stage,) = self._group.stages
        self._outputs = open_outputs(self._group)
        self._waiting: deque[tuple[Result, int]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._busy = False
        self._slot: Slot | None = None
        self._thread = threading.Thread(target=self._loop, name=f"trident-{sink.name}", daemon=True)
        self._thread.start()

    def take(self, result: Result, txid: int) -> None:
        """Queue the batch's rows for the branch. If the branch is too slow, they are dropped later."""
        with self._changed:
            left_out = self._waiting.popleft() if len(self._waiting) >= MOST_WAITING else None
            self._waiting.append((result, txid))
            self._changed.notify_all()
        if left_out is not None:
            self._failed(*left_out, OutputError(f"{self._sink.step}: the branch is too slow; it skips this batch"))

    def close(self) -> None:
        """Wait some seconds for the queued batches, then end the branch."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy, _PATIENCE)
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        self._thread.join(_PATIENCE)
        self._outputs.close()

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
                self._failed(result, txid, error)
            with self._changed:
                self._busy = False
                self._changed.notify_all()
        if self._slot is not None:
            self._slot.close()

    def _run(self, result: Result, txid: int) -> None:
        if self._slot is None:
            self._slot = self._engine.slot(self._group)
        stage: Stage = self._stage
        inputs: Any = dict.fromkeys(stage.inputs, self._read_whole(result))
        scratch = self._scratch / f"{self._sink.name}-{txid}"
        attempt = TransactionAttempt(txid, 0, self._epoch)
        try:
            stage_result = self._slot.run(stage, inputs, attempt, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self._listener.ran(self._group.name, attempt, stage_result, 0.0)
        if stage_result.skipped:
            self._listener.skipped(self._feeding_group, attempt, _PHASE, stage_result.skipped)
        for output in stage.outputs:
            assert isinstance(output.step, ForeachBatch), "a branch has no other end"
            self._outputs(output.step, stage_result.results[output.name], txid)

    def _failed(self, result: Result, txid: int, error: BaseException) -> None:
        attempt = TransactionAttempt(txid, 0, self._epoch)
        self._listener.failed(self._feeding_group, attempt, _PHASE, error, result.num_rows)
