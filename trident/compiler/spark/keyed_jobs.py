"""Updates of a state by Spark's workers, key by key: one job reads the frozen tuples and writes the results into files.

For each part of the tuples, a first task reads the part and divides it by key. It sends one row to each second task,
with the tuples as bytes. So Spark moves a few large rows, and the types of the tuples do not change. A second task gets
all tuples of some keys. It sorts the parts into their order, computes the update, and writes the results into files. No
state is changed yet: if a task is retried, doubled or late, or belongs to a driver that was replaced, it leaves only a
file to which nothing refers.

An update by event time also changes keys that are due and have no tuple in the batch. For these keys the job has
additional first tasks, one for each group of the state. Each reads its keys from the state, and divides them by key
too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trident.base.errors import StateError, TridentError
from trident.base.spark_types import arrow_schema, spark_schema
from trident.base.value_conversion import conform
from trident.compiler.columns.function_errors import decoded, encoded
from trident.compiler.keyed_job import KeyedJob, KeyedResult
from trident.compiler.keyed_updates import OwnDue
from trident.compiler.partition_functions import Batches, OnWorker
from trident.compiler.spark.frozen_writes import MANIFEST, manifest_of
from trident.compiler.states.overlay import Stored
from trident.compiler.year_checks import check_years
from trident.frozen.files import write_frozen
from trident.frozen.results import FrozenFiles
from trident_spouts.spark_workers import numbers_frame, numbers_of

_CUT = pa.schema([("task", pa.int32()), ("part", pa.int32()), ("tuples", pa.binary()), ("refusal", pa.string())])
"""The row that carries tuples of one part to the task that has their keys. A negative part means keys that are due, or
the reason why they could not be read."""

REPORT = pa.schema(
    [
        ("entered", pa.int64()),
        ("dropped", pa.int64()),
        ("output", pa.int64()),
        *MANIFEST,
        ("refusal", pa.string()),
    ]
)
"""The row in which a task reports how many tuples entered and describes a file that it wrote, or reports its error."""


def frame_of(job: KeyedJob, session: SparkSession) -> DataFrame:
    """Return the reports of the tasks as a DataFrame. The job has not run yet."""
    cut, update = functions_of(job, job.tasks)
    parts = numbers_frame(session, job.parts).mapInArrow(cut, spark_schema(_CUT))
    return parts.repartitionById(job.tasks, "task").mapInArrow(update, spark_schema(REPORT))


def functions_of(job: KeyedJob, tasks: int) -> tuple["CutByKey", "UpdateKeys"]:
    """Return two functions: one divides each part of the tuples by task, the other computes the update in each task."""
    return CutByKey(job, tasks), UpdateKeys(job)


def result_of(job: KeyedJob, reports: pa.Table) -> KeyedResult:
    """Return the update's result from the reports of its tasks. Raises the first error that a task reported."""
    rows = reports.to_pylist()
    for row in rows:
        if row["refusal"] is not None:
            raise decoded(row["refusal"]) or StateError(str(row["refusal"]))
    entered = sum(row["entered"] for row in rows)
    if job.tuples.rows is not None and entered != job.tuples.rows:
        step = job.update.step.step
        raise StateError(
            f"{step}: the workers applied {entered} tuples to the state, but the batch has {job.tuples.rows}"
        )
    puts, *emitted = (_files(job, rows, number, schema) for number, schema in enumerate(job.outputs))
    return KeyedResult(puts, emitted[0] if emitted else None, sum(row["dropped"] for row in rows))


def _files(job: KeyedJob, rows: list[dict[str, Any]], output: int, schema: pa.Schema) -> FrozenFiles:
    described = [{name: row[name] for name in MANIFEST.names} for row in rows if row["output"] == output]
    return manifest_of(pa.Table.from_pylist(described, MANIFEST), job.wanted.folder.folder, schema)


