"""Columns of accumulators that are lists: Arrow concatenates, sorts and reduces their elements."""

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.spark_order import Key, exceeds, ranked

Numbers = npt.NDArray[np.int64]


class Elements(NamedTuple):
    """The elements of several lists: ``values[i]`` belongs to list number ``lists[i]``."""

    values: pa.Array
    lists: Numbers

    @classmethod
    def of(cls, a: pa.Array, b: pa.Array) -> Self:
        """Return the elements of two columns of lists, concatenated row by row: `a`'s elements, then `b`'s."""
        numbers = [np.repeat(np.arange(len(each)), pc.list_value_length(each).to_numpy()) for each in (a, b)]
        return cls(pa.concat_arrays([a.flatten(), b.flatten()]), np.concatenate(numbers))

    @classmethod
    def valid(cls, values: pa.Array, groups: Numbers, test: pa.Array) -> Self:
        """Return each value as an element of its group's list, except values for which `test` is null."""
        if not test.null_count:
            return cls(values, groups)
        valid = test.is_valid()
        return cls(values.filter(valid), groups[valid.to_numpy(zero_copy_only=False)])

    def ranked(self, *keys: Key, nulls_least: bool = False) -> Self:
        """Return the elements sorted by list, and within each list by `keys`, which have one row for each element.

        Nulls are last; with `nulls_least` they are first in ascending keys.
        """
        return self.take(ranked((pa.array(self.lists), "ascending"), *keys, nulls_least=nulls_least))

    def take(self, rows: Numbers) -> Self:
        """Return the elements at these rows, in this order."""
        return type(self)(self.values.take(pa.array(rows)), self.lists[rows])

    def first(self, most: int) -> Self:
        """Return the first `most` elements of each list. The elements must be sorted by list."""
        starts = np.searchsorted(self.lists, self.lists, side="left")
        few = np.arange(len(self.lists)) - starts < most
        return self if few.all() else self.take(np.flatnonzero(few))

    def runs(self, values: pa.Array) -> Numbers:
        """Return the first row of each run of equal values within a list. `values` must ascend within each list."""
        begins = np.ones(len(values), np.bool_)
        rises = exceeds(values.slice(1), values.slice(0, max(0, len(values) - 1)))
        begins[1:] = rises.to_numpy(zero_copy_only=False) | (np.diff(self.lists) > 0)
        return np.flatnonzero(begins)

    def column(self, count: int, kind: pa.DataType | None = None) -> pa.Array:
        """Return the lists 0 to `count` - 1 as a column. The elements must be sorted by list."""
        offsets = np.concatenate([[0], np.cumsum(np.bincount(self.lists, minlength=count))])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), self.values, type=kind)


def one_of_equals(values: pa.Array) -> pa.Array:
    """Return floats with a single form for values that Spark treats as equal: 0.0 for -0.0, and one NaN.

    >>> one_of_equals(pa.array([-0.0, 2.0])).to_pylist()
    [0.0, 2.0]
    """
    if not kinds.is_floating(values.type):
        return values
    zero, nan = pa.scalar(0.0, values.type), pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.if_else(pc.equal(values, zero), zero, values))
