"""The reset of a topology: its states and its log are dropped together, so that neither can contradict the other."""

import contextlib
import logging
import secrets
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident.base.errors import (
    FencedError,
    LogError,
    LogMismatchError,
    StateOwnedError,
    StateShapeError,
    TopologyActiveError,
    TopologyError,
)
from trident.base.names import did_you_mean
from trident.base.verb_call import user_level
from trident.compiler.program import Program
from trident.compiler.stages import cut
from trident.configuration import file_locations
from trident.configuration.settings import STATES
from trident.files.disk import DiskFiles
from trident.files.store import FileStore
from trident.log.protocol import TransactionLog
from trident.log.snapshot_home import NoHome
from trident.log.sqlite_log import SqliteLog
from trident.plan.topology_protocol import TopologyPlan
from trident.recovery.folder_owner import (
    OWN_NAMES,
    OWNER,
    check_files_of,
    check_location_given,
    check_objects_issued,
    owner_of,
)
from trident.recovery.fork_origin import kept_by_reset
from trident.recovery.other_copies import check_no_other_copy
from trident.run import registry
from trident.run.start import LOG_FILE
from trident_state.state_shape import StateIdentity
from trident_state.store import Store

if TYPE_CHECKING:
    from trident.log import RedisLog
    from trident.log.redis_log import RedisTransactionLog


logger = logging.getLogger(__name__)


def reset(
    topology: TopologyPlan,
    name: str,
    checkpointLocation: str | Path | None = None,
    log: "RedisLog | None" = None,
    force: bool = False,
    filesLocation: str | None = None,
    filesStorage: Mapping[str, str] | None = None,
) -> None:
    """Drop every state that the topology declares, then the log of `name`, under `checkpointLocation` or in Redis.

    A driver of another process that still runs on that log is fenced out first: it stops without writing.

    Raises TopologyActiveError while the topology runs in this process. Unless `force`, raises LogError if declared
    states exist but there is no log at the location, or if a state belongs to another log. Raises StateOwnedError if a
    state of another topology is stored under the name of a declared state. Raises LogMismatchError if the files at the
    location belong to another log or to no log, unless `force`. Raises StateAheadError if a driver with another copy of
    this log has a state, unless `force`. After any of these errors nothing was changed.

    A fork keeps the record of the outputs and sources that it must not touch, unless `force`.

    Files and keys of others are not touched: under `filesLocation` only frozen results and snapshots of the topology
    are deleted.
    """
    _check_may_reset(name, checkpointLocation, log)
    folder = None if checkpointLocation is None else file_locations.folder(checkpointLocation) / name
    files = _files_of(name, folder, filesLocation, filesStorage)
    program = cut(topology)
    log_at = f"in {folder}" if log is None else f"at {log!r}"
    with contextlib.ExitStack() as opened:
        server = None if log is None else log.open_to_drop(name)
        if server is not None:
            opened.callback(server.close)
        uuid, kept_at = _identity_in(folder, name) if server is None else (server.uuid, server.files_address())
        present = _present_states(program, name, files, uuid)
        if folder is not None:
            _warn_if_unknown(folder)
        foreign = _of_other_logs(present, uuid)
        if not force:
            if server is None:
                _check_no_states(present, name, folder, log_at)
            _check_this_logs(foreign, f"{log_at} (uuid {uuid})")
            _check_own_files(files, uuid, kept_at, name, log_at)
        in_file = None if folder is None else _log_in_file(folder / LOG_FILE, name, opened)
        taken = [(old, old.take()) for old in (in_file, server) if old is not None]
        known = {state for old, _ in taken for state in _states_of(old)}
        ours = next(((old, lease) for old, lease in taken if old.uuid == uuid), None)
        origin = _kept_origin(ours, force, log_at)
        _check_newest(None if force else files, ours, f"the log {log_at}")
        stores = _open(program, name, files, dict.fromkeys(foreign, ""), uuid, opened)
        if not force:
            _check_no_other_copy(stores, present, ours, log_at)
        _drop_states(stores, foreign, ours)
        for old, lease in taken:
            # raises FencedError if another driver took the log, which may have begun a new run in the
            # folder
            old.sync(lease)
        _remove_logs(folder, files, in_file, server, [lease for _, lease in taken], origin)
    _warn_of(name, known - stores.keys())


def _check_may_reset(name: str, checkpointLocation: str | Path | None, log: "RedisLog | None") -> None:
    """Raise an error if the topology runs in this process, or if the location of its log was not given."""
    if any(running.name == name for running in registry.running_here()):
        raise TopologyActiveError(f"topology {name!r} is active in this process; stop it before you reset it")
    if checkpointLocation is None and log is None:
        raise TopologyError("reset needs the location of the log: give the checkpointLocation= or log= of its start")


