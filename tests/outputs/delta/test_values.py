"""Every type comes back as it was, and finds the row of its key."""

from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan, nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.outputs.delta.outlets import outlet, rows
from trident import TridentTopology
from trident.base.spark_types import arrow_schema, parse_schema
from trident.outputs.delta import history
from trident.spouts import DeltaSpout, FixedBatchSpout
from trident.testing.local import start_local

TYPES = (
    "s string, b binary, t boolean, i1 byte, i2 short, i4 int, i8 long, f float, d double, e decimal(38,10), "
    "day date, at timestamp, local timestamp_ntz, l array<struct<x: int>>, m map<string, long>, o struct<y: string>"
)
ROW = (
    "a'b`\U0001f600", b"\0\xff", True, -128, -32768, -(2**31), -(2**63), 0.5, 1e300, Decimal("1234567890.0123456789"),
    date(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999),
    [{"x": 1}, {"x": None}, None], {"k": 2}, {"y": ""},
)  # fmt: skip
KEYS: list[tuple[str, Any, Any]] = [
    ("string", "a", "A"), ("binary", b"", b"\0"), ("boolean", True, False), ("byte", 1, -1), ("short", 1, -1),
    ("int", 1, -1), ("long", 2**63 - 1, 2**63 - 2), ("float", nan, 0.0), ("double", 0.1, 0.2),
    ("decimal(10,2)", Decimal("1.10"), Decimal("1.11")), ("date", date(1, 1, 1), date(9999, 12, 31)),
    ("timestamp", datetime(1900, 1, 1, tzinfo=UTC), datetime(1900, 1, 1, microsecond=1, tzinfo=UTC)),
    ("timestamp_ntz", datetime(1900, 1, 1), datetime(1900, 1, 1, microsecond=1)),
]  # fmt: skip


def test_values_of_all_types(tmp_path: Path) -> None:
    """Also a row of nulls. Both the package deltalake and DeltaSpout read them back."""
    names = parse_schema(TYPES).names
    made = TridentTopology()
    batch = [(1, *ROW), (2, *[None] * len(names))]
    stream = made.newStream("s", FixedBatchSpout(f"id long, {TYPES}", [batch]))
    stream.writeDelta(tmp_path / "all", name="all")
    stream.writeDelta(tmp_path / "merged", key="id", name="merged")
    with start_local(made, checkpointLocation=tmp_path / "c") as running:
        running.processAllAvailable(timeout=60)
    for name in ("all", "merged"):
        held = DeltaTable(str(tmp_path / name)).to_pyarrow_table().sort_by("id")
        expected = [{**row, "m": row["m"] and list(row["m"].items())} for row in _dicts(batch, names)]
        assert held.to_pylist() == expected
        assert DeltaSpout(tmp_path / name).schema.simpleString() == parse_schema(f"id long, {TYPES}").simpleString()


def _dicts(batch: list[Any], names: list[str]) -> list[dict[str, Any]]:
    return [dict(zip(("id", *names), row, strict=True)) for row in batch]


@pytest.mark.parametrize(("kind", "one", "other"), KEYS)
def test_a_key_of_each_type_finds_its_row(tmp_path: Path, kind: str, one: Any, other: Any) -> None:
    schema = arrow_schema(parse_schema(f"k {kind}, v long"))
    made = outlet(tmp_path / "t", f"k {kind}, v long", key=("k",))
    for txid, values in enumerate([(1, 2), (3, 4)], 1):
        made.take(pa.table({"k": [one, other], "v": values}, schema=schema), txid)
    assert sorted(value for (value,) in rows(tmp_path / "t", "v")) == [3, 4]


def test_the_two_zeros_and_all_nans_are_one_key(tmp_path: Path) -> None:
    made = outlet(tmp_path / "t", "k double, v long", key=("k",))
    other_nan = -nan
    for txid, keys in enumerate([(-0.0, nan), (0.0, other_nan), (-0.0, nan)], 1):
        made.take(pa.table({"k": keys, "v": [txid, 10 * txid]}), txid)
    zero, not_a_number = sorted(rows(tmp_path / "t"), key=lambda row: row[1])
    assert (zero, str(zero[0])) == ((0.0, 3), "0.0") and isnan(not_a_number[0]) and not_a_number[1] == 30


def test_names_that_need_quotes(tmp_path: Path) -> None:
    made = outlet(tmp_path / "t", "`a.B` long, `select` long, `ü-'\"` long", key=("a.B", "select"))
    for txid in (1, 2):
        made.take(pa.table({"a.B": [1, 1], "select": [1, 2], "ü-'\"": [txid, 2 * txid]}), txid)
    assert sorted(rows(tmp_path / "t")) == [(1, 1, 2), (1, 2, 4)]


def test_a_field_may_have_the_name_of_the_mark(tmp_path: Path) -> None:
    made = outlet(tmp_path / "t", "adds long, b long, t long, _change_type string", key=("b",), changes=True)
    kinds = ["insert", "delete"]
    made.take(pa.table({"adds": [1, 2], "b": [1, 2], "t": [1, 2], "_change_type": kinds}), 1)
    made.take(pa.table({"adds": [1, 2], "b": [1, 3], "t": [1, 3], "_change_type": kinds[::-1]}), 2)
    assert rows(tmp_path / "t") == [(2, 3, 3)]


def test_a_batch_that_changes_no_row_is_recorded(tmp_path: Path) -> None:
    """A deletion of a key that the table does not have: Delta makes no version of it."""
    made = outlet(tmp_path / "t", "v long, _change_type string", key=("v",), changes=True)
    batch = pa.table({"v": [1], "_change_type": ["delete"]})
    made.take(batch, 1)
    record = made._record.read(DeltaTable(str(tmp_path / "t")))
    assert record is not None and record.txid == 1
    version = DeltaTable(str(tmp_path / "t")).version()
    made.take(batch, 1)
    assert DeltaTable(str(tmp_path / "t")).version() == version


def test_a_table_of_keys_alone(tmp_path: Path) -> None:
    made = outlet(tmp_path / "t", "v long", key=("v",))
    made.take(pa.table({"v": [1, 2]}), 1)
    made.take(pa.table({"v": [2, 3]}), 2)
    assert sorted(rows(tmp_path / "t")) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("key", [(), ("v",)])
def test_a_version_is_on_the_disk_before_the_log_says_so(
    tmp_path: Path, key: tuple[str, ...], lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that an earlier attempt made, and did not flush."""
    place = tmp_path / "t"
    made = outlet(place, "v long, g string", key=key, partitions=("g",))
    made.take(pa.table({"v": [1], "g": ["a"]}), 1)
    batch = pa.table({"v": [1, 2], "g": ["a", "b"]})
    if lost:
        look = made._history.look
        monkeypatch.setattr(made._history, "look", lambda version: None)
        made.take(batch, 2)
        monkeypatch.setattr(made._history, "look", look)
    synced = set[Path]()
    monkeypatch.setattr(history, "_fsync", synced.add)
    monkeypatch.setattr(history, "fsync_folder", synced.add)
    made.take(batch, 2)
    files = {Path(uri) for uri in DeltaTable(str(place)).file_uris() if key or "g=b" in uri}
    commit = place / "_delta_log" / f"{DeltaTable(str(place)).version():020}.json"
    assert synced >= {*files, commit, *(file.parent for file in files), commit.parent, place}
