"""Combiners over columns: tuples are folded to partial accumulators, and partial accumulators are merged.

``init`` and ``combine`` are called as in Trident: a null accumulator takes the first value as it is. Several combiners
over the same groups share the work on the keys. Arrow's own grouping is used for many rows, if it agrees with Spark.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.errors import UserFunctionError
from trident.base.spark_types import arrow_type
from trident.base.value_conversion import NotAccepted
from trident.compiler.aggregates.column_combiners import ColumnAccumulators, Position, has_columns
from trident.compiler.columns.columns import Column, Columns, concat, made_tuples
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.compiler.columns.operation_calls import output_column
from trident.operations.aggregates.base import BuiltinAggregator, is_ordered
from trident.operations.aggregators import Aggregation
from trident.operations.bundles import bundle_of
from trident.operations.checked_aggregators import checked_combine, checked_init
from trident.operations.sum_overflow import beyond_type
from trident.operations.tuples import tuple_type

_FEW = 256
"""The least number of rows for which Arrow counts and sums faster than a Python loop."""

_START = Position()


@dataclass(frozen=True, slots=True, eq=False)
class FoldMember:
    """One combiner, in the form in which it is sent to workers.

    `presented_type` is the type of the presented value; None if the accumulator itself is the result.
    """

    where: Where
    aggregation: Aggregation
    presented_type: pa.DataType | None = None
    accumulator: pa.Field = field(init=False)
    """The name and type of a column of accumulators."""

    def __post_init__(self) -> None:
        kind = arrow_type(self.aggregation.type)
        object.__setattr__(self, "accumulator", pa.field(self.aggregation.output, kind))

    @property
    def output(self) -> str:
        """The name of the output field."""
        return self.aggregation.output

    @property
    def kind(self) -> pa.DataType:
        """The accumulator's type."""
        return self.accumulator.type

    def zero(self) -> Any:
        """Return the accumulator of a group without a tuple."""
        with self.where.calling("zero()"):
            return self.aggregation.aggregator.zero()

    def column(self, values: list[Any]) -> Column:
        """Return accumulators as a column. Raises UserFunctionError if an accumulator has another type."""
        try:
            return Column.made(values, self.kind)
        except NotAccepted:
            beyond = beyond_type(self.aggregation, self.where.inputs)
            if not beyond:
                return output_column(self.where, values, self.accumulator)  # raises an error with the value
            error = UserFunctionError(f"{self.where.step}: {beyond}")
            error.step = self.where.step
            raise error from None

    def presented(self, accumulators: Column) -> Column:
        """Return the result for each accumulator, computed by `present` if the aggregator has it; null for null."""
        if self.presented_type is None:
            return accumulators
        present = self.aggregation.aggregator.present  # type: ignore[attr-defined]
        with self.where.calling("present()"):
            values = [None if value is None else present(value) for value in accumulators.values()]
        return output_column(self.where, values, pa.field(self.output, self.presented_type))