def _check_own_files(files: FileStore | None, uuid: str, kept_at: str, name: str, log_at: str) -> None:
    """Raise LogMismatchError if the files belong to another log, or the location of this log's files was not given."""
    check_location_given(files, kept_at, name)
    # A folder with a separate log is reset with that log, in addition to the log that was given.
    if files is not None and not (isinstance(files, DiskFiles) and (files.root / LOG_FILE).exists()):
        by_force = ", or use force=True if the other log is gone"
        check_files_of(files, uuid, kept_at, f"the log {log_at}", by_force)


def _check_newest(files: FileStore | None, ours: tuple[TransactionLog, Lease] | None, log_at: str) -> None:
    """Raise LogMismatchError if a driver on a copy of the log uses the files on an object store. It would lose them."""
    if files is not None and ours is not None and not isinstance(files, DiskFiles):
        check_objects_issued(files, *ours, log_at)


def _check_no_other_copy(
    stores: Mapping[str, Store], present: Mapping[str, str], ours: tuple[TransactionLog, Lease] | None, log_at: str
) -> None:
    """Raise StateAheadError if a driver with a copy of the log has one of the states that this log owns."""
    for state, owner in present.items():
        if ours is not None and owner == ours[0].uuid:
            check_no_other_copy(state, stores[state].report(), ours[0], log_at, "use force=True")


def _drop_states(
    stores: Mapping[str, Store], foreign: Mapping[str, str], ours: tuple[TransactionLog, Lease] | None
) -> None:
    """Drop every state in `stores`.

    States in `foreign` (state name -> uuid of the log that owns it) are dropped without a lease. All others are dropped
    under `ours`, this topology's log and lease, or without a lease if `ours` is None.
    """
    check_drops(stores.values())
    for state, store in stores.items():
        if ours is None or state in foreign:
            store.drop()
        else:
            drop_store(store, *ours)


def check_drops(stores: Iterable[Store]) -> None:
    """Raise StateError if a store knows that its state cannot be dropped. Call it before the first drop."""
    for store in stores:
        check = getattr(store, "check_drop", None)
        if check is not None:
            check()


def drop_store(store: Store, log: TransactionLog, lease: Lease) -> None:
    """Drop a state of this log. Raises FencedError if another driver took the log after `lease` was issued.

    If no other driver took this log but the state has a later lease, then a driver with another copy of the log took
    the state. In that case the state is dropped, too: the callers have checked this, or were asked to use force.
    """
    try:
        store.drop(lease)
    except FencedError:
        log.sync(lease)
        store.drop()


def _log_in_file(path: Path, name: str, until: contextlib.ExitStack) -> SqliteLog | None:
    """Return the log in a file; None if there is no file or it cannot be read (`reset` deletes it nevertheless)."""
    if not path.exists():
        return None
    try:
        log = SqliteLog(path, name)
    except LogError as error:
        logger.warning("the log that is reset cannot be read: %s", error)
        return None
    until.callback(log.close)
    return log


def _of_other_logs(present: Mapping[str, str], uuid: str) -> dict[str, str]:
    """Return the states that another log owns, each with the uuid of that log."""
    return {state: other for state, other in present.items() if "" not in (uuid, other) and other != uuid}


def _holds_log(folder: Path | None) -> bool:
    return folder is not None and (folder / LOG_FILE).exists()


def _identity_in(folder: Path | None, name: str) -> tuple[str, str]:
    """Return the uuid of the log in a folder and the address of its files on an object store; both may be empty.

    If the log cannot be read, its uuid is taken from the folder's owner file.
    """
    if folder is None or not _holds_log(folder):
        return "", ""
    with contextlib.suppress(LogError), contextlib.closing(SqliteLog(folder / LOG_FILE, name, reading=True)) as log:
        return log.uuid, log.files_address()
    return owner_of(folder) or "", ""


def _present_states(program: Program, name: str, files: FileStore | None, uuid: str) -> dict[str, str]:
    """Return the declared states that exist, each with the uuid of the log that owns it (empty if not known)."""
    with contextlib.ExitStack() as opened:
        stores = _open(program, name, files, {}, uuid, opened)
        uuids = {state: _log_of(name, state, store) for state, store in stores.items()}
    return {state: uuid for state, uuid in uuids.items() if uuid is not None}


def _open(
    program: Program,
    name: str,
    files: FileStore | None,
    uuids: Mapping[str, str],
    uuid: str,
    until: contextlib.ExitStack,
) -> dict[str, Store]:
    """Open the stores of all states that the program declares, as states of the log `uuid` (empty: of any log).

    `uuids`: for each state that belongs to another log, the uuid to use instead.
    """
    stores = {}
    for group in program.groups:
        for step in group.states:
            state = step.state.name
            identity = StateIdentity(name, state, uuids.get(state, uuid))
            home = NoHome(None if files is None else files.below(f"{STATES}/{state}"))
            stores[state] = step.state.factory.open(identity, program.shapes[state], home)
            until.callback(stores[state].close)
    return stores


