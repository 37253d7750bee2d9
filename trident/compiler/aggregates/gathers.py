"""Aggregators that see every tuple of a group: reducers, and those that emit any number of tuples.

All tuples of a group have come to one place. They are taken in as they come, no tuple is kept; a group's members keep
a state each, and what they emit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import pyarrow as pa

from trident.base.errors import FailedException
from trident.base.types import arrow_schema, arrow_type
from trident.compiler.aggregates.folds import Accumulators, FoldMember, output_column
from trident.compiler.columns.calls import ListCollector
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.failures import Where, short
from trident.compiler.columns.keys import KeyIndex
from trident.operations.aggregators import Emitting, Reduction
from trident.operations.tuples import tuple_type


@dataclass(frozen=True, slots=True, eq=False)
class ReduceMember:
    """A reducer as it travels to the workers. `shown` is the type of what it presents, if it does."""

    where: Where
    reduction: Reduction
    shown: pa.DataType | None = None

    def open(self, batch: int | None) -> "Run":
        """A run over one batch."""
        return _Reducing(self)


@dataclass(frozen=True, slots=True, eq=False)
class EmitMember:
    """An Aggregator as it travels to the workers."""

    where: Where
    emitting: Emitting

    def open(self, batch: int | None) -> "Run":
        """A run over one batch."""
        return _Emitting(self, batch)


@dataclass(frozen=True, slots=True, eq=False)
class GatherSpec:
    """Aggregators of any kind over the same groups."""

    members: tuple[FoldMember | ReduceMember | EmitMember, ...]
    keys: pa.Schema
    leaving: pa.Schema
    """The key fields, then what each member gives."""
    batch: int | None = None
    """The batch's txid; None for requests."""


class Run(Protocol):
    """One member over the groups of one batch."""

    def grow(self, count: int) -> None:
        """Begin every group below `count` that has not begun."""
        ...

    def add(self, places: list[int], columns: Columns) -> None:
        """Take in tuples whose groups have these numbers and have begun."""
        ...

    def result(self) -> tuple[list[Column], list[int] | None]:
        """The output fields of all groups, group after group; how many tuples each group has (None: one each)."""
        ...


class Gather:
    """The groups of one batch, fed with columns of tuples."""

    def __init__(self, spec: GatherSpec) -> None:
        self._spec = spec
        self._index = KeyIndex(spec.keys.types)
        self._runs = [_opened(member, spec.batch) for member in spec.members]

    def expect(self, keys: Columns) -> None:
        """Groups that are there also without a tuple."""
        self._begun(keys)

    def add(self, columns: Columns) -> None:
        """Take in tuples: their key fields and input fields are read."""
        places = self._begun(columns)
        for run in self._runs:
            run.add(places, columns)

    def result(self) -> Columns:
        """What the members give: of several, every combination within a group, the last one's tuples fastest. Without
        key fields there is one group, also of nothing."""
        if not self._spec.keys.names and not len(self._index):
            self._begun(Columns({}, 1))
        results = [run.result() for run in self._runs]
        groups, places = self._combined([counts for _, counts in results])
        found = [column if groups is None else column.take(groups) for column in self._keys()]
        for (columns, _), rows in zip(results, places, strict=True):
            found += columns if rows is None else [column.take(rows) for column in columns]
        left = len(self._index) if groups is None else len(groups)
        return Columns(dict(zip(self._spec.leaving.names, found, strict=True)), left)

    def _begun(self, columns: Columns) -> list[int]:
        places = self._index.places([columns[name] for name in self._spec.keys.names], columns.rows)
        for run in self._runs:
            run.grow(len(self._index))
        return places

    def _keys(self) -> list[Column]:
        return self._index.columns() if self._spec.keys.names else []

    def _combined(self, counts: Sequence[list[int] | None]) -> tuple[list[int] | None, list[list[int] | None]]:
        """For each tuple that leaves its group, and of each member the row that it is made of; None: as they are."""
        if all(count is None for count in counts):
            return None, [None for _ in counts]
        if len(counts) == 1:
            (only,) = counts
            return [group for group, rows in enumerate(only or ()) for _ in range(rows)], [None]
        groups: list[int] = []
        places: list[list[int]] = [[] for _ in counts]
        begins = [0] * len(counts)
        for group in range(len(self._index)):
            ends = [begin + (1 if c is None else c[group]) for begin, c in zip(begins, counts, strict=True)]
            for rows in product(*map(range, begins, ends)):
                groups.append(group)
                for place, row in zip(places, rows, strict=True):
                    place.append(row)
            begins = ends
        return groups, list(places)


