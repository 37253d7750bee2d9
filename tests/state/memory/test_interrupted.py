"""An apply that breaks off between two entries: the triples tell which were written, the marker that it is not over."""

from pathlib import Path
from typing import Any

import pytest

from tests.state.memory.homes import MemoryStorage
from trident.testing.contracts.stores import FIRST, SECOND, Setting
from trident.testing.contracts.stores.fixtures import entries, every_kind, every_versioned_kind, marker, opened
from trident_state.memory import MemoryStore
from trident_state.memory import store as module
from trident_state.memory.entries import Entries
from trident_state.state_shape import StateKind

BEFORE = {n: 1 for n in range(100)}
BATCH = {n: n for n in range(50, 150)}


def interrupt(monkeypatch: pytest.MonkeyPatch, setting: Setting, store: Any, after: int) -> None:
    """Batch 2 in chunks of 10 entries, broken off after so many of them."""
    real, left = Entries.put, [after]

    def put(self: Entries, slots: Any, triples: Any) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        real(self, slots, triples)

    with monkeypatch.context() as patching:
        patching.setattr(module, "_CHUNK", 10)
        patching.setattr(Entries, "put", put)
        with pytest.raises(KeyboardInterrupt):
            setting.apply(store, 2, BATCH)


@every_kind
@pytest.mark.parametrize("chunks", range(10))
@pytest.mark.parametrize("healed", [False, True], ids=["at once", "after it was acquired again"])
def test_it_is_finished_by_the_same_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: StateKind, chunks: int, healed: bool
) -> None:
    setting = Setting(MemoryStorage(tmp_path), kind)
    store = setting.started()
    setting.apply(store, 1, BEFORE)
    interrupt(monkeypatch, setting, store, chunks)
    assert (marker(store), opened(store)) == (1, {2})
    if kind is not StateKind.NON_TRANSACTIONAL:
        assert entries(store, 1) == {(f"w{n}",): 1 for n in range(100)}, "no reader sees a part of it"
    if healed:
        store.acquire(FIRST)
        assert opened(store) == {None}
    applied = setting.apply(store, 2, BATCH, values=True)
    assert applied.values is not None
    assert applied.values.to_pylist() == [n + (n < 100) for n in BATCH]
    assert (applied.written, applied.skipped) == (100 - 10 * chunks, 10 * chunks)
    assert (marker(store), opened(store)) == (2, {None})
    assert entries(store, None) == {(f"w{n}",): (n >= 50) * n + (n < 100) for n in range(150) if n} | {("w0",): 1}


@every_versioned_kind
def test_no_snapshot_is_taken_of_half_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: StateKind) -> None:
    setting = Setting(MemoryStorage(tmp_path), kind)
    store = setting.started()
    assert isinstance(store, MemoryStore)
    setting.apply(store, 1, BEFORE)
    interrupt(monkeypatch, setting, store, 4)
    assert store.snapshot() == 0
    setting.apply(store, 2, BATCH)
    assert store.snapshot() == 2
    again = setting.open()
    again.acquire(SECOND)
    assert entries(again, 2) == entries(store, 2)
    assert entries(again, 1) == {(f"w{n}",): 1 for n in range(100)}
