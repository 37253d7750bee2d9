"""What a step's state holds, whichever verb made it: key fields, value, and what queries see of the value."""

from collections.abc import Callable
from typing import Any

from pyspark.sql.types import DataType, StructField, StructType

from trident.base.callsite import CallSite
from trident.base.types import select
from trident.operations.aggregator_kinds import presented_type
from trident.plan.nodes import (
    HeldState,
    PartitionPersist,
    PersistentAggregate,
    PersistentReduce,
    StaticState,
    Watermark,
    Window,
)


def keys_of(node: HeldState) -> StructType:
    """The key fields; none for one global value."""
    match node:
        case PersistentAggregate() | PersistentReduce():
            return select(node.source.schema, node.group)
    return node.keys


def value_of(node: HeldState) -> StructField:
    """The stored value's field."""
    return node.schema.fields[-1]


def present_of(node: HeldState) -> Callable[[Any], Any] | None:
    """The aggregator's ``present``: what queries see of a stored value, where it is not the value itself."""
    match node:
        case PersistentAggregate(aggregation=how) | PersistentReduce(reduction=how):
            return getattr(how.aggregator, "present", None)
        case Window(windowing=windowing) if windowing.panes:
            return getattr(windowing.aggregator, "present", None)
    return None


def shown_type(node: HeldState) -> DataType | None:
    """The type of what queries see of a stored value; None where ``present`` is not annotated."""
    match node:
        case PersistentAggregate(aggregation=how) | PersistentReduce(reduction=how):
            return presented_type(how)
        case Window(windowing=windowing) if windowing.aggregation is not None and windowing.panes:
            return presented_type(windowing.aggregation)
    return value_of(node).dataType


def function_of(node: HeldState) -> CallSite:
    """Where the user's code that updates it stands."""
    match node:
        case PersistentAggregate(aggregation=how) | PersistentReduce(reduction=how):
            return how.site
        case PartitionPersist(updating=updating):
            return updating.site
        case Window(windowing=windowing) | Watermark(windowing=windowing):
            return windowing.site
        case StaticState():
            return node.site
