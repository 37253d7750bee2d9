"""The function dropState, which deletes one state from its store and from the log, so that it can begin again."""

import contextlib
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from trident.access.locations import StateLocation, read_location
from trident.access.stored_states import StoredStates, open_to_drop
from trident.base.attempt import Lease
from trident.base.errors import (
    StateBehindError,
    StateError,
    StateLostError,
    StateRecoveringError,
    TopologyActiveError,
)
from trident.base.names import check_name, did_you_mean
from trident.configuration.settings import STATES
from trident.log import RedisLog
from trident.log.protocol import Birth, TransactionLog
from trident.log.returned_lease import give_back
from trident.recovery.folder_owner import check_files_of, check_location_given
from trident.recovery.fork_origin import Origin, origin_of
from trident.recovery.other_copies import check_no_other_copy
from trident.recovery.state_locations import factory_at_place
from trident.run import registry
from trident.run.reset import check_drops, drop_store
from trident_state.store import StateFactory
from trident_state.store_messages import StoreReport

_FENCED_SECONDS = 2.0
"""Seconds after which a fenced driver has noticed the fence (it checks once a second) and ended its last write."""

_INCOMPLETE = (StateLostError, StateBehindError, StateRecoveringError)
"""The errors of a state that has lost a part of its groups or batches."""


def dropState(
    topology: str,
    state: str,
    checkpointLocation: str | Path | None = None,
    *,
    log: RedisLog | None = None,
    filesLocation: str | None = None,
    filesStorage: Mapping[str, str] | None = None,
    url: str | None = None,
    prefix: str = "trident",
    factory: StateFactory | None = None,
    force: bool = False,
) -> None:
    """Delete one state from its store and its log. The next start of its topology makes an empty state and continues.

    The watermarks of a state (of windows, joins and other steps by event time) are dropped with it. They cannot be
    dropped separately.

    Give the location of the log, and for a state on a server or in a store that you wrote also its location
    (`url` or `factory`); the log has the locations of tables. The call may be repeated after any failure. Repeat the
    call with `force` if the store no longer has the state but the log still lists it.

    Parameters
    ----------
    checkpointLocation, log
        The location of the topology's log, as `start` got it.
    filesLocation, filesStorage
        The location of the topology's files and the options of its store, if `start` got them.
    url, prefix, factory
        The location of a state that is neither in memory nor in a table, as for `openState`. Give `factory` for a table
        that needs options.
    force
        Drop the state even if a driver may hold it: a running driver is fenced out first, and stops without writing.
        Also needed if no log is given, because only the log records drivers. After such a drop, a start with a log that
        still lists the state is refused.

    Raises
    ------
    StateAheadError
        If a driver with another copy of the log has the state. Nothing was changed.
    StateError
        If there is no such state, or not at that location, if it is the watermark of another state, or if a driver that
        runs or was killed holds the topology. Nothing was changed.
    LogMismatchError
        If the files at that location belong to another log or to none, or if the log keeps them on an object store and
        no `filesLocation` was given. Nothing was changed.
    TopologyActiveError
        If the topology runs in this process.
    """
    check_name("topology", topology)
    check_name("state", state)
    location = read_location(checkpointLocation, log, url, prefix, factory, filesLocation, filesStorage)
    if any(running.name == topology for running in registry.running_here()):
        raise TopologyActiveError(f"topology {topology!r} is active in this process; stop it before you drop a state")
    if checkpointLocation is None and log is None:
        _drop_without_log(location, topology, state, force)
        return
    location = _with_place(location, topology, state)
    known = _read(location, topology, state)
    if known.origin is not None and state in known.births:
        with contextlib.closing(location.open_log_to_write(topology)) as writing:
            _drop_unstarted(writing, known.origin, [*known.watermarks, state], known.holder)
        return
    in_store = location.url is not None or location.factory is not None
    report = _report_of(location, topology, state) if in_store else None
    store_log = _log_of(report)
    _check_known(known, topology, state, store_log)
    _check_location(known, state, in_store)
    if not force:
        _check_free(known, topology)
        if in_store and not known.in_memory and store_log is None and state in known.births:
            raise _missing_in_store(location, topology, state)
        _check_own_state(known, state, store_log)
        _check_newest_log(location, topology, state, report)
    with contextlib.closing(location.open_log_to_write(topology)) as writing:
        _drop(location, writing, topology, [*known.watermarks, state], in_store, known.held, known.in_memory)


