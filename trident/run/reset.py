"""Giving a topology's past up: its states and its log together, so that neither can contradict the other."""

import contextlib
import logging
import secrets
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trident.base.attempt import Lease
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
from trident.base.step import user_level
from trident.compiler.program import Program
from trident.compiler.stages import cut
from trident.log.protocol import TransactionLog
from trident.log.snapshot_home import NoHome
from trident.log.sqlite_log import SqliteLog
from trident.plan.topology_plan import TopologyPlan
from trident.recovery.folder_owner import owner_of
from trident.run import options, registry
from trident.run.start import LOG_FILE
from trident_state.state_shape import StateIdentity
from trident_state.store import Store

if TYPE_CHECKING:
    from trident.log import RedisLog


logger = logging.getLogger(__name__)


def reset(
    topology: TopologyPlan,
    name: str,
    checkpointLocation: str | Path | None = None,
    log: "RedisLog | None" = None,
    force: bool = False,
) -> None:
    """Drop every state that the topology declares, then the log of `name`, under `checkpointLocation` or in Redis.

    A driver of another process that still runs on that log is fenced out first: it stops without writing.
    Raises TopologyActiveError while it runs in this process, LogError where states stand and no log is at that place
    or not theirs (unless `force`), StateOwnedError where another topology's state stands; nothing is touched then.
    """
    if any(running.name == name for running in registry.running_here()):
        raise TopologyActiveError(f"topology {name!r} is active in this process; stop it before you reset it")
    if checkpointLocation is None and log is None:
        raise TopologyError("reset needs the place of the log: say checkpointLocation= or log= as start was told")
    folder = None if checkpointLocation is None else options.folder(checkpointLocation) / name
    program = cut(topology)
    at = f"in {folder}" if log is None else f"at {log!r}"
    with contextlib.ExitStack() as opened:
        server = None if log is None else log.open_to_drop(name)
        if server is not None:
            opened.callback(server.close)
        there = server is not None or (folder is not None and (folder / LOG_FILE).exists())
        uuid = _uuid_in(folder, name) if server is None else server.uuid
        standing = _standing(program, name, folder, uuid)
        if folder is not None:
            _warn_if_unknown(folder)
        if standing and not force and not there:
            raise LogError(
                f"no log of topology {name!r} is {at}, and states of it stand where the program "
                f"declares them: {', '.join(standing)}. Say where their log is, or force=True if it is gone. "
                f"Nothing was touched"
            )
        theirs = {state: other for state, other in standing.items() if "" not in (uuid, other) and other != uuid}
        if not force:
            _check_this_logs(theirs, f"{at} (uuid {uuid})")
        in_file = None if folder is None else _log_in_file(folder / LOG_FILE, name, opened)
        taken = [(each, each.take()) for each in (in_file, server) if each is not None]
        others = {state for each, _ in taken for state in _known(each)}
        ours = next(((each, lease) for each, lease in taken if each.uuid == uuid), None)
        stores = _open(program, name, folder, dict.fromkeys(theirs, ""), uuid, opened)
        for state, store in stores.items():
            if ours is None or state in theirs:
                store.drop()
            else:
                drop_store(store, *ours)
        for each, lease in taken:
            each.sync(lease)  # who has the log by now may have begun anew in the folder
        if folder is not None and folder.exists():
            _remove(folder)
        if server is not None:
            server.drop(taken[-1][1])
    _warn_of(name, others - stores.keys())


def drop_store(store: Store, log: TransactionLog, lease: Lease) -> None:
    """Drop a state of this log, unless somebody took the log after this lease was given out. One that a later driver
    held goes too where nobody took this log: that one had another copy of it."""
    try:
        store.drop(lease)
    except FencedError:
        log.sync(lease)
        store.drop()


def _log_in_file(path: Path, name: str, until: contextlib.ExitStack) -> SqliteLog | None:
    """Return the log in a file. One that cannot be read is given up as it is."""
    if not path.exists():
        return None
    try:
        log = SqliteLog(path, name)
    except LogError as error:
        logger.warning("the log that is reset cannot be read: %s", error)
        return None
    until.callback(log.close)
    return log


