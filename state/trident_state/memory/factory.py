"""MemoryMapState: what users write to keep a state in the driver's memory."""

from dataclasses import dataclass
from typing import Literal

from trident_state.expiry import check_ttl
from trident_state.memory.store import MemoryStore
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home


@dataclass(frozen=True)
class MemoryMapState:
    """A state in the driver's memory: the embedded default, with no server to run.

    With a ``checkpointLocation`` it is durable: by snapshots under the checkpoint, and by the log's frozen batches
    after the last snapshot. Without one, nothing outlives the run. A count by word takes about 100 bytes per key,
    snapshots not included.
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
        """Return an opaque state, which is exact with transactional and opaque spouts.

        Parameters
        ----------
        maxBytes
            The estimated bytes that the entries may take; a batch that would exceed them fails with StateFullError and
            changes nothing. None: no limit.
        ttlSecs
            Seconds that a value lives after its last update, by the times of the batches: it has expired for the first
            batch that was planned that much later (at most 1/64 more), and for every read as of it. None: for ever.
        """
        return cls(StateKind.OPAQUE, maxBytes, ttlSecs)

    @classmethod
    def transactional(cls, *, maxBytes: int | None = None, ttlSecs: float | None = None) -> "MemoryMapState":
        """Return a transactional state, which is exact with transactional and opaque spouts.

        (A batch is frozen before it is applied.) `maxBytes`, `ttlSecs`: as in `opaque`.
        """
        return cls(StateKind.TRANSACTIONAL, maxBytes, ttlSecs)

    @classmethod
    def nonTransactional(cls, *, maxBytes: int | None = None) -> "MemoryMapState":
        """Return a state that keeps values only: no committed reads, at least once. `maxBytes`: as in `opaque`."""
        return cls(StateKind.NON_TRANSACTIONAL, maxBytes)

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """What the state outlives by its own means."""
        return "checkpoint"

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> MemoryStore:
        """Return the state's store; the last snapshot is loaded when the store is acquired or read."""
        return MemoryStore(identity, shape, self.kind, home, self.maxBytes, ttl=self.ttlSecs)

    def __repr__(self) -> str:
        given = {"maxBytes": self.maxBytes, "ttlSecs": self.ttlSecs}
        shown = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return f"MemoryMapState.{self.kind.value}({shown})"
