"""First, Last, CollectList, MaxBy and MinBy, whose results depend on the order of tuples.

Partial results are combined in any order, so each accumulator keeps the positions of its tuples: the txid of the batch,
and the tuple's number in the batch. In a window by count, a combiner sees single tuples without positions. Then
accumulators are combined in the order of their tuples, and of two equal positions the first one counts as earlier.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from trident.base.argument_checks import check_flag
from trident.base.errors import TopologyError
from trident.base.option_names import known_fields
from trident.base.short_texts import brief
from trident.base.spark_order import Key, chosen, exceeds, rank_of, ranked
from trident.base.spark_types import ddl, type_ddl
from trident.operations.aggregates.base import ORDERED, BuiltinAggregator, OneFieldAggregator
from trident.operations.aggregates.element_lists import Elements

POSITION = [spark.StructField("batch", spark.LongType()), spark.StructField("at", spark.LongType())]


def nullable_fields(fields: Iterable[spark.StructField]) -> spark.StructType:
    """Return a struct type of these fields, all nullable."""
    return spark.StructType([spark.StructField(field.name, field.dataType) for field in fields])


def _any_field(name: str, inputs: spark.StructType) -> str:
    """Return why `inputs` are not a single field; "" if they are."""
    if len(inputs.fields) == 1:
        return ""
    return (
        f"{name} takes one input field, not {len(inputs.fields)} ({ddl(inputs)}); name the field before the aggregator"
    )


@known_fields({})
@dataclass(frozen=True)
class First(OneFieldAggregator):
    """The value that one field has in the first tuple, null included, as Spark's ``first`` and ``any_value``.

    A tuple of an earlier batch is before one of a later batch. Within a batch, tuples come partition by partition, and
    in each partition in the order in which the spout gave them. After a step that moves tuples between partitions
    (`partitionBy`, a join) Spark decides on their order, and a replay may give another first tuple; the result of a
    frozen batch never changes. With ``ignoreNulls=True`` tuples with a null are skipped. Without any tuple the result
    is null.

    >>> first = First()
    >>> first.present(first.combine(first.init(("dog",)), first.init(("cat",))))
    'dog'
    """

    known_by_name: ClassVar[bool] = True

    idempotent: ClassVar[bool] = True

    ignoreNulls: bool = False
    ordered: ClassVar[bool] = True
    last: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(f"{type(self).__name__}: ignoreNulls", self.ignoreNulls)

    def init(self, tuple: Any) -> Any:
        return None if self.ignoreNulls and tuple[0] is None else (0, 0, tuple[0])

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return b if (tuple(b[:2]) >= tuple(a[:2])) == self.last else a

    def zero(self) -> Any:
        return None

    def present(self, acc: Any) -> Any:
        """Return the value."""
        return acc[2]

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        values, rows = columns.column(0), np.arange(len(groups))
        if self.ignoreNulls and values.null_count:
            rows = rows[values.is_valid().to_numpy(zero_copy_only=False)]
        return _picked(columns, [columns.column(0)], _ends(groups, rows, count, self.last))

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combined accumulators of `a` and `b`, row by row."""
        return chosen(is_before(b, a) != self.last, a, b)

    def problem(self, inputs: spark.StructType) -> str:
        return _any_field(type(self).__name__, inputs)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return spark.StructType([*POSITION, spark.StructField("value", inputs.fields[0].dataType)])

    def presented_type(self, accumulator: spark.DataType) -> spark.DataType:
        return accumulator["value"].dataType  # type: ignore[index, no-any-return]


@known_fields({})
@dataclass(frozen=True)
class Last(First):
    """The value that one field has in the last tuple, null included, as Spark's ``last``.

    The order of tuples is that of `First`. With ``ignoreNulls=True`` tuples with a null are skipped. Without any tuple
    the result is null.

    >>> last = Last(ignoreNulls=True)
    >>> last.present(last.combine(last.init(("dog",)), last.init((None,))))
    'dog'
    """

    last: ClassVar[bool] = True


