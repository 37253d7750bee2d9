"""What a Parquet output's folder holds, and how a batch becomes visible in it: all at once, by the rename of a folder.

    path/_trident/sink.json          whose it is: topology, output, log, fields
    path/_trident/staging/<uuid>/7-2-<...>  a batch on its way (the log; txid, epoch)
    path/txid=7/_manifest.json       a batch that is there: its files with rows and bytes
    path/txid=7/part-<...>.parquet

The rename onto a name that is there already fails, so the first one who publishes a txid has done it for all. Two
drivers can only publish the same rows under one txid, because both read what the log froze.
"""

import errno
import json
import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trident.base.errors import OutputConflictError, OutputError
from trident.base.files import fsync_folder
from trident.compiler.spark.parquet_files import Part

HOUSE = "_trident"
MANIFEST = "_manifest.json"
FIELD = "txid"
"""The name of the folders' own field."""

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a folder is: the topology and the output that write it, the log that orders its batches, its fields."""

    topology: str
    output: str
    log: str
    schema: str
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that is there."""

    txid: int
    folder: Path
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


# --- reading ------------------------------------------------------------------------------------------------------


def owner_of(path: Path) -> Owner | None:
    """Whose the folder is; None where nobody's. Raises OutputConflictError where it cannot be read."""
    try:
        told = _json(path / HOUSE / "sink.json")
    except FileNotFoundError:
        return None
    if told.get("format") != _FORMAT:
        raise OutputConflictError(f"{path} was written in a format that this version does not know: {told!r:.200}")
    owner = {key: value for key, value in told.items() if key != "format"}
    return Owner(**{**owner, "partitions": tuple(owner.get("partitions", ()))})


def txids(path: Path) -> list[int]:
    """The batches that are there, in order. Of those published while it looks it gives all up to one of them: what a
    second look finds up to the first one's last was there before the second began."""
    last = max(_listed(path), default=0)
    return sorted(txid for txid in _listed(path) if txid <= last)


def _listed(path: Path) -> list[int]:
    names = [name.removeprefix(f"{FIELD}=") for name in os.listdir(path) if name.startswith(f"{FIELD}=")]
    return [int(name) for name in names if name.isdigit()]


