"""Any topology means the same to the oracle, to the driver-side engine and to Spark."""

import random
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, seed, settings
from pyspark.sql import SparkSession

from tests.compiler.stage_runner import OnArrow, OnSpark, Slots
from tests.differential.build import built
from tests.differential.draw import BATCHES, SELDOM, Verb, plans
from tests.differential.oracle import Parts, evaluate, same
from tests.differential.oracle_of_windows import left
from tests.differential.oracle_over_time import left_over_time
from tests.differential.plan import OVER_TIME, Plan, Row
from tests.differential.windows import Windows
from tests.support.soak import Soak
from trident.base.attempt import TransactionAttempt
from trident.compiler.engine import Slot
from trident.compiler.program import Group
from trident.compiler.stages import cut
from trident.plan.nodes import Node

_RUN = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


def agrees(plan: Plan, slots: Slots, native: bool, batches: int = BATCHES, used: bool = False) -> None:
    """The engine gives the same results as the oracle for each batch.

    A slot that is `used` has run the other batch twice before: what it kept of that does not show.
    """
    groups = [(group, slots.slot(group), Windows(group)) for group in cut(built(plan, native)).groups]
    for batch in range(batches):
        expected = evaluate(plan, batch)
        found = {}
        for group, slot, windows in groups:
            for _ in range(2 if used else 0):
                _stage(group, slot, (batch + 1) % BATCHES)
            results = _stage(group, slot, batch)
            found |= results | windows.results(batch + 1, results)
        for at in plan.sinks:
            told, wanted = counted(told_of(plan, at, found)), counted(wanted_of(plan, at, batch, expected))
            surplus, missing = dict(told - wanted), dict(wanted - told)
            assert told == wanted, f"batch {batch}, stream {at}: {surplus} too much, {missing} missing\n{plan}"


def told_of(plan: Plan, at: int, found: Mapping[str, pa.Table]) -> list[Row]:
    """What left a stream; of a dropDuplicates without event time only the keys."""
    step = plan.steps[at]
    match step.verb:
        case "window":
            table = found[step.args["time"]]
        case verb if verb in OVER_TIME:
            table = found[step.args["name"]]
        case _:
            table = found[f"sink{at}|"]
    if step.verb == "dedup" and step.args["time"] is None:
        table = table.select(step.args["keys"])
    return list(zip(*[column.to_pylist() for column in table.columns], strict=True))


def wanted_of(plan: Plan, at: int, batch: int, expected: list[Parts]) -> list[Row]:
    """What the oracle says of it."""
    match plan.steps[at].verb:
        case "window":
            return left(plan, at, batch)
        case verb if verb in OVER_TIME:
            return left_over_time(plan, at, batch)
    return [row for part in expected[at] for row in part]


def counted(rows: list[Row]) -> Counter[Row]:
    return Counter(tuple(map(shown, row)) for row in rows)


def shown(value: Any) -> Any:
    """As groups and joins see it, without the last digits of a double; a list or a struct as a tuple."""
    if isinstance(value, dict):
        return tuple(map(shown, value.values()))
    if isinstance(value, list):
        return tuple(map(shown, value))
    value = same(value)
    return round(value, 9) if isinstance(value, float) else value


def _stage(group: Group, slot: Slot, batch: int) -> dict[str, Any]:
    attempt = TransactionAttempt(batch + 1, 0)
    given: dict[Node, Any] = {spout: spout.spout.open().emit(attempt, batch) for spout in group.spouts}
    with tempfile.TemporaryDirectory() as scratch:
        return dict(slot.run(group.stages[0], given, attempt, Path(scratch) / "s").results)


@given(plan=plans())
@settings(_RUN, max_examples=150)
def test_the_driver_side_engine_agrees_with_the_oracle(plan: Plan) -> None:
    agrees(plan, OnArrow(), native=False)


@pytest.mark.soak
def test_the_driver_side_engine_agrees_with_the_oracle_about_other_topologies(soak: Soak) -> None:
    for chance in soak.draws(20):
        _drawn(chance, OnArrow(), native=False)


@pytest.mark.connect
@pytest.mark.spark
def test_spark_agrees_with_the_oracle(spark: SparkSession) -> None:
    slots, chance = OnSpark(spark), random.Random(7)
    try:
        for verb in SELDOM:
            _drawn(chance, slots, native=True, examples=1, last=(verb,))
    finally:
        slots.close()


@pytest.mark.spark
@pytest.mark.soak(weight=2)
def test_spark_agrees_with_the_oracle_about_other_topologies(soak: Soak, spark: SparkSession) -> None:
    slots = OnSpark(spark)
    try:
        for chance in soak.draws(20):
            _drawn(chance, slots, native=True, examples=10, used=True)
    finally:
        slots.close()


def _drawn(
    chance: random.Random,
    slots: Slots,
    native: bool,
    examples: int = 100,
    last: tuple[Verb, ...] = SELDOM,
    used: bool = False,
) -> None:
    """Topologies drawn from this chance; Spark sees one batch of each, or all where what leaves depends on more. One of
    their verbs is one of `last`."""

    @seed(chance.getrandbits(32))
    @given(plan=plans(last=last))
    @settings(_RUN, derandomize=False, max_examples=examples)
    def agree(plan: Plan) -> None:
        over_time = any(step.verb in OVER_TIME for step in plan.steps)
        agrees(plan, slots, native, BATCHES if over_time or not native else 1, used)

    agree()