def _opened(member: FoldMember | ReduceMember | EmitMember, batch: int | None) -> Run:
    return _Folding(member) if isinstance(member, FoldMember) else member.open(batch)


class _Folding:
    """A combiner among others that see every tuple."""

    def __init__(self, member: FoldMember) -> None:
        self._fold = Accumulators(member)
        self._count = 0
        self._seen: set[int] = set()

    def grow(self, count: int) -> None:
        self._count = count

    def add(self, places: list[int], columns: Columns) -> None:
        self._fold.add_tuples(places, columns, self._count)
        self._seen.update(places)

    def result(self) -> tuple[list[Column], list[int] | None]:
        member, folded = self._fold.member, self._fold.values
        values = [folded[place] if place in self._seen else member.zero() for place in range(self._count)]
        return [member.presented(member.column(values))], None


class _Reducing:
    """A reducer: a value a group."""

    def __init__(self, member: ReduceMember) -> None:
        self._member = member
        self._tuples = tuple_type(member.where.inputs)
        self._values: list[Any] = []

    def grow(self, count: int) -> None:
        init = self._member.reduction.aggregator.init
        try:
            self._values.extend(init() for _ in range(count - len(self._values)))
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise _raised_in("init()", self._member.where, cause) from cause

    def add(self, places: list[int], columns: Columns) -> None:
        where, values, reduce = self._member.where, self._values, self._member.reduction.aggregator.reduce
        lists = columns.lists(where.inputs)
        tuples = map(self._tuples, zip(*lists, strict=True)) if lists else (self._tuples(()) for _ in places)
        row = 0
        try:
            for row, (place, each) in enumerate(zip(places, tuples, strict=True)):  # noqa: B007
                values[place] = reduce(values[place], each)
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise where.raised(cause, lists, row) from cause

    def result(self) -> tuple[list[Column], list[int] | None]:
        reduction, where, shown = self._member.reduction, self._member.where, self._member.shown
        if shown is None:
            return [output_column(where, self._values, reduction.output, arrow_type(reduction.type))], None
        present = reduction.aggregator.present  # type: ignore[attr-defined]
        try:
            values = [None if value is None else present(value) for value in self._values]
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise _raised_in("present()", where, cause) from cause
        return [output_column(where, values, reduction.output, shown)], None


class _Emitting:
    """An Aggregator: a state and a collector a group."""

    def __init__(self, member: EmitMember, batch: int | None) -> None:
        self._member = member
        self._batch = batch
        self._tuples = tuple_type(member.where.inputs)
        self._outputs = arrow_schema(member.emitting.outputs)
        self._groups: list[tuple[Any, ListCollector]] = []

    def grow(self, count: int) -> None:
        init, width = self._member.emitting.aggregator.init, len(self._outputs)
        try:
            while len(self._groups) < count:
                collector = ListCollector(width)
                self._groups.append((init(self._batch, collector), collector))
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise _raised_in("init()", self._member.where, cause) from cause

    def add(self, places: list[int], columns: Columns) -> None:
        where, groups, aggregate = self._member.where, self._groups, self._member.emitting.aggregator.aggregate
        lists = columns.lists(where.inputs)
        tuples = map(self._tuples, zip(*lists, strict=True)) if lists else (self._tuples(()) for _ in places)
        row, returned = 0, None
        try:
            for row, (place, each) in enumerate(zip(places, tuples, strict=True)):  # noqa: B007
                state, collector = groups[place]
                returned = aggregate(state, each, collector)
                if returned is not None:
                    break
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise where.raised(cause, lists, row) from cause
        if returned is not None:
            hint = "change the state in place, a list or an object: what aggregate returns is nobody's"
            raise where.gave(f"{short(returned)} back from aggregate()", lists, row, hint)

    def result(self) -> tuple[list[Column], list[int] | None]:
        where, complete = self._member.where, self._member.emitting.aggregator.complete
        try:
            for state, collector in self._groups:
                complete(state, collector)
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise _raised_in("complete()", where, cause) from cause
        emitted = [values for _, collector in self._groups for values in collector.emitted]
        columns = [
            output_column(where, [values[at] for values in emitted], field.name, field.type)
            for at, field in enumerate(self._outputs)
        ]
        return columns, [len(collector.emitted) for _, collector in self._groups]


def _raised_in(method: str, where: Where, cause: BaseException) -> Exception:
    return where.error(f"raised {type(cause).__name__}: {cause} in {method}", cause)
