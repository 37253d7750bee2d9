"""Tests of values: they are read as written, native merges equal the function's, and a null counts as nothing."""

import datetime
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from trident.testing.contracts.stores.fixtures import (
    LAST,
    SECOND,
    VERSIONED,
    Setting,
    Storage,
    entries,
    every_kind,
    read_alike,
)
from trident_state.state_shape import Combine, StateKind

_NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456)
_NOON_UTC = _NOON.replace(tzinfo=datetime.UTC)

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), [-128, 127]),
    "smallint": (pa.int16(), [-(2**15), 2**15 - 1]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1, 0]),
    "float": (pa.float32(), [1.5, -0.0, math.inf]),
    "double": (pa.float64(), [0.1, -math.inf, 5e-324, 1e308]),
    "decimal": (pa.decimal128(38, 6), [Decimal("-1.500000"), Decimal("9" * 32 + ".999999")]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", "UTC"), [_NOON_UTC, datetime.datetime(1901, 1, 1, tzinfo=datetime.UTC)]),
    "timestamp_ntz": (pa.timestamp("us"), [_NOON]),
    "string": (pa.string(), ["", "dog", "naïve \U0001f415", "nul\0inside", "x" * 70_000]),
    "binary": (pa.binary(), [b"", b"\x00\xff\x80", bytes(range(256)) * 300]),
    "array": (pa.list_(pa.int64()), [[], [1, None, 3]]),
    "array of strings": (pa.list_(pa.string()), [["a", None, ""], []]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], []]),
    "struct": (
        pa.struct({"sum": pa.float64(), "n": pa.int64(), "name": pa.string()}),
        [{"sum": 1.5, "n": 3, "name": "x"}, {"sum": None, "n": None, "name": None}],
    ),
    "nested": (
        pa.struct(
            {"seen": pa.list_(pa.struct({"at": pa.timestamp("us", "UTC"), "by": pa.map_(pa.string(), pa.date32())}))}
        ),
        [{"seen": [{"at": _NOON_UTC, "by": [("a", datetime.date(2020, 1, 1))]}, None]}, {"seen": None}],
    ),
}

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {"sum": lambda a, b: a + b, "min": min, "max": max}


