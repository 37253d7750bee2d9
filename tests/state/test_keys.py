"""Keys as bytes: injective by type, equal where Spark groups, round trip, and a stable hash."""

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.key_strategies import plain_values
from trident.base.errors import StateCorruptError, TypeDeclarationError
from trident_state.keys import decode_keys, encode_keys, hash_keys

INSTANTS = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
DECIMALS = st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: decimal.Decimal(n).scaleb(-4))

TYPED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **plain_values(6),
    pa.timestamp("us", "UTC"): INSTANTS.map(lambda at: at.replace(tzinfo=datetime.UTC)),
    pa.timestamp("us"): INSTANTS,
    pa.decimal128(18, 4): DECIMALS,
    pa.null(): st.none(),
}
SCALARS = st.sampled_from(list(TYPED))


def nested(children: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(children, min_size=1, max_size=3)
    return children.map(pa.list_) | structs.map(lambda kinds: pa.struct([(f"f{i}", k) for i, k in enumerate(kinds)]))


KINDS = st.recursive(SCALARS, nested, max_leaves=4)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_list(kind):
        inner: st.SearchStrategy[Any] = st.lists(values_of(kind.value_type), max_size=3)
    elif pa.types.is_struct(kind):
        inner = st.fixed_dictionaries(
            {kind.field(i).name: values_of(kind.field(i).type) for i in range(kind.num_fields)}
        )
    else:
        inner = TYPED[kind]
    return st.none() | inner


def as_grouped(value: Any) -> Any:
    """What two values share exactly when Spark's groupBy puts them together."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else ("float", value + 0.0)
    if isinstance(value, dict):
        return ("struct", *(as_grouped(value[name]) for name in sorted(value)))
    if isinstance(value, list):
        return ("array", *map(as_grouped, value))
    return (type(value).__name__, value)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(KINDS, min_size=1, max_size=3))
    rows = draw(st.integers(0, 8))
    columns = [pa.array(draw(st.lists(values_of(k), min_size=rows, max_size=rows)), k) for k in kinds]
    return pa.table(columns, names=[f"k{i}" for i in range(len(kinds))])


@settings(max_examples=150, deadline=None)
@given(tables())
def test_keys_are_equal_exactly_where_spark_groups_them(table: pa.Table) -> None:
    encoded = encode_keys(table).to_pylist()
    grouped = [tuple(map(as_grouped, row.values())) for row in table.to_pylist()]
    for i in range(len(grouped)):
        for j in range(i):
            assert (encoded[i] == encoded[j]) == (grouped[i] == grouped[j]), (
                table.to_pylist()[i],
                table.to_pylist()[j],
            )


@settings(max_examples=150, deadline=None)
@given(tables())
def test_keys_come_back_as_they_went(table: pa.Table) -> None:
    encoded = encode_keys(table)
    assert encoded.null_count == 0
    back = decode_keys(encoded, table.schema)
    assert back.schema == table.schema
    assert [as_grouped(row) for row in back.to_pylist()] == [as_grouped(row) for row in table.to_pylist()]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(KINDS), min_size=2, max_size=2), st.data())
def test_values_of_different_types_never_meet(kinds: list[tuple[pa.DataType]], data: st.DataObject) -> None:
    first, second = kinds[0][0], kinds[1][0]
    one, other = data.draw(values_of(first)), data.draw(values_of(second))
    if first == second or one is None or other is None:
        return
    (a,) = encode_keys(pa.table({"k": pa.array([one], first)})).to_pylist()
    (b,) = encode_keys(pa.table({"k": pa.array([other], second)})).to_pylist()
    if a == b:  # only the same number in a wider type, and nested values without such a value
        assert as_grouped(one) == as_grouped(other)


@settings(max_examples=150, deadline=None)
@given(tables(), st.lists(st.binary(max_size=40), max_size=4))
def test_bytes_that_are_no_keys_are_refused_and_never_crash(table: pa.Table, garbage: list[bytes]) -> None:
    try:
        back = decode_keys(pa.array(garbage, pa.binary()), table.schema)
    except StateCorruptError as error:
        assert "a stored key does not have the types" in str(error)
    else:
        back.validate(full=True)


@given(tables())
def test_truncated_keys_are_refused(table: pa.Table) -> None:
    for key in encode_keys(table).to_pylist()[:2]:
        if len(table.schema) > 1 and key != b"N":
            with pytest.raises(StateCorruptError):
                decode_keys(pa.array([key[:-1]], pa.binary()), table.schema)


def test_one_and_its_lookalikes_never_meet() -> None:
    alike = [pa.array([1]), pa.array([1.0]), pa.array(["1"]), pa.array([True]), pa.array([None]), pa.array([b"1"])]
    encoded = [encode_keys(pa.table({"k": column}))[0].as_py() for column in alike]
    assert len(set(encoded)) == len(alike)


def test_zeros_and_nans_are_one_key_each() -> None:
    signed_nan = np.frombuffer(b"\x01\x00\x00\x00\x00\x00\xf8\xff", "<f8")[0]
    table = pa.table({"k": pa.array([0.0, -0.0, math.nan, signed_nan], pa.float64())})
    zero, minus, nan, other = encode_keys(table).to_pylist()
    assert zero == minus and nan == other and zero != nan


def test_a_float_is_the_double_of_the_same_value() -> None:
    single, double = (encode_keys(pa.table({"k": pa.array([1.5, None], t)})) for t in (pa.float32(), pa.float64()))
    assert single.equals(double)


def test_compound_keys_do_not_run_into_each_other() -> None:
    table = pa.table({"a": ["ab", "a", "", None, ""], "b": ["c", "bc", "abc", "abc", None]})
    assert len(set(encode_keys(table).to_pylist())) == 5


def test_no_field_is_one_fixed_key() -> None:
    one = pa.table({"x": [1]}).select([])
    assert encode_keys(one).to_pylist() == [b"*"]
    assert decode_keys(encode_keys(one), one.schema).num_rows == 1
    with pytest.raises(StateCorruptError):
        decode_keys(pa.array([b"sdog"], pa.binary()), one.schema)


def test_slices_chunks_and_dictionaries_encode_like_plain_columns() -> None:
    words = pa.array(["a", "bb", None, "cccc", "bb"])
    numbers = pa.array([1, 2, 3, None, 5])
    plain = encode_keys(pa.table({"w": words, "n": numbers}))
    sliced = encode_keys(pa.table({"w": words, "n": numbers}).slice(1, 3))
    assert sliced.to_pylist() == plain.to_pylist()[1:4]
    chunked = pa.table(
        {"w": pa.chunked_array([words[:2], words[2:]]), "n": pa.chunked_array([numbers[:3], numbers[3:]])}
    )
    assert encode_keys(chunked).equals(plain)
    assert encode_keys(pa.table({"w": words.dictionary_encode(), "n": numbers})).equals(plain)
    assert encode_keys(pa.table({"w": words.cast(pa.large_string()), "n": numbers})).equals(plain)
    assert hash_keys(plain[2:4]).tolist() == hash_keys(plain).tolist()[2:4]


def test_the_stored_form_is_pinned() -> None:
    """Stored states hold these bytes and rely on these hashes: a change needs a new store format."""
    table = pa.table(
        {
            "word": ["dog"],
            "n": [1],
            "x": [0.5],
            "yes": [True],
            "day": [datetime.date(1970, 1, 2)],
            "at": pa.array([1], pa.timestamp("us", "UTC")),
            "local": pa.array([1], pa.timestamp("us")),
            "price": pa.array([decimal.Decimal("1.5")], pa.decimal128(4, 1)),
            "raw": [b"\xff"],
            "list": [["a"]],
            "pair": [{"l": 1}],
            "none": pa.array([None], pa.string()),
        }
    )
    encoded = encode_keys(table)
    assert encoded.to_pylist() == [
        b"S\x03\x00\x00\x00dog"
        b"i\x01\x00\x00\x00\x00\x00\x00\x00"
        b"f\x00\x00\x00\x00\x00\x00\xe0\x3f"
        b"b\x01"
        b"D\x01\x00\x00\x00"
        b"t\x01\x00\x00\x00\x00\x00\x00\x00"
        b"T\x01\x00\x00\x00\x00\x00\x00\x00"
        b"d\x01\x0f" + bytes(15) + b"X\x01\x00\x00\x00\xff"
        b"[\x01\x00\x00\x00S\x01\x00\x00\x00a"
        b"{i\x01\x00\x00\x00\x00\x00\x00\x00"
        b"N"
    ]
    assert hash_keys(pa.array([b"", b"sdog", b"sdog\x00", bytes(range(256))], pa.binary())).tolist() == PINNED


PINNED = [0, 18268296219862475452, 1875235022892955498, 7491166045675025899]


def slow_hash(value: bytes) -> int:
    """The documented hash, as one would write it down."""
    mask, p = 2**64 - 1, 0x9E3779B97F4A7C15
    h = (sum(byte * pow(p, j + 1, 2**64) for j, byte in enumerate(value)) + len(value) * 0xD6E8FEB86659FD93) & mask
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        h = ((h ^ (h >> 33)) * factor) & mask
    return h ^ (h >> 33)


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_the_hash_is_the_documented_one(values: list[bytes]) -> None:
    assert hash_keys(pa.array(values, pa.binary())).tolist() == list(map(slow_hash, values))


@pytest.mark.parametrize(("least", "most"), [(0, 12), (64, 64), (65, 65), (60, 70)])
@pytest.mark.parametrize("count", [2_047, 2_048])
def test_the_hash_of_many_keys_is_the_documented_one(count: int, least: int, most: int) -> None:
    """Short ones are hashed another way when they are many, beside long ones too; in a slice as well."""
    random = np.random.default_rng(count + most)
    values = [random.bytes(n) for n in random.integers(least, most, count + 3, endpoint=True)]
    values[-1] = b""
    assert hash_keys(pa.array(values, pa.binary())[3:]).tolist() == list(map(slow_hash, values[3:]))


def test_the_hash_spreads_keys_over_buckets() -> None:
    for column in (pa.array(range(50_000)), pa.array([f"word{i}" for i in range(50_000)])):
        hashed = hash_keys(encode_keys(pa.table({"k": column})))
        assert len(np.unique(hashed)) == 50_000
        for buckets in (64, 1000, 1024):
            counts = np.bincount((hashed % np.uint64(buckets)).astype(np.int64), minlength=buckets)
            chi = float(((counts - 50_000 / buckets) ** 2 / (50_000 / buckets)).sum())
            assert abs(chi - buckets) < 6 * math.sqrt(2 * buckets)


def test_a_map_cannot_be_a_key() -> None:
    table = pa.table({"tags": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
    with pytest.raises(TypeDeclarationError, match=r"field 'tags' of type map<string, int64> cannot be a key"):
        encode_keys(table)
