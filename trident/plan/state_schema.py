"""The schema of a state, whatever verb writes it: the key fields, the stored value, the value that queries see."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql.types import DataType, StructField, StructType

from trident.base.callsite import CallSite
from trident.base.types import select
from trident.operations.aggregator_kinds import presented_type
from trident.operations.bundles import BundleMember, bundle_of
from trident.operations.window_aggregators import Windowing
from trident.plan import nodes


def keys_of(node: nodes.HeldState) -> StructType:
    """Return the key fields. A state of one global value has none."""
    match node:
        case nodes.PersistentAggregate() | nodes.PersistentReduce():
            return select(node.source.schema, node.group)
    return node.keys


def parts_of(node: nodes.HeldState) -> Mapping[str, BundleMember] | None:
    """Return the combiners of the accumulators in each value of the state, by field; None without a bundle."""
    match node:
        case (
            nodes.PersistentAggregate(aggregation=aggregation)
            | nodes.Window(windowing=Windowing(aggregation=aggregation, panes=True))
        ):
            bundle = bundle_of(aggregation)
        case _:
            bundle = None
    return None if bundle is None else {member.aggregation.output: member for member in bundle.members}


def value_of(node: nodes.HeldState) -> StructField:
    """Return the field of the stored value."""
    if isinstance(node, nodes.PersistentAggregate):
        return StructField(node.aggregation.output, node.aggregation.type)
    return node.schema.fields[-1]


def present_of(node: nodes.HeldState) -> Callable[[Any], Any] | None:
    """Return the aggregator's ``present``, which turns a stored value into the value that queries see, or None."""
    match node:
        case nodes.PersistentAggregate(aggregation=how) | nodes.PersistentReduce(reduction=how):
            return getattr(how.aggregator, "present", None)
        case nodes.Window(windowing=windowing) if windowing.panes:
            return getattr(windowing.aggregator, "present", None)
    return None


def value_fields(node: nodes.HeldState) -> Mapping[str, DataType] | None:
    """Return the types of the fields of the value that queries see; None if the value is not a struct."""
    kind = shown_type(node)
    return {field.name: field.dataType for field in kind.fields} if isinstance(kind, StructType) else None


def queried_parts(node: nodes.HeldState, outputs: Sequence[str]) -> Sequence[str] | None:
    """Return `outputs` if they name fields of the state's value; None if a query returns the whole value.

    A single name that is not a field of the value means the value itself, a struct.
    """
    fields = value_fields(node)
    return None if fields is None or (len(outputs) == 1 and outputs[0] not in fields) else outputs


def shown_type(node: nodes.HeldState) -> DataType | None:
    """Return the type of the value that queries see, or None if ``present`` is not annotated."""
    match node:
        case nodes.PersistentAggregate(aggregation=how) | nodes.PersistentReduce(reduction=how):
            return presented_type(how)
        case nodes.Window(windowing=windowing) if windowing.aggregation is not None and windowing.panes:
            return presented_type(windowing.aggregation)
    return value_of(node).dataType


def function_of(node: nodes.HeldState) -> CallSite:
    """Return the location of the user's code that updates the state, or that declares a static state."""
    match node:
        case nodes.PersistentAggregate(aggregation=how) | nodes.PersistentReduce(reduction=how):
            return how.site
        case nodes.PartitionPersist(updating=updating):
            return updating.site
        case nodes.Window(windowing=windowing) | nodes.Watermark(windowing=windowing):
            return windowing.site
        case nodes.IntervalJoin(joining=joining):
            return joining.site
        case nodes.StaticState():
            return node.site
