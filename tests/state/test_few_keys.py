"""A few keys one at a time: the bytes, hashes and values of the columns, for every type that has both forms."""

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.key_strategies import plain_values
from trident_state.few_keys import hash_key, key_encoder
from trident_state.keys import encode_keys, hash_keys

VALUES = plain_values(90)

KEYS = st.lists(st.sampled_from(list(VALUES)), max_size=3).flatmap(
    lambda kinds: st.tuples(
        st.just(kinds), st.lists(st.tuples(*[st.none() | VALUES[kind] for kind in kinds]), min_size=1, max_size=5)
    )
)


@settings(max_examples=300, deadline=None)
@given(KEYS)
def test_one_key_has_the_bytes_and_the_hash_that_columns_give_it(drawn: tuple[list[pa.DataType], list[Any]]) -> None:
    kinds, keys = drawn
    schema = pa.schema([(f"k{at}", kind) for at, kind in enumerate(kinds)])
    columns = [pa.array([key[at] for key in keys], kind) for at, kind in enumerate(kinds)]
    table = pa.table(columns, schema=schema) if kinds else pa.table({"x": pa.nulls(len(keys))}).select([])
    encode = key_encoder(schema)
    assert encode is not None
    encoded = encode_keys(table)
    assert [encode(key) for key in keys] == encoded.to_pylist()
    assert list(map(hash_key, encoded.to_pylist())) == hash_keys(encoded).tolist()


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal128(10, 2),
        pa.timestamp("us", "UTC"),
        pa.list_(pa.int64()),
        pa.struct([("a", pa.int64())]),
        pa.duration("us"),
    ],
    ids=str,
)
def test_other_types_have_the_form_of_columns_alone(kind: pa.DataType) -> None:
    assert key_encoder(pa.schema({"k": kind})) is None
    assert key_encoder(pa.schema({"word": pa.string(), "k": kind})) is None


def test_a_day_before_1970() -> None:
    encode = key_encoder(pa.schema({"day": pa.date32()}))
    assert encode is not None
    day = datetime.date(1, 1, 1)
    assert [encode((day,))] == encode_keys(pa.table({"day": pa.array([day], pa.date32())})).to_pylist()
