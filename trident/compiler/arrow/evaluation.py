"""Plans evaluated over columns in memory, for the embedded engine and for DRPC.

A DRPC function answers many requests in one pass, each as if it were alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Concatenate, ParamSpec, TypeAlias

import pyarrow as pa

from trident.base.errors import MissingSessionError
from trident.base.run_facts import NO_FACTS, RunFacts
from trident.base.spark_types import arrow_schema, select
from trident.base.user_code_notes import Notes, noting
from trident.compiler.aggregates.column_combiners import Position
from trident.compiler.aggregates.folds import fold_columns
from trident.compiler.aggregates.gathers import Gather
from trident.compiler.aggregates.multireduces import multi_reduced
from trident.compiler.aggregates.selections import PickSpec, picked
from trident.compiler.aggregates.specs import can_fold, fold_spec, gather_spec
from trident.compiler.arrow.joins import joined, merged
from trident.compiler.column_pruning import needs, with_letters
from trident.compiler.columns.columns import Columns, concat
from trident.compiler.columns.dead_letters import Caught, Letters
from trident.compiler.columns.kernels import Work, catching, kernel, work_of
from trident.compiler.columns.key_numbers import alike
from trident.compiler.columns.lifecycle import needs_lifecycle, prepared
from trident.compiler.columns.partitions import (
    PARTITION,
    PARTITION_FIELD,
    batch_partition,
    by_fields,
    every_partition,
    in_one,
    in_order,
    is_partitioned,
    numbered,
    parts,
    repartitioned_columns,
    spread,
)
from trident.compiler.columns.splits import part_of
from trident.compiler.engine import REQUEST, Answer
from trident.compiler.program import RequestPlan
from trident.compiler.states.queries import Read, compile_answer
from trident.compiler.tracking.steps import StepLedger
from trident.compiler.windows.panes import pane_spec, panes_of
from trident.frozen.results import DebugTuples, StepWork
from trident.operations.context import OperationContext
from trident.plan import nodes
from trident.plan.parallelism_hints import Hints
from trident.plan.partitions import keeps_partitions, moves, partition_counts

Native = Callable[[nodes.Node, Columns, Columns], Columns]
"""A function that runs a node which only Spark can run, and returns its output tuples. Its arguments are the node, the
node's input tuples, and the requests: one row for each, with only the hidden fields."""


@dataclass(slots=True)
class Run:
    """One evaluation: its inputs, the states that it may read, and the dead letters and counts that it collects."""

    inputs: Mapping[int, Columns]
    read: Read | None = None
    requests: Columns | None = None
    """One row for each request, with its number in the hidden field; None for a batch."""
    shown: list[DebugTuples] = field(default_factory=list)
    check: Callable[[], None] = lambda: None
    """A function that is called between steps, and raises if the run was cancelled."""
    txid: int = 1
    letters: Letters = field(default_factory=Letters)
    steps: list[StepWork] = field(default_factory=list)
    """The work of each step that has run, in order."""
    ledger: StepLedger | None = None


NodeFunction = Callable[[Sequence[Columns], Run], Columns]
"""A function from the tuples of a node's sources to the node's output tuples."""

AggregateFunction = Callable[[Columns, Columns | None, Run], Columns]
"""A function from tuples to aggregates. Its second argument lists the parts of the tuples that are aggregated
separately: one row for each part, in hidden fields that the tuples have too; None: all tuples are one part."""


_P = ParamSpec("_P")
_OfColumns: TypeAlias = Callable[Concatenate[Columns, _P], Columns]
"""A kernel. Some kernels have a second argument for the tuples that they catch."""


