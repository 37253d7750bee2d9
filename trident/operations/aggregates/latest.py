"""The aggregator Latest: the whole tuple with the greatest value of a field, such as its event time."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from trident.base.errors import TopologyError
from trident.base.names import FieldsLike, did_you_mean, field_names
from trident.base.option_names import known_fields
from trident.base.spark_order import Key, chosen, exceeds, rank_of, ranked
from trident.base.spark_types import ddl, type_ddl
from trident.operations.aggregates.base import ORDERED, BuiltinAggregator
from trident.operations.aggregates.ordered import POSITION, is_before, mask_of, nullable_fields


@known_fields({})
@dataclass(frozen=True)
class Latest(BuiltinAggregator):
    """The whole tuple that is last by a field, as a struct of the input fields: ``aggregate(Latest("at"), "last")``.

    With several fields, ``Latest("at, id")``, later fields break ties of earlier ones; each is an input field. Among
    tuples that are equal in all of them, the one that arrived last is kept, in the order of `First`. So the result is
    independent of that order if no two tuples of a group are equal in these fields. Tuples with a null in the first of
    them are skipped; in the others a null is the least value. NaN is greater than every number (Spark's order).
    Without any tuple the result is null. To keep the latest row of each key as a table, use ``toTable(keyFields,
    orderBy="at")``. Meaning: ``max_by(struct(*), at)`` of Spark, which may return any of several equal tuples.

    Raises
    ------
    TopologyError
        If `by` names no field.

    >>> from trident import TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> prices = TridentTopology().newStream("prices", FixedBatchSpout("at long, price long", [[(7, 2), (3, 5)]]))
    >>> prices.aggregate(Latest("at"), "last").take(1)
    [Row(last=Row(at=7, price=2))]
    """

    known_by_name: ClassVar[bool] = True

    idempotent: ClassVar[bool] = True

    by: FieldsLike = ()
    ordered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        try:
            names = field_names(self.by) if self.by != () else ()
        except TopologyError as error:
            raise TopologyError(f"Latest: {error}; write Latest('at')") from None
        object.__setattr__(self, "by", tuple(names))

    def init(self, tuple: Any) -> Any:
        by = (*(tuple[name] for name in self.by),)
        return None if by[0] is None else (0, 0, by, (*tuple,))

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return b if (rank_of((*b[2],)), b[0], b[1]) >= (rank_of((*a[2],)), a[0], a[1]) else a

    def zero(self) -> Any:
        return None

    def present(self, acc: Any) -> Any:
        """Return the tuple."""
        return acc[3]

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        *values, batch, at = columns.columns
        by = [columns.column(name) for name in self.by]
        rows = np.flatnonzero(mask_of(by[0].is_valid()))
        keys: list[Key] = [(each.take(pa.array(rows)), "ascending") for each in by]
        rows = rows[ranked(*keys, nulls_least=True)]  # equal tuples keep their order
        last = np.full(count, -1, np.int64)
        last[groups[rows]] = rows  # NumPy keeps the last of several rows of a group
        names = columns.schema.names[:-2]
        structs = [
            pa.StructArray.from_arrays(by, names=list(self.by)),
            pa.StructArray.from_arrays(values, names=names),
        ]
        taken = pa.array(last, mask=last < 0)
        return pa.StructArray.from_arrays(
            [each.take(taken) for each in (batch, at, *structs)],
            names=["batch", "at", "by", "value"],
            mask=pa.array(last < 0),
        )

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combined accumulators of `a` and `b`, row by row."""
        later, equal = np.zeros(len(a), np.bool_), np.ones(len(a), np.bool_)
        for one, other in zip(a.field(2).flatten(), b.field(2).flatten(), strict=True):
            after, before = _is_after(other, one), _is_after(one, other)
            later |= equal & after
            equal &= ~(after | before)
        return chosen(later | (equal & ~is_before(b, a)), a, b)

    def problem(self, inputs: spark.StructType) -> str:
        if not self.by:
            return "Latest needs the field that orders the tuples, such as Latest('at')"
        for name in self.by:
            if name not in inputs.names:
                near = did_you_mean(name, inputs.names)
                return f"Latest({name!r}): the input fields ({ddl(inputs)}) do not have {name!r}{near}"
            if not isinstance(inputs[name].dataType, ORDERED):
                return (
                    f"Latest compares values, but {name!r} is {type_ddl(inputs[name].dataType)}, which cannot be "
                    "ordered"
                )
        return ""

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        by = nullable_fields(inputs[name] for name in self.by)
        value = nullable_fields(inputs.fields)
        return spark.StructType([*POSITION, spark.StructField("by", by), spark.StructField("value", value)])

    def presented_type(self, accumulator: spark.DataType) -> spark.DataType:
        return accumulator["value"].dataType  # type: ignore[index, no-any-return]


def _is_after(a: pa.Array, b: pa.Array) -> Any:
    """Return whether `a` is greater than `b`, row by row; a null is the least value."""
    return mask_of(exceeds(a, b).fill_null(False)) | (mask_of(a.is_valid()) & mask_of(b.is_null()))
