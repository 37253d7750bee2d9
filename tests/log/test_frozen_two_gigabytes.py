"""More values of one state in a batch than one Arrow array holds, at their real size."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.state.memory.homes import MemoryStorage
from trident.files.disk import DiskFiles
from trident.frozen.files import FileFolder
from trident.log.frozen_batches import FrozenBatches, keys_and_values
from trident.log.frozen_results import freeze, thaw
from trident.log.sqlite_log import SqliteLog
from trident.testing.contracts.stores import FIRST, SECOND, Setting
from trident.testing.contracts.stores.fixtures import marker
from trident_state.memory import MemoryStore
from trident_state.state_shape import Combine
from trident_state.store_messages import Update

ROWS, BYTES = 2_200, 2**20
"""2.15 GB."""


@pytest.mark.soak
def test_more_than_two_gigabytes_of_values_are_frozen_committed_and_loaded_again(tmp_path: Path) -> None:
    filling = "x" * BYTES
    batches = [
        pa.record_batch(
            {"word": [f"w{n}" for n in range(at, at + 100)], "value": [f"{n}{filling}" for n in range(at, at + 100)]}
        )
        for at in range(0, ROWS, 100)
    ]
    output = freeze(pa.Table.from_batches(batches), FileFolder(DiskFiles(tmp_path), "frozen/words/1-1-0-1"))
    assert output.files and output.rows == ROWS
    del batches
    log = SqliteLog(tmp_path / "log.sqlite", "t")
    keys, values = keys_and_values(FrozenBatches(log, "words", DiskFiles(tmp_path)).whole(thaw(output, "batch 1")))
    log.close()
    longer = Combine("Longer", lambda stored, delta: max(stored, delta, key=len), None)
    setting = Setting(MemoryStorage(tmp_path / "states"), value=pa.string(), combine=longer)
    store = setting.started()
    assert isinstance(store, MemoryStore)
    applied = store.apply(FIRST, Update(1, keys, values), values=True)
    assert applied.values is not None and len(applied.values) == ROWS and marker(store) == 1
    assert applied.values[ROWS - 1].as_py() == f"{ROWS - 1}{filling}"
    del applied, keys, values
    assert store.snapshot() == 1
    del store
    again = setting.open()
    again.acquire(SECOND)
    assert setting.read(again, [0, ROWS - 1], 1) == [f"0{filling}", f"{ROWS - 1}{filling}"]
    assert sum(page.num_rows for page in again.scan(1)) == ROWS
