"""Python operations as plain functions over columns. They are compiled once, and both engines use them.

Adjacent Python operations are one kernel: a field becomes a Python list once, however many functions read the field,
and a field that no later operation reads is dropped right after its last reader.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyarrow import types as kinds

from trident.base.spark_types import arrow_schema
from trident.base.stream_fields import split_schema
from trident.compiler.columns.columns import Column, Columns, Kernel, are_few, stretches_without
from trident.compiler.columns.dead_letters import Caught, Letters
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.operation_calls import CallKernel, action, emitter, predicate
from trident.compiler.columns.skipping_kernels import catching_kernel
from trident.compiler.columns.splits import Streams, splitting
from trident.operations.column_functions import ColumnFunction, PartlyColumns
from trident.operations.functions import Call, Operation
from trident.operations.json_values import columns_of
from trident.plan.nodes import Each, Filter, Map, Node, ParallelismHint, Peek, Project, Split

if TYPE_CHECKING:
    from trident.compiler.columns.pandas_calls import PandasKernel


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One Python operation in the form in which it is sent to workers: the call, without its node and sources."""

    verb: Literal["each", "filter", "map", "peek", "project", "split"]
    where: Where
    operation: Operation | None
    outputs: pa.Schema
    """The fields that the operation adds (each), returns as the new tuple (map, split) or keeps (project)."""
    streams: Streams = ()
    """The streams that a split sends tuples to."""
    caught: Caught | None = None
    renamed: tuple[tuple[str, str], ...] = ()
    """The fields that a project renames, as (new name, old name)."""
    by_spark: bool = False
    """True if Spark can do the work by itself: a project, or a function of the library that has a form in SQL."""

    def before(self, after: set[str]) -> set[str]:
        """Return the input fields that the operation needs in order to return the output fields in `after`."""
        if self.renamed:
            entering = dict(self.renamed)
            return {entering.get(name, name) for name in after}
        added = self.outputs.names if self.verb in ("each", "map", "split") else ()
        whole = self.caught.fields.names if self.caught is not None and self.caught.dead else ()
        return (after - set(added)) | {*self.where.inputs, *whole}


def work_of(node: Node) -> Work | None:
    """Return the work of a node; None if the node is not a Python operation on one source."""
    match node:
        case Each(inputs=inputs, function=operation, outputs=outputs) if not operation.call.native:
            where = Where(node.step, operation.site, inputs)
            return Work("each", where, operation, arrow_schema(outputs), by_spark=in_sql(node))
        case Map(inputs=inputs, function=operation) if not operation.call.native:
            where, outputs = Where(node.step, operation.site, inputs), arrow_schema(node.schema)
            return Work("map", where, operation, outputs, by_spark=in_sql(node))
        case Filter(inputs=inputs, predicate=operation) if not operation.call.native:
            where = Where(node.step, operation.site, inputs)
            return Work("filter", where, operation, pa.schema([]), by_spark=in_sql(node))
        case Peek(inputs=inputs, action=operation) if not operation.call.native:
            return Work("peek", Where(node.step, operation.site, inputs), operation, pa.schema([]))
        case Split(inputs=inputs, function=operation):
            streams = tuple((name, arrow_schema(fields)) for name, fields in node.streams)
            where = Where(node.step, operation.site, inputs)
            return Work("split", where, operation, arrow_schema(split_schema(node.streams)), streams)
        case Project(names=names):
            renamed = tuple((new, old) for new, old in zip(node.schema.names, names, strict=True) if new != old)
            where = Where(node.step, node.site)
            return Work("project", where, None, arrow_schema(node.schema), renamed=renamed, by_spark=True)
        case ParallelismHint():
            return Work("project", Where(node.step, node.site), None, arrow_schema(node.schema), by_spark=True)
    return None


def in_sql(node: Node) -> bool:
    """Return whether a node calls a function of the library that has a form in SQL."""
    return isinstance(node, Each | Map | Filter) and sql_of(node, node.inputs) is not None


def sql_of(node: Each | Map | Filter, inputs: Sequence[str]) -> list[str] | None:
    """Return the fields of a function as SQL over the columns `inputs`; None if only the function can compute them."""
    function = (node.predicate if isinstance(node, Filter) else node.function).target
    if not isinstance(function, ColumnFunction) or node.onError is not None:
        return None
    return function.sql(inputs, [node.source.schema[name].dataType for name in node.inputs])


Measured = Callable[[Work, Kernel], Kernel]
"""A function that returns the kernel of a work with its tuples counted and its time taken."""


def compile_chain(
    works: Sequence[Work], needed: Iterable[str], letters: Letters | None = None, measured: Measured | None = None
) -> tuple[Kernel, set[str]]:
    """Return one kernel for adjacent works, and the input fields that it needs.

    `needed` are the fields of the kernel's result; `letters` takes the tuples on which works with a policy fail;
    `measured` is called for each work, in their order.
    """
    kernels: list[Kernel] = []
    fields = set(needed)
    for work in reversed(works):
        kernels.insert(0, _kernel(work, frozenset(fields), letters))
        fields = work.before(fields)
    if measured is not None:
        kernels = [measured(work, apply) for work, apply in zip(works, kernels, strict=True)]

    def run(columns: Columns) -> Columns:
        for apply in kernels:
            columns = apply(columns)
        return columns

    return run, fields


def _kernel(work: Work, after: frozenset[str], letters: Letters | None) -> Kernel:
    if work.caught is None or letters is None:
        return kernel(work, after)
    catch = catching(work, after)
    return lambda columns: catch(columns, letters)


