"""Frozen rows as DataFrames. The workers read the files of large results."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from trident.base.errors import OutputError, SparkFailedError, TridentError
from trident.base.spark_types import spark_schema
from trident.compiler.parquet_files import PART, Part, Target, WriteFrozen
from trident.compiler.partition_functions import Batches, OnWorker
from trident.compiler.spark.errors import translated
from trident.compiler.spark.executor_reach import ReachedStores
from trident.compiler.spark.sessions import active_session_kept, released, run_session
from trident.files.executor_files import check_found
from trident.files.store import FileStore
from trident.frozen.files import FROZEN, read_frozen
from trident.frozen.results import FrozenFiles, Result
from trident_spouts.emission import ArrowEmission
from trident_spouts.spark_workers import numbers_of


class SparkFrames:
    """Makes DataFrames of frozen rows, in a session separate from `spark`.

    The session has the same runtime confs, catalog and database.
    """

    def __init__(self, spark: SparkSession, files: FileStore | None, stores: ReachedStores) -> None:
        self.session = run_session(spark)
        self._kept, self._stores = files, stores

    def frame(self, result: Result, schema: StructType, scratch: Path) -> DataFrame:
        """Return a DataFrame; see `Frames.frame`."""
        with active_session_kept(self.session):
            if isinstance(result, FrozenFiles):
                if self._reaches(self._files.below(FROZEN)):
                    return self._read(result, schema)
                result = pa.concat_tables(read_frozen(self._files, result))
            scratch.mkdir(parents=True, exist_ok=True)
            frame = ArrowEmission(result).dataframe(self.session, scratch)
            return frame.to(schema) if frame.schema != schema else frame

    def _read(self, frozen: FrozenFiles, schema: StructType) -> DataFrame:
        """Return the rows of frozen files, one task for each file.

        Before a row of a file is read, the file is compared with its frozen checksum.
        """
        return self._numbers(frozen).mapInArrow(ReadFrozen(self._files, frozen), schema)

    @property
    def _files(self) -> FileStore:
        assert self._kept is not None, "files are written only if they outlive the attempt"
        return self._kept

    def _reaches(self, files: FileStore) -> bool:
        """Return whether the workers reach this store of files."""
        return self._stores.reaches(self.session, files)

    def _numbers(self, frozen: FrozenFiles) -> DataFrame:
        """Return a DataFrame of the numbers of the files, each number in a separate partition."""
        count = len(frozen.files)
        return self.session.range(0, count, 1, max(1, count))

    def write_parquet(self, frozen: FrozenFiles, target: Target, partitions: Sequence[str]) -> list[Part] | None:
        """Write Parquet files by the workers; see `Frames.write_parquet`."""
        if not self._reaches(target.place) or not self._reaches(self._files.below(FROZEN)):
            return None
        function = WriteFrozen(self._files, frozen, target, tuple(partitions))
        try:
            rows = self._numbers(frozen).mapInArrow(function, spark_schema(PART)).toArrow()
        except Exception as error:
            raise _ours(error, self.session) from error
        parts = [Part(**row) for row in rows.to_pylist()]
        written = sum(part.rows for part in parts)
        if written != frozen.num_rows:
            raise OutputError(f"the workers wrote {written} rows to {target}, but the batch has {frozen.num_rows}")
        try:
            check_found(target.files, {target.stored_as(part): part.bytes for part in parts})
        except SparkFailedError:
            self._stores.miss(target.place)
            raise
        return parts

    def cancel(self) -> None:
        """Stop the jobs; see `Frames.cancel`."""
        threading.Thread(target=self._interrupt, name="trident-cancel", daemon=True).start()

    def _interrupt(self) -> None:
        with suppress(PySparkException):  # the session is gone, and its jobs with it
            self.session.interruptAll()

    def close(self) -> None:
        """Release the session."""
        released(self.session)


def _ours(error: Exception, session: SparkSession) -> TridentError:
    """Return the library's error for a failed job; an OutputError if no other error fits."""
    better = translated(error, session=session)
    return better if isinstance(better, TridentError) else OutputError(f"the workers could not write a batch: {better}")


@dataclass(frozen=True, slots=True)
class ReadFrozen(OnWorker):
    """A function that workers call with numbers of files; it yields the rows of these files."""

    files: FileStore
    frozen: FrozenFiles

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for number in numbers_of(batches):
            one = FrozenFiles(self.frozen.folder, (self.frozen.files[number],), self.frozen.schema)
            for table in read_frozen(self.files, one):
                yield from table.to_batches()
