"""A spout that plays a recording: the batches that a `writeParquet` output has published, one by one."""

import hashlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import DataLossError, SourceUnreadableError, SpoutContractError
from trident.base.option_names import known_options
from trident.base.paths import local_path
from trident.base.spark_types import parse_schema
from trident.compiler.row_order import in_order
from trident.outputs import parquet_folder
from trident.outputs.parquet_folder import Batch
from trident.outputs.parquet_storage import FolderBatches, check_output
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, ReadSoFar, SpoutExecutor, SpoutKind
from trident_spouts.files.parquet import FilesEmission, read_parquet
from trident_spouts.user_calls import foreign_metadata_error

logger = logging.getLogger(__name__)


@dataclass(frozen=True, init=False, repr=False)
class RecordedSpout:
    """A spout that plays recorded batches, in order and with the same bounds.

    ``stream.writeParquet(path)`` makes a recording: right after `newStream`, it records each batch of the source
    exactly once. Another topology, or another version of the same topology, then gets the same batches, even if the
    source has changed meanwhile. So you can see the effect of a change of the program on a day of real data, or find
    the batch that crashed it.

    The tuples of a batch have the order that they had. The spout is transactional. The workers read the files; but if
    the recording has ``partitionBy``, with folders that scatter the tuples of a batch, the driver reads each batch into
    its memory. While the recording grows, new batches are played as they come. Batches without rows were not recorded,
    so their txids are left out.

    Parameters
    ----------
    path : path
        The path that was given to `writeParquet`.

    Raises
    ------
    OutputError
        There is no recording at this path. Its subclass OutputConflictError: a file of it is gone or was changed.

    Examples
    --------
    >>> import tempfile
    >>> from trident import TridentTopology
    >>> from trident.spouts import FixedBatchSpout, RecordedSpout
    >>> from trident.testing import TestOutput, start_local
    >>> folder = tempfile.mkdtemp()
    >>> recording = TridentTopology()
    >>> words = recording.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["cow"]]))
    >>> _ = words.writeParquet(f"{folder}/words")
    >>> with start_local(recording, checkpointLocation=f"{folder}/checkpoint") as running:
    ...     running.processAllAvailable()
    >>> output, playing = TestOutput(), TridentTopology()
    >>> _ = playing.newStream("words", RecordedSpout(f"{folder}/words")).foreachArrow(output)
    >>> with start_local(playing) as running:
    ...     running.processAllAvailable()
    >>> [(batch.txid, [row.word for row in batch.rows]) for batch in output.batches]
    [(1, ['dog', 'cat']), (2, ['cow'])]
    """

    path: Path
    kind = SpoutKind.TRANSACTIONAL
    forkable = True

    @known_options({})
    def __init__(self, path: str | Path) -> None:
        object.__setattr__(self, "path", local_path("RecordedSpout: path", path))

    @property
    def schema(self) -> StructType:
        """The fields of the recorded stream. Raises OutputError if nothing was recorded at the path."""
        return parse_schema(check_output(FolderBatches(self.path)).schema)

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        return _RecordedExecutor(self)

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the last batch of the recording that was played."""
        if not isinstance(position, dict) or "txid" not in position:
            raise foreign_metadata_error("RecordedSpout", position)
        return {"batch": position["txid"]}

    def __repr__(self) -> str:
        return f"RecordedSpout({str(self.path)!r})"


_KEPT = 100
"""The number of batches whose checksums are kept in memory."""


def _checksum(paths: Sequence[Path]) -> str:
    checksum = hashlib.blake2b(digest_size=16)
    for path in paths:
        checksum.update(f"{path.name} {path.stat().st_size} ".encode())
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                checksum.update(chunk)
    return checksum.hexdigest()


class _RecordedExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: RecordedSpout) -> None:
        self._path, self._schema = spout.path, spout.schema
        owner = check_output(FolderBatches(spout.path))
        self._log, self._scattered = owner.log, bool(owner.partitions)
        self._txids: list[int] = []
        self._told = set[int]()
        """The missing batches at the beginning of the recording that were already reported in the log."""
        self._digests: dict[int, tuple[object, str]] = {}
        """Checksums of batches, each with the sizes and times of the files from which it was computed."""

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        last = self._txid(previous)
        self._check_played(previous, last)
        if not self._txids or self._txids[-1] <= last:
            self._txids = parquet_folder.txids(self._path)
        following = next((txid for txid in self._txids if txid > last), None)
        if following is None:
            return None
        batch = self._batch(following)
        self._check_follows(batch, last)
        self._check_ordered(batch)
        return {"recording": self._log, "txid": following, "digest": self._digest(batch)}

    def _batch(self, txid: int) -> Batch:
        """Return a recorded batch.

        Raises SourceUnreadableError if it is missing, OutputConflictError if one of its files is.
        """
        batch = parquet_folder.batch_of(self._path, txid)
        if batch is None:
            raise SourceUnreadableError(f"RecordedSpout: batch {txid} of {self._path} is missing; restore its folder")
        parquet_folder.check_files(batch)
        return batch

    def _digest(self, batch: Batch) -> str:
        """Return a checksum of all bytes of a batch. Files that have not changed since are not read again."""
        paths = [batch.folder / part.name for part in batch.parts]
        stats = [(stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for stat in map(os.stat, paths)]
        seen, digest = self._digests.get(batch.txid, (None, ""))
        if seen != stats:
            digest = _checksum(paths)
            self._digests.pop(batch.txid, None)
            self._digests[batch.txid] = (stats, digest)
            while len(self._digests) > _KEPT:
                del self._digests[next(iter(self._digests))]
        return digest

    def _check_follows(self, batch: Batch, last: int) -> None:
        """Raise DataLossError if a batch is missing between the last batch that was played and this batch."""
        before = batch.after
        if before <= last:
            return
        if last == 0:
            if before not in self._told:
                text = "RecordedSpout: %s begins with batch %d: the batches up to %d are missing, and are not played"
                logger.warning(text, self._path, batch.txid, before)
            self._told.add(before)
            return
        raise DataLossError(
            f"RecordedSpout: batch {before} of {self._path} is missing: this stream has played up to batch {last}, "
            f"and the next batch there is {batch.txid}. Restore its folder. Or play the remaining batches from the "
            f"beginning with a stream with another name, with newStream(..., anew=True): they then count in "
            f"addition to the batches played before"
        )

    def _check_ordered(self, batch: Batch) -> None:
        """Raise SpoutContractError if the files of a batch do not record the order of its rows."""
        if len(batch.parts) > 1 and not batch.ordered:
            raise SpoutContractError(
                f"RecordedSpout: batch {batch.txid} of {self._path} has {len(batch.parts)} files, written by an "
                f"earlier version of the library, which did not record the order of their rows, so a table could keep "
                f"older rows. Record the source again, at another path. Or, if the results do not depend on the order "
                f"of the rows, read the files as ordinary files, without the boundaries of the batches: "
                f"FileSpout({str(self._path / '**' / '*.parquet')!r}, format='parquet')"
            )

    def _check_played(self, previous: Metadata, last: int) -> None:
        """Raise DataLossError if the last batch that was played has changed or is missing.

        The recording is then an older copy, which may have received other batches since.
        """
        expected = previous.get("digest") if isinstance(previous, dict) else None
        if expected is None:
            return
        check_output(FolderBatches(self._path))  # a folder that cannot be reached is not another recording
        batch = parquet_folder.batch_of(self._path, last)
        found = None if batch is None else self._digest(self._batch(last))
        if found != expected:
            what = "is gone" if found is None else f"now has other rows (checksum {found}, but {expected} was played)"
            raise DataLossError(
                f"RecordedSpout: batch {last} of {self._path}, the last batch that this stream has played, {what}: the "
                f"recording is an older copy, or was changed. Restore the recording that was played. Or play this one "
                f"from its beginning with a stream with another name, with newStream(..., anew=True): its batches then "
                f"count in addition to those played before"
            )

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        txid = self._txid(metadata)
        batch, expected = self._batch(txid), metadata.get("digest") if isinstance(metadata, dict) else None
        if expected not in (None, self._digest(batch)):
            raise SourceUnreadableError(f"RecordedSpout: batch {txid} of {self._path} was changed after it was planned")
        paths = tuple(str(batch.folder / part.name) for part in batch.parts)
        if self._scattered and len(paths) > 1:
            tables = [read_parquet(path, self._schema) for path in paths]
            return ArrowEmission(in_order(tables, [pq.read_metadata(path).metadata for path in paths]))
        return FilesEmission(paths, self._schema, batch.rows, beyond_spark=False)

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        txids, last = self._txids, self._txid(position)  # the planning thread replaces it as a whole
        return ReadSoFar(sum(txid <= last for txid in txids), len(txids), "batches") if txids else None

    def _txid(self, metadata: Metadata) -> int:
        """Return the recorded txid in metadata; 0 before the first batch.

        Raises SpoutContractError if it is of another recording.
        """
        if metadata is None:
            return 0
        if not isinstance(metadata, dict) or metadata.keys() != {"recording", "txid", "digest"}:
            raise foreign_metadata_error("RecordedSpout", metadata)
        if metadata["recording"] != self._log:
            raise SpoutContractError(
                f"RecordedSpout: this stream has played the recording {metadata['recording']} up to batch "
                f"{metadata['txid']}, but {self._path} has another one ({self._log}). Restore the first one, or "
                f"give the stream another name, with newStream(..., anew=True)"
            )
        return int(metadata["txid"])
