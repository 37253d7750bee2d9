"""The folder of a Parquet output. A batch becomes visible in it all at once, when its folder is renamed.

    path/_trident/sink.json                  the owner: topology, output, log, fields
    path/_trident/writers/                   the driver that took the output last (`parquet_writers`)
    path/_trident/progress/                  the last batch that was published (`parquet_progress`)
    path/_trident/staging/<lease>/7-<...>    a batch that is being written (uuid of the log, epoch, token; txid)
    path/txid=7/_manifest.json               a published batch: its files with rows and bytes
    path/txid=7/part-<...>.parquet

A rename onto an existing folder fails. So if two drivers try to publish one txid, only the first succeeds. A driver
that takes the output first moves the staging folders of earlier drivers away, so the rename of a suspended driver
fails, too.
"""

import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trident.base.attempt import Lease
from trident.base.durable_files import fsync_folder
from trident.base.errors import OutputConflictError
from trident.compiler.parquet_files import Part

OWN_FOLDER = "_trident"
MANIFEST = "_manifest.json"
FIELD = "txid"
"""The name of the field in the names of the batches' folders, such as ``txid=7``."""

FORMAT = 2
_GONE = ".gone"


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a folder: its topology and output, the log that counts its txids, and its fields."""

    topology: str
    output: str
    log: str
    schema: str
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewBatch:
    """A batch that is being published. `frozen`: the digest of its frozen files; "" if it was frozen as a table.

    `after`: the txid of the previous batch in this output; 0 if there is none.
    """

    log: str
    txid: int
    parts: tuple[Part, ...]
    frozen: str = ""
    after: int = 0

    def manifest(self, **more: Any) -> dict[str, Any]:
        """Return the record of the batch and its files."""
        files = [asdict(part) for part in sorted(self.parts, key=lambda part: part.name)]
        frozen = {"frozen": self.frozen} if self.frozen else {}
        own = {"format": FORMAT, "txid": self.txid, "after": self.after, **more}
        return {**own, "files": files, "ordered": True, **frozen}


@dataclass(frozen=True, slots=True)
class Batch:
    """A published batch."""

    txid: int
    folder: Path
    parts: tuple[Part, ...]
    frozen: str
    """The digest of the frozen files (`parquet_content`); "" if the batch was frozen as a table."""
    after: int
    """The txid of the previous batch in this output; 0 if there is none."""
    ordered: bool
    """True if the files show the order of the batch's rows, by their names and the notes in their footers."""

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def emptied(self) -> bool:
        return not any((self.folder / part.name).exists() for part in self.parts)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of each file."""
        check_files(self)
        for part in self.parts:
            yield pq.ParquetFile(self.folder / part.name).read()


# --- reading ------------------------------------------------------------------------------------------------------


def owner_of(path: Path) -> Owner | None:
    """Return the folder's owner; None if it has no owner.

    Raises OutputConflictError if the owner's record is unreadable.
    """
    try:
        record = _read_json(path / OWN_FOLDER / "sink.json")
    except FileNotFoundError:
        return None
    return owner_in(str(path), record)


def owner_in(path: str, record: dict[str, Any]) -> Owner:
    """Return the owner in a record. Raises OutputConflictError for a record of a later version."""
    if (form := record.get("format")) != FORMAT:
        raise OutputConflictError(
            f"{path} has the format {form!r:.20}, and this version of the library reads only the format {FORMAT}: use "
            f"the version that wrote it, or give the output another path. Nothing was written"
        )
    owner = {key: value for key, value in record.items() if key != "format"}
    return Owner(**{**owner, "partitions": tuple(owner["partitions"])})


def txids(path: Path) -> list[int]:
    """Return the txids of published batches, in order, without a gap before the last txid.

    One listing may show a batch that is published meanwhile, and miss an earlier batch. So this lists a second time, up
    to the last batch of the first listing: everything up to that batch was published before the second listing began.
    """
    return gapless(lambda: _list_txids(path))


def gapless(list_txids: Callable[[], list[int]]) -> list[int]:
    """Return the txids in two listings, without a gap before the last; see `txids`."""
    last = max(list_txids(), default=0)
    return sorted(txid for txid in list_txids() if txid <= last)


def _list_txids(path: Path) -> list[int]:
    names = [name.removeprefix(f"{FIELD}=") for name in os.listdir(path) if name.startswith(f"{FIELD}=")]
    return [int(name) for name in names if name.isdigit()]


def batch_folder(path: Path, txid: int) -> Path:
    """Return the folder in which a batch is published."""
    return path / f"{FIELD}={txid}"


def batch_of(path: Path, txid: int) -> Batch | None:
    """Return a batch; None if it is not published. Raises OutputConflictError if its folder has changed since then."""
    folder = batch_folder(path, txid)
    try:
        manifest = _read_json(folder / MANIFEST)
        parts = tuple(Part(**part) for part in manifest["files"])
        after = int(manifest["after"])
        if manifest["format"] != FORMAT or manifest["txid"] != txid:
            raise ValueError(f"it names batch {manifest['txid']} and format {manifest['format']}")
    except FileNotFoundError:
        if not folder.exists():
            return None
        raise OutputConflictError(
            f"{folder} was not published by this output: it has no {MANIFEST}. Move it away"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise OutputConflictError(
            f"{folder / MANIFEST} was changed after it was published: {error}. Restore it from a copy"
        ) from None
    return Batch(txid, folder, parts, str(manifest.get("frozen", "")), after, manifest.get("ordered") is True)


def check_begins(place: str, txid: int, after: int, last: int) -> None:
    """Raise OutputConflictError if a batch is missing between `last`, the reader's last batch, and batch `txid`.

    `after`: the batch after which batch `txid` was published. For a reader that begins (`last` is 0), the oldest
    batches may be missing.
    """
    if last and after > last:
        raise OutputConflictError(
            f"{place}: batch {after}, the next one after batch {last}, is missing, and the next batch here is {txid}: "
            f"another reader removed it, or the files were damaged. Restore it; or read the batches after it: "
            f"afterTxid={txid - 1}"
        )


def check_follows(place: str, txid: int, after: int, before: int | None) -> None:
    """Raise OutputConflictError if batch `txid`, published after batch `after`, follows another batch in the output.

    `before` is the batch before it in the output; None if that is not to be checked.
    """
    if before is not None and after != before:
        raise OutputConflictError(
            f"{place}: batch {txid} was published after batch {after or 'none'}, but the batch before it here is "
            f"{before or 'none'}: batches between them were deleted, or a part of the output was restored from an "
            f"older copy. Restore them; or read the batches after them: afterTxid={txid - 1}"
        )


def check_files(batch: Batch) -> None:
    """Raise OutputConflictError if a file of a batch is missing or has another size."""
    for part in batch.parts:
        path = batch.folder / part.name
        size = path.stat().st_size if path.exists() else None
        if size != part.bytes:
            what = "is gone" if size is None else f"has {size} bytes, but {part.bytes} were published"
            raise OutputConflictError(
                f"{path} {what}: the batch was changed after it was published. Restore it from a copy"
            )


def _read_json(path: Path) -> dict[str, Any]:
    return record_in(str(path), path.read_bytes())


def record_in(path: str, text: bytes) -> dict[str, Any]:
    """Return the record in a file. Raises OutputConflictError if the file holds no record."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise OutputConflictError(f"{path} was changed after it was written: {error}. Restore it from a copy") from None
    if not isinstance(content, dict):
        raise OutputConflictError(f"{path} was changed after it was written: {content!r:.100}. Restore it from a copy")
    return content


