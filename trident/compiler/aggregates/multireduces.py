"""A reducer over the tuples of several streams: one state for each partition, or for each group that has a tuple.

Both engines run the same `Reducing`; a request's tuples are a group by themselves.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from trident.base.callsite import CallSite
from trident.base.errors import FailedException, UserFunctionError
from trident.base.types import arrow_schema, select
from trident.base.values import NotAccepted, type_name
from trident.compiler.columns.calls import ListCollector
from trident.compiler.columns.columns import Column, Columns, concat
from trident.compiler.columns.failures import Where, short
from trident.compiler.columns.kernels import Work
from trident.compiler.columns.keys import KeyIndex
from trident.compiler.columns.lifecycle import prepared
from trident.compiler.columns.partitions import PARTITION, by_fields, parts
from trident.operations.context import OperationContext
from trident.operations.functions import Call, Operation
from trident.operations.tuples import tuple_type
from trident.plan.nodes import MultiReduce

_PLACE_KIND = pa.int32()


@dataclass(frozen=True, slots=True, eq=False)
class ReduceSpec:
    """One reducer as it travels to the workers."""

    step: str
    site: CallSite
    reducer: Any
    inputs: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    keys: pa.Schema
    """The group fields, under the first stream's names."""
    outputs: pa.Schema

    @classmethod
    def of(cls, node: MultiReduce) -> "ReduceSpec":
        """What a step asks of its reducer."""
        keys = arrow_schema(select(node.sources[0].schema, node.groups[0])) if node.groups else pa.schema([])
        how, outputs = node.reduction, arrow_schema(node.schema)
        return cls(node.step, how.site, how.reducer, node.inputs, node.groups, keys, outputs)

    def where(self, inputs: tuple[str, ...] = ()) -> Where:
        """Whose call an error is about."""
        return Where(self.step, self.site, inputs)


@contextmanager
def reducing(spec: ReduceSpec, place: int, count: int | None) -> Iterator["Reducing"]:
    """The reducer of one partition, between its prepare and its cleanup where it has any."""
    operation = Operation(spec.reducer, spec.site, Call.FUNCTION)
    works = [Work("each", spec.where(), operation, spec.outputs)]
    with prepared(works, OperationContext(place, count)) as (ready,):
        assert ready.operation is not None
        yield Reducing(replace(spec, reducer=ready.operation.target))


