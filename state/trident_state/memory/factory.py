"""What users write to keep a state in the driver's memory."""

from dataclasses import dataclass
from typing import Literal

from trident_state.expiry import check_ttl
from trident_state.memory.store import MemoryStore
from trident_state.store import Home, StateIdentity, StateKind, StateShape


@dataclass(frozen=True)
class MemoryMapState:
    """A state in the driver's memory: the embedded default, with no server to run.

    With a ``checkpointLocation`` it is durable: snapshots under the checkpoint, and the log's frozen batches after the
    last one. Without, nothing outlives the run. About 100 bytes a key for a count by word, snapshots apart.
    Meaning: ``org.apache.storm.trident.testing.MemoryMapState``, which is always opaque and never durable.

    Make one by `opaque`, `transactional` or `nonTransactional`.

    >>> MemoryMapState.opaque()
    MemoryMapState.opaque()
    >>> MemoryMapState.transactional(maxBytes=2**30).survives
    'checkpoint'
    """

    kind: StateKind = None  # type: ignore[assignment]
    maxBytes: int | None = None
    ttlSecs: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, StateKind):
            raise TypeError("say the kind: MemoryMapState.opaque(), .transactional() or .nonTransactional()")
        if self.maxBytes is not None and (type(self.maxBytes) is not int or self.maxBytes <= 0):
            raise ValueError(f"maxBytes={self.maxBytes!r}: expected a positive number of bytes, or None for no limit")
        check_ttl(self.ttlSecs, self.kind)

    @classmethod
    def opaque(cls, *, maxBytes: int | None = None, ttlSecs: float | None = None) -> "MemoryMapState":
        """Exact with transactional and opaque spouts.

        Parameters
        ----------
        maxBytes
            What the entries may take, by reckoning; a batch that would go beyond fails with StateFullError and changes
            nothing. None: as much as there is.
        ttlSecs
            Seconds that a value lives after its last update, by the times of the batches: it is nothing to the first
            batch that was planned so much later (at most 1/64 more), and to every read as of it. None: for ever.
        """
        return cls(StateKind.OPAQUE, maxBytes, ttlSecs)

    @classmethod
    def transactional(cls, *, maxBytes: int | None = None, ttlSecs: float | None = None) -> "MemoryMapState":
        """Exact with transactional and opaque spouts (a batch is frozen before it is applied). `maxBytes`, `ttlSecs`:
        as in `opaque`."""
        return cls(StateKind.TRANSACTIONAL, maxBytes, ttlSecs)

    @classmethod
    def nonTransactional(cls, *, maxBytes: int | None = None) -> "MemoryMapState":
        """Keeps values only: no committed reads, at least once. `maxBytes`: as in `opaque`."""
        return cls(StateKind.NON_TRANSACTIONAL, maxBytes)

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """What the state outlives by its own means."""
        return "checkpoint"

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> MemoryStore:
        """The state's store. Reads nothing yet: the last snapshot is loaded when the store is acquired or read."""
        return MemoryStore(identity, shape, self.kind, home, self.maxBytes, ttl=self.ttlSecs)

    def __repr__(self) -> str:
        given = {"maxBytes": self.maxBytes, "ttlSecs": self.ttlSecs}
        shown = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return f"MemoryMapState.{self.kind.value}({shown})"
