"""MemoryMapState: the API to keep a state in the driver's memory."""

from dataclasses import dataclass
from typing import Literal

from trident.base.durations import Duration
from trident.base.missing_names import Missing
from trident.base.option_names import known_options_of
from trident_state.expiry import read_ttl
from trident_state.memory.store import MemoryStore
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home


@known_options_of({}, "opaque", "transactional", "nonTransactional")
@dataclass(frozen=True)
class MemoryMapState:
    """A state in the driver's memory: the default, which needs no server.

    With a ``checkpointLocation`` the state is durable: there are snapshots under the checkpoint, and the log keeps the
    frozen batches after the last snapshot. Without a ``checkpointLocation`` nothing outlives the run. A count by word
    takes about 100 bytes of memory per key, in addition to snapshots. Meaning:
    ``org.apache.storm.trident.testing.MemoryMapState``, which is always opaque and never durable.

    Make one by `opaque`, `transactional` or `nonTransactional`.

    >>> MemoryMapState.opaque()
    MemoryMapState.opaque()
    >>> MemoryMapState.transactional(maxBytes=2**30).survives
    'checkpoint'
    """

    kind: StateKind = None  # type: ignore[assignment]
    maxBytes: int | None = None
    ttlSecs: float | None = None

    Factory = Missing("use MemoryMapState.opaque(), which is Trident's factory")

    def __post_init__(self) -> None:
        if not isinstance(self.kind, StateKind):
            raise TypeError(
                "the kind is missing; write MemoryMapState.opaque(), .transactional() or .nonTransactional()"
            )
        if self.maxBytes is not None and (type(self.maxBytes) is not int or self.maxBytes <= 0):
            raise ValueError(f"maxBytes={self.maxBytes!r}: expected a positive number of bytes, or None for no limit")
        object.__setattr__(self, "ttlSecs", read_ttl(self.ttlSecs, self.kind))

    @classmethod
    def opaque(cls, *, maxBytes: int | None = None, ttlSecs: Duration | None = None) -> "MemoryMapState":
        """Return an opaque state, which is exact with transactional and opaque spouts.

        Parameters
        ----------
        maxBytes
            The bytes that the entries may take, by an estimate. A batch that would exceed them fails with
            StateFullError and changes nothing. None: no limit.
        ttlSecs
            How long a value lives after its last update, by the times at which batches were planned: seconds,
            ``"1 hour"``, ``"7d"`` or a timedelta. The value has expired for the first batch that was planned `ttlSecs`
            later (or up to 1/64 of `ttlSecs` after that), and for every read as of that batch. None: a value never
            expires.
        """
        return cls(StateKind.OPAQUE, maxBytes, read_ttl(ttlSecs, StateKind.OPAQUE))

    @classmethod
    def transactional(cls, *, maxBytes: int | None = None, ttlSecs: Duration | None = None) -> "MemoryMapState":
        """Return a transactional state, which is exact with transactional and opaque spouts.

        It is exact even with an opaque spout, because a batch is frozen before it is applied, and a replay of a frozen
        batch applies the same values. `maxBytes`, `ttlSecs`: as in `opaque`.
        """
        return cls(StateKind.TRANSACTIONAL, maxBytes, read_ttl(ttlSecs, StateKind.TRANSACTIONAL))

    @classmethod
    def nonTransactional(cls, *, maxBytes: int | None = None) -> "MemoryMapState":
        """Return a state that keeps values only, so that batches count at least once and reads are not committed reads.

        `maxBytes`: as in `opaque`.
        """
        return cls(StateKind.NON_TRANSACTIONAL, maxBytes)

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """The component that keeps the state between runs: the "checkpoint", which holds the snapshots and the log."""
        return "checkpoint"

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> MemoryStore:
        """Return the state's store. It loads the last snapshot when it is first acquired or read."""
        return MemoryStore(identity, shape, self.kind, home, self.maxBytes, ttl=self.ttlSecs)

    def __repr__(self) -> str:
        given = {"maxBytes": self.maxBytes, "ttlSecs": self.ttlSecs}
        shown = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return f"MemoryMapState.{self.kind.value}({shown})"
