"""Accumulators that are lists, as columns: their elements are put together, sorted and reduced in Arrow."""

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.spark_order import Key, exceeds, ranked

Numbers = npt.NDArray[np.int64]


class Elements(NamedTuple):
    """The elements of several lists: ``values[i]`` is an element of the list with the number ``lists[i]``."""

    values: pa.Array
    lists: Numbers

    @classmethod
    def of(cls, a: pa.Array, b: pa.Array) -> Self:
        """Return the elements of two columns of lists. The lists of a row are one list: `a`'s elements, then `b`'s."""
        numbers = [np.repeat(np.arange(len(each)), pc.list_value_length(each).to_numpy()) for each in (a, b)]
        return cls(pa.concat_arrays([a.flatten(), b.flatten()]), np.concatenate(numbers))

    @classmethod
    def valid(cls, values: pa.Array, groups: Numbers, test: pa.Array) -> Self:
        """Return each value as an element of its group's list, but not a value for which `test` is null."""
        if not test.null_count:
            return cls(values, groups)
        valid = test.is_valid()
        return cls(values.filter(valid), groups[valid.to_numpy(zero_copy_only=False)])

    def ranked(self, *keys: Key, nulls_least: bool = False) -> Self:
        """Return the elements list by list, and in each list in the order of these keys, which have a row for each.

        Nulls are last, or with `nulls_least` first where a key ascends.
        """
        return self.take(ranked((pa.array(self.lists), "ascending"), *keys, nulls_least=nulls_least))

    def take(self, rows: Numbers) -> Self:
        """Return the elements of these rows, in this order."""
        return type(self)(self.values.take(pa.array(rows)), self.lists[rows])

    def first(self, most: int) -> Self:
        """Return the first `most` elements of each list. The elements are sorted by list."""
        starts = np.searchsorted(self.lists, self.lists, side="left")
        few = np.arange(len(self.lists)) - starts < most
        return self if few.all() else self.take(np.flatnonzero(few))

    def runs(self, values: pa.Array) -> Numbers:
        """Return the first row of each run of equal values of one list. `values` ascend within each list."""
        begins = np.ones(len(values), np.bool_)
        rises = exceeds(values.slice(1), values.slice(0, max(0, len(values) - 1)))
        begins[1:] = rises.to_numpy(zero_copy_only=False) | (np.diff(self.lists) > 0)
        return np.flatnonzero(begins)

    def column(self, count: int, kind: pa.DataType | None = None) -> pa.Array:
        """Return the lists with the numbers from 0 to `count` - 1. The elements are sorted by list."""
        offsets = np.concatenate([[0], np.cumsum(np.bincount(self.lists, minlength=count))])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), self.values, type=kind)


def one_of_equals(values: pa.Array) -> pa.Array:
    """Return doubles and floats with one form of values that are equal in Spark: 0.0 for -0.0, and one NaN.

    >>> one_of_equals(pa.array([-0.0, 2.0])).to_pylist()
    [0.0, 2.0]
    """
    if not kinds.is_floating(values.type):
        return values
    zero, nan = pa.scalar(0.0, values.type), pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.if_else(pc.equal(values, zero), zero, values))
