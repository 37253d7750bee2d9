"""The properties of a state that its readers need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trident.base.spark_types import arrow_type
from trident.plan.nodes import StateWriter
from trident.plan.state_schema import parts_of, present_of, shown_type, value_of
from trident.reads.indexes import Index, indexes_among
from trident_state.state_shape import StateKind, StateShape


@dataclass(frozen=True)
class StateDescription:
    """The properties of a state that its readers need.

    `output`: the name of its value field. `types`: the type of the value that readers see, or of each of its `parts`;
    None for a type that is not declared. `present`: the function from a stored value to the value that readers see;
    None if they are the same. `parts`: for a value with a field for each of several aggregators, the function that
    presents each field. `indexes`: the indexes that are known.
    """

    name: str
    kind: StateKind
    shape: StateShape
    output: str
    types: tuple[pa.DataType | None, ...]
    present: Callable[[Any], Any] | None = None
    parts: Mapping[str, Callable[[Any], Any] | None] | None = None
    indexes: tuple[Index, ...] = ()

    @classmethod
    def of(
        cls, node: StateWriter, shape: StateShape, shapes: Mapping[str, StateShape] | None = None
    ) -> "StateDescription":
        """Describe the state that this step of a topology writes. `shapes`: those of all states of the topology."""
        members, name = parts_of(node), node.state.name
        parts = None if members is None else {name: member.present for name, member in members.items()}
        indexes = () if shapes is None else indexes_among(name, shapes)
        output, present = value_of(node).name, present_of(node)
        shown = [shown_type(node)] if members is None else [member.presented for member in members.values()]
        types = tuple(None if kind is None else arrow_type(kind) for kind in shown)
        return cls(name, node.state.factory.kind, shape, output, types, present, parts, indexes)
