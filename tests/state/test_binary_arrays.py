"""Slices of bytes are gathered as they are, and take little memory besides their bytes."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_state.binary_arrays import gather_slices

SIZES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)


@pytest.mark.parametrize("unit", [1, 4_000])
@given(SIZES, st.integers(0, 3))
def test_slices_are_the_bytes_between_the_gaps(unit: int, gaps_and_lengths: list[tuple[int, int]], rest: int) -> None:
    slices, end = [], 0
    for gap, length in gaps_and_lengths:
        slices.append(slice(end + unit * gap, end + unit * (gap + length)))
        end = slices[-1].stop
    data = (np.arange(end + rest) % 251).astype(np.uint8)
    at, ends = (np.array([getattr(each, side) for each in slices], np.int64) for side in ("start", "stop"))
    found = gather_slices(data, at, ends - at)
    found.validate(full=True)
    assert found.equals(pa.array([data[each].tobytes() for each in slices], pa.binary()))


def test_an_index_of_slices_takes_less_memory_than_their_bytes() -> None:
    lengths = np.random.default_rng(7).integers(0, 4_000, 2_000)
    at = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]])
    data = np.zeros(at[-1] + lengths[-1], np.uint8)
    tracemalloc.start()
    try:
        gather_slices(data, at, lengths)
        assert tracemalloc.get_traced_memory()[1] < len(data) / 10
    finally:
        tracemalloc.stop()
