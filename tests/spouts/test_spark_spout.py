"""SparkSpout without Spark: its arguments, its plans, and the road of the embedded engine."""

import re
from pathlib import Path
from typing import Any

import pytest

from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.errors import MissingSessionError, SpoutContractError, TopologyError, UserFunctionError
from trident.spouts import Budget, SparkSpout, SpoutKind
from trident.state import MemoryMapState
from trident.testing import SpoutContract, start_local
from trident_spouts.spark_spout import _PLANS_KEPT

HERE = Path(__file__).name
ROWS = [(n, f"word {n % 3}") for n in range(1, 12)]
SCHEMA = "id long, word string"


def next_ids(previous: Any, budget: Budget) -> Any:
    start = previous["to"] if previous else 0
    end = min(len(ROWS), start + budget.rows_within(4))
    return {"from": start, "to": end, "rows": end - start} if end > start else None


def rows_of_ids(metadata: Any) -> Any:
    return ROWS[metadata["from"] : metadata["to"]]


def frame_of_ids(spark: Any, metadata: Any) -> Any:
    return spark.createDataFrame(rows_of_ids(metadata), "id long, word string")


def spout(**options: Any) -> SparkSpout:
    return SparkSpout(frame_of_ids, next_ids, SCHEMA, readLocal=rows_of_ids, **options)


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
class TestSparkSpout(SpoutContract):
    @pytest.fixture
    def make_spout(self, kind: str) -> Any:
        return lambda: spout(kind=kind)

    @pytest.fixture
    def every_row(self) -> Any:
        return ROWS


def plan_of(function: Any, previous: Any = None, budget: Budget = Budget()) -> Any:  # noqa: B008  a constant
    return SparkSpout(frame_of_ids, function, SCHEMA).open().plan(TransactionAttempt(1, 0, 1), previous, 0.0, budget)


def test_it_shows_its_functions_and_says_what_it_knows_of_a_batch() -> None:
    assert repr(spout(kind="opaque")) == (
        "SparkSpout(frame_of_ids, next_ids, 'id bigint, word string', kind='opaque', readLocal=rows_of_ids)"
    )
    assert spout(kind="opaque").kind is SpoutKind.OPAQUE
    emission = spout().open().emit(TransactionAttempt(1, 0, 1), {"from": 0, "to": 4, "rows": 4, "bytes": 99})
    assert (emission.rows, emission.bytes) == (4, 99)
    assert spout().open().emit(TransactionAttempt(1, 0, 1), [1]).rows is None


def test_a_plan_gets_the_budget_if_it_asks_for_one() -> None:
    assert plan_of(next_ids, None, Budget(rows=2)) == {"from": 0, "to": 2, "rows": 2}
    assert plan_of(lambda previous: {"after": previous}, [1], Budget(rows=2)) == {"after": [1]}


