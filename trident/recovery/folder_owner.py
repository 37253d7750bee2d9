"""The owner of a topology's files, in a folder or on an object store: one log, which is in the folder or in Redis.

Only that log names the snapshots and frozen results among these files, so a driver of any other log would delete them
as garbage. Therefore the log's uuid is stored beside the files, and the log stores the address of the files if they are
on an object store. A start, a reset or a drop is refused, before it changes anything, if the two do not match.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec

from trident.base.attempt import Lease
from trident.base.durable_files import fsync_folder, make_folder
from trident.base.errors import FencedError, LogMismatchError
from trident.configuration.file_locations import files_place
from trident.configuration.settings import STATES, Settings
from trident.files.disk import DiskFiles
from trident.files.lease_records import create_record, newest_epoch, newest_record
from trident.files.store import FileStore
from trident.frozen.files import ANSWER, FROZEN, PROBE
from trident.log.protocol import TransactionLog
from trident.log.sqlite_log import holds_no_log
from trident.recovery.savepoint import SAVEPOINTS
from trident.recovery.streaming_checkpoint import check_no_query

OWNER = "log.uuid"

_DRIVERS = "drivers"
"""The folder of the records of drivers that took the file store."""

OWN_NAMES = (f"{FROZEN}/", f"{STATES}/", f"{SAVEPOINTS}/", f"{_DRIVERS}/", PROBE, ANSWER)
"""The beginnings of the names of all other files that the library writes for a topology on an object store."""


def check_log_there(settings: Settings, file: str) -> None:
    """Raise LogMismatchError if the folder belongs to a log whose file is missing or empty.

    A new log must not be created there. TopologyError: it is the checkpoint of a Structured Streaming query.

    Nothing is written.
    """
    owner, path = _owner(settings), settings.folder / file
    if owner is None:
        if settings.lasting and not path.exists():
            _check_folder_new(settings)
        return
    if not path.exists():
        raise LogMismatchError(
            f"{settings.folder} belongs to a log (uuid {owner}) that is not in this folder: the log was removed, or is "
            f"in Redis. Start with the log=RedisLog(...) that belongs to it, or restore {file}; or {settings.way_out}"
        )
    if holds_no_log(path):
        raise LogMismatchError(
            f"{settings.folder} belongs to a log (uuid {owner}), but {file} in it is empty: it was emptied, or "
            f"{file}-wal, which had its last writes, was removed or not copied. Restore both files from one copy; "
            f"or {settings.way_out}. Nothing was changed"
        )


def check_own_folder(settings: Settings, uuid: str) -> None:
    """Take the folder for this log if it belongs to no log. Raises LogMismatchError if it belongs to another log."""
    owner = _owner(settings)
    if owner is None and settings.lasting:
        if settings.log is not None:  # a log in the folder was checked before it was created
            _check_folder_new(settings)
        _take(settings, uuid)
    elif owner not in (None, uuid):
        raise LogMismatchError(
            f"{settings.folder} belongs to another log (uuid {owner}), not to the one {settings.log_at} (uuid {uuid}): "
            f"the location was mixed up, or the log was removed. Start with the log that belongs to the folder "
            f"(without log= if the log is in it, otherwise with its log=RedisLog(...)), or {settings.way_out}"
        )


def check_own_objects(settings: Settings, log: TransactionLog) -> str:
    """Take the topology's file store on an object store for this log, or check that it belongs to this log already.

    Return the address that the log keeps of its files, for `record_own_objects`.

    This is also the first request of a start: it finds out whether the object store answers and allows this driver to
    write. Raises LogMismatchError if the files belong to another log, or if this log's files are elsewhere; FilesError
    if the store does not answer or refuses.
    """
    place, kept_at = settings.objects, log.files_address()
    check_location_given(place, kept_at, settings.name)
    if place is None:
        return kept_at
    owner = objects_owner(place)
    if owner is None:
        if named := _names_files(log):
            where = f" at {kept_at}" if kept_at else ""
            raise LogMismatchError(
                f"filesLocation={settings.files_location!r} has no files of topology {settings.name!r}, but the log of "
                f"the topology names files{where} ({named}): start with the filesLocation that has them (or without "
                f"one, if they are under the checkpointLocation), or copy them to {place.address} with {OWNER}"
            )
        every = files_place(settings.filesLocation, settings.filesStorage)
        check_no_query(f"filesLocation={settings.files_location!r}", *([] if every is None else [every]), place)
        place.create(OWNER, f"{log.uuid}\n".encode())
        owner = objects_owner(place)
    if owner != log.uuid:
        raise LogMismatchError(
            f"{place.address} belongs to another log (uuid {owner}), not to the one {settings.log_at} (uuid "
            f"{log.uuid}): the location was mixed up, or the log was removed. Start with the log that belongs to it, "
            f"or give another filesLocation, or {settings.way_out}"
        )
    return kept_at


def take_objects(settings: Settings, log: TransactionLog, lease: Lease) -> None:
    """Record in the file store on an object store that this driver takes it, before any file in it is deleted.

    Raises LogMismatchError as `check_objects_issued` does.
    """
    place = settings.objects
    if place is not None:
        check_objects_issued(place, log, lease, f"the log {settings.log_at}")
        if not create_record(place, _DRIVERS, lease.epoch, msgspec.json.encode(lease)):
            raise _other_log(place, f"the log {settings.log_at}", lease.epoch, lease)


def check_objects_issued(place: FileStore, log: TransactionLog, lease: Lease, log_at: str) -> None:
    """Raise LogMismatchError if the last driver that took the file store was not started by this log.

    A copy of the log has the same uuid but generates other leases. Its driver would delete files that the other driver
    needs. Raises FencedError if a later driver of this log took the file store.
    """
    newest = newest_record(place, _DRIVERS)
    if newest is None:
        return
    with suppress(msgspec.DecodeError):  # not a record of this library: the owner of these files is unknown
        last = msgspec.json.decode(newest[1], type=Lease)
        if last == lease or log.issued(last):
            if last.epoch > lease.epoch:
                raise _taken(place, last.epoch, lease)
            return
        raise _other_log(place, log_at, last.epoch, lease)
    raise _other_log(place, log_at, lease.epoch, lease)


def _other_log(place: FileStore, log_at: str, epoch: int, lease: Lease) -> LogMismatchError:
    return LogMismatchError(
        f"{place.address} was taken by a driver of epoch {epoch} that {log_at} did not start (this driver's epoch is "
        f"{lease.epoch}): the log is an old copy, or a copy of it was started elsewhere. Start with the newest log, "
        f"and remove the copy by hand: a reset would delete the files of both. No file was touched"
    )


def check_objects_ours(place: FileStore | None, lease: Lease) -> None:
    """Raise FencedError if another driver took the file store on an object store after this driver."""
    newest = None if place is None or isinstance(place, DiskFiles) else newest_epoch(place, _DRIVERS)
    if newest is not None and newest > lease.epoch:
        assert place is not None
        raise _taken(place, newest, lease)


def _taken(place: FileStore, epoch: int, lease: Lease) -> FencedError:
    return FencedError(
        f"another driver (epoch {epoch}; this driver has {lease.epoch}) took the files at {place}; this driver "
        f"stops. If you started no other driver, a copy of the log was started elsewhere"
    )


def check_location_given(files: FileStore | None, kept_at: str, topology: str) -> None:
    """Raise LogMismatchError if the log keeps its files at `kept_at` on an object store, and `files` is not on one.

    `files`: the file store that the caller named. Another object store is not refused here, because files may have been
    copied.
    """
    if kept_at and (files is None or isinstance(files, DiskFiles)):
        raise LogMismatchError(
            f"the files of topology {topology!r} are at {kept_at}, according to its log: give "
            f"filesLocation={kept_at.removesuffix(f'/{topology}')!r}. If this is a copy of the log, reset the copy "
            f"instead: its topology would delete files that the original needs. Nothing was changed"
        )


def record_own_objects(settings: Settings, log: TransactionLog, lease: Lease, kept_at: str) -> None:
    """Record in the log the address of its files, if they are on an object store.

    `kept_at`: the address that `check_own_objects` found, before this driver had the lease. Raises LogMismatchError if
    another driver has recorded another address since.
    """
    now = log.files_address()
    own = "" if settings.objects is None else settings.objects.address
    if now not in (kept_at, own):
        raise LogMismatchError(
            f"another driver of topology {settings.name!r} moved its files to {now} during this start; start again"
        )
    if now != own:
        log.keep_files_at(lease, own)


def check_files_of(files: FileStore, uuid: str, kept_at: str, log_at: str, otherwise: str = "") -> None:
    """Raise LogMismatchError unless the files belong to the log `uuid`, so that no files of another log are deleted.

    Objects that belong to no log are refused, too: a prefix that is one level too high has the objects of all
    topologies. A prefix without objects is refused if the log keeps its files elsewhere (`kept_at`). `otherwise`: other
    advice for the message.
    """
    if isinstance(files, DiskFiles):
        owner, expected = owner_of(files.root), False
    else:
        owner, expected = objects_owner(files), bool(kept_at) or any(True for _ in files.files())
    if owner != uuid and (owner is not None or expected):
        whose = "no log (the file log.uuid is missing)" if owner is None else f"the log of uuid {owner}"
        elsewhere = f", whose files are at {kept_at}" if kept_at else ""
        raise LogMismatchError(
            f"the files at {files} belong to {whose}, but {log_at} has the uuid {uuid or 'none'}{elsewhere}: give the "
            f"location and the log with which the topology was started{otherwise}. Nothing was changed"
        )


def objects_owner(place: FileStore) -> str | None:
    """Return the uuid of the log that owns a file store; None if no log owns it."""
    try:
        return bytes(place.read(OWNER)).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None


def _names_files(log: TransactionLog) -> str:
    """Return a file or folder that the log names, in words for a message; "" if the log names none."""
    for group in sorted(log.groups()):
        if folders := log.folders(group):
            return f"frozen results in {min(folders)}"
    states = [state for state in log.births() if log.manifest(state)]
    return f"snapshots of state {states[0]!r}" if states else ""


def owner_of(folder: Path) -> str | None:
    """Return the uuid of the log that owns the folder; None if no log owns it."""
    try:
        return (folder / OWNER).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None


def _owner(settings: Settings) -> str | None:
    return owner_of(settings.folder) if settings.lasting else None


def _check_folder_new(settings: Settings) -> None:
    location = settings.folder.parent
    check_no_query(f"checkpointLocation={str(location)!r}", DiskFiles(location), DiskFiles(settings.folder))


def _take(settings: Settings, uuid: str) -> None:
    """Write the log's uuid into the folder, atomically and durably, before any other file is written there."""
    make_folder(settings.folder)
    aside = settings.folder / f".{OWNER}.{secrets.token_hex(4)}"
    with aside.open("x", encoding="ascii") as file:
        file.write(f"{uuid}\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, settings.folder / OWNER)
    fsync_folder(settings.folder)
