"""Which states there are, in a checkpoint or on a server."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trident.access.locations import Place, read_place
from trident.base.errors import TopologyError
from trident.log.protocol import LogReading
from trident_state.memory.segments import read_manifest
from trident_state.redis.discovery import find_states

if TYPE_CHECKING:
    from trident.log import RedisLog


@dataclass(frozen=True)
class StateInfo:
    """A state, as its place tells of it. What that does not know is None.

    `shape` is key fields, value and aggregator; `txid` the last batch that it holds (of a state in memory: that its log
    has committed); `epoch` counts the drivers that had it; `heldByDriver` tells whether the last one gave it back.
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
        """The same as plain data."""
        return asdict(self)


def listStates(
    checkpointLocation: str | Path | None = None,
    *,
    topology: str | None = None,
    log: "RedisLog | None" = None,
    url: str | None = None,
    prefix: str = "trident",
) -> list[StateInfo]:
    """The states in a checkpoint, in the logs there, or on a server; of all topologies or one. Nothing is written.

    A checkpoint's log also knows the states that lie on servers, by their names alone: their shape is on the server.

    Parameters
    ----------
    checkpointLocation
        As `start` was told it.
    topology
        Of this one only. Must be given with `log`.
    log
        The `RedisLog` that `start` was given.
    url, prefix
        A server with states, as `RedisMapState` takes them; its user needs the right to SCAN.

    Raises
    ------
    LogError, StateError
        There is no such log, or a place cannot be read.

    >>> import tempfile
    >>> listStates(tempfile.mkdtemp())
    []
    """
    place = read_place(checkpointLocation, log, url, prefix)
    if log is not None and topology is None:
        raise TopologyError("a log in Redis is one topology's: say topology= too")
    found: list[StateInfo] = []
    if url is not None:
        found += _on_server(place, topology)
    if log is not None or checkpointLocation is not None:
        for name in [topology] if topology is not None else place.topologies():
            looking = place.look(name)
            try:
                found += _in_log(looking, name, place)
            finally:
                looking.close()
    return sorted(found, key=lambda each: (each.topology, each.name, each.place))


def _on_server(place: Place, topology: str | None) -> Iterator[StateInfo]:
    for each in find_states(place.address, place.prefix, topology):
        identity, shown = each.identity, place.address.shown
        yield StateInfo(
            identity.topology,
            identity.name,
            f"{shown}, {place.prefix}",
            each.kind.value,
            each.fingerprint,
            identity.batchGroup or None,
            each.marker,
            each.epoch,
            None,
        )


def _in_log(log: LogReading, topology: str, place: Place) -> Iterator[StateInfo]:
    lease = log.lease()
    where = f"log {place.log!r}" if place.log is not None else "log in the checkpoint"
    for name, birth in log.births().items():
        text, committed = log.manifest(name), log.history(birth.group).committed
        manifest = read_manifest(text, f"state {name!r}") if text else None
        yield StateInfo(
            topology,
            name,
            where if manifest is None else "memory",
            None if manifest is None else manifest.kind.value,
            None if manifest is None else manifest.fingerprint,
            birth.group,
            max(committed, birth.txid),
            None if lease is None else lease.epoch,
            lease is not None and lease.token != "",
        )
