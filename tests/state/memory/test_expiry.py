"""Room that passed-away values leave, and a batch that breaks off while it finds values gone."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.state.memory.homes import NEVER, MemoryStorage
from trident.base.errors import StateFullError
from trident.testing.contracts.stores import FIRST, SECOND, FileHome, Setting
from trident.testing.contracts.stores.expiring import TTL, put
from trident.testing.contracts.stores.fixtures import entries, every_versioned_kind, marker
from trident_state.memory import MemoryStore
from trident_state.memory import store as module
from trident_state.memory.entries import Entries
from trident_state.state_shape import StateKind
from trident_state.store_messages import Update

BEFORE = {n: 1 for n in range(100)}
BATCH = {n: n for n in range(50, 150)}


@every_versioned_kind
@pytest.mark.parametrize("chunks", range(0, 10, 3))
def test_a_batch_that_breaks_off_while_values_pass_away_is_finished_as_it_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: StateKind, chunks: int
) -> None:
    setting = Setting(MemoryStorage(tmp_path, TTL), kind)
    store = setting.started()
    put(setting, store, 1, 1000.0, BEFORE)
    real, left = Entries.put, [chunks]

    def interrupted(self: Entries, slots: Any, triples: Any) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        real(self, slots, triples)

    with monkeypatch.context() as patching:
        patching.setattr(module, "_CHUNK", 10)
        patching.setattr(Entries, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            put(setting, store, 2, 1064.0, BATCH)
    assert entries(store, 1) == {(f"w{n}",): 1 for n in range(100)}, "no reader sees a part of it"
    assert put(setting, store, 2, 1064.0, BATCH) == list(range(50, 150))
    assert entries(store, 1) == {(f"w{n}",): 1 for n in range(100)}
    assert entries(store, 2) == {(f"w{n}",): n for n in range(50, 150)}


def large(setting: Setting, store: MemoryStore, txid: int, time: float, first: int, count: int) -> None:
    keys = pa.table({"word": pa.array([f"w{n}" for n in range(first, first + count)], pa.string())})
    store.apply(FIRST, Update(txid, keys, pa.array(np.ones(count, np.int64)), time))


def started(home: FileHome, **options: Any) -> tuple[Setting, MemoryStore]:
    setting = Setting(MemoryStorage(Path()))
    store = MemoryStore(setting.identity, setting.shape, StateKind.OPAQUE, home, pace=NEVER, **options)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    return setting, store


def held(store: MemoryStore) -> int:
    assert store._entries is not None
    return len(store._entries)


def test_the_room_of_what_passed_away_is_taken_back(tmp_path: Path) -> None:
    """A hundred times as many keys come as live at once; the state stays as large as twice what lives."""
    setting, store = started(FileHome(tmp_path / "state"), ttl=10.0)
    most = 0
    for txid in range(1, 201):
        large(setting, store, txid, 1000.0 + txid, 1000 * txid, 1000)
        most = max(most, held(store))
        if txid % 40 == 0:
            store.snapshot()
    assert most <= 25_000
    live = {(f"w{n}",): 1 for txid in range(191, 201) for n in range(1000 * txid, 1000 * txid + 1000)}
    assert entries(store, 200) == live
    assert len(entries(store, 199)) == 10_000
    store.snapshot()
    again = MemoryStore(setting.identity, setting.shape, StateKind.OPAQUE, FileHome(tmp_path / "state"), pace=NEVER)
    again.acquire(SECOND)
    assert entries(again, 200) == live
    assert held(again) <= 12_000, "what expired is not loaded"


def test_what_passed_away_makes_room_before_a_batch_is_refused(tmp_path: Path) -> None:
    setting, store = started(FileHome(None), ttl=10.0, maxBytes=250_000)
    large(setting, store, 1, 1000.0, 0, 3000)
    with pytest.raises(StateFullError):
        large(setting, store, 2, 1001.0, 3000, 3000)
    large(setting, store, 2, 1010.0, 0, 0)
    large(setting, store, 3, 1011.0, 0, 0)
    large(setting, store, 4, 1011.0, 3000, 3000)
    assert marker(store) == 4
    assert entries(store, 4) == {(f"w{n}",): 1 for n in range(3000, 6000)}


def test_readers_are_not_disturbed_while_room_is_taken_back() -> None:
    """Each read as of a committed txid gives what that txid left, also over entries that are just being copied."""
    _, store = started(FileHome(None), ttl=10.0)
    setting, wrong, reads, over = Setting(MemoryStorage(Path())), list[str](), [0], threading.Event()
    collected = 0

    def read() -> None:
        while not over.is_set():
            as_of = marker(store) or 0
            if as_of < 20:
                continue
            keys = [1000 * (as_of - age) for age in (0, 9, 10, 15)]
            try:
                found = setting.read(store, keys, as_of)
            except Exception as error:
                if type(error).__name__ != "SnapshotMovedError":
                    wrong.append(repr(error))
                continue
            reads[0] += 1
            if found != [1, 1, None, None]:
                wrong.append(f"as of {as_of}: {found}")

    reader = threading.Thread(target=read)
    reader.start()
    for txid in range(1, 301):
        before = held(store)
        large(setting, store, txid, 1000.0 + txid, 1000 * txid, 1000)
        collected += held(store) < before
    over.set()
    reader.join()
    assert not wrong
    assert reads[0] > 100 and collected > 10
