"""Functions that Spark's Python workers run over a partition, and the form of their errors."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from trident.base.errors import TridentError
from trident.compiler.columns.function_errors import encoded
from trident_spouts.spark_workers import settle

Batches = Iterator[pa.RecordBatch]

BATCH_ROWS = 10_000
"""The approximate limit for the rows of a batch that is sent back to Spark."""


def guarded(run: Callable[[Batches], Iterable[pa.RecordBatch]], batches: Batches) -> Batches:
    """Yield the batches that `run` yields. Raise errors of the library in a form that the driver can decode."""
    settle()
    try:
        yield from run(batches)
    except TridentError as error:
        raise encoded(error) from None


class OnWorker:
    """A function that a worker runs over a partition. Subclasses implement `_run`, whose errors `guarded` converts."""

    __slots__ = ()

    def __call__(self, batches: Batches) -> Batches:
        return guarded(self._run, batches)

    def _run(self, batches: Batches) -> Iterable[pa.RecordBatch]:
        raise NotImplementedError
