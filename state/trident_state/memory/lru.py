"""What users write to keep the most recent keys of a state, and no others."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from trident_state.memory.store import MemoryStore
from trident_state.store import Home, StateIdentity, StateKind, StateShape


@dataclass(frozen=True)
class LRUMemoryMapState:
    """A `MemoryMapState.opaque` that forgets the least recently updated keys when there are more than `maxKeys`.

    A key that is forgotten and comes again begins anew, as if it had never been there: what is exactly-once here are
    the keys that are kept, `explain` says so, and ``requireExactlyOnce=True`` refuses it. Which keys go is decided in
    the commit of a batch, by the batches alone, so a replay and a restart forget the same ones; a read does not count
    as use. An eighth of the keys goes at once. The last batch's keys stay, also where they are more than `maxKeys`.
    Meaning: ``org.apache.storm.trident.testing.LRUMemoryMapState`` (there reads count, and a restart loses everything).

    >>> LRUMemoryMapState(100_000).kind.value
    'opaque'
    """

    maxKeys: int

    kind: ClassVar[StateKind] = StateKind.OPAQUE
    forgets: ClassVar[str] = "for the keys it keeps: a key forgotten for lack of room begins anew"
    """The condition of its guarantee."""

    def __post_init__(self) -> None:
        if type(self.maxKeys) is not int or self.maxKeys < 1:
            raise ValueError(f"maxKeys={self.maxKeys!r}: expected a number of keys, 1 or more")

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """What the state outlives by its own means."""
        return "checkpoint"

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> MemoryStore:
        """The state's store. Reads nothing yet."""
        return MemoryStore(identity, shape, self.kind, home, most=self.maxKeys)
