"""Sums of signed numbers mean the same as the combiner that retracts."""

import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from trident import Average, Count, Sum, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

KINDS = ("insert", "delete", "update_preimage", "update_postimage")
MAKES: dict[str, Callable[[Random], Any]] = {
    "long": lambda chance: chance.randint(-(2**40), 2**40),
    "int": lambda chance: chance.randint(-9, 9),
    "decimal(12,2)": lambda chance: Decimal(chance.randint(-(10**6), 10**6)) / 100,
    "double": lambda chance: float(chance.randint(-9, 9)),
}
AGGREGATORS = {"n": Count(), "total": Sum("v"), "mean": Average("v")}


def results(kind: str, batches: list[Any], aggregators: Any) -> dict[Any, Any]:
    topology = TridentTopology()
    changes = topology.newStream("s", FixedBatchSpout(f"g long, v {kind}, kind string", batches)).asChanges("kind")
    grouped = changes.groupBy("g")
    if isinstance(aggregators, dict):
        grouped.persistentAggregate(MemoryMapState.opaque(), aggregators, name="state")
    else:
        grouped.persistentAggregate(MemoryMapState.opaque(), aggregators, "value", name="state")
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=30)
        return dict(running.state("state").items())


@pytest.mark.filterwarnings("ignore:.*no checkpointLocation")
@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize("size", [12, 300])
def test_sums_are_those_of_the_combiner(kind: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(f"{kind}{size}")
    batches = [
        [
            (chance.randint(0, 5), None if chance.random() < 0.2 else MAKES[kind](chance), chance.choice(KINDS))
            for _ in range(size)
        ]
        for _ in range(3)
    ]
    for aggregators in (AGGREGATORS, Count(), Sum("v"), Average("v")):
        fast = results(kind, batches, aggregators)
        with monkeypatch.context() as patch:
            patch.setattr("trident.stream.changes.signed_plan", lambda *_: None)
            assert results(kind, batches, aggregators) == fast


@pytest.mark.filterwarnings("ignore:.*no checkpointLocation")
def test_the_opposite_of_the_least_bigint_is_an_error_that_names_it() -> None:
    with pytest.raises(Exception, match="-9223372036854775808"):
        results("long", [[(1, -(2**63), "delete")] * 100], Sum("v"))


@pytest.mark.filterwarnings("ignore:.*no checkpointLocation")
def test_a_sum_of_infinite_numbers_has_no_rest_that_is_a_number() -> None:
    held = results("double", [[(1, math.inf, "insert"), (1, 2.0, "insert")], [(1, math.inf, "delete")]], Sum("v"))
    assert math.isnan(held[1])
