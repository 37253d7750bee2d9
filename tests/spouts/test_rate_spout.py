"""RateSpout: rows at a rate, each a function of its number, the seed and the time of the start."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.plans import logged
from trident.base.attempt import TransactionAttempt
from trident.errors import SpoutContractError, TopologyError
from trident.spouts import Budget, RateSpout, SharesEmission

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
T0 = START.timestamp()


def made(first: int, end: int, **options: Any) -> pa.Table:
    executor = RateSpout(100, startTime=START, **options).open()
    return executor.emit(TransactionAttempt(1, 0), {"start": round(T0 * 1e6), "from": first, "to": end}).arrow()


def test_rows_come_at_the_rate_since_the_first_plan() -> None:
    executor = RateSpout(100, rows=250).open()
    first = logged(executor.plan(TransactionAttempt(1, 0), None, T0))
    assert first == {"start": round(T0 * 1e6), "from": 0, "to": 1}
    assert executor.plan(TransactionAttempt(2, 0), first, T0 + 0.009) is None
    second = logged(executor.plan(TransactionAttempt(2, 0), first, T0 + 1))
    assert second == {"start": round(T0 * 1e6), "from": 1, "to": 101}
    third = logged(executor.plan(TransactionAttempt(3, 0), second, T0 + 60))  # a run that was down for a minute
    assert third == {"start": round(T0 * 1e6), "from": 101, "to": 250}
    assert executor.plan(TransactionAttempt(4, 0), third, T0 + 120) is None


def test_with_a_start_in_the_past_the_rows_since_then_are_there_at_once() -> None:
    executor = RateSpout(100, startTime=START, maxRowsPerBatch=5000).open()
    first = logged(executor.plan(TransactionAttempt(1, 0), None, T0 + 3600))
    assert first == {"start": round(T0 * 1e6), "from": 0, "to": 5000}
    assert executor.plan(TransactionAttempt(1, 0), None, T0 - 1) is None


def test_a_budget_makes_batches_smaller_and_not_larger() -> None:
    executor = RateSpout(100, startTime=START, maxRowsPerBatch=500).open()
    ends = [
        executor.plan(TransactionAttempt(1, 0), None, T0 + 3600, budget)["to"]  # type: ignore[index, call-overload]
        for budget in (Budget(), Budget(rows=20), Budget(rows=0), Budget(rows=10**9), Budget(bytes=1, seconds=0.0))
    ]
    assert ends == [500, 20, 1, 500, 500]


def test_a_row_does_not_depend_on_its_batch_or_its_partition() -> None:
    options: dict[str, Any] = {"keys": 7, "skew": 1.2, "lateness": "10 seconds", "seed": 3}
    whole = made(0, 1000, **options)
    assert pa.concat_tables([made(0, 333, **options), made(333, 1000, **options)]).equals(whole)
    assert made(0, 1000, numPartitions=13, **options).equals(whole)
    assert not made(0, 1000, **{**options, "seed": 4}).equals(whole)
    assert whole["value"].to_pylist() == list(range(1000))


def test_the_rows_of_this_version_are_those_of_the_version_before() -> None:
    """Other rows would be another replay of a batch that is in a log."""
    first = 10**12
    rows = made(first, first + 4, keys=1000, skew=1.0, lateness=60, seed=5).to_pylist()
    due = [START + timedelta(milliseconds=10 * (first + n)) for n in range(4)]
    late = [(time - row["timestamp"]) // timedelta(microseconds=1) for time, row in zip(due, rows, strict=True)]
    assert [row["key"] for row in rows] == [5, 324, 586, 110]
    assert late == [6795456, 50785804, 3363873, 6498787]


def test_keys_are_as_frequent_as_the_skew_says() -> None:
    alike = Counter(made(0, 100_000, keys=4)["key"].to_pylist())
    assert sorted(alike) == [0, 1, 2, 3]
    assert all(24_000 < count < 26_000 for count in alike.values())
    skewed = Counter(made(0, 100_000, keys=1000, skew=1.0)["key"].to_pylist())
    assert 13_000 < skewed[0] < 13_700, "1 / (1 + 1/2 + ... + 1/1000) is 13.36 %"
    assert 6_400 < skewed[1] < 7_000
    assert max(skewed) <= 999


def test_event_times_are_late_by_up_to_the_lateness() -> None:
    exact = made(0, 10_000)["timestamp"]
    assert exact.to_pylist()[:3] == [START, START + timedelta(seconds=0.01), START + timedelta(seconds=0.02)]
    lateness = pc.subtract(exact, made(0, 10_000, lateness="5 seconds")["timestamp"]).cast(pa.int64()).to_pylist()
    assert min(lateness) >= 0
    assert 4_900_000 < max(lateness) <= 5_000_000
    assert 2_400_000 < sum(lateness) / 10_000 < 2_600_000


def test_workers_make_the_rows_in_as_many_partitions_as_are_worth_it() -> None:
    def shares(rows: int, **options: Any) -> int:
        executor = RateSpout(100, **options).open()
        emission = executor.emit(TransactionAttempt(1, 0), {"start": 0, "from": 0, "to": rows})
        assert isinstance(emission, SharesEmission)
        assert emission.rows == rows
        return len(emission.shares)

    assert [shares(1), shares(250_000), shares(250_001), shares(1_000_000)] == [1, 1, 2, 4]
    assert [shares(1000, numPartitions=8), shares(3, numPartitions=8)] == [8, 3]


def test_it_tells_how_far_it_was_read() -> None:
    executor: Any = RateSpout(100, startTime=START, maxRowsPerBatch=40).open()
    assert executor.read_so_far(None) is None
    plan = executor.plan(TransactionAttempt(1, 0), None, T0 + 0.99)
    assert executor.read_so_far(None)[:3] == (0, 100, "rows")
    assert executor.read_so_far(plan)[:3] == (40, 100, "rows")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rowsPerSecond": 0}, r"RateSpout: rowsPerSecond=0: expected a whole number from 1 to 1000000000"),
        ({"rowsPerSecond": 0.5}, r"RateSpout: rowsPerSecond=0.5: expected a whole number"),
        ({"rows": -1}, r"RateSpout: rows=-1: expected a whole number of at least 1"),
        ({"keys": 10**9}, r"RateSpout: keys=1000000000: expected a whole number from 1 to 10000000"),
        ({"skew": -1}, r"RateSpout: skew=-1: expected a number from 0 \(all keys alike\) to 10"),
        ({"skew": float("nan")}, r"RateSpout: skew=nan: expected a number from 0"),
        ({"seed": "x"}, r"RateSpout: seed='x'.*: expected a whole number"),
        ({"lateness": -1}, r"RateSpout: lateness"),
        (
            {"startTime": datetime(2026, 1, 1)},
            r"RateSpout: startTime is .*: expected a datetime with a time zone, such as datetime\(2026, 1, 31, tzinfo",
        ),
    ],
)
def test_an_argument_out_of_range_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        RateSpout(**options)


def test_the_log_of_another_spout_is_refused() -> None:
    with pytest.raises(SpoutContractError, match=r"RateSpout: this spout cannot replay the batch 7"):
        RateSpout().open().plan(TransactionAttempt(2, 0), 7, T0)


def test_its_repr_shows_what_was_given() -> None:
    assert repr(RateSpout()) == "RateSpout()"
    assert repr(RateSpout(5, keys=2, lateness="1 s")) == "RateSpout(5, keys=2, lateness=1)"


def test_rows_are_made_again_up_to_a_position_whenever_that_is() -> None:
    spout = RateSpout(100, maxRowsPerBatch=60)
    end = {"start": round(T0 * 1e6), "from": 50, "to": 100}
    executor = spout.open_again(lambda: end)
    first = logged(executor.plan(TransactionAttempt(1, 0), None, T0 - 60))  # by a clock that is late
    assert first == {"start": round(T0 * 1e6), "from": 0, "to": 60}
    second = logged(executor.plan(TransactionAttempt(2, 0), first, T0 + 60))
    assert second == {"start": round(T0 * 1e6), "from": 60, "to": 100}
    assert executor.plan(TransactionAttempt(3, 0), second, T0 + 60) is None
    assert spout.open_again(lambda: None).plan(TransactionAttempt(1, 0), None, T0 + 60) is None
    assert spout.amount_before(end) == "100 rows"
