"""Built-in aggregators with a condition, ``Sum("price", where=...)``, as engines and stores call them.

The condition is computed earlier, as a field of the stream (`trident.stream.aggregate_conditions`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from trident.base.cached_property import cached_property
from trident.base.spark_types import arrow_type
from trident.base.value_conversion import to_arrow
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.aggregates.count import Count
from trident.operations.aggregates.sum import Sum
from trident.operations.tuples import tuple_type

_OF_INNER = frozenset(("present", "retract", "combineColumn"))
"""The optional methods of an aggregator that work on accumulators alone."""


@dataclass(frozen=True, eq=False)
class Filtered(BuiltinAggregator):
    """An aggregator over the tuples whose last input field, the condition, is true. Other tuples are skipped.

    `inner` is the user's aggregator over the other input fields, `inputs`.
    """

    inner: BuiltinAggregator
    inputs: StructType

    def __post_init__(self) -> None:
        for name in ("gathers", "idempotent", "ordered"):
            object.__setattr__(self, name, getattr(self.inner, name))

    def init(self, tuple: Any) -> Any:
        *values, counts = tuple
        return self.inner.init(self._make(values)) if counts else self.inner.zero()

    def combine(self, a: Any, b: Any) -> Any:
        return self.inner.combine(a, b)

    def zero(self) -> Any:
        return self.inner.zero()

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> Any:
        taken = [values[:-1] for values in tuples if values[-1]]
        return self.inner.gathered(taken) if taken else self.inner.zero()

    def problem(self, inputs: StructType) -> str:
        return self.inner.problem(self.inputs)

    def type_of(self, inputs: StructType) -> DataType:
        return self.inner.type_of(self.inputs)

    def presented_type(self, accumulator: DataType) -> DataType | None:
        return self.inner.presented_type(accumulator)

    def __getattr__(self, name: str) -> Any:
        if name in _OF_INNER or (name == "initColumn" and getattr(self.inner, "initColumn", None) is not None):
            return self._init_column if name == "initColumn" else getattr(self.inner, name)
        raise AttributeError(name)

    def _init_column(self, columns: pa.RecordBatch, groups: Any, count: int) -> Any:
        """Return the accumulators of `count` groups; NotImplemented if the aggregator cannot compute them."""
        at = len(self.inputs.fields)
        counts = columns.column(at).fill_null(False)
        others = [place for place in range(columns.num_columns) if place != at]
        kept, own = columns.select(others).filter(counts), groups[counts.to_numpy(zero_copy_only=False)]
        present = np.bincount(own, minlength=count) > 0
        found, rows = np.flatnonzero(present), np.cumsum(present) - 1
        kind = arrow_type(self.type_of(self.inputs))
        made = pa.array([], kind)
        if len(found):
            made = self.inner.initColumn(kept, rows[own], len(found))  # type: ignore[attr-defined]
            if made is NotImplemented:
                return NotImplemented
            made = (made if isinstance(made, pa.Array) else pa.array(made)).cast(kind)
        whole = pa.concat_arrays([made, to_arrow([self.inner.zero()], kind)])
        return whole.take(pa.array(np.where(present, rows, len(found))))

    @cached_property
    def _make(self) -> Callable[[Any], Any]:
        return tuple_type(tuple(self.inputs.names))

    def __getstate__(self) -> dict[str, Any]:  # without the class of tuples, which is created at run time
        return {name: value for name, value in vars(self).items() if name != "_make"}


@dataclass(frozen=True)
class CountWhere(Sum):
    """The number of tuples that satisfy a condition, as the sum of a field with 1 for them and 0 for others."""


def as_written(aggregator: Any) -> Any:
    """Return the aggregator as the user wrote it, without the condition added to it."""
    if isinstance(aggregator, Filtered):
        return aggregator.inner
    return Count() if isinstance(aggregator, CountWhere) else aggregator
