"""The tables of states as other programs read them, and what a batch writes into them."""

import datetime
import re
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.state.delta.states import setting_in, table_of
from trident.base.errors import StateShapeError, StateValueError
from trident.testing.contracts.stores.fixtures import COUNT, FIRST, LAST, SECOND, Setting, entries, marker
from trident_state.state_shape import Combine, replacing

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "delta-state.md"
SUM, LATEST = (
    query.replace("delta_scan('states/novel/counts')", "t")
    for query in re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
)
"""The queries of the guide, over a table that is called t."""


def written(setting: Setting, batches: list[dict[int, Any]]) -> Any:
    store = setting.started()
    for txid, batch in enumerate(batches, start=1):
        setting.apply(store, txid, batch)
    return store


def read_by_duckdb(folder: Path, query: str) -> dict[Any, Any]:
    t = DeltaTable(table_of(folder)).to_pyarrow_dataset()
    found = duckdb.connect().from_arrow(t).query("t", query).fetchall()
    return {row[0]: row[1] for row in found}


def test_deltas_are_added_by_duckdb_and_pandas(folder: Path) -> None:
    store = written(setting_in(folder), [{1: 1, 2: 2}, {1: 10}, {2: -5, 3: 7}])
    expected = {"w1": 11, "w2": -3, "w3": 7}
    assert {key[0]: value for key, value in entries(store, 3).items()} == expected
    assert read_by_duckdb(folder, SUM) == expected
    frame: pd.DataFrame = DeltaTable(table_of(folder)).to_pandas()
    assert frame.groupby("word")["value"].sum().to_dict() == expected


def test_the_newest_whole_value_of_a_key_is_its_value(folder: Path) -> None:
    store = written(setting_in(folder, LAST), [{1: 1, 2: 2}, {1: 10}, {2: None, 3: 7}])
    expected = {"w1": 10, "w3": 7}
    assert {key[0]: value for key, value in entries(store, 3).items()} == expected
    assert read_by_duckdb(folder, LATEST) == expected
    frame = DeltaTable(table_of(folder)).to_pandas().sort_values("_txid").groupby("word", as_index=False).nth(-1)
    assert frame.dropna(subset=["value"]).set_index("word")["value"].to_dict() == expected


def test_a_batch_of_deltas_reads_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = setting_in(folder)
    store = written(setting, [{1: 1}])

    def read(*_: object) -> None:
        raise AssertionError("a file was read")

    monkeypatch.setattr(store._files, "read", read)
    setting.apply(store, 2, {1: 5})
    monkeypatch.undo()
    assert entries(store, 2) == {("w1",): 6}


def test_a_batch_that_puts_values_reads_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = setting_in(folder, replacing())
    store = written(setting, [{1: 1}])
    monkeypatch.setattr(store._files, "read", lambda *_: pytest.fail("a file was read"))
    assert setting.answers(store, 2, {1: None, 2: 2}) == [None, 2]
    monkeypatch.undo()
    assert entries(store, 2) == {("w2",): 2}


@pytest.mark.parametrize(
    ("kind", "largest"),
    [
        (pa.int8(), 127),
        (pa.int64(), 2**63 - 1),
        (pa.decimal128(38, 2), Decimal("9" * 36 + ".99")),
        (pa.decimal128(5, 2), Decimal("999.99")),
    ],
)
def test_many_sums_that_approach_the_end_of_their_type_are_refused_in_time(
    folder: Path, kind: pa.DataType, largest: Any
) -> None:
    """Batches do not read what is stored while no key can be near the end; then they do."""
    setting = setting_in(folder, value=kind)
    store = setting.started()
    one = Decimal("0.01") if pa.types.is_decimal(kind) else 1
    quarter = Decimal(int(largest) // 4) if pa.types.is_decimal(kind) else largest // 4
    with localcontext() as context:
        context.prec = 76
        rest, below, six = largest - 4 * quarter, largest - one, 6 * one
    for txid in range(1, 5):
        setting.apply(store, txid, {1: quarter, 2: one})
    setting.apply(store, 5, {1: rest, 2: one})
    with pytest.raises(StateValueError, match="Count"):
        setting.apply(store, 6, {1: one})
    assert marker(store) == 5
    setting.apply(store, 6, {1: -one, 2: one})
    assert setting.read(store, [1, 2], 6) == [below, six]


def test_a_struct_of_sums_keeps_deltas_and_zeros_remove_the_key(folder: Path) -> None:
    value = pa.struct({"sum": pa.int64(), "n": pa.int64()})
    part = Combine("Sum", COUNT.function, "sum")
    combine = Combine("Both", COUNT.function, parts=(part, part), zeros_leave=True)
    setting = setting_in(folder, combine, value)
    store = written(setting, [{1: {"sum": 5, "n": 1}, 2: {"sum": 1, "n": 1}}, {1: {"sum": -5, "n": -1}}])
    assert entries(store, 2) == {("w2",): {"sum": 1, "n": 1}}
    assert setting.read(store, [1], 1) == [{"sum": 5, "n": 1}]
    reader = setting_in(folder, LAST, value).open()
    assert entries(reader, 2) == {("w2",): {"sum": 1, "n": 1}}, "a reader needs no combiner"
    query = "select word, sum(value.sum) from t group by word having sum(value.n) <> 0"
    assert read_by_duckdb(folder, query) == {"w2": 1}


def test_types_that_delta_lacks_are_kept(folder: Path) -> None:
    span = datetime.timedelta(microseconds=5)
    for name, kind, value in (
        ("span", pa.duration("us"), span),
        ("spans", pa.struct({"span": pa.duration("us")}), {"span": span}),
    ):
        setting = setting_in(folder, replacing(), kind).named(name)
        store = setting.started()
        setting.apply(store, 1, {1: value, 2: None})
        assert setting.read(setting.open(), [1, 2], 1) == [value, None]
        stored = DeltaTable(folder / "wordcount" / name).to_pyarrow_table()["value"]
        assert stored.type == (pa.int64() if name == "span" else pa.binary())


def test_rows_of_a_file_are_sorted_by_bucket(folder: Path) -> None:
    written(setting_in(folder), [{n: n for n in range(3_000)}])
    buckets = DeltaTable(table_of(folder)).to_pyarrow_table()["_bucket"].to_pylist()
    assert buckets == sorted(buckets) and len(set(buckets)) > 2_000


def test_a_state_of_deltas_cannot_begin_to_expire(folder: Path) -> None:
    written(setting_in(folder), [{1: 1}])
    again = setting_in(folder, ttlSecs=60.0).open()
    with pytest.raises(StateShapeError, match="rows="):
        again.acquire(SECOND)


def test_a_few_reads_keep_no_more_rows_than_the_cache_may(folder: Path) -> None:
    setting = setting_in(folder, cacheBytes=1)
    store = written(setting, [{n: n for n in range(100)}])
    assert setting.read(store, [5], None) == [5]
    assert store._files._held == 0


def test_reading_keeps_rows_in_the_cache_and_forgets_them(folder: Path) -> None:
    setting = setting_in(folder)
    store = written(setting, [{n: n for n in range(100)}])
    assert setting.read(store, [5], None) == [5]
    assert store._files._held > 0
    store.drop(FIRST)
    assert store._files._held == 0