# --- writing ------------------------------------------------------------------------------------------------------


def own_folder(path: Path, owner: Owner) -> None:
    """Make this output the owner of the folder, or check that it is the owner.

    Raises OutputConflictError if the folder has another owner.
    """
    is_new = not path.exists()
    (path / OWN_FOLDER).mkdir(parents=True, exist_ok=True)
    present = owner_of(path)
    if present is None:
        others = sorted(name for name in os.listdir(path) if name != OWN_FOLDER)
        if others:
            raise OutputConflictError(
                f"the folder {path} of output {owner.output!r} contains other files ({', '.join(others[:5])}): "
                f"choose a folder that is empty or does not exist"
            )
        present = _write_owner(path, owner, is_new)
    check_owner(str(path), present, owner)


def _write_owner(path: Path, owner: Owner, is_new: bool) -> Owner | None:
    """Write the folder's owner, unless another driver writes it first. Return the owner that the folder has then."""
    own_folder = path / OWN_FOLDER
    new = own_folder / f".sink-{secrets.token_hex(8)}.json"
    _write_json(new, {"format": FORMAT, **asdict(owner)})
    try:
        os.link(new, own_folder / "sink.json")  # unlike a rename, this fails if the file exists
    except FileExistsError:
        pass
    finally:
        new.unlink()
    for folder in (own_folder, path, *(path.parents if is_new else ())):
        fsync_folder(folder)
    return owner_of(path)


def check_not_ahead(path: str, owner: Owner, last: int, last_frozen: int) -> None:
    """Raise OutputConflictError if the output has a batch that the log never froze."""
    if last > last_frozen:
        raise OutputConflictError(
            f"the folder {path} of output {owner.output!r} has batch {last}, but the last batch in the log is "
            f"{last_frozen}: the log is an old copy. Restore the newest log, or give the output another path"
        )


