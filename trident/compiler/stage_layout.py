"""The layout of a stage for the Spark engine: readers of each node, needed fields, and nodes that run as one function.

A layout is made once for each stage, not for each batch.
"""

import io
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pyspark import cloudpickle

from trident.base.callsite import CallSite
from trident.base.errors import UserCodeError
from trident.base.run_facts import NO_FACTS, RunFacts
from trident.compiler.column_pruning import needs, with_letters
from trident.compiler.columns.dead_letters import Caught
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.kernels import Work, work_of
from trident.compiler.program import Stage
from trident.operations.builtin_filters import FilterNull
from trident.operations.selections import Extreme
from trident.plan.nodes import (
    Aggregate,
    Debug,
    Filter,
    MultiReduce,
    Node,
    PersistentAggregate,
    Pick,
    Sink,
    StateQuery,
    WindowPanes,
    sources_of,
    walk,
)
from trident.plan.parallelism_hints import Hints
from trident.plan.partitions import Counts, partition_counts


@dataclass(frozen=True, slots=True)
class StageLayout:
    """The nodes of a stage in walk order (each after its sources).

    Readers and partitions are given by the nodes' ids.
    """

    inputs: frozenset[int]
    """The ids of the nodes where tuples enter the stage."""
    nodes: tuple[Node, ...]
    readers: Mapping[int, int]
    """For each node the number of its readers: nodes, outputs and effects."""
    needed: Mapping[int, set[str]]
    """For each node the fields that some reader needs."""
    partitions: Counts
    caught: Mapping[int, Caught] = field(default_factory=dict)
    """The nodes whose failed tuples leave the stream, each with the treatment of these tuples."""
    facts: RunFacts = NO_FACTS
    """The facts of the run that user code may read."""

    def names(self, node: Node) -> list[str]:
        """Return the needed fields of a node's output, in the order of its schema.

        There is at least one: Spark keeps no row without a column.
        """
        needed = self.needed[id(node)]
        return [name for name in node.schema.names if name in needed] or node.schema.names[:1]

    @property
    def partitioned(self) -> bool:
        """Return whether partitions must exist even if they are empty.

        They must if a hint gives their number, or if an aggregation makes a result for each partition.
        """
        by_partition = any(isinstance(node, Aggregate) and node.scope == "partition" for node in self.nodes)
        return by_partition or any(count is not None for count in self.partitions.values())

    def shared(self, node: Node) -> bool:
        """Return whether this node's output has more than one reader.

        A Debug is never shared: it passes its source's tuples on, so the source is the shared node.
        """
        return self.readers[id(node)] > 1 and not isinstance(node, Debug)

    def ends(self, node: Node) -> bool:
        """Return whether a node's output is a result of the stage, which no other node of the stage reads."""
        read = (source for other in self.nodes if id(other) not in self.inputs for source in sources_of(other))
        return all(source is not node for source in read)

    def carried(self, caught: Mapping[int, Caught]) -> dict[int, Caught]:
        """Return the nodes of `caught` for which no additional fields must be carried to their step.

        A dead letter holds all fields of its tuple, including fields that no step reads.
        """
        sources = {id(node): sources_of(node) for node in self.nodes if id(node) in caught}
        return {
            node: what
            for node, what in caught.items()
            if not what.dead
            or all({*what.fields.names} <= self.needed.get(id(source), set()) for source in sources[node])
        }

    def chain(self, node: Node) -> tuple[tuple[Work, ...], Node]:
        """Return the longest chain of adjacent Python operations that ends in this node, and the node before the chain.

        No node outside the chain reads a result within it. The chain is empty if none of its works calls Python,
        because works that only rename or drop fields are left to Spark.
        """
        works: list[Work] = []
        below, first = node, True
        while id(below) not in self.inputs and (first or not self.shared(below)):
            work = work_of(below)
            if work is None or (is_filter_null(below) and not self._after_python(below)):
                break
            works.insert(0, replace(work, caught=self.caught.get(id(below))))
            (below,) = sources_of(below)
            first = False
        return (tuple(works), below) if any(work.operation is not None for work in works) else ((), node)

    def _after_python(self, node: Node) -> bool:
        """Return whether this node's source ends a chain of Python operations and has no other reader."""
        (source,) = sources_of(node)
        return id(source) not in self.inputs and not self.shared(source) and bool(self.chain(source)[0])


def is_filter_null(node: Node) -> bool:
    """Return whether this node filters with FilterNull, which Spark can run as well as Python."""
    return isinstance(node, Filter) and isinstance(node.predicate.target, FilterNull)


