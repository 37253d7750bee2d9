"""Where a topology's states live: ``from trident.state import MemoryMapState, RedisMapState``.

`MemoryMapState` keeps a state in the driver's memory, durable with a checkpoint and with no server to run;
`RedisMapState` keeps it in Redis or Valkey, where it outlives the run and others can read it. Both come in three
kinds: ``opaque``, ``transactional`` and ``nonTransactional`` (`StateKind`). What they promise: ``docs/guide/state.md``.

Whoever brings another store writes a map of bytes by bytes for a `BackingMapState`, or a `StateFactory` and a `Store`;
`trident.testing.StoreContract` has the tests that every store passes. Names are looked up when they are first used:
Redis' client is imported only for Redis.

>>> from trident.state import MemoryMapState
>>> MemoryMapState.opaque()
MemoryMapState.opaque()
"""

import importlib
from typing import TYPE_CHECKING

from trident.base.names import did_you_mean

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

_HOMES = {
    "Applied": "trident_state.messages",
    "BackingMap": "trident_state.backing",
    "BackingMapState": "trident_state.backing",
    "Combine": "trident_state.state_shape",
    "CombinerValueUpdater": "trident_state.protocols",
    "FencedBackingMap": "trident_state.backing",
    "Found": "trident_state.messages",
    "GroupStatus": "trident_state.messages",
    "Home": "trident_state.store",
    "ListedBackingMap": "trident_state.backing",
    "MapState": "trident_state.protocols",
    "MemoryMapState": "trident_state.memory",
    "NonTransactionalMap": "trident_state.backing",
    "OpaqueMap": "trident_state.backing",
    "ReadOnlyMapState": "trident_state.protocols",
    "ReadOnlySnapshottable": "trident_state.protocols",
    "RedisMapState": "trident_state.redis",
    "ReducerValueUpdater": "trident_state.protocols",
    "RemovableMapState": "trident_state.protocols",
    "Snapshottable": "trident_state.protocols",
    "SnapshottableMap": "trident_state.snapshottable",
    "State": "trident_state.protocols",
    "StateFactory": "trident_state.store",
    "StateIdentity": "trident_state.state_shape",
    "StateKind": "trident_state.state_shape",
    "StateShape": "trident_state.state_shape",
    "StaticMapState": "trident_state.static",
    "Store": "trident_state.store",
    "StoreReport": "trident_state.messages",
    "TransactionalMap": "trident_state.backing",
    "TupleCollection": "trident_state.protocols",
    "Update": "trident_state.messages",
    "ValueUpdater": "trident_state.protocols",
}

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


def __getattr__(name: str) -> object:
    if name not in __all__:
        if name == "LRUMemoryMapState":  # an ImportError: an import would forget the words of an AttributeError
            raise ImportError(
                f"{__name__} has no {name} any more: use MemoryMapState.opaque(ttlSecs=...)", name=__name__
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{did_you_mean(name, __all__)}")
    value = getattr(importlib.import_module(_HOMES.get(name, "trident_state.store")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
