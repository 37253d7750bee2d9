"""The writer of a Parquet output. Every batch has its own files, which become visible all at once."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from trident.base.crash_points import reach
from trident.base.errors import OutputConflictError
from trident.base.types import ddl
from trident.compiler.results import Result
from trident.compiler.spark.frozen_files import read_frozen
from trident.compiler.spark.frozen_frames import Frames
from trident.compiler.spark.parquet_files import Part, Target, os_trouble, write_parts
from trident.files.store import FileStore
from trident.outputs.parquet_folder import Owner
from trident.outputs.parquet_place import parquet_place
from trident.plan.nodes import WriteParquet


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """The run that writes: its topology, the uuid of its log, its epoch, and the last txid frozen before the run."""

    topology: str
    log: str
    epoch: int
    last_frozen: int


class ParquetOutlet:
    """Writes every batch once. `workers` returns what writes large batches; if it is None, the driver writes them.

    `files` is the place of frozen files.
    """

    def __init__(
        self, sink: WriteParquet, run: RunIdentity, files: FileStore, workers: Callable[[], Frames] | None
    ) -> None:
        self._sink, self._run, self._files, self._workers = sink, run, files, workers
        self._place = parquet_place(sink.path, sink.storage)
        self._owner = Owner(run.topology, sink.name, run.log, ddl(sink.schema), sink.partitions)
        try:
            self._place.take(self._owner, run.last_frozen, run.epoch)
        except OSError as error:
            raise os_trouble(error, f"{sink.step}: the folder {self._place} cannot be written") from error

    def take(self, result: Result, txid: int) -> None:
        """Publish the batch, unless it is already published. An empty batch leaves no files."""
        try:
            if self._is_published(txid, result.num_rows) or not result.num_rows:
                return
            if self._place.owner() != self._owner:
                raise OutputConflictError(
                    f"{self._sink.step}: the folder {self._place} is no longer this output's; start the topology anew"
                )
            self._publish(result, txid)
        except OSError as error:
            raise os_trouble(error, f"{self._sink.step}: batch {txid} was not written to {self._place}") from error

    def _is_published(self, txid: int, rows: int) -> bool:
        """Return whether the batch is published. Raises OutputConflictError if it was published with other rows."""
        published = self._place.rows(txid)
        if published is not None and published != rows:
            raise OutputConflictError(
                f"{self._sink.step}: batch {txid} in {self._place} has {published} rows, the log froze {rows}: one of "
                "them is not this topology's. Restore the newest log, or give the output another path"
            )
        return published is not None

    def _publish(self, result: Result, txid: int) -> None:
        with self._place.target(self._owner, txid, self._run.epoch) as target:
            parts = self._write_files(result, target)
            self._place.seal(target, self._owner, txid, parts)
            reach("output.staged")
            if not self._place.publish(target, self._owner, txid, parts):
                self._is_published(txid, result.num_rows)
            reach("output.published")

    def _write_files(self, result: Result, target: Target) -> list[Part]:
        if isinstance(result, pa.Table):
            return list(write_parts([(0, result)], target, self._sink.partitions))
        parts = None
        if self._workers is not None:
            parts = self._workers().write_parquet(result, target, self._sink.partitions)
        if parts is None:
            tables = enumerate(read_frozen(self._files, result))
            parts = list(write_parts(tables, target, self._sink.partitions))
        return parts
