"""What all simulated programs are made of: states whose kind and home the world decides."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home, Store

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEYS = ("apple", "avocado", "banana", "blueberry")
"""The words of all tuples."""
LETTERS = ("a", "b")
CONTENT = {word: 100 * number for number, word in enumerate(KEYS[:-1], 1)}
"""What a state holds before its first batch if it begins with a content."""


class Worlds:
    """The world that is simulated just now: programs are cut once and serve all of them."""

    now: Any = None


@dataclass(frozen=True)
class InWorld:
    """A state whose kind and home the world decides."""

    name: str
    worlds: type[Worlds] = Worlds

    @property
    def kind(self) -> StateKind:
        kind: StateKind = self.worlds.now.kind if self.worlds.now is not None else StateKind.OPAQUE
        return kind

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        return "checkpoint"

    @property
    def writers(self) -> Literal["driver", "executors", "auto"]:
        """Who writes and asks it, where its batch is large."""
        writers: Literal["driver", "executors", "auto"] = getattr(self.worlds.now, "writers", "driver")
        return writers

    @property
    def sendable(self) -> bool:
        return True

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> Store:
        store: Store = self.worlds.now.open_store(identity, shape, home)
        return store


def checksum(seq: int) -> int:
    """What a tuple's number adds: sums of these tell one multiset from another."""
    return (seq + 1) * 0x9E3779B97F4A7C15 >> 3 & 0xFFFFFFFFFFF


def onward(seq: int) -> datetime | None:
    """The event time of a tuple in a stream whose times go on for ever, nearly in order; some tuples have none."""
    if seq % 13 == 12:
        return None
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=20 * seq + checksum(seq) % 60)


def micros(at: datetime) -> int:
    """A time in microseconds since 1970."""
    return (at - EPOCH) // timedelta(microseconds=1)


def moment(seq: int) -> datetime | None:
    """The event time of a tuple. Of a few minutes, out of order; some tuples have none."""
    if seq % 13 == 12:
        return None
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=30 * (seq % 12) + checksum(seq) % 60)


def together(seq: int) -> datetime | None:
    """The event time of a tuple in two streams whose times go on through the same minutes, nearly in order."""
    if seq % 13 == 12:
        return None
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=20 * (seq % 12) + checksum(seq) % 60)


def first_letter(word: str) -> str:
    """A word's first letter."""
    return word[0]
