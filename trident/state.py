"""The stores of a topology's states: ``from trident.state import MemoryMapState, RedisMapState``.

`MemoryMapState` keeps a state in the driver's memory, durable with a checkpoint, without a server; `RedisMapState`
keeps it in Redis or Valkey, where it outlives the run and other programs can read it. Both come in three kinds:
``opaque``, ``transactional`` and ``nonTransactional`` (`StateKind`). ``docs/guide/state.md`` describes the promise of
each kind.

To use another store, write a map from bytes to bytes for a `BackingMapState`, or a `StateFactory` and a `Store`;
`trident.testing.StoreContract` has the tests that every store passes. Names are imported when they are first used, so
the Redis client is imported only for Redis.

>>> from trident.state import MemoryMapState
>>> MemoryMapState.opaque()
MemoryMapState.opaque()
"""

from trident.base.lazy_names import lazy_names
from trident.base.names import by_any_case, did_you_mean

_FOREIGN = {
    "LRUMemoryMapState": "MemoryMapState.opaque(ttlSecs=...), whose values expire by age",
    "RedisState": "RedisMapState.opaque(url)",
}
"""Names in other libraries, or in earlier versions, each with its replacement in this library."""


def _hint(name: str) -> str:
    foreign = by_any_case(name, _FOREIGN)
    return did_you_mean(name, __all__) if foreign is None else f"; use {_FOREIGN[foreign]}"


__getattr__, __dir__, __all__ = lazy_names(__name__, _hint)
