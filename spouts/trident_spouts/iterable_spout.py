"""A spout over any Python iterable of rows or of chunks of rows, without a promise for restarts."""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.argument_checks import check_whole_number
from trident.base.callsite import site_of
from trident.base.copied_values import own_value
from trident.base.descriptions import keep
from trident.base.durations import Duration, read_seconds
from trident.base.errors import TopologyError, TridentError, UserFunctionError
from trident.base.short_texts import brief, raised
from trident.base.spark_types import ddl
from trident.base.user_rows import checked_rows
from trident_spouts.adapters.batch_executor import BatchExecutor
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.configurable import configurable
from trident_spouts.executor import Metadata, SpoutExecutor, SpoutKind
from trident_spouts.protocols import BatchSpout
from trident_spouts.rows import RowsLike, is_table, read_schema, table_of
from trident_spouts.user_calls import call_function


@configurable
@dataclass(frozen=True, init=False, repr=False, eq=False)
class IterableSpout:
    """A spout of the rows of an iterable, such as a generator, a queue's ``iter``, a file or a list.

    A batch has at most `batchSize` rows. The iterable may also return chunks of rows, as pandas DataFrames or Arrow
    tables (``pandas.read_csv(..., chunksize=10_000)``, ``ParquetFile.iter_batches()``): long chunks are split, and
    short chunks are joined.

    The spout is non-transactional. Within the process a replay has the same tuples. A restart begins at the first row
    of a list again, and calls a function again. Rows that were taken from an iterator and not yet committed are lost.
    An iterator has one reader at a time.

    Parameters
    ----------
    fields : str or StructType
        The fields with their types, ``"line string"``.
    rows : iterable, pandas DataFrame, Arrow table, or function without arguments that returns one of these
        Tuples, scalars (with one field), dicts or Rows; or chunks, each a DataFrame, an Arrow table or a RecordBatch.
        The columns of a table are matched with the fields by name. A function is called once in each run. An iterable
        that is not a list, a range or a table is read by a separate thread, at most two batches and a chunk ahead, so
        that it may wait for its input.
    batchSize : int
        The most rows in a batch.
    maxDelaySecs : duration
        How long a batch waits to become full: seconds, ``"500 ms"`` or a timedelta. Then the rows that have come make a
        batch; without rows, the topology waits for the next row. An iterator counts as empty only when it has ended:
        until then a run with ``availableNow`` or ``processAllAvailable`` continues.

    Examples
    --------
    >>> IterableSpout("n long", range(10), batchSize=4)
    IterableSpout('n bigint', range, batchSize=4)

    Chunks of rows, as a reader of large files returns them:

    >>> import pyarrow
    >>> from trident import TridentTopology
    >>> from trident.testing import TestOutput, start_local
    >>> chunks = (pyarrow.table({"n": [at, at + 1]}) for at in (0, 2, 4))
    >>> output, topology = TestOutput(), TridentTopology()
    >>> _ = topology.newStream("numbers", IterableSpout("n long", chunks, batchSize=3)).foreachArrow(output)
    >>> with start_local(topology) as running:
    ...     running.processAllAvailable()
    >>> [row.n for row in output.rows]
    [0, 1, 2, 3, 4, 5]

    Notes
    -----
    IterableSpout takes the place of Storm's ``IRichSpout``, which Trident wraps as a non-transactional spout: in Python
    an iterator serves the same purpose.
    """

    schema: StructType
    rows: RowsLike | Callable[[], RowsLike]
    batchSize: int
    maxDelaySecs: float
    kind = SpoutKind.NON_TRANSACTIONAL
    forkable = True

    def __init__(
        self,
        fields: str | StructType,
        rows: RowsLike | Callable[[], RowsLike],
        batchSize: int = 1000,
        maxDelaySecs: Duration = 0.1,
    ) -> None:
        check_whole_number("IterableSpout: batchSize", batchSize)
        schema = read_schema(fields)
        if is_table(rows):
            rows = table_of(rows, schema, "IterableSpout")
        elif not callable(rows) and (isinstance(rows, str | bytes | dict) or not isinstance(rows, Iterable)):
            raise TopologyError(
                f"IterableSpout: expected an iterable of rows, a table or a function, got {brief(rows)}"
                f"{'; a dict is one row, write [row]' if isinstance(rows, dict) else ''}"
            )
        delay = read_seconds("IterableSpout: maxDelaySecs", maxDelaySecs, zero=True)
        keep(self, schema=schema, rows=rows, batchSize=batchSize, maxDelaySecs=delay)

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        iterator = self.rows if isinstance(self.rows, Iterator) else None
        return _IterableExecutor(_Batches(self), self.schema, iterator, "IterableSpout")

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the number of batches that were read, over all runs."""
        return {"batches": position}

    def previewable_if(self) -> str | None:
        """Return how to make the spout previewable; None if a preview takes no row away from the run."""
        if not isinstance(self.rows, Iterator):
            return None
        return "Pass a list, or a function that returns a new iterator, in place of the iterator"

    def __repr__(self) -> str:
        return f"IterableSpout({ddl(self.schema)!r}, {_brief_rows(self.rows)}, batchSize={self.batchSize})"


def _brief_rows(rows: RowsLike | Callable[[], RowsLike]) -> str:
    if isinstance(rows, pa.Table):
        return f"{rows.num_rows} rows"
    return site_of(rows).name if callable(rows) else type(rows).__name__


class _IterableExecutor(BatchExecutor):
    """The executor of an IterableSpout. It wakes its run when the iterator has returned rows."""

    def on_rows(self, wake: Callable[[], None]) -> None:
        self._spout.on_rows(wake)


class _Batches(BatchSpout):
    """The iterable of an IterableSpout as a BatchSpout."""

    def __init__(self, spout: IterableSpout) -> None:
        self._spout = spout
        self._reader: _TableReader | _SequenceReader | _ThreadedReader | None = None

    def open(self) -> None:
        """Call the user's function. Unless it returns a sequence, start the thread that reads ahead of the batches."""
        rows = self._spout.rows
        rows = call_function("IterableSpout", rows) if callable(rows) else rows
        if is_table(rows):
            self._reader = _TableReader(table_of(rows, self._spout.schema, f"{self._spout!r}"))
        elif isinstance(rows, Sequence):
            self._reader = _SequenceReader(rows, self._spout.schema, f"{self._spout!r}")
        else:
            self._reader = _ThreadedReader(iter(rows), self._spout, f"{self._spout!r}")

    def emitBatch(self, batchId: int, budget: Budget = NO_LIMIT) -> RowsLike:
        assert self._reader is not None
        rows, seconds = budget.rows_within(self._spout.batchSize), budget.seconds_within(self._spout.maxDelaySecs)
        return self._reader.take(rows, seconds)

    def waitsFor(self) -> str | None:
        return self._reader.waits_for if isinstance(self._reader, _ThreadedReader) else None

    def on_rows(self, wake: Callable[[], None]) -> None:
        """Call `wake` when new rows are available.

        A sequence or a table that was read to its end never has new rows.
        """
        if isinstance(self._reader, _ThreadedReader):
            self._reader.wake = wake

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