@known_fields({})
@dataclass(frozen=True)
class CollectList(OneFieldAggregator):
    """All values of one field, an array in the order of the tuples, as Spark's ``collect_list``. Nulls are skipped.

    The order of tuples is that of `First`. In a state the arrays grow with every batch, and each change of a key writes
    its whole array. So collect within a batch or a window, or in a state with few values for each key.

    >>> collect = CollectList()
    >>> collect.present(collect.combine(collect.init(("dog",)), collect.init(("cat",))))
    ['dog', 'cat']
    """

    known_by_name: ClassVar[bool] = True

    ordered: ClassVar[bool] = True

    def init(self, tuple: Any) -> Any:
        return [] if tuple[0] is None else [(0, 0, [tuple[0]])]

    def combine(self, a: Any, b: Any) -> Any:
        return sorted([*a, *b], key=itemgetter(0, 1))

    def zero(self) -> Any:
        return []

    def present(self, acc: Any) -> Any:
        """Return the values."""
        return list(chain.from_iterable(run[2] for run in acc))

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups.

        Each accumulator has at most one run of positions, for the values of one partition.
        """
        values = columns.column(0)
        rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        rows = rows[np.argsort(groups[rows], kind="stable")]
        sizes = np.bincount(groups[rows], minlength=count)
        ends = np.cumsum(sizes)
        some = np.flatnonzero(sizes)
        lists = pa.ListArray.from_arrays(_offsets(sizes[some]), values.take(pa.array(rows)))
        starts = pa.array(rows[(ends - sizes)[some]], pa.int64())
        position = [columns.column(at).take(starts) for at in (1, 2)]
        runs = pa.StructArray.from_arrays([*position, lists], names=["batch", "at", "values"])
        return pa.ListArray.from_arrays(_offsets(sizes > 0), runs)

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combined accumulators of `a` and `b`, row by row."""
        runs = Elements.of(a, b)
        batch, at, _ = runs.values.flatten()
        return runs.ranked((batch, "ascending"), (at, "ascending")).column(len(a), a.type)

    def problem(self, inputs: spark.StructType) -> str:
        return _any_field("CollectList", inputs)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        values = spark.StructField("values", spark.ArrayType(inputs.fields[0].dataType))
        return spark.ArrayType(spark.StructType([*POSITION, values]))

    def presented_type(self, accumulator: spark.DataType) -> spark.DataType:
        return accumulator.elementType["values"].dataType  # type: ignore[attr-defined, no-any-return]


