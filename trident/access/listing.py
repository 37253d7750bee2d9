"""A list of the states in a checkpoint or on a server."""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from trident.access.locations import StateLocation, read_location
from trident.base.errors import TopologyError
from trident.log import RedisLog
from trident.log.protocol import LogReading
from trident.recovery.state_locations import factory_at_place
from trident_state.memory.segments import read_manifest
from trident_state.redis.state_discovery import find_states

ELSEWHERE = "a server or a database, which the log does not name"
"""The location of a state whose location the log does not know."""


@dataclass(frozen=True)
class StateInfo:
    """A state as its log or its server describes it. A field is None if this source does not know it.

    `shape` describes key fields, value and aggregator. `txid` is the last batch that the state holds (from a log: the
    last batch that the log records as committed). `epoch` is the epoch of the last driver. `heldByDriver` is False if
    that driver has released the log.
    """

    topology: str
    name: str
    place: str
    kind: str | None
    shape: str | None
    batchGroup: str | None
    txid: int | None
    epoch: int | None
    heldByDriver: bool | None

    def asDict(self) -> dict[str, Any]:
        """Return the fields of this object as a dict."""
        return asdict(self)


def listStates(
    checkpointLocation: str | Path | None = None,
    *,
    topology: str | None = None,
    log: RedisLog | None = None,
    url: str | None = None,
    prefix: str = "trident",
) -> list[StateInfo]:
    """List the states in a checkpoint, in a log, or on a server, of all topologies or of one. Nothing is written.

    A log also lists the states that are not in memory: for a state in SQLite or in a Delta table it knows the location
    and `kind`, for others neither. Only the store knows their `shape`. With `url` too, a state on that server is
    listed once.

    Parameters
    ----------
    checkpointLocation
        The folder that `start` got as its ``checkpointLocation``.
    topology
        List only this topology's states. Required with `log`.
    log
        The `RedisLog` that `start` got.
    url, prefix
        The server with the states, and the prefix of its keys, as `RedisMapState` takes them. The URL's user needs the
        right to SCAN.

    Raises
    ------
    LogError, StateError
        If there is no such log, or a location cannot be read.
    TopologyError
        If the arguments name no location, or `log` comes without `topology`.

    >>> import tempfile
    >>> listStates(tempfile.mkdtemp())
    []
    """
    location = read_location(checkpointLocation, log, url, prefix)
    if log is not None and topology is None:
        raise TopologyError("a log in Redis belongs to one topology: give topology= too")
    found = [] if url is None else list(_on_server(location, topology))
    known: list[StateInfo] = []
    if log is not None or checkpointLocation is not None:
        for name in [topology] if topology is not None else location.topologies():
            with contextlib.closing(location.open_log_to_read(name)) as reading:
                known += _in_log(reading, name)
    held = {(info.topology, info.name): info.heldByDriver for info in known if info.place == ELSEWHERE}
    states = [replace(info, heldByDriver=held.get((info.topology, info.name))) for info in found]
    there = {(info.topology, info.name) for info in found}
    states += [info for info in known if info.place != ELSEWHERE or (info.topology, info.name) not in there]
    return sorted(states, key=lambda info: (info.topology, info.name, info.place))


def _on_server(location: StateLocation, topology: str | None) -> Iterator[StateInfo]:
    for state in find_states(location.address, location.prefix, topology):
        identity = state.identity
        yield StateInfo(
            identity.topology,
            identity.name,
            f"{location.address.shown}, {location.prefix}",
            state.kind.value,
            state.fingerprint,
            identity.batchGroup or None,
            state.marker,
            state.epoch,
            None,
        )


def _in_log(log: LogReading, topology: str) -> Iterator[StateInfo]:
    lease = log.lease()
    for name, birth in log.births().items():
        text, committed = log.manifest(name), log.history(birth.group).committed
        manifest = read_manifest(text, f"state {name!r}") if text else None
        tables = None if manifest is not None else factory_at_place(log, name)
        kind = manifest or tables
        yield StateInfo(
            topology,
            name,
            "memory" if manifest is not None else ELSEWHERE if tables is None else repr(tables),
            None if kind is None else kind.kind.value,
            None if manifest is None else manifest.fingerprint,
            birth.group,
            max(committed, birth.txid),
            None if lease is None else lease.epoch,
            lease is not None and lease.token != "",
        )
