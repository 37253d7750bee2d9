"""Functions that travel to Spark's Python workers: small callables over record batches, importable, with all they need.

Each function is made anew for every batch and pickled with the user's functions in it; the txid travels in such a
function, never in the plan.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from trident.base.errors import TridentError
from trident.compiler.columns.columns import Columns
from trident.compiler.columns.dead_letters import Letters
from trident.compiler.columns.function_errors import WorkerFailure, encoded
from trident.compiler.columns.kernels import Work, compile_chain
from trident.compiler.columns.lifecycle import prepared
from trident.compiler.spark.failure_signal import FailureSignal
from trident.operations.context import OperationContext
from trident_spouts.workers import settle

Batches = Iterator[pa.RecordBatch]

BATCH_ROWS = 10_000
"""The most rows, roughly, of a batch that goes back to Spark."""


def guarded(run: Callable[[Batches], Iterable[pa.RecordBatch]], batches: Batches) -> Batches:
    """Yield the batches that `run` yields; raise errors of the library in the form that the driver can read."""
    settle()
    try:
        yield from run(batches)
    except TridentError as error:
        raise encoded(error) from None


class OnWorker:
    """A function that a worker runs over a partition: `_run`, guarded."""

    __slots__ = ()

    def __call__(self, batches: Batches) -> Batches:
        return guarded(self._run, batches)

    def _run(self, batches: Batches) -> Iterable[pa.RecordBatch]:
        raise NotImplementedError


FAILURE = "__trident_failure"
"""The hidden last field of the rows of a `FailureAsRow`."""


@dataclass(frozen=True, slots=True)
class FailureAsRow:
    """A function whose failure is a row.

    Where only the driver reads the rows, that spares the retries of the task, and the pages that Spark logs for each
    retry. The signal tells the driver of the failure before the other tasks end.
    """

    function: Callable[[Batches], Batches]
    schema: pa.Schema
    signal: FailureSignal

    @property
    def leaving(self) -> pa.Schema:
        """The function's fields, then the failure's."""
        return self.schema.append(pa.field(FAILURE, pa.string()))

    def __call__(self, batches: Batches) -> Batches:
        leaving = self.leaving
        try:
            for batch in self.function(batches):
                no_failures = pa.nulls(batch.num_rows, pa.string())
                yield pa.RecordBatch.from_arrays([*batch.columns, no_failures], schema=leaving)
        except WorkerFailure as failure:
            self.signal.send(str(failure))
            nothing = [pa.nulls(1, field.type) for field in self.schema]
            yield pa.RecordBatch.from_arrays([*nothing, pa.array([str(failure)])], schema=leaving)
            for _ in batches:  # Spark expects a task that succeeds to read all of its input
                pass


@dataclass(frozen=True, slots=True)
class Composed:
    """Two functions over a partition, one after the other in the same worker."""

    first: Callable[[Batches], Batches]
    second: Callable[[Batches], Batches]

    def __call__(self, batches: Batches) -> Batches:
        return self.second(self.first(batches))


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The lifecycle of a chain: its operations are prepared before the tuples and cleaned up after them.

    `partitions` is the number of partitions. The last column of the batches that enter is their partition's number.
    """

    partitions: int | None


@dataclass(frozen=True, slots=True)
class Chain(OnWorker):
    """Adjacent Python operations as one function over a partition."""

    works: tuple[Work, ...]
    entering: pa.Schema
    leaving: pa.Schema
    before: Callable[[Batches], Batches] | None = None
    """The reader of the source, where it runs in the same worker."""
    lifecycle: Lifecycle | None = None

    def columns(self, batches: Batches, letters: Letters | None = None) -> Iterator[Columns]:
        """Yield the tuples that leave the chain, batch by batch; `letters` takes what is caught on the way."""
        if self.lifecycle is not None:
            yield from self._with_lifecycle(batches, self.lifecycle, letters)
            return
        apply, _ = compile_chain(self.works, self.leaving.names, letters)
        for batch in batches if self.before is None else self.before(batches):
            yield apply(Columns.of(batch, self.entering))

    def _with_lifecycle(self, batches: Batches, lifecycle: Lifecycle, letters: Letters | None) -> Iterator[Columns]:
        """Yield what `columns` yields, with prepared operations; in a partition without tuples none is prepared."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        (*_, partition) = first.columns
        with prepared(self.works, OperationContext(partition[0].as_py(), lifecycle.partitions)) as works:
            apply, _ = compile_chain(works, self.leaving.names, letters)
            for batch in chain((first,), filled):
                yield apply(Columns.of(batch.select(range(len(self.entering))), self.entering))

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for columns in self.columns(batches):
            if columns.rows:
                yield from sliced(columns, self.leaving)


CAUGHT = "__trident_caught"
"""The hidden last field of the rows of a catching chain: a line for each thing that was caught, else null."""


@dataclass(frozen=True, slots=True)
class CatchingChain(OnWorker):
    """A chain that gives tuples on which its functions fail apart from the others: as rows with the field `CAUGHT`."""

    chain: Chain

    @property
    def leaving(self) -> pa.Schema:
        """The chain's fields, then the field of what was caught."""
        return self.chain.leaving.append(pa.field(CAUGHT, pa.string()))

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        letters, leaving = Letters(), self.leaving
        for columns in self.chain.columns(batches, letters):
            for batch in sliced(columns, self.chain.leaving) if columns.rows else ():
                no_lines = pa.nulls(batch.num_rows, pa.string())
                yield pa.RecordBatch.from_arrays([*batch.columns, no_lines], schema=leaving)
            lines = letters.take_lines()
            if lines:
                nothing = [pa.nulls(len(lines), field.type) for field in self.chain.leaving]
                yield pa.RecordBatch.from_arrays([*nothing, pa.array(lines, pa.string())], schema=leaving)


@dataclass(frozen=True, slots=True)
class Drain(OnWorker):
    """A chain that runs for its side effects and gives nothing."""

    chain: Chain

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in self.chain.columns(batches):
            pass
        yield from ()


def sliced(columns: Columns, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the columns that `schema` names as record batches of a bounded size."""
    batch = columns.batch(schema)
    if batch.num_rows <= 2 * BATCH_ROWS:
        yield batch
        return
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)
