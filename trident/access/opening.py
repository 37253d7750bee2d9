"""Opening a state by its name, only to be read."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from trident.access.locations import Place, read_place
from trident.access.opened_state import FollowedStore, OpenedState
from trident.access.replica import MemoryReplica
from trident.base.errors import StateError, StateShapeError, TopologyError
from trident.base.names import check_name, did_you_mean
from trident.compiler.states.shapes import aggregator_name
from trident.log.snapshot_home import NoHome
from trident.operations.averages import Average
from trident.operations.builtin_aggregators import Count, Max, Min, Sum
from trident.reads.committed_reads import Isolation
from trident.reads.state_view import Described
from trident_state.fingerprint import Fingerprint, read_fingerprint
from trident_state.redis.discovery import FoundState, find_state
from trident_state.store import Combine, StateFactory, StateIdentity, StateKind, StateShape, replacing

if TYPE_CHECKING:
    from trident.log import RedisLog

_BUILTIN = {
    "Count": Combine("Count", Count().combine, "sum"),
    "Sum": Combine("Sum", Sum().combine, "sum"),
    "Min": Combine("Min", Min().combine, "min"),
    "Max": Combine("Max", Max().combine, "max"),
    "Average": Combine("Average", Average().combine, None),
    "put": replacing(),
}


def openState(
    topology: str,
    state: str,
    checkpointLocation: str | Path | None = None,
    *,
    log: "RedisLog | None" = None,
    url: str | None = None,
    prefix: str = "trident",
    factory: StateFactory | None = None,
    aggregator: Any = None,
    isolation: Isolation = "committed",
) -> OpenedState:
    """Open a state by the names of its topology and its own, while the topology is stopped or runs elsewhere.

    It is only read: no lease is taken, nothing is written, and a driver that runs goes on undisturbed. The verbs are
    those of ``running.state(...)``.

    Parameters
    ----------
    checkpointLocation
        As `start` was told it, for a state in memory. The whole state is loaded into this process, and follows its
        driver from then on.
    log
        The same `RedisLog` as `start` was given, where the log of that state in memory is in Redis.
    url, prefix
        For a state in Redis: as `RedisMapState` takes them (also ``env:NAME`` and ``file:path``). How it is laid out
        stands there. With a `checkpointLocation` too, a state that is not there is looked for in the checkpoint.
    factory
        For a store of your own: what stood in the topology, ``BackingMapState.opaque(...)``.
    aggregator
        An aggregator of your own, as it stood in the topology, where readers are to see what its ``present`` makes of
        a value, or where a state in memory has gone on since its last snapshot.
    isolation
        ``"committed"``, or ``"latest"`` for whatever was written last.

    Raises
    ------
    StateError
        There is no such state; the message lists those there are. Its kinds: StateUnavailableError (a server does not
        answer), StateLostError, StateCorruptError, StateShapeError (another aggregator, or one that must be given).
    LogError
        There is no such log, or it cannot be read.
    TopologyError
        The arguments do not say where the state is.

    Examples
    --------
    >>> import tempfile
    >>> from trident import Count, TridentTopology, openState
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> from trident.testing.local import start_local
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
    >>> _ = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with start_local(topology, name="wc", checkpointLocation=folder) as running:
    ...         running.processAllAvailable()
    ...     with openState("wc", "counts", folder) as counts:
    ...         print(counts["dog"], counts.multiGet(["cat", "unicorn"]), counts.asOfTxid)
    2 [1, None] 2
    """
    check_name("topology", topology)
    check_name("state", state)
    place = read_place(checkpointLocation, log, url, prefix, factory)
    if url is not None:
        found = find_state(place.address, place.prefix, topology, state)
        if found is None and place.keeps(topology, state):
            return _in_memory(place, topology, state, aggregator, isolation)
        followed, told, kind = _on_server(place, found, topology, state)
        output = _output(told)
    elif factory is not None:
        followed, told, kind = _in_own_store(factory, topology, state)
        output = _output(told)
    else:
        return _in_memory(place, topology, state, aggregator, isolation)
    present = _presenting(told, state, aggregator)
    shape = StateShape(told.keys, told.value, _BUILTIN["put"])
    try:
        return OpenedState(topology, followed, Described(state, kind, shape, output, present), isolation)
    except BaseException:
        followed.close()
        raise


def _in_memory(place: Place, topology: str, state: str, aggregator: Any, isolation: Isolation) -> OpenedState:
    if place.checkpoint is None:
        raise TopologyError(
            f"state {state!r}: a log in Redis tells of a state in memory, whose snapshots lie under its "
            f"checkpointLocation: give that too"
        )
    log = place.look(topology)
    try:
        known = log.births()
        if state not in known:
            there = ", ".join(sorted(known)) or "none"
            raise StateError(
                f"no state {state!r} in topology {topology!r}{did_you_mean(state, known)} (it has {there})"
            )
        if not log.manifest(state):
            raise StateError(
                f"state {state!r} of topology {topology!r} is not in this checkpoint, only its log is: it lies on a "
                f"server. Say url= for one in Redis, or factory= for a store of your own"
            )
        told = read_fingerprint(MemoryReplica(log, place.folder(topology), state, None).manifest.fingerprint)
        present = _presenting(told, state, aggregator)
        replica = MemoryReplica(log, place.folder(topology), state, _combine(told, aggregator))
        replica.committed()
        shape = StateShape(told.keys, told.value, _BUILTIN["put"])
        described = Described(state, replica.manifest.kind, shape, _output(told), present)
        return OpenedState(topology, replica, described, isolation)
    except BaseException:
        log.close()
        raise


def _on_server(
    place: Place, found: FoundState | None, topology: str, state: str
) -> tuple[FollowedStore, Fingerprint, StateKind]:
    if found is None:
        raise StateError(
            f"no state {state!r} of topology {topology!r} at {place.address.shown} under the prefix {place.prefix!r}; "
            f"listStates(url=...) tells which there are"
        )
    return FollowedStore(found.open(_BUILTIN["put"]), state), read_fingerprint(found.fingerprint), found.kind


def _in_own_store(factory: StateFactory, topology: str, state: str) -> tuple[FollowedStore, Fingerprint, StateKind]:
    """What is there tells the shape, with which it is opened again."""
    identity = StateIdentity(topology, state, "")
    probe = factory.open(identity, StateShape(pa.schema([]), pa.null(), _BUILTIN["put"]), NoHome())
    try:
        report = probe.report()
    finally:
        probe.close()
    if report.identity is None or report.fingerprint is None:
        raise StateError(f"no state {state!r} of topology {topology!r} in {factory!r}")
    if (report.identity.topology, report.identity.name) != (topology, state):
        raise StateError(
            f"{factory!r} holds the state {report.identity.name!r} of topology {report.identity.topology!r}, "
            f"not {state!r} of {topology!r}"
        )
    if report.kind is not None and report.kind is not factory.kind:
        raise StateShapeError(f"state {state!r} is {report.kind.value}, and {factory!r} is not")
    told = read_fingerprint(report.fingerprint)
    store = factory.open(identity, StateShape(told.keys, told.value, _BUILTIN["put"]), NoHome())
    return FollowedStore(store, state), told, factory.kind


def _combine(told: Fingerprint, aggregator: Any) -> Combine | None:
    """What a batch's value does to the stored one, as far as it is known here."""
    if told.aggregator in _BUILTIN:
        return _BUILTIN[told.aggregator]
    if aggregator is None:
        return None
    if not callable(getattr(aggregator, "combine", None)):  # a reducer: frozen is what it came to
        return replacing(told.aggregator)
    return Combine(told.aggregator, lambda stored, delta: aggregator.combine(stored, delta))


def _presenting(told: Fingerprint, state: str, aggregator: Any) -> Callable[[Any], Any] | None:
    """The aggregator's ``present``, if it is the one that made the state."""
    if aggregator is None:
        return Average().present if told.aggregator == "Average" else None
    if isinstance(aggregator, type):
        raise TopologyError(f"aggregator={aggregator.__name__} is a class; give an instance, {aggregator.__name__}()")
    given = aggregator_name(aggregator)
    if given != told.aggregator:
        raise StateShapeError(f"state {state!r} was made by {told.aggregator}, not by {given}")
    found: Callable[[Any], Any] | None = getattr(aggregator, "present", None)
    return found


def _output(told: Fingerprint) -> str:
    """How the value's column is called: a stored state does not know the field's name."""
    name = "value"
    while name in told.keys.names:
        name = f"_{name}"
    return name