@dataclass(frozen=True, slots=True, eq=False)
class FoldSpec:
    """Combiners over the same groups, in the form in which they are sent to workers."""

    members: tuple[FoldMember, ...]
    keys: pa.Schema
    schema: pa.Schema
    """The key fields, then one field of accumulators for each member, with the name of the member's output."""
    bundle: pa.Field | None = None
    """The only output field if the results form a struct; None: each member has a separate output field."""
    key_names: list[str] = field(init=False)
    key_kinds: list[pa.DataType] = field(init=False)

    def __post_init__(self) -> None:
        # Read once, because each access to a schema creates new objects.
        object.__setattr__(self, "key_names", self.keys.names)
        object.__setattr__(self, "key_kinds", self.keys.types)

    @property
    def ordered(self) -> bool:
        """True if a result depends on the order of tuples."""
        return any(is_ordered(member.aggregation.aggregator) for member in self.members)

    @classmethod
    def of(cls, keys: pa.Schema, *members: FoldMember, bundle: pa.Field | None = None) -> "FoldSpec":
        """Return the spec of these members over these key fields."""
        return cls(members, keys, pa.schema([*keys, *(member.accumulator for member in members)]), bundle)

    @classmethod
    def of_state(cls, keys: pa.Schema, where: Where, aggregation: Aggregation) -> "FoldSpec":
        """Return the spec of a state's aggregation. The members of a bundle are folded into one field."""
        bundle = bundle_of(aggregation)
        if bundle is None:
            return cls.of(keys, FoldMember(where, aggregation))
        pairs = [(m.aggregation, Where(where.step, m.aggregation.site, m.inputs)) for m in bundle.members]
        value = pa.field(aggregation.output, arrow_type(aggregation.type))
        return cls.of(keys, *(FoldMember(own, how) for how, own in pairs), bundle=value)

    @property
    def leaving(self) -> pa.Schema:
        """The key fields, then the fields of the results."""
        if self.bundle is not None:
            return self.keys.append(self.bundle)
        return pa.schema(
            [*self.keys, *(pa.field(member.output, member.presented_type or member.kind) for member in self.members)]
        )

    def zeros(self, rows: int = 1) -> Columns:
        """Return `rows` equal rows without key fields: the accumulators of a group that has no tuple."""
        return Columns(
            {member.output: member.column([member.zero() for _ in range(rows)]) for member in self.members}, rows
        )

    def with_zeros(self, folded: Columns, parts: Columns | None) -> Columns:
        """Return the accumulators of an aggregate without group fields: `folded`, and zeros for parts without tuples.

        `parts` has the keys of all parts, one row each; None: there is one part, without a key.
        """
        if parts is None:
            return folded if folded.rows else self.zeros()
        if folded.rows == parts.rows:
            return folded
        index = KeyNumbers(self.keys.types)
        index.numbers([folded[name] for name in parts.names], folded.rows)
        seen = len(index)
        numbers = index.numbers([parts[name] for name in parts.names], parts.rows)
        missing = [row for row, number in enumerate(numbers) if number >= seen]
        zeros = self.zeros(len(missing)).plus({name: parts[name].take(missing) for name in parts.names})
        return concat([folded, zeros.select(folded.names)])

    def presented(self, folded: Columns) -> Columns:
        """Return `folded` with results instead of accumulators."""
        if self.bundle is not None:
            accumulators = [folded[member.output].array() for member in self.members]
            structs = pa.StructArray.from_arrays(accumulators, fields=list(self.bundle.type))
            return folded.select(self.keys.names).plus({self.bundle.name: Column.of(structs)})
        return folded.plus({m.output: m.presented(folded[m.output]) for m in self.members if m.presented_type})


class Accumulators:
    """One combiner's accumulators. `values[n]` is the accumulator of the key with number n."""

    __slots__ = ("member", "values")

    def __init__(self, member: FoldMember) -> None:
        self.member = member
        self.values: list[Any] = []

    def add_tuples(self, numbers: list[int], columns: Columns, count: int, position: Position) -> None:
        """Fold tuples into the accumulators.

        `numbers` are the numbers of the tuples' keys; all numbers are below `count`.
        """
        aggregator = self.member.aggregation.aggregator
        self._grow(count)
        native = self.member.aggregation.native
        if native == "count":
            self._count(numbers)
            return
        lists = columns.lists(self.member.where.inputs)
        if native == "sum" and not kinds.is_decimal(self.member.kind):
            self._sum(numbers, lists[0])
            return
        if isinstance(aggregator, BuiltinAggregator) and aggregator.gathers:
            self._gather(numbers, lists, aggregator.gathered)
            return
        tuples = made_tuples(tuple_type(self.member.where.inputs), lists, columns.rows)
        self._fold(numbers, tuples, checked_init(aggregator), lists)

    def add_partials(self, numbers: list[int], partials: Column, count: int) -> None:
        """Merge partial accumulators into `values`. `numbers` are the numbers of their keys, all below `count`."""
        self._grow(count)
        self._fold(numbers, partials.values(), None, [])

    def column(self) -> Column:
        """Return the accumulators as a column."""
        return self.member.column(self.values)

    def _grow(self, count: int) -> None:
        start = 0 if self.member.aggregation.native == "count" else None
        self.values.extend([start] * (count - len(self.values)))

    def _count(self, numbers: list[int]) -> None:
        counts = self.values
        for number in numbers:
            counts[number] += 1

    def _sum(self, numbers: list[int], values: list[Any]) -> None:
        """Fold tuples as Sum does, but without creating a tuple and calling Sum for each row."""
        sums = self.values
        for number, value in zip(numbers, values, strict=True):
            addend, stored = 0 if value is None else value, sums[number]
            sums[number] = addend if stored is None else stored + addend

    def _gather(self, numbers: list[int], lists: list[list[Any]], gathered: Callable[[list[Any]], Any]) -> None:
        """Fold the tuples of each key by one call of the aggregator's `gathered`."""
        rows: dict[int, list[Any]] = {}
        for number, values in zip(numbers, zip(*lists, strict=True), strict=True):
            rows.setdefault(number, []).append(values)
        self._fold(list(rows), map(gathered, rows.values()), None, [])

    def _fold(self, numbers: list[int], items: Iterable[Any], init: Callable[[Any], Any] | None, lists: Any) -> None:
        accumulators, combine = self.values, checked_combine(self.member.aggregation.aggregator)
        row = 0
        with self.member.where.calling_rows(lists, lambda: row):
            for row, (number, item) in enumerate(zip(numbers, items, strict=True)):  # noqa: B007
                value = item if init is None else init(item)
                stored = accumulators[number]
                accumulators[number] = value if stored is None else combine(stored, value)


