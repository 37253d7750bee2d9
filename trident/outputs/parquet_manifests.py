"""A Parquet output on an object store or on HDFS. A batch counts as soon as its manifest exists.

    path/_trident/sink.json                          the owner: topology, output, log, fields
    path/_trident/writers/                           the driver that took the output last (`parquet_writers`)
    path/_trident/progress/00000000000000000007      the last batch that was published (`parquet_progress`)
    path/_trident/batches/00000000000000000007.json  a published batch: its log, and its files with rows and bytes
    path/txid=7/part-00000-<...>.parquet             a file: number of the frozen file, start of the log's uuid

Every file is created on the condition that it does not exist, and no file is ever replaced. The name of a file follows
from the frozen result, so a repeated write of a batch, by this driver or a later driver, finds the files of the first
write. So no row exists twice, not even for readers that do not know the manifests. Such readers may see a part of the
batch that is being published. `publishedFiles` and `readParquet` read the manifests, and see whole batches.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trident.base.attempt import Lease
from trident.base.errors import OutputConflictError
from trident.compiler.parquet_files import ManifestTarget, Part, Target
from trident.files.store import FileStore
from trident.outputs.parquet_folder import (
    FIELD,
    FORMAT,
    OWN_FOLDER,
    NewBatch,
    Owner,
    check_begins,
    check_follows,
    check_owner,
    gapless,
    owner_in,
    record_in,
)
from trident.outputs.parquet_progress import record_name

_OWNER = f"{OWN_FOLDER}/sink.json"
_BATCHES = f"{OWN_FOLDER}/batches"
_MARK = 8
"""The number of characters of the log's uuid in the names of files, so that two logs never write the same file."""


@dataclass(frozen=True, slots=True)
class ManifestBatches:
    """A prefix of an object store, or a folder on HDFS. Each batch appears with its manifest."""

    place: FileStore

    def __str__(self) -> str:
        return self.place.address

    # --- the owner ------------------------------------------------------------------------------------------------

    def owner(self) -> Owner | None:
        """Return the output that owns the prefix; None if no output owns it."""
        record = self._record(_OWNER)
        return None if record is None else owner_in(str(self), record)

    @property
    def store(self) -> FileStore:
        return self.place

    def own(self, owner: Owner) -> None:
        """Make an output the owner of the prefix, or check that it is the owner; see `ParquetStorage.own`."""
        present = self.owner()
        if present is None:
            self._check_empty(owner)
            # Another output may be faster: then its record exists, and is compared below.
            self.place.create(_OWNER, _json({"format": FORMAT, **asdict(owner)}))
            present = self.owner()
        check_owner(str(self), present, owner)

    def open(self, owner: Owner, lease: Lease) -> None:
        """Do nothing. Later drivers compare all files that a suspended driver may create with their own files."""

    def _check_empty(self, owner: Owner) -> None:
        others = next((file.name for file in self.place.files() if not file.name.startswith(f"{OWN_FOLDER}/")), None)
        if others is not None:
            raise OutputConflictError(
                f"the prefix {self} of output {owner.output!r} contains other objects ({others}): choose an empty one"
            )

    # --- writing --------------------------------------------------------------------------------------------------

    @contextmanager
    def target(self, owner: Owner, lease: Lease, txid: int) -> Iterator[Target | None]:
        """Return the target for the batch's files.

        They are not deleted after a failure, because a repeated write needs them.
        """
        yield ManifestTarget(self.place.below(f"{FIELD}={txid}"), owner.log[:_MARK])

    def seal(self, target: Target, batch: NewBatch) -> None:
        """Do nothing, because each file is durable and has its final name."""

    def publish(self, target: Target, batch: NewBatch) -> bool:
        """Create the manifest; see `ParquetStorage.publish`."""
        return self.place.create(_manifest(batch.txid), _json(batch.manifest(log=batch.log)))

    def note(self, txid: int, former: int) -> None:
        """Record a published batch; see `ParquetStorage.note`."""
        self.place.create(record_name(txid), str(txid).encode())
        self.place.delete([record_name(former)])

    # --- reading --------------------------------------------------------------------------------------------------

    def holds(self, txid: int) -> bool:
        return self.place.size(_manifest(txid)) is not None

    def published(self, txid: int) -> "_Published | None":
        """Return a published batch; None if it is not published.

        Raises OutputConflictError if the manifest belongs to another output.
        """
        record, name = self._record(_manifest(txid)), self.place.path(_manifest(txid))
        if record is None:
            return None
        owner = self.owner()
        if owner is None or record.get("log") != owner.log:
            raise OutputConflictError(
                f"{name} belongs to log {record.get('log')}, and {self} belongs to another log. Move it away"
            )
        try:
            if record["format"] != FORMAT or record["txid"] != txid:
                raise ValueError(f"it names batch {record['txid']} and format {record['format']}")
            parts, after = tuple(Part(**part) for part in record["files"]), int(record["after"])
        except (ValueError, KeyError, TypeError) as error:
            raise OutputConflictError(
                f"{name} was changed after it was published: {error}. Restore it from a copy"
            ) from None
        return _Published(self.place.below(f"{FIELD}={txid}"), parts, str(record.get("frozen", "")), after)

    def txids(self) -> list[int]:
        return gapless(self._list_txids)

    def _list_txids(self) -> list[int]:
        names = [file.name.rpartition("/")[2].removesuffix(".json") for file in self.place.files(_BATCHES)]
        return [int(name) for name in names if name.isdigit()]

    def files(self, txids: Sequence[int], after: int = 0) -> list[str]:
        """Return the URLs of the files of published batches; see `ParquetStorage.files`."""
        return [self.place.path(name) for name, _ in self.named(txids, after)]

    def named(self, txids: Sequence[int], after: int = 0) -> list[tuple[str, Part]]:
        """Check published batches as `files` does, and return their files, each with its name below the prefix."""
        if not txids:
            return []
        sizes = {file.name: file.size for file in self.place.files()}
        found: list[tuple[str, Part]] = []
        for before, txid in zip([None, *txids], txids, strict=False):
            batch = self.published(txid)
            if batch is None:
                continue
            if before is None:
                check_begins(str(self), txid, batch.after, after)
            check_follows(str(self), txid, batch.after, before)
            for part in batch.parts:
                name = f"{FIELD}={txid}/{part.name}"
                if sizes.get(name) != part.bytes:
                    size = sizes.get(name)
                    what = "is gone" if size is None else f"has {size} bytes, but {part.bytes} were published"
                    raise OutputConflictError(
                        f"{self.place.path(name)} {what}: the batch was changed after it was published. Restore it "
                        f"from a copy"
                    )
                found.append((name, part))
        return found

    def _record(self, name: str) -> dict[str, Any] | None:
        try:
            text = bytes(self.place.read(name))
        except FileNotFoundError:
            return None
        return record_in(self.place.path(name), text)


@dataclass(frozen=True, slots=True)
class _Published:
    """A published batch; see `parquet_place.Published`."""

    place: FileStore
    parts: tuple[Part, ...]
    frozen: str
    after: int

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def emptied(self) -> bool:
        return all(self.place.size(part.name) is None for part in self.parts)

    def tables(self) -> Iterator[pa.Table]:
        for part in self.parts:
            yield pq.ParquetFile(pa.BufferReader(pa.py_buffer(self.place.read(part.name)))).read()


def _manifest(txid: int) -> str:
    return f"{_BATCHES}/{txid:020}.json"


def _json(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode()
