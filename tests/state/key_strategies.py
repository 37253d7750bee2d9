"""Values of the types that a field of a key may have, for property tests."""

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st


def plain_values(size: int) -> dict[pa.DataType, st.SearchStrategy[Any]]:
    """Return the values of each type without parameters. `size`: the most characters or bytes of a value."""
    return {
        pa.string(): st.text(max_size=size),
        pa.binary(): st.binary(max_size=size),
        pa.bool_(): st.booleans(),
        pa.int8(): st.integers(-(2**7), 2**7 - 1),
        pa.int16(): st.integers(-(2**15), 2**15 - 1),
        pa.int32(): st.integers(-(2**31), 2**31 - 1),
        pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.float32(): st.floats(width=32),
        pa.float64(): st.floats(),
        pa.date32(): st.dates(),
    }