@known_fields({})
@dataclass(frozen=True)
class MaxBy(BuiltinAggregator):
    """The value of one field in the tuple in which another field is greatest, as Spark's ``max_by``.

    ``MaxBy("city", "temperature")`` gives the city of the highest temperature. For a list of fields the value is a
    struct, ``MaxBy(["city", "at"], "temperature")``, as for Spark's ``max_by`` of a struct. Tuples with a null in the
    ordering field are skipped; the value may be null. NaN is greater than every number (Spark's order). Among several
    tuples with the greatest value the first one is kept, in the order of `First`; `Latest` keeps the last one. Without
    any tuple the result is null.

    >>> hottest = MaxBy()
    >>> hottest.present(hottest.combine(hottest.init(("oslo", 7)), hottest.init(("rome", 21))))
    'rome'
    """

    known_by_name: ClassVar[bool] = True

    idempotent: ClassVar[bool] = True

    field: str | Sequence[str] | None = None
    by: str | None = None
    ordered: ClassVar[bool] = True
    greatest: ClassVar[bool] = True

    def __post_init__(self) -> None:
        name = type(self).__name__
        several = isinstance(self.field, list | tuple) and bool(self.field)
        for given in (*(self.field if several else [self.field]), self.by):  # type: ignore[misc]
            if given is not None and not isinstance(given, str):
                raise TopologyError(f"{name}: {brief(given)} is not a field; write {name}('value', 'by')")
        if several:
            object.__setattr__(self, "field", tuple(self.field))  # type: ignore[arg-type]
        if (self.field is None) != (self.by is None):
            problem = f"{name}({self.field or self.by!r}) names one field, but takes two"
            raise TopologyError(f"{problem}: name both, {name}('value', 'by'), or none if the verb names the fields")

    @property
    def inputFields(self) -> tuple[str, ...] | None:
        if self.field is None or self.by is None:
            return None
        return (self.field, self.by) if isinstance(self.field, str) else (*self.field, self.by)

    def init(self, tuple: Any) -> Any:
        *values, by = tuple
        return None if by is None else (0, 0, by, values[0] if len(values) == 1 else (*values,))

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        one, other = rank_of(a[2]), rank_of(b[2])
        if one != other:
            return b if (other > one) == self.greatest else a
        return b if tuple(b[:2]) < tuple(a[:2]) else a

    def zero(self) -> Any:
        return None

    def present(self, acc: Any) -> Any:
        """Return the value."""
        return acc[3]

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        *values, by = columns.columns[:-2]
        rows = np.flatnonzero(by.is_valid().to_numpy(zero_copy_only=False))
        taken = pa.array(rows)
        of_by: Key = (by.take(taken), "descending" if self.greatest else "ascending")
        at: Key = (columns.columns[-1].take(taken), "ascending")
        rows = rows[ranked((pa.array(groups[rows]), "ascending"), of_by, at)]
        names = columns.schema.names[: len(values)]
        value = values[0] if len(values) == 1 else pa.StructArray.from_arrays(values, names=names)
        return _picked(columns, [by, value], _ends(groups, rows, count, last=False))

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combined accumulators of `a` and `b`, row by row."""
        one, other = a.field(2), b.field(2)
        less, greater = mask_of(exceeds(one, other)), mask_of(exceeds(other, one))
        better, worse = (greater, less) if self.greatest else (less, greater)
        return chosen(better | (~worse & is_before(b, a)), a, b)

    def problem(self, inputs: spark.StructType) -> str:
        name = type(self).__name__
        if len(inputs.fields) != 2 and not isinstance(self.field, tuple):
            given = f"not {len(inputs.fields)} ({ddl(inputs)})"
            return (
                f"{name} takes two input fields, the value and the field to order by, {given}: write {name}('value', "
                "'by')"
            )
        by = inputs.fields[-1]
        if isinstance(by.dataType, ORDERED):
            return ""
        return f"{name} compares values, but {by.name!r} is {type_ddl(by.dataType)}, which cannot be ordered"

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        *values, by = inputs.fields
        kind = values[0].dataType if len(values) == 1 else nullable_fields(values)
        return spark.StructType([*POSITION, spark.StructField("by", by.dataType), spark.StructField("value", kind)])

    def presented_type(self, accumulator: spark.DataType) -> spark.DataType:
        return accumulator["value"].dataType  # type: ignore[index, no-any-return]


@known_fields({})
@dataclass(frozen=True)
class MinBy(MaxBy):
    """The value of one field in the tuple in which another field is smallest, as Spark's ``min_by``.

    Nulls, NaN and equal values are as in `MaxBy`.

    >>> coldest = MinBy()
    >>> coldest.present(coldest.combine(coldest.init(("oslo", 7)), coldest.init(("rome", 21))))
    'oslo'
    """

    greatest: ClassVar[bool] = False


def _ends(groups: Any, rows: Any, count: int, last: bool) -> Any:
    """Return the first row (with `last`: the last) of each of `count` groups in `rows`; -1 for a group without rows."""
    picked = np.full(count, -1, np.int64)
    ordered = rows if last else rows[::-1]
    picked[groups[ordered]] = ordered  # NumPy keeps the last of several rows of a group
    return picked


def _picked(columns: pa.RecordBatch, values: list[pa.Array], rows: Any) -> pa.Array:
    """Return the accumulators of these rows: the position, then `values`; null for row -1."""
    indices = pa.array(rows, mask=rows < 0)
    position = [columns.column(columns.num_columns + at) for at in (-2, -1)]
    names = ["batch", "at", "by", "value"] if len(values) == 2 else ["batch", "at", "value"]
    mask = pa.array(rows < 0) if (rows < 0).any() else None
    return pa.StructArray.from_arrays([each.take(indices) for each in (*position, *values)], names=names, mask=mask)


def mask_of(rows: pa.Array) -> Any:
    return rows.to_numpy(zero_copy_only=False)


def is_before(a: pa.Array, b: pa.Array) -> Any:
    """Return whether the position in `a` precedes that in `b`, row by row."""
    (batch, at), (of_b, at_b) = ([each.field(n).to_numpy() for n in (0, 1)] for each in (a, b))
    return (batch < of_b) | ((batch == of_b) & (at < at_b))


def as_earlier(accumulators: pa.Array) -> pa.Array:
    """Return accumulators of an ordered aggregator, changed so that their tuples precede every batch, in their order.

    Accumulators of another topology, or of another run over the same tuples, hold that run's txids. Its last batch gets
    the txid 0.

    >>> last = pa.array([(7, 0, "dog"), (5, 1, "cat")], pa.struct({"batch": "int64", "at": "int64", "value": "string"}))
    >>> as_earlier(last).field("batch").to_pylist()
    [0, -2]
    """
    if pa.types.is_list(accumulators.type):
        moved = as_earlier(accumulators.flatten())
        sizes = pc.fill_null(pc.list_value_length(accumulators), 0).to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        return pa.ListArray.from_arrays(offsets, moved, type=accumulators.type, mask=accumulators.is_null())
    batch, *others = accumulators.flatten()
    newest = pc.max(batch).as_py()
    if newest is None or newest <= 0:
        return accumulators
    fields = [pc.subtract(batch, newest), *others]
    return pa.StructArray.from_arrays(fields, fields=list(accumulators.type), mask=accumulators.is_null())


def _offsets(sizes: Any) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