def batch_of(path: Path, txid: int) -> Batch | None:
    """A batch, if it is there. Raises OutputConflictError where its folder is not what was published."""
    folder = path / f"{FIELD}={txid}"
    try:
        told = _json(folder / MANIFEST)
        parts = tuple(Part(**part) for part in told["files"])
        if told["format"] != _FORMAT or told["txid"] != txid:
            raise ValueError(f"it is of batch {told['txid']}")
    except FileNotFoundError:
        if not folder.exists():
            return None
        raise OutputConflictError(f"{folder} was not published by this output: it has no {MANIFEST}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise OutputConflictError(f"{folder / MANIFEST} is not what was published: {error}") from None
    return Batch(txid, folder, parts)


def check_whole(batch: Batch) -> None:
    """Raises OutputConflictError where a file of a batch is gone or has another size."""
    for part in batch.parts:
        path = batch.folder / part.name
        found = path.stat().st_size if path.exists() else None
        if found != part.bytes:
            what = "is gone" if found is None else f"has {found} bytes, published were {part.bytes}"
            raise OutputConflictError(f"{path} {what}: somebody changed the batch after it was published")


def _json(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_bytes())
    except ValueError as error:
        raise OutputConflictError(f"{path} is not what was written there: {error}") from None
    if not isinstance(told, dict):
        raise OutputConflictError(f"{path} is not what was written there: {told!r:.100}")
    return told


# --- writing ------------------------------------------------------------------------------------------------------


def take_place(path: Path, owner: Owner, frozen: int, epoch: int) -> None:
    """Make the folder this output's, or make sure that it is. `frozen` is the last txid that the log froze.

    Raises OutputConflictError where it is somebody else's, or ahead of the log.
    """
    made = not path.exists()
    (path / HOUSE).mkdir(parents=True, exist_ok=True)
    found = owner_of(path)
    if found is None:
        others = sorted(name for name in os.listdir(path) if name != HOUSE)
        if others:
            raise OutputConflictError(
                f"the folder {path} of output {owner.output!r} holds other things ({', '.join(others[:5])}): name a "
                "folder that is empty or not there"
            )
        found = _found_house(path, owner, made)
    _check_owner(path, found, owner)
    last = max(txids(path), default=0)
    if last > frozen:
        raise OutputConflictError(
            f"the folder {path} of output {owner.output!r} holds batch {last}, and the log froze only up to {frozen}: "
            "the log is an old copy. Restore the newest log, or give the output another path"
        )
    _staging(path, owner.log).mkdir(parents=True, exist_ok=True)
    _sweep(path, owner.log, epoch)


def _found_house(path: Path, owner: Owner, made: bool) -> Owner:
    """Write whose it is, unless somebody is quicker; gives whose it is then."""
    house = path / HOUSE
    new = house / f".sink-{secrets.token_hex(8)}.json"
    _write_json(new, {"format": _FORMAT, **asdict(owner)})
    try:
        os.link(new, house / "sink.json")
    except FileExistsError:
        pass
    finally:
        new.unlink()
    for folder in (house, path, *(path.parents if made else ())):
        fsync_folder(folder)
    found = owner_of(path)
    assert found is not None
    return found


def _check_owner(path: Path, found: Owner, owner: Owner) -> None:
    if (found.topology, found.output) != (owner.topology, owner.output):
        renamed = f"; or, where only its stream was renamed, give it name={found.output!r}: then it goes on there"
        same = renamed if found.topology == owner.topology else ""
        raise OutputConflictError(
            f"the folder {path} belongs to output {found.output!r} of topology {found.topology!r}; give output "
            f"{owner.output!r} a path of its own{same}"
        )
    if found.log != owner.log:
        raise OutputConflictError(
            f"the folder {path} of output {owner.output!r} was written under another log (uuid {found.log}) than this "
            f"one (uuid {owner.log}): its batches have other txids. Start with the checkpointLocation that belongs to "
            "it, or give the output another path"
        )
    if (found.schema, found.partitions) != (owner.schema, owner.partitions):
        by = f" by {', '.join(found.partitions)}" if found.partitions else ""
        now = f" by {', '.join(owner.partitions)}" if owner.partitions else ""
        raise OutputConflictError(
            f"the folder {path} of output {owner.output!r} holds ({found.schema}){by}, the topology writes "
            f"({owner.schema}){now}; give the output another path"
        )


def _staging(path: Path, log: str) -> Path:
    """Return where a log's batches are on their way. Only the start that takes the output makes this folder: a driver
    that slept while another log got the output finds it gone."""
    return path / HOUSE / "staging" / log


def _sweep(path: Path, log: str, epoch: int) -> None:
    """Remove what drivers of earlier epochs left on its way: it is written anew from what is frozen. Version 0.1.0 had
    no folder of the log's there."""
    staging = _staging(path, log)
    for folder in [*staging.iterdir(), *staging.parent.iterdir()]:
        parts = folder.name.split("-")
        if len(parts) == 3 and parts[1].isdigit() and int(parts[1]) < epoch:
            shutil.rmtree(folder, ignore_errors=True)


def stage(path: Path, log: str, txid: int, epoch: int) -> Path:
    """Make a new folder for a batch on its way. Raises OutputConflictError where the output is no longer this log's."""
    folder = _staging(path, log) / f"{txid}-{epoch}-{secrets.token_hex(8)}"
    try:
        folder.mkdir()
    except FileNotFoundError:
        raise OutputConflictError(
            f"the folder {path} is no longer this output's: {folder.parent} is gone; start the topology anew"
        ) from None
    return folder


def seal(folder: Path, txid: int, parts: Sequence[Part]) -> None:
    """Give the files their names, drop what nobody listed, and write the manifest: all durable."""
    listed = {folder / part.hidden for part in parts}
    for found in [*folder.rglob(".*")]:
        if found not in listed:
            found.unlink(missing_ok=True)
    for part in parts:
        os.rename(folder / part.hidden, folder / part.name)
    files = [asdict(part) for part in sorted(parts, key=lambda part: part.name)]
    _write_json(folder / MANIFEST, {"format": _FORMAT, "txid": txid, "files": files})
    for inner in sorted({(folder / part.name).parent for part in parts} | {folder}):
        fsync_folder(inner)


def publish(path: Path, folder: Path, txid: int) -> bool:
    """Make a sealed batch visible, all of it at once; False where it was there already."""
    try:
        os.rename(folder, path / f"{FIELD}={txid}")
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    fsync_folder(path)
    return True


def _write_json(path: Path, told: dict[str, Any]) -> None:
    with open(path, "x", encoding="utf-8") as file:
        json.dump(told, file)
        file.flush()
        os.fsync(file.fileno())


def check_output(path: Path) -> Owner:
    """Whose the folder is, for who reads it."""
    owner = owner_of(path) if path.is_dir() else None
    if owner is None:
        raise OutputError(f"{path} is no folder of a writeParquet output (it has no {HOUSE}/sink.json)")
    return owner
