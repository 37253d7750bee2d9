"""maxBytes: a batch that does not fit changes nothing."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.state.memory.homes import NEVER, MemoryStorage
from trident.base.errors import StateFullError
from trident.testing.contracts.stores import FIRST, SECOND, FileHome, Setting
from trident.testing.contracts.stores.fixtures import LAST, entries, every_kind, marker
from trident_state.memory import MemoryStore
from trident_state.state_shape import StateKind


def limited(setting: Setting, folder: Path | None, limit: int) -> MemoryStore:
    return MemoryStore(setting.identity, setting.shape, setting.kind, FileHome(folder), limit, NEVER)


@every_kind
def test_a_state_that_outgrows_its_limit_refuses_and_changes_nothing(tmp_path: Path, kind: StateKind) -> None:
    setting = Setting(MemoryStorage(tmp_path), kind)
    store = limited(setting, tmp_path / "state", 100_000)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    setting.apply(store, 1, {n: 1 for n in range(500)})
    with pytest.raises(StateFullError) as caught:
        setting.apply(store, 2, {n: 1 for n in range(400, 2_000)})
    assert "state 'counts' holds" in str(caught.value)
    assert "exceed maxBytes=100,000. Nothing was changed; raise maxBytes" in str(caught.value)
    assert "export the values of this state first" in str(caught.value)
    assert marker(store) == 1
    assert entries(store, None) == {(f"w{n}",): 1 for n in range(500)}
    setting.apply(store, 2, {n: 1 for n in range(500)})  # keys that are there take no more room
    assert setting.read(store, [0], None) == [2]


@pytest.mark.parametrize("value", [pa.string(), pa.list_(pa.string())], ids=str)
def test_values_that_grow_are_counted_and_given_back(tmp_path: Path, value: pa.DataType) -> None:
    def text(size: int) -> Any:
        return "x" * size if value == pa.string() else ["x" * size]

    setting = Setting(MemoryStorage(tmp_path), value=value, combine=LAST)
    store = limited(setting, tmp_path / "state", 50_000)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    setting.apply(store, 1, {1: text(40_000)})
    with pytest.raises(StateFullError):
        setting.apply(store, 2, {1: text(20_000)})  # the value before it is kept too
    for txid in (2, 3):
        setting.apply(store, txid, {1: text(1)})
    setting.apply(store, 4, {1: text(45_000)})
    assert setting.read(store, [1], 4) == [text(45_000)]
    store.snapshot()
    again = limited(setting, tmp_path / "state", 50_000)
    again.acquire(SECOND)
    with pytest.raises(StateFullError):
        setting.apply(again, 5, {2: text(10_000)}, lease=SECOND)


def test_a_full_state_takes_batches_without_keys(tmp_path: Path) -> None:
    setting = Setting(MemoryStorage(tmp_path))
    store = limited(setting, tmp_path / "state", 10)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    with pytest.raises(StateFullError):
        setting.apply(store, 1, {1: 1})
    setting.apply(store, 1, {})
    assert marker(store) == 1
