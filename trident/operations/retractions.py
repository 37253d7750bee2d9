"""Aggregates of streams of changes, in which a removed tuple is subtracted from the aggregate.

The accumulator of a key is a pair: the user's accumulator over the current tuples, and their number. A deleted tuple
is the negative of an inserted one, so partial results of a batch combine in any order, in any process and in the
state, like those of any other combiner. A key without tuples leaves the state.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, LongType, StructField, StructType

from trident.base.cached_property import cached_property
from trident.base.change_kinds import ADDS, adding
from trident.base.names import free_name
from trident.base.short_texts import brief
from trident.base.spark_types import arrow_type, select
from trident.base.verb_call import Step
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.aggregates.element_lists import Elements
from trident.operations.aggregators import Aggregation, CombinerAggregator, Reduction
from trident.operations.bundles import Bundle, BundleMember
from trident.operations.filtered_aggregators import as_written
from trident.operations.tuples import tuple_type
from trident_state.keys import encode_keys


@dataclass(frozen=True, eq=False)
class Retracting(BuiltinAggregator):
    """The aggregate of a stream of changes by an aggregator with `retract`.

    `inner` is the user's aggregator over the fields `inputs`; `kind` is its accumulator type, and `shown` the type
    that queries see.
    """

    inner: CombinerAggregator
    inputs: tuple[str, ...]
    kind: DataType
    shown: DataType | None

    def init(self, tuple: Any) -> Any:
        acc = self.inner.init(self._make(tuple[: len(self.inputs)]))
        return (acc, 1) if tuple[len(self.inputs)] in ADDS else (self._opposite(acc), -1)

    def combine(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        acc, tuples = self.inner.combine(a[0], b[0]), a[1] + b[1]
        # A null leaves the state. It is neutral only if the accumulator is, too: after an update that removes 2 and
        # adds 5, the number is 0 within the batch, but the sum is not.
        return None if not tuples and acc == self.inner.zero() else (acc, tuples)

    def zero(self) -> Any:
        return self.inner.zero(), 0

    def present(self, acc: Any) -> Any:
        """Return the aggregate that queries see; None for a key that has no tuples."""
        if acc[1] <= 0:
            return None
        present = getattr(self.inner, "present", None)
        return acc[0] if present is None else present(acc[0])

    def problem(self, inputs: StructType) -> str:
        return ""

    def type_of(self, inputs: StructType) -> DataType:
        return StructType([StructField("value", self.kind), StructField("tuples", LongType())])

    def presented_type(self, accumulator: DataType) -> DataType | None:
        return self.shown

    def _opposite(self, acc: Any) -> Any:
        opposite = retract(self.inner)(self.inner.zero(), acc)
        if opposite is None and acc is not None:
            raise TypeError(f"retract(a, b) of {brief(self.inner)} returned None; it must return an accumulator")
        return opposite

    @cached_property
    def _make(self) -> Callable[[Any], Any]:
        return tuple_type(self.inputs)

    def __getstate__(self) -> dict[str, Any]:  # cached values hold classes created at run time
        return {name: getattr(self, name) for name in ("inner", "inputs", "kind", "shown")}


@dataclass(frozen=True, eq=False)
class KeepingTuples(BuiltinAggregator):
    """An aggregator without `retract`, which keeps all current tuples with their counts.

    The aggregate is computed at each read. So `inner` must not depend on the order of the tuples.
    """

    inner: BuiltinAggregator
    fields: StructType

    def init(self, tuple: Any) -> Any:
        return [(*tuple, 1)]

    def combine(self, a: Any, b: Any) -> Any:
        return _together(a, b, 1)

    def retract(self, a: Any, b: Any) -> Any:
        """Return the tuples of `a` without those of `b`."""
        return _together(a, b, -1)

    def zero(self) -> Any:
        return []

    def present(self, acc: Any) -> Any:
        """Return the aggregate of the kept tuples."""
        make = tuple_type(tuple(self.fields.names))
        once = self.inner.idempotent
        parts: Iterable[Any] = (
            self.inner.init(make(entry[:-1])) for entry in acc for _ in range(min(entry[-1], 1) if once else entry[-1])
        )
        value = reduce(self._combined, parts, None)
        present = getattr(self.inner, "present", None)
        if value is None and present is not None:
            value = self.inner.zero()
        return value if present is None else present(value)

    def _combined(self, a: Any, b: Any) -> Any:
        return b if a is None else self.inner.combine(a, b)

    def type_of(self, inputs: StructType) -> DataType:
        kept = StructType([*inputs.fields, StructField(free_name("n", inputs.names), LongType())])
        return ArrayType(kept)

    def problem(self, inputs: StructType) -> str:
        return self.inner.problem(inputs)

    def presented_type(self, accumulator: DataType) -> DataType | None:
        own = self.inner.type_of(self.fields)
        return self.inner.presented_type(own) if hasattr(self.inner, "present") else own


@dataclass(frozen=True, eq=False)
class RetractingKept(Retracting):
    """The same aggregate for whole columns: no Python object is created for a tuple."""

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        added = adding(columns.column(columns.num_columns - 1)).to_numpy(zero_copy_only=False)
        signs = np.where(added, 1, -1)
        fields: list[pa.Field] = list(self._entry)
        kept = [column.cast(field.type) for column, field in zip(columns.columns[:-1], fields[:-1], strict=True)]
        entries = pa.StructArray.from_arrays([*kept, pa.array(signs)], fields=fields)
        totals = np.zeros(count, np.int64)
        np.add.at(totals, groups, signs)
        return self._together(entries, np.asarray(groups, np.int64), totals)

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        lists = Elements.of(*(pc.struct_field(side, "value") for side in (a, b)))
        totals = pc.add(*(pc.struct_field(side, "tuples") for side in (a, b))).to_numpy()
        return self._together(lists.values.cast(pa.struct(self._entry)), lists.lists, totals)

    def _together(self, entries: pa.StructArray, owners: Any, totals: Any) -> pa.Array:
        """Return the accumulator of each owner: its distinct tuples, each with the sum of its counts."""
        *values, numbers = entries.flatten()
        codes = encode_keys(pa.table(values, schema=pa.schema(self._entry[:-1]))).dictionary_encode()
        pairs = owners * max(len(codes.dictionary), 1) + codes.indices.to_numpy()
        _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        sums = np.zeros(len(first), np.int64)
        np.add.at(sums, inverse, numbers.to_numpy())
        left = np.flatnonzero(sums)
        left = left[np.lexsort((first[left], owners[first[left]]))]
        taken = entries.take(pa.array(first[left])).flatten()[:-1]
        kept = pa.StructArray.from_arrays([*taken, pa.array(sums[left])], fields=self._entry)
        lists = Elements(kept, owners[first[left]]).column(len(totals), arrow_type(self.kind))
        gone = (pc.list_value_length(lists).to_numpy() == 0) & (totals == 0)
        return pa.StructArray.from_arrays([lists, pa.array(totals)], ["value", "tuples"], mask=pa.array(gone))

    @property
    def _entry(self) -> list[pa.Field]:
        """The type of a kept tuple: its fields, then its count."""
        entry = arrow_type(self.kind).value_type
        return [entry.field(at) for at in range(entry.num_fields)]


def _kept_by_columns(aggregator: Any) -> bool:
    """Return whether an aggregator keeps tuples that can be compared by their bytes, which maps cannot."""
    if not isinstance(aggregator, KeepingTuples) or not aggregator.fields.fields:
        return False
    return all("map<" not in field.dataType.simpleString() for field in aggregator.fields.fields)


def retract(aggregator: Any) -> Callable[[Any, Any], Any]:
    """Return the function that subtracts one accumulator from another; None if the aggregator has none."""
    if isinstance(aggregator, Bundle):
        parts = [retract(member.aggregation.aggregator) for member in aggregator.members]
        return lambda a, b: tuple(part(x, y) for part, x, y in zip(parts, a, b, strict=True))
    function: Callable[[Any, Any], Any] = aggregator.retract
    return function


def retractable(how: Aggregation | Reduction, inputs: StructType, step: Step) -> Aggregation:
    """Return an aggregation of the same values whose aggregator has ``retract``, over these input fields.

    Raises TopologyError for an aggregator that cannot subtract tuples.
    """
    aggregator = how.aggregator
    if isinstance(how, Reduction):
        raise step.wrong(
            f"{brief(aggregator)} is a ReducerAggregator, which folds tuples one after the other and cannot remove "
            "one: make it a CombinerAggregator with retract(a, b)"
        )
    if isinstance(aggregator, Bundle):
        able = [
            (member, retractable(member.aggregation, select(inputs, member.inputs), step))
            for member in aggregator.members
        ]
        members = tuple(BundleMember(m.inputs, how, m.presented) for m, how in able)
        bundle = Bundle(members)
        return Aggregation(bundle, how.site, how.output, bundle.type)
    if callable(getattr(aggregator, "retract", None)):
        return how
    name = type(as_written(aggregator)).__name__
    if not isinstance(aggregator, BuiltinAggregator):
        raise step.wrong(
            f"{brief(aggregator)} cannot remove tuples: add a method retract(a, b) that returns the accumulator of "
            "the tuples of a without those of b, so that combine(retract(a, b), b) is a, also if a is zero()"
        )
    if aggregator.ordered:
        raise step.wrong(
            f"{name} depends on the order of tuples, which a removed tuple does not have: keep the rows with toTable, "
            "or aggregate with Min or Max of a field that orders them"
        )
    keeping = KeepingTuples(aggregator, inputs)
    return Aggregation(keeping, how.site, how.output, keeping.type_of(inputs))


def retracting(how: Aggregation, inputs: tuple[str, ...], shown: DataType | None) -> Aggregation:
    """Return the aggregation of a stream of changes by an aggregator with ``retract``, which reads `inputs`."""
    kind = RetractingKept if _kept_by_columns(how.aggregator) else Retracting
    aggregator = kind(how.aggregator, inputs, how.type, shown)
    return Aggregation(aggregator, how.site, how.output, aggregator.type_of(StructType([])))


def _together(a: Any, b: Any, sign: int) -> list[tuple[Any, ...]]:
    """Return the entries of `a` with those of `b` added or removed. Entries without tuples are dropped."""
    counts, tuples = dict[Any, int](), dict[Any, Any]()
    for entries, factor in ((a, 1), (b, sign)):
        for entry in entries:
            *values, number = entry
            key = _comparable(values)
            counts[key] = counts.get(key, 0) + factor * number
            tuples.setdefault(key, values)
    return [(*tuples[key], number) for key, number in counts.items() if number]


_NAN = float("nan")
"""A single object for all NaN, so that they are one key."""


def _comparable(value: Any) -> Any:
    """Return a hashable form of a value: structs and arrays as tuples, any NaN as the same object."""
    if isinstance(value, list | tuple):
        return tuple([_comparable(each) for each in value])
    if isinstance(value, Mapping):
        return frozenset((key, _comparable(each)) for key, each in value.items())
    return _NAN if value != value else value
