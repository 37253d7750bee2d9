"""The writer of a Parquet output. Every batch has separate files, which become visible all at once."""

from collections.abc import Callable

import pyarrow as pa

from trident.base.crash_points import reach
from trident.base.errors import OutputConflictError
from trident.base.spark_types import ddl
from trident.compiler.engine import Frames
from trident.compiler.parquet_files import Part, Target, os_trouble, write_parts
from trident.files.store import FileStore
from trident.frozen.files import read_frozen
from trident.frozen.results import Result
from trident.log.protocol import OutputProgress
from trident.outputs.parquet_content import digest_of, same_rows
from trident.outputs.parquet_folder import NewBatch, Owner, check_not_ahead
from trident.outputs.parquet_progress import last_noted
from trident.outputs.parquet_storage import Published, parquet_place
from trident.outputs.parquet_writers import check_no_copy, check_taken, last_writer, take_over
from trident.outputs.run_identity import RunIdentity
from trident.plan.nodes import WriteParquet


class ParquetOutlet:
    """Writes every batch once.

    `workers` returns the object that writes large batches; if it is None, the driver writes them.

    `files` is the store of frozen files.
    """

    def __init__(
        self, sink: WriteParquet, run: RunIdentity, files: FileStore, workers: Callable[[], Frames] | None
    ) -> None:
        self._sink, self._run, self._files, self._workers = sink, run, files, workers
        self._place = parquet_place(sink.path, sink.storage)
        self._owner = Owner(run.topology, sink.name, run.log, ddl(sink.schema), sink.partitions)
        self._last = 0
        """The txid of the last published batch, even if readers have removed the batch; 0 if there is none."""
        try:
            self._take()
        except OSError as error:
            raise os_trouble(error, f"{sink.step}: the folder {self._place} cannot be written") from error

    def _take(self) -> None:
        """Take the output for this driver. All checks come before the record that fences out the previous driver."""
        run, place, progress = self._run, self._place, self._run.memory.progress(self._sink.name)
        place.own(self._owner)
        last, held, noted = last_writer(place.store), max(place.txids(), default=0), last_noted(place.store)
        check_no_copy(str(place), self._sink.name, last, run)
        check_not_ahead(str(place), self._owner, max(held, noted), run.last_frozen)
        # An empty output begins here, if no driver took it before or it never got a tuple.
        begins = not held and (last is None or not (noted or progress.last))
        since = progress.reached if begins else last.since if last is not None else 0
        # Readers may remove all batches. But an output that has only older batches was restored from a copy, even if
        # its records say otherwise.
        self._check_complete(max(held or noted, since), progress)
        take_over(place.store, self._sink.name, since, run)
        place.open(self._owner, run.lease)
        self._last = noted
        self._note(held)

    def _check_complete(self, reached: int, progress: OutputProgress) -> None:
        """Raise OutputConflictError if readers would find a gap between the output's last batch and the next batch."""
        if reached >= progress.reached:
            return
        left_out = f"the programs that committed the batches up to {progress.missed} did not have this output"
        fell_back = (
            f"batch {progress.last} was already written: the files were restored from an older copy, some batches were "
            f"deleted, or the output had another path for a time"
        )
        why = left_out if progress.missed > progress.last else fell_back
        raise OutputConflictError(
            f"{self._sink.step}: {self._place} of output {self._sink.name!r} has the batches up to {reached}, but "
            f"{why}. If the output continued, readers would miss batches. Restore the missing batches; or give the "
            f"output another path, or empty this path: the output then starts after batch {progress.reached}. Nothing "
            f"was written"
        )

    def take(self, result: Result, txid: int) -> None:
        """Publish the batch, unless it is already published. An empty batch leaves no files."""
        try:
            if not self._is_published(result, txid):
                if not result.num_rows:
                    return
                self._check_ours()
                self._check_last()
                if txid > self._last:  # otherwise readers have removed it since an earlier attempt
                    self._publish(result, txid)
            self._note(txid)
        except OSError as error:
            raise os_trouble(error, f"{self._sink.step}: batch {txid} was not written to {self._place}") from error

    def _note(self, txid: int) -> None:
        """Record a published batch, unless it is already recorded."""
        if txid > self._last:
            self._place.note(txid, self._last)
            self._last = txid

    def _check_ours(self) -> None:
        """Raise OutputConflictError or FencedError if another output or another driver owns the folder now."""
        if self._place.owner() != self._owner:
            raise OutputConflictError(
                f"{self._sink.step}: the folder {self._place} no longer belongs to this output; restart the topology"
            )
        check_taken(self._place.store, self._sink.name, self._run)

    def _check_last(self) -> None:
        """Raise OutputConflictError if the last published batch is missing, because the next batch would follow a gap.

        Readers may have removed it, with all earlier batches. An older copy of the output has no record of it.
        """
        place, last = self._place, self._last
        if not last or place.holds(last) or (last_noted(place.store) == last and not place.txids()):
            return
        raise OutputConflictError(
            f"{self._sink.step}: batch {last} was published in {place} and is missing: it was deleted, or the files "
            f"were restored from an older copy. If the output continued, readers would miss batches. Restore the "
            f"missing batches, or give the output another path"
        )

    def _is_published(self, result: Result, txid: int) -> bool:
        """Return whether the batch is published. Raises OutputConflictError if it was published with other rows."""
        published = self._place.published(txid)
        if published is None:
            return False
        if published.rows != result.num_rows or not self._is_same(published, result):
            self._check_ours()  # a copied log is the better explanation
            count = "other rows" if published.rows == result.num_rows else f"{published.rows} rows"
            raise OutputConflictError(
                f"{self._sink.step}: batch {txid} in {self._place} has {count}, but the log has {result.num_rows}: one "
                f"of the two does not belong to this topology. Restore the newest log, or give the output another path"
            )
        return True

    def _is_same(self, published: Published, result: Result) -> bool:
        if published.emptied or (published.frozen and published.frozen == digest_of(result)):
            return True
        frozen = [result] if isinstance(result, pa.Table) else read_frozen(self._files, result)
        return same_rows(published.tables(), frozen, result.schema, self._sink.partitions)

    def _publish(self, result: Result, txid: int) -> None:
        with self._place.target(self._owner, self._run.lease, txid) as target:
            if target is None:
                raise self._taken(txid)
            parts = self._write_files(result, target)
            batch = NewBatch(self._run.log, txid, tuple(parts), digest_of(result), self._last)
            self._place.seal(target, batch)
            reach("output.staged")
            check_taken(self._place.store, self._sink.name, self._run)  # an object store does not notice later
            try:
                published = self._place.publish(target, batch)
            except FileNotFoundError:
                raise self._taken(txid) from None
            if not published:
                self._is_published(result, txid)
            reach("output.published")

    def _taken(self, txid: int) -> Exception:
        """Return the error for a driver that finds its staging folder gone."""
        self._check_ours()
        return OutputConflictError(
            f"{self._sink.step}: the staged files of batch {txid} are missing in {self._place}; restart the topology"
        )

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
