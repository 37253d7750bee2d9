"""A run's checkpoint as the memory state sees it: a folder a state, and the log's line with the manifest."""

from dataclasses import dataclass, field
from pathlib import Path

from trident.base.attempt import Lease
from trident.base.errors import FencedError
from trident_state.memory import MemoryStore
from trident_state.memory.store import Pace
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Store

NEVER = Pace(bytes=2**62, seconds=1e9)


@dataclass
class Line:
    """A home whose manifest is a file, replaced in one step, as the log does it. `holder`: the lease in force."""

    folder: Path | None
    holder: Lease | None = None
    published: list[bytes] = field(default_factory=list)

    def manifest(self) -> bytes | None:
        file = self._file()
        return file.read_bytes() if file.exists() else None

    def publish(self, manifest: bytes, lease: Lease) -> None:
        if self.holder is not None and self.holder != lease:
            raise FencedError(f"the log belongs to epoch {self.holder.epoch}")
        file = self._file()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".new").write_bytes(manifest)
        file.with_suffix(".new").rename(file)
        self.published.append(manifest)

    def _file(self) -> Path:
        assert self.folder is not None, "a run without a checkpoint has no line either"
        return self.folder.parent / f"{self.folder.name}.manifest"


class MemoryPlace:
    """A checkpoint on disk; `secure` is a snapshot, which is never taken otherwise."""

    def __init__(self, root: Path, ttl: float | None = None) -> None:
        self.root, self.ttl = root, ttl

    def living(self, seconds: float) -> "MemoryPlace":
        return MemoryPlace(self.root, seconds)

    def home(self, identity: StateIdentity) -> Line:
        return Line(self.root / identity.topology / identity.name)

    def open(self, identity: StateIdentity, shape: StateShape, kind: StateKind) -> Store:
        return MemoryStore(identity, shape, kind, self.home(identity), pace=NEVER, ttl=self.ttl)

    def secure(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        store.snapshot()