def accumulators_of(member: FoldMember, few: bool = False) -> Accumulators | ColumnAccumulators:
    """Return an empty object for one combiner's accumulators: columns of them if the combiner works on columns.

    With `few`, there are so few tuples that a built-in aggregator with the same results folds them faster by value.
    """
    aggregator = member.aggregation.aggregator
    by_value = few and isinstance(aggregator, BuiltinAggregator) and (aggregator.gathers or aggregator.native)
    if by_value or not has_columns(member.aggregation):
        return Accumulators(member)
    return ColumnAccumulators(member.where, member.aggregation, member.accumulator, partial(_by_value, member))


def _by_value(member: FoldMember, numbers: list[int], columns: Columns, count: int) -> pa.Array:
    """Return the accumulators of tuples that the combiner's column form did not take."""
    made = Accumulators(member)
    made.add_tuples(numbers, columns, count, _START)
    return made.column().array()


class Fold:
    """Accumulators by key. Columns of tuples or of partial accumulators are added to it.

    `first` is the position of the first tuple, for combiners whose result depends on the order of tuples. `few` is true
    if there are few tuples or partial accumulators.
    """

    def __init__(self, spec: FoldSpec, first: Position = _START, few: bool = False) -> None:
        self._spec = spec
        self._index = KeyNumbers(spec.key_kinds)
        self._folds = [accumulators_of(member, few) for member in spec.members]
        self.position = first
        """The position of the next tuple."""

    def __len__(self) -> int:
        return len(self._index)

    def add_tuples(self, columns: Columns) -> None:
        """Fold tuples. Only their key fields and input fields are read."""
        numbers = self._numbers(columns)
        for fold in self._folds:
            fold.add_tuples(numbers, columns, len(self._index), self.position)
        self.position = self.position._replace(at=self.position.at + columns.rows)

    def add_partials(self, columns: Columns) -> None:
        """Merge the results of other folds, given as columns of `spec.schema`."""
        numbers = self._numbers(columns)
        for member, fold in zip(self._spec.members, self._folds, strict=True):
            fold.add_partials(numbers, columns[member.output], len(self._index))

    def result(self) -> Columns:
        """Return every key with its accumulators."""
        pairs = zip(self._spec.members, self._folds, strict=True)
        accumulators = {member.output: fold.column() for member, fold in pairs}
        return self._index.named(self._spec.key_names).plus(accumulators)

    def _numbers(self, columns: Columns) -> list[int]:
        return self._index.numbers([columns[name] for name in self._spec.key_names], columns.rows)


def folded(spec: FoldSpec, parts: Sequence[Columns], first: Position = _START) -> Columns:
    """Fold tuples by a Python loop, and return every key with its accumulators."""
    fold = Fold(spec, first, sum(part.rows for part in parts) < _FEW)
    for part in parts:
        fold.add_tuples(part)
    return fold.result()


def folded_partials(spec: FoldSpec, partials: pa.Table) -> Columns:
    """Merge partial accumulators by key, by a Python loop."""
    fold = Fold(spec, few=partials.num_rows < _FEW)
    fold.add_partials(Columns.of(partials, spec.schema))
    return fold.result()


# --- by Arrow's grouping -----------------------------------------------------------------------------------------


def fold_columns(spec: FoldSpec, parts: Sequence[Columns], first: Position = _START) -> Columns:
    """Fold tuples, and return every key with its accumulators.

    Arrow's grouping is used if it is faster and agrees with Spark, otherwise a Python loop.
    """
    if sum(part.rows for part in parts) >= _FEW:
        partials = [arrow_partial(spec, part) for part in parts]
        if all(part is not None for part in partials):
            return arrow_merge(spec, [part for part in partials if part is not None])
    return folded(spec, parts, first)


def merge_partials(spec: FoldSpec, partials: pa.Table) -> Columns:
    """Merge partial accumulators of several partitions by key.

    Without key fields the result is one row, even if there are no accumulators.
    """
    if partials.num_rows >= _FEW and arrow_can_merge(spec):
        return _merge_in_arrow(spec, partials)
    if not partials.num_rows and not spec.keys.names:
        return spec.zeros()
    return folded_partials(spec, partials)


def arrow_can_merge(spec: FoldSpec) -> bool:
    """Return whether Arrow merges partial accumulators of this spec with the same results as Spark.

    It does if there are keys, none of them nested or floating-point, and the accumulators are counts, int64 sums, or
    minima and maxima of whole numbers, strings or dates: values that need no rule for NaN.
    """
    flat = bool(spec.keys.names) and not any(
        kinds.is_nested(kind) or kinds.is_floating(kind) for kind in spec.keys.types
    )
    return flat and all(map(_member_can_merge, spec.members))


