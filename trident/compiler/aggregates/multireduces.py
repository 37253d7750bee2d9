"""Reducers over several streams. A reducer has a state for each partition, or for each group that has a tuple.

Both engines run the same `PartitionReducer`; the tuples of each DRPC request are reduced separately.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from trident.base.callsite import CallSite
from trident.base.errors import FailedException, UserFunctionError
from trident.base.generator_checks import check_ran
from trident.base.spark_types import arrow_schema, select
from trident.compiler.columns.columns import Column, Columns, concat, made_tuples
from trident.compiler.columns.function_errors import Calling, Where, described, short
from trident.compiler.columns.kernels import Work
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.compiler.columns.lifecycle import prepared
from trident.compiler.columns.operation_calls import ListCollector, output_table
from trident.compiler.columns.partitions import PARTITION, by_fields, parts
from trident.operations.checked_aggregators import SeparateValues
from trident.operations.context import OperationContext
from trident.operations.functions import Call, Operation
from trident.operations.tuples import tuple_type
from trident.plan.nodes import MultiReduce


@dataclass(frozen=True, slots=True, eq=False)
class ReduceSpec:
    """A reducer over several streams, in the form in which it is sent to workers."""

    step: str
    site: CallSite
    reducer: Any
    inputs: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    keys: pa.Schema
    """The group fields, under the names of the first stream."""
    outputs: pa.Schema

    @classmethod
    def of(cls, node: MultiReduce) -> "ReduceSpec":
        """Return the spec of this node."""
        keys = arrow_schema(select(node.sources[0].schema, node.groups[0])) if node.groups else pa.schema([])
        how, outputs = node.reduction, arrow_schema(node.schema)
        return cls(node.step, how.site, how.reducer, node.inputs, node.groups, keys, outputs)

    def where(self, inputs: tuple[str, ...] = ()) -> Where:
        """Return the call as errors name it: the step, the function and the fields that it reads."""
        return Where(self.step, self.site, inputs)


@contextmanager
def partition_reducer(spec: ReduceSpec, context: OperationContext) -> Iterator["PartitionReducer"]:
    """Yield the reducer of one partition.

    The user's `prepare` is called before it is yielded, and `cleanup` at the end, if they exist.
    """
    operation = Operation(spec.reducer, spec.site, Call.FUNCTION)
    works = [Work("each", spec.where(), operation, spec.outputs)]
    with prepared(works, context) as (ready,):
        assert ready.operation is not None
        yield PartitionReducer(replace(spec, reducer=ready.operation.target))


class PartitionReducer:
    """The user's reducer with its states of one partition. Tuples of any stream are added in any order."""

    def __init__(self, spec: ReduceSpec) -> None:
        self._spec = spec
        self._collector = ListCollector(spec.outputs.names)
        self._completed = False
        self._init = SeparateValues(spec.reducer.init)
        self._states: list[Any] = []
        self._groups: list[tuple[Any, ...]] = []
        self._index = KeyNumbers(spec.keys.types)
        self._makers = [tuple_type(inputs) for inputs in spec.inputs]
        self._group = tuple_type(tuple(spec.keys.names))

    def begin(self) -> None:
        """Create the state of the partition if there are no groups. That state exists even without a tuple."""
        self._index.numbers([], 1)
        self._add_state(())

    def add(self, stream: int, columns: Columns) -> None:
        """Reduce tuples of stream number `stream`. Only the stream's group fields and input fields are read."""
        spec, inputs = self._spec, self._spec.inputs[stream]
        names = spec.groups[stream] if spec.groups else ()
        numbers = self._index.numbers([columns[name] for name in names], columns.rows)
        groups = list(zip(*columns.lists(names), strict=True)) if names else []
        lists = columns.lists(inputs)
        make, execute, where = self._makers[stream], spec.reducer.execute, spec.where(inputs)
        states, collector = self._states, self._collector
        row = 0
        with where.calling_rows(lists, lambda: row):
            for row, (number, values) in enumerate(zip(numbers, made_tuples(make, lists, columns.rows), strict=True)):
                if number == len(states):
                    self._add_state(groups[row])
                returned = execute(states[number], stream, *self._groups[number], values, collector)
                if returned is not None:
                    what = (
                        f"returned {short(returned)} from execute(), which must return nothing: change the state "
                        f"in place"
                    )
                    raise where.error(f"{what}; {where.tuple_text(lists, row)}")

    def complete(self) -> None:
        """Call the user's `complete` for every state, after the last tuple."""
        complete, group = self._spec.reducer.complete, ()
        with Calling(lambda cause: self._failed(cause, "complete", group)):
            for state, group in zip(self._states, self._groups, strict=True):
                check_ran(complete(state, *group, self._collector), "write collector.emit([...])")
        self._completed = True

    def emitted(self, least: int = 1) -> Columns | None:
        """Return the tuples emitted since the last call; None if they are fewer than `least`."""
        rows = self._collector.emitted
        if self._completed:
            self._collector.close()
        if len(rows) < least:
            return None
        if not self._completed:
            self._collector.emitted = []
        return output_table(self._spec.where(), rows, self._spec.outputs, "emitted")

    def _add_state(self, values: tuple[Any, ...]) -> None:
        group = (self._group(values),) if self._spec.groups else ()
        try:  # not `Calling`: there may be as many groups as tuples, and entering a context costs more than most inits
            self._states.append(self._init(self._collector, *group))
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise self._failed(cause, "init", group) from cause
        self._groups.append(group)

    def _failed(self, cause: BaseException, method: str, group: tuple[Any, ...]) -> UserFunctionError:
        of = f" of group {short(tuple(group[0]))}" if group else ""
        return self._spec.where().error(f"{described(cause)} in {method}(){of}", cause)