class _TableReader:
    """A reader of a table, with the declared fields as columns."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._at = 0

    def take(self, count: int, seconds: float) -> pa.Table:
        batch = self._table.slice(self._at, count)
        self._at += batch.num_rows
        return batch

    def close(self) -> None:
        """Do nothing, because there is no thread to end."""


def _nothing() -> None: ...


class _Waiting:
    """The rows that were read but not emitted yet: Python rows, or chunks as tables of the declared fields.

    Rows of both forms may follow each other; a batch holds rows of one form.
    """

    def __init__(self, schema: StructType, name: str) -> None:
        self._schema, self._name = schema, name
        self._items: deque[list[Any] | pa.Table] = deque()
        self._chunks = 0
        self.count = 0

    def add(self, item: Any) -> None:
        """Add a row or a chunk. Raises SpoutContractError if a chunk does not have the declared fields."""
        if is_table(item):
            self._chunks += 1
            table = table_of(item, self._schema, f"{self._name}, chunk {self._chunks}")
            if table.num_rows:
                self._items.append(table)
                self.count += table.num_rows
        else:
            if not self._items or isinstance(self._items[-1], pa.Table):
                self._items.append([])
            self._items[-1].append(own_value(item))
            self.count += 1

    def take(self, count: int) -> RowsLike:
        """Remove and return the next rows, at most `count`, all in one form."""
        taken: list[list[Any] | pa.Table] = []
        left = count
        while self._items and left and (not taken or type(self._items[0]) is type(taken[0])):
            item = self._items.popleft()
            if len(item) > left:
                self._items.appendleft(item[left:])
                item = item[:left]
            taken.append(item)
            left -= len(item)
        self.count -= count - left
        if taken and isinstance(taken[0], pa.Table):
            return pa.concat_tables(taken)
        return [row for rows in taken for row in rows]


class _SequenceReader:
    """A reader of rows or chunks that are all in memory."""

    def __init__(self, rows: Sequence[Any], schema: StructType, name: str) -> None:
        self._rows = iter(rows)
        self._waiting = _Waiting(schema, name)

    def take(self, count: int, seconds: float) -> RowsLike:
        while not self._waiting.count:  # chunks may all be empty, and no rows would mean that the source has ended
            rows = list(itertools.islice(self._rows, count))
            if not any(map(is_table, {type(row): row for row in rows}.values())):  # checking each type is quick
                return rows
            for row in rows:
                self._waiting.add(row)
        return self._waiting.take(count)

    def close(self) -> None:
        """Do nothing, because there is no thread to end."""


class _ThreadedReader:
    """A reader of an iterator in a separate thread, so that the run continues while the iterator waits for input."""

    def __init__(self, rows: Iterator[Any], spout: IterableSpout, name: str) -> None:
        self._rows = rows
        self._ahead = 2 * spout.batchSize
        self._name = name
        self._changed = threading.Condition()
        self._read = _Waiting(spout.schema, name)
        self.wake: Callable[[], None] = _nothing
        self.waits_for: str | None = None
        """The reason why the last `take` had no rows, for status and errors; None if the iterator has ended."""
        self._error: BaseException | None = None
        self._ended = self._closed = False
        threading.Thread(target=self._run, name=f"trident-{name}", daemon=True).start()

    def take(self, count: int, seconds: float) -> RowsLike:
        with self._changed:
            self._changed.wait_for(lambda: self._read.count >= count or self._ended, seconds)
            none_left = not self._read.count
            self.waits_for = None if self._ended else "the iterator has neither returned a row nor ended yet"
            rows = self._read.take(count)
            self._changed.notify_all()
            if none_left and self._error is not None:  # rows that were read before the error are returned first
                raise self._failure(self._error)
            return rows

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            for row in checked_rows(self._rows):
                with self._changed:
                    self._changed.wait_for(lambda: self._read.count < self._ahead or self._closed)
                    if self._closed:
                        return
                    was_empty = not self._read.count
                    self._read.add(row)
                    self._changed.notify_all()
                    if was_empty:
                        self.wake()
        except BaseException as error:  # `take` raises it in the thread that requests rows
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()
                if not self._closed:  # the next plan raises an error
                    self.wake()

    def _failure(self, error: BaseException) -> TridentError:
        if isinstance(error, TridentError):
            return error
        failure = UserFunctionError(f"{self._name}: its iterator {raised(error)}")
        failure.__cause__ = error
        return failure
