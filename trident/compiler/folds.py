"""Aggregators over columns: tuples become partial accumulators, partial accumulators meet.

``init`` and ``combine`` are called as Trident does it: a null accumulator takes what comes as it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.errors import FailedException
from trident.base.types import arrow_type
from trident.base.values import NotAccepted, type_name
from trident.compiler.columns import Column, Columns
from trident.compiler.failures import Where, short
from trident.compiler.keys import KeyIndex
from trident.operations.aggregators import Aggregation
from trident.operations.tuples import tuple_type

_FEW = 256
"""From so many rows on Arrow counts and sums faster than a Python loop."""


@dataclass(frozen=True, slots=True, eq=False)
class FoldSpec:
    """One aggregation as it travels to the workers."""

    where: Where
    aggregation: Aggregation
    keys: pa.Schema
    schema: pa.Schema
    """The key fields, then the accumulator under the output's name."""

    @classmethod
    def of(cls, where: Where, aggregation: Aggregation, keys: pa.Schema) -> "FoldSpec":
        """The spec of an aggregation over these key fields."""
        return cls(where, aggregation, keys, keys.append(pa.field(aggregation.output, arrow_type(aggregation.type))))

    @property
    def kind(self) -> pa.DataType:
        """The accumulator's type."""
        return self.schema.field(len(self.keys)).type

    def zero(self) -> Column:
        """The accumulator of no tuple, as a column of one row."""
        try:
            value = self.aggregation.aggregator.zero()
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise self.where.error(f"raised {type(cause).__name__}: {cause} in zero()", cause) from cause
        return self.column([value])

    def column(self, values: list[Any]) -> Column:
        """Accumulators as a column; an error names the one that is not of the declared type."""
        try:
            return Column.made(values, self.kind)
        except NotAccepted as error:
            what = f"gave {short(error.value)} ({type(error.value).__name__}) for field {self.aggregation.output!r}"
            hint = f" ({error.why})" if error.why else ""
            raise self.where.error(f"{what}, declared {type_name(self.kind)}{hint}") from None


class Fold:
    """Accumulators by key, fed with columns of tuples or of partial accumulators."""

    def __init__(self, spec: FoldSpec) -> None:
        self._spec = spec
        self._index = KeyIndex(spec.keys.types)
        self._accumulators: list[Any] = []
        self._tuples = tuple_type(spec.where.inputs)

    def __len__(self) -> int:
        return len(self._index)

    def add_tuples(self, columns: Columns) -> None:
        """Fold tuples: their key fields and input fields are read."""
        spec = self._spec
        places = self._index.places([columns[name] for name in spec.keys.names], columns.rows)
        if spec.aggregation.native == "count":
            self._count(places)
            return
        lists = columns.lists(spec.where.inputs)
        tuples = map(self._tuples, zip(*lists, strict=True)) if lists else (self._tuples(()) for _ in places)
        self._fold(places, tuples, spec.aggregation.aggregator.init, lists)

    def add_partials(self, columns: Columns) -> None:
        """Fold what other folds came to, in columns of `spec.schema`."""
        places = self._index.places([columns[name] for name in self._spec.keys.names], columns.rows)
        self._fold(places, columns[self._spec.aggregation.output].values(), None, [])

    def result(self) -> Columns:
        """Every key with its accumulator."""
        spec = self._spec
        columns = dict(zip(spec.keys.names, self._index.columns(), strict=True)) if spec.keys.names else {}
        columns[spec.aggregation.output] = spec.column(self._accumulators)
        return Columns(columns, len(self._accumulators))

    def _count(self, places: list[int]) -> None:
        counts = self._accumulators
        counts.extend([0] * (len(self._index) - len(counts)))
        for place in places:
            counts[place] += 1

    def _fold(self, places: list[int], items: Any, init: Callable[[Any], Any] | None, lists: Any) -> None:
        accumulators, combine = self._accumulators, self._spec.aggregation.aggregator.combine
        row = 0
        try:
            for row, (place, item) in enumerate(zip(places, items, strict=True)):  # noqa: B007
                value = item if init is None else init(item)
                if place == len(accumulators):
                    accumulators.append(value)
                else:
                    stored = accumulators[place]
                    accumulators[place] = value if stored is None else combine(stored, value)
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise self._spec.where.raised(cause, lists, row) from cause


# --- whole columns at once ----------------------------------------------------------------------------------------


def fold_columns(spec: FoldSpec, parts: Sequence[Columns]) -> Columns:
    """Every key of these tuples with its accumulator."""
    if sum(part.rows for part in parts) >= _FEW:
        quick = [quick_partial(spec, part) for part in parts]
        if all(part is not None for part in quick):
            return quick_merge(spec, [part for part in quick if part is not None])
    fold = Fold(spec)
    for part in parts:
        fold.add_tuples(part)
    return fold.result()


