"""Every class of nodes has a row of traits, and the error for a class without a row names it."""

from dataclasses import MISSING, dataclass, fields

import pytest
from pyspark.sql.types import StructType

from trident.base.callsite import CallSite
from trident.plan.nodes import Node, StateQuery, StateStep, StateWriter, walk
from trident.plan.traits import TRAITS, Traits, traits_of


def classes_below(kind: type[Node]) -> set[type[Node]]:
    """Return the classes of nodes that this library derives from one."""
    own = {below for below in kind.__subclasses__() if below.__module__.startswith("trident.")}
    return own.union(*map(classes_below, own))


def test_every_class_of_nodes_has_traits_and_nothing_else_has() -> None:
    # Two classes of one name are one: a dataclass with slots is made twice, and the first may still be there.
    # `Derived` is only the base of four classes.
    assert {kind.__name__ for kind in classes_below(Node)} - {"Derived"} == {kind.__name__ for kind in TRAITS}


def test_a_row_cannot_leave_out_what_a_pass_decides_by() -> None:
    required = {trait.name for trait in fields(Traits) if trait.default is MISSING}
    assert required == {"role", "keeps_partitions", "reads", "runner", "summary"}


def test_what_touches_a_state_stays_out_of_best_effort_branches() -> None:
    assert [kind.__name__ for kind in StateStep.__args__ if TRAITS[kind].in_branch] == []
    assert [TRAITS[kind].role for kind in StateWriter.__args__] == ["aggregate"] * 6
    assert TRAITS[StateQuery].role == "query"


def test_a_class_without_a_row_is_named() -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Forgotten(Node):
        source: Node

    here = CallSite("here")
    first = Node(step="s/0:first", site=here, schema=StructType([]))
    node = Forgotten(first, step="s/1:forgotten", site=here, schema=StructType([]))
    assert walk(node) == [first, node]
    with pytest.raises(TypeError, match=r"Forgotten has no traits: give it a row in trident\.plan\.traits\.TRAITS"):
        traits_of(node)
