"""Functions for Spark's Python workers: importable, picklable callables over record batches.

Each function is made for every batch and pickled with the user's functions in it. The txid is part of such a function,
never of the plan.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext

from trident.base.run_facts import RunFacts
from trident.compiler.columns.columns import Columns, Kernel
from trident.compiler.columns.dead_letters import Letters
from trident.compiler.columns.function_errors import WorkerFailure, is_failure
from trident.compiler.columns.kernels import Work, compile_chain
from trident.compiler.columns.lifecycle import prepared
from trident.compiler.partition_functions import BATCH_ROWS, Batches, OnWorker, guarded
from trident.compiler.spark.failure_signal import FailureSignal
from trident.compiler.spark.step_meter import StepMeter
from trident.compiler.tracking.ledger import Root
from trident.compiler.tracking.row_paths import Way
from trident.operations.context import OperationContext


class OnChain(OnWorker):
    """A function that begins with a chain of operations.

    If `catches` is true, some operations have an error policy: tuples on which they fail are left out of the stream and
    added to `letters`. If it is called without `letters`, the function fails as it would without a policy.
    """

    __slots__ = ()

    @property
    def catches(self) -> bool:
        raise NotImplementedError

    @property
    def root(self) -> Root | None:
        """The ledger's root for the function's source, if the batch has a ledger and the tuples enter unchanged."""
        return None

    @property
    def meter(self) -> StepMeter | None:
        """The meter of the function's steps, if they are measured."""
        return None

    def __call__(self, batches: Batches, letters: Letters | None = None) -> Batches:
        return guarded(lambda entering: self._run(entering, letters), batches)

    def _run(self, batches: Batches, letters: Letters | None = None) -> Iterable[pa.RecordBatch]:
        raise NotImplementedError


WorkerFunction = Callable[[Batches], Batches]


def catches(function: WorkerFunction) -> bool:
    """Return whether the function has operations that leave out the tuples on which they fail."""
    return isinstance(function, OnChain) and function.catches


def call(function: WorkerFunction, batches: Batches, letters: Letters | None) -> Batches:
    """Call a function, and pass it `letters` if it accepts them."""
    return function(batches, letters) if isinstance(function, OnChain) else function(batches)


def meter_of(function: WorkerFunction) -> StepMeter | None:
    """Return the meter of the steps of a function, if they are measured."""
    return function.meter if isinstance(function, OnChain | Reporting) else None


@dataclass(frozen=True, slots=True)
class Timed(OnChain):
    """A function whose time is attributed to a step; the time of measured steps within it to these steps."""

    function: WorkerFunction
    step: str
    meter: StepMeter

    @property
    def catches(self) -> bool:
        return catches(self.function)

    @property
    def root(self) -> Root | None:
        return self.function.root if isinstance(self.function, OnChain) else None

    def _run(self, batches: Batches, letters: Letters | None = None) -> Iterable[pa.RecordBatch]:
        return self.meter.timed(self.step, call(self.function, batches, letters))


@dataclass(frozen=True, slots=True)
class Metered:
    """A function as a whole, whose task sends the measures of its steps at the end."""

    function: WorkerFunction
    meter: StepMeter

    def __call__(self, batches: Batches) -> Batches:
        yield from self.function(self.meter.timed(None, batches))
        self.meter.send(partition_id())


REPORT = "__trident_report"
"""The hidden last field of the rows of a `Reporting`: null in a tuple."""


@dataclass(frozen=True, slots=True)
class Reporting:
    """A function that adds reports as rows to its tuples: reports of caught tuples, and of its own failure.

    So reports and tuples come from one evaluation, and neither arrives without the other. Only the driver reads the
    rows of reports. A failure in the form of a row avoids retries of the task, and the pages that Spark logs for each
    retry; the signal reports it to the driver before the other tasks end. Without a signal a failure is raised.
    """

    function: WorkerFunction
    schema: pa.Schema
    signal: FailureSignal | None
    way: Way = Way()
    """The way (see `Way`) on which the rows are sent. If a ledger counts it, the partition reports once, at its end."""

    @property
    def meter(self) -> StepMeter | None:
        """See `OnChain.meter`."""
        return meter_of(self.function)

    @property
    def leaving(self) -> pa.Schema:
        """The schema of the rows that the worker sends: the output fields of the function, then the hidden ones.

        A report has nulls in all fields of a tuple, even in those that are never null in a tuple.
        """
        fields = [field.with_nullable(True) for field in self.schema]
        return pa.schema([*fields, *self.way.fields, pa.field(REPORT, pa.string())])

    def __call__(self, batches: Batches) -> Batches:
        letters, leaving, sent = Letters(), self.leaving, self.way.departures(partition_id())
        try:
            for batch in call(self.function, batches, letters):
                hidden = [*sent.hidden(batch.num_rows), pa.nulls(batch.num_rows, pa.string())]
                yield pa.RecordBatch.from_arrays([*batch.columns, *hidden], schema=leaving)
                if letters.dead:  # at the end they might be more than a worker has memory for
                    yield self._rows(letters.take_lines())
            lines = [*letters.take_lines(), *sent.report(letters.arrivals)]
            if lines:
                yield self._rows(lines)
        except WorkerFailure as failure:
            if self.signal is None:
                raise
            self.signal.send(str(failure))
            yield self._rows([str(failure)])
            for _ in batches:  # Spark expects a task that succeeds to read all of its input
                pass

    def _rows(self, reports: list[str]) -> pa.RecordBatch:
        *fields, _ = self.leaving
        nothing = [pa.nulls(len(reports), field.type) for field in fields]
        return pa.RecordBatch.from_arrays([*nothing, pa.array(reports, pa.string())], schema=self.leaving)


