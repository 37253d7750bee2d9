"""The content of a state, for the steps of all verbs: the key fields, the stored value, the value that queries see."""

from collections.abc import Callable
from typing import Any

from pyspark.sql.types import DataType, StructField, StructType

from trident.base.callsite import CallSite
from trident.base.types import select
from trident.operations.aggregator_kinds import presented_type
from trident.plan.nodes import (
    HeldState,
    IntervalJoin,
    PartitionPersist,
    PersistentAggregate,
    PersistentReduce,
    StaticState,
    Watermark,
    Window,
)


def keys_of(node: HeldState) -> StructType:
    """Return the key fields. A state of one global value has none."""
    match node:
        case PersistentAggregate() | PersistentReduce():
            return select(node.source.schema, node.group)
    return node.keys


def value_of(node: HeldState) -> StructField:
    """Return the field of the stored value."""
    return node.schema.fields[-1]


def present_of(node: HeldState) -> Callable[[Any], Any] | None:
    """Return the aggregator's ``present``, which turns a stored value into the value that queries see, or None."""
    match node:
        case PersistentAggregate(aggregation=how) | PersistentReduce(reduction=how):
            return getattr(how.aggregator, "present", None)
        case Window(windowing=windowing) if windowing.panes:
            return getattr(windowing.aggregator, "present", None)
    return None


def shown_type(node: HeldState) -> DataType | None:
    """Return the type of the value that queries see, or None if ``present`` is not annotated."""
    match node:
        case PersistentAggregate(aggregation=how) | PersistentReduce(reduction=how):
            return presented_type(how)
        case Window(windowing=windowing) if windowing.aggregation is not None and windowing.panes:
            return presented_type(windowing.aggregation)
    return value_of(node).dataType


def function_of(node: HeldState) -> CallSite:
    """Return the location of the user's code that updates the state, or that declares a static state."""
    match node:
        case PersistentAggregate(aggregation=how) | PersistentReduce(reduction=how):
            return how.site
        case PartitionPersist(updating=updating):
            return updating.site
        case Window(windowing=windowing) | Watermark(windowing=windowing):
            return windowing.site
        case IntervalJoin(joining=joining):
            return joining.site
        case StaticState():
            return node.site
