"""The measures of steps on a worker: the tuples that enter and leave each Python operation, and its seconds.

The task that runs a function sends its measures once, at its end. Time counts for one step only: if a function pulls
its tuples from other steps, their time is not added to its own, and the wait for Spark's rows is attributed to no step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import pyarrow as pa

from trident.base.user_code_notes import Notes, both, noting
from trident.compiler.columns.columns import Columns, Kernel
from trident.compiler.columns.kernels import Work
from trident.compiler.partition_functions import Batches
from trident.compiler.spark.worker_messages import send


@dataclass(frozen=True, slots=True)
class Measure:
    """The work of one step in a task. A step that is only timed has no numbers of tuples."""

    step: str
    seconds: float
    entered: int | None = None
    left: int | None = None
    notes: Notes | None = None

    def __add__(self, other: "Measure") -> "Measure":
        """Return the work of the step in both tasks."""
        seconds = self.seconds + other.seconds
        if self.entered is None or self.left is None:
            return Measure(self.step, seconds, notes=both(self.notes, other.notes))
        entered, left = self.entered + (other.entered or 0), self.left + (other.left or 0)
        return Measure(self.step, seconds, entered, left, both(self.notes, other.notes))


class TaskReport(NamedTuple):
    """The measures of the steps of one function, in their order, from the task of one partition."""

    partition: int
    measures: tuple[Measure, ...]


@dataclass(slots=True)
class _Running:
    """The measure of one step while its task runs."""

    step: str
    seconds: float = 0.0
    entered: int | None = None
    left: int | None = None
    notes: Notes = field(default_factory=Notes)


class StepMeter:
    """The meter of one function. All parts of a pickled function share it; a task has its own copy of both."""

    __slots__ = ("_accumulator", "_charged", "_running")

    def __init__(self, accumulator: bytes) -> None:
        self._accumulator = accumulator
        self._running: list[_Running] = []
        self._charged = 0.0
        """The seconds of this task that are attributed to a step, or to the wait for rows."""

    def __reduce__(self) -> tuple[Any, ...]:
        return StepMeter, (self._accumulator,)

    def measured(self, work: Work, apply: Kernel) -> Kernel:
        """Return the kernel of a work, with its tuples counted and its time taken."""
        running, entered, left = self._begun(work.where.step), 0, 0
        running.entered, running.left = entered, left  # even without a batch, so that the step is counted with zeros

        def run(columns: Columns) -> Columns:
            nonlocal entered, left
            charged, began = self._charged, perf_counter()
            with noting(running.notes):
                leaving = apply(columns)
            self._charge(running, charged, began)
            entered, left = entered + columns.rows, left + leaving.rows
            running.entered, running.left = entered, left
            return leaving

        return run

    def timed(self, step: str | None, batches: Iterator[pa.RecordBatch]) -> Batches:
        """Yield the batches. The time that they take counts for the step; for None, as the wait for rows."""
        running = None if step is None else self._begun(step)
        while True:
            charged, began = self._charged, perf_counter()
            with noting(None if running is None else running.notes):
                batch = next(batches, None)
            self._charge(running, charged, began)
            if batch is None:
                return
            yield batch

    def _begun(self, step: str) -> _Running:
        self._running.append(_Running(step))
        return self._running[-1]

    def _charge(self, running: _Running | None, charged: float, began: float) -> None:
        """Charge a step with the seconds since `began`, without those that were charged meanwhile."""
        own = perf_counter() - began - (self._charged - charged)
        self._charged += own
        if running is not None:
            running.seconds += own

    def send(self, partition: int) -> None:
        """Send the measures of the task that computes this partition, if there are any."""
        if self._running:
            measures = tuple(Measure(r.step, r.seconds, r.entered, r.left, r.notes or None) for r in self._running)
            send(self._accumulator, TaskReport(partition, measures))