@dataclass(frozen=True, slots=True)
class CutByKey(OnWorker):
    """A function that divides parts of the tuples by task.

    It returns one row for each part and task with keys of the part.

    The numbers after those of the parts are groups of the state, whose due keys take the place of tuples.
    """

    job: KeyedJob
    tasks: int

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        tuples, snapshot, clock = self.job.tuples, self.job.snapshot, self.job.clock
        for number in numbers_of(batches):
            group = number - len(tuples.shares)
            if group < 0:
                yield from self._cut(number, tuples.table(number))
                continue
            assert clock is not None
            try:
                for keys in snapshot.due_in(group, clock.after):
                    yield from self._cut(-1 - group, keys)
            except TridentError as error:
                yield _sent(0, -1 - group, None, str(encoded(error)))

    def _cut(self, part: int, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        if not rows.num_rows:
            return
        owners = self.job.update.owners(rows, self.tasks)
        order = np.argsort(owners, kind="stable")  # the tuples of a key stay in their order
        rows = rows.take(pa.array(order)).combine_chunks()
        ends = np.cumsum(np.bincount(owners, minlength=self.tasks)).tolist()
        for task, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if end > start:
                yield _sent(task, part, _packed(rows.slice(start, end - start)), None)


def _sent(*values: Any) -> pa.RecordBatch:
    arrays = [pa.array([value], field.type) for value, field in zip(values, _CUT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_CUT)


def _packed(tuples: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tuples.schema) as writer:
        writer.write_table(tuples)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


@dataclass(frozen=True, slots=True)
class UpdateKeys(OnWorker):
    """A function from all tuples of some keys to reports. It updates the state's values of these keys and writes files.

    An error becomes a row and does not fail the task: Spark would run the task again although it cannot succeed.
    """

    job: KeyedJob

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        parts: dict[tuple[int, int], pa.Table] = {}
        due = list[pa.Table]()
        for batch in batches:
            for refusal in batch.column("refusal").drop_null().to_pylist():
                yield _report({"refusal": refusal})
                return
            numbers = zip(batch.column("part").to_pylist(), batch.column("task").to_pylist(), strict=True)
            for number, packed in zip(numbers, batch.column("tuples"), strict=True):
                with pa.ipc.open_stream(packed.as_buffer()) as reader:
                    table = reader.read_all()
                if number[0] < 0:
                    due.append(table)
                else:
                    parts[number] = table
        if not parts and not due:
            return
        entering = arrow_schema(self.job.tuples.schema).empty_table()
        tuples = pa.concat_tables([parts[number] for number in sorted(parts)]) if parts else entering
        parts.clear()
        try:
            yield from self._updated(tuples, due)
        except TridentError as error:
            yield _report({"refusal": str(encoded(error))})

    def _updated(self, tuples: pa.Table, due: list[pa.Table]) -> Iterator[pa.RecordBatch]:
        job, folder = self.job, self.job.wanted.folder
        stored: Stored = job.snapshot
        if job.clock is not None:
            none = tuples.select(list(job.update.keys)).slice(0, 0)
            stored = OwnDue(job.snapshot, pa.concat_tables(due).combine_chunks() if due else none)
        updated = job.update(tuples, stored, job.txid, job.time, job.clock)
        yield _report({"entered": tuples.num_rows, "dropped": updated.dropped})
        for number, (table, schema) in enumerate(zip((updated.puts, updated.emitted), job.outputs, strict=False)):
            if table is None or not table.num_rows:
                continue
            check_years(f"state {job.update.step.state.name!r}, batch {job.txid}", table, table.columns)
            batches = iter(conform(table, schema).to_batches())
            file = write_frozen(batches, folder.files, folder.folder, f"update{number}", schema)
            assert file is not None
            described = {"name": file.name, "bytes": file.bytes, "rows": file.rows, "checksum": file.checksum}
            yield _report({"output": number, **described})


def _report(values: dict[str, Any]) -> pa.RecordBatch:
    values = {"entered": 0, "dropped": 0, **values}
    return pa.RecordBatch.from_arrays(
        [pa.array([values.get(field.name)], field.type) for field in REPORT], schema=REPORT
    )
