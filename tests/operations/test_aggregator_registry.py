"""The registry of built-in aggregators knows every public one, so that nothing else lists them."""

from collections.abc import Iterable

import pytest

import trident
from tests.differential.build import AGGREGATORS
from tests.server.test_presented_values import SEVERAL
from tests.simulator.verbs import AGGREGATES
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.aggregates.registry import builtin_classes, called_like, known_by_name


def public() -> set[type]:
    named = [getattr(trident, name) for name in dir(trident)]
    return {each for each in named if isinstance(each, type) and issubclass(each, BuiltinAggregator)}


def test_the_registry_has_the_public_aggregators() -> None:
    assert set(builtin_classes()) == public()


def test_a_hint_is_how_to_make_one() -> None:
    for kind in builtin_classes():
        written = called_like(kind.__name__)
        assert written is not None and isinstance(eval(written, vars(trident)), kind), kind


def test_an_aggregator_that_is_known_by_name_presents_as_any_other_of_its_class() -> None:
    for one in known_by_name():
        assert one == type(one)(), "no option changes what it combines"


@pytest.mark.parametrize(
    "met",
    [
        [make() for make in AGGREGATORS.values()],
        [each[1] if isinstance(each, tuple) else each for each in AGGREGATES.values()],
        [each[1] if isinstance(each, tuple) else each for each in SEVERAL.values()],
    ],
    ids=["random programs: tests/differential", "faults: tests/simulator/verbs.py", "clients: tests/server"],
)
def test_an_aggregator_of_each_file_is_met_elsewhere(met: Iterable[object]) -> None:
    """One of a file stands for its relatives. Sketches estimate, so no oracle knows their values."""
    files = {each.__module__.rpartition(".")[2] for each in builtin_classes()} - {"sketches"}
    assert files - {type(each).__module__.rpartition(".")[2] for each in met} == set()
