"""Combiners that work on whole columns: their calls, the checks of their results, and accumulators kept as columns.

A combiner of this kind has ``initColumn``, which makes the accumulators of many groups in one call, and may have
``combineColumn``, which combines two columns of accumulators. Its ``init`` and ``combine`` mean the same for one value.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from trident.base.value_conversion import to_python, type_name
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.operation_calls import output_column
from trident.operations.aggregates.base import is_ordered
from trident.operations.aggregators import Aggregation
from trident.operations.checked_aggregators import checked_combine
from trident_state.binary_arrays import one_chunk, replace_rows

_ROWS, _BYTES = 100_000, 2**25
"""Partial accumulators are merged above this number, or this size in bytes, if they grew fourfold since the last
merge."""

Numbers = npt.NDArray[np.int64]

ByValue = Callable[[list[int], Columns, int], pa.Array]
"""Computes the accumulators of tuples value by value, from their group numbers, the tuples and the group count."""


class Position(NamedTuple):
    """The position of a tuple in a stream: the txid of its batch, and its number in the batch."""

    batch: int = 0
    at: int = 0


def has_columns(aggregation: Aggregation) -> bool:
    """Return whether an aggregation's combiner works on whole columns."""
    return callable(getattr(aggregation.aggregator, "initColumn", None))


def combines_columns(aggregation: Aggregation) -> bool:
    """Return whether an aggregation's combiner combines whole columns of accumulators."""
    return callable(getattr(aggregation.aggregator, "combineColumn", None))


class ColumnAccumulators:
    """One combiner's accumulators, kept in columns. Each key has a number, from 0.

    Accumulators of the same key are collected, and merged when there are many. A null means no accumulator.
    """

    def __init__(self, where: Where, aggregation: Aggregation, accumulator: pa.Field, by_value: ByValue) -> None:
        self._where, self._aggregation, self._field, self._by_value = where, aggregation, accumulator, by_value
        self._numbers: list[Numbers] = []
        self._parts: list[pa.Array] = []
        self._limits = _ROWS, _BYTES
        self._count = 0
        self._combine = ColumnCombine(aggregation, where, accumulator)

    def add_tuples(self, numbers: Sequence[int], columns: Columns, count: int, position: Position) -> None:
        """Fold tuples. `position` is the position of the first tuple.

        `numbers` are the numbers of the tuples' keys, all below `count`.
        """
        self._count = count
        if not columns.rows:
            return
        own, groups = _from_zero(np.asarray(numbers, np.int64), count)
        partials = self._initialised(self._inputs(columns, position), groups, len(own))
        self._add(own, self._by_value(groups.tolist(), columns, len(own)) if partials is None else partials)

    def add_partials(self, numbers: Sequence[int], partials: Column, count: int) -> None:
        """Merge partial accumulators. `numbers` are the numbers of their keys; all numbers are below `count`."""
        self._count = count
        self._add(np.asarray(numbers, np.int64), partials.array())

    def column(self) -> Column:
        """Return the accumulator of each key; null for a key without an accumulator."""
        numbers, values = self._merged()
        rows = np.full(self._count, -1, np.int64)
        rows[numbers] = np.arange(len(numbers))
        return Column.of(values.take(pa.array(rows, mask=rows < 0)))

    @property
    def values(self) -> list[Any]:
        """The accumulator of each key; None for a key without an accumulator."""
        return self.column().values()

    def _initialised(self, inputs: pa.RecordBatch, groups: Numbers, count: int) -> pa.Array | None:
        with self._where.calling("initColumn()"):
            given = self._aggregation.aggregator.initColumn(inputs, groups, count)  # type: ignore[attr-defined]
        if given is NotImplemented:
            return None
        return checked_column(self._where, given, self._field, count, "initColumn()")

    def _inputs(self, columns: Columns, position: Position) -> pa.RecordBatch:
        inputs = self._where.inputs
        names, arrays = list(inputs), [columns[name].array() for name in inputs]
        aggregator = self._aggregation.aggregator
        if is_ordered(aggregator):
            names += ["", " "]
            at = position.at + np.arange(columns.rows, dtype=np.int64)
            arrays += [pa.array(np.full(columns.rows, position.batch, np.int64)), pa.array(at)]
        if not names:
            return columns.select([]).batch(pa.schema([]))
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _add(self, numbers: Numbers, partials: pa.Array) -> None:
        if partials.null_count:
            valid = partials.is_valid()
            numbers, partials = numbers[valid.to_numpy(zero_copy_only=False)], partials.filter(valid)
        if not len(numbers):
            return
        self._numbers.append(numbers)
        self._parts.append(partials)
        rows, size = self._limits
        if sum(map(len, self._parts)) > rows or sum(part.nbytes for part in self._parts) > size:
            _, values = self._merged()
            self._limits = max(_ROWS, 4 * len(values)), max(_BYTES, 4 * values.nbytes)

    def _merged(self) -> tuple[Numbers, pa.Array]:
        """Merge the added accumulators. Return the numbers of the keys and their accumulators."""
        if not self._parts:
            return np.zeros(0, np.int64), pa.array([], self._field.type)
        if len(self._parts) > 1 or np.bincount(self._numbers[0]).max() > 1:
            numbers, partials = np.concatenate(self._numbers), pa.concat_arrays(self._parts)
            numbers, values = merged(numbers, partials, self._combine.whole)
            self._numbers, self._parts = [numbers], [values]
        return self._numbers[0], self._parts[0]


