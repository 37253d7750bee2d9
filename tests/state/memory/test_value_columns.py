"""Arrow into NumPy and back."""

from typing import Any

import pyarrow as pa
import pytest

from trident.testing.contracts.stores.values import TYPES
from trident_state.memory.entries import Column

MORE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "duration": (pa.duration("us"), [0, -1, 2**62]),
    "void": (pa.null(), [None]),
    "short arrays": (pa.list_(pa.int64()), [[1], [2], [3]]),
}


@pytest.mark.parametrize("name", [*TYPES, *MORE])
def test_what_is_packed_is_unpacked_again(name: str) -> None:
    kind, samples = {**TYPES, **MORE}[name]
    array = pa.array([None, *samples, None, samples[0]], kind)[1:]  # an array with an offset, as a slice has one
    column = Column(kind)
    for part in (array, array[::-1], array[:0], array[:1], array[-1:]):
        found = column.unpack(column.pack(part))
        found.validate(full=True)
        assert found.type == kind and found.equals(part)
