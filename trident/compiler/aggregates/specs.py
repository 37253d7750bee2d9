"""What an aggregating step asks of a fold or a gather: its plan node as what travels to the workers."""

from collections.abc import Iterable

import pyarrow as pa

from trident.base.types import arrow_schema, arrow_type, select
from trident.compiler.aggregates.folds import FoldMember, FoldSpec
from trident.compiler.aggregates.gathers import EmitMember, GatherSpec, ReduceMember
from trident.compiler.columns.failures import Where
from trident.operations.aggregators import Aggregation, Emitting, Reduction
from trident.plan.nodes import Aggregate, Member, PersistentAggregate


def folds(node: Aggregate | PersistentAggregate) -> bool:
    """Whether partial accumulators can meet: every member is a combiner."""
    return isinstance(node, PersistentAggregate) or all(isinstance(each.how, Aggregation) for each in node.members)


def inputs_of(node: Aggregate | PersistentAggregate) -> tuple[str, ...]:
    """The fields that its aggregators see, each once."""
    if isinstance(node, PersistentAggregate):
        return node.inputs
    return tuple(dict.fromkeys(name for member in node.members for name in member.inputs))


def all_native(node: Aggregate | PersistentAggregate) -> bool:
    """Whether Spark has exactly these aggregates itself; it has none of a partition."""
    if isinstance(node, PersistentAggregate):
        return node.aggregation.native is not None
    if node.scope == "partition":
        return False
    return all(isinstance(each.how, Aggregation) and each.how.native is not None for each in node.members)


def fold_spec(node: Aggregate | PersistentAggregate, hidden: Iterable[pa.Field] = ()) -> FoldSpec:
    """What a step of combiners asks of a fold. `hidden` are key fields before its own."""
    if isinstance(node, PersistentAggregate):
        where = Where(node.step, node.aggregation.site, node.inputs)
        return FoldSpec.of(_keys(node, hidden), FoldMember(where, node.aggregation))
    return FoldSpec.of(_keys(node, hidden), *(_fold_member(node, each, each.how) for each in node.members))  # type: ignore[arg-type]


def gather_spec(node: Aggregate, batch: int | None, hidden: Iterable[pa.Field] = ()) -> GatherSpec:
    """What a step asks of a gather."""
    keys = _keys(node, hidden)
    members = tuple(_member(node, each) for each in node.members)
    outputs = [arrow_schema(each.outputs) for each in node.members]
    return GatherSpec(members, keys, pa.schema([*keys, *(field for each in outputs for field in each)]), batch)


def _keys(node: Aggregate | PersistentAggregate, hidden: Iterable[pa.Field]) -> pa.Schema:
    group = arrow_schema(select(node.source.schema, node.group))
    return pa.schema([*hidden, *(field.with_nullable(True) for field in group)])


def _member(node: Aggregate, member: Member) -> FoldMember | ReduceMember | EmitMember:
    match member.how:
        case Emitting() as how:
            return EmitMember(Where(node.step, how.site, member.inputs), how)
        case Reduction() as how:
            return ReduceMember(Where(node.step, how.site, member.inputs), how, _shown(member, how))
        case Aggregation() as how:
            return _fold_member(node, member, how)


def _fold_member(node: Aggregate, member: Member, how: Aggregation) -> FoldMember:
    return FoldMember(Where(node.step, how.site, member.inputs), how, _shown(member, how))


def _shown(member: Member, how: Aggregation | Reduction) -> pa.DataType | None:
    presents = callable(getattr(how.aggregator, "present", None))
    return arrow_type(member.outputs.fields[0].dataType) if presents else None


def read_fields(node: Aggregate | PersistentAggregate) -> list[str]:
    """The fields that an aggregate reads of its source; one at least."""
    wanted = {*node.group, *inputs_of(node)}
    return [name for name in node.source.schema.names if name in wanted] or node.source.schema.names[:1]
