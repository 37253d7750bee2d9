"""States over whatever store somebody brings: a `BackingMap` of bytes by bytes."""

from trident_state.backing.factory import BackingMapState
from trident_state.backing.maps import NonTransactionalMap, OpaqueMap, TransactionalMap
from trident_state.backing.protocol import BackingMap, FencedBackingMap, ListedBackingMap
from trident_state.backing.store import BackingStore

__all__ = [
    "BackingMap",
    "BackingMapState",
    "BackingStore",
    "FencedBackingMap",
    "ListedBackingMap",
    "NonTransactionalMap",
    "OpaqueMap",
    "TransactionalMap",
]
