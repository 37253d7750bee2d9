"""Giving a topology's past up: its states and its log together, so that neither can contradict the other."""

import logging
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trident.base.attempt import Lease
from trident.base.errors import LogError, StateOwnedError, StateShapeError, TopologyActiveError, TopologyError
from trident.base.names import did_you_mean
from trident.base.step import user_level
from trident.compiler.program import Program
from trident.compiler.stages import cut
from trident.runtime import options, registry
from trident.runtime.sqlite_log import SqliteLog
from trident.runtime.start import LOG_FILE
from trident_state.store import StateIdentity, Store

if TYPE_CHECKING:
    from trident.log import RedisLog
    from trident.topology import TridentTopology


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Forsaken:
    """The home of a state that is only opened to be dropped."""

    folder: Path | None

    def manifest(self) -> bytes | None:
        return None

    def publish(self, manifest: bytes, lease: Lease) -> None:
        raise AssertionError("a state that is being dropped publishes nothing")


def reset(
    topology: "TridentTopology", name: str, checkpointLocation: str | Path | None = None, log: "RedisLog | None" = None
) -> None:
    """Drop every state that the topology declares, then the log of `name`, under `checkpointLocation` or in Redis.

    A driver of another process that still runs on that log is fenced out first: it stops without writing.
    Raises TopologyActiveError while it runs in this process, StateOwnedError where a place holds another topology's
    state (nothing of it is touched).
    """
    if any(running.name == name for running in registry.active()):
        raise TopologyActiveError(f"topology {name!r} is active in this process; stop it before you reset it")
    if checkpointLocation is None and log is None:
        raise TopologyError("reset needs the place of the log: say checkpointLocation= or log= as start was told")
    folder = None if checkpointLocation is None else options.folder(checkpointLocation) / name
    program = cut(topology)
    if folder is not None:
        _warn_if_unknown(folder)
        _take(folder / LOG_FILE, name)
    taken = None if log is None else log.open(name)
    try:
        if taken is not None:
            taken.take()
        _drop_states(program, name, folder)
        if taken is not None:
            taken.drop()
    finally:
        if taken is not None:
            taken.close()
    if folder is not None and folder.exists():
        shutil.rmtree(folder)


def _drop_states(program: Program, name: str, folder: Path | None) -> None:
    for group in program.groups:
        for step in group.states:
            state = step.state.name
            home = _Forsaken(None if folder is None else folder / "states" / state)
            store = step.state.factory.open(StateIdentity(name, state, ""), program.shapes[state], home)
            try:
                found = _identity(store)
                if found is not None and (found.topology, found.name) != (name, state):
                    raise StateOwnedError(
                        f"the place of state {state!r} holds the state {found.name!r} of topology {found.topology!r}; "
                        f"it was not touched"
                    )
                store.drop()
            finally:
                store.close()


def _identity(store: Store) -> StateIdentity | None:
    try:
        return store.report().identity
    except StateShapeError:  # it is ours, and was declared otherwise when it was created
        return None


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


def _take(path: Path, name: str) -> None:
    """Fence out whoever writes this log. One that cannot be read is given up as it is."""
    if not path.exists():
        return
    try:
        log = SqliteLog(path, name)
    except LogError as error:
        logger.warning("the log that is reset cannot be read: %s", error)
        return
    try:
        log.take()
    finally:
        log.close()