def check_owner(path: str, present: Owner | None, owner: Owner) -> None:
    """Raise OutputConflictError if the folder belongs to another output, topology or log, or has other fields."""
    if present is None:
        raise OutputConflictError(
            f"the folder {path} of output {owner.output!r} was emptied while the output was opened: start the topology "
            "again once nothing else changes the folder"
        )
    if (present.topology, present.output) != (owner.topology, owner.output):
        renamed = f"; or, if only its stream was renamed, give it name={present.output!r}: it then continues there"
        way_out = renamed if present.topology == owner.topology else ""
        raise OutputConflictError(
            f"the folder {path} belongs to output {present.output!r} of topology {present.topology!r}; give output "
            f"{owner.output!r} a separate path{way_out}"
        )
    if present.log != owner.log:
        raise OutputConflictError(
            f"the folder {path} of output {owner.output!r} belongs to another log (uuid {present.log}), not to this "
            f"one (uuid {owner.log}): its batches have other txids. Start with the checkpointLocation that belongs to "
            f"it, or give the output another path"
        )
    if (present.schema, present.partitions) != (owner.schema, owner.partitions):
        by = f" by {', '.join(present.partitions)}" if present.partitions else ""
        now = f" by {', '.join(owner.partitions)}" if owner.partitions else ""
        raise OutputConflictError(
            f"the folder {path} of output {owner.output!r} has ({present.schema}){by}, but the topology writes "
            f"({owner.schema}){now}; give the output another path"
        )


def _staging(path: Path, log: str, lease: Lease) -> Path:
    """Return the folder in which a driver writes batches before it publishes them.

    Only a start that takes the output makes this folder, and a later start moves it away. So a driver that was
    suspended finds it gone, and publishes nothing.
    """
    return path / OWN_FOLDER / "staging" / f"{log}-{lease.epoch}-{lease.token}"


def open_staging(path: Path, log: str, lease: Lease) -> None:
    """Make this driver's staging folder, and remove those of earlier drivers with their unpublished batches.

    Those batches will be written again from the frozen rows.
    """
    staging = _staging(path, log, lease)
    staging.mkdir(parents=True, exist_ok=True)
    for folder in [*staging.parent.iterdir()]:
        parts = folder.name.split("-")
        if parts[0] == _GONE:
            shutil.rmtree(folder, ignore_errors=True)
        elif len(parts) == 3 and parts[1].isdigit() and int(parts[1]) < lease.epoch:
            _remove_at_once(folder, staging.parent)


def _remove_at_once(folder: Path, parent: Path) -> None:
    """Remove a folder whose driver may still be running, which must not publish a half-removed folder."""
    aside = parent / f"{_GONE}-{secrets.token_hex(8)}"
    with suppress(FileNotFoundError):  # its driver has renamed it first
        folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def make_staged_folder(path: Path, log: str, lease: Lease, txid: int) -> Path | None:
    """Create a new folder to write a batch into; return None if this driver no longer has a staging folder."""
    folder = _staging(path, log, lease) / f"{txid}-{secrets.token_hex(8)}"
    try:
        folder.mkdir()
    except FileNotFoundError:
        return None
    return folder


def seal(folder: Path, batch: NewBatch) -> None:
    """Complete a batch durably, except for the names of its files: delete other files, and write the manifest.

    Other files exist if Spark repeated a task and the first attempt left a file.
    """
    hidden = {folder / part.hidden for part in batch.parts}
    for file in [*folder.rglob(".*")]:
        if file not in hidden:
            file.unlink(missing_ok=True)
    _write_json(folder / MANIFEST, batch.manifest())
    _sync_folders(folder, batch.parts)


def publish(path: Path, folder: Path, batch: NewBatch) -> bool:
    """Make a sealed batch visible, all at once. Return False if the batch was published already.

    Raises FileNotFoundError if another driver has moved the staging folder away.
    """
    published = batch_folder(path, batch.txid)
    # Files get their final names as late as possible: if a driver dies between these lines, a search for Parquet files
    # would find the unpublished files.
    for part in batch.parts:
        os.rename(folder / part.hidden, folder / part.name)
    try:
        os.rename(folder, published)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    _sync_folders(published, batch.parts)
    fsync_folder(path)
    return True


def complete_names(path: Path, txid: int) -> None:
    """Give the files of a published batch their final names, if a power loss removed the names but not the batch."""
    batch = batch_of(path, txid)
    for part in () if batch is None else batch.parts:
        assert batch is not None
        if not (batch.folder / part.name).exists() and (batch.folder / part.hidden).exists():
            os.rename(batch.folder / part.hidden, batch.folder / part.name)


def _sync_folders(folder: Path, parts: Sequence[Part]) -> None:
    for inner in sorted({(folder / part.name).parent for part in parts} | {folder}):
        fsync_folder(inner)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with open(path, "x", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
