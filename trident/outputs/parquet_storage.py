"""The protocol between a Parquet output and its storage: a folder that is renamed, or files with a manifest."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.errors import OutputError, TopologyError
from trident.base.paths import local_path
from trident.compiler.parquet_files import FolderTarget, Target
from trident.files.disk import DiskFiles
from trident.files.object_options import Storage
from trident.files.store import FileStore
from trident.files.urls import files_by_url, is_files_url
from trident.outputs import parquet_folder
from trident.outputs.parquet_folder import Batch, NewBatch, Owner
from trident.outputs.parquet_manifests import ManifestBatches
from trident.outputs.parquet_progress import record_name
from trident.plan.nodes import WriteParquet


class Published(Protocol):
    """A published batch. `frozen`: the digest of its frozen files; "" if it was frozen as a table.

    `after`: the txid of the previous batch in this output; 0 if there is none.
    """

    @property
    def rows(self) -> int: ...

    @property
    def after(self) -> int: ...

    @property
    def frozen(self) -> str: ...

    @property
    def emptied(self) -> bool:
        """True if readers have removed all of its files."""
        ...

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of each file."""
        ...


class ParquetStorage(Protocol):
    """The storage of one Parquet output. Errors are OutputErrors, or the OSErrors of a disk or an object store."""

    def owner(self) -> Owner | None:
        """Return the output that owns this storage; None if no output owns it."""
        ...

    @property
    def store(self) -> FileStore:
        """The store of the files."""
        ...

    def own(self, owner: Owner) -> None:
        """Make an output the owner of this storage, or check that it is the owner.

        Raises OutputConflictError if another output owns it.
        """
        ...

    def open(self, owner: Owner, lease: Lease) -> None:
        """Prepare the storage for the driver that took it, and prevent earlier drivers from publishing."""
        ...

    def target(self, owner: Owner, lease: Lease, txid: int) -> AbstractContextManager[Target | None]:
        """Return a context with the target to which the files of a batch are written.

        The target is None if another driver took the output since `open`.
        """
        ...

    def seal(self, target: Target, batch: NewBatch) -> None:
        """Complete a batch durably, once its files are written. `publish` makes it visible."""
        ...

    def publish(self, target: Target, batch: NewBatch) -> bool:
        """Make a batch visible, all at once. Return False if a batch of this txid was already visible.

        Raises FileNotFoundError if another driver took the output since `open`, if the storage can notice that.
        """
        ...

    def note(self, txid: int, former: int) -> None:
        """Replace the record of the `former` published batch by a record of this batch; see `parquet_progress`."""
        ...

    def holds(self, txid: int) -> bool:
        """Return whether a published batch exists, perhaps changed."""
        ...

    def published(self, txid: int) -> "Published | None":
        """Return a published batch; None if it is not published."""
        ...

    def txids(self) -> list[int]:
        """Return the txids of published batches, in order, without a gap before the last txid."""
        ...

    def files(self, txids: Sequence[int], after: int = 0) -> list[str]:
        """Return the paths or URLs of the files of published batches, which follow one another in the output.

        `after`: the last batch that the reader has read; 0 if it begins. Raises OutputConflictError if a file is
        missing or was changed, or if a batch after `after`, or between two of the batches, is missing.
        """
        ...


@dataclass(frozen=True, slots=True)
class FolderBatches:
    """A folder of a file system. Each batch appears when its folder is renamed."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def owner(self) -> Owner | None:
        return parquet_folder.owner_of(self.path) if self.path.is_dir() else None

    @property
    def store(self) -> DiskFiles:
        return DiskFiles(self.path)

    def own(self, owner: Owner) -> None:
        parquet_folder.own_folder(self.path, owner)

    def open(self, owner: Owner, lease: Lease) -> None:
        parquet_folder.open_staging(self.path, owner.log, lease)
        parquet_folder.complete_names(self.path, max(self.txids(), default=0))

    @contextmanager
    def target(self, owner: Owner, lease: Lease, txid: int) -> Iterator[Target | None]:
        """Return a new folder. At the end it is deleted unless it was renamed; see `ParquetStorage.target`."""
        staged = parquet_folder.make_staged_folder(self.path, owner.log, lease, txid)
        try:
            yield None if staged is None else FolderTarget(staged)
        finally:
            if staged is not None:
                shutil.rmtree(staged, ignore_errors=True)

    def seal(self, target: Target, batch: NewBatch) -> None:
        assert isinstance(target, FolderTarget)
        parquet_folder.seal(target.folder, batch)

    def publish(self, target: Target, batch: NewBatch) -> bool:
        assert isinstance(target, FolderTarget)
        return parquet_folder.publish(self.path, target.folder, batch)

    def note(self, txid: int, former: int) -> None:
        """Record a published batch, without an fsync.

        A power loss that removes the record also undoes later removals of batches.
        """
        record = self.path / record_name(txid)
        record.parent.mkdir(exist_ok=True)
        record.touch()
        self.store.delete([record_name(former)])

    def holds(self, txid: int) -> bool:
        return parquet_folder.batch_folder(self.path, txid).exists()

    def published(self, txid: int) -> Batch | None:
        return parquet_folder.batch_of(self.path, txid)

    def txids(self) -> list[int]:
        return parquet_folder.txids(self.path)

    def files(self, txids: Sequence[int], after: int = 0) -> list[str]:
        found: list[str] = []
        for before, txid in zip([None, *txids], txids, strict=False):
            batch = parquet_folder.batch_of(self.path, txid)
            if batch is not None:
                if before is None:
                    parquet_folder.check_begins(str(self), txid, batch.after, after)
                parquet_folder.check_follows(str(self), txid, batch.after, before)
                parquet_folder.check_files(batch)
                found += [str(batch.folder / part.name) for part in batch.parts]
        return found


_NO_PLACE = (
    "{scheme}: is not supported; a batch is published on a local disk, on an object store (such as s3://) or on "
    "HDFS (hdfs://)"
)


def parquet_place(path: str | Path, storage: Storage) -> "FolderBatches | ManifestBatches":
    """Return the storage of an output. Raises TopologyError if `path` is neither a folder nor a known URL."""
    text = str(path)
    if is_files_url(text):
        return ManifestBatches(files_by_url("path", text, storage))
    if storage.options:
        raise TopologyError(f"{storage.argument}= is an option of object stores, but {path} is not in an object store")
    return FolderBatches(local_path("path", path, _NO_PLACE))


def check_outside(sink: WriteParquet, own: Sequence[FileStore]) -> None:
    """Raise TopologyError for an output among the topology's files, at `own`. A reset would delete it with them."""
    place = parquet_place(sink.path, sink.storage)
    address = os.path.realpath(place.path) if isinstance(place, FolderBatches) else str(place)
    for files in own:
        root = os.path.realpath(files.root) if isinstance(files, DiskFiles) else files.address
        if f"{address}/".startswith(f"{root}/"):
            raise TopologyError(
                f"{sink.step}: the path {place} is inside {root}, where the topology keeps its own files, which a "
                f"reset deletes: give the output a path outside"
            )


def check_output(place: ParquetStorage) -> Owner:
    """Return the owner of an output to read. Raises OutputError if `place` is not a Parquet output."""
    owner = place.owner()
    if owner is None:
        raise OutputError(
            f"{place} is not a folder of a writeParquet output (it has no {parquet_folder.OWN_FOLDER}/sink.json)"
        )
    return owner
