"""The function openState, which opens a state by its name for reading only."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_type

from trident.access.locations import StateLocation, read_location
from trident.access.opened_state import FollowedStore, OpenedState
from trident.access.replica import MemoryReplica
from trident.base.errors import StateError, StateShapeError, TopologyError
from trident.base.names import check_name, did_you_mean, free_name
from trident.base.spark_types import arrow_type
from trident.compiler.states.shapes import WindowMeaning, is_of_watermark, native_form, window_of
from trident.log import RedisLog
from trident.log.snapshot_home import NoHome
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.aggregates.registry import builtin_classes, known_by_name
from trident.operations.aggregator_kinds import presented_type_of
from trident.operations.aggregator_names import aggregator_name, bundle_names, bundle_text
from trident.operations.bundles import presented
from trident.operations.records import FirstOfRecord
from trident.operations.timers import TIMED
from trident.reads.as_of_argument import AsOfBatch
from trident.reads.committed_reads import Isolation
from trident.reads.state_description import StateDescription
from trident.recovery.state_locations import factory_at_place
from trident_state.fingerprint import Fingerprint, read_fingerprint
from trident_state.memory.segments import Manifest
from trident_state.redis.state_discovery import FoundState, find_state
from trident_state.state_shape import Combine, StateIdentity, StateKind, StateShape, replacing
from trident_state.store import StateFactory

_BUILTIN = {aggregator_name(one): one for one in known_by_name()} | {TIMED: FirstOfRecord()}
"""The aggregators known by name: all instances of such a class combine and present in the same way."""

_PUT = replacing()


def openState(
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
    aggregator: Any = None,
    isolation: Isolation = "committed",
    asOf: AsOfBatch | None = None,
) -> OpenedState:
    """Open a state by its name and its topology's name, while the topology is stopped or runs elsewhere.

    The state is only read: the call takes no lease, writes nothing, and does not disturb a running driver. The returned
    object has the methods of ``running.state(...)``.

    Parameters
    ----------
    checkpointLocation
        The folder that `start` got, for a state in memory, in a Delta table or in SQLite. A state in memory is copied
        into this process as a whole, and the copy follows the driver's commits from then on. For tables the log has the
        folder or address, and no options of an object store: give `factory` if the environment does not have them.
    log
        The `RedisLog` that `start` got, for such a state with its log in Redis.
    filesLocation, filesStorage
        For a state in memory: the location of the topology's files and the options of its store, if `start` got them.
    url, prefix
        For a state in Redis: the server and the prefix of its keys, as `RedisMapState` takes them (also ``env:NAME``
        and ``file:path``). The server knows the state's layout. If `checkpointLocation` is given too, a state that is
        not in Redis is opened from the checkpoint.
    factory
        For PostgreSQL or a store that you wrote, and for other tables without the log: the factory that the topology
        uses, such as ``BackingMapState.opaque(...)``.
    aggregator
        The aggregator with which the topology updates the state; for several aggregators, a mapping from their fields,
        ``{"n": Count(), "longest": Longest()}``. It is needed if reads are to return the values of its ``present``, or
        if a state in memory has changed since its last snapshot. The most common aggregators are known by name.
    isolation
        ``"committed"``, or ``"latest"`` for the last written values, committed or not.
    asOf
        ``"previous"`` for reads as of the batch before the last committed one. A nonTransactional state does not keep
        the previous values.

    Raises
    ------
    StateError
        If there is no such state; the message lists the existing ones. Or one of its subclasses: StateUnavailableError
        (a server does not answer), StateLostError, StateCorruptError, StateShapeError (another aggregator, or no
        aggregator).
    LogError
        If there is no such log, or it cannot be read.
    TopologyError
        If the arguments do not locate the state.

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
    location = read_location(checkpointLocation, log, url, prefix, factory, filesLocation, filesStorage)
    opened = open_unread(location, topology, state, aggregator, isolation, asOf)
    if isinstance(opened.followed, MemoryReplica):
        try:
            opened.followed.committed()
        except BaseException:
            opened.close()
            raise
    return opened