@dataclass(frozen=True, slots=True)
class _Known:
    """The log's record of a state that is to be dropped.

    `in_memory`: the log has snapshots of it. `origin`: that of a fork that was never started, so that no store has its
    states yet.
    """

    births: Mapping[str, Birth]
    uuid: str
    holder: Lease | None
    watermarks: Sequence[str]
    in_memory: bool
    origin: Origin | None

    @property
    def held(self) -> bool:
        """True if the topology has a driver, running or killed."""
        return self.holder is not None and self.holder.token != ""


def _with_place(location: StateLocation, topology: str, state: str) -> StateLocation:
    """Return the location with the factory from the log for a state in tables, if the caller named no store."""
    if location.url is not None or location.factory is not None:
        return location
    with contextlib.closing(location.open_log_to_read(topology)) as reading:
        factory = None if reading.manifest(state) else factory_at_place(reading, state)
    return location if factory is None else replace(location, factory=factory)


def _read(location: StateLocation, topology: str, state: str) -> _Known:
    """Read the log. Raises StateError for a watermark, LogMismatchError if another log owns the state's files."""
    with contextlib.closing(location.open_log_to_read(topology)) as reading:
        held_states = StoredStates(location, topology, reading)
        _check_no_watermark(held_states, state)
        watermarks = held_states.watermarks_of(state)
        in_memory = any(reading.manifest(name) for name in (state, *watermarks))
        kept_at = reading.files_address()
        if in_memory and location.has_files:  # only a state in memory has files
            check_files_of(location.place(topology, reading), reading.uuid, kept_at, "the log that was given")
        elif in_memory:
            check_location_given(None, kept_at, topology)
        lease, origin = reading.lease(), origin_of(reading, f"of topology {topology!r}")
        started = origin is None or lease is None or origin.unstarted != lease.epoch
        return _Known(reading.births(), reading.uuid, lease, watermarks, in_memory, None if started else origin)


def _check_known(known: _Known, topology: str, state: str, store_log: str | None) -> None:
    """Raise StateError unless the log has the state, or the store has it and this log owns it."""
    # A driver that was suspended during an earlier drop may have made the state again after the log forgot the state.
    if state not in known.births and store_log != known.uuid and not known.watermarks:
        raise StateError(
            f"the log of topology {topology!r} has no state {state!r}{did_you_mean(state, known.births)} "
            f"(it has {', '.join(sorted(known.births)) or 'none'}); nothing was changed"
        )


def _check_location(known: _Known, state: str, in_store: bool) -> None:
    """Raise StateError if the state may be in a store whose location was not given."""
    if not known.in_memory and not in_store:
        raise StateError(
            f"state {state!r} is not in memory (the log has no snapshots of it): give the location of its store, url= "
            f"or factory=; nothing was changed"
        )


def _check_free(known: _Known, topology: str) -> None:
    """Raise StateError if the topology may have a driver."""
    if known.held:
        raise StateError(
            f"a driver holds topology {topology!r} (epoch {known.holder.epoch if known.holder else 0}): it is "
            f"running, or was killed. Stop it first; if no driver is running, or to fence it out, use force. "
            f"Nothing was changed"
        )


def _check_own_state(known: _Known, state: str, store_log: str | None) -> None:
    """Raise StateError if another log owns the state in the store."""
    if store_log not in (None, known.uuid):
        raise StateError(
            f"state {state!r} at the given location belongs to another log (uuid {store_log}), not to this one (uuid "
            f"{known.uuid}), and a driver may be writing it: give the location of that log, or use force if that log "
            f"is gone. Nothing was changed"
        )


def _check_newest_log(location: StateLocation, topology: str, state: str, report: StoreReport | None) -> None:
    """Raise StateAheadError if a driver with another copy of the log has the state in the store."""
    if report is not None:
        with contextlib.closing(location.open_log_to_read(topology)) as reading:
            check_no_other_copy(state, report, reading, f"of topology {topology!r}", "use force")


def _check_no_watermark(held: StoredStates, state: str) -> None:
    """Raise StateError for the watermark of an existing state. Without it, the state would reopen closed windows."""
    owner = held.owner_of(state)
    if owner is not None:
        raise StateError(
            f"state {state!r} is the watermark of state {owner!r} and cannot be dropped separately; drop {owner!r}, "
            f"which "
            f"also drops its watermarks. Nothing was changed"
        )