def met(spec: FoldSpec, partials: pa.Table) -> Columns:
    """Partial accumulators from several partitions, met by key; without key fields one row, also of none."""
    if partials.num_rows >= _FEW and meets_quickly(spec):
        return _met_by_arrow(spec, partials)
    fold = Fold(spec)
    fold.add_partials(Columns.of(partials, spec.schema))
    if not len(fold) and not spec.keys.names:
        return Columns({spec.aggregation.output: spec.zero()}, 1)
    return fold.result()


def meets_quickly(spec: FoldSpec) -> bool:
    """Whether Arrow's grouping says of partial accumulators what Spark says: flat keys, whole numbers, no NaN rules."""
    native = spec.aggregation.native
    flat = bool(spec.keys.names) and not any(
        kinds.is_nested(kind) or kinds.is_floating(kind) for kind in spec.keys.types
    )
    if not flat or native is None:
        return False
    if native in ("count", "sum"):
        return bool(kinds.is_int64(spec.kind))
    return any(test(spec.kind) for test in (kinds.is_integer, kinds.is_string, kinds.is_date))


def quick_partial(spec: FoldSpec, columns: Columns) -> pa.Table | None:
    """The partial accumulators of these tuples by Arrow's own grouping; None where it would not say what Spark says.

    Arrow keeps 0.0 and -0.0 apart: a merge has to follow.
    """
    native = spec.aggregation.native
    if not _quick(spec, columns):
        return None
    arrays = [columns[name].array() for name in spec.keys.names]
    if native == "count":
        return _grouped(arrays, spec, None, [([], "count_all")])
    value = columns[spec.where.inputs[0]].array()
    return _grouped(arrays, spec, value.cast(spec.kind), [("value", str(native))])


def quick_merge(spec: FoldSpec, partials: Sequence[pa.Table]) -> Columns:
    """Partial accumulators of `quick_partial`, met by key as Spark means equal."""
    if len(partials) == 1 and not any(map(kinds.is_floating, spec.keys.types)):
        return Columns.of(partials[0], spec.schema)
    return _met_by_arrow(spec, pa.concat_tables(partials))


def _met_by_arrow(spec: FoldSpec, partials: pa.Table) -> Columns:
    """The same of one table with a key in several rows; by a loop where Arrow's sum might not hold it."""
    how = "sum" if spec.aggregation.native == "count" else str(spec.aggregation.native)
    value = partials.column(partials.num_columns - 1).combine_chunks()
    if any(map(kinds.is_floating, spec.keys.types)) or (how == "sum" and not _cannot_overflow(value)):
        fold = Fold(spec)
        fold.add_partials(Columns.of(partials, spec.schema))
        return fold.result()
    return Columns.of(_grouped(partials.columns[:-1], spec, value, [("value", how)]), spec.schema)


def _quick(spec: FoldSpec, columns: Columns) -> bool:
    """Whether Arrow's grouping says what Spark says: flat keys, whole numbers that cannot overflow, no NaN rules."""
    native = spec.aggregation.native
    if native is None or not spec.keys.names or any(map(kinds.is_nested, spec.keys.types)):
        return False
    if native == "count":
        return True
    value = columns[spec.where.inputs[0]].array()
    if native == "sum":
        return kinds.is_integer(value.type) and kinds.is_int64(spec.kind) and _cannot_overflow(value)
    return any(test(value.type) for test in (kinds.is_integer, kinds.is_string, kinds.is_date))


def _cannot_overflow(value: pa.Array) -> bool:
    extremes = pc.min_max(value).as_py()
    largest = max(abs(extremes["min"] or 0), abs(extremes["max"] or 0))
    return bool(largest * len(value) < 2**63)


def _grouped(keys: list[pa.Array], spec: FoldSpec, value: pa.Array | None, how: list[tuple[Any, str]]) -> pa.Table:
    columns = [*keys, value] if value is not None else keys
    names = [f"k{at}" for at in range(len(keys))] + (["value"] if value is not None else [])
    grouped = pa.table(columns, names=names).group_by(names[: len(keys)], use_threads=False).aggregate(how)
    result = grouped.column(grouped.num_columns - 1).cast(spec.kind)
    if spec.aggregation.native == "sum":
        result = result.fill_null(0)  # of nothing but nulls
    at_keys = [grouped.column(name) for name in names[: len(keys)]]
    return pa.Table.from_arrays([*at_keys, result], schema=spec.schema)
