"""The one line that a stored state carries about its shape is read back to the same shape."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident.base.errors import StateShapeError
from trident_state.fingerprint import read_fingerprint, type_text, write_fingerprint

NAMES = st.text(st.sampled_from("ab_0 ,:<>()`[]-.é"), min_size=1, max_size=6).filter(lambda name: name.strip("`"))
PLAIN = st.sampled_from(
    [
        *(pa.null(), pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.uint32(), pa.float32(), pa.float64()),
        *(pa.string(), pa.large_string(), pa.binary(), pa.date32(), pa.duration("us"), pa.timestamp("us", tz="UTC")),
        *(pa.timestamp("us"), pa.timestamp("ms"), pa.decimal128(10, 2), pa.decimal128(38, 0), pa.decimal256(40, 2)),
    ]
)


def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.builds(
        lambda name, kind, null: pa.field(name, kind, null or pa.types.is_null(kind)), NAMES, inner, st.booleans()
    )
    keys = inner.filter(lambda kind: not pa.types.is_null(kind))
    return st.one_of(
        inner.map(pa.list_),
        fields.map(pa.list_),
        inner.map(pa.large_list),
        st.lists(fields, max_size=3).map(pa.struct),
        st.tuples(keys, inner).map(lambda pair: pa.map_(*pair)),
    )


TYPES = st.recursive(PLAIN, nested, max_leaves=5)


@given(st.lists(st.tuples(NAMES, TYPES), max_size=3), TYPES, st.sampled_from(["Count", "words.Average", "a by b"]))
def test_every_shape_is_read_back(fields: list[tuple[str, pa.DataType]], value: pa.DataType, aggregator: str) -> None:
    found = read_fingerprint(write_fingerprint(pa.schema(fields), value, aggregator))
    assert (found.keys.names, found.keys.types) == ([n for n, _ in fields], [t for _, t in fields])
    assert (found.value, found.aggregator) == (value, aggregator)


@given(PLAIN)
def test_types_are_called_as_arrow_calls_them(kind: pa.DataType) -> None:
    assert type_text(kind) == str(kind)
    assert type_text(pa.list_(pa.struct({"a": kind}))) == str(pa.list_(pa.struct({"a": kind})))


@pytest.mark.parametrize(
    "text",
    ["", "(word string)", "(word text) -> int64 by Count", "(word string) -> int64", "(a string b) -> int64 by X"],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(StateShapeError, match="cannot parse the stored types .* from character"):
        read_fingerprint(text)
