"""Aggregators that see every tuple of a group: reducers, emitting aggregators, and pandas functions.

All tuples of a group are in one partition. Tuples are added as they come, and none is kept: each member keeps a state
for each group, and the tuples that it emits. Only a function over pandas objects has its tuples kept, because it sees
all tuples of a group in one call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from trident.base.generator_checks import check_ran
from trident.base.spark_types import arrow_schema, arrow_type
from trident.compiler.aggregates.column_combiners import Position
from trident.compiler.aggregates.folds import FoldMember, accumulators_of
from trident.compiler.columns.columns import Column, Columns, concat, made_tuples
from trident.compiler.columns.function_errors import Where, short
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.compiler.columns.operation_calls import ListCollector, output_column, output_table
from trident.operations.aggregators import Emitting, PandasAggregation, Reduction
from trident.operations.checked_aggregators import SeparateValues, reduce_value
from trident.operations.tuples import tuple_type


@dataclass(frozen=True, slots=True, eq=False)
class ReduceMember:
    """A reducer, in the form in which it is sent to workers.

    `presented_type` is the type of the values that its `present` returns; None if it has no `present`.
    """

    where: Where
    reduction: Reduction
    presented_type: pa.DataType | None = None

    def open(self, batch: int | None) -> "MemberRun":
        """Return a new run of this member over the groups of one batch."""
        return _ReduceRun(self)


@dataclass(frozen=True, slots=True, eq=False)
class EmitMember:
    """An Aggregator, in the form in which it is sent to workers."""

    where: Where
    emitting: Emitting

    def open(self, batch: int | None) -> "MemberRun":
        """Return a new run of this member over the groups of one batch."""
        return _EmitRun(self, batch)


@dataclass(frozen=True, slots=True, eq=False)
class PandasMember:
    """A function over pandas objects, in the form in which it is sent to workers. `inputs` are its input fields."""

    where: Where
    function: PandasAggregation
    inputs: pa.Schema

    def open(self, batch: int | None) -> "MemberRun":
        """Return a new run of this member over the groups of one batch."""
        return _PandasRun(self)


GatherMember = FoldMember | ReduceMember | EmitMember | PandasMember


@dataclass(frozen=True, slots=True, eq=False)
class GatherSpec:
    """Aggregators of any kind over the same groups, in the form in which they are sent to workers."""

    members: tuple[GatherMember, ...]
    keys: pa.Schema
    leaving: pa.Schema
    """The key fields, then the output fields of each member."""
    batch: int | None = None
    """The batch's txid; None for requests."""


class MemberRun(Protocol):
    """The run of one aggregator of a chain over the groups of one batch."""

    def grow(self, count: int) -> None:
        """Begin the groups with numbers below `count` that have not begun."""
        ...

    def add(self, numbers: list[int], columns: Columns) -> None:
        """Add tuples. `numbers` are the numbers of their groups, which have all begun."""
        ...

    def result(self) -> tuple[list[Column], list[int] | None]:
        """Return the member's output fields, group after group, and the number of rows of each group.

        None in place of the numbers of rows: each group has one.
        """
        ...


