"""State queries over columns: every tuple with what a state answers, in one read a step."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from trident.base.errors import FailedException
from trident.base.types import arrow_schema
from trident.base.values import NotAccepted, type_name
from trident.compiler.calls import ListCollector
from trident.compiler.columns import Column, Columns
from trident.compiler.failures import Where, short
from trident.compiler.keys import KeyIndex
from trident.compiler.shapes import shape_of
from trident.operations.tuples import tuple_type
from trident.plan.nodes import PersistentAggregate, StateQuery

Read = Callable[[PersistentAggregate, pa.Table], pa.Array]
"""Reads a state: a table of its key fields (no key twice; one row and no column for a global value) to one stored
accumulator a row, null where there is none."""

Answer = Callable[[Columns, Read], Columns]


def compile_query(step: StateQuery) -> Callable[[pa.Table, Read], pa.Table]:
    """A function from the tuples that enter a state query to the tuples that leave it."""
    entering, leaving, answer = arrow_schema(step.source.schema), arrow_schema(step.schema), answering(step)
    return lambda table, read: answer(Columns.of(table, entering), read).table(leaving)


def answering(step: StateQuery) -> Answer:
    """The same over columns, where hidden fields pass."""
    return _get(step) if step.query.get else _query(step)


def _get(step: StateQuery) -> Answer:
    """MapGet: whole columns, no object a tuple."""
    lookup = _Lookup(step)
    field = arrow_schema(step.outputs).field(0)

    def answer(columns: Columns, read: Read) -> Columns:
        if not columns.rows:
            return columns.plus({field.name: Column.made([], field.type)})
        found = lookup.columns([columns[name] for name in step.inputs], columns.rows, read)
        return columns.plus({field.name: found.cast(field.type)})

    return answer


def _query(step: StateQuery) -> Answer:
    """A user's QueryFunction: one batchRetrieve for all tuples, then execute for each."""
    lookup = _Lookup(step)
    outputs = arrow_schema(step.outputs)
    where = Where(step.step, step.query.site, step.inputs)
    maker = tuple_type(step.inputs)
    function = step.query.function

    def answer(columns: Columns, read: Read) -> Columns:
        if not columns.rows:
            return columns.plus({field.name: Column.made([], field.type) for field in outputs})
        lists = columns.lists(step.inputs)
        tuples = list(map(maker, zip(*lists, strict=True))) if lists else [maker(()) for _ in range(columns.rows)]
        results = _retrieved(where, function, ReadOnlyState(lookup, read), tuples)
        emitted: list[tuple[Any, ...]] = []
        origins: list[int] = []
        row = 0
        try:
            for row, (each, result) in enumerate(zip(tuples, results, strict=True)):  # noqa: B007
                collector = ListCollector(len(outputs))
                function.execute(each, result, collector)
                emitted += collector.emitted
                origins += [row] * len(collector.emitted)
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise where.raised(cause, lists, row) from cause
        made = {}
        for at, field in enumerate(outputs):
            try:
                made[field.name] = Column.made([values[at] for values in emitted], field.type)
            except NotAccepted as error:
                came = f"{short(error.value)} ({type(error.value).__name__})"
                what = f"{came} for field {field.name!r}, declared {type_name(field.type)}"
                raise where.gave(what, lists, origins[error.row], error.why) from None
        return columns.take(origins).plus(made)

    return answer


def _retrieved(where: Where, function: Any, state: "ReadOnlyState", tuples: Sequence[Any]) -> Sequence[Any]:
    try:
        results = list(function.batchRetrieve(state, tuples))
    except FailedException:
        raise
    except (Exception, SystemExit) as cause:
        raise where.error(f"raised {type(cause).__name__}: {cause} in batchRetrieve", cause) from cause
    if len(results) != len(tuples):
        raise where.error(f"gave {len(results)} results for {len(tuples)} tuples; batchRetrieve gives one for each")
    return results


class ReadOnlyState:
    """What a QueryFunction sees of a state (``org.apache.storm.trident.state.map.ReadOnlyMapState``)."""

    __slots__ = ("_lookup", "_read")

    def __init__(self, lookup: "_Lookup", read: Read) -> None:
        self._lookup, self._read = lookup, read

    def multiGet(self, keys: Sequence[Any]) -> list[Any]:
        """One value a key, None where nothing is stored. A key is a tuple or list of the key fields' values, or the
        value itself where there is one field."""
        return self._lookup.values(keys, self._read)

    def get(self) -> Any:
        """The value of a state without key fields."""
        return self._lookup.values([()], self._read)[0]


class _Lookup:
    """Reads one state for a step: each key once, and `present` applied to what is found."""

    def __init__(self, step: StateQuery) -> None:
        self.state = step.updated
        self.keys = shape_of(step.updated).keys
        self.present: Callable[[Any], Any] | None = getattr(step.updated.aggregation.aggregator, "present", None)
        self.where = Where(step.updated.step, step.updated.aggregation.site)
        self.kind = arrow_schema(step.outputs).field(0).type if step.query.get else None

    def values(self, keys: Sequence[Any], read: Read) -> list[Any]:
        width = len(self.keys)
        rows = [key if isinstance(key, tuple | list) else (key,) for key in keys]
        wrong = next((row for row in rows if len(row) != width), None)
        if wrong is not None:
            raise ValueError(
                f"the key {short(wrong)} has {len(wrong)} value(s), the state's has {width}: {self.keys.names}"
            )
        columns = [Column.made([row[at] for row in rows], field.type) for at, field in enumerate(self.keys)]
        return self.columns(columns, len(rows), read).values()

    def columns(self, columns: Sequence[Column], rows: int, read: Read) -> Column:
        """One value a row."""
        index = KeyIndex(self.keys.types)
        places = index.places([column.cast(field.type) for column, field in zip(columns, self.keys, strict=True)], rows)
        if self.keys.names:
            keys = Columns(dict(zip(self.keys.names, index.columns(), strict=True)), len(index)).table(self.keys)
        else:
            keys = Columns({}, 1).table(self.keys)
        found = self._presented(Column.of(read(self.state, keys)))
        return found if len(index) == rows and self.keys.names else found.take(places)

    def _presented(self, stored: Column) -> Column:
        if self.present is None:
            return stored
        try:
            shown = [None if value is None else self.present(value) for value in stored.values()]
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise self.where.error(f"raised {type(cause).__name__}: {cause} in present()", cause) from cause
        return Column.made(shown, self.kind) if self.kind is not None else Column(stored.kind, None, shown)