# --- the embedded engine ----------------------------------------------------------------------------------------


def multi_reduced(
    node: MultiReduce,
    sources: Sequence[Columns],
    hidden: Sequence[str],
    requests: Columns | None,
    count: int | None,
    partitioned: bool,
    context: Callable[[int, int | None], OperationContext],
) -> Columns:
    """Return the tuples that the reducer emits, partition by partition, and within a partition request by request."""
    spec = ReduceSpec.of(node)
    if partitioned and node.groups:
        pairs = zip(node.sources, node.groups, sources, strict=True)
        sources = [by_fields(columns, names, arrow_schema(source.schema), count) for source, names, columns in pairs]
    by_partition = [dict(parts(columns)) for columns in sources]
    results = []
    for partition in range((count or 1) if partitioned else 1):
        tuples = [own.get(partition, columns.take([])) for own, columns in zip(by_partition, sources, strict=True)]
        for marks, request_tuples in _by_request(tuples, hidden, requests):
            emitted = _reduced(spec, request_tuples, context(partition, count))
            if partitioned:
                marks[PARTITION] = Column(pa.int32(), pa.array([partition], pa.int32()), None)
            results.append(emitted.plus({name: column.take([0] * emitted.rows) for name, column in marks.items()}))
    return concat(results)


def _by_request(
    sources: Sequence[Columns], hidden: Sequence[str], requests: Columns | None
) -> Iterator[tuple[dict[str, Column], list[Columns]]]:
    """Yield for each request a column with its number, and the request's tuples of each stream.

    Without requests, yield no column and all tuples.
    """
    if requests is None or not hidden:
        yield {}, list(sources)
        return
    (name,) = hidden
    for row, number in enumerate(requests[name].values()):
        yield {name: requests[name].take([row])}, [_of_request(columns, name, number) for columns in sources]


def _of_request(columns: Columns, name: str, number: Any) -> Columns:
    """Return the tuples of one request."""
    return columns.take([row for row, own in enumerate(columns[name].values()) if own == number])


def _reduced(spec: ReduceSpec, sources: Sequence[Columns], context: OperationContext) -> Columns:
    """Return the tuples that the reducer emits for one partition."""
    with partition_reducer(spec, context) as reducer:
        if not spec.groups:
            reducer.begin()
        for stream, columns in enumerate(sources):
            reducer.add(stream, columns)
        reducer.complete()
        emitted = reducer.emitted()
    return emitted or Columns({f.name: Column(f.type, pa.array([], f.type), None) for f in spec.outputs}, 0)
