"""Combiners over columns: tuples are folded to partial accumulators, partial accumulators are merged.

``init`` and ``combine`` are called as Trident does it: a null accumulator takes the first value as it is. Several
combiners over the same groups share the work on the keys. Where Arrow's grouping gives the same, ``arrow_folds`` takes
over.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trident.base.types import arrow_type
from trident.compiler.columns.calls import output_column
from trident.compiler.columns.columns import Column, Columns, made_tuples
from trident.compiler.columns.failures import Where
from trident.compiler.columns.keys import KeyIndex
from trident.operations.aggregators import Aggregation
from trident.operations.builtin_aggregators import BuiltinAggregator
from trident.operations.tuples import tuple_type


@dataclass(frozen=True, slots=True, eq=False)
class FoldMember:
    """One combiner as it travels to the workers.

    `presented_type` is the type of the presented value; None where the accumulator itself is the result.
    """

    where: Where
    aggregation: Aggregation
    presented_type: pa.DataType | None = None

    @property
    def output(self) -> str:
        """The output field."""
        return self.aggregation.output

    @property
    def kind(self) -> pa.DataType:
        """The accumulator's type."""
        return arrow_type(self.aggregation.type)

    def zero(self) -> Any:
        """Return the accumulator of no tuple."""
        with self.where.calling("zero()"):
            return self.aggregation.aggregator.zero()

    def column(self, values: list[Any]) -> Column:
        """Return accumulators as a column; an error names the one that is of another type."""
        return output_column(self.where, values, pa.field(self.output, self.kind))

    def presented(self, accumulators: Column) -> Column:
        """Return the results of these accumulators; the result of a null is null."""
        if self.presented_type is None:
            return accumulators
        present = self.aggregation.aggregator.present  # type: ignore[attr-defined]
        with self.where.calling("present()"):
            values = [None if value is None else present(value) for value in accumulators.values()]
        return output_column(self.where, values, pa.field(self.output, self.presented_type))


@dataclass(frozen=True, slots=True, eq=False)
class FoldSpec:
    """Combiners over the same groups."""

    members: tuple[FoldMember, ...]
    keys: pa.Schema
    schema: pa.Schema
    """The key fields, then each accumulator under the name of its output."""

    @classmethod
    def of(cls, keys: pa.Schema, *members: FoldMember) -> "FoldSpec":
        """Return the spec of these members over these key fields."""
        return cls(members, keys, pa.schema([*keys, *(pa.field(member.output, member.kind) for member in members)]))

    @property
    def leaving(self) -> pa.Schema:
        """The key fields, then the results."""
        return pa.schema(
            [*self.keys, *(pa.field(member.output, member.presented_type or member.kind) for member in self.members)]
        )

    def zeros(self, rows: int = 1) -> Columns:
        """Return the accumulators of no tuple, without keys, in this number of rows."""
        return Columns(
            {member.output: member.column([member.zero() for _ in range(rows)]) for member in self.members}, rows
        )

    def presented(self, folded: Columns) -> Columns:
        """Return columns of `schema` with results in place of accumulators."""
        return folded.plus({m.output: m.presented(folded[m.output]) for m in self.members if m.presented_type})


class Accumulators:
    """One combiner's accumulators, by the number of their key."""

    __slots__ = ("member", "values", "_make")

    def __init__(self, member: FoldMember) -> None:
        self.member = member
        self.values: list[Any] = []
        self._make = tuple_type(member.where.inputs)

    def add_tuples(self, numbers: list[int], columns: Columns, count: int) -> None:
        """Fold tuples whose keys have these numbers, all below `count`."""
        aggregator = self.member.aggregation.aggregator
        self._grow(count)
        if self.member.aggregation.native == "count":
            self._count(numbers)
            return
        lists = columns.lists(self.member.where.inputs)
        if isinstance(aggregator, BuiltinAggregator) and aggregator.gathers:
            self._gather(numbers, lists, aggregator.gathered)
            return
        self._fold(numbers, made_tuples(self._make, lists, columns.rows), aggregator.init, lists)

    def add_partials(self, numbers: list[int], columns: Columns, count: int) -> None:
        """Merge accumulators whose keys have these numbers, all below `count`."""
        self._grow(count)
        self._fold(numbers, columns[self.member.output].values(), None, [])

    def _grow(self, count: int) -> None:
        start = 0 if self.member.aggregation.native == "count" else None
        self.values.extend([start] * (count - len(self.values)))

    def _count(self, numbers: list[int]) -> None:
        counts = self.values
        for number in numbers:
            counts[number] += 1

    def _gather(self, numbers: list[int], lists: list[list[Any]], gathered: Callable[[list[Any]], Any]) -> None:
        """Fold all tuples of a key at once."""
        rows: dict[int, list[Any]] = {}
        for number, values in zip(numbers, zip(*lists, strict=True), strict=True):
            rows.setdefault(number, []).append(values)
        self._fold(list(rows), map(gathered, rows.values()), None, [])

    def _fold(self, numbers: list[int], items: Iterable[Any], init: Callable[[Any], Any] | None, lists: Any) -> None:
        accumulators, combine = self.values, self.member.aggregation.aggregator.combine
        row = 0
        with self.member.where.calling_rows(lists, lambda: row):
            for row, (number, item) in enumerate(zip(numbers, items, strict=True)):  # noqa: B007
                value = item if init is None else init(item)
                stored = accumulators[number]
                accumulators[number] = value if stored is None else combine(stored, value)


class Fold:
    """Accumulators by key, fed with columns of tuples or of partial accumulators."""

    def __init__(self, spec: FoldSpec) -> None:
        self._spec = spec
        self._index = KeyIndex(spec.keys.types)
        self._folds = [Accumulators(member) for member in spec.members]

    def __len__(self) -> int:
        return len(self._index)

    def add_tuples(self, columns: Columns) -> None:
        """Fold tuples: their key fields and input fields are read."""
        numbers = self._numbers(columns)
        for fold in self._folds:
            fold.add_tuples(numbers, columns, len(self._index))

    def add_partials(self, columns: Columns) -> None:
        """Merge the results of other folds, in columns of `spec.schema`."""
        numbers = self._numbers(columns)
        for fold in self._folds:
            fold.add_partials(numbers, columns, len(self._index))

    def result(self) -> Columns:
        """Return every key with its accumulators."""
        accumulators = {fold.member.output: fold.member.column(fold.values) for fold in self._folds}
        return self._index.named(self._spec.keys.names).plus(accumulators)

    def _numbers(self, columns: Columns) -> list[int]:
        return self._index.numbers([columns[name] for name in self._spec.keys.names], columns.rows)


def folded(spec: FoldSpec, parts: Sequence[Columns]) -> Columns:
    """Return every key of these tuples with its accumulators, by a Python loop."""
    fold = Fold(spec)
    for part in parts:
        fold.add_tuples(part)
    return fold.result()


def folded_partials(spec: FoldSpec, partials: pa.Table) -> Columns:
    """Return every key of these partial accumulators with the merged ones, by a Python loop."""
    fold = Fold(spec)
    fold.add_partials(Columns.of(partials, spec.schema))
    return fold.result()