def _report_of(location: StateLocation, topology: str, state: str) -> StoreReport | None:
    """Return the report of the state's store; None if the state is absent or incomplete."""
    store = open_to_drop(location, topology, state)
    if store is None:
        return None
    with contextlib.closing(store), contextlib.suppress(*_INCOMPLETE):
        return store.report()
    return None


def _log_of(report: StoreReport | None) -> str | None:
    """Return the uuid of the log that owns a state; None if the state is absent or incomplete."""
    return None if report is None or report.identity is None else report.identity.log


def _missing_in_store(location: StateLocation, topology: str, state: str) -> StateError:
    # Such a drop is refused, because the location may be wrong: then the log would forget a state that still exists
    # elsewhere.
    server = location.url is not None
    where = f"{location.address.shown} under the prefix {location.prefix!r}" if server else repr(location.factory)
    return StateError(
        f"the log has state {state!r} of topology {topology!r}, but it is not at {where}: give its location. If it "
        f"is already gone, for example after an interrupted drop, use force. Nothing was changed"
    )


def _drop(
    location: StateLocation,
    log: TransactionLog,
    topology: str,
    states: Sequence[str],
    in_store: bool,
    held: bool,
    with_files: bool = True,
) -> None:
    """Drop a state and its watermarks. The watermarks come first in `states`.

    If the process dies in between, a state without its watermarks remains. The log still lists the watermarks, so a
    start is refused. After an error the log is given back, so that the drop can be repeated without force.
    """
    lease = log.take()
    if held:
        time.sleep(_FENCED_SECONDS)
    try:
        _drop_under(lease, location, log, topology, states, in_store, with_files)
    finally:
        give_back(log, lease)


def _drop_under(
    lease: Lease,
    location: StateLocation,
    log: TransactionLog,
    topology: str,
    states: Sequence[str],
    in_store: bool,
    with_files: bool,
) -> None:
    for state in states if in_store else ():
        if (store := open_to_drop(location, topology, state)) is not None:
            with contextlib.closing(store):
                check_drops([store])
    for state in states:
        if in_store and (store := open_to_drop(location, topology, state)) is not None:
            with contextlib.closing(store):
                if _log_of(_report_of(location, topology, state)) == log.uuid:
                    drop_store(store, log, lease)
                else:
                    store.drop()
    # The files are listed before the log forgets the states. Afterwards a start may create the states again and write
    # files with other names, which must stay.
    places = []
    if with_files and location.has_files:
        place = location.place(topology, log)
        places = [place.below(f"{STATES}/{state}") for state in states]
    files = [(place, [file.name for file in place.files()]) for place in places]
    log.forget(lease, *states)
    for place, names in files:
        place.delete(names)
        place.remove_empty()


def _drop_unstarted(log: TransactionLog, origin: Origin, states: Sequence[str], after: Lease | None) -> None:
    """Drop states of a fork that was never started, which are only in its log.

    Raises FencedError if a driver took it.
    """
    lease = log.take(after=after)
    try:
        log.forget(lease, *states)
        log.keep_origin(lease, msgspec.json.encode(msgspec.structs.replace(origin, unstarted=lease.epoch)))
    finally:
        give_back(log, lease)


def _drop_without_log(location: StateLocation, topology: str, state: str, force: bool) -> None:
    held = StoredStates(location, topology, None)
    _check_no_watermark(held, state)
    names = [*held.watermarks_of(state), state]
    with contextlib.ExitStack() as opened:
        stores = [store for name in names if (store := open_to_drop(location, topology, name)) is not None]
        for store in stores:
            opened.callback(store.close)
        if not stores:
            raise StateError(f"no state {state!r} of topology {topology!r} at the given location; nothing was changed")
        if not force:
            raise StateError(
                f"only the log of topology {topology!r} says whether a driver writes state {state!r}: give its "
                f"location too (checkpointLocation= or log=). If the log no longer exists, use force. Nothing was "
                f"changed"
            )
        check_drops(stores)
        for store in stores:
            epoch = max((group.lease.epoch for group in store.groups_of() if group.lease is not None), default=0)
            # The newer lease fences out a running driver, because that driver would heal the state during the drop.
            # An incomplete state cannot be acquired, but can be dropped.
            with contextlib.suppress(*_INCOMPLETE):
                store.acquire(Lease(epoch + 1, secrets.token_hex(8)))
        time.sleep(_FENCED_SECONDS)
        for store in stores:
            store.drop()