class Evaluation:
    """A plan of nodes that were compiled once to functions over columns.

    Each call of `run` evaluates a node once, however many nodes read it.
    """

    def __init__(
        self,
        ends: Mapping[nodes.Node, Iterable[str]],
        entries: Iterable[nodes.Node],
        hidden: Sequence[pa.Field] = (),
        native: Native | None = None,
        caught: Mapping[int, Caught] = MappingProxyType({}),
        hints: Hints = MappingProxyType({}),
        facts: RunFacts = NO_FACTS,
    ) -> None:
        """Compile the nodes from `entries`, where tuples enter, to `ends`, the nodes whose fields are read.

        `hidden` fields pass through every node; they distinguish the tuples of different requests. `native` runs the
        nodes that only Spark can run; without it such a node raises MissingSessionError. `caught` names the nodes (by
        id) that leave failing tuples out; `Run.letters` takes them. `hints` take the place of the program's numbers of
        partitions. `facts` are those of the run, which operations may read.
        """
        self._caught = caught
        self._facts = facts
        self._entries = {id(node) for node in entries}
        self._hidden_fields = hidden
        self._hidden = tuple(field.name for field in hidden)
        self._native = native
        walked = nodes.walk(*ends, starts=self._entries)
        self._counts = partition_counts(walked, self._entries, hints)
        self._partitioned = is_partitioned(walked, self._counts)
        self._carried = (*self._hidden, PARTITION) if self._partitioned else self._hidden
        self._needs = needs(walked, with_letters(walked, ends, caught), self._carried)
        self._moving = {id(node) for node in walked if isinstance(node, nodes.Merge) or moves(node)}
        self._functions = [
            (id(node), node.step, [id(source) for source in nodes.sources_of(node)], self._compiled(node))
            for node in walked
            if id(node) not in self._entries
        ]

    def run(self, run: Run) -> dict[int, Columns]:
        """Return the output tuples of each node, by the node's id."""
        by_node = dict(run.inputs)
        if self._partitioned:
            by_node = {node: spread(columns, self._counts.get(node)) for node, columns in by_node.items()}
        for node, step, sources, function in self._functions:
            run.check()
            entering, began = [by_node[source] for source in sources], perf_counter()
            notes = Notes()
            with noting(notes):
                leaving = by_node[node] = function(entering, run)
            entered = sum(columns.rows for columns in entering)
            run.steps.append(StepWork(step, entered, leaving.rows, perf_counter() - began, notes or None))
            if run.ledger is not None and node in self._moving:
                run.ledger.moved(step, entered, leaving.rows)
        return by_node

    def _compiled(self, node: nodes.Node) -> NodeFunction:
        function = self._unplaced(node)
        if not self._partitioned or (keeps_partitions(node) and not isinstance(node, nodes.Merge)):
            return function
        count = self._counts[id(node)]
        return lambda sources, run: self._placed(node, function(sources, run), count, run)

    def _placed(self, node: nodes.Node, columns: Columns, count: int | None, run: Run) -> Columns:
        """Return the output of a node that moves tuples between partitions, in its new partitions."""
        match node:
            case nodes.Repartition() | nodes.MultiReduce():
                return columns
            case nodes.Merge():
                return in_order(columns)
            case nodes.Aggregate(group=group) if group:
                return by_fields(columns, group, arrow_schema(node.schema), count)
            case nodes.Aggregate() | nodes.Pick():
                return in_one(columns, batch_partition(run.txid, count or 1))
        return spread(columns, count)

    def _unplaced(self, node: nodes.Node) -> NodeFunction:  # noqa: C901  # one case for each kind of node
        """Return the function of a node, without moving its output to new partitions."""
        after = frozenset(self._needs[id(node)])
        work = work_of(node)
        if work is not None:
            return self._work_function(node, work, after)
        match node:
            case nodes.Repartition():
                return self._repartition_function(node)
            case nodes.Part():
                return lambda sources, run: part_of(node, sources[0], self._carried)
            case nodes.Merge():
                return lambda sources, run: merged(node, sources, self._carried)
            case nodes.Join():
                return lambda sources, run: joined(node, sources, self._hidden, after)
            case nodes.MultiReduce():
                return self._multireduce_function(node)
            case nodes.Debug():
                return lambda sources, run: _debugged(node, sources[0], run)
            case nodes.Aggregate() | nodes.PersistentAggregate():
                return self._aggregate_function(node)
            case nodes.Pick():
                return self._selection_function(node)
            case nodes.PartitionOf():
                return lambda sources, run: numbered(sources[0], node.schema.names[-1])
            case nodes.WindowPanes():
                spec = pane_spec(node)
                return lambda sources, run: panes_of(spec, sources[0], run.txid)
            case nodes.StateQuery():
                answer = compile_answer(node)
                return lambda sources, run: answer(sources[0], _read_of(run))
        return self._native_function(node)

    def _work_function(self, node: nodes.Node, work: Work, after: frozenset[str]) -> NodeFunction:
        apply = self._apart(work, kernel(work, after))
        if id(node) in self._caught:
            work = replace(work, caught=self._caught[id(node)])
        if not needs_lifecycle([work]):
            if work.caught is not None:
                catch = self._apart(work, catching(work, after))
                return lambda sources, run: catch(sources[0], run.letters)
            return lambda sources, run: apply(sources[0])
        count = self._counts[id(node)]

        def with_lifecycle(sources: Sequence[Columns], run: Run) -> Columns:
            results = []
            for partition, part in parts(sources[0]):
                with prepared([work], self._context(run, partition, count)) as (ready,):
                    if ready.caught is not None:
                        results.append(self._apart(ready, catching(ready, after))(part, run.letters))
                    else:
                        results.append(self._apart(ready, kernel(ready, after))(part))
            return concat(results) if results else apply(sources[0])

        return with_lifecycle

    def _context(self, run: Run, partition: int, count: int | None) -> OperationContext:
        return OperationContext.of(self._facts, partition, count, _batch(run))

    def _apart(self, work: Work, apply: _OfColumns[_P]) -> _OfColumns[_P]:
        """Return a kernel that never passes tuples of two requests or partitions to one call of user code."""
        if work.operation is None or not work.operation.call.pandas or not self._carried:
            return apply

        def apart(columns: Columns, /, *rest: _P.args, **named: _P.kwargs) -> Columns:
            return concat([apply(part, *rest, **named) for part in alike(columns, self._carried)])

        return apart

    def _aggregate_function(self, node: nodes.Aggregate | nodes.PersistentAggregate) -> NodeFunction:
        """Return the function of an aggregate. Without group fields each part has one result row, even an empty part.

        A part is a request, a partition, or a partition of a request; without requests and partitions, the whole batch.
        """
        by_partition = self._partitioned and isinstance(node, nodes.Aggregate) and node.scope != "batch"
        keys = [*self._hidden_fields, *([PARTITION_FIELD] if by_partition else [])]
        if isinstance(node, nodes.Aggregate) and not can_fold(node):
            aggregate = _gathering(node, keys)
        else:
            aggregate = _folding(node, keys)
        if not by_partition:
            return lambda sources, run: aggregate(sources[0], run.requests, run)
        count = self._counts[id(node)] or 1
        return lambda sources, run: in_order(aggregate(sources[0], every_partition(run.requests, count), run))

    def _selection_function(self, node: nodes.Pick) -> NodeFunction:
        spec = PickSpec.of(node)
        apart = (*self._hidden, PARTITION) if self._partitioned and node.scope == "partition" else self._hidden
        return lambda sources, run: picked(spec, sources[0], apart)

    def _repartition_function(self, node: nodes.Repartition) -> NodeFunction:
        if not self._partitioned:
            return lambda sources, run: sources[0]
        before, count = self._counts[id(node.source)], self._counts[id(node)]
        return lambda sources, run: repartitioned_columns(node, sources[0], before, count, run.txid)

    def _multireduce_function(self, node: nodes.MultiReduce) -> NodeFunction:
        hidden, count, placed = self._hidden, self._counts[id(node)], self._partitioned

        def reduced(sources: Sequence[Columns], run: Run) -> Columns:
            return multi_reduced(node, sources, hidden, run.requests, count, placed, partial(self._context, run))

        return reduced

    def _native_function(self, node: nodes.Node) -> NodeFunction:
        native = self._native
        if native is None:
            raise MissingSessionError(
                f"{node.step}: only Spark can run this step, and there is no Spark session; pass one to "
                f"start(spark), or write the operation in Python"
            )
        return lambda sources, run: native(node, sources[0], run.requests or Columns({}, 1))


