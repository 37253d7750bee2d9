"""The stores of a topology's states: ``from trident.state import MemoryMapState, RedisMapState``.

`MemoryMapState` keeps a state in the driver's memory, durable with a checkpoint and with no server to run;
`RedisMapState` keeps it in Redis or Valkey, where it outlives the run and others can read it. Both come in three
kinds: ``opaque``, ``transactional`` and ``nonTransactional`` (`StateKind`). ``docs/guide/state.md`` says what each
kind promises.

To use another store, write a map from bytes to bytes for a `BackingMapState`, or a `StateFactory` and a `Store`;
`trident.testing.StoreContract` has the tests that every store passes. Names are imported when they are first used, so
the Redis client is imported only for Redis.

>>> from trident.state import MemoryMapState
>>> MemoryMapState.opaque()
MemoryMapState.opaque()
"""

import importlib
import sys
from typing import TYPE_CHECKING

from trident.base.missing_names import missing_name
from trident.base.names import by_any_case, did_you_mean

if TYPE_CHECKING:
    from trident_state.backing import (
        BackingMap,
        BackingMapState,
        FencedBackingMap,
        ListedBackingMap,
        NonTransactionalMap,
        OpaqueMap,
        TransactionalMap,
    )
    from trident_state.memory import MemoryMapState
    from trident_state.messages import Applied, Found, GroupStatus, StoreReport, Update
    from trident_state.protocols import (
        CombinerValueUpdater,
        MapState,
        ReadOnlyMapState,
        ReadOnlySnapshottable,
        ReducerValueUpdater,
        RemovableMapState,
        Snapshottable,
        State,
        TupleCollection,
        ValueUpdater,
    )
    from trident_state.redis import RedisMapState
    from trident_state.snapshottable import SnapshottableMap
    from trident_state.state_shape import Combine, StateIdentity, StateKind, StateShape
    from trident_state.static import StaticMapState
    from trident_state.store import Home, StateFactory, Store

_NAMES = {
    "trident_state.backing": (
        "BackingMap BackingMapState FencedBackingMap ListedBackingMap NonTransactionalMap OpaqueMap TransactionalMap"
    ),
    "trident_state.memory": "MemoryMapState",
    "trident_state.messages": "Applied Found GroupStatus StoreReport Update",
    "trident_state.protocols": (
        "CombinerValueUpdater MapState ReadOnlyMapState ReadOnlySnapshottable ReducerValueUpdater "
        "RemovableMapState Snapshottable State TupleCollection ValueUpdater"
    ),
    "trident_state.redis": "RedisMapState",
    "trident_state.snapshottable": "SnapshottableMap",
    "trident_state.state_shape": "Combine StateIdentity StateKind StateShape",
    "trident_state.static": "StaticMapState",
    "trident_state.store": "Home StateFactory Store",
}
"""Each module that defines public names, with these names."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

_FOREIGN = {
    "LRUMemoryMapState": "MemoryMapState.opaque(ttlSecs=...), whose values pass away by age",
    "RedisState": "RedisMapState.opaque(url)",
}
"""Names that others use, or used, each with what one writes here."""

__all__ = [
    "Applied",
    "BackingMap",
    "BackingMapState",
    "Combine",
    "CombinerValueUpdater",
    "FencedBackingMap",
    "Found",
    "GroupStatus",
    "Home",
    "ListedBackingMap",
    "MapState",
    "MemoryMapState",
    "NonTransactionalMap",
    "OpaqueMap",
    "ReadOnlyMapState",
    "ReadOnlySnapshottable",
    "RedisMapState",
    "ReducerValueUpdater",
    "RemovableMapState",
    "Snapshottable",
    "SnapshottableMap",
    "State",
    "StateFactory",
    "StateIdentity",
    "StateKind",
    "StateShape",
    "StaticMapState",
    "Store",
    "StoreReport",
    "TransactionalMap",
    "TupleCollection",
    "Update",
    "ValueUpdater",
]


def _attribute(name: str) -> object:
    if name not in __all__:
        raise missing_name(__name__, name, lambda: _hint(name), sys._getframe(1))  # noqa: SLF001
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # a type checker would take every misspelt name for an object
    __getattr__ = _attribute


def _hint(name: str) -> str:
    foreign = by_any_case(name, _FOREIGN)
    return did_you_mean(name, __all__) if foreign is None else f"; use {_FOREIGN[foreign]}"


def __dir__() -> list[str]:
    return sorted(__all__)
