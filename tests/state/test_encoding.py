"""Long lists in stored bytes: read at once or place by place, they are the same lists."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trident.errors import StateCorruptError
from trident_state import encoding
from trident_state.encoding import decode_column, encode_column

PAIRS = pa.struct({"n": pa.int64(), "x": pa.float64()})
ELEMENTS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=2),
    PAIRS: st.fixed_dictionaries({"n": st.none() | st.integers(76, 80), "x": st.none() | st.floats()}),
    pa.list_(pa.int8()): st.lists(st.integers(0, 3), max_size=40),
}


@pytest.mark.parametrize("kind", ELEMENTS, ids=str)
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_long_lists_come_back_as_they_were(kind: pa.DataType, data: st.DataObject) -> None:
    some = st.none() | ELEMENTS[kind] if data.draw(st.booleans()) else ELEMENTS[kind]
    lists = data.draw(st.lists(st.none() | st.lists(some, max_size=6), min_size=1, max_size=4))
    repeated = pa.array(
        [each if each is None else each * data.draw(st.sampled_from([1, 20])) for each in lists], pa.list_(kind)
    )
    encoded = encode_column(repeated)
    found = decode_column(encoded, repeated.type)
    assert repr(found.to_pylist()) == repr(repeated.to_pylist())
    pair = encoding.decode_row(
        pa.array([each + each for each in encoded.to_pylist()], pa.binary()), [repeated.type] * 2
    )
    assert [repr(each.to_pylist()) for each in pair] == [repr(repeated.to_pylist())] * 2


@pytest.mark.parametrize("elements", [list(range(100)), [f"key {n:03}" for n in range(100)]], ids=["numbers", "texts"])
def test_an_even_list_is_read_at_once_and_a_torn_one_is_corrupt(
    elements: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    column = pa.array([elements, [], [elements[7]]])
    encoded = encode_column(column)
    rounds: list[int] = []
    decode = encoding._decode
    monkeypatch.setattr(encoding, "_decode", lambda *given: (rounds.append(1), decode(*given))[1])
    assert decode_column(encoded, column.type).equals(column)
    assert len(rounds) == 3  # the lists, their first elements, then all elements
    torn = pa.array([encoded[0].as_py()[:-1]], pa.binary())
    with pytest.raises(StateCorruptError):
        decode_column(torn, column.type)


def test_lists_whose_elements_have_the_same_nulls_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    column = pa.array([[{"key": f"{n:03}", "part": None} for n in range(99)], [{"key": None, "part": 7}] * 99])
    encoded, rounds, decode = encode_column(column), list[int](), encoding._decode
    monkeypatch.setattr(encoding, "_decode", lambda *given: (rounds.append(1), decode(*given))[1])
    assert decode_column(encoded, column.type).equals(column)
    assert len(rounds) == 7  # the lists, then two times the structs and their fields
