"""States in a store of the user's own: a `BackingMap` from bytes to bytes."""

from trident_state.backing.factory import BackingMapState
from trident_state.backing.map_rules import NonTransactionalMap, OpaqueMap, TransactionalMap
from trident_state.backing.protocol import BackingMap, FencedBackingMap, ListedBackingMap, SortedBackingMap
from trident_state.backing.store import BackingStore

__all__ = [
    "BackingMap",
    "BackingMapState",
    "BackingStore",
    "FencedBackingMap",
    "ListedBackingMap",
    "NonTransactionalMap",
    "OpaqueMap",
    "SortedBackingMap",
    "TransactionalMap",
]