def open_unread(
    location: StateLocation,
    topology: str,
    state: str,
    aggregator: Any = None,
    isolation: Isolation = "committed",
    asOf: AsOfBatch | None = None,
) -> OpenedState:
    """Open a state as `openState` does, but do not copy a state in memory before its first read."""
    check_name("topology", topology)
    check_name("state", state)
    factory = location.factory
    if location.url is not None:
        stored = find_state(location.address, location.prefix, topology, state)
        if stored is None and location.has_memory_state(topology, state):
            return _open_in_memory(location, topology, state, aggregator, isolation, asOf)
        followed, fingerprint, kind = _on_server(location, stored, topology, state)
        followed.first_in_log = partial(location.first_txid, topology, state)
    elif factory is not None:
        followed, fingerprint, kind = _in_own_store(factory, topology, state, location.owner)
        followed.first_in_log = partial(location.first_txid, topology, state)
    else:
        return _open_in_memory(location, topology, state, aggregator, isolation, asOf)
    described = _described(state, kind, fingerprint, _known(fingerprint, state, aggregator))
    try:
        return OpenedState(topology, followed, described, isolation, asOf, partial(open_unread, location, topology))
    except BaseException:
        followed.close()
        raise


def _open_in_memory(
    location: StateLocation,
    topology: str,
    state: str,
    aggregator: Any,
    isolation: Isolation,
    asOf: AsOfBatch | None,
) -> OpenedState:
    log = location.open_log_to_read(topology)
    try:
        births = log.births()
        if state not in births:
            known = ", ".join(sorted(births)) or "none"
            raise StateError(
                f"no state {state!r} in topology {topology!r}{did_you_mean(state, births)} (it has {known})"
            )
        if not log.manifest(state):
            if (factory := factory_at_place(log, state)) is not None:
                there = replace(location, factory=factory, owner=log.uuid)
                opened = open_unread(there, topology, state, aggregator, isolation, asOf)
                log.close()
                return opened
            raise StateError(
                f"state {state!r} of topology {topology!r} is not in this checkpoint, which has only its log: the "
                f"state is on a server or in a table. Give url= for a state in Redis, or factory= (in a shell "
                f"--program) for a database or your own store"
            )
        if not location.has_files:
            raise TopologyError(
                f"state {state!r}: the log is in Redis, but this state is in memory, and its snapshots are under the "
                f"topology's checkpointLocation or filesLocation: give that location too"
            )
        # The first replica only reads the manifest, which names the combiner that the second replica needs.
        place = location.place(topology, log)
        probe = MemoryReplica(log, place, state, None)
        fingerprint = probe.fingerprint
        by_field = _known(fingerprint, state, aggregator)
        replica = MemoryReplica(log, place, state, _combine(probe.manifest, fingerprint, by_field))
        described = _described(state, replica.manifest.kind, fingerprint, by_field)
        return OpenedState(topology, replica, described, isolation, asOf, partial(open_unread, location, topology))
    except BaseException:
        log.close()
        raise


def _on_server(
    location: StateLocation, stored: FoundState | None, topology: str, state: str
) -> tuple[FollowedStore, Fingerprint, StateKind]:
    if stored is None:
        raise StateError(
            f"no state {state!r} of topology {topology!r} at {location.address.shown} under the prefix "
            f"{location.prefix!r}; listStates(url=...) lists the existing ones"
        )
    followed = FollowedStore(stored.open(_PUT), state, stored.incarnation)
    return followed, read_fingerprint(stored.fingerprint), stored.kind


def _in_own_store(
    factory: StateFactory, topology: str, state: str, owner: str | None
) -> tuple[FollowedStore, Fingerprint, StateKind]:
    """Open the store of a user's factory twice: first to read the state's shape, then with that shape.

    Raises StateError if the store holds another state, or one of a log other than `owner`, and StateShapeError if
    the state is of another kind.
    """
    identity = StateIdentity(topology, state, "")
    probe = factory.open(identity, StateShape(pa.schema([]), pa.null(), _PUT), NoHome())
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
    if owner is not None and report.identity.log != owner:
        raise StateError(
            f"{factory!r}, which the log of topology {topology!r} names for state {state!r}, has the state of another "
            f"log: the topology has since been reset, or the log is a copy. Give factory= to read the state that is "
            f"there"
        )
    if report.kind is not None and report.kind is not factory.kind:
        raise StateShapeError(f"state {state!r} is {report.kind.value}, but {factory!r} is not")
    fingerprint = read_fingerprint(report.fingerprint)
    store = factory.open(identity, StateShape(fingerprint.keys, fingerprint.value, _PUT), NoHome())
    return FollowedStore(store, state, report.incarnation), fingerprint, factory.kind


_Known = Mapping[str | None, Any]
"""The aggregators of a state by field (a single one under None); None for an unknown aggregator."""


