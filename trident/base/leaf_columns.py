"""The columns of plain values inside a column of lists, structs and maps."""

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import types as kinds


def leaves(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the columns of plain values inside a nested column, without values below nulls.

    >>> [leaf.to_pylist() for leaf in leaves(pa.array([{"a": [1, 2], "b": "x"}, None]))]
    [[1, 2], ['x', None]]
    """
    kind = array.type
    if kinds.is_map(kind):
        entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        array = array.cast(pa.list_(entry)).flatten()
    if kinds.is_nested(array.type):
        parts = array.flatten()
        for part in parts if isinstance(parts, list) else [parts]:
            yield from leaves(part)
    else:
        yield array
