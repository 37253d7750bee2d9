"""Arrow into NumPy and back, by slot."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.state.contract.values import TYPES
from trident_state.memory.columns import Column

MORE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "duration": (pa.duration("us"), [0, -1, 2**62]),
    "void": (pa.null(), [None]),
    "short arrays": (pa.list_(pa.int64()), [[1], [2], [3]]),
}


@pytest.mark.parametrize("name", [*TYPES, *MORE])
def test_what_is_put_into_slots_is_taken_out_of_them(name: str) -> None:
    kind, samples = {**TYPES, **MORE}[name]
    array = pa.array([None, *samples, None, samples[0]], kind)[1:]  # an array with an offset, as a slice has one
    column = Column(kind)
    column.reserve(4)
    column.reserve(50)
    slots = np.arange(len(array))[::-1] * 3 + 1
    column.put(slots, column.pack(array))
    found = column.unpack(column.take(slots))
    found.validate(full=True)
    assert found.type == kind and found.equals(array)
    assert column.unpack(column.take(np.array([0, 49]))).to_pylist() == [None, None]
    assert column.unpack(column.take(slice(0, 3)))[1:2].equals(array[-1:])
    assert column.unpack(column.pack(array[:0])).equals(array[:0])


def test_what_was_taken_does_not_change_any_more() -> None:
    column = Column(pa.int64())
    column.reserve(2)
    for taken in (column.take(slice(0, 2)), column.take(np.array([0, 1]))):
        column.put(np.array([0, 1]), column.pack(pa.array([7, 8])))
        assert column.unpack(taken).to_pylist() == [None, None]
        column.put(np.array([0, 1]), column.pack(pa.array([None, None], pa.int64())))
