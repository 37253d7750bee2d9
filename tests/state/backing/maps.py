"""Maps that somebody might bring: the one that the guide shows, the same with less, and one that gets into trouble."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.pages import blocks_of
from trident.base.errors import StateUnavailableError
from trident_state.backing import BackingMap, BackingMapState, BackingStore
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Store

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "state.md"
SHOWN = next(block for block in blocks_of(GUIDE) if "class SqliteMap" in block)

_shown: dict[str, Any] = {}
exec(compile(SHOWN, str(GUIDE), "exec"), _shown)
SqliteMap: Any = _shown["SqliteMap"]
"""The guide's own text, executed."""


class PlainMap:
    """The same without a conditional put."""

    def __init__(self, file: str, identity: StateIdentity) -> None:
        held = SqliteMap(file, identity)
        self.multiGet, self.multiPut = held.multiGet, held.multiPut
        self.keys, self.multiRemove = held.keys, held.multiRemove
        self._db = held._db


class LeastMap:
    """The two methods that must be there, over a dict that outlives it."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self.entries = entries

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        return [self.entries.get(key) for key in keys]

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        self.entries.update(zip(keys, values, strict=True))


class Meddled:
    """A map to which something happens before one of its writes: `before` is called with the number of the write."""

    def __init__(self, held: BackingMap, before: Callable[[int], None]) -> None:
        self._held, self._before, self.writes = held, before, 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._held, name)
        if name not in ("multiPut", "multiPutIf"):
            return method

        def meddled(*args: Any) -> Any:
            self.writes += 1
            self._before(self.writes)
            return method(*args)

        return meddled


def interrupt_before(store: Store, number: int) -> None:
    """Let write number `number` to the map of a store fail before it does anything."""
    assert isinstance(store, BackingStore)
    call, writes = store._calls._call, itertools.count(1)

    def counted(function: Any, *args: Any, of: object = None) -> Any:
        if getattr(function, "__name__", "") in ("multiPut", "multiPutIf", "multiRemove") and next(writes) == number:
            raise StateUnavailableError("interrupted")
        return call(function, *args, of=of)

    store._calls._call = counted  # type: ignore[method-assign]


@dataclass
class BackingStorage:
    """A folder with a SQLite file, and how states are kept there."""

    folder: Path
    made: Callable[..., BackingMap] = SqliteMap
    options: dict[str, Any] = field(default_factory=dict)
    opened: list[BackingStore] = field(default_factory=list)

    def _make(self, identity: StateIdentity) -> BackingMap:
        held: Any = self.made(str(self.folder / "states.db"), identity)
        held._db.execute("PRAGMA synchronous=OFF")  # nothing here is about power
        return held  # type: ignore[no-any-return]

    def open(self, identity: StateIdentity, shape: StateShape, kind: StateKind) -> BackingStore:
        factory = BackingMapState(kind, self._make, **self.options)
        store = factory.open(identity, shape, None)  # type: ignore[arg-type]
        self.opened.append(store)
        return store

    def secure(self, store: Store) -> None:
        pass

    def close(self) -> None:
        for store in self.opened:
            held: Any = store._calls._map
            if held is not None:
                held._db.close()
