"""Puts of a frozen batch into a state by Spark's workers: one task for each part of a frozen file.

A task that is retried, doubled or late changes nothing, because the store compares each of its puts with the lease, the
open record and the txid of every key (`trident_state.store.Shared`). A refusal becomes a row and does not fail the
task, because Spark would run the task again although it cannot succeed.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from trident.base.errors import SparkFailedError, StateError, StateValueError, TridentError
from trident.base.spark_types import spark_schema
from trident.base.value_conversion import OutsideYears
from trident.base.years import OUTSIDE_YEARS
from trident.compiler.columns.function_errors import decoded, encoded
from trident.compiler.frozen_parts import Part, ReadPart, parts_of
from trident.compiler.keyed_job import KeyedJob, KeyedResult
from trident.compiler.latest_times import LATEST, LatestTimes
from trident.compiler.partition_functions import Batches, OnWorker
from trident.compiler.spark.errors import translated
from trident.compiler.spark.executor_reach import ReachedStores
from trident.compiler.spark.keyed_jobs import frame_of, result_of
from trident.compiler.spark.sessions import active_session_kept, released, run_session
from trident.files.store import FileStore
from trident.frozen.files import FROZEN
from trident.frozen.results import FrozenFiles
from trident_spouts.spark_workers import numbers_frame, numbers_of
from trident_state.store import SharedBatch, SharedSnapshot
from trident_state.store_messages import Put

REPORT = pa.schema(
    [
        ("part", pa.int64()),
        ("counts", pa.list_(pa.int64())),
        ("moved", pa.int64()),
        ("removed", pa.list_(pa.binary())),
        ("files", pa.list_(pa.string())),
        ("refusal", pa.string()),
    ]
)
"""The row in which a task reports the outcome of its part: the fields of a `Put`, or why the store refused."""

_PROBES = 4


class SparkPuts:
    """Puts by Spark's workers, in a session separate from `spark`.

    The session is opened when it is first needed. `stores` has the stores of files that the workers reach.
    """

    def __init__(self, spark: SparkSession, files: FileStore, stores: ReachedStores) -> None:
        self._spark, self._files, self._stores = spark, files, stores
        self._lock = threading.Lock()
        self._opened: SparkSession | None = None
        self._closed = False

    @property
    def ready(self) -> bool:
        """Return True; see `Puts.ready`."""
        return True

    @property
    def _session(self) -> SparkSession:
        with self._lock:
            if self._closed:
                raise SparkFailedError("the run has ended: the workers write no more batches")
            if self._opened is None:
                self._opened = run_session(self._spark)
            return self._opened

    def put(self, frozen: FrozenFiles, batch: SharedBatch) -> list[Put]:
        """Put the rows of every file; see `Puts.put`."""
        parts = parts_of(frozen)
        if not parts:
            return []
        put = PutFrozen(ReadPart(self._files, frozen), parts, batch)
        reports = self._over_numbers(len(parts), put).to_pylist()
        for report in reports:
            if report["refusal"] is not None:
                raise _refused(report)
        by_part = {report["part"]: report for report in reports}
        for number, part in enumerate(parts):
            counted = sum(by_part[number]["counts"]) if number in by_part else 0
            if counted != part.rows:
                name = frozen.files[part.file].name
                raise StateError(
                    f"{batch.where}: the workers wrote {counted} keys of the frozen file {name}, which has "
                    f"{part.rows} keys"
                )
        return [
            Put(r["counts"], r["moved"], pa.array(r["removed"], pa.binary()), tuple(r["files"]))
            for r in by_part.values()
        ]

    def update(self, job: KeyedJob) -> KeyedResult:
        """Compute an update; see `Puts.update`."""
        return result_of(job, self._collected(partial(frame_of, job), job.tag))

    def cancel(self, job: KeyedJob | LatestTimes) -> None:
        """Stop a job; see `Puts.cancel`."""
        threading.Thread(target=self._interrupt, args=(job.tag,), name="trident-cancel", daemon=True).start()

    def _interrupt(self, tag: str) -> None:
        opened = self._opened
        if opened is not None:
            with suppress(PySparkException):  # the session is gone, and its jobs with it
                opened.interruptTag(tag)

    def latest(self, times: LatestTimes) -> pa.Table:
        """Return the latest time in a field; see `Puts.latest`."""
        schema, parts = spark_schema(LATEST), len(times.tuples.shares)
        return times.table(self._collected(lambda s: numbers_frame(s, parts).mapInArrow(times, schema), times.tag))

    def sees_files(self, needed: bool = False) -> bool:
        """Return whether the workers reach the frozen files; see `Puts.sees_files`."""
        session = self._session
        with active_session_kept(session):
            return self._stores.reaches(session, self._files.below(FROZEN), needed)

    def miss_files(self) -> None:
        """Note that the workers do not reach the frozen files; see `Puts.miss_files`."""
        self._stores.miss(self._files.below(FROZEN))

    def check_reached(self, shared: SharedBatch | SharedSnapshot) -> None:
        """Check that the workers reach the files and the state; see `Puts.check_reached`."""
        if not self.sees_files(needed=True):
            raise StateError(
                f"{shared.where}: the executors do not reach the frozen files at {self._files.address}: use a disk "
                f"that all machines share, an object store or HDFS (filesLocation=)"
            )
        for report in self._over_numbers(_PROBES, ReachState(shared)).to_pylist():
            if report["refusal"] is not None:
                raise _refused(report)

    def _over_numbers(self, tasks: int, function: Any) -> pa.Table:
        schema = spark_schema(REPORT)
        return self._collected(lambda session: numbers_frame(session, tasks).mapInArrow(function, schema))

    def _collected(self, frame: Callable[[SparkSession], DataFrame], tag: str | None = None) -> pa.Table:
        """Run a frame as one job and return its rows. Another thread can stop the job by `tag`."""
        try:
            session = self._session
            with active_session_kept(session):
                if tag is None:
                    return frame(session).toArrow()
                session.addTag(tag)
                try:
                    return frame(session).toArrow()
                finally:
                    session.removeTag(tag)
        except Exception as error:
            better = translated(error, session=self._spark)
            if better is error:
                raise
            raise better from error

    def close(self) -> None:
        """Stop running jobs, and release the session. A task that still runs is refused, or changes nothing."""
        with self._lock:
            self._closed, opened, self._opened = True, self._opened, None
        if opened is not None:
            with suppress(PySparkException):  # the session is gone, and its jobs with it
                opened.interruptAll()
            released(opened)


@dataclass(frozen=True, slots=True)
class PutFrozen(OnWorker):
    """A function from numbers of parts to reports. It puts each part into the state."""

    read: ReadPart
    parts: tuple[Part, ...]
    batch: SharedBatch

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for number in numbers_of(batches):
            try:
                rows = self.read(self.parts[number])
                last = rows.num_columns - 1
                put = self.batch.put([(rows.select(list(range(last))), rows.column(last))])
            except TridentError as error:
                yield _refusal(number, error)
            except (OutsideYears, OverflowError) as error:
                text = getattr(error, "text", error)
                yield _refusal(number, StateValueError(f"{self.batch.where}: the time {text}: {OUTSIDE_YEARS}"))
            else:
                yield _report(number, put.counts, put.moved, put.removed.to_pylist(), list(put.files), None)


@dataclass(frozen=True, slots=True)
class ReachState(OnWorker):
    """A function that yields a report if this worker does not reach the state's server."""

    shared: SharedBatch | SharedSnapshot

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for number in numbers_of(batches):
            try:
                self.shared.check_reached()
            except TridentError as error:
                yield _refusal(number, error)


def _report(number: int, *fields: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([value], field.type) for value, field in zip((number, *fields), REPORT, strict=True)], schema=REPORT
    )


def _refusal(number: int, error: TridentError) -> pa.RecordBatch:
    return _report(number, None, None, None, None, str(encoded(error)))


def _refused(report: dict[str, Any]) -> TridentError:
    """Return the error with which the store refused a put in the worker."""
    return decoded(report["refusal"]) or StateError(str(report["refusal"]))
