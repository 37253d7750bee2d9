"""Early results compared with a model that computes all windows anew after each batch, for streams cut at random."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.compiler.test_windows_by_any_cut import Listed, Numbered, Product
from tests.compiler.window_runner import Windowed, at, secs
from tests.support.early_windows import Row, Windows, follow, hashable
from tests.support.soak import some_of
from trident import (
    Count,
    EarlyStream,
    Max,
    SessionWindow,
    SlidingDurationWindow,
    SlidingEventTimeWindow,
    Stream,
    Sum,
    TumblingDurationWindow,
    TumblingEventTimeWindow,
)
from trident.compiler.states.row_changes import NumberedRows, row_changes

FOLDS: dict[str, tuple[Any, Callable[[Sequence[int]], Any]]] = {
    "count": (Count(), len),
    "sum": (Sum(), sum),
    "max": (Max(), max),
    "python": (Product(), lambda ns: sum(1 << max(0, n) for n in ns)),
    "reducer": (Listed(), tuple),
}
CONFIGS = {
    "tumbling": TumblingEventTimeWindow(10, "at", lateness=4),
    "sliding": SlidingEventTimeWindow(10, 4, "at", lateness=3),
    "sessions": SessionWindow(5, "at", lateness=8),
    "durations": TumblingDurationWindow(10),
    "sliding durations": SlidingDurationWindow(10, 5),
}


def windowed(config: Any, aggregator: Any, grouped: bool, outputs: str = "c") -> Windowed:
    def build(stream: Stream) -> EarlyStream:
        over = stream.groupBy("k") if grouped else stream
        given = (aggregator, outputs) if isinstance(aggregator, Count) else ("n", aggregator, outputs)
        return over.window(config, *given, emit="changes")

    return Windowed(build)


def drawn(chance: random.Random) -> list[tuple[list[Row], float]]:
    """Batches, each with its time. The times of the tuples go on, and some tuples are late."""
    time, batches = 0, []
    for number in range(chance.randint(3, 9)):
        rows = list[Row]()
        for _ in range(chance.choice([0, 1, 2, 3, 7, 20])):
            time += chance.choice([0, 0, 0, 1, 2, 9])
            when = None if chance.random() < 0.05 else time - chance.choice([0, 0, 0, 1, 3, 6, 20])
            rows.append((chance.choice(["a", "b", None]), when, chance.randint(-3, 9)))
        batches.append((rows, 4.0 * number))
    return batches


def shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (secs(row[0]), secs(row[1]), *map(hashable, row[2:]))


@pytest.mark.parametrize("seed", some_of(range(400), range(60)))
def test_changes_lead_from_the_results_of_each_batch_to_those_of_the_next(seed: int) -> None:
    chance = random.Random(seed)
    config, fold, grouped = CONFIGS[chance.choice([*CONFIGS])], chance.choice([*FOLDS]), chance.random() < 0.7
    aggregator, of = FOLDS[fold]
    window, model, rows = windowed(config, aggregator, grouped), Windows(config, grouped), Counter[Any]()
    for batch, now in drawn(chance):
        given, _ = window.batch([(k, at(t), n) for k, t, n in batch], now, twice=chance.random() < 0.2)
        follow(rows, map(shown, given))
        assert rows == model.add(batch, now).rows(of)
        if chance.random() < 0.2:
            window.restart()


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_several_results_of_a_window_are_told_apart_by_their_order(config: Any) -> None:
    window, model, rows = windowed(config, Numbered(), True, "number, c"), Windows(config), Counter[Any]()
    for batch, now in drawn(random.Random(5)):
        follow(rows, map(shown, window.batch([(k, at(t), n) for k, t, n in batch], now)[0]))
        model.add(batch, now)
        expected = Counter((*bounds[:2], *bounds[2], n) for bounds, ns in model.now().items() for n in ns)
        assert Counter((*row[:3], row[4]) for row in rows.elements()) == expected


class Balance:
    """A combiner that has no value while the sum is 0."""

    outputType = "long"

    def init(self, tuple: Any) -> int | None:
        return tuple.n or None

    def combine(self, a: int, b: int) -> int | None:
        return a + b or None

    def zero(self) -> None:
        return None


@pytest.mark.parametrize("config", [CONFIGS["tumbling"], SessionWindow(20, "at")])
def test_a_window_without_a_value_has_no_result_until_it_has_one_again(config: Any) -> None:
    window, kinds = windowed(config, Balance(), True), []
    for n in (0, 5, -5, 0, 3, 4):
        changes, _ = window.batch([("a", at(1), n)])
        kinds.append([(row[3], row[4]) for row in changes])
    assert kinds == [
        [],
        [(5, "insert")],
        [(5, "delete")],
        [],
        [(3, "insert")],
        [(3, "update_preimage"), (7, "update_postimage")],
    ]


def test_a_session_that_enters_another_one_leaves_before_the_other_grows() -> None:
    window = windowed(SessionWindow(10, "at", lateness=60), Sum(), True)
    window.batch([("a", at(0), 2), ("a", at(10), 1), ("a", at(20), 4), ("b", at(20), 64)])
    changes, _ = window.batch([("a", at(15), 8)])
    assert [shown(row) for row in changes] == [
        (20, 30, "a", 4, "delete"),
        (10, 20, "a", 1, "update_preimage"),
        (10, 30, "a", 13, "update_postimage"),
    ]


def test_a_window_that_closes_gives_no_change_and_late_tuples_give_none() -> None:
    window = windowed(TumblingEventTimeWindow(10, "at"), Sum(), True)
    first, _ = window.batch([("a", at(1), 1), ("a", at(12), 2)])
    assert [row[3:] for row in first] == [(1, "insert"), (2, "insert")]  # the first one closes with its batch
    assert window.batch([("a", at(2), 4)]) == ([], [])


def rows_of(*rows: tuple[int, Any]) -> NumberedRows:
    numbers = pa.array([number for number, _ in rows], pa.int64()).to_numpy()
    return NumberedRows(pa.table({"x": pa.array([value for _, value in rows], pa.float64())}), numbers)


def test_rows_are_compared_by_their_numbers_and_by_their_order_under_one_number() -> None:
    schema, nan = pa.schema({"x": pa.float64(), "kind": pa.string()}), float("nan")
    before = rows_of((4, 1.0), (2, nan), (2, 2.0), (7, None), (9, 3.0), (9, 4.0))
    after = rows_of((2, nan), (2, 5.0), (7, None), (9, 3.0), (1, 8.0))
    assert [tuple(row.values()) for row in row_changes(before, after, schema).to_pylist()] == [
        (8.0, "insert"),
        (2.0, "update_preimage"),
        (5.0, "update_postimage"),
        (1.0, "delete"),
        (4.0, "delete"),
    ]
    assert row_changes(rows_of(), rows_of(), schema).num_rows == 0
