"""The outputs of one batch group. In a commit turn each output receives the batch, after all states hold it.

After a failure, a crash, or a lost commit, an output may receive a batch again. It then receives the same rows.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from trident.base.errors import LogError, OutputError, OutputUnavailableError, TridentError, UserFunctionError
from trident.base.generator_checks import check_ran
from trident.base.metrics import MetricsRegistry
from trident.base.short_texts import error_text
from trident.compiler.engine import Engine, Frames
from trident.compiler.parquet_files import NEVER_PASSING
from trident.compiler.program import Group
from trident.compiler.spark.errors import translated
from trident.files.store import FileStore
from trident.frozen.files import read_frozen, read_whole
from trident.frozen.results import Result
from trident.outputs.best_effort import BatchListener, BestEffortOutlet
from trident.outputs.kafka.outlet import KafkaOutlet
from trident.outputs.metric_outlet import MetricOutlet
from trident.outputs.parquet_outlet import ParquetOutlet
from trident.outputs.run_identity import ProcessMemory, RunIdentity
from trident.plan.nodes import (
    BestEffort,
    CountMetric,
    ForeachBatch,
    Sink,
    WriteDelta,
    WriteJdbc,
    WriteKafka,
    WriteParquet,
)

if TYPE_CHECKING:
    from trident.outputs.jdbc.outlet import JdbcOutlet

HandOver = Callable[[Sink, Result, int], None]
"""A function that hands a batch's frozen rows to an output, and returns when the output has them."""


def raise_no_outputs(sink: Sink, result: Result, txid: int) -> None:
    """Refuse a batch: the `HandOver` of a group without outputs."""
    raise TypeError(f"{sink.step}: this group was started without its outputs")


class Outlet(Protocol):
    """One opened output."""

    def take(self, result: Result, txid: int) -> None:
        """Take a batch's rows. Raises OutputError if that fails."""
        ...


class Outlets:
    """The outputs of one group, opened for a run.

    Raises OutputError for a Parquet output whose folder cannot be taken, or for an output into Kafka or a database that
    cannot connect.
    """

    def __init__(
        self,
        group: Group,
        engine: Engine,
        files: FileStore,
        scratch: Path,
        run: RunIdentity,
        listener: BatchListener,
        metrics: MetricsRegistry,
    ) -> None:
        self._listener, self._group, self._metrics = listener, group, metrics
        self._closing: list[BestEffortOutlet | KafkaOutlet | JdbcOutlet] = []
        """The objects to close at the end."""
        self._read_whole = partial(read_whole, files)
        self._engine, self._files, self._scratch, self._run = engine, files, scratch, run
        self._frames: Frames | None = None
        self._outlets: dict[Sink, Outlet] = {}
        try:
            for output in group.sinks:
                assert isinstance(output.step, Sink)
                self._outlets[output.step] = self.openers[type(output.step)](self, output.step)
        except BaseException:
            # A start that fails here gets no `Outlets` to close, so the branches' threads, the connections and the
            # session would stay open.
            self.close()
            raise

    def __call__(self, sink: Sink, result: Result, txid: int) -> None:
        """Hand a batch to one of the outputs; see `HandOver`."""
        self._outlets[sink].take(result, txid)

    def cancel(self) -> None:
        """Cancel the Spark jobs of the output that is handling a batch now."""
        if self._frames is not None:
            self._frames.cancel()

    def close(self) -> None:
        """Close the branches, the connections, and the Spark session that was created for the outputs."""
        for each in self._closing:
            each.close()
        if self._frames is not None:
            self._frames.close()

    def _parquet(self, sink: WriteParquet) -> Outlet:
        workers = self._shared_frames if self._engine.frames else None
        return ParquetOutlet(sink, self._run, self._files, workers)

    def _kafka(self, sink: WriteKafka) -> Outlet:
        outlet = KafkaOutlet(sink, self._run, self._tables)
        self._closing.append(outlet)
        return outlet

    def _jdbc(self, sink: WriteJdbc) -> Outlet:
        # Only here, since the addresses of servers need packages that take long to import.
        from trident.outputs.jdbc.outlet import JdbcOutlet

        outlet = JdbcOutlet(sink, self._run, self._tables)
        self._closing.append(outlet)
        return outlet

    def _delta(self, sink: WriteDelta) -> Outlet:
        from trident.outputs.delta.outlet import DeltaOutlet  # only here, like the one of a database

        return DeltaOutlet(sink, self._run, self._tables)

    def _metric(self, sink: CountMetric) -> Outlet:
        return MetricOutlet(
            sink, self._metrics, {"topology": self._run.topology, "group": self._group.name}, self._tables
        )

    def _function(self, sink: ForeachBatch) -> Outlet:
        if not sink.frame:
            return _FunctionOutlet(sink, lambda result: contextlib.nullcontext(self._read_whole(result)), self._run)
        lend = self._frame_lender(sink, self._shared_frames(), self._scratch / "outputs")
        return _FunctionOutlet(sink, lend, self._run)

    def _branch(self, sink: BestEffort) -> BestEffortOutlet:
        def open_outputs(group: Group) -> Outlets:
            scratch, run = self._scratch / sink.name, replace(self._run, memory=ProcessMemory())
            return Outlets(group, self._engine, self._files, scratch, run, self._listener, self._metrics)

        branch = BestEffortOutlet(
            sink,
            self._engine,
            self._scratch / "branches",
            self._run.epoch,
            self._read_whole,
            open_outputs,
            self._listener,
            self._group,
        )
        self._closing.append(branch)
        return branch

    def _tables(self, result: Result) -> Iterable[pa.Table]:
        """Return the rows of a result as tables.

        A large result is read file by file, so that the driver never holds all of it.
        """
        return [result] if isinstance(result, pa.Table) else read_frozen(self._files, result)

    def _shared_frames(self) -> Frames:
        """Return the object that creates DataFrames of frozen rows. The first call creates it, for all outputs."""
        if self._frames is None:
            assert self._engine.frames is not None, "`check_engine` has refused outputs that take DataFrames"
            self._frames = self._engine.frames()
        # One session is enough: outputs take a batch one after the other, so `cancel` stops only the jobs of one
        # output.
        return self._frames

    def _frame_lender(self, sink: Sink, frames: Frames, scratch: Path) -> "Lend":
        @contextlib.contextmanager
        def lend(result: Result) -> Iterator[Any]:
            try:
                yield frames.frame(result, sink.schema, scratch)
            finally:
                # After the call: a DataFrame is lazy, and the workers read these files while the function works on it.
                shutil.rmtree(scratch, ignore_errors=True)

        return lend

    openers: ClassVar[Mapping[type[Sink], Callable[[Any, Any], Outlet]]] = {
        ForeachBatch: _function,
        WriteParquet: _parquet,
        WriteKafka: _kafka,
        WriteJdbc: _jdbc,
        WriteDelta: _delta,
        CountMetric: _metric,
        BestEffort: _branch,
    }
    """The function that opens each class of outputs. `tests/plan/test_sinks.py` fails if a class is missing."""


