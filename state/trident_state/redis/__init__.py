"""States in Redis or Valkey: layout, scripts, connections, store and factory."""

from trident_state.redis.factory import RedisMapState
from trident_state.redis.store import RedisStore

__all__ = ["RedisMapState", "RedisStore"]