def arrow_partial(spec: FoldSpec, columns: Columns) -> pa.Table | None:
    """Return the partial accumulators of these tuples by Arrow's grouping; None if Spark's results would differ.

    Arrow treats 0.0 and -0.0 as different keys, so `arrow_merge` must follow.
    """
    if not _arrow_can_fold(spec, columns):
        return None
    arrays = [columns[name].array() for name in spec.keys.names]
    values: list[pa.Array | None] = []
    for member in spec.members:
        inputs = member.where.inputs
        counts = member.aggregation.native == "count"
        values.append(None if counts else columns[inputs[0]].array().cast(member.kind))
    return _grouped(arrays, spec, values, [str(member.aggregation.native) for member in spec.members])


def arrow_merge(spec: FoldSpec, partials: Sequence[pa.Table]) -> Columns:
    """Merge the results of `arrow_partial` by key. Keys are equal if they are equal in Spark."""
    if len(partials) == 1 and not any(map(kinds.is_floating, spec.keys.types)):
        return Columns.of(partials[0], spec.schema)
    return _merge_in_arrow(spec, pa.concat_tables(partials))


def _merge_in_arrow(spec: FoldSpec, partials: pa.Table) -> Columns:
    """Merge the rows of one table that have the same key.

    A Python loop does it if Arrow's sum might overflow, or if a key is floating-point.
    """
    width = len(spec.keys)
    hows = ["sum" if m.aggregation.native == "count" else str(m.aggregation.native) for m in spec.members]
    values = [column.combine_chunks() for column in partials.columns[width:]]
    overflows = any(how == "sum" and not _cannot_overflow(value) for how, value in zip(hows, values, strict=True))
    if overflows or any(map(kinds.is_floating, spec.keys.types)):
        return folded_partials(spec, partials)
    return Columns.of(_grouped(partials.columns[:width], spec, values, hows), spec.schema)


def _member_can_merge(member: FoldMember) -> bool:
    native = member.aggregation.native
    if native in ("count", "sum"):
        return bool(kinds.is_int64(member.kind))
    return native in ("min", "max") and _orders_like_spark(member.kind)


def _arrow_can_fold(spec: FoldSpec, columns: Columns) -> bool:
    """Return whether Arrow folds these tuples with the same results as Spark.

    It does if there are keys, none of them nested, and the members count, sum whole numbers that cannot overflow, or
    take minima and maxima of whole numbers, strings or dates: values that need no rule for NaN.
    """
    if not spec.keys.names or any(map(kinds.is_nested, spec.keys.types)):
        return False
    return all(_member_can_fold(member, columns) for member in spec.members)


def _member_can_fold(member: FoldMember, columns: Columns) -> bool:
    native = member.aggregation.native
    if native == "count":
        return True
    if native not in ("sum", "min", "max"):
        return False
    value = columns[member.where.inputs[0]].array()
    if native == "sum":
        return kinds.is_integer(value.type) and kinds.is_int64(member.kind) and _cannot_overflow(value)
    return _orders_like_spark(value.type)


def _orders_like_spark(kind: pa.DataType) -> bool:
    """Return whether Arrow orders values of this type as Spark does."""
    return any(test(kind) for test in (kinds.is_integer, kinds.is_string, kinds.is_date))


def _cannot_overflow(value: pa.Array) -> bool:
    extremes = pc.min_max(value).as_py()
    largest = max(abs(extremes["min"] or 0), abs(extremes["max"] or 0))
    return bool(largest * len(value) < 2**63)


def _grouped(keys: Sequence[Any], spec: FoldSpec, values: Sequence[pa.Array | None], hows: Sequence[str]) -> pa.Table:
    """Return one row for each key, with each member's accumulator. A member with None in `values` counts rows."""
    names = [f"k{at}" for at in range(len(keys))]
    inputs = {f"v{at}": value for at, value in enumerate(values) if value is not None}
    wanted: list[tuple[Any, str]] = [(f"v{at}", hows[at]) for at, value in enumerate(values) if value is not None]
    if len(wanted) < len(values):
        wanted.append(([], "count_all"))
    table = pa.table([*keys, *inputs.values()], names=[*names, *inputs])
    grouped = table.group_by(names, use_threads=False).aggregate(wanted)
    columns = [grouped.column(name) for name in names]
    for at, member in enumerate(spec.members):
        result = grouped.column("count_all" if values[at] is None else f"v{at}_{hows[at]}").cast(member.kind)
        # Arrow's sum of only nulls is null
        columns.append(result.fill_null(0) if member.aggregation.native == "sum" else result)
    return pa.Table.from_arrays(columns, schema=spec.schema)