Lend = Callable[[Result], contextlib.AbstractContextManager[Any]]
"""A function that lends the rows of a result, as a table or a DataFrame, for one call of user code."""


class _FunctionOutlet:
    """Calls a user's function with every batch."""

    def __init__(self, sink: ForeachBatch, lend: Lend, run: RunIdentity) -> None:
        self._sink, self._lend, self._run = sink, lend, run

    def take(self, result: Result, txid: int) -> None:
        where = f"{self._sink.step}: {self._sink.function_site}"
        with self._lend(result) as rows:
            # The last step before the call: the log refuses a driver that was taken over while it was suspended. For a
            # batch that an earlier run froze, attempt 0 may have been made without a record.
            attempt = self._run.memory.attempt(self._sink.name, txid, int(txid <= self._run.last_frozen))
            try:
                check_ran(self._sink.function(rows, txid, attempt), "process the rows in the function itself")
            except (Exception, SystemExit) as error:
                # SystemExit, too: a function that calls `sys.exit` fails its batch, and the error names the function.
                cause = translated(error)
                # Raised unchanged: a damaged frozen file is not the function's fault, and a permanent error must not be
                # tried again.
                if isinstance(cause, LogError) or (isinstance(cause, TridentError) and cause.hopeless):
                    raise cause from None
                # The cause of a connection error, a timeout or a full disk may be temporary: then the call is repeated
                # for `commitRetrySecs`. After other errors it is repeated up to `maxAttempts` times.
                may_pass = isinstance(cause, OSError) and not isinstance(cause, NEVER_PASSING)
                kind = OutputUnavailableError if may_pass else OutputError
                raise _function_error(kind, where, cause, txid, attempt) from error


def _function_error(kind: type[OutputError], where: str, cause: BaseException, txid: int, attempt: int) -> OutputError:
    text = error_text(cause)
    of_spark = cause.of_spark if isinstance(cause, UserFunctionError) else None
    if of_spark is not None and cause.__cause__ is not None:  # of the function's DataFrames
        cause, text = cause.__cause__, of_spark
    what = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
    return kind(f"{where} raised {what}; it was called with batch {txid}, attempt {attempt}")