def _log_of(name: str, state: str, store: Store) -> str | None:
    """Return the uuid of the log that owns the state (empty: not known); None if the state does not exist.

    Raises StateOwnedError if another state is stored under its name.
    """
    try:
        identity = store.report().identity
    except StateShapeError:  # a state of this topology that was created with a different declaration
        return ""
    if identity is not None and (identity.topology, identity.name) != (name, state):
        raise StateOwnedError(
            f"the location of state {state!r} has the state {identity.name!r} of topology {identity.topology!r}; "
            f"nothing was changed"
        )
    return None if identity is None else identity.log


def _check_no_states(present: Mapping[str, str], name: str, folder: Path | None, log_at: str) -> None:
    """Raise LogError if states exist but their log does not exist in the folder."""
    if present and not _holds_log(folder):
        raise LogError(
            f"there is no log of topology {name!r} {log_at}, but its states exist: {', '.join(present)}. Give the "
            f"location of their log, or force=True if it is gone. "
            f"Nothing was changed"
        )


def _check_this_logs(foreign: Mapping[str, str], log_at: str) -> None:
    for state, uuid in foreign.items():
        raise LogMismatchError(
            f"state {state!r} belongs to another log (uuid {uuid}), not to the one {log_at}, and a driver may be using "
            f"it: reset with the checkpointLocation= (or log=) of that log, or use force=True if that log is gone. To "
            f"discard only the log given here, remove it by hand. Nothing was changed"
        )


def _files_of(
    name: str, folder: Path | None, filesLocation: str | None, filesStorage: Mapping[str, str] | None
) -> FileStore | None:
    """Return the store of a topology's files; None if the topology has no files."""
    objects = file_locations.files_place(filesLocation, filesStorage)
    if objects is not None:
        return objects.below(name)
    return None if folder is None else DiskFiles(folder, private=True)


def _remove_all(folder: Path | None, files: FileStore | None) -> None:
    if folder is not None and folder.exists():
        _remove(folder)
    if files is not None and not isinstance(files, DiskFiles):
        # Objects that this library did not write stay. The object that names the owner, and so excludes other logs,
        # comes last.
        files.delete([file.name for file in files.files() if file.name.startswith(OWN_NAMES)])
        files.delete([OWNER])


def _kept_origin(ours: tuple[TransactionLog, Lease] | None, force: bool, log_at: str) -> bytes | None:
    """Return the record that a fork keeps over a reset; None if it is no fork, or is to forget it."""
    return None if ours is None or force else kept_by_reset(ours[0], log_at)


def _remove_logs(
    folder: Path | None,
    files: FileStore | None,
    in_file: SqliteLog | None,
    server: "RedisTransactionLog | None",
    leases: Sequence[Lease],
    origin: bytes | None,
) -> None:
    """Remove the logs and all files. The log of a fork starts over with its `origin`."""
    if origin is not None and server is None and folder is not None and in_file is not None:
        _start_over(folder, in_file, leases[0], origin)
        folder = None
    _remove_all(folder, files)
    if server is not None and origin is not None:
        server.start_over(leases[-1], origin)
    elif server is not None:
        server.drop(leases[-1])


def _start_over(folder: Path, log: SqliteLog, lease: Lease, origin: bytes) -> None:
    """Delete everything in a fork's folder except the origin in its log.

    The file that names the log's uuid is deleted first, because the log gets a new one; a start after a crash writes
    the file again.
    """
    (folder / OWNER).unlink(missing_ok=True)
    reach("reset.owner")
    log.start_over(lease, origin)
    reach("reset.log")
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        elif not each.name.startswith(LOG_FILE):
            each.unlink()


def _remove(folder: Path) -> None:
    """Remove a topology's folder.

    The folder is renamed first, because a start may create the next log under its old name before the deletion
    ends.
    """
    renamed = folder.parent / f".{folder.name}.reset-{secrets.token_hex(8)}"
    folder.rename(renamed)
    (renamed / LOG_FILE).unlink(missing_ok=True)
    shutil.rmtree(renamed)


def _warn_if_unknown(folder: Path) -> None:
    """Warn if this topology has no log here but other topologies have one: the name may be misspelt."""
    others = sorted(path.parent.name for path in folder.parent.glob(f"*/{LOG_FILE}"))
    if others and folder.name not in others:
        warnings.warn(
            f"reset: there is no topology {folder.name!r} in {folder.parent}{did_you_mean(folder.name, others)}; "
            f"there are {', '.join(others)}",
            RuntimeWarning,
            stacklevel=user_level(),
        )


def _states_of(log: TransactionLog) -> set[str]:
    """Return the states in the log, except those in memory, whose files are next to the log."""
    try:
        return {state for state in log.births() if not log.manifest(state)}
    except LogError as error:
        logger.warning("the list of states in the log that is reset cannot be read: %s", error)
        return set()


def _warn_of(name: str, others: set[str]) -> None:
    for state in sorted(others):
        warnings.warn(
            f"reset: the log had a state {state!r}, which this program does not declare; if it is on a server, it "
            f"stays there until dropState({name!r}, {state!r}, url= or factory= (its location), force=True) drops it",
            RuntimeWarning,
            stacklevel=user_level(),
        )
