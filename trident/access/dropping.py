"""Dropping one state: deleted where it lies, and forgotten by its log, so that it may begin anew."""

import contextlib
import secrets
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from trident.access.places import Place, read_place
from trident.base.attempt import Lease
from trident.base.errors import StateBehindError, StateError, StateLostError, StateRecoveringError, TopologyActiveError
from trident.base.names import check_name, did_you_mean
from trident.runtime import registry
from trident.runtime.home import NoHome
from trident.runtime.log import TransactionLog
from trident_state.redis.found import find_rest, find_state
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
    if any(running.name == topology for running in registry.active()):
        raise TopologyActiveError(f"topology {topology!r} is active in this process; stop it before you drop a state")
    if checkpointLocation is None and log is None:
        _drop_without_log(place, topology, state, force)
        return
    looking = place.look(topology)
    with contextlib.closing(looking):
        known, holder, in_memory = looking.births(), looking.lease(), bool(looking.manifest(state))
    if state not in known:
        raise StateError(
            f"the log of topology {topology!r} knows no state {state!r}{did_you_mean(state, known)} "
            f"(it has {', '.join(sorted(known)) or 'none'}); nothing was touched"
        )
    elsewhere = url is not None or factory is not None
    if not in_memory and not elsewhere:
        raise StateError(f"state {state!r} is not in memory: say where it lies, url= or factory=; nothing was touched")
    held = holder is not None and holder.token != ""
    if held and not force:
        raise StateError(
            f"a driver holds topology {topology!r} (epoch {holder.epoch if holder else 0}): it runs, or it was killed. "
            f"Stop it first; if no driver runs any more, or to fence it out, force it. Nothing was touched"
        )
    if elsewhere and not in_memory and not force:
        _demand_there(place, topology, state)
    writing = place.take(topology)
    with contextlib.closing(writing):
        _drop(place, writing, topology, state, elsewhere, held)


def _demand_there(place: Place, topology: str, state: str) -> None:
    """A log must not forget a state because somebody looked for it in the wrong place, where it then stays."""
    store = _store(place, topology, state)
    if store is not None:
        with contextlib.closing(store):
            if store.report().identity is not None:
                return
    where = repr(place.factory) if place.url is None else f"{place.address.shown} under the prefix {place.prefix!r}"
    raise StateError(
        f"the log knows state {state!r} of topology {topology!r}, and there is none at {where}: say where it lies. If "
        f"it is gone there already, as after a drop that was interrupted, force it. Nothing was touched"
    )


def _drop(place: Place, log: TransactionLog, topology: str, state: str, elsewhere: bool, held: bool) -> None:
    lease = log.take()
    if held:
        time.sleep(_HEARD)
    if elsewhere and (store := _store(place, topology, state)) is not None:
        with contextlib.closing(store):
            store.drop()
    log.forget(lease, state)
    if place.checkpoint is not None:
        shutil.rmtree(place.folder(topology) / "states" / state, ignore_errors=True)
    log.give_back(lease)


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
