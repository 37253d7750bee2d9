"""Records: what was packed comes back, and bytes that are no records are refused."""

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trident.base.errors import StateCorruptError, TypeDeclarationError
from trident_state.records.forms import ValueForm, records_of

UTC = datetime.UTC
SAMPLES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [1, None, -(2**63), 2**53 + 1]),
    "byte": (pa.int8(), [1, None, -128]),
    "double": (pa.float64(), [1.5, math.nan, -math.inf, None, -0.0]),
    "float": (pa.float32(), [1.5, None, float(np.float32(0.1)), math.inf]),
    "boolean": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", "UTC"), [datetime.datetime(2020, 1, 1, 1, 1, 1, 5, UTC), None]),
    "timestamp_ntz": (pa.timestamp("us"), [datetime.datetime(1600, 1, 1, 1, 1, 1, 5), None]),
    "interval": (pa.duration("us"), [datetime.timedelta(days=-3, microseconds=5), None]),
    "string": (pa.string(), ["a", "", None, 'x"\n é \U0001f600', '","prev":1}']),
    "binary": (pa.binary(), [b"\xff\x00", b"", None]),
    "decimal": (pa.decimal128(38, 2), [decimal.Decimal("1.50"), None, decimal.Decimal("-" + "9" * 36 + ".99")]),
    "array": (pa.list_(pa.float64()), [[1.0, math.nan, None], None, []]),
    "struct": (
        pa.struct([("a", pa.int64()), ("b c", pa.list_(pa.decimal128(5, 1)))]),
        [{"a": 1, "b c": [decimal.Decimal("1.1")]}, None, {"a": None, "b c": None}],
    ),
    "map": (pa.map_(pa.string(), pa.float64()), [[("a", 1.0), ("b", None)], None, []]),
    "nested": (
        pa.map_(pa.int64(), pa.list_(pa.struct([("x", pa.map_(pa.string(), pa.date32()))]))),
        [[(1, [{"x": [("k", datetime.date(2020, 1, 1))]}, None])], None],
    ),
    "void": (pa.null(), [None, None]),
}

every_form = pytest.mark.parametrize("form", ["packed", "json"])
every_type = pytest.mark.parametrize("name", SAMPLES)


@every_form
@every_type
@pytest.mark.parametrize("bare", [False, True], ids=["triple", "bare"])
def test_what_was_packed_comes_back(name: str, form: ValueForm, bare: bool) -> None:
    kind, samples = SAMPLES[name]
    values, prevs = pa.array(samples, kind), pa.array(samples[::-1], kind)
    records = records_of(kind, form, bare)
    packed = records.pack(7, values, prevs)
    assert packed.null_count == 0
    with_holes = pa.array([None, *packed.to_pylist(), None], pa.binary())
    for found, there in ((records.unpack(packed), slice(0, None)), (records.unpack(with_holes), slice(1, -1))):
        assert found.values.type == found.prevs.type == kind
        shown = found.values.to_pylist()
        assert repr(shown[there]) == repr(values.to_pylist())
        if not bare:
            assert repr(found.prevs.to_pylist()[there]) == repr(prevs.to_pylist())
            assert set(found.txids.tolist()[there]) == {7}
        if there.start:
            assert shown[0] is shown[-1] is None
            assert found.txids[[0, -1]].tolist() == [-1, -1]


@every_form
@every_type
def test_no_rows_are_no_records(name: str, form: ValueForm) -> None:
    kind, _ = SAMPLES[name]
    for bare in (False, True):
        records = records_of(kind, form, bare)
        none = pa.array([], kind)
        assert len(records.unpack(records.pack(1, none, none)).values) == 0
        assert records.unpack(pa.array([None, None], pa.binary())).values.to_pylist() == [None, None]


def test_json_is_what_other_readers_see() -> None:
    triple, bare = records_of(pa.int64(), "json", False), records_of(pa.int64(), "json", True)
    two, one, none = (pa.array([n], pa.int64()) for n in (2**60, 1, None))
    assert triple.pack(7, two, one).to_pylist() == [b'{"txid":7,"value":1152921504606846976,"prev":1}']
    assert triple.pack(7, one, none).to_pylist() == [b'{"txid":7,"value":1,"prev":null}']
    assert bare.pack(7, one, none).to_pylist() == [b"1"]


def test_the_packed_forms_are_pinned() -> None:
    """States in servers hold these bytes: a change needs a new format."""
    two, one, none = (pa.array([n], pa.int64()) for n in (2, 1, None))
    fixed = records_of(pa.int64(), "packed", False)
    head = b"\x07" + bytes(7)
    assert fixed.pack(7, two, one).to_pylist() == [b"\x00" + head + b"\x01" + bytes(7) + b"\x02" + bytes(7)]
    assert fixed.pack(7, none, none).to_pylist() == [b"\x03" + head + bytes(16)]
    assert records_of(pa.int64(), "packed", True).pack(7, two, one).to_pylist() == [b"\x00\x02" + bytes(7)]
    packed = records_of(pa.string(), "packed", False)
    words = packed.pack(7, pa.array(["dog"]), pa.array([None], pa.string()))
    assert words.to_pylist() == [b"\x00" + head + b"\x01\x00\x00\x00" + b"N" + b"sdog"]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(list(SAMPLES)), st.sampled_from(["packed", "json"]), st.booleans(), st.data())
def test_mutated_bytes_are_refused_or_read_and_never_crash(name: str, form: Any, bare: bool, data: Any) -> None:
    kind, samples = SAMPLES[name]
    records = records_of(kind, form, bare)
    text = bytearray(data.draw(st.sampled_from(records.pack(7, *[pa.array(samples, kind)] * 2).to_pylist())))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        found = records.unpack(pa.array([bytes(text)], pa.binary()))
    except StateCorruptError:
        return
    found.values.validate(full=True)
    found.prevs.validate(full=True)


@pytest.mark.parametrize("precision", [20, 38])
def test_a_decimal_of_more_digits_than_its_type_has_is_refused(precision: int) -> None:
    kind, most = pa.decimal128(precision, 2), decimal.Decimal((0, (9,) * precision, -2))
    records = records_of(kind, "packed", True)
    [packed] = records.pack(7, *[pa.array([most], kind)] * 2).to_pylist()
    assert records.unpack(pa.array([packed])).values.to_pylist() == [most]
    more = packed[:-16] + (10**precision).to_bytes(16, "little")
    with pytest.raises(StateCorruptError, match="decimal128"):
        records.unpack(pa.array([more]))


def test_a_type_without_an_encoding_is_refused_when_the_state_is_opened() -> None:
    with pytest.raises(TypeDeclarationError, match=r"a store that keeps bytes cannot hold values of type time64\[us\]"):
        records_of(pa.time64("us"), "packed", False)
