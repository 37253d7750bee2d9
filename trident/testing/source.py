"""A source for tests, made of a list of batches, with marks between them for failures, crashes and pauses."""

from collections.abc import Iterable

from pyspark.sql import Row
from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import FailedException
from trident.base.spark_types import ddl
from trident.testing.crashes import Trap, crash
from trident.testing.output import rows_of
from trident.testing.script import CRASH, Mark, Script
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, SpoutExecutor, SpoutKind
from trident_spouts.rows import RowsLike, read_schema
from trident_spouts.user_calls import foreign_metadata_error


class TestSource:
    """A source with a script of batches: each batch is a list of rows, with marks between the batches.

    ============  =====================================================================================================
    `FAIL`        the attempt at the next batch fails, once; several FAILs make several attempts fail
    `CRASH`       the driver dies, once, when the next batch is to be emitted: the run ends with `DriverCrashedError`,
                  its log is not given back, and the next start on the same checkpoint continues
    `CRASH.at`    like CRASH, but the driver dies at a crash point: ``CRASH.at("commit.state.after")``
    `PAUSE`       the source is idle until `resume`: `processAllAvailable` returns when all before it is committed
    `END`         the source is idle until the next start, so that a run with ``availableNow=True`` ends
    ============  =====================================================================================================

    A mark that was passed stays passed, even after restarts, as long as the program keeps the source object. So build
    the topology once, and start the same topology again. With ``maxSpoutPending=1`` all batches before a mark are
    committed when the source comes to the mark; otherwise the batch before the mark may still be in progress, as in
    production.

    Parameters
    ----------
    fields : str or StructType
        The fields with their types, ``"word string"``.
    script : iterable of batches and marks
        A batch is a list of tuples, of scalars (if there is one field), of dicts or Rows, an Arrow table or pandas.
    kind : SpoutKind or str
        Decides which rows a replay has. ``"transactional"``: the same rows, also after a restart. ``"opaque"``: other
        rows; each attempt at a batch takes half as many rows as the attempt before, and the rest comes in later
        batches. ``"nonTransactional"``: the same rows within a run; rows that were emitted and not frozen are lost when
        the driver dies.

    Attributes
    ----------
    attempts : list of TransactionAttempt
        The attempts that the source emitted or failed, in order.
    failed : list of TransactionAttempt
        The attempts that the run reported to the source as failed.
    committed : list of int
        The txids that the run reported to the source as committed.

    Examples
    --------
    >>> from trident import Count, TridentTopology
    >>> from trident.state import MemoryMapState
    >>> from trident.testing import FAIL, TestSource, start_local
    >>> source = TestSource("word string", [["cow", "dog"], FAIL, ["cow"]])
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", source)
    >>> _ = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> with start_local(topology) as running:
    ...     running.processAllAvailable()
    ...     dict(running.state("counts").items())
    {'cow': 2, 'dog': 1}
    >>> [str(attempt) for attempt in source.failed]
    ['2:0']
    """

    __test__ = False

    def __init__(
        self, fields: str | StructType, script: Iterable[RowsLike | Mark], kind: SpoutKind | str = "transactional"
    ) -> None:
        self.schema = read_schema(fields)
        self.kind = _kind(kind)
        self._script = Script(self.schema, script)
        self.attempts: list[TransactionAttempt] = []
        self.failed: list[TransactionAttempt] = []
        self.committed: list[int] = []

    @property
    def rows(self) -> list[Row]:
        """All rows of the script, in order."""
        return [row for table in self._script.batches for row in rows_of(table)]

    @property
    def crashes(self) -> bool:
        """Return whether the script has a CRASH."""
        return any(mark.name == CRASH.name for marks in self._script.marks for mark in marks)

    def resume(self) -> None:
        """Let the source pass the PAUSE at which it waits, or the next PAUSE."""
        self._script.resume()

    def open(self) -> SpoutExecutor:
        """Return the executor of this source for one run. The END at which the previous run stopped is passed."""
        self._script.begin_run()
        return _Executor(self, self._script)

    def __repr__(self) -> str:
        marks = sum(map(len, self._script.marks))
        batches = len(self._script.batches)
        return f"TestSource({ddl(self.schema)!r}, {batches} batches, {marks} marks, kind={self.kind.value!r})"


class _Executor(SpoutExecutor):
    """The executor of a TestSource in one run."""

    plans_ahead = True

    def __init__(self, source: TestSource, script: Script) -> None:
        self._source, self._script = source, script
        self._first = script.handed_out if source.kind is SpoutKind.NON_TRANSACTIONAL else 0
        """The first batch that this run may plan. A non-transactional source never emits again the batches that it has
        handed out."""
        self._trap = Trap()

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        batch, row = self._following(previous)
        if not self._script.may_plan(batch, self._trap.arm):
            return None
        if self._source.kind is not SpoutKind.OPAQUE:
            return {"batch": batch}
        rest = self._size(batch) - row
        return {"batch": batch, "row": row, "rows": max(min(1, rest), rest >> attempt.attempt)}

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        batch, row, rows = self._read(metadata)
        self._source.attempts.append(attempt)
        mark = self._script.emit(batch)
        if mark is CRASH:
            raise crash(f"CRASH before batch {batch} of {self._source!r}, in attempt {attempt}")
        if mark is not None:
            raise FailedException(f"FAIL before batch {batch} of {self._source!r}: attempt {attempt} fails")
        return ArrowEmission(self._script.batches[batch].slice(row, rows))

    def success(self, txid: int, metadata: Metadata) -> None:
        self._source.committed.append(txid)

    def fail(self, attempt: TransactionAttempt) -> None:
        self._source.failed.append(attempt)

    def close(self) -> None:
        self._trap.disarm()

    def _following(self, previous: Metadata) -> tuple[int, int]:
        """Return which batch of the script comes after the metadata `previous`, and the row at which it begins.

        An opaque source may have emitted only the first rows of a batch: then the same batch comes again.
        """
        if previous is None:
            return self._first, 0
        batch, row, rows = self._read(previous)
        if rows is not None and row + rows < self._size(batch):
            return batch, row + rows
        return max(batch + 1, self._first), 0

    def _size(self, batch: int) -> int:
        """Return the number of rows in a batch of the script; 0 after the last batch (a CRASH may follow it)."""
        batches = self._script.batches
        return int(batches[batch].num_rows) if batch < len(batches) else 0

    def _read(self, metadata: Metadata) -> tuple[int, int, int | None]:
        """Return the batch, its first row, and the number of rows in metadata."""
        if not isinstance(metadata, dict) or "batch" not in metadata:
            raise foreign_metadata_error(repr(self._source), metadata)
        return metadata["batch"], metadata.get("row", 0), metadata.get("rows")


def _kind(kind: SpoutKind | str) -> SpoutKind:
    try:
        return SpoutKind(kind)
    except ValueError:
        kinds = ", ".join(repr(each.value) for each in SpoutKind)
        raise ValueError(f"TestSource: unknown kind {kind!r}; expected one of {kinds}") from None