def kernel(work: Work, after: frozenset[str]) -> Kernel:
    """Return the kernel of one work. Its result has only the fields in `after`."""
    operation = work.operation
    if operation is not None and operation.call.pandas:
        return _pandas_kernel(work, operation, after)
    if operation is None:
        return _renaming(work, after) if work.renamed else lambda columns: columns.only(after)
    if isinstance(operation.target, ColumnFunction):
        columnwise = _kept if work.verb == "filter" else _columnwise
        return columnwise(work, operation.target, _call_kernel(work, operation, after), after)
    if (function := _partly(work)) is not None:
        return _partly_columnwise(work, function, _call_kernel(work, operation, after), after)
    return _call_kernel(work, operation, after)


def catching(work: Work, after: frozenset[str]) -> Callable[[Columns, Letters], Columns]:
    """Return a kernel of one work that leaves out the tuples on which the work fails, and adds them to the letters."""
    assert work.caught is not None and work.operation is not None
    if work.operation.call.pandas:
        return _pandas_kernel(work, work.operation, after).catching(work.caught)
    catch = catching_kernel(_call_kernel(work, work.operation, after), work.where, work.caught)
    if (function := _partly(work)) is not None:
        return _catching_columnwise(work, function, catch, after)
    return catch


def _pandas_kernel(work: Work, operation: Operation, after: frozenset[str]) -> "PandasKernel":
    # Only here, since pandas takes long to import, and every worker would pay for it.
    from trident.compiler.columns.pandas_calls import PandasKernel

    if work.verb not in ("filter", "each", "map"):
        raise TypeError(f"{work.where.step}: a function over pandas objects is not supported in {work.verb}")
    return PandasKernel(work.verb, operation, work.where, work.outputs, after)


def _columnwise(work: Work, function: ColumnFunction, by_tuple: Kernel, after: frozenset[str]) -> Kernel:
    """Return a kernel that computes an `each` over whole columns if there are many tuples."""

    def run(columns: Columns) -> Columns:
        made = None if are_few(columns.rows) else function.columns([columns[n].array() for n in work.where.inputs])
        if made is None:
            return by_tuple(columns)
        return columns.plus(dict(zip(work.outputs.names, map(Column.of, made), strict=True))).only(after)

    return run


def _kept(work: Work, function: ColumnFunction, by_tuple: Kernel, after: frozenset[str]) -> Kernel:
    """Return a kernel that filters by a condition over whole columns if there are many tuples."""

    def run(columns: Columns) -> Columns:
        made = None if are_few(columns.rows) else function.columns([columns[n].array() for n in work.where.inputs])
        return by_tuple(columns) if made is None else columns.only(after).where(made[0])

    return run


def _partly(work: Work) -> PartlyColumns | None:
    """Return the form for many tuples of a work's function; None if it has none, or the call declares other fields."""
    if work.verb not in ("each", "map") or work.operation is None or work.operation.many:
        return None
    function = columns_of(work.operation.target) if work.operation.call is Call.VALUES else None
    if function is None or len(work.where.inputs) != 1:
        return None
    pairs = [[(field.type, field.nullable) for field in fields] for fields in (function.outputs, work.outputs)]
    return function if pairs[0] == pairs[1] else None


_FEWEST = 16
"""The number of tuples from which reading them as columns pays."""


def _read_columns(
    work: Work, function: PartlyColumns, columns: Columns, after: frozenset[str]
) -> tuple[Columns, list[int]] | None:
    """Return the output tuples, and the invalid rows; None if calls cost less or the input has another type."""
    values = columns[work.where.inputs[0]]
    if columns.rows < _FEWEST or not (kinds.is_binary(values.kind) or kinds.is_string(values.kind)):
        return None
    made, failing = function.columns(values.array())
    return columns.plus(dict(zip(work.outputs.names, map(Column.of, made), strict=True))).only(after), failing


def _partly_columnwise(work: Work, function: PartlyColumns, by_tuple: Kernel, after: frozenset[str]) -> Kernel:
    """Return a kernel that reads most tuples as whole columns."""

    def run(columns: Columns) -> Columns:
        read = _read_columns(work, function, columns, after)
        if read is None:
            return by_tuple(columns)
        made, failing = read
        if failing:
            by_tuple(columns.take(failing))  # the call raises the error of the first failing tuple
            return by_tuple(columns)
        return made

    return run


def _catching_columnwise(
    work: Work, function: PartlyColumns, by_tuple: Callable[[Columns, Letters], Columns], after: frozenset[str]
) -> Callable[[Columns, Letters], Columns]:
    """Return a kernel that reads most tuples as whole columns, and adds those that fail to the letters."""

    def run(columns: Columns, letters: Letters) -> Columns:
        read = _read_columns(work, function, columns, after)
        if read is None:
            return by_tuple(columns, letters)
        made, failing = read
        if not failing:
            return made
        if by_tuple(columns.take(failing), letters).rows:
            raise TypeError(
                f"{work.where.step}: {work.where.site} failed on a value that it accepted when called again; make it "
                f"deterministic"
            )
        return made.within(stretches_without(failing, made.rows))

    return run


def _call_kernel(work: Work, operation: Operation, after: frozenset[str]) -> CallKernel:
    match work.verb:
        case "filter":
            return predicate(operation, work.where, after)
        case "split":
            return splitting(operation, work.where, work.streams, after)
        case "peek":
            return action(operation, work.where, after)
    return emitter(operation, work.where, work.outputs, after)


def _renaming(work: Work, after: frozenset[str]) -> Kernel:
    """Return the kernel of a project that renames fields."""
    entering = dict(work.renamed)
    leaving = {entering.get(name, name): name for name in after}

    def renamed(columns: Columns) -> Columns:
        names = [name for name in columns.names if name in leaving]
        return columns.select(names).rename([leaving[name] for name in names])

    return renamed