@dataclass(frozen=True, slots=True)
class AfterReports(OnChain):
    """The function after a shuffle of a `Reporting`'s rows. It gets the tuples, and passes the reports on.

    `way` is the way (see `Way`) on which the rows were sent.
    """

    function: WorkerFunction
    way: Way = Way()

    @property
    def catches(self) -> bool:
        return True

    @property
    def meter(self) -> StepMeter | None:
        return meter_of(self.function)

    def _run(self, batches: Batches, letters: Letters | None = None) -> Iterable[pa.RecordBatch]:
        assert letters is not None, "reports have a reader"
        return self.function(map(lambda batch: self._tuples(batch, letters), batches))

    def _tuples(self, batch: pa.RecordBatch, letters: Letters) -> pa.RecordBatch:
        """Return the tuples of a batch, and add its reports to `letters`. Raise a failure that is among them."""
        reports = batch.column(batch.num_columns - 1)
        rows = batch.select(range(batch.num_columns - 1))
        if reports.null_count < len(reports):
            texts = reports.drop_null().to_pylist()
            for text in texts:
                if is_failure(text):
                    raise WorkerFailure(text)
            letters.add_lines(texts)
            rows = rows.filter(reports.is_null())
        return self.way.arrived(rows, letters.arrivals)


@dataclass(frozen=True, slots=True)
class Composed(OnChain):
    """Two functions over a partition, one after the other in the same worker."""

    first: WorkerFunction
    second: WorkerFunction

    @property
    def catches(self) -> bool:
        return catches(self.first)

    @property
    def root(self) -> Root | None:
        return self.first.root if isinstance(self.first, OnChain) else None

    @property
    def meter(self) -> StepMeter | None:
        return meter_of(self.first)

    def _run(self, batches: Batches, letters: Letters | None = None) -> Iterable[pa.RecordBatch]:
        return self.second(call(self.first, batches, letters))


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The lifecycle of a chain: operations are prepared before the first tuple and cleaned up after the last.

    `partitions` is the number of partitions. The last column of the batches that enter is their partition's number.
    """

    partitions: int | None
    facts: RunFacts
    txid: int

    def context(self, partition: int) -> OperationContext:
        """Return the context of the operations of a partition."""
        return OperationContext.of(self.facts, partition, self.partitions, self.txid)


@dataclass(frozen=True, slots=True)
class Chain(OnChain):
    """Adjacent Python operations as one function over a partition."""

    works: tuple[Work, ...]
    entering: pa.Schema
    leaving: pa.Schema
    before: Callable[[Batches], Batches] | None = None
    """The reader of the source, if the source is read in the same worker."""
    lifecycle: Lifecycle | None = None
    root: Root | None = None
    """See `OnChain.root`."""
    meter: StepMeter | None = None

    def columns(self, batches: Batches, letters: Letters | None = None) -> Iterator[Columns]:
        """Yield the output of the chain, batch by batch. Tuples that are caught on the way are added to `letters`."""
        entering = batches if self.before is None else self._read(self.before, batches)
        if letters is not None:
            entering = letters.arrivals.of_source(self.root, entering)
        if self.lifecycle is not None:
            yield from self._with_lifecycle(entering, self.lifecycle, letters)
            return
        apply = self._compiled(self.works, letters)
        for batch in entering:
            yield apply(Columns.of(batch, self.entering))

    def _with_lifecycle(self, batches: Batches, lifecycle: Lifecycle, letters: Letters | None) -> Iterator[Columns]:
        """Yield the batches of `columns`, with prepared operations.

        In a partition without tuples, no operation is prepared.
        """
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        (*_, partition) = first.columns
        with prepared(self.works, lifecycle.context(partition[0].as_py())) as works:
            apply = self._compiled(works, letters)
            for batch in chain((first,), filled):
                yield apply(Columns.of(batch.select(range(len(self.entering))), self.entering))

    def _read(self, read: Callable[[Batches], Batches], batches: Batches) -> Batches:
        """Return the source's batches. Their time is attributed to no step."""
        return read(batches) if self.meter is None else self.meter.timed(None, read(batches))

    def _compiled(self, works: Sequence[Work], letters: Letters | None) -> Kernel:
        measured = None if self.meter is None else self.meter.measured
        return compile_chain(works, self.leaving.names, letters, measured)[0]

    @property
    def catches(self) -> bool:
        return any(work.caught is not None for work in self.works)

    def _run(self, batches: Batches, letters: Letters | None = None) -> Iterator[pa.RecordBatch]:
        for columns in self.columns(batches, letters):
            if columns.rows:
                yield from sliced(columns, self.leaving)


@dataclass(frozen=True, slots=True)
class AfterChain(OnChain):
    """A function over the output of a chain, in the same worker."""

    chain: Chain

    @property
    def catches(self) -> bool:
        return self.chain.catches

    @property
    def root(self) -> Root | None:
        return self.chain.root

    @property
    def meter(self) -> StepMeter | None:
        return self.chain.meter


@dataclass(frozen=True, slots=True)
class Drain(AfterChain):
    """A chain that runs for its side effects. Its output has no rows."""

    def _run(self, batches: Batches, letters: Letters | None = None) -> Iterator[pa.RecordBatch]:
        for _ in self.chain.columns(batches, letters):
            pass
        yield from ()


def partition_id() -> int:
    """Return the number of this task's partition; 0 outside a task."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def sliced(columns: Columns, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield record batches of bounded size with the columns that `schema` names."""
    batch = columns.batch(schema)
    if batch.num_rows <= 2 * BATCH_ROWS:
        yield batch
        return
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)
