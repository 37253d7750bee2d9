"""An output for tests. It keeps every batch that it receives, including repeats."""

import threading
from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Row

from trident.base.value_conversion import to_python


class HandOver(NamedTuple):
    """One call of an output: the batch, its txid and its attempt."""

    txid: int
    attempt: int
    rows: list[Row]


class TestOutput:
    """A function for `foreachArrow` and `foreachBatch` that keeps every batch that it receives.

    Like every output it is called at least once for a batch: after a crash between the call and the commit the same
    batch comes again. `batches` has every call. `rows` has each batch once, like an output that replaces the rows of a
    txid.

    Attributes
    ----------
    batches : list of HandOver
        All hand-overs in the order of the calls: ``(txid, attempt, rows)``.

    Examples
    --------
    >>> from trident import TridentTopology
    >>> from trident.testing import TestOutput, TestSource, start_local
    >>> output, topology = TestOutput(), TridentTopology()
    >>> words = topology.newStream("words", TestSource("word string", [["cow"], ["dog", "moon"]]))
    >>> _ = words.foreachArrow(output)
    >>> with start_local(topology) as running:
    ...     running.processAllAvailable()
    >>> output.rows
    [Row(word='cow'), Row(word='dog'), Row(word='moon')]
    >>> output.batches[0]
    HandOver(txid=1, attempt=0, rows=[Row(word='cow')])
    """

    __test__ = False

    def __init__(self) -> None:
        self._kept = _Kept()

    def __call__(self, batch: Any, txid: int, attempt: int) -> None:
        """Keep a batch: an Arrow table or a DataFrame."""
        table = batch if isinstance(batch, pa.Table) else batch.toArrow()
        with self._kept.lock:
            self._kept.batches.append(HandOver(txid, attempt, rows_of(table)))

    @property
    def batches(self) -> list[HandOver]:
        """Every batch that the output received, including repeats, in the order of the calls."""
        with self._kept.lock:
            return list(self._kept.batches)

    @property
    def rows(self) -> list[Row]:
        """The rows of all batches in the order of their txids, each batch once.

        Raises AssertionError if a txid was handed over again with other rows, because then no output could be exact.
        """
        by_txid: dict[int, HandOver] = {}
        for batch in self.batches:
            first = by_txid.setdefault(batch.txid, batch)
            if Counter(map(repr, first.rows)) != Counter(map(repr, batch.rows)):
                raise AssertionError(
                    f"batch {batch.txid} was handed over with other rows: {first.rows} in attempt {first.attempt}, "
                    f"{batch.rows} in attempt {batch.attempt}"
                )
        return [row for txid in sorted(by_txid) for row in by_txid[txid].rows]

    @property
    def repeated(self) -> list[int]:
        """The txids that were handed over more than once, in order."""
        counts = Counter(batch.txid for batch in self.batches)
        return sorted(txid for txid, count in counts.items() if count > 1)

    def clear(self) -> None:
        """Forget all hand-overs."""
        with self._kept.lock:
            self._kept.batches.clear()

    def __repr__(self) -> str:
        return f"TestOutput({len(self.batches)} hand-overs)"


class _Kept:
    """The calls of an output, in an object that a start does not compare.

    A start compares the plain attributes of each function with those at the previous start. With a plain list of
    calls, an output that received batches in between would count as another function.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.batches: list[HandOver] = []


def rows_of(table: pa.Table) -> list[Row]:
    """Return the rows of a table, with values as a topology's functions see them.

    >>> rows_of(pa.table({"word": ["cow"], "n": [1]}))
    [Row(word='cow', n=1)]
    """
    row = Row(*table.column_names)
    columns = [to_python(column) for column in table.columns]
    return [row(*values) for values in zip(*columns, strict=True)] if columns else [Row()] * table.num_rows
