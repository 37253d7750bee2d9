"""What the server combines is what Python would: exact integers, doubles to the last bit, nulls, NaN."""

import datetime
import decimal
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.state.redis.states import LEASE, words
from tests.state.redis.storage import RedisStorage
from tests.support.server import RedisServer
from trident.base.errors import StateValueError
from trident_state.redis import RedisStore
from trident_state.state_shape import Combine, StateIdentity, StateKind, StateShape
from trident_state.store_messages import Update
from trident_state.value_rules import combined

EDGES = [0, 1, -1, 2**31, -(2**31), 2**32, 2**53 - 1, 2**53, 2**53 + 1, -(2**53), -(2**53) - 1, 2**63 - 1, -(2**63)]
LONGS = st.none() | st.sampled_from(EDGES) | st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100)
DOUBLES = st.none() | st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308])

_names = itertools.count()


@pytest.fixture
def storage(shared_redis: RedisServer) -> Iterator[RedisStorage]:
    storage = RedisStorage(shared_redis.url, {"buckets": 4})
    yield storage
    storage.close()


def new(storage: RedisStorage, native: Any, kind: StateKind, value: pa.DataType) -> RedisStore:
    shape = StateShape(pa.schema({"word": pa.string()}), value, Combine(native, lambda a, b: 1 / 0, native))
    store = storage.open(StateIdentity("numbers", f"s{next(_names)}", "log"), shape, kind)
    store.create(LEASE, 0)
    store.acquire(LEASE)
    return store


def bits(column: pa.Array) -> list[Any]:
    if not pa.types.is_floating(column.type):
        return list(column.to_pylist())
    as_numbers = np.where(np.isnan(numbers := column.fill_null(0).to_numpy()), np.nan, numbers)
    return [
        None if null else raw for null, raw in zip(column.is_null().to_pylist(), as_numbers.view("i8"), strict=True)
    ]


@pytest.mark.parametrize("kind", list(StateKind), ids=lambda kind: kind.value)
@pytest.mark.parametrize("native", ["sum", "min", "max"])
@pytest.mark.parametrize("value", [pa.int64(), pa.float64()], ids=str)
def test_the_server_combines_as_arrow_does(
    storage: RedisStorage, native: str, kind: StateKind, value: pa.DataType
) -> None:
    numbers = LONGS if value == pa.int64() else DOUBLES

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30))
    def check(pairs: list[tuple[Any, Any]]) -> None:
        store = new(storage, native, kind, value)
        stored, deltas = (pa.array(column, value) for column in zip(*pairs, strict=True))
        keys = words(range(len(pairs)))
        combine = Combine(native, lambda a, b: a + b, native)  # type: ignore[arg-type]
        store.apply(LEASE, Update(1, keys, stored))
        try:
            expected = combined(combine, stored, deltas)
        except StateValueError:
            with pytest.raises(StateValueError, match="does not fit its type"):
                store.apply(LEASE, Update(2, keys, deltas))
            assert store.groups_of()[0].marker == 1
            return
        applied = store.apply(LEASE, Update(2, keys, deltas), values=True)
        assert bits(applied.values) == bits(expected)
        assert bits(store.read(keys, None).values) == bits(expected)
        if kind is not StateKind.NON_TRANSACTIONAL:
            assert bits(store.read(keys, 1).values) == bits(stored)

    check()


def test_an_overflow_names_what_does_not_fit(storage: RedisStorage) -> None:
    store = new(storage, "sum", StateKind.OPAQUE, pa.int64())
    store.apply(LEASE, Update(1, words([1, 2]), pa.array([1, 2**63 - 1], pa.int64())))
    with pytest.raises(
        StateValueError, match="sum of the stored value and the batch's 77 does not fit its type bigint"
    ):
        store.apply(LEASE, Update(2, words([1, 2]), pa.array([5, 77], pa.int64())))
    assert store.read(words([1, 2]), None).values.to_pylist() == [1, 2**63 - 1]


def test_a_long_history_of_sums_is_exact(storage: RedisStorage) -> None:
    store = new(storage, "sum", StateKind.OPAQUE, pa.int64())
    drawn = np.random.default_rng(1)
    total = np.zeros(500, object)
    for txid in range(1, 40):
        deltas = drawn.integers(-(2**57), 2**57, 500)
        total += deltas
        store.apply(LEASE, Update(txid, words(range(500)), pa.array(deltas)))
    assert store.read(words(range(500)), 39).values.to_pylist() == total.tolist()


@pytest.mark.parametrize("kind", list(StateKind), ids=lambda kind: kind.value)
def test_txids_beyond_what_a_double_counts_by_one_are_far_away(storage: RedisStorage, kind: StateKind) -> None:
    store = new(storage, "sum", kind, pa.int64())
    store.drop()
    store.create(LEASE, 2**52)
    for txid in (2**52 + 1, 2**52 + 2):
        store.apply(LEASE, Update(txid, words([1]), pa.array([1], pa.int64())))
    assert store.read(words([1]), 2**52 + 2).values.to_pylist() == [2]
    assert store.groups_of()[0].marker == 2**52 + 2


OTHERS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "byte": (pa.int8(), st.integers(-128, 127)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "float": (pa.float32(), st.floats(width=32)),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    "string": (pa.string(), st.text(max_size=4)),
    "decimal": (pa.decimal128(18, 2), st.integers(-(10**15), 10**15).map(lambda n: decimal.Decimal(n).scaleb(-2))),
}


@pytest.mark.parametrize("native", ["min", "max"])
@pytest.mark.parametrize("name", OTHERS)
def test_least_and_greatest_of_everything_that_has_an_order(storage: RedisStorage, name: str, native: str) -> None:
    value, samples = OTHERS[name]

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(st.none() | samples, st.none() | samples), min_size=1, max_size=20))
    def check(pairs: list[tuple[Any, Any]]) -> None:
        store = new(storage, native, StateKind.OPAQUE, value)
        stored, deltas = (pa.array(column, value) for column in zip(*pairs, strict=True))
        keys = words(range(len(pairs)))
        store.apply(LEASE, Update(1, keys, stored))
        applied = store.apply(LEASE, Update(2, keys, deltas), values=True)
        expected = combined(Combine(native, lambda a, b: a, native), stored, deltas)  # type: ignore[arg-type]
        assert applied.values is not None and applied.values.type == value
        assert repr(applied.values.to_pylist()) == repr(expected.to_pylist())
        assert repr(store.read(keys, 1).values.to_pylist()) == repr(stored.to_pylist())

    check()
