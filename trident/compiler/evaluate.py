"""A plan over columns in memory: what the driver-side engine and DRPC run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from trident.base.errors import MissingSessionError
from trident.base.types import arrow_schema, select
from trident.compiler.columns import Columns, concat
from trident.compiler.failures import Where
from trident.compiler.folds import FoldSpec, fold_columns
from trident.compiler.joins import joined, merged
from trident.compiler.kernels import kernel, work_of
from trident.compiler.needs import needs
from trident.compiler.queries import Read, answering
from trident.plan.nodes import (
    Aggregate,
    Debug,
    Join,
    Merge,
    Node,
    PersistentAggregate,
    StateQuery,
    sources_of,
)

Native = Callable[[Node, Columns, Columns], Columns]
"""Runs one node that only Spark can run: the node, its tuples, and one row a request of the hidden fields."""


@dataclass(slots=True)
class Run:
    """One evaluation: what the sources hold, and what it asks and tells on the way."""

    inputs: Mapping[int, Columns]
    read: Read | None = None
    requests: Columns | None = None
    """One row a request: the hidden field alone."""
    debug: dict[str, pa.Table] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None
    """Called between steps; raises where the run was cancelled."""


Step = Callable[[Sequence[Columns], Run], Columns]


class Evaluation:
    """Nodes compiled to functions over columns, once; `run` evaluates each node once, however many read it."""

    def __init__(
        self,
        ends: Mapping[Node, Iterable[str]],
        starts: Iterable[Node],
        hidden: tuple[str, ...] = (),
        native: Native | None = None,
    ) -> None:
        self._starts = {id(node) for node in starts}
        self._hidden = hidden
        self._native = native
        nodes = between(list(ends), self._starts)
        self._needs = needs(nodes, {id(node): names for node, names in ends.items()}, hidden)
        self._steps = [
            (id(node), [id(source) for source in sources_of(node)], self._step(node))
            for node in nodes
            if id(node) not in self._starts
        ]

    def run(self, run: Run) -> dict[int, Columns]:
        """What leaves each node, by the node's id."""
        found = dict(run.inputs)
        for at, sources, step in self._steps:
            run.check()
            found[at] = step([found[source] for source in sources], run)
        return found

    def _step(self, node: Node) -> Step:
        after = frozenset(self._needs[id(node)])
        work = work_of(node)
        if work is not None:
            apply = kernel(work, after)
            return lambda sources, run: apply(sources[0])
        match node:
            case Merge():
                return lambda sources, run: merged(node, sources, self._hidden)
            case Join():
                return lambda sources, run: joined(node, sources, self._hidden, after)
            case Debug():
                return lambda sources, run: _debugged(node, sources[0], run)
            case Aggregate() | PersistentAggregate():
                return aggregating(node, self._hidden)
            case StateQuery():
                answer = answering(node)
                return lambda sources, run: answer(sources[0], _asked(run))
        return self._native_step(node)

    def _native_step(self, node: Node) -> Step:
        native = self._native
        if native is None:
            raise MissingSessionError(
                f"{node.step}: this step runs in Spark only, and there is no session here; "
                "give one to start(spark), or write the operation in Python"
            )
        return lambda sources, run: native(node, sources[0], run.requests or Columns({}, 1))


def between(ends: Sequence[Node], starts: set[int]) -> list[Node]:
    """The nodes from the starts (by id) to the ends, in walk order; nothing below a start."""
    found: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) in found:
            return
        if id(node) not in starts:
            for source in sources_of(node):
                visit(source)
        found[id(node)] = node

    for end in ends:
        visit(end)
    return list(found.values())


def _asked(run: Run) -> Read:
    if run.read is None:
        raise TypeError("a state query was evaluated without a state to read")
    return run.read


def _debugged(node: Debug, columns: Columns, run: Run) -> Columns:
    schema = arrow_schema(select(node.source.schema, node.inputs))
    first = columns.select(node.inputs)
    if columns.rows > node.limit:
        first = first.take(range(node.limit))
    run.debug[node.label] = first.table(schema)
    return columns


def fold_spec(node: Aggregate | PersistentAggregate, hidden: Iterable[pa.Field] = ()) -> FoldSpec:
    """What an aggregating step asks of a fold."""
    group = arrow_schema(select(node.source.schema, node.group))
    keys = pa.schema([*hidden, *(field.with_nullable(True) for field in group)])
    return FoldSpec.of(Where(node.step, node.aggregation.site, node.inputs), node.aggregation, keys)


def aggregating(node: Aggregate | PersistentAggregate, hidden: Sequence[str]) -> Step:
    """An aggregate of a batch, or of every request by itself; without group fields one tuple, also of nothing."""
    plain = fold_spec(node)

    def aggregate(sources: Sequence[Columns], run: Run) -> Columns:
        spec = plain
        if hidden and run.requests is not None:
            spec = fold_spec(node, [pa.field(name, run.requests[name].kind) for name in hidden])
        found = fold_columns(spec, [sources[0]])
        return found if node.group else _with_zeros(spec, found, run.requests)

    return aggregate


def _with_zeros(spec: FoldSpec, found: Columns, requests: Columns | None) -> Columns:
    """The aggregate of nothing for the batch, or for each request, that had no tuple."""
    output = spec.aggregation.output
    if requests is None:
        return found if found.rows else Columns({output: spec.zero()}, 1)
    if found.rows == requests.rows:
        return found
    hidden = spec.keys.names[0]
    seen = set(found[hidden].values())
    missing = [row for row, number in enumerate(requests[hidden].values()) if number not in seen]
    zeros = spec.column(spec.zero().values() * len(missing))
    return concat([found, Columns({hidden: requests[hidden].take(missing), output: zeros}, len(missing))])
