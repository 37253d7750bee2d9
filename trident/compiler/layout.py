"""A stage as the Spark engine sees it, worked out once: who reads whom, what is needed, what runs as one function."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pyspark import cloudpickle

from trident.base.errors import UserCodeError
from trident.compiler.column_pruning import needs, with_letters
from trident.compiler.columns.dead_letters import Caught
from trident.compiler.columns.failures import Where
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
from trident.plan.partitions import Counts, partition_counts


@dataclass(frozen=True, slots=True)
class Layout:
    """Nodes of a stage in walk order, how often each is read, and the fields that anybody reads of each (by id)."""

    starts: frozenset[int]
    nodes: tuple[Node, ...]
    readers: Mapping[int, int]
    needed: Mapping[int, set[str]]
    partitions: Counts
    caught: Mapping[int, Caught] = field(default_factory=dict)
    """What is caught of nodes (by id)."""
    tops: tuple[Node, ...] = ()
    """Nodes behind which the tuples that were caught part from the others: one for each row of Python operations."""

    def names(self, node: Node) -> list[str]:
        """The fields that leave a node, in its order. One at least: Spark carries no row without a column."""
        needed = self.needed[id(node)]
        return [name for name in node.schema.names if name in needed] or node.schema.names[:1]

    @property
    def placed(self) -> bool:
        """Whether anybody said how many partitions there are, or makes something of each: then these are there,
        whatever is in them."""
        each = any(isinstance(node, Aggregate) and node.scope == "partition" for node in self.nodes)
        return each or any(count is not None for count in self.partitions.values())

    def shared(self, node: Node) -> bool:
        """Whether several read what leaves this node. A Debug passes its source's tuples on, so these are shared."""
        return node in self.tops or self.readers[id(node)] > 1 and not isinstance(node, Debug)

    def chain(self, node: Node) -> tuple[tuple[Work, ...], Node]:
        """The longest row of Python operations that ends in this node and that nobody else reads on the way; and the
        node before it. Empty where none of them calls Python."""
        works: list[Work] = []
        below, first = node, True
        while id(below) not in self.starts and (first or not self.shared(below)):
            work = work_of(below)
            if work is None or (is_filter_null(below) and not self._after_python(below)):
                break
            works.insert(0, replace(work, caught=self.caught.get(id(below))))
            (below,) = sources_of(below)
            first = False
        return (tuple(works), below) if any(work.operation is not None for work in works) else ((), node)

    def _after_python(self, node: Node) -> bool:
        """Whether the source of this node is Python work that nobody else reads."""
        (source,) = sources_of(node)
        return id(source) not in self.starts and not self.shared(source) and bool(self.chain(source)[0])


def is_filter_null(node: Node) -> bool:
    """Whether this is FilterNull, which Spark knows as well as Python does."""
    return isinstance(node, Filter) and isinstance(node.predicate.target, FilterNull)


def layout(
    ends: Mapping[Node, Iterable[str]],
    starts: Iterable[Node],
    captured: Iterable[Debug] = (),
    caught: Mapping[int, Caught] = MappingProxyType({}),
) -> Layout:
    """The layout of the nodes between starts and ends. `ends` says which fields are read of nodes from outside;
    `captured` are the Debug steps whose tuples are brought to the run's log; `caught` says of which nodes (by id)
    tuples may leave the stream."""
    start_ids = frozenset(id(node) for node in starts)
    nodes = walk(*ends, *captured, starts=start_ids)
    readers = dict.fromkeys(map(id, nodes), 0)
    for node in nodes:
        for source in () if id(node) in start_ids else sources_of(node):
            readers[id(source)] += 1
    for end in ends:
        readers[id(end)] += 1
    for debug in captured:
        above = readers[id(debug)] > 0
        readers[id(debug.source)] += 1 if above else 0
    needed = needs(nodes, with_letters(nodes, ends, caught))
    tops = _tops([node for node in nodes if id(node) not in start_ids], readers, caught) if caught else ()
    return Layout(start_ids, tuple(nodes), readers, needed, partition_counts(nodes, start_ids), caught, tops)


def _tops(nodes: Sequence[Node], readers: Mapping[int, int], caught: Mapping[int, Caught]) -> tuple[Node, ...]:
    """The last node that catches in each row of Python operations that run together."""
    reader = {id(source): node for node in nodes for source in sources_of(node)}
    found = []
    for node in nodes:
        if id(node) not in caught:
            continue
        above: Node | None = node
        while above is not None:
            above = reader.get(id(above)) if readers[id(above)] == 1 else None
            if above is not None and id(above) in caught:
                break
            above = above if above is not None and work_of(above) is not None else None
        if above is None:
            found.append(node)
    return tuple(found)


def stage_ends(stage: Stage) -> dict[Node, list[str]]:
    """What a stage's outputs and effects read from outside: node to fields."""
    ends: dict[Node, list[str]] = {}
    for output in stage.outputs:
        end = end_of(output.step)
        names = [] if isinstance(output.step, PersistentAggregate) else output.schema.names
        ends[end] = list(dict.fromkeys([*ends.get(end, ()), *names]))
    for effect in stage.effects:
        ends.setdefault(effect, [])
    return ends


def end_of(step: Node) -> Node:
    """The node whose tuples an output holds: a query's and a sink's are those that enter it."""
    return step.source if isinstance(step, StateQuery | Sink) else step


def check_travels(stage_layout: Layout) -> None:
    """Refuse a function that cannot be pickled before a batch does: UserCodeError."""
    for node in stage_layout.nodes:
        if id(node) in stage_layout.starts:
            continue
        work = work_of(node)
        if work is not None and work.operation is not None:
            _check_pickles(work.where, work.operation.target)
        if isinstance(node, Pick) and isinstance(node.picking, Extreme):
            _check_pickles(Where(node.step, node.picking.site), node.picking.comparator)
        if isinstance(node, Aggregate):
            for member in node.members:
                _check_pickles(Where(node.step, member.how.site), member.how.aggregator)
        if isinstance(node, PersistentAggregate):
            _check_pickles(Where(node.step, node.aggregation.site), node.aggregation.aggregator)
        if isinstance(node, WindowPanes):
            _check_pickles(Where(node.step, node.windowing.site), node.windowing.aggregator)
        if isinstance(node, MultiReduce):
            _check_pickles(Where(node.step, node.reduction.site), node.reduction.reducer)


def _check_pickles(where: Where, target: object) -> None:
    try:
        cloudpickle.dumps(target)  # type: ignore[no-untyped-call]
    except Exception as error:
        hint = "make what it holds where it runs, or keep it in a module"
        raise where.error(f"cannot be sent to Spark's workers: {error} ({hint})", error, UserCodeError) from error