class Reducing:
    """The states of one partition, fed with the tuples of any stream in any order."""

    def __init__(self, spec: ReduceSpec) -> None:
        self._spec = spec
        self._collector = ListCollector(len(spec.outputs))
        self._states: list[Any] = []
        self._groups: list[tuple[Any, ...]] = []
        self._index = KeyIndex(spec.keys.types)
        self._makers = [tuple_type(inputs) for inputs in spec.inputs]
        self._group = tuple_type(tuple(spec.keys.names))

    def begin(self) -> None:
        """Make the state of a partition, which is there without a tuple too."""
        self._index.places([], 1)
        self._state(())

    def add(self, stream: int, columns: Columns) -> None:
        """Tuples of the stream at this place: its group fields and input fields are read."""
        spec, inputs = self._spec, self._spec.inputs[stream]
        names = spec.groups[stream] if spec.groups else ()
        places = self._index.places([columns[name] for name in names], columns.rows)
        groups = list(zip(*columns.lists(names), strict=True)) if names else []
        lists = columns.lists(inputs)
        make, execute = self._makers[stream], spec.reducer.execute
        tuples = map(make, zip(*lists, strict=True)) if lists else (make(()) for _ in places)
        states, collector = self._states, self._collector
        row = 0
        for row, (place, each) in enumerate(zip(places, tuples, strict=True)):
            if place == len(states):
                self._state(groups[row])
            try:
                given = execute(states[place], stream, *self._groups[place], each, collector)
            except FailedException:
                raise
            except (Exception, SystemExit) as cause:
                raise spec.where(inputs).raised(cause, lists, row) from cause
            if given is not None:
                what = f"gave {short(given)} in execute(), which gives nothing: it changes the state in place"
                raise spec.where(inputs).error(f"{what}; {spec.where(inputs).tuple_text(lists, row)}")

    def complete(self) -> None:
        """There are no more tuples."""
        complete = self._spec.reducer.complete
        for state, group in zip(self._states, self._groups, strict=True):
            self._called("complete", group, complete, state, *group, self._collector)

    def emitted(self, least: int = 0) -> Columns | None:
        """What was emitted since this was last asked; None where it is less than this."""
        rows = self._collector.emitted
        if len(rows) < max(least, 1):
            return None
        self._collector.emitted = []
        values = zip(*rows, strict=True)
        fields = zip(self._spec.outputs, values, strict=True)
        return Columns({field.name: self._column(list(column), field) for field, column in fields}, len(rows))

    def _state(self, values: tuple[Any, ...]) -> None:
        group = (self._group(values),) if self._spec.groups else ()
        self._states.append(self._called("init", group, self._spec.reducer.init, self._collector, *group))
        self._groups.append(group)

    def _called(self, name: str, group: tuple[Any, ...], method: Any, *args: Any) -> Any:
        try:
            return method(*args)
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            of = f" of group {short(tuple(group[0]))}" if group else ""
            what = f"raised {type(cause).__name__}: {cause} in {name}(){of}"
            raise self._spec.where().error(what, cause) from cause

    def _column(self, values: list[Any], field: pa.Field) -> Column:
        try:
            return Column.made(values, field.type)
        except NotAccepted as error:
            raise self._mistyped(error, field) from None

    def _mistyped(self, error: NotAccepted, field: pa.Field) -> UserFunctionError:
        came = f"{short(error.value)} ({type(error.value).__name__}) for field {field.name!r}"
        hint = f" ({error.why})" if error.why else ""
        return self._spec.where().error(f"emitted {came}, declared {type_name(field.type)}{hint}")


# --- the driver-side engine ----------------------------------------------------------------------------------------


def multi_reduced(
    node: MultiReduce,
    sources: Sequence[Columns],
    hidden: Sequence[str],
    requests: Columns | None,
    count: int | None,
    placed: bool,
) -> Columns:
    """What the reducer emits, partition by partition, and request by request where several share a pass."""
    spec = ReduceSpec.of(node)
    if placed and node.groups:
        pairs = zip(node.sources, node.groups, sources, strict=True)
        sources = [by_fields(columns, names, arrow_schema(source.schema), count) for source, names, columns in pairs]
    by_place = [dict(parts(columns)) for columns in sources]
    found = []
    for place in range((count or 1) if placed else 1):
        here = [there.get(place, columns.take([])) for there, columns in zip(by_place, sources, strict=True)]
        for mark, tuples in _by_request(here, hidden, requests):
            made = _reduced(spec, tuples, place, count)
            if placed:
                mark[PARTITION] = Column(_PLACE_KIND, pa.array([place], _PLACE_KIND), None)
            found.append(made.plus({name: column.take([0] * made.rows) for name, column in mark.items()}))
    return concat(found)


def _by_request(
    sources: Sequence[Columns], hidden: Sequence[str], requests: Columns | None
) -> Iterator[tuple[dict[str, Column], list[Columns]]]:
    """The tuples of every request with what marks them; all of them where there are no requests."""
    if requests is None or not hidden:
        yield {}, list(sources)
        return
    (name,) = hidden
    for row, number in enumerate(requests[name].values()):
        yield {name: requests[name].take([row])}, [_where(columns, name, number) for columns in sources]


def _where(columns: Columns, name: str, number: Any) -> Columns:
    """The tuples of one request."""
    return columns.take([row for row, each in enumerate(columns[name].values()) if each == number])


def _reduced(spec: ReduceSpec, sources: Sequence[Columns], place: int, count: int | None) -> Columns:
    """The reducer over one partition."""
    with reducing(spec, place, count) as reducer:
        if not spec.groups:
            reducer.begin()
        for stream, columns in enumerate(sources):
            reducer.add(stream, columns)
        reducer.complete()
        found = reducer.emitted()
    return found or Columns({f.name: Column(f.type, pa.array([], f.type), None) for f in spec.outputs}, 0)