def _from_zero(numbers: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Return the distinct numbers in ascending order, and each number's index among them; all are below `count`."""
    present = np.bincount(numbers, minlength=count) > 0
    if present.all():
        return np.arange(count), numbers
    return np.flatnonzero(present), (np.cumsum(present) - 1)[numbers]


def merged(
    numbers: Numbers, partials: pa.Array, combine: Callable[[pa.Array, pa.Array], pa.Array]
) -> tuple[Numbers, pa.Array]:
    """Combine each key's partial accumulators, in the order of the rows. Return the ascending keys and the results."""
    order = np.argsort(numbers, kind="stable")
    ranked = numbers[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=ranked[0] - 1))
    sizes = np.diff(starts, append=len(ranked))
    values = partials.take(pa.array(order[starts]))
    for rank in range(1, int(sizes.max())):
        groups = np.flatnonzero(sizes > rank)
        others = partials.take(pa.array(order[starts[groups] + rank]))
        values = replace_rows(values, groups, combine(values.take(pa.array(groups)), others))
    return ranked[starts], values


@dataclass(frozen=True, slots=True)
class ColumnCombine:
    """The row-by-row combination of two columns of accumulators. Neither column has a null.

    A call returns None if the combiner combines these columns only value by value.
    """

    aggregation: Aggregation
    where: Where
    accumulator: pa.Field

    def __call__(self, a: pa.Array, b: pa.Array) -> pa.Array | None:
        if not combines_columns(self.aggregation):
            return None
        with self.where.calling("combineColumn()"):
            given = self.aggregation.aggregator.combineColumn(a, b)  # type: ignore[attr-defined]
        if given is NotImplemented:
            return None
        return checked_column(self.where, given, self.accumulator, len(a), "combineColumn()")

    def whole(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combination by columns, or value by value if the combiner cannot combine these columns."""
        combined = self(a, b)
        return self._by_value(a, b) if combined is None else combined

    def _by_value(self, a: pa.Array, b: pa.Array) -> pa.Array:
        combine, pairs = checked_combine(self.aggregation.aggregator), zip(to_python(a), to_python(b), strict=True)
        with self.where.calling("combine()"):
            combined = [combine(left, right) for left, right in pairs]
        return output_column(self.where, combined, self.accumulator).array()


def checked_column(where: Where, given: Any, field: pa.Field, count: int, method: str) -> pa.Array:
    """Return the result of a method as a column of `count` accumulators.

    Raises UserFunctionError if the result is not such a column.
    """
    if isinstance(given, pa.ChunkedArray):
        given = one_chunk(given)
    objects = getattr(getattr(given, "dtype", None), "kind", "") == "O"
    if objects and _is_series(given):
        given = given.astype(object).where(given.notna(), None)
    if objects or isinstance(given, list):  # value by value: Arrow would not distinguish values of two kinds
        column = output_column(where, list(given), field).array()
    elif isinstance(given, pa.Array | np.ndarray) or _is_series(given):
        column = _converted(where, given, field, method)
    else:
        what = f"returned {type(given).__name__} from {method}; expected a column"
        raise where.error(f"{what}: a pyarrow.Array, a NumPy array, a pandas Series or a list of {count} accumulators")
    if len(column) != count:
        raise where.error(
            f"returned {len(column)} accumulators from {method} for {count} groups; expected one for each"
        )
    return column


def _is_series(given: object) -> bool:
    """Return whether a column is a pandas Series, without importing pandas, which would delay each worker."""
    series = getattr(sys.modules.get("pandas"), "Series", None)  # also None while another thread imports pandas
    return series is not None and isinstance(given, series)


def _converted(where: Where, given: Any, field: pa.Field, method: str) -> pa.Array:
    """Return a column with the accumulators' type. Numbers may be widened; nothing is rounded or parsed."""
    try:
        # Arrow reads numbers in place, and the aggregator may fill the same buffer in its next call.
        column = given if isinstance(given, pa.Array) else pa.array(given.copy(), from_pandas=_is_series(given))
        if column.type.equals(field.type):
            return column
        if _family(column.type) == _family(field.type):
            return one_chunk(column.cast(field.type))
        why = ""
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        column, why = given, f" ({error})"
    kind = column.type if isinstance(column, pa.Array) else getattr(column, "dtype", type(column).__name__)
    raise where.error(f"returned a column of {kind} from {method}; its accumulators are {type_name(field.type)}{why}")


def _family(kind: pa.DataType) -> str:
    tests = {
        "number": lambda k: kinds.is_integer(k) or kinds.is_floating(k) or kinds.is_decimal(k),
        "text": lambda k: kinds.is_string(k) or kinds.is_large_string(k) or kinds.is_string_view(k),
        "bytes": lambda k: (
            kinds.is_binary(k) or kinds.is_large_binary(k) or kinds.is_binary_view(k) or kinds.is_fixed_size_binary(k)
        ),
        "list": lambda k: kinds.is_list(k) or kinds.is_large_list(k) or kinds.is_fixed_size_list(k),
        "struct": kinds.is_struct,
        "timestamp": kinds.is_timestamp,
    }
    return next((name for name, test in tests.items() if test(kind)), str(kind))