def _folding(node: nodes.Aggregate | nodes.PersistentAggregate, keys: Sequence[pa.Field]) -> AggregateFunction:
    """Return the function of an aggregate of combiners; `keys` are the hidden fields that distinguish its parts."""
    spec, grouped = fold_spec(node, keys), bool(node.group)

    def fold(columns: Columns, parts: Columns | None, run: Run) -> Columns:
        folded = fold_columns(spec, [columns], Position(_batch(run) or 0))
        return spec.presented(folded if grouped else spec.with_zeros(folded, parts))

    return fold


def _gathering(node: nodes.Aggregate, keys: Sequence[pa.Field]) -> AggregateFunction:
    """Return the function of an aggregate that must see each tuple. `keys` are the hidden fields of its parts."""

    def gather(columns: Columns, parts: Columns | None, run: Run) -> Columns:
        gathered = Gather(gather_spec(node, _batch(run), keys))
        if parts is not None and not node.group:
            gathered.expect(parts)
        gathered.add(columns)
        return gathered.result()

    return gather


def _batch(run: Run) -> int | None:
    """Return the txid of the batch; None for requests, which do not belong to a batch."""
    return run.txid if run.requests is None else None


def _read_of(run: Run) -> Read:
    if run.read is None:
        raise TypeError("a state query was evaluated without a state to read")
    return run.read


def _debugged(node: nodes.Debug, columns: Columns, run: Run) -> Columns:
    schema = arrow_schema(select(node.source.schema, node.inputs))
    first = columns.select(node.inputs)
    if columns.rows > node.limit:
        first = first.take(range(node.limit + 1))  # one more, which is not shown
    run.shown.append(DebugTuples.first(node.label, first.table(schema), node.limit))
    return columns


def compile_request(plan: RequestPlan, native: Native | None = None) -> Answer:
    """Return a DRPC function as one Python function, which answers many requests in one pass.

    The tuples of each request are aggregated separately. `native` runs the steps that only Spark can run. Raises
    MissingSessionError if there is such a step and no `native`.
    """
    names = plan.leaf.schema.names
    evaluation = Evaluation({plan.leaf: names}, [plan.source], [REQUEST], native, facts=plan.facts)
    source, end, leaving = id(plan.source), id(plan.leaf), [REQUEST.name, *names]

    def answer(requests: Columns, read: Read, check: Callable[[], None] = lambda: None) -> Columns:
        numbers = requests.select([REQUEST.name])
        return evaluation.run(Run({source: requests}, read, numbers, check=check))[end].select(leaving)

    return answer
