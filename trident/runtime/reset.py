"""Giving a topology's past up: its states and its log together, so that neither can contradict the other."""

import contextlib
import logging
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from trident.base.errors import LogError, StateOwnedError, StateShapeError, TopologyActiveError, TopologyError
from trident.base.names import did_you_mean
from trident.base.step import user_level
from trident.compiler.program import Program
from trident.compiler.stages import cut
from trident.runtime import options, registry
from trident.runtime.home import NoHome
from trident.runtime.log import TransactionLog
from trident.runtime.sqlite_log import SqliteLog
from trident.runtime.start import LOG_FILE
from trident_state.store import StateIdentity, Store

if TYPE_CHECKING:
    from trident.log import RedisLog
    from trident.topology import TridentTopology


logger = logging.getLogger(__name__)


def reset(
    topology: "TridentTopology",
    name: str,
    checkpointLocation: str | Path | None = None,
    log: "RedisLog | None" = None,
    force: bool = False,
) -> None:
    """Drop every state that the topology declares, then the log of `name`, under `checkpointLocation` or in Redis.

    A driver of another process that still runs on that log is fenced out first: it stops without writing.
    Raises TopologyActiveError while it runs in this process, LogError where states stand and no log is at that place
    (unless `force`), StateOwnedError where a place holds another topology's state; nothing is touched then.
    """
    if any(running.name == name for running in registry.active()):
        raise TopologyActiveError(f"topology {name!r} is active in this process; stop it before you reset it")
    if checkpointLocation is None and log is None:
        raise TopologyError("reset needs the place of the log: say checkpointLocation= or log= as start was told")
    folder = None if checkpointLocation is None else options.folder(checkpointLocation) / name
    program = cut(topology)
    with contextlib.ExitStack() as opened:
        stores = _open(program, name, folder, opened)
        standing = [state for state, store in stores.items() if _stands(name, state, store)]
        if folder is not None:
            _warn_if_unknown(folder)
        if standing and not force and not _is_there(name, folder, log):
            at = f"in {folder}" if log is None else f"at {log!r}"
            raise LogError(
                f"no log of topology {name!r} is {at}, and states of it stand where the program "
                f"declares them: {', '.join(standing)}. Say where their log is, or force=True if it is gone. "
                f"Nothing was touched"
            )
        others = set[str]() if folder is None else _fence_file(folder / LOG_FILE, name)
        taken = None if log is None else log.open(name)
        if taken is not None:
            opened.callback(taken.close)
            others |= _fence(taken)
        for store in stores.values():
            store.drop()
        if taken is not None:
            taken.drop()
    if folder is not None and folder.exists():
        shutil.rmtree(folder)
    _warn_of(name, others - stores.keys())


def _is_there(name: str, folder: Path | None, log: "RedisLog | None") -> bool:
    """Whether there is a log, of whatever kind."""
    if folder is not None and (folder / LOG_FILE).exists():
        return True
    if log is None:
        return False
    try:
        log.look(name).close()
    except LogError:
        return False
    return True


def _open(program: Program, name: str, folder: Path | None, until: contextlib.ExitStack) -> dict[str, Store]:
    """The stores of all states that the program declares."""
    stores = {}
    for group in program.groups:
        for step in group.states:
            state = step.state.name
            home = NoHome(None if folder is None else folder / "states" / state)
            stores[state] = step.state.factory.open(StateIdentity(name, state, ""), program.shapes[state], home)
            until.callback(stores[state].close)
    return stores


def _stands(name: str, state: str, store: Store) -> bool:
    """Whether the state is there. Raises StateOwnedError where another one is in its place."""
    try:
        found = store.report().identity
    except StateShapeError:  # it is ours, and was declared otherwise when it was created
        return True
    if found is not None and (found.topology, found.name) != (name, state):
        raise StateOwnedError(
            f"the place of state {state!r} holds the state {found.name!r} of topology {found.topology!r}; "
            f"nothing was touched"
        )
    return found is not None


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


def _fence_file(path: Path, name: str) -> set[str]:
    """As `_fence`, of a log in a file. One that cannot be read is given up as it is."""
    if not path.exists():
        return set()
    try:
        log = SqliteLog(path, name)
    except LogError as error:
        logger.warning("the log that is reset cannot be read: %s", error)
        return set()
    with contextlib.closing(log):
        return _fence(log)


def _fence(log: TransactionLog) -> set[str]:
    """Fence out whoever writes this log. Gives the states that it knows, and that do not go with it."""
    log.take()
    return {state for state in log.births() if not log.manifest(state)}


def _warn_of(name: str, others: set[str]) -> None:
    for state in sorted(others):
        warnings.warn(
            f"reset: the log knew a state {state!r}, which this program does not declare; if it lies on a server, it "
            f"stays there, and dropState({name!r}, {state!r}, url= or factory= (where it lies), force=True) drops it",
            RuntimeWarning,
            stacklevel=user_level(),
        )
