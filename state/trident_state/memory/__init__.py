"""States in the driver's memory. Snapshots under the checkpoint make them durable."""

from trident_state.memory.factory import MemoryMapState
from trident_state.memory.store import MemoryStore

__all__ = ["MemoryMapState", "MemoryStore"]
