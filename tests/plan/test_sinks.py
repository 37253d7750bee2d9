"""Every class of sinks has a row of traits and a function that opens it."""

from typing import get_args

from trident.outputs.outlets import Outlets
from trident.plan import nodes
from trident.plan.sinks import SINKS


def test_every_sink_has_a_row_and_no_other_node_has() -> None:
    assert set(SINKS) == set(get_args(nodes.Sink))


def test_every_sink_has_a_function_that_opens_it() -> None:
    assert set(Outlets.openers) == set(get_args(nodes.Sink))


def test_only_functions_over_batches_may_stand_in_a_best_effort_branch() -> None:
    assert [kind for kind, traits in SINKS.items() if traits.in_branch] == [nodes.ForeachBatch]
