"""Frozen rows as DataFrames: what is large is read by the workers where it lies."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from trident.compiler.engine import FrozenFiles, Result
from trident.compiler.freeze import read_frozen
from trident.compiler.sessions import active_session_kept, released, run_session
from trident.compiler.worker import Batches, guarded
from trident_spouts.emission import ArrowEmission


class Frames(Protocol):
    """Makes DataFrames of frozen rows."""

    def frame(self, result: Result, schema: StructType, scratch: Path) -> DataFrame:
        """The rows as a DataFrame of these fields, good until the frozen content or `scratch` goes."""
        ...

    def close(self) -> None: ...


class SparkFrames:
    """Frozen rows in a session of their own beside `spark`: the same runtime confs, catalog and database."""

    def __init__(self, spark: SparkSession, checkpoint: Path | None) -> None:
        self.session = run_session(spark)
        self._checkpoint = checkpoint

    def frame(self, result: Result, schema: StructType, scratch: Path) -> DataFrame:
        """See `Frames.frame`."""
        with active_session_kept():
            if isinstance(result, FrozenFiles):
                return self._read(result, schema)
            scratch.mkdir(parents=True, exist_ok=True)
            frame = ArrowEmission(result).dataframe(self.session, scratch)
            return frame.to(schema) if frame.schema != schema else frame

    def _read(self, frozen: FrozenFiles, schema: StructType) -> DataFrame:
        """A task a file. Each is checked against what was frozen before a row of it is seen."""
        assert self._checkpoint is not None, "files are only written under a checkpoint"
        count = len(frozen.files)
        numbers = self.session.range(0, count, 1, max(1, count))
        return numbers.mapInArrow(ReadFrozen(str(self._checkpoint), frozen), schema)

    def close(self) -> None:
        """Give the session back."""
        released(self.session)


@dataclass(frozen=True, slots=True)
class ReadFrozen:
    """From numbers of files to their rows."""

    checkpoint: str
    frozen: FrozenFiles

    def __call__(self, batches: Batches) -> Batches:
        return guarded(self._run, batches)

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                one = FrozenFiles(self.frozen.folder, (self.frozen.files[number],), self.frozen.schema)
                for table in read_frozen(Path(self.checkpoint), one):
                    yield from table.to_batches()
