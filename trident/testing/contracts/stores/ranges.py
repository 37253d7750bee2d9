"""Tests of ranges: the entries of a scan in the order of their keys, from stores with an index and from all others."""

import datetime
import decimal
import itertools
import math
import random
from typing import Any

import pyarrow as pa
import pytest

from trident.base.errors import SnapshotMovedError
from trident.testing.contracts.stores.fixtures import FIRST, Setting, Storage, every_kind, every_versioned_kind
from trident_state.key_order import KeyRange, end_of, order_of
from trident_state.range_reads import has_order, ranges_of, read_ranges
from trident_state.state_shape import StateKind, replacing
from trident_state.store import Store
from trident_state.store_messages import Update

_TEXTS = ["", "a", "a\0", "ab", "b", "é", "z", "\U0001f600", "￿", None]  # noqa: RUF001
_NUMBERS = [None, -(2**63), -256, -1, 0, 1, 255, 256, 2**63 - 1]
_DAY, _TIME = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30, 0, 1)

ORDERED: dict[str, tuple[pa.Schema, list[tuple[Any, ...]]]] = {
    "text": (pa.schema({"k": pa.string()}), [(text,) for text in _TEXTS]),
    "binary": (pa.schema({"k": pa.binary()}), [(b"",), (b"\0",), (b"\0\xff",), (b"\xff",), (b"\xff\xff",), (None,)]),
    "boolean": (pa.schema({"k": pa.bool_()}), [(True,), (False,), (None,)]),
    "whole": (pa.schema({"k": pa.int64()}), [(number,) for number in _NUMBERS]),
    "floating": (
        pa.schema({"k": pa.float64()}),
        [(number,) for number in (math.nan, math.inf, -math.inf, -0.0, 1.5, -1.5, 5e-324, -5e-324, None)],
    ),
    "decimal": (
        pa.schema({"k": pa.decimal128(20, 2)}),
        [
            (number and decimal.Decimal(number),)
            for number in ("-1.50", "-0.01", "0.01", "1.50", "123456789012345678.00", None)
        ],
    ),
    "date": (
        pa.schema({"k": pa.date32()}),
        [(datetime.date(1, 1, 1),), (datetime.date(1969, 12, 31),), (_DAY,), (None,)],
    ),
    "timestamp": (
        pa.schema({"k": pa.timestamp("us", "UTC")}),
        [(time.replace(tzinfo=datetime.UTC),) for time in (datetime.datetime(1960, 1, 1), _TIME)] + [(None,)],
    ),
    "several": (
        pa.schema({"name": pa.string(), "n": pa.int64(), "word": pa.string()}),
        list(itertools.product(["", "a", "a\0", "ab", None], [None, -1, 0, 256], ["", "x", None])),
    ),
}
"""Key fields of each type with an order, and keys with edge values."""


