"""The folder of a Parquet output. A batch becomes visible in it all at once, when its folder is renamed.

    path/_trident/sink.json                 the owner: topology, output, log, fields
    path/_trident/staging/<uuid>/7-2-<...>  a batch that is being written (uuid of the log; txid, epoch)
    path/txid=7/_manifest.json              a published batch: its files with rows and bytes
    path/txid=7/part-<...>.parquet

A rename onto an existing folder fails. So if two drivers publish one txid, only the first one does. It publishes the
rows that the second would have published, because both read the rows that the log froze.
"""

import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trident.base.errors import OutputConflictError
from trident.base.files import fsync_folder
from trident.compiler.spark.parquet_files import Part

OWN_FOLDER = "_trident"
MANIFEST = "_manifest.json"
FIELD = "txid"
"""The name of the field in the names of the batches' folders, such as ``txid=7``."""

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a folder: the topology and the output that write it, the log whose txids it has, and its fields."""

    topology: str
    output: str
    log: str
    schema: str
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """A published batch."""

    txid: int
    folder: Path
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


# --- reading ------------------------------------------------------------------------------------------------------


def owner_of(path: Path) -> Owner | None:
    """Return the folder's owner; None if it has none.

    Raises OutputConflictError if the owner's record is unreadable.
    """
    try:
        record = _read_json(path / OWN_FOLDER / "sink.json")
    except FileNotFoundError:
        return None
    return owner_in(str(path), record)


def owner_in(path: str, record: dict[str, Any]) -> Owner:
    """Return the owner in a record. Raises OutputConflictError for a record of a later version."""
    if record.get("format") != FORMAT:
        raise OutputConflictError(f"{path} was written in a format that this version does not know: {record!r:.200}")
    owner = {key: value for key, value in record.items() if key != "format"}
    return Owner(**{**owner, "partitions": tuple(owner.get("partitions", ()))})


def txids(path: Path) -> list[int]:
    """Return the txids of published batches, in order, without a gap before the last.

    One listing may show a batch that is published meanwhile, and miss an earlier one. So this lists a second time,
    up to the last batch of the first listing: everything up to that batch was published before the second listing
    began.
    """
    return gapless(lambda: _list_txids(path))


def gapless(list_txids: Callable[[], list[int]]) -> list[int]:
    """Return the txids in two listings, without a gap before the last; see `txids`."""
    last = max(list_txids(), default=0)
    return sorted(txid for txid in list_txids() if txid <= last)


def _list_txids(path: Path) -> list[int]:
    names = [name.removeprefix(f"{FIELD}=") for name in os.listdir(path) if name.startswith(f"{FIELD}=")]
    return [int(name) for name in names if name.isdigit()]


def batch_of(path: Path, txid: int) -> Batch | None:
    """Return a batch; None if it is not published. Raises OutputConflictError if its folder has changed since then."""
    folder = path / f"{FIELD}={txid}"
    try:
        manifest = _read_json(folder / MANIFEST)
        parts = tuple(Part(**part) for part in manifest["files"])
        if manifest["format"] != FORMAT or manifest["txid"] != txid:
            raise ValueError(f"it is of batch {manifest['txid']}")
    except FileNotFoundError:
        if not folder.exists():
            return None
        raise OutputConflictError(f"{folder} was not published by this output: it has no {MANIFEST}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise OutputConflictError(f"{folder / MANIFEST} is not what was published: {error}") from None
    return Batch(txid, folder, parts)


def check_files(batch: Batch) -> None:
    """Raise OutputConflictError if a file of a batch is missing or has another size."""
    for part in batch.parts:
        path = batch.folder / part.name
        size = path.stat().st_size if path.exists() else None
        if size != part.bytes:
            what = "is gone" if size is None else f"has {size} bytes, published were {part.bytes}"
            raise OutputConflictError(f"{path} {what}: the batch was changed after it was published")


def _read_json(path: Path) -> dict[str, Any]:
    return record_in(str(path), path.read_bytes())


def record_in(path: str, text: bytes) -> dict[str, Any]:
    """Return the record in a file. Raises OutputConflictError if the file holds no record."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise OutputConflictError(f"{path} is not what was written there: {error}") from None
    if not isinstance(content, dict):
        raise OutputConflictError(f"{path} is not what was written there: {content!r:.100}")
    return content


# --- writing ------------------------------------------------------------------------------------------------------


