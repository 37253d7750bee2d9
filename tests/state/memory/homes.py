"""A checkpoint on disk for the memory state: a folder a state, with its manifest."""

from pathlib import Path

from trident.testing.contracts.stores import FileHome
from trident_state.memory import MemoryStore
from trident_state.memory.store import Pace
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Store

NEVER = Pace(bytes=2**62, seconds=1e9, batches=2**62)


class MemoryStorage:
    """A checkpoint on disk; `secure` is a snapshot, which is never taken otherwise."""

    def __init__(self, root: Path, ttl: float | None = None) -> None:
        self.root, self.ttl = root, ttl

    def with_ttl(self, seconds: float) -> "MemoryStorage":
        return MemoryStorage(self.root, seconds)

    def home(self, identity: StateIdentity) -> FileHome:
        return FileHome(self.root / identity.topology / identity.name)

    def open(self, identity: StateIdentity, shape: StateShape, kind: StateKind) -> Store:
        return MemoryStore(identity, shape, kind, self.home(identity), pace=NEVER, ttl=self.ttl)

    def secure(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        store.snapshot()
