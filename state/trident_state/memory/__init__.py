"""States in the driver's memory, durable with a checkpoint."""

from trident_state.memory.factory import MemoryMapState
from trident_state.memory.store import MemoryStore

__all__ = ["MemoryMapState", "MemoryStore"]
