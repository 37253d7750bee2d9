"""DRPC streams as plans, built by hand."""

from collections.abc import Callable, Iterator
from typing import Any

from tests.reads.reading_kit import SITE
from trident.base.callsite import site_of
from trident.base.spark_types import parse_schema, parse_type, schema_of, select
from trident.compiler.program import RequestPlan
from trident.compiler.stages import cut_nodes
from trident.operations.aggregates.sum import Sum
from trident.operations.aggregators import Aggregation
from trident.operations.builtin_filters import FilterNull
from trident.operations.functions import Call, Operation, Query
from trident.operations.query_functions import MapGet
from trident.plan.nodes import (
    Aggregate,
    Each,
    Filter,
    Map,
    Member,
    Node,
    PersistentAggregate,
    RequestSource,
    StateQuery,
)


def split(text: str) -> Iterator[str]:
    yield from text.split()


def arguments(function: str, declared: str = "args string") -> RequestSource:
    return RequestSource(function, step=function, site=SITE, schema=parse_schema(declared))


def each(source: Node, fields: str, function: Callable[..., Any], outputs: str, many: bool = False) -> Each:
    new = parse_schema(outputs)
    operation = Operation(function, site_of(function), Call.VALUES, many)
    schema = schema_of([*source.schema.fields, *new.fields])
    step = f"{source.step}/each"
    return Each(source, tuple(fields.split()), operation, new, step=step, site=SITE, schema=schema)


def mapped(source: Node, fields: str, function: Callable[..., Any], outputs: str) -> Map:
    operation = Operation(function, site_of(function), Call.VALUES)
    schema = parse_schema(outputs)
    return Map(source, tuple(fields.split()), operation, step=f"{source.step}/map", site=SITE, schema=schema)


def ask(source: Node, state: PersistentAggregate, fields: str, output: str) -> StateQuery:
    outputs = parse_schema(f"{output} {state.aggregation.type.simpleString()}")
    schema = schema_of([*source.schema.fields, *outputs.fields])
    query = Query(MapGet(), SITE, get=True)
    step = f"{source.step}/stateQuery"
    return StateQuery(source, tuple(fields.split()), state, query, outputs, step=step, site=SITE, schema=schema)


def without_nulls(source: Node, field: str) -> Filter:
    operation = Operation(FilterNull(), SITE, Call.FILTER)
    return Filter(source, (field,), operation, step=f"{source.step}/filter", site=SITE, schema=source.schema)


def summed(source: Node, field: str, output: str, group: tuple[str, ...] = ()) -> Aggregate:
    aggregation = Aggregation(Sum(), SITE, output, parse_type("bigint"), "sum")
    outputs = parse_schema(f"{output} bigint")
    schema = schema_of([*select(source.schema, group).fields, *outputs.fields])
    members = (Member((field,), aggregation, outputs),)
    return Aggregate(source, group, members, step=f"{source.step}/sum", site=SITE, schema=schema)


def words(counts: PersistentAggregate, function: str = "words", splitting: Callable[..., Any] = split) -> RequestPlan:
    """The sum of the counts of the words in ``args``."""
    each_word = each(arguments(function), "args", splitting, "word string", many=True)
    return planned(function, summed(without_nulls(ask(each_word, counts, "word", "count"), "count"), "count", "sum"))


def planned(function: str, leaf: Node) -> RequestPlan:
    """The plan of the function whose stream ends here."""
    source = leaf
    while not isinstance(source, RequestSource):
        source = source.source  # type: ignore[attr-defined]
    plan = cut_nodes([], {function: (source, leaf)}).requests[0]
    assert plan.function == function
    return plan