def test_a_plan_that_is_wrong_is_named_with_its_file_and_line() -> None:
    def same(previous: Any) -> Any:
        return {"day": 1}

    def no_json(previous: Any) -> Any:
        return {"day": {1}}

    def broken(previous: Any) -> Any:
        raise KeyError("day")

    with pytest.raises(SpoutContractError) as caught:
        plan_of(same, {"day": 1})
    assert re.fullmatch(
        rf"SparkSpout: \S*same \({HERE}:\d+\) returned the previous batch's metadata again: {{'day': 1}}; "
        r"expected the range after it, or None if there is nothing more",
        str(caught.value),
    )
    with pytest.raises(SpoutContractError, match=rf"no_json \({HERE}:\d+\) returned metadata\['day'\]: expected JSON"):
        plan_of(no_json)
    with pytest.raises(UserFunctionError, match=rf"SparkSpout: broken \({HERE}:\d+\) raised KeyError: 'day'; it was"):
        plan_of(broken)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, next_ids, SCHEMA), r"SparkSpout: read=None: expected a function, read\(spark, metadata\)"),
        (
            (rows_of_ids, next_ids, SCHEMA),
            r"read=rows_of_ids \(.*:\d+\) cannot be called as read\(spark, metadata\): too",
        ),
        (
            (frame_of_ids, frame_of_ids, SCHEMA),
            r"plan=frame_of_ids .* cannot be called as plan\(previous\) or plan\(prev",
        ),
        ((frame_of_ids, next_ids, 7), "expected the fields as text"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        SparkSpout(*arguments)


def test_a_wrong_kind_is_refused() -> None:
    with pytest.raises(TopologyError, match="SparkSpout: kind='exact' is not one of 'transactional', 'opaque'"):
        spout(kind="exact")


def test_without_a_local_road_the_embedded_engine_refuses_it_at_the_start() -> None:
    topology = TridentTopology()
    topology.newStream("ids", SparkSpout(frame_of_ids, next_ids, SCHEMA)).peek("id", print)
    with pytest.raises(MissingSessionError) as caught:
        topology.start(engine="embedded")
    assert re.fullmatch(
        rf"engine='embedded' has no Spark, and only Spark can run ids\S* \[called at {HERE}:\d+\]: its spout reads "
        r"with Spark only; give SparkSpout readLocal=, a function that reads without Spark\. With engine='spark' "
        r"the topology runs unchanged",
        str(caught.value),
    ), str(caught.value)
    emission = SparkSpout(frame_of_ids, next_ids, SCHEMA).open().emit(TransactionAttempt(1, 0, 1), {"from": 0, "to": 1})
    with pytest.raises(MissingSessionError, match=rf"frame_of_ids \({HERE}:\d+\) needs Spark to read its rows; start"):
        emission.arrow()


def test_rows_of_the_local_road_are_checked() -> None:
    def wrong(metadata: Any) -> Any:
        return [(1, 2)]

    emission = SparkSpout(frame_of_ids, next_ids, SCHEMA, readLocal=wrong).open().emit(TransactionAttempt(1, 0, 1), {})
    with pytest.raises(SpoutContractError, match=rf"wrong \({HERE}:\d+\), row 0, field 'word': expected string, got 2"):
        emission.arrow()


def test_a_topology_counts_each_row_once() -> None:
    topology = TridentTopology()
    words = topology.newStream("ids", spout()).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    with start_local(topology, name="spark-spout") as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == {"word 0": 3, "word 1": 4, "word 2": 4}


def test_a_plan_that_goes_round_in_circles_is_refused() -> None:
    after = {None: 1, 1: 2, 2: 3, 3: 1}
    executor = SparkSpout(frame_of_ids, lambda previous: {"d": after[previous and previous["d"]]}, "n long").open()
    position = None
    for txid in range(1, 4):
        position = executor.plan(TransactionAttempt(txid, 0), position, 0.0)
    with pytest.raises(SpoutContractError) as refused:
        executor.plan(TransactionAttempt(4, 0), position, 0.0)
    assert "returned a range that this run has already read: {'d': 1}, now after {'d': 3}" in str(refused.value)
    assert "again on purpose, put something new in the range, such as a counter" in str(refused.value)


def test_plans_that_were_not_used_are_no_circle() -> None:
    """A batch is planned again, smaller, and the next one ends where the unused plan ended."""
    ends: list[int] = []
    executor = SparkSpout(frame_of_ids, lambda previous: {"to": ends.pop(0)}, "n long").open()

    def planned(previous: Any, *to: int) -> Any:
        ends.extend(to)
        return executor.plan(TransactionAttempt(1, 0), previous, 0.0)

    first = planned(None, 10)
    assert planned(None, 10) == first
    second = planned(first, 20)
    smaller = planned(first, 15)
    assert planned(smaller, 20) == second
    planned(second, 30)
    other = planned(None, 5)
    assert planned(planned(other, 10), 20) == second
    position = planned(second, 31)
    for end in range(32, 32 + 2 * _PLANS_KEPT):
        position = planned(position, end)
    assert len(executor._line) == _PLANS_KEPT  # type: ignore[attr-defined]
