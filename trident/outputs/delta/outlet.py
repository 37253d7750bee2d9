"""The writer of an output into a Delta table.

    start        one version of the table, which puts this driver's lease into the record
    each batch   load the table; if the record is another driver's, stop; if it has the batch's txid, nothing;
                 else one version with the rows, and the batch's txid in the record

Delta makes a version by creating the one file with its number, and refuses it if another version has changed the record
since the table was loaded. So no lock is needed: of two attempts to write a batch, by this driver or another one, at
most one becomes a version, also if an attempt was believed lost.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from trident.base.change_kinds import CHANGE
from trident.base.crash_points import reach
from trident.base.errors import OutputError, OutputRefusedError, OutputUnavailableError, TridentError
from trident.base.short_texts import one_line
from trident.base.spark_types import arrow_schema
from trident.compiler.states.shapes import nullable
from trident.files.delta_folder import UNSAFE, TableFolder, deltalake
from trident.frozen.results import Result
from trident.outputs.delta.history import TableHistory
from trident.outputs.delta.record import DeltaRecord, digest_of
from trident.outputs.delta.table import check_fits, check_vacant
from trident.outputs.delta.writing import DeltaWriter, values_of
from trident.outputs.run_identity import RunIdentity
from trident.outputs.writer_record import RecordRules
from trident.plan.nodes import WriteDelta

ReadTables = Callable[[Result], Iterable[pa.Table]]

_NEED = "writeDelta needs the package deltalake"
_OF_FILES = re.compile(
    r"os error \d+|Could not create local directory|Generic (LocalFileSystem|S3|GCS|MicrosoftAzure|HTTP|Config) error"
)
"""Errors of a disk or an object store, which deltalake raises as errors of a table or of Parquet, too."""
_REFUSED = re.compile(
    r"append-only|40[13] (Forbidden|Unauthorized)|(lacked the necessary privileges|NoSuchBucket|not yet implemented)"
)
"""Permanent errors: missing rights at a store, a missing bucket, a store without conditional writes."""
_START = "the start"
_STARTS = 5
"""The most attempts to take the output while other writers change the table."""


class DeltaOutlet:
    """Writes every batch once. It takes the output when it is created, and creates a missing table.

    Raises OutputUnavailableError if the place does not answer, OutputRefusedError if the table does not fit the fields,
    and OutputConflictError if the record of the output does not belong to this run.
    """

    def __init__(self, sink: WriteDelta, run: RunIdentity, read: ReadTables) -> None:
        self._sink, self._target, self._read = sink, sink.delta, read
        self._module = deltalake(_NEED)
        self._folder = TableFolder(sink.delta.uri, sink.delta.options, sink.step)
        self._fields = sink.schema
        if self._target.changes:
            self._fields = type(sink.schema)([field for field in sink.schema.fields if field.name != CHANGE])
        self._columns = nullable(arrow_schema(self._fields))
        self._writer = DeltaWriter(self._target, self._columns, self._module)
        self._record = DeltaRecord(f"{run.topology}/{sink.name}", sink.step, self._module)
        self._rules = RecordRules(sink, run, f"{self._record.place} of the Delta table {self._target.uri}")
        self._history = TableHistory(self._folder, self._record.application)
        self._failed: BaseException | None = None
        """The error with which the frozen rows could not be read. Delta would raise its own instead."""
        self._check_renames()
        self._call(self._begin, _START)

    def take(self, result: Result, txid: int) -> None:
        """Write the batch, unless the table already has it. An empty batch needs no version."""
        if result.num_rows:
            self._call(lambda: self._take(result, txid), f"batch {txid}")
            reach("output.published")
            self._rules.took(txid)

    def _begin(self) -> None:
        """Take the output. Other writers of the table may create versions meanwhile."""
        for left in reversed(range(_STARTS)):
            try:
                self._claim()
                return
            except self._module.exceptions.DeltaError as error:
                if not left or not (self._others(error) or "already exists" in str(error)):
                    raise

    def _claim(self) -> None:
        table = self._load()
        held = None if table is None else self._record.read(table)
        record = self._rules.claim(held)
        properties = self._record.properties(record)
        if table is None:
            check_vacant(self._folder)
            table = self._module.DeltaTable.create(
                self._folder.uri,
                self._columns,
                partition_by=list(self._target.partitions),
                storage_options=self._folder.storage_options,
                commit_properties=properties,
            )
            self._history.begin(table.version())
        else:
            check_fits(table, self._target, self._fields, self._refused)
            self._history.begin(table.version())
            if held is None and not self._target.key:  # with a key, rows that come again replace themselves
                outputs = self._record.outputs(table, self._history.applications)
                self._rules.warn_of_namesakes(f"the table {self._target.uri}", outputs)
            self._look(table)
            self._writer.note(table, properties)

    def _take(self, result: Result, txid: int) -> None:
        table = self._load()
        held = None if table is None else self._record.read(table)
        there = self._rules.has(held, txid, lambda: digest_of(values_of(self._tables(result))))
        self._look(table)
        if there:
            return
        check_fits(table, self._target, self._fields, self._refused)  # it may be altered while the topology runs
        record = self._rules.written(txid, digest_of(values_of(self._tables(result))))
        reach("output.staged")
        self._writer.write(table, lambda: self._tables(result), self._record.properties(record))
        table.update_incremental()
        self._look(table)

    def _load(self) -> Any:
        """Return the table as it is now; None if there is none."""
        try:
            return self._module.DeltaTable(self._folder.uri, storage_options=self._folder.storage_options)
        except self._module.exceptions.TableNotFoundError:
            return None

    def _look(self, table: Any) -> None:
        """Look at the new versions of the table. Raises OutputConflictError if one restored an older version."""
        restored = self._history.look(table.version())
        if restored is not None:
            raise self._rules.conflict(
                f"is newer than the rows: version {restored} of the table restored an older version, which may lack "
                f"batches of the output. Restore the version before it; or give the output another name=: it then "
                f"continues after the last committed batch, without the batches that are missing"
            )

    def _tables(self, result: Result) -> Iterator[pa.Table]:
        self._failed = None
        try:
            yield from self._read(result)
        except BaseException as error:
            self._failed = error
            raise

    # --- errors --------------------------------------------------------------------------------------------------

    def _call(self, work: Callable[[], None], what: str) -> None:
        try:
            work()
        except TridentError:
            raise
        except BaseException as error:  # deltalake raises errors of no class of its own, too, and panics
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            failed, self._failed = self._failed, None
            raise failed or self._error(error, what) from error

    def _others(self, error: BaseException) -> bool:
        """Return whether another writer of the table caused an error."""
        return isinstance(error, self._module.exceptions.CommitFailedError) and not _REFUSED.search(str(error))

    def _passes(self, error: BaseException) -> bool:
        """Return whether the cause of an error is temporary: a full disk, a store that does not answer."""
        ours = isinstance(error, OSError | self._module.exceptions.TableNotFoundError)
        return (ours or bool(_OF_FILES.search(str(error)))) and not _REFUSED.search(str(error))

    def _error(self, error: BaseException, what: str) -> OutputError:
        said = one_line(error).partition(" 0: <unknown>")[0].partition("<?xml")[0]  # without a traceback or a page
        again, kept = "", ""
        if what != _START:
            again = f"; {what} is written again, unless it is there"
            kept = (
                ". The batch stays frozen, and the next start writes it: change the table so that it takes the batch, "
                "and keep such tuples out of later batches by a filter before writeDelta"
            )
        if self._others(error):
            why = f"another writer changed the table meanwhile ({said}){again}"
            return OutputUnavailableError(f"{self._folder.shown}: {why}")
        if self._passes(error):
            return OutputUnavailableError(f"{self._folder.shown}: {said}{again}")
        hint = " (the store needs conditional writes)" if "not yet implemented" in said else ""
        return self._refused(f"it refuses {what}: {said}{hint}{kept}")

    def _refused(self, why: str) -> OutputRefusedError:
        return OutputRefusedError(f"{self._folder.shown}: {why}")

    def _check_renames(self) -> None:
        """Refuse process settings under which deltalake may replace the version of another writer."""
        unsafe = next((name for name in os.environ if UNSAFE in name.lower()), None)
        if unsafe is not None:
            raise self._refused(
                f"the variable {unsafe} is set, and then two writers may make the same version of a table: unset it. "
                f"An object store needs conditional writes (for S3, storageOptions={{'conditional_put': 'etag'}})"
            )
