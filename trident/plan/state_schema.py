"""The schema of a state, whatever verb writes it: the key fields, the stored value, the value that queries see."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql.types import DataType, StructField, StructType

from trident.base.callsite import CallSite
from trident.operations.aggregator_kinds import presented_type
from trident.operations.bundles import BundleMember, bundle_of
from trident.plan import nodes
from trident.plan.states import state_traits


def keys_of(node: nodes.HeldState) -> StructType:
    """Return the key fields. A state of one global value has none."""
    return state_traits(node).keys(node)


def parts_of(node: nodes.HeldState) -> Mapping[str, BundleMember] | None:
    """Return the combiners of the accumulators in each value of the state, by field; None without a bundle."""
    bundle = bundle_of(state_traits(node).presents(node))
    if bundle is None or not bundle.spreads:
        return None
    return {member.aggregation.output: member for member in bundle.members}


def value_of(node: nodes.HeldState) -> StructField:
    """Return the field of the stored value."""
    return state_traits(node).value(node)


def present_of(node: nodes.HeldState) -> Callable[[Any], Any] | None:
    """Return the aggregator's ``present``, which turns a stored value into the value that queries see, or None."""
    how = state_traits(node).presents(node)
    return None if how is None else getattr(how.aggregator, "present", None)


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
    how = state_traits(node).presents(node)
    return value_of(node).dataType if how is None else presented_type(how)


def function_of(node: nodes.HeldState) -> CallSite:
    """Return the location of the user's code that updates the state, or that declares a static state."""
    return state_traits(node).site(node)
