"""States in Redis or Valkey: the API, the store, its scripts and connections, and the names of its keys."""

from trident_state.redis.factory import RedisMapState
from trident_state.redis.store import RedisStore

__all__ = ["RedisMapState", "RedisStore"]
