"""Spark's order of values: null is the least, NaN is the greatest number and equals NaN, and -0.0 equals 0.0."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

Order = Literal["ascending", "descending"]
Key = tuple[pa.Array, Order]


def exceeds(a: pa.Array, b: pa.Array) -> pa.Array:
    """Return whether `a` is greater than `b`, row by row; null if one of the two is null.

    >>> exceeds(pa.array([float("nan"), 1.0, -0.0]), pa.array([2.0, 2.0, 0.0])).to_pylist()
    [True, False, False]
    """
    greater = pc.greater(a, b)
    if kinds.is_floating(a.type):
        greater = pc.or_(greater, pc.and_(pc.is_nan(a), pc.invert(pc.is_nan(b))))
    return greater


def rank_of(value: Any) -> tuple[Any, ...]:
    """Return a sort key for a value, or for a tuple of values, which are compared one after the other.

    >>> sorted([float("nan"), 2.0, None, 7.0], key=rank_of)
    [None, 2.0, 7.0, nan]
    """
    if isinstance(value, tuple):  # a Row is a tuple, too
        return tuple(map(rank_of, value))
    if value is None:
        return (0,)
    return (1, value) if value == value else (2,)


def chosen(of_b: npt.NDArray[np.bool_], a: pa.Array, b: pa.Array) -> pa.Array:
    """Return the rows of `b` in which `of_b` is true, and the other rows of `a`. The values may be of any type.

    >>> chosen(np.array([True, False]), pa.array([[1], [2]]), pa.array([[3], [4]])).to_pylist()
    [[3], [2]]
    """
    return pa.concat_arrays([a, b]).take(pa.array(np.arange(len(a)) + len(a) * of_b))


def ranked(*keys: Key, nulls_least: bool = False) -> npt.NDArray[np.int64]:
    """Return the rows in the order of these keys, the most important key first. Nulls are last, in either direction.

    With `nulls_least` they are first if a key ascends. Rows whose keys are equal keep
    their order.

    >>> ranked((pa.array([1.0, None, float("nan"), 2.0]), "descending")).tolist()
    [2, 3, 0, 1]
    """
    columns, sort = dict[str, pa.Array](), list[tuple[str, str]]()
    for array, order in keys:
        if nulls_least and order == "ascending" and array.null_count:
            sort.append((str(len(columns)), order))
            columns[str(len(columns))] = array.is_valid().cast(pa.int8())
        if kinds.is_floating(array.type) and order == "descending":  # Arrow sorts NaN after all numbers either way
            sort.append((str(len(columns)), order))
            columns[str(len(columns))] = pc.is_nan(array).cast(pa.int8())
        sort.append((str(len(columns)), order))
        columns[str(len(columns))] = array
    return np.asarray(pc.sort_indices(pa.table(columns), sort_keys=sort).to_numpy(), np.int64)