class Gather:
    """The aggregation of the groups of one batch. Columns of tuples are added to it."""

    def __init__(self, spec: GatherSpec) -> None:
        self._spec = spec
        self._index = KeyNumbers(spec.keys.types)
        self._runs = [_opened(member, spec.batch) for member in spec.members]

    def expect(self, keys: Columns) -> None:
        """Begin the groups of `keys`. They have a result even without a tuple."""
        self._numbered(keys)

    def add(self, columns: Columns) -> None:
        """Add tuples. Only their key fields and input fields are read."""
        numbers = self._numbered(columns)
        for run in self._runs:
            run.add(numbers, columns)

    def result(self) -> Columns:
        """Return the results of all groups.

        If there are several members, return all combinations of their results per group.

        The results of the last member change fastest. Without key fields there is one group, even without a tuple.
        """
        if not self._spec.keys.names and not len(self._index):
            self._numbered(Columns({}, 1))
        results = [run.result() for run in self._runs]
        groups, member_rows = self._combined([counts for _, counts in results])
        fields = [column if groups is None else column.take(groups) for column in self._index.columns()]
        for (columns, _), rows in zip(results, member_rows, strict=True):
            fields += columns if rows is None else [column.take(rows) for column in columns]
        total = len(self._index) if groups is None else len(groups)
        return Columns(dict(zip(self._spec.leaving.names, fields, strict=True)), total)

    def _numbered(self, columns: Columns) -> list[int]:
        numbers = self._index.numbers([columns[name] for name in self._spec.keys.names], columns.rows)
        for run in self._runs:
            run.grow(len(self._index))
        return numbers

    def _combined(self, counts: Sequence[list[int] | None]) -> tuple[list[int] | None, list[list[int] | None]]:
        """Return for each result tuple the number of its group, and the row of each member's output that it contains.

        `counts` has for each member its numbers of rows by group. None in place of a returned list stands for 0, 1, 2
        ..., so that no row has to be moved or repeated.
        """
        if all(count is None for count in counts):
            return None, [None for _ in counts]
        if len(counts) == 1:
            (only,) = counts
            return [group for group, rows in enumerate(only or ()) for _ in range(rows)], [None]
        groups: list[int] = []
        member_rows: list[list[int]] = [[] for _ in counts]
        begins = [0] * len(counts)
        for group in range(len(self._index)):
            ends = [begin + (1 if c is None else c[group]) for begin, c in zip(begins, counts, strict=True)]
            for rows in product(*map(range, begins, ends)):
                groups.append(group)
                for own, row in zip(member_rows, rows, strict=True):
                    own.append(row)
            begins = ends
        return groups, list(member_rows)


def _opened(member: GatherMember, batch: int | None) -> MemberRun:
    return _FoldRun(member, batch) if isinstance(member, FoldMember) else member.open(batch)


class _FoldRun:
    """The run of a combiner in a chain with members that must see every tuple."""

    def __init__(self, member: FoldMember, batch: int | None) -> None:
        self._member = member
        self._fold = accumulators_of(member, few=True)
        self._count = 0
        self._position = Position(batch or 0)
        self._seen: set[int] = set()

    def grow(self, count: int) -> None:
        self._count = count

    def add(self, numbers: list[int], columns: Columns) -> None:
        self._fold.add_tuples(numbers, columns, self._count, self._position)
        self._position = self._position._replace(at=self._position.at + columns.rows)
        self._seen.update(numbers)

    def result(self) -> tuple[list[Column], list[int] | None]:
        member, folded = self._member, self._fold.values
        values = [folded[number] if number in self._seen else member.zero() for number in range(self._count)]
        return [member.presented(member.column(values))], None


class _ReduceRun:
    """The run of a reducer: one value for each group."""

    def __init__(self, member: ReduceMember) -> None:
        self._member = member
        self._make = tuple_type(member.where.inputs)
        self._init = SeparateValues(member.reduction.aggregator.init)
        self._values: list[Any] = []

    def grow(self, count: int) -> None:
        init = self._init
        with self._member.where.calling("init()"):
            self._values.extend(init() for _ in range(count - len(self._values)))

    def add(self, numbers: list[int], columns: Columns) -> None:
        where, states = self._member.where, self._values
        reduce = partial(reduce_value, self._member.reduction.aggregator)
        lists = columns.lists(where.inputs)
        tuples = made_tuples(self._make, lists, columns.rows)
        row = 0
        with where.calling_rows(lists, lambda: row):
            for row, (number, values) in enumerate(zip(numbers, tuples, strict=True)):  # noqa: B007
                states[number] = reduce(states[number], values)

    def result(self) -> tuple[list[Column], list[int] | None]:
        reduction, where, presented_type = self._member.reduction, self._member.where, self._member.presented_type
        if presented_type is None:
            return [output_column(where, self._values, pa.field(reduction.output, arrow_type(reduction.type)))], None
        present = reduction.aggregator.present  # type: ignore[attr-defined]
        with where.calling("present()"):
            values = [None if value is None else present(value) for value in self._values]
        return [output_column(where, values, pa.field(reduction.output, presented_type))], None