class RangeContract:
    @every_kind
    @pytest.mark.parametrize("keys", ORDERED)
    def test_a_range_is_a_part_of_the_sorted_entries(self, storage: Storage, kind: StateKind, keys: str) -> None:
        schema, values = ORDERED[keys]
        setting = Setting(storage, kind, schema, combine=replacing())
        store, draw = setting.started(), random.Random(keys)  # noqa: S311
        _apply(store, schema, 1, dict(zip(values, range(len(values)), strict=True)))
        # A third of the keys is removed, and so is in no range as of this batch.
        _apply(store, schema, 2, dict.fromkeys(values[1::3]) | dict.fromkeys(values[2::3], 100))
        for as_of in (2,) if kind is StateKind.NON_TRANSACTIONAL else (1, 2):
            pairs = _third_removed(values) if as_of == 2 else list(zip(values, range(len(values)), strict=True))
            ordered = sorted(pairs, key=lambda pair: [rank(value) for value in pair[0]])
            assert ranged(setting, store, KeyRange(b"", None), None, as_of) == _alike(ordered)
            for _ in range(20):
                low, high = (_bytes(schema, draw.choice(values)) for _ in range(2))
                most = draw.choice([None, 1, 2, 5])
                inside = [pair for pair in ordered if low <= _bytes(schema, pair[0]) < high]
                assert ranged(setting, store, KeyRange(low, high), most, as_of) == _alike(inside[:most])

    @every_kind
    def test_a_range_follows_a_state_that_grows(self, setting: Setting, store: Store) -> None:
        """Numbers become words, so their order is that of the words."""
        numbers = list(range(3_000))
        random.Random(7).shuffle(numbers)  # noqa: S311
        for txid, at in enumerate(range(0, 3_000, 500), 1):
            setting.apply(store, txid, {number: number for number in numbers[at : at + 500]})
            words = sorted(f"w{number}" for number in numbers[: at + 500])
            found = ranged(setting, store, KeyRange(b"\1w2", b"\1w3"), None, txid)
            assert [key for (key,), _ in found] == [word for word in words if word.startswith("w2")]
            page = ranged(setting, store, KeyRange(b"\1w2\0", None), 7, txid)
            assert [key for (key,), _ in page] == [word for word in words if word > "w2"][:7]

    @every_kind
    def test_several_ranges_are_one_read(self, setting: Setting, store: Store) -> None:
        setting.apply(store, 1, {number: number for number in range(30)})
        ranges = [KeyRange(b"\1w2", b"\1w3"), KeyRange(b"\1x", None), KeyRange(b"\1w28", None)]
        found = ranges_of(store, lambda: store.scan(None), setting.shape.entries, ranges, 3, None)
        words = [table.column(0).to_pylist() for table in found]
        assert words == [["w2", "w20", "w21"], [], ["w28", "w29", "w3"]]

    @every_kind
    @pytest.mark.parametrize("kind_of_key", [pa.int32(), pa.date32()])
    def test_a_short_range_of_whole_numbers_or_dates(
        self, storage: Storage, kind: StateKind, kind_of_key: pa.DataType
    ) -> None:
        schema = pa.schema({"k": kind_of_key})
        setting = Setting(storage, kind, schema, combine=replacing())
        store = setting.started()
        numbers = list(range(-20, 20, 3))
        keys = pa.table([pa.array(numbers, pa.int32()).cast(kind_of_key)], schema=schema)
        store.apply(FIRST, Update(1, keys, pa.array(numbers, pa.int64())))
        store.apply(FIRST, Update(2, keys.slice(0, 2), pa.array([None, 5], pa.int64())))
        left = {number: number for number in numbers} | {-17: 5}
        del left[-20]
        for low, high, most in ((-20, 5, None), (-20, 5, 3), (0, 0, None), (19, 30, 1), (5, 4, None)):
            ends = order_of(pa.table({"k": pa.array([low, high])}), 1).to_pylist()
            found = ranges_of(store, lambda: store.scan(None), setting.shape.entries, [KeyRange(*ends)], most, None)
            expected = [value for number, value in left.items() if low <= number < high]
            assert found[0].column(1).to_pylist() == expected[:most]

    @every_versioned_kind
    def test_a_range_of_the_batch_before_does_not_have_later_keys(self, setting: Setting, store: Store) -> None:
        setting.apply(store, 1, {1: 1, 3: 3})
        setting.apply(store, 2, {2: 2, 3: 1})
        everything = KeyRange(b"", None)
        assert ranged(setting, store, everything, None, 1) == [(("w1",), 1), (("w3",), 3)]
        assert ranged(setting, store, everything, None, 2) == [(("w1",), 1), (("w2",), 2), (("w3",), 4)]
        assert ranged(setting, store, everything, 1, 1) == [(("w1",), 1)]

    @every_versioned_kind
    def test_a_range_that_comes_too_late_is_refused(self, setting: Setting, store: Store) -> None:
        for txid in (1, 2, 3):
            setting.apply(store, txid, {1: 1})
        for between in (KeyRange(b"", None), KeyRange(b"\1x", None)):
            with pytest.raises(SnapshotMovedError):
                ranged(setting, store, between, None, 1)

    @every_kind
    def test_a_range_has_the_columns_of_a_scan(self, setting: Setting, store: Store) -> None:
        setting.apply(store, 1, {1: 1})
        for between in (KeyRange(b"", None), KeyRange(b"\1x", None)):
            found = read_ranges(store, [between], None, None)
            assert found is None or found[0].schema.equals(setting.shape.entries)
            assert found is not None or not has_order(store)

    @every_kind
    def test_the_end_of_a_beginning_is_after_all_that_begin_so(self, setting: Setting, store: Store) -> None:
        setting.apply(store, 1, {number: 1 for number in (1, 10, 19, 2, 100)})
        found = ranged(setting, store, KeyRange(b"\1w1", end_of(b"\1w1")), None, 1)
        assert [key for (key,), _ in found] == ["w1", "w10", "w100", "w19"]


def ranged(
    setting: Setting, store: Store, between: KeyRange, most: int | None, as_of: int | None
) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the entries of a range as readers get them: by the store's index, or by a scan."""
    if setting.kind is StateKind.NON_TRANSACTIONAL:
        as_of = None
    (found,) = ranges_of(store, lambda: store.scan(as_of), setting.shape.entries, [between], most, as_of)
    *keys, values = (column.to_pylist() for column in found.columns)
    return _alike(list(zip(zip(*keys, strict=True), values, strict=True)))


def _third_removed(values: list[tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], int]]:
    """Return the entries after the second batch, which removed every third key and set the one after it to 100."""
    return [(key, 100 if at % 3 else at) for at, key in enumerate(values) if at % 3 != 1]


def rank(value: Any) -> Any:
    """Return a value by which Python sorts keys as Spark does: null first, NaN last, text by its bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    return (1, value.encode() if isinstance(value, str) else value)


def _alike(pairs: list[tuple[tuple[Any, ...], Any]]) -> list[tuple[tuple[Any, ...], Any]]:
    """Return pairs in which NaN equals itself."""
    return [(tuple("NaN" if part != part else part for part in key), value) for key, value in pairs]


def _bytes(schema: pa.Schema, key: tuple[Any, ...]) -> bytes:
    order: bytes = order_of(_table(schema, [key]), len(schema))[0].as_py()
    return order


def _table(schema: pa.Schema, keys: list[tuple[Any, ...]]) -> pa.Table:
    columns = [pa.array([key[at] for key in keys], field.type) for at, field in enumerate(schema)]
    return pa.table(columns, schema=schema)


def _apply(store: Store, schema: pa.Schema, txid: int, deltas: dict[tuple[Any, ...], int | None]) -> None:
    store.apply(FIRST, Update(txid, _table(schema, list(deltas)), pa.array(deltas.values(), pa.int64())))
