"""Dropping one state: deleted where it lies, and forgotten by its log, so that it may begin anew."""

import contextlib
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from trident.access.locations import Place, read_place
from trident.base.attempt import Lease
from trident.base.errors import (
    FencedError,
    StateBehindError,
    StateError,
    StateLostError,
    StateRecoveringError,
    TopologyActiveError,
)
from trident.base.names import check_name, did_you_mean
from trident.log.protocol import TransactionLog
from trident.log.snapshot_home import NoHome
from trident.run import registry
from trident.run.reset import drop_store
from trident_state.redis.discovery import find_rest, find_state
from trident_state.store import StateFactory, StateIdentity, StateShape, Store, replacing

if TYPE_CHECKING:
    from trident.log import RedisLog

_HEARD = 2.0
"""Seconds in which a driver that was fenced out notices it (it looks once a second) and its last write is over."""

_IN_PARTS = (StateLostError, StateBehindError, StateRecoveringError)
"""What a state says of which a part is gone, or fell back."""


def dropState(
    topology: str,
    state: str,
    checkpointLocation: str | Path | None = None,
    *,
    log: "RedisLog | None" = None,
    url: str | None = None,
    prefix: str = "trident",
    factory: StateFactory | None = None,
    force: bool = False,
) -> None:
    """Delete one state and let its log forget it: the next start of its topology founds it anew, from there on.

    Give the place of the log, and for a state that is not in memory also where it lies (`url` or `factory`). May be
    repeated after any failure; where the state went and its log still knows it, with `force`.

    Parameters
    ----------
    checkpointLocation, log
        Where the topology's log is, as `start` was told.
    url, prefix, factory
        Where the state is, if not in memory; as for `openState`.
    force
        Drop it though a driver may hold it: one that runs is fenced out first, and stops without writing. Also needed
        without a log, which alone knows of drivers; a start with the log that still knows the state is then refused.

    Raises
    ------
    StateError
        There is no such state, or not at that place, or a driver holds it: it runs, or was killed. Nothing was touched.
    TopologyActiveError
        The topology runs in this process.
    """
    check_name("topology", topology)
    check_name("state", state)
    place = read_place(checkpointLocation, log, url, prefix, factory)
    if any(running.name == topology for running in registry.running_here()):
        raise TopologyActiveError(f"topology {topology!r} is active in this process; stop it before you drop a state")
    if checkpointLocation is None and log is None:
        _drop_without_log(place, topology, state, force)
        return
    looking = place.look(topology)
    with contextlib.closing(looking):
        known, holder, in_memory = looking.births(), looking.lease(), bool(looking.manifest(state))
        uuid = looking.uuid
    elsewhere = url is not None or factory is not None
    theirs = _log_of(place, topology, state) if elsewhere else None
    if state not in known and theirs != uuid:  # it is this log's where a driver that slept through a drop founded it
        raise StateError(
            f"the log of topology {topology!r} knows no state {state!r}{did_you_mean(state, known)} "
            f"(it has {', '.join(sorted(known)) or 'none'}); nothing was touched"
        )
    if not in_memory and not elsewhere:
        raise StateError(f"state {state!r} is not in memory: say where it lies, url= or factory=; nothing was touched")
    held = holder is not None and holder.token != ""
    if held and not force:
        raise StateError(
            f"a driver holds topology {topology!r} (epoch {holder.epoch if holder else 0}): it runs, or it was killed. "
            f"Stop it first; if no driver runs any more, or to fence it out, force it. Nothing was touched"
        )
    if elsewhere and not in_memory and not force and theirs is None:
        raise _not_there(place, topology, state)
    if theirs not in (None, uuid) and not force:
        raise StateError(
            f"state {state!r} stands there under another log (uuid {theirs}) than this one (uuid {uuid}), and a driver "
            f"may be at work on it: give the place of that log, or force it if that log is gone. Nothing was touched"
        )
    writing = place.take(topology)
    with contextlib.closing(writing):
        _drop(place, writing, topology, state, elsewhere, held)


def _log_of(place: Place, topology: str, state: str) -> str | None:
    """Return the uuid of the log of the state that lies there; None where there is none, or not all of one."""
    store = _store(place, topology, state)
    if store is None:
        return None
    with contextlib.closing(store), contextlib.suppress(*_IN_PARTS):
        found = store.report().identity
        return None if found is None else found.log
    return None


def _not_there(place: Place, topology: str, state: str) -> StateError:
    """A log must not forget a state because somebody looked for it in the wrong place, where it then stays."""
    where = repr(place.factory) if place.url is None else f"{place.address.shown} under the prefix {place.prefix!r}"
    return StateError(
        f"the log knows state {state!r} of topology {topology!r}, and there is none at {where}: say where it lies. If "
        f"it is gone there already, as after a drop that was interrupted, force it. Nothing was touched"
    )


def _drop(place: Place, log: TransactionLog, topology: str, state: str, elsewhere: bool, held: bool) -> None:
    lease = log.take()
    if held:
        time.sleep(_HEARD)
    if elsewhere and (store := _store(place, topology, state)) is not None:
        with contextlib.closing(store):
            if _log_of(place, topology, state) == log.uuid:
                drop_store(store, log, lease)
            else:
                store.drop()
    folder = None if place.checkpoint is None else place.folder(topology) / "states" / state
    files = [] if folder is None else _files_in(folder)
    log.forget(lease, state)
    if folder is not None:  # only these: the state may live anew by now, and each file has a name of its own
        _delete(folder, files)
    with contextlib.suppress(FencedError):  # a driver has it by now; the drop is done
        log.give_back(lease)


def _files_in(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if not file.is_dir()] if folder.is_dir() else []


def _delete(folder: Path, files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it is not there, or not empty any more
        folder.rmdir()


def _drop_without_log(place: Place, topology: str, state: str, force: bool) -> None:
    store = _store(place, topology, state)
    if store is None:
        raise StateError(f"no state {state!r} of topology {topology!r} there; nothing was touched")
    with contextlib.closing(store):
        if not force:
            raise StateError(
                f"only the log of topology {topology!r} knows whether a driver writes state {state!r}: give its place "
                f"too (checkpointLocation= or log=). If there is no log any more, force it. Nothing was touched"
            )
        epoch = max((group.lease.epoch for group in store.groups_of() if group.lease is not None), default=0)
        with contextlib.suppress(*_IN_PARTS):  # what is lost in parts can be dropped
            store.acquire(Lease(epoch + 1, secrets.token_hex(8)))  # a driver that still has its log would heal it
        time.sleep(_HEARD)
        store.drop()


def _store(place: Place, topology: str, state: str) -> Store | None:
    nothing = StateShape(pa.schema([]), pa.null(), replacing())
    if place.factory is not None:
        store = place.factory.open(StateIdentity(topology, state, ""), nothing, NoHome())
        found = store.report().identity
        if found is not None and (found.topology, found.name) != (topology, state):
            store.close()
            raise StateError(
                f"{place.factory!r} holds the state {found.name!r} of topology {found.topology!r}; nothing was touched"
            )
        return store
    at = (place.address, place.prefix, topology, state)
    found_state = find_state(*at) or find_rest(*at)
    return None if found_state is None else found_state.open(replacing())
