"""The digest of a table tells other tuples from the same ones, and looks at nothing else."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trident_spouts.digests import digest_of, row_digest_of
from trident_spouts.rows import read_schema, table_of

SCHEMA = read_schema(
    "s string, n long, b boolean, raw binary, m decimal(10,2), day date, l array<array<string>>, "
    "p map<string, boolean>, o struct<x: int, y: array<long>>"
)

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "s": st.none() | st.text("aé", max_size=3),
            "n": st.none() | st.integers(-3, 3),
            "b": st.none() | st.booleans(),
            "raw": st.none() | st.binary(max_size=2),
            "m": st.none() | st.decimals(-9, 9, places=2),
            "day": st.none() | st.dates(),
            "l": st.none()
            | st.lists(st.none() | st.lists(st.none() | st.text("a", max_size=2), max_size=2), max_size=2),
            "p": st.none() | st.dictionaries(st.text("ab", max_size=1), st.none() | st.booleans(), max_size=2),
            "o": st.none()
            | st.fixed_dictionaries(
                {
                    "x": st.none() | st.integers(0, 2),
                    "y": st.none() | st.lists(st.none() | st.integers(0, 2), max_size=2),
                }
            ),
        }
    ),
    max_size=6,
)


def table(rows: list[dict[str, object]]) -> pa.Table:
    return table_of(rows, SCHEMA, "here")


@settings(max_examples=60, deadline=None)
@given(before=ROWS, rows=ROWS, behind=ROWS, cut=st.integers(0, 6))
def test_equal_tuples_have_equal_digests(before: list, rows: list, behind: list, cut: int) -> None:  # type: ignore[type-arg]
    """As slices of a longer table, in chunks, or read back from elsewhere."""
    digest = digest_of(table(rows))
    around = pa.concat_tables([table([*before, *rows, *behind])]).slice(len(before), len(rows))
    chunks = pa.concat_tables([around.slice(0, cut), around.slice(cut)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, around.schema) as writer:
        writer.write_table(chunks)
    read = pa.ipc.open_stream(sink.getvalue()).read_all()
    taken = around.take(pa.array(range(len(rows)), pa.int64()))
    assert {digest_of(each) for each in (around, chunks, read, taken)} == {digest}


@settings(max_examples=60, deadline=None)
@given(left=ROWS, right=ROWS)
def test_other_tuples_have_another_digest(left: list, right: list) -> None:  # type: ignore[type-arg]
    same = table(left).equals(table(right))
    assert (digest_of(table(left)) == digest_of(table(right))) is same


def test_what_lies_in_the_place_of_a_null_does_not_count() -> None:
    hidden = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(bytes([1] + [0] * 7 + [9] * 8))])
    assert digest_of(pa.table({"n": hidden})) == digest_of(pa.table({"n": pa.array([1, None], pa.int64())}))


@pytest.mark.parametrize(
    "other",
    [
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array(["a", "b"], pa.large_string()),
        pa.array(["a", "b"], pa.string_view()),
        pa.array([["a"], ["b"]], pa.list_(pa.string(), 1)),
        pa.array([None, None], pa.null()),
        pa.array([1, 2], pa.duration("us")),
        pa.array([b"ab", b"cd"], pa.binary(2)),
        pa.array([(1, 2, 3), (4, 5, 6)], pa.month_day_nano_interval()),
    ],
)
def test_every_type_has_a_digest(other: pa.Array) -> None:
    digest = digest_of(pa.table({"x": other}))
    assert digest == digest_of(pa.table({"x": pa.concat_arrays([other[:0], other, other])}).slice(2))
    assert digest != digest_of(pa.table({"x": pa.concat_arrays([other, other[:1]])}))


def test_a_digest_is_the_same_in_every_process() -> None:
    assert digest_of(table([])).startswith("0:")
    assert digest_of(pa.table({"word": ["cow", None], "n": [1, 2]})) == "2:f23a9be8"


@settings(max_examples=80, deadline=None)
@given(rows=ROWS, others=ROWS, chance=st.randoms())
def test_the_digest_of_rows_tells_other_rows_and_no_other_order(rows: list, others: list, chance: Any) -> None:  # type: ignore[type-arg]
    order = chance.sample(range(len(rows)), len(rows))
    first, shuffled = table(rows), table([rows[at] for at in order])
    chunks = pa.concat_tables([shuffled.slice(0, 2), shuffled.slice(2)])
    assert row_digest_of(first) == row_digest_of(shuffled) == row_digest_of(chunks)
    same = Counter(map(repr, first.to_pylist())) == Counter(map(repr, table(others).to_pylist()))
    assert (row_digest_of(first) == row_digest_of(table(others))) == same
