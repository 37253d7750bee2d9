"""States in the driver's memory, durable by snapshots under the checkpoint."""

from trident_state.memory.factory import MemoryMapState
from trident_state.memory.store import MemoryStore

__all__ = ["MemoryMapState", "MemoryStore"]