def take_folder(path: Path, owner: Owner, last_frozen: int, epoch: int) -> None:
    """Make this output the owner of the folder, or check that it is.

    `last_frozen` is the last txid that the log froze.

    Raises OutputConflictError if the folder has another owner, or is ahead of the log.
    """
    is_new = not path.exists()
    (path / OWN_FOLDER).mkdir(parents=True, exist_ok=True)
    present = owner_of(path)
    if present is None:
        others = sorted(name for name in os.listdir(path) if name != OWN_FOLDER)
        if others:
            raise OutputConflictError(
                f"the folder {path} of output {owner.output!r} holds other things ({', '.join(others[:5])}): name a "
                "folder that is empty or does not exist"
            )
        present = _write_owner(path, owner, is_new)
    check_owner(str(path), present, owner)
    check_not_ahead(str(path), owner, max(txids(path), default=0), last_frozen)
    _staging(path, owner.log).mkdir(parents=True, exist_ok=True)
    _sweep(path, owner.log, epoch)


def _write_owner(path: Path, owner: Owner, is_new: bool) -> Owner:
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
    present = owner_of(path)
    assert present is not None
    return present


def check_not_ahead(path: str, owner: Owner, last: int, last_frozen: int) -> None:
    """Raise OutputConflictError if the output has a batch that the log never froze."""
    if last > last_frozen:
        raise OutputConflictError(
            f"the folder {path} of output {owner.output!r} holds batch {last}, and the log froze only up to "
            f"{last_frozen}: the log is an old copy. Restore the newest log, or give the output another path"
        )


def check_owner(path: str, present: Owner, owner: Owner) -> None:
    """Raise OutputConflictError if the folder belongs to another output, topology or log, or has other fields."""
    if (present.topology, present.output) != (owner.topology, owner.output):
        renamed = f"; or, if only its stream was renamed, give it name={present.output!r}: then it goes on there"
        way_out = renamed if present.topology == owner.topology else ""
        raise OutputConflictError(
            f"the folder {path} belongs to output {present.output!r} of topology {present.topology!r}; give output "
            f"{owner.output!r} a path of its own{way_out}"
        )
    if present.log != owner.log:
        raise OutputConflictError(
            f"the folder {path} of output {owner.output!r} was written under another log (uuid {present.log}) than "
            f"this one (uuid {owner.log}): its batches have other txids. Start with the checkpointLocation that "
            "belongs to it, or give the output another path"
        )
    if (present.schema, present.partitions) != (owner.schema, owner.partitions):
        by = f" by {', '.join(present.partitions)}" if present.partitions else ""
        now = f" by {', '.join(owner.partitions)}" if owner.partitions else ""
        raise OutputConflictError(
            f"the folder {path} of output {owner.output!r} holds ({present.schema}){by}, the topology writes "
            f"({owner.schema}){now}; give the output another path"
        )


def _staging(path: Path, log: str) -> Path:
    """Return the folder in which the batches of a log are written before they are published.

    Only a start that takes the output makes this folder. So a driver that slept while another log took the output
    finds the folder gone, and publishes nothing.
    """
    return path / OWN_FOLDER / "staging" / log


def _sweep(path: Path, log: str, epoch: int) -> None:
    """Remove unpublished batches of earlier epochs, which will be written again from the frozen rows.

    Version 0.1.0 wrote them into the parent of the log's staging folder.
    """
    staging = _staging(path, log)
    for folder in [*staging.iterdir(), *staging.parent.iterdir()]:
        parts = folder.name.split("-")
        if len(parts) == 3 and parts[1].isdigit() and int(parts[1]) < epoch:
            shutil.rmtree(folder, ignore_errors=True)


def make_staged_folder(path: Path, log: str, txid: int, epoch: int) -> Path:
    """Create a new folder to write a batch into.

    Raises OutputConflictError if the output no longer belongs to this log.
    """
    folder = _staging(path, log) / f"{txid}-{epoch}-{secrets.token_hex(8)}"
    try:
        folder.mkdir()
    except FileNotFoundError:
        raise OutputConflictError(
            f"the folder {path} is no longer this output's: {folder.parent} is gone; start the topology anew"
        ) from None
    return folder


def seal(folder: Path, txid: int, parts: Sequence[Part]) -> None:
    """Complete a batch durably: give its files their final names, delete other files, and write the manifest.

    Other files are there if Spark repeated a task, whose first try leaves a file.
    """
    hidden = {folder / part.hidden for part in parts}
    for file in [*folder.rglob(".*")]:
        if file not in hidden:
            file.unlink(missing_ok=True)
    for part in parts:
        os.rename(folder / part.hidden, folder / part.name)
    files = [asdict(part) for part in sorted(parts, key=lambda part: part.name)]
    _write_json(folder / MANIFEST, {"format": FORMAT, "txid": txid, "files": files})
    for inner in sorted({(folder / part.name).parent for part in parts} | {folder}):
        fsync_folder(inner)


def publish(path: Path, folder: Path, txid: int) -> bool:
    """Make a sealed batch visible, all at once. Return False if the batch was published already."""
    try:
        os.rename(folder, path / f"{FIELD}={txid}")
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    fsync_folder(path)
    return True


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with open(path, "x", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