class _EmitRun:
    """The run of an Aggregator: a state and a collector for each group."""

    def __init__(self, member: EmitMember, batch: int | None) -> None:
        self._member = member
        self._batch = batch
        self._make = tuple_type(member.where.inputs)
        self._init = SeparateValues(member.emitting.aggregator.init)
        self._outputs = arrow_schema(member.emitting.outputs)
        self._groups: list[tuple[Any, ListCollector]] = []

    def grow(self, count: int) -> None:
        init, names = self._init, self._outputs.names
        with self._member.where.calling("init()"):
            while len(self._groups) < count:
                collector = ListCollector(names)
                self._groups.append((init(self._batch, collector), collector))

    def add(self, numbers: list[int], columns: Columns) -> None:
        where, groups, aggregate = self._member.where, self._groups, self._member.emitting.aggregator.aggregate
        lists = columns.lists(where.inputs)
        tuples = made_tuples(self._make, lists, columns.rows)
        row, returned = 0, None
        with where.calling_rows(lists, lambda: row):
            for row, (number, values) in enumerate(zip(numbers, tuples, strict=True)):  # noqa: B007
                state, collector = groups[number]
                returned = aggregate(state, values, collector)
                if returned is not None:
                    break
        if returned is not None:
            hint = "change the state in place (use a list or an object): the return value of aggregate is ignored"
            raise where.gave(f"{short(returned)} from aggregate()", lists, row, hint)

    def result(self) -> tuple[list[Column], list[int] | None]:
        where, complete = self._member.where, self._member.emitting.aggregator.complete
        with where.calling("complete()"):
            for state, collector in self._groups:
                check_ran(complete(state, collector), "write collector.emit([...])")
        by_group = [collector.close() for _, collector in self._groups]
        emitted = output_table(where, [values for rows in by_group for values in rows], self._outputs)
        columns = [emitted[name] for name in emitted.names]
        return columns, [len(rows) for rows in by_group]


class _PandasRun:
    """The run of a function over pandas objects: one call for each group."""

    def __init__(self, member: PandasMember) -> None:
        self._member = member
        self._count = 0
        self._numbers: list[int] = []
        self._parts: list[Columns] = []

    def grow(self, count: int) -> None:
        self._count = count

    def add(self, numbers: list[int], columns: Columns) -> None:
        if numbers:
            self._numbers += numbers
            self._parts.append(columns.select(self._member.inputs.names))

    def result(self) -> tuple[list[Column], list[int] | None]:
        function, where = self._member.function, self._member.where
        # Only here, since pandas takes long to import, and every worker would pay for it.
        from trident.compiler.columns.pandas_calls import call_pandas, value_column

        values = [call_pandas(function.aggregator, function.call, where, group) for group in self._groups()]
        field = pa.field(function.output, arrow_type(function.type))
        return [value_column(where, values, field)], None

    def _groups(self) -> Iterator[Columns]:
        """Yield the tuples of each group, in the order in which they arrived."""
        inputs = self._member.inputs
        together = concat(self._parts) if self._parts else Columns.of(inputs.empty_table(), inputs)
        numbers = np.asarray(self._numbers, np.int64)
        order = np.argsort(numbers, kind="stable")
        arrays = {name: together[name].array().take(pa.array(order)) for name in together.names}
        ends = np.searchsorted(numbers[order], np.arange(self._count), "right").tolist()
        for start, end in pairwise([0, *ends]):
            yield Columns({name: Column.of(array[start:end]) for name, array in arrays.items()}, end - start)
