"""A batch costs what its keys cost, however large the state is."""

import statistics
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.state.memory.homes import NEVER, MemoryStorage
from trident.testing.contracts.stores import FIRST, FileHome, Setting
from trident_state.memory import MemoryStore
from trident_state.store_messages import Update

BATCH = 10_000


def seconds_a_batch(setting: Setting, size: int) -> float:
    """CPU seconds of this thread for a batch of random keys in a state of `size` keys, the median of several."""
    store = MemoryStore(setting.identity, setting.shape, setting.kind, FileHome(None), pace=NEVER)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    words = pa.array([f"word{n}" for n in range(size)])
    store.apply(FIRST, Update(1, pa.table({"word": words}), pa.array(np.ones(size, np.int64))))
    random, took = np.random.default_rng(7), []
    deltas = pa.array(np.ones(BATCH, np.int64))
    for txid in range(2, 17):
        keys = pa.table({"word": words.take(pa.array(random.choice(size, BATCH, replace=False)))})
        began = time.thread_time()
        store.apply(FIRST, Update(txid, keys, deltas))
        took.append(time.thread_time() - began)
    return statistics.median(took)


def test_a_batch_costs_the_same_in_a_state_thirty_times_as_large(tmp_path: Path) -> None:
    """Memory that no cache holds is slower; anything that looks at the whole state would take thirty times as long."""
    setting = Setting(MemoryStorage(tmp_path))
    assert seconds_a_batch(setting, 600_000) < 5 * seconds_a_batch(setting, 20_000)