class ValueContract:
    @every_kind
    @pytest.mark.parametrize("name", TYPES)
    def test_a_value_of_any_type_is_read_as_it_was_written(self, storage: Storage, kind: StateKind, name: str) -> None:
        value, samples = TYPES[name]
        setting = Setting(storage, kind, value=value, combine=LAST)
        store = setting.started()
        written = pa.array([*samples, None], value)
        setting.apply(store, 1, dict(enumerate(written.to_pylist())))
        setting.apply(store, 2, dict(enumerate(reversed(samples))))
        storage.secure(store)
        again = setting.open()
        again.acquire(SECOND)
        keys = setting.key_table(range(len(samples) + 1))
        for found in (read_alike(store, keys, None).values, read_alike(again, keys, None).values):
            found.validate(full=True)
            assert found.to_pylist() == pa.array([*reversed(samples), None], value).to_pylist()
        if kind in VERSIONED:
            assert read_alike(again, keys, 1).values.to_pylist() == written.to_pylist()
        assert len(entries(again, None)) == len(samples)

    def test_not_a_number_is_read_as_it_was_written(self, storage: Storage) -> None:
        setting = Setting(storage, value=pa.float64(), combine=LAST)
        store = setting.started()
        setting.apply(store, 1, {1: math.nan, 2: -0.0})
        not_a_number, zero = setting.read(store, [1, 2], 1)
        assert math.isnan(not_a_number) and math.copysign(1, zero) == -1

    @pytest.mark.parametrize("kind", [StateKind.NON_TRANSACTIONAL, StateKind.OPAQUE], ids=lambda kind: kind.value)
    @pytest.mark.parametrize(
        ("value", "native", "stored", "delta", "result"),
        [
            (pa.int64(), "sum", 2, 3, 5),
            (pa.int32(), "sum", 2, -3, -1),
            (pa.float64(), "sum", 0.5, 0.25, 0.75),
            (pa.int64(), "min", 2, 3, 2),
            (pa.int64(), "min", 3, -2, -2),
            (pa.int64(), "max", 2, 3, 3),
            (pa.int64(), "max", 2**53 + 1, 2**53, 2**53 + 1),
            (pa.float64(), "min", 2.5, 1.5, 1.5),
            (pa.float64(), "max", -2.5, -3.5, -2.5),
        ],
    )
    def test_native_merges_are_those_of_the_function(
        self, storage: Storage, kind: StateKind, value: pa.DataType, native: Any, stored: Any, delta: Any, result: Any
    ) -> None:
        natively = Setting(storage, kind, value=value, combine=Combine(native, FUNCTIONS[native], native))
        by_python = replace(natively.named("python"), combine=Combine(native, FUNCTIONS[native]))
        for setting in (natively, by_python):
            store = setting.started()
            setting.apply(store, 1, {1: stored})
            assert setting.answers(store, 2, {1: delta, 2: delta}) == [result, delta]

    @every_kind
    @pytest.mark.parametrize("native", ["sum", "min", "max"])
    def test_a_null_changes_nothing_and_a_stored_null_is_nothing(
        self, storage: Storage, kind: StateKind, native: Any
    ) -> None:
        setting = Setting(storage, kind, combine=Combine(native, FUNCTIONS[native], native))
        store = setting.started()
        setting.apply(store, 1, {1: 5, 2: None})
        applied = setting.apply(store, 2, {1: None, 2: 7, 3: None}, values=True)
        assert applied.values is not None
        assert applied.values.to_pylist() == [5, 7, None]
        assert (applied.written, applied.skipped) == (3, 0)
        if kind in VERSIONED:
            assert setting.read(store, [1, 2, 3], 1) == [5, None, None]

    @every_kind
    def test_a_python_combiner_is_not_called_where_nothing_is_stored(self, storage: Storage, kind: StateKind) -> None:
        called = list[tuple[Any, Any]]()

        def combine(stored: Any, delta: Any) -> Any:
            called.append((stored, delta))
            return stored if delta is None else stored + delta

        setting = Setting(storage, kind, combine=Combine("Mine", combine))
        store = setting.started()
        setting.apply(store, 1, {1: 5, 2: None})
        assert called == []
        setting.apply(store, 2, {1: None, 2: 7, 3: 9})
        assert called == [(5, None)]
        assert setting.read(store, [1, 2, 3], None) == [5, 7, 9]

    @every_kind
    def test_a_combiner_that_changes_its_arguments_harms_nothing(self, storage: Storage, kind: StateKind) -> None:
        def extend(stored: list[int], delta: list[int]) -> list[int]:
            stored.extend(delta)
            return stored

        setting = Setting(storage, kind, value=pa.list_(pa.int64()), combine=Combine("Extend", extend))
        store = setting.started()
        setting.apply(store, 1, {1: [1]})
        setting.apply(store, 2, {1: [2]})
        assert setting.read(store, [1], None) == [[1, 2]]
        if kind in VERSIONED:
            assert setting.read(store, [1], 1) == [[1]]
        assert setting.answers(store, 2, {1: [2]}) == [[1, 2]]

    def test_a_combiner_sees_rows_and_dicts(self, storage: Storage) -> None:
        """Every function of a topology sees a struct as a Row and a map as a dict."""
        value = pa.struct({"sum": pa.int64(), "by": pa.map_(pa.string(), pa.int64())})

        def combine(stored: Any, delta: Any) -> Any:
            both = {k: stored.by.get(k, 0) + delta.by.get(k, 0) for k in {*stored.by, *delta["by"]}}
            return (stored[0] + delta.sum, dict(sorted(both.items())))

        setting = Setting(storage, value=value, combine=Combine("Mine", combine))
        store = setting.started()
        setting.apply(store, 1, {1: {"sum": 1, "by": [("a", 1)]}})
        setting.apply(store, 2, {1: {"sum": 2, "by": [("a", 1), ("b", 5)]}})
        assert setting.read(store, [1], 2) == [{"sum": 3, "by": [("a", 2), ("b", 5)]}]
