"""Slots: given once, at any size."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.state.memory.homes import NEVER, MemoryStorage
from trident.testing.contracts.stores import FIRST, FileHome, Setting
from trident_state.memory import MemoryStore
from trident_state.memory.entries import NOTHING, Entries
from trident_state.state_shape import StateKind


@pytest.mark.parametrize("size", [1, 1_023, 1_024, 1_025, 2_048])
def test_a_key_that_is_not_there_is_nothing_whatever_the_size(size: int) -> None:
    """Also where every slot that there is room for belongs to a key."""
    setting = Setting(MemoryStorage(Path()))
    store = MemoryStore(setting.identity, setting.shape, setting.kind, FileHome(None), pace=NEVER)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    setting.apply(store, 1, {n: 7 for n in range(size)})
    setting.apply(store, 2, {n: 1 for n in range(size)})
    for as_of, value in ((2, 8), (1, 7), (None, 8)):
        assert setting.read(store, [size - 1, size, size + 1], as_of) == [value, None, None]
    applied = setting.apply(store, 3, {size: 5, size - 1: 5}, values=True)
    assert applied.values is not None and applied.values.to_pylist() == [5, 13]


def test_what_no_key_has_is_nothing() -> None:
    entries = Entries(pa.int64(), StateKind.OPAQUE)
    triples = entries.take(np.array([-1, 0]))
    assert triples.txids.tolist() == [NOTHING, 0]
    assert triples.prevs is not None
    assert not triples.values.valid.any() and not triples.prevs.valid.any()
    assert entries.changed(0).tolist() == []
