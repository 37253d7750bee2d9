"""Values of floating-point numbers are those of a state in memory, bit by bit, before and after merges."""

import math
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tests.state.delta.states import merged, quiet, setting_in
from tests.state.delta.test_shared import put, without_keys
from tests.state.delta.test_tables import LATEST, read_by_duckdb
from trident.base.errors import StateShapeError
from trident.state import MemoryMapState
from trident.testing.contracts.stores.fixtures import COUNT, FIRST, SECOND, FactoryStorage, Setting, entries
from trident_state.delta import batch_rows, compaction
from trident_state.state_shape import Combine

BATCHES = 20
DRAWN = [1e16, -1e16, 1.0, 0.1, 5e-324, 1e308, -1e308, 0.0, -0.0, math.inf, -math.inf, math.nan]
SUM, MAX, MIN = COUNT, Combine("Max", max, "max"), Combine("Min", min, "min")
BOTH = Combine("Both", COUNT.function, parts=(COUNT, SUM))
SIGNED = Combine("Signed", COUNT.function, parts=(COUNT, SUM), zeros_leave=True)
PAIR = pa.struct({"n": pa.int64(), "sum": pa.float64()})


def both(number: float) -> Any:
    return {"n": 1, "sum": number}


def signed(number: float) -> Any:
    """Return the sums of a tuple that comes, or goes."""
    return {"n": int(math.copysign(1, number)), "sum": number}


SHAPES: dict[str, tuple[Combine, pa.DataType, Callable[[float], Any]]] = {
    "sum": (SUM, pa.float64(), float),
    "several": (BOTH, PAIR, both),
    "changes": (SIGNED, PAIR, signed),
    "max": (MAX, pa.float64(), float),
    "min": (MIN, pa.float64(), float),
}


def numbers(txid: int, draw: Random) -> dict[int, float]:
    """Return a batch. The first one is large, so that merges leave it out."""
    first = txid == 1
    chosen = {0: 1e16 if first else 1.0, 1: -1e308 if txid == 4 else 1e308, 2: -0.0}
    if not first:
        chosen[3] = -0.0 if txid % 2 else 0.0
    drawn = range(4, 120) if first else draw.sample(range(4, 16), 6)
    return chosen | {number: draw.choice(DRAWN) for number in drawn}


def bits(found: Any) -> Any:
    """Return values with each float as its bytes, without keys that have no value."""
    match found:
        case dict():
            return {key: bits(value) for key, value in found.items() if value is not None}
        case float():
            return struct.pack("d", found)
    return found


@pytest.mark.parametrize("writers", ["driver", "executors"])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_as_of_each_txid_are_those_of_a_state_in_memory(
    folder: Path, shape: str, writers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_SMALL", 1)
    combine, kind, value = SHAPES[shape]
    setting = setting_in(folder, combine, kind)
    memory = Setting(FactoryStorage(MemoryMapState, folder / "memory"), value=kind, combine=combine)
    store, model, draw = quiet(setting), memory.started(), Random(shape)
    expected = dict[int, Any]()
    for txid in range(1, BATCHES + 1):
        batch = {key: value(number) for key, number in numbers(txid, draw).items()}
        if writers == "driver":
            setting.apply(store, txid, batch)
        else:
            opened = store.open_batch(FIRST, without_keys(setting, txid))
            halves = [put(setting, opened, {k: v for k, v in batch.items() if k % 2 == half}) for half in (0, 1)]
            store.commit_batch(opened, without_keys(setting, txid), halves)
        memory.apply(model, txid, batch)
        expected[txid] = bits(entries(model, txid))
        assert bits(entries(store, txid)) == expected[txid]
        if txid % 10 == 0:
            assert merged(store) is not None
    assert store._table.look().files[0].high == 1, "no merge has begun with the oldest batch"
    for reader in (store, setting.open()):
        for txid in expected:
            assert bits(entries(reader.at(txid), txid)) == expected[txid], txid
    if shape == "sum":
        found = read_by_duckdb(folder, LATEST)
        assert bits({(word,): number for word, number in found.items()}) == expected[BATCHES]


def test_a_table_of_changes_that_an_earlier_version_wrote_is_refused_and_can_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_rows, "used_range", lambda *_: 0)
    setting = setting_in(folder, value=pa.float64())
    earlier: Any = setting.open()
    earlier._rows = '{"native":"sum"}'
    earlier.create(FIRST, 0)
    earlier.acquire(FIRST)
    for txid in (1, 2):
        setting.apply(earlier, txid, {1: 0.25})
    now = setting.open()
    with pytest.raises(StateShapeError, match=r"sums floating-point numbers, .*earlier versions.*initialState="):
        now.acquire(SECOND)
    assert entries(now, 2) == {("w1",): 0.5}
