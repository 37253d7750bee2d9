"""States in Redis or Valkey: what users write, the store, its scripts and connections, and its keys in the server."""

from trident_state.redis.factory import RedisMapState
from trident_state.redis.store import RedisStore

__all__ = ["RedisMapState", "RedisStore"]
