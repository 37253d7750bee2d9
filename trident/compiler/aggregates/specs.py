"""Specs of folds or gathers for the aggregates of a plan. The specs are sent to workers."""

from collections.abc import Iterable

import pyarrow as pa

from trident.base.spark_types import arrow_schema, arrow_type, select
from trident.compiler.aggregates.folds import FoldMember, FoldSpec
from trident.compiler.aggregates.gathers import EmitMember, GatherMember, GatherSpec, PandasMember, ReduceMember
from trident.compiler.columns.function_errors import Where
from trident.operations.aggregators import Aggregation, Emitting, PandasAggregation, Reduction
from trident.plan.nodes import Aggregate, Member, PersistentAggregate


def can_fold(node: Aggregate | PersistentAggregate) -> bool:
    """Return whether every member is a combiner, so that partial accumulators can be merged."""
    return isinstance(node, PersistentAggregate) or all(isinstance(member.how, Aggregation) for member in node.members)


def inputs_of(node: Aggregate | PersistentAggregate) -> tuple[str, ...]:
    """Return the fields that an aggregate's aggregators read, each once."""
    if isinstance(node, PersistentAggregate):
        return node.inputs
    return tuple(dict.fromkeys(name for member in node.members for name in member.inputs))


def fold_spec(node: Aggregate | PersistentAggregate, hidden: Iterable[pa.Field] = ()) -> FoldSpec:
    """Return the spec of an aggregate of combiners. `hidden` are key fields before the group fields."""
    if isinstance(node, PersistentAggregate):
        where = Where(node.step, node.aggregation.site, node.inputs)
        return FoldSpec.of_state(_keys(node, hidden), where, node.aggregation)
    return FoldSpec.of(_keys(node, hidden), *(_fold_member(node, member, member.how) for member in node.members))  # type: ignore[arg-type]


def gather_spec(node: Aggregate, batch: int | None, hidden: Iterable[pa.Field] = ()) -> GatherSpec:
    """Return the spec of an aggregate of members of any kind. `hidden` are key fields before the group fields."""
    keys = _keys(node, hidden)
    members = tuple(_member(node, member) for member in node.members)
    outputs = [arrow_schema(member.outputs) for member in node.members]
    return GatherSpec(members, keys, pa.schema([*keys, *(field for member in outputs for field in member)]), batch)


def _keys(node: Aggregate | PersistentAggregate, hidden: Iterable[pa.Field]) -> pa.Schema:
    group = arrow_schema(select(node.source.schema, node.group))
    return pa.schema([*hidden, *(field.with_nullable(True) for field in group)])


def _member(node: Aggregate, member: Member) -> GatherMember:
    match member.how:
        case Emitting() as how:
            return EmitMember(Where(node.step, how.site, member.inputs), how)
        case Reduction() as how:
            return ReduceMember(Where(node.step, how.site, member.inputs), how, _presented_type(member, how))
        case PandasAggregation() as how:
            inputs = arrow_schema(select(node.source.schema, member.inputs))
            return PandasMember(Where(node.step, how.site, member.inputs), how, inputs)
        case Aggregation() as how:
            return _fold_member(node, member, how)


def _fold_member(node: Aggregate, member: Member, how: Aggregation) -> FoldMember:
    return FoldMember(Where(node.step, how.site, member.inputs), how, _presented_type(member, how))


def _presented_type(member: Member, how: Aggregation | Reduction) -> pa.DataType | None:
    presents = callable(getattr(how.aggregator, "present", None))
    return arrow_type(member.outputs.fields[0].dataType) if presents else None


def read_fields(node: Aggregate | PersistentAggregate) -> list[str]:
    """Return the fields that an aggregate reads from its source: at least one, even if none is needed."""
    wanted = {*node.group, *inputs_of(node)}
    return [name for name in node.source.schema.names if name in wanted] or node.source.schema.names[:1]
