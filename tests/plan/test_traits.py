"""Every class of nodes has a row of traits, and the error for a class without a row names it."""

from dataclasses import MISSING, dataclass, fields
from typing import get_args

import pytest
from pyspark.sql.types import StructType

from trident.base.callsite import CallSite
from trident.plan.nodes import Derived, HeldState, Node, StateQuery, StateReader, StateWriter, walk
from trident.plan.traits import TRAITS, Traits, may_lose_batches, traits_of


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


def test_what_is_to_be_exact_stays_out_of_best_effort_branches() -> None:
    refused = [kind for kind in TRAITS if not may_lose_batches(object.__new__(kind))]
    exact = [*get_args(HeldState), *get_args(StateReader), *classes_below(Derived)]
    sinks = ["WriteParquet", "WriteKafka", "WriteJdbc", "WriteDelta", "CountMetric", "BestEffort"]
    assert {kind.__name__ for kind in refused} == {*(kind.__name__ for kind in exact), *sinks}


def test_what_writes_a_state_is_an_aggregate() -> None:
    assert [TRAITS[kind].role for kind in get_args(StateWriter)] == ["aggregate"] * 7
    assert TRAITS[StateQuery].role == "query"


def test_a_class_without_a_row_is_named() -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Forgotten(Node):
        source: Node

    here = CallSite("here")
    first = Node(step="s/0:first", site=here, schema=StructType([]))
    node = Forgotten(first, step="s/1:forgotten", site=here, schema=StructType([]))
    assert walk(node) == [first, node]
    with pytest.raises(TypeError, match=r"Forgotten has no entry in trident\.plan\.traits\.TRAITS"):
        traits_of(node)