def layout(
    ends: Mapping[Node, Iterable[str]],
    inputs: Iterable[Node],
    captured: Iterable[Debug] = (),
    caught: Mapping[int, Caught] = MappingProxyType({}),
    hints: Hints = MappingProxyType({}),
    facts: RunFacts = NO_FACTS,
) -> StageLayout:
    """Return the layout of the nodes that lead from `inputs` to `ends`, both included.

    `ends` are the nodes for which a stage is run, each with the fields that its results need. `captured` are the Debug
    steps with tuples that the driver shows. `caught` are the nodes (by id) that take failed tuples out of the stream.
    `hints` replace the program's numbers of partitions. `facts` are those of the run.
    """
    input_ids = frozenset(id(node) for node in inputs)
    nodes = walk(*ends, *captured, starts=input_ids)
    readers = dict.fromkeys(map(id, nodes), 0)
    for node in nodes:
        for source in () if id(node) in input_ids else sources_of(node):
            readers[id(source)] += 1
    for end in ends:
        readers[id(end)] += 1
    for debug in captured:
        # A captured Debug that other nodes read too: the driver and these nodes read the tuples of its source.
        readers[id(debug.source)] += 1 if readers[id(debug)] > 0 else 0
    needed = needs(nodes, with_letters(nodes, ends, caught))
    counts = partition_counts(nodes, input_ids, hints)
    return StageLayout(input_ids, tuple(nodes), readers, needed, counts, caught, facts)


def stage_ends(stage: Stage) -> dict[Node, list[str]]:
    """Return the end nodes of a stage: its effects, and the node of each output.

    Each end comes with the fields that outputs take from it unchanged: none for an effect, and none for a
    PersistentAggregate, which gives accumulators.
    """
    ends: dict[Node, list[str]] = {}
    for output in stage.outputs:
        end = end_of(output.step)
        names = [] if isinstance(output.step, PersistentAggregate) else output.schema.names
        ends[end] = list(dict.fromkeys([*ends.get(end, ()), *names]))
    for effect in stage.effects:
        ends.setdefault(effect, [])
    return ends


def end_of(step: Node) -> Node:
    """Return the node of the tuples in a step's output: the node before a query or sink, else the step itself."""
    return step.source if isinstance(step, StateQuery | Sink) else step


def check_picklable(stage_layout: StageLayout) -> None:
    """Check at the start, not at the first batch, that the user's functions can be sent to Spark's workers.

    Raises UserCodeError if one of them cannot be pickled.
    """
    for node in stage_layout.nodes:
        if id(node) not in stage_layout.inputs:
            for site, target in _worker_code(node):
                check_pickles(Where(node.step, site), target)


def _worker_code(node: Node) -> Iterator[tuple[CallSite, object]]:
    """Yield the user's code that Spark's workers run for a node, each with its site."""
    work = work_of(node)
    if work is not None and work.operation is not None:
        yield work.operation.site, work.operation.target
    match node:
        case Pick(picking=Extreme() as extreme):
            yield extreme.site, extreme.comparator
        case Aggregate() | PersistentAggregate():
            yield from ((member.how.site, member.how.aggregator) for member in node.members)
        case WindowPanes():
            yield node.windowing.site, node.windowing.aggregator
        case MultiReduce():
            yield node.reduction.site, node.reduction.reducer


_SESSION = "CONTEXT_ONLY_VALID_ON_DRIVER"
"""The condition of the error with which PySpark refuses to pickle a session or a DataFrame."""
_OF_OTHERS = "create the object inside the call, or keep it in a module"
_OF_SPARK = (
    "a function runs without a Spark session, so it cannot use a session or a DataFrame: look values up with "
    "joinTable, stateQuery or a dict that the program loads, or use the DataFrames of a batch in transform(lambda df: "
    "...)"
)


class _Check(cloudpickle.Pickler):
    """A pickler that refuses sessions of Connect, as PySpark refuses classic ones. DataFrames refer to their session.

    PySpark pickles a session of Connect, and the worker then raises NO_ACTIVE_SESSION at each batch.
    """

    def reducer_override(self, value: Any) -> Any:
        if (type(value).__module__, type(value).__name__) == ("pyspark.sql.connect.session", "SparkSession"):
            raise pickle.PicklingError(f"[{_SESSION}] it refers to a SparkSession or a DataFrame")
        return super().reducer_override(value)  # type: ignore[no-untyped-call]


def check_pickles(where: Where, target: object) -> None:
    """Raise UserCodeError, which names the function, if `target` cannot be sent to Spark's workers."""
    try:
        _Check(io.BytesIO()).dump(target)  # type: ignore[no-untyped-call]
    except Exception as error:
        hint = _OF_SPARK if _SESSION in str(error) else _OF_OTHERS
        raise where.error(f"cannot be sent to Spark's workers: {error} ({hint})", error, UserCodeError) from error
