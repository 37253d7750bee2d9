"""Exact sums of columns, by group and row by row, equal to the sums that Python computes value by value."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds


def group_sums(values: pa.Array, groups: npt.NDArray[np.int64], count: int) -> pa.Array | None:
    """Return the sum of each of `count` groups, in the type of `Sum`. Nulls are skipped; the sum of no values is 0.

    Doubles are added in row order. Returns None if a sum may overflow its type.

    >>> group_sums(pa.array([1, 2, None]), np.array([0, 0, 1]), 2).to_pylist()
    [3, 0]
    """
    if values.null_count:
        valid = values.is_valid()
        values, groups = values.drop_null(), groups[valid.to_numpy(zero_copy_only=False)]
    if kinds.is_decimal(values.type):
        return _decimal_sums(values, groups, count)
    if kinds.is_floating(values.type):
        return pa.array(np.bincount(groups, values.cast(pa.float64()).to_numpy(), count), pa.float64())
    numbers = values.cast(pa.int64()).to_numpy()
    if len(numbers) and max(-int(numbers.min()), int(numbers.max())) * len(numbers) >= 2**63:
        return None
    sums = np.zeros(count, np.int64)
    np.add.at(sums, groups, numbers)
    return pa.array(sums)


def _decimal_sums(values: pa.Array, groups: npt.NDArray[np.int64], count: int) -> pa.Array | None:
    kind = values.type
    sums = by_group(values.cast(pa.decimal256(76, kind.scale)), groups, count, "sum")
    return _cast(
        pc.fill_null(sums, pa.scalar(0).cast(sums.type)), pa.decimal128(min(38, kind.precision + 10), kind.scale)
    )


def by_group(values: pa.Array, groups: npt.NDArray[np.int64], count: int, how: str) -> pa.Array:
    """Return the result of Arrow's aggregate `how` for each of `count` groups; null for a group without values.

    >>> by_group(pa.array(["b", "a", None]), np.array([2, 2, 0]), 3, "min").to_pylist()
    [None, None, 'a']
    """
    table = pa.table({"group": groups, "value": values})
    found = table.group_by("group", use_threads=False).aggregate([("value", how)])
    rows = np.full(count, -1, np.int64)
    rows[found.column("group").to_numpy()] = np.arange(found.num_rows)
    return found.column(f"value_{how}").combine_chunks().take(pa.array(rows, mask=rows < 0))


def row_sums(a: pa.Array, b: pa.Array) -> pa.Array | None:
    """Return the sums of two columns of one type, row by row; None if a sum overflows the type.

    >>> row_sums(pa.array([2**62]), pa.array([2**62])) is None
    True
    """
    if kinds.is_decimal(a.type):
        wide = pa.decimal256(a.type.precision, a.type.scale)
        return _cast(pc.add(a.cast(wide), b.cast(wide)), a.type)
    try:
        return pc.add_checked(a, b)
    except pa.ArrowInvalid:
        return None


def _cast(sums: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        return sums.cast(kind)
    except pa.ArrowInvalid:
        return None
