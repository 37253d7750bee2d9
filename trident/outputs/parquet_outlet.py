"""The writer of a Parquet output: every batch is a folder of its own, which becomes visible all at once."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from trident.base.crash_points import reach
from trident.base.errors import OutputConflictError
from trident.base.types import ddl
from trident.compiler.results import Result
from trident.compiler.spark.frozen_files import read_frozen
from trident.compiler.spark.frozen_frames import Frames
from trident.compiler.spark.parquet_files import Part, os_trouble, write_parts
from trident.files.store import FileStore
from trident.outputs import parquet_folder
from trident.plan.nodes import WriteParquet


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """The run that writes: topology, uuid of the log, epoch, and the last txid that was frozen before the run."""

    topology: str
    log: str
    epoch: int
    last_frozen: int


class ParquetOutlet:
    """Writes every batch once. `workers` returns what writes large batches; if it is None, the driver writes them."""

    def __init__(
        self, sink: WriteParquet, run: RunIdentity, files: FileStore, workers: Callable[[], Frames] | None
    ) -> None:
        self._sink, self._run, self._files, self._workers = sink, run, files, workers
        self._path = Path(sink.path)
        self._owner = parquet_folder.Owner(run.topology, sink.name, run.log, ddl(sink.schema), sink.partitions)
        try:
            parquet_folder.take_folder(self._path, self._owner, run.last_frozen, run.epoch)
        except OSError as error:
            raise os_trouble(error, f"{sink.step}: the folder {self._path} cannot be written") from error

    def take(self, result: Result, txid: int) -> None:
        """Publish the batch, unless it is published already. An empty batch makes no folder."""
        try:
            if self._is_published(txid, result.num_rows) or not result.num_rows:
                return
            if parquet_folder.owner_of(self._path) != self._owner:
                raise OutputConflictError(
                    f"{self._sink.step}: the folder {self._path} is no longer this output's; start the topology anew"
                )
            self._publish(result, txid)
        except OSError as error:
            raise os_trouble(error, f"{self._sink.step}: batch {txid} was not written to {self._path}") from error

    def _is_published(self, txid: int, rows: int) -> bool:
        """Return whether the batch is published. Raises OutputConflictError if it was published with other rows."""
        batch = parquet_folder.batch_of(self._path, txid)
        if batch is not None and batch.rows != rows:
            raise OutputConflictError(
                f"{self._sink.step}: batch {txid} in {self._path} has {batch.rows} rows, the log froze {rows}: one of "
                "them is not this topology's. Restore the newest log, or give the output another path"
            )
        return batch is not None

    def _publish(self, result: Result, txid: int) -> None:
        staged = parquet_folder.make_staged_folder(self._path, self._run.log, txid, self._run.epoch)
        try:
            parquet_folder.seal(staged, txid, self._write_files(result, staged))
            reach("output.staged")
            if not parquet_folder.publish(self._path, staged, txid):
                self._is_published(txid, result.num_rows)
            reach("output.published")
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def _write_files(self, result: Result, staged: Path) -> list[Part]:
        if isinstance(result, pa.Table):
            return list(write_parts([result], staged, self._sink.partitions))
        parts = None
        if self._workers is not None:
            parts = self._workers().write_parquet(result, staged, self._sink.partitions)
        if parts is None:
            parts = list(write_parts(read_frozen(self._files, result), staged, self._sink.partitions))
        return parts
