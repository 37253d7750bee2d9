"""Plans written straight from nodes, for tests of what stands below the fluent skin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trident.base.callsite import CallSite, site_of
from trident.base.types import arrow_schema, parse_schema, parse_type, schema_of, select
from trident.operations.aggregators import Aggregation
from trident.operations.builtin_functions import Expression, MapGet
from trident.operations.functions import Call, Filter, Function, Operation, Query
from trident.plan import nodes
from trident_spouts.fixed import FixedBatchSpout
from trident_state.store import StateKind

HERE = CallSite("test", "tests/compiler/plans.py", 1)


@dataclass(frozen=True)
class NoStore:
    """A state's factory that is never opened: the compiler only looks at the shape."""

    kind = StateKind.OPAQUE
    survives = "process"

    def open(self, identity: Any, shape: Any, home: Any) -> Any:
        raise AssertionError("the compiler opens no store")


def operation(target: Any, call: Call | None = None, many: bool = False) -> Operation:
    """An operation, called by position unless the target tells otherwise."""
    if call is None:
        kinds = {Expression: Call.EXPRESSION, Function: Call.FUNCTION, Filter: Call.FILTER}
        call = next((c for kind, c in kinds.items() if isinstance(target, kind)), Call.VALUES)
    return Operation(target, site_of(target), call, many)


def spout(fields: str, batches: Sequence[Sequence[Any]] = ((),), stream: str = "s") -> nodes.SpoutSource:
    source = FixedBatchSpout(fields, [list(batch) for batch in batches])
    return nodes.SpoutSource(stream, source, step=stream, site=HERE, schema=source.schema)


def request(function: str, fields: str = "args string") -> nodes.RequestSource:
    return nodes.RequestSource(function, step=function, site=HERE, schema=parse_schema(fields))


def each(source: nodes.Node, inputs: str, target: Any, outputs: str, **how: Any) -> nodes.Each:
    op, added = operation(target, **how), parse_schema(outputs)
    schema = schema_of([*source.schema.fields, *added.fields])
    return nodes.Each(source, names(inputs), op, added, step=f"each({op.site.name})", site=HERE, schema=schema)


def mapped(source: nodes.Node, target: Any, outputs: str, call: Call = Call.TUPLE, many: bool = False) -> nodes.Map:
    op = operation(target, call, many)
    inputs = tuple(source.schema.names)
    return nodes.Map(source, inputs, op, step=f"map({op.site.name})", site=HERE, schema=parse_schema(outputs))


def filtered(source: nodes.Node, inputs: str, target: Any, **how: Any) -> nodes.Filter:
    op = operation(target, **how)
    return nodes.Filter(source, names(inputs), op, step=f"filter({op.site.name})", site=HERE, schema=source.schema)


def peeked(source: nodes.Node, inputs: str, target: Any) -> nodes.Peek:
    op = operation(target)
    return nodes.Peek(source, names(inputs), op, step=f"peek({op.site.name})", site=HERE, schema=source.schema)


def project(source: nodes.Node, fields: str) -> nodes.Project:
    chosen = names(fields)
    return nodes.Project(source, chosen, step="project", site=HERE, schema=select(source.schema, chosen))


def partition_by(source: nodes.Node, fields: str) -> nodes.PartitionBy:
    return nodes.PartitionBy(source, names(fields), step="partitionBy", site=HERE, schema=source.schema)


def debug(source: nodes.Node, label: str = "seen", limit: int = 100) -> nodes.Debug:
    inputs = tuple(source.schema.names)
    return nodes.Debug(source, inputs, label, limit, step=f"debug({label})", site=HERE, schema=source.schema)


def transform(source: nodes.Node, target: Any, outputs: str, **frames: Any) -> nodes.Transform:
    op = operation(target, Call.FRAME)
    step = f"transform({op.site.name})"
    return nodes.Transform(source, op, tuple(frames.items()), step=step, site=HERE, schema=parse_schema(outputs))


def aggregation(aggregator: Any, output: str, inputs: Any) -> Aggregation:
    name, _, kind = output.partition(" ")
    found = parse_type(kind) if kind else aggregator.type_of(inputs)
    return Aggregation(aggregator, site_of(aggregator), name, found, getattr(aggregator, "native", None))


def aggregate(source: nodes.Node, group: str, inputs: str, aggregator: Any, output: str) -> nodes.Aggregate:
    agg = aggregation(aggregator, output, select(source.schema, names(inputs)))
    schema = schema_of([*select(source.schema, names(group)).fields, *parse_schema(_typed(agg)).fields])
    step = f"aggregate({agg.site.name})"
    return nodes.Aggregate(source, names(group), names(inputs), agg, step=step, site=HERE, schema=schema)


def persist(
    source: nodes.Node, group: str, inputs: str, aggregator: Any, output: str, state: str = "counts"
) -> nodes.PersistentAggregate:
    one = aggregate(source, group, inputs, aggregator, output)
    spec = nodes.StateSpec(state, NoStore())
    step = f"persistentAggregate({state})"
    return nodes.PersistentAggregate(
        source, one.group, one.inputs, one.aggregation, spec, step=step, site=HERE, schema=one.schema
    )


def state_query(
    source: nodes.Node, inputs: str, updated: nodes.PersistentAggregate, outputs: str, function: Any = None
) -> nodes.StateQuery:
    target = function or MapGet()
    query, added = Query(target, site_of(target), isinstance(target, MapGet)), parse_schema(outputs)
    schema = schema_of([*source.schema.fields, *added.fields])
    step = f"stateQuery({query.site.name})"
    return nodes.StateQuery(source, names(inputs), updated, query, added, step=step, site=HERE, schema=schema)


def merge(*sources: nodes.Node) -> nodes.Merge:
    return nodes.Merge(sources, step="merge", site=HERE, schema=sources[0].schema)


def join(sources: Sequence[nodes.Node], keys: Sequence[str], outputs: str) -> nodes.Join:
    pairs = tuple(names(key) for key in keys)
    return nodes.Join(tuple(sources), pairs, step="join", site=HERE, schema=parse_schema(outputs))


def names(fields: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in fields.split(",")) if fields else ()


def _typed(agg: Aggregation) -> str:
    return f"{agg.output} {agg.type.simpleString()}"


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """A table as a sorted list of tuples."""
    found = [tuple(row.values()) for row in table.to_pylist()]
    return sorted(found, key=repr)


def table(fields: str, tuples: Sequence[tuple[Any, ...]]) -> pa.Table:
    schema = arrow_schema(parse_schema(fields))
    columns = [pa.array([row[at] for row in tuples], field.type) for at, field in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)