def _known(fingerprint: Fingerprint, state: str, aggregator: Any) -> _Known:
    """Return the aggregators of a state: `aggregator`, or those that are known by name.

    Raises StateShapeError if the state was made by other aggregators, and TopologyError if one of them is a class.
    """
    if is_of_watermark(fingerprint):
        return {None: FirstOfRecord()}
    maker, window = window_of(fingerprint.aggregator)
    names = bundle_names(maker)
    if aggregator is None:
        if names is None:
            return _presenting({None: _BUILTIN.get(maker.partition(" by ")[0])}, window)
        return _presenting({field: _BUILTIN.get(name) for field, name in names.items()}, window)
    several = isinstance(aggregator, Mapping)
    given: _Known = dict(aggregator) if several else {None: aggregator}
    for one in given.values():
        if isinstance(one, type):
            raise TopologyError(f"aggregator={one.__name__} is a class; give an instance, {one.__name__}()")
    written = {str(field): aggregator_name(one) for field, one in given.items()}
    name = bundle_text(written) if several else aggregator_name(aggregator)
    if name not in (fingerprint.aggregator, maker):
        raise StateShapeError(
            f"state {state!r} was written with the aggregator {fingerprint.aggregator}, not with {name}"
        )
    return _presenting(given, window)


def _presenting(known: _Known, window: WindowMeaning | None) -> _Known:
    """Return the aggregators whose accumulators the state holds: `known`, or none (`Windowing.panes`).

    A state of sessions, or of windows by count, holds tuples or several accumulators in one value, as do windows of
    aggregators that do not combine.
    """
    if window is None:
        return known
    combines = all(callable(getattr(one, "combine", None)) for one in known.values())
    return known if combines and not window.kind.endswith(("SessionWindow", "CountWindow")) else {None: None}


def _described(state: str, kind: StateKind, fingerprint: Fingerprint, known: _Known) -> StateDescription:
    output = free_name("value", fingerprint.keys.names)  # the stored state does not have the name of its value field
    shape = StateShape(fingerprint.keys, fingerprint.value, _PUT)
    presents = {field: getattr(one, "present", None) for field, one in known.items()}
    types = _shown_types(fingerprint.value, known)
    if None in presents:
        return StateDescription(state, kind, shape, output, types, presents[None])
    parts = {str(field): present for field, present in presents.items()}
    row = Row(*parts)

    def present(value: Any) -> Any:
        return row(*(presented(own, each) for own, each in zip(parts.values(), value, strict=True)))

    return StateDescription(state, kind, shape, output, types, present if any(parts.values()) else None, parts)


def _shown_types(value: pa.DataType, known: _Known) -> tuple[pa.DataType | None, ...]:
    """Return the type of the value that readers see, or of each of its fields; None if it is not declared."""
    if None in known:
        return (_shown_type(value, known[None]),)
    return tuple(_shown_type(value.field(at).type, one) for at, one in enumerate(known.values()))


def _shown_type(stored: pa.DataType, aggregator: Any) -> pa.DataType | None:
    if getattr(aggregator, "present", None) is None:
        return stored
    shown = presented_type_of(aggregator, from_arrow_type(stored))
    return None if shown is None else arrow_type(shown)


def _combine(manifest: Manifest, fingerprint: Fingerprint, known: _Known) -> Combine | None:
    """Return the function that combines a batch's value with the stored one; None if no known aggregator has one."""
    if manifest.replaces:
        return replacing(fingerprint.aggregator)
    combines = [_combine_of(one) for one in known.values()]
    if None in combines:
        return None
    if None in known:
        (combine,) = combines
        return combine
    parts = tuple(combine for combine in combines if combine is not None)
    return Combine(fingerprint.aggregator, _unused, parts=parts)


def _combine_of(aggregator: Any) -> Combine | None:
    if aggregator is None:
        return None
    name = aggregator_name(aggregator)
    if not callable(getattr(aggregator, "combine", None)):  # a reducer: its frozen result replaces the stored value
        return replacing(name)
    native = native_form(aggregator.native) if isinstance(aggregator, BuiltinAggregator) else None
    columns = partial(_in_columns, aggregator) if type(aggregator) in builtin_classes() else None
    return Combine(name, lambda stored, delta: aggregator.combine(stored, delta), native, columns)


def _in_columns(aggregator: Any, stored: pa.Array, deltas: pa.Array) -> pa.Array | None:
    """Combine two columns of accumulators of a built-in aggregator; None if it combines them only one by one."""
    combined = aggregator.combineColumn(stored, deltas)
    return None if combined is NotImplemented else combined


def _unused(stored: object, delta: object) -> object:
    raise AssertionError("the values of several aggregators are combined field by field")
