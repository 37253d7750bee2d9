"""States in Delta tables for tests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from trident.base import crash_points
from trident.testing.contracts.stores.fixtures import COUNT, FIRST, Setting
from trident_state.delta import DeltaMapState
from trident_state.delta.compaction import LEAST
from trident_state.delta.store import DeltaStore
from trident_state.state_shape import Combine, StateIdentity, StateKind, StateShape


class _Place:
    def __init__(self, folder: Path | str, **options: Any) -> None:
        self._folder, self._options = folder, options

    def open(self, identity: StateIdentity, shape: StateShape, kind: StateKind) -> DeltaStore:
        return DeltaMapState(kind, str(self._folder), **self._options).open(identity, shape, None)  # type: ignore[arg-type]

    def secure(self, store: object) -> None:
        """Do nothing: every commit is durable."""


def setting_in(
    folder: Path | str, combine: Combine = COUNT, value: pa.DataType | None = None, **options: Any
) -> Setting:
    """Return a setting whose states are in a folder."""
    setting = Setting(_Place(folder, **options), combine=combine)
    return setting if value is None else replace(setting, value=value)


def table_of(folder: Path) -> Path:
    """Return the folder of the table of a setting's state."""
    return folder / "wordcount" / "counts"


def quiet(setting: Setting, birth: int = 0) -> Any:
    """Return a new store that merges nothing by itself."""
    store: Any = setting.started(birth)
    store.upkeep.after = lambda version: None
    return store


def filled(setting: Setting, batches: int = LEAST + 1, keys: int = 40) -> Any:
    """Return such a store with some batches: each changes other keys, and a few of the former ones."""
    store = quiet(setting)
    for txid in range(1, batches + 1):
        setting.apply(store, txid, {n: txid * 100 + n for n in range(txid, txid + keys)})
    return store


def merged(store: Any) -> Any:
    """Merge once; see `Compactor.merge_once`."""
    return store.upkeep._compactor.merge_once()


@contextmanager
def at_point(point: str, work: Callable[[], None]) -> Iterator[None]:
    """Do some work when a store reaches a crash point for the first time within the block."""
    done: list[str] = []

    def listener(reached: str) -> None:
        if reached == point and not done:
            done.append(reached)
            work()

    crash_points.listen(listener)
    try:
        yield
    finally:
        crash_points.listen(None)
    assert done, f"{point} was not reached"


__all__ = ["FIRST", "at_point", "filled", "merged", "quiet", "setting_in", "table_of"]
