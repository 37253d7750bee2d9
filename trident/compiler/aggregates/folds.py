"""Combiners over columns: tuples become partial accumulators, partial accumulators meet.

``init`` and ``combine`` are called as Trident does it: a null accumulator takes what comes as it is. Several combiners
over the same groups share the work on the keys. Where Arrow's grouping says the same, ``arrow_folds`` takes over.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trident.base.errors import FailedException
from trident.base.types import arrow_type
from trident.base.values import NotAccepted, type_name
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.failures import Where, short
from trident.compiler.columns.keys import KeyIndex
from trident.operations.aggregators import Aggregation
from trident.operations.builtin_aggregators import BuiltinAggregator
from trident.operations.tuples import tuple_type


@dataclass(frozen=True, slots=True, eq=False)
class FoldMember:
    """One combiner as it travels to the workers. `shown` is the type of what it presents in the end; None where its
    accumulators are what leaves."""

    where: Where
    aggregation: Aggregation
    shown: pa.DataType | None = None

    @property
    def output(self) -> str:
        """The output field."""
        return self.aggregation.output

    @property
    def kind(self) -> pa.DataType:
        """The accumulator's type."""
        return arrow_type(self.aggregation.type)

    def zero(self) -> Any:
        """The accumulator of no tuple."""
        try:
            return self.aggregation.aggregator.zero()
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise self.where.error(f"raised {type(cause).__name__}: {cause} in zero()", cause) from cause

    def column(self, values: list[Any]) -> Column:
        """Accumulators as a column; an error names the one that is not of the declared type."""
        return output_column(self.where, values, self.output, self.kind)

    def presented(self, accumulators: Column) -> Column:
        """What leaves in the end. A null is presented as null."""
        if self.shown is None:
            return accumulators
        present = self.aggregation.aggregator.present  # type: ignore[attr-defined]
        try:
            values = [None if value is None else present(value) for value in accumulators.values()]
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise self.where.error(f"raised {type(cause).__name__}: {cause} in present()", cause) from cause
        return output_column(self.where, values, self.output, self.shown)


def output_column(where: Where, values: list[Any], output: str, kind: pa.DataType) -> Column:
    """What a user's aggregator gave as a column; an error names the value that is not of the declared type."""
    try:
        return Column.made(values, kind)
    except NotAccepted as error:
        what = f"gave {short(error.value)} ({type(error.value).__name__}) for field {output!r}"
        hint = f" ({error.why})" if error.why else ""
        raise where.error(f"{what}, declared {type_name(kind)}{hint}") from None


@dataclass(frozen=True, slots=True, eq=False)
class FoldSpec:
    """Combiners over the same groups."""

    members: tuple[FoldMember, ...]
    keys: pa.Schema
    schema: pa.Schema
    """The key fields, then each accumulator under its output's name."""

    @classmethod
    def of(cls, keys: pa.Schema, *members: FoldMember) -> "FoldSpec":
        """The spec of these members over these key fields."""
        return cls(members, keys, pa.schema([*keys, *(pa.field(each.output, each.kind) for each in members)]))

    @property
    def leaving(self) -> pa.Schema:
        """The key fields, then what is presented in the end."""
        return pa.schema([*self.keys, *(pa.field(each.output, each.shown or each.kind) for each in self.members)])

    def zeros(self, rows: int = 1) -> Columns:
        """The accumulators of no tuple, without keys, in so many rows."""
        return Columns({each.output: each.column([each.zero() for _ in range(rows)]) for each in self.members}, rows)

    def presented(self, folded: Columns) -> Columns:
        """What leaves in the end, of columns of `schema`."""
        return folded.plus({m.output: m.presented(folded[m.output]) for m in self.members if m.shown is not None})


class Accumulators:
    """One combiner's accumulators, by the number of their key."""

    __slots__ = ("member", "values", "_tuples")

    def __init__(self, member: FoldMember) -> None:
        self.member = member
        self.values: list[Any] = []
        self._tuples = tuple_type(member.where.inputs)

    def add_tuples(self, places: list[int], columns: Columns, count: int) -> None:
        """Fold tuples whose keys have these numbers, all below `count`."""
        aggregator = self.member.aggregation.aggregator
        self._grow(count)
        if self.member.aggregation.native == "count":
            self._count(places)
            return
        lists = columns.lists(self.member.where.inputs)
        if isinstance(aggregator, BuiltinAggregator) and aggregator.gathers:
            self._gather(places, lists, aggregator.gathered)
            return
        tuples = map(self._tuples, zip(*lists, strict=True)) if lists else (self._tuples(()) for _ in places)
        self._fold(places, tuples, aggregator.init, lists)

    def add_partials(self, places: list[int], columns: Columns, count: int) -> None:
        """Fold accumulators whose keys have these numbers, all below `count`."""
        self._grow(count)
        self._fold(places, columns[self.member.output].values(), None, [])

    def _grow(self, count: int) -> None:
        nothing = 0 if self.member.aggregation.native == "count" else None
        self.values.extend([nothing] * (count - len(self.values)))

    def _count(self, places: list[int]) -> None:
        counts = self.values
        for place in places:
            counts[place] += 1

    def _gather(self, places: list[int], lists: list[list[Any]], gathered: Callable[[list[Any]], Any]) -> None:
        """Fold all tuples of a key at once."""
        rows: dict[int, list[Any]] = {}
        for place, values in zip(places, zip(*lists, strict=True), strict=True):
            rows.setdefault(place, []).append(values)
        self._fold(list(rows), map(gathered, rows.values()), None, [])

    def _fold(self, places: list[int], items: Iterable[Any], init: Callable[[Any], Any] | None, lists: Any) -> None:
        accumulators, combine = self.values, self.member.aggregation.aggregator.combine
        row = 0
        try:
            for row, (place, item) in enumerate(zip(places, items, strict=True)):  # noqa: B007
                value = item if init is None else init(item)
                stored = accumulators[place]
                accumulators[place] = value if stored is None else combine(stored, value)
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise self.member.where.raised(cause, lists, row) from cause


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
        places = self._places(columns)
        for fold in self._folds:
            fold.add_tuples(places, columns, len(self._index))

    def add_partials(self, columns: Columns) -> None:
        """Fold what other folds came to, in columns of `spec.schema`."""
        places = self._places(columns)
        for fold in self._folds:
            fold.add_partials(places, columns, len(self._index))

    def result(self) -> Columns:
        """Every key with its accumulators."""
        names = self._spec.keys.names
        columns = dict(zip(names, self._index.columns(), strict=True)) if names else {}
        columns |= {fold.member.output: fold.member.column(fold.values) for fold in self._folds}
        return Columns(columns, len(self._index))

    def _places(self, columns: Columns) -> list[int]:
        return self._index.places([columns[name] for name in self._spec.keys.names], columns.rows)


def folded(spec: FoldSpec, parts: Sequence[Columns]) -> Columns:
    """Every key of these tuples with its accumulators, by a Python loop."""
    fold = Fold(spec)
    for part in parts:
        fold.add_tuples(part)
    return fold.result()


def folded_partials(spec: FoldSpec, partials: pa.Table) -> Columns:
    """Every key of these partial accumulators with what they come to, by a Python loop."""
    fold = Fold(spec)
    fold.add_partials(Columns.of(partials, spec.schema))
    return fold.result()
