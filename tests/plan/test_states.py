"""Every class of nodes that has a state has a row of traits, and the error for a class without a row names it."""

from dataclasses import MISSING, dataclass, fields
from typing import get_args

import pytest
from pyspark.sql.types import StructType

from trident.base.callsite import CallSite
from trident.plan import nodes
from trident.plan.states import STATES, StateTraits, state_traits


def test_every_node_with_a_state_has_a_row_and_no_other_node_has() -> None:
    assert set(STATES) == set(get_args(nodes.HeldState))


def test_the_union_of_writers_has_every_node_that_declares_a_state() -> None:
    # A node that is in no union would write a state that no stage ends at.
    declares = {kind for kind in every_node() if {"state"} <= {field.name for field in fields(kind)}}
    assert {kind.__name__ for kind in declares} == {kind.__name__ for kind in get_args(nodes.HeldState)}
    several = {kind.__name__ for kind in declares if "outputs" in {field.name for field in fields(kind)}}
    assert several == {kind.__name__ for kind in get_args(nodes.EmittingUpdate)}


def test_a_row_cannot_leave_out_what_no_default_suits() -> None:
    required = {trait.name for trait in fields(StateTraits) if trait.default is MISSING}
    assert required == {"keys", "site", "meaning", "new_values", "why_driver"}


def test_a_class_without_a_row_is_named() -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Forgotten(nodes.Node):
        keys: StructType

    here = CallSite("here")
    node = Forgotten(StructType([]), step="s/1:forgotten", site=here, schema=StructType([]))
    with pytest.raises(TypeError, match=r"Forgotten has no entry in trident\.plan\.states\."):
        state_traits(node)


def test_every_derived_output_has_a_mark_of_its_own() -> None:
    derived = {kind.__name__: kind for kind in every_node() if issubclass(kind, nodes.Derived)}
    assert sorted(derived) == ["CommittedQuery", "Emitted", "LateTuples", "LettersOf", "TableChanges"]
    assert len({kind.ending for kind in derived.values()}) == 5
    after = {name for name, kind in derived.items() if kind.after_source}
    assert after == {"CommittedQuery", "LateTuples", "TableChanges"}
    assert {name for name, kind in derived.items() if kind.beside_state} == {"Emitted", "LateTuples"}


def every_node() -> list[type[nodes.Node]]:
    return [
        kind
        for kind in vars(nodes).values()
        if isinstance(kind, type) and issubclass(kind, nodes.Node) and kind not in (nodes.Node, nodes.Derived)
    ]
