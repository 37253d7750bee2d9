"""The outputs of a stage for a window, panes and partitions: the same on both engines."""

import datetime
from typing import Any

import pytest

from tests.compiler.functions import Longest, lengths
from tests.compiler.stage_runner import STATE, Slots, results, stream
from tests.compiler.window_runner import FIELDS, at
from trident import (
    Count,
    Max,
    SlidingEventTimeWindow,
    Sum,
    TridentTopology,
    TumblingCountWindow,
    TumblingDurationWindow,
    TumblingEventTimeWindow,
    expr,
)

ROWS = [
    ("a", at(1), 1),
    ("b", at(9.999999), 2),
    ("a", at(10), 4),
    (None, at(-0.5), 8),
    ("a", None, 16),
    ("a", at(3), 32),
]
TENS = TumblingEventTimeWindow(10, "at")


def panes(engine: Slots, window: Any, batch: int = 0, **changed: Any) -> list[tuple[Any, ...]]:
    """Return the panes of these rows, each with the latest time of its tuples last."""
    topology = TridentTopology()
    window(stream(topology, FIELDS, ROWS, [])).peek(str)
    return results(engine, topology, batch)["w|"]


def times(found: list[tuple[Any, ...]]) -> Any:
    """Return the latest time of all panes."""
    return max(row[-1] for row in found)


@pytest.mark.parametrize(
    ("aggregator", "expected"),
    [
        (Sum(), [(at(-10), None, 8), (at(0), "a", 33), (at(0), "b", 2), (at(10), "a", 4)]),
        (Max(), [(at(-10), None, 8), (at(0), "a", 32), (at(0), "b", 2), (at(10), "a", 4)]),
    ],
)
def test_panes_by_time_and_group(engine: Slots, aggregator: Any, expected: Any) -> None:
    found = panes(engine, lambda s: s.groupBy("k").window(TENS, STATE, "n", aggregator, "x", name="w"))
    assert sorted((row[:-1] for row in found), key=repr) == sorted(expected, key=repr)
    assert times(found) == at(10)
    assert panes(engine, lambda s: s.groupBy("k").window(TENS, STATE, "n", aggregator, "x", name="w"), batch=1) == []


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_pane_that_would_begin_before_the_year_1_is_none(engine: Slots, kind: str) -> None:
    first = datetime.datetime(1, 1, 1, tzinfo=None if kind == "timestamp_ntz" else datetime.UTC)
    topology = TridentTopology()
    rows = [("a", first, 1), ("a", first.replace(day=6), 2), ("a", first.replace(year=9999, month=12, day=31), 4)]
    weeks = stream(topology, f"k string, at {kind}, n long", rows).groupBy("k")
    weeks.window(TumblingEventTimeWindow("1 week", "at"), STATE, "n", Sum(), "x", name="w").peek(str)
    found = sorted(results(engine, topology, 0)["w|"])
    assert [row[2] for row in found] == [2, 4]


def test_a_sliding_window_is_made_of_panes_no_longer_than_its_slide(engine: Slots) -> None:
    config = SlidingEventTimeWindow(10, 4, "at")
    found = panes(engine, lambda s: s.window(config, STATE, Count(), "x", name="w"))
    assert sorted(row[:-1] for row in found) == [(at(-2), 1), (at(0), 1), (at(2), 1), (at(8), 1), (at(10), 1)]


@pytest.mark.connect
def test_panes_behind_python_and_native_steps(engine: Slots) -> None:
    def behind(s: Any) -> Any:
        timed = s.each("n", lambda n: n * 2, "twice long")
        return timed.groupBy("k").window(TENS, STATE, "twice", Sum(), "x", name="w")

    found = panes(engine, behind)
    assert sorted(row[:-1] for row in found if row[1] == "a") == [(at(0), "a", 66), (at(10), "a", 8)]
    assert times(found) == at(10)


@pytest.mark.connect
def test_panes_of_a_combiner_that_only_python_knows(engine: Slots) -> None:
    def words(s: Any) -> Any:
        spelled = s.each("n", lambda n: "x" * (n % 7), "word string")
        return spelled.window(TENS, STATE, "word", Longest(), "longest", name="w")

    longest: dict[Any, str] = {}
    for start, word, _ in panes(engine, words):  # Spark's partitions meet on the driver
        longest[start] = max(longest.get(start, ""), word, key=len)
    assert longest == {at(-10): "x", at(0): "xxxx", at(10): "xxxx"}


def test_an_empty_batch_has_no_pane_by_batch_time_either(engine: Slots) -> None:
    config = TumblingDurationWindow(10)
    assert panes(engine, lambda s: s.groupBy("k").window(config, STATE, Count(), "x", name="w")) == [
        ("a", 4),
        ("b", 1),
        (None, 1),
    ]
    assert panes(engine, lambda s: s.window(config, STATE, Count(), "x", name="w")) == [(0, 6)]
    assert panes(engine, lambda s: s.window(config, STATE, Count(), "x", name="w"), batch=1) == []


def test_a_window_over_a_stream_is_one_of_each_partition(engine: Slots) -> None:
    def placed(s: Any) -> Any:
        return s.partition("n", lambda n, of: n.bit_length() % of).parallelismHint(3)

    found = panes(engine, lambda s: placed(s).window(TumblingCountWindow(3), STATE, "n", Sum(), "x", name="w"))
    assert found == [(n, n.bit_length() % 3) for n in (1, 16, 2, 32, 4, 8)]
    found = panes(engine, lambda s: placed(s).window(TumblingDurationWindow(3), STATE, "n", Sum(), "x", name="w"))
    assert found == [(0, 36), (1, 9), (2, 18)]


def test_what_a_window_does_not_read_is_not_carried(engine: Slots) -> None:
    topology = TridentTopology()
    made = (
        stream(topology, FIELDS, ROWS).filter("k", lambda k: k is not None).each("k", lengths, "size int, first string")
    )
    made.groupBy("first").window(TumblingCountWindow(2), STATE, "n", Sum(), "x", name="w").peek(str)
    assert results(engine, topology)["w|"] == [(1, "a"), (16, "a"), (2, "b"), (32, "a"), (4, "a")]


@pytest.mark.spark
def test_a_native_step_before_a_window(on_spark: Slots) -> None:
    topology = TridentTopology()
    timed = stream(topology, "k string, ms long", [("a", 1000), ("a", 12_000)]).each(
        "ms", expr("timestamp_millis(ms)"), "at timestamp"
    )
    timed.groupBy("k").window(TENS, STATE, Count(), "x", name="w").peek(str)
    found = results(on_spark, topology)["w|"]
    assert sorted(row[:3] for row in found) == [(at(0), "a", 1), (at(10), "a", 1)]
