"""Values of nested types in the cells of a memory store: each comes back as it was, whichever rows are asked for."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trident_state.memory.entries import Column
from trident_state.memory.packed_values import can_pack, packed, unpacked

LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.decimal128(38, 2): st.integers(1 - 10**36, 10**36 - 1).map(Decimal),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(datetime.UTC)),
}
_LEAF = st.sampled_from(list(LEAVES))


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    names = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        inner.map(pa.list_),
        names.map(lambda kinds: pa.struct([(f"f{at}", kind) for at, kind in enumerate(kinds)])),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
    )


KINDS = _nested(st.recursive(_LEAF, _nested, max_leaves=4))


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if kind in LEAVES:
        return st.none() | LEAVES[kind]
    if pa.types.is_map(kind):
        return st.none() | st.dictionaries(st.text(max_size=2), values_of(kind.item_type), max_size=3).map(
            lambda entries: list(entries.items())
        )
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=4)
    return st.none() | st.fixed_dictionaries({field.name: values_of(field.type) for field in kind})


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_column_comes_back_as_it_was(data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    array = pa.array(data.draw(st.lists(values_of(kind), max_size=6)), kind)
    begin = data.draw(st.integers(0, len(array)))
    for part in (array, array.slice(begin), array.slice(0, begin)):
        there = unpacked(packed(part), kind)
        there.validate(full=True)
        assert there.type == kind
        assert repr(there.to_pylist()) == repr(part.to_pylist())
        column = Column(kind)
        cells = column.pack(part)
        again = column.unpack(cells[::-1])
        assert repr(again.to_pylist()) == repr(part.to_pylist()[::-1])
        assert column.fixed or (column.object_bytes(cells) > 0) == bool(cells.valid.any())


@pytest.mark.parametrize("kind", [pa.large_list(pa.int64()), pa.struct([]), pa.list_(pa.decimal256(40, 2))])
def test_what_cannot_be_packed_is_kept_as_objects(kind: pa.DataType) -> None:
    assert not can_pack(kind)
    array = pa.array([None, [] if pa.types.is_list(kind) or pa.types.is_large_list(kind) else {}], kind)
    assert Column(kind).unpack(Column(kind).pack(array)).to_pylist() == array.to_pylist()


def test_a_list_is_one_object_of_few_bytes() -> None:
    column = Column(pa.list_(pa.int64()))
    cells = column.pack(pa.array([list(range(1000)), None]))
    assert [type(cell) for cell in cells.data] == [bytes, type(None)]
    assert column.object_bytes(cells) == 1 + 4 + 1000 * 9