def _uuid_in(folder: Path | None, name: str) -> str:
    """Return the uuid of the log in a file; empty where none is, or one that cannot be read."""
    if folder is None or not (folder / LOG_FILE).exists():
        return ""
    with contextlib.suppress(LogError):
        with contextlib.closing(SqliteLog(folder / LOG_FILE, name, reading=True)) as log:
            return log.uuid
    return owner_of(folder) or ""


def _standing(program: Program, name: str, folder: Path | None, uuid: str) -> dict[str, str]:
    """Return the states that are there, and of each the uuid of its log; empty where that is not known."""
    with contextlib.ExitStack() as opened:
        stores = _open(program, name, folder, {}, uuid, opened)
        found = {state: _log_of(name, state, store) for state, store in stores.items()}
    return {state: uuid for state, uuid in found.items() if uuid is not None}


def _open(
    program: Program,
    name: str,
    folder: Path | None,
    others: Mapping[str, str],
    uuid: str,
    until: contextlib.ExitStack,
) -> dict[str, Store]:
    """Open the stores of all states that the program declares, as states of the log `uuid` (empty: of any), but for
    `others`, of which it says the same."""
    stores = {}
    for group in program.groups:
        for step in group.states:
            state = step.state.name
            identity = StateIdentity(name, state, others.get(state, uuid))
            home = NoHome(None if folder is None else folder / "states" / state)
            stores[state] = step.state.factory.open(identity, program.shapes[state], home)
            until.callback(stores[state].close)
    return stores


def _log_of(name: str, state: str, store: Store) -> str | None:
    """Return the uuid of the log under which the state stands; None where no state is there. Raises StateOwnedError
    where another one is in its place."""
    try:
        found = store.report().identity
    except StateShapeError:  # it is ours, and was declared otherwise when it was created
        return ""
    if found is not None and (found.topology, found.name) != (name, state):
        raise StateOwnedError(
            f"the place of state {state!r} holds the state {found.name!r} of topology {found.topology!r}; "
            f"nothing was touched"
        )
    return None if found is None else found.log


def _check_this_logs(theirs: Mapping[str, str], log_at: str) -> None:
    for state, uuid in theirs.items():
        raise LogMismatchError(
            f"state {state!r} stands under another log (uuid {uuid}) than the one {log_at}, and a driver may be at "
            f"work on it: reset with the checkpointLocation= (or log=) of that log, or say force=True if it is gone. "
            f"To give up only the log that is here, remove it by hand. Nothing was touched"
        )


def _remove(folder: Path) -> None:
    """Remove a topology's folder. It gets another name first: a start may found the next log at its place before all of
    it is gone."""
    left = folder.parent / f".{folder.name}.reset-{secrets.token_hex(8)}"
    folder.rename(left)
    (left / LOG_FILE).unlink(missing_ok=True)
    shutil.rmtree(left)


def _warn_if_unknown(folder: Path) -> None:
    """A name that was never started may be a slip; where nothing is at all, there is nothing to slip beside."""
    others = sorted(path.parent.name for path in folder.parent.glob(f"*/{LOG_FILE}"))
    if others and folder.name not in others:
        warnings.warn(
            f"reset: there is no topology {folder.name!r} in {folder.parent}{did_you_mean(folder.name, others)}; "
            f"there are {', '.join(others)}",
            RuntimeWarning,
            stacklevel=user_level(),
        )


def _known(log: TransactionLog) -> set[str]:
    """Return the states that the log knows, and that do not go with it."""
    try:
        return {state for state in log.births() if not log.manifest(state)}
    except LogError as error:
        logger.warning("the log that is reset does not say which states it knows: %s", error)
        return set()


def _warn_of(name: str, others: set[str]) -> None:
    for state in sorted(others):
        warnings.warn(
            f"reset: the log knew a state {state!r}, which this program does not declare; if it lies on a server, it "
            f"stays there, and dropState({name!r}, {state!r}, url= or factory= (where it lies), force=True) drops it",
            RuntimeWarning,
            stacklevel=user_level(),
        )
