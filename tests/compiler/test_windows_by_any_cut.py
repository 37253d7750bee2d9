"""Windows compared with a plain computation of their meaning, for a stream that is cut into batches at random.

Between batches the driver may start anew, and a batch may be computed twice before it is frozen.
"""

import datetime
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.compiler.window_runner import Windowed, at, secs
from trident import (
    Count,
    Max,
    SessionWindow,
    SlidingCountWindow,
    SlidingDurationWindow,
    SlidingEventTimeWindow,
    Stream,
    Sum,
    TumblingCountWindow,
    TumblingDurationWindow,
    TumblingEventTimeWindow,
    WindowedStream,
)
from trident.errors import UserFunctionError

Row = tuple[str | None, float | None, int]

ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 40), st.integers(-3, 9)), min_size=0, max_size=30
)
SEEDS = st.integers(0, 2**32)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Listed:
    """The tuples, in order."""

    outputType = "array<long>"

    def init(self) -> list[int]:
        return []

    def reduce(self, curr: list[int], tuple: Any) -> list[int]:
        curr.append(tuple.n)
        return curr


class Numbered:
    """The window's number, and each tuple by itself."""

    outputType = "long, long"

    def init(self, batchId: int, collector: Any) -> int:
        return batchId

    def aggregate(self, val: int, tuple: Any, collector: Any) -> None:
        collector.emit([val, tuple.n])

    def complete(self, val: int, collector: Any) -> None: ...


class Product:
    """A combiner that only Python knows, and whose result needs every value once."""

    outputType = "long"

    def init(self, tuple: Any) -> int:
        return 1 << max(0, tuple.n)

    def combine(self, a: int, b: int) -> int:
        return (a * 3 + b * 3) // 3

    def zero(self) -> int:
        return 0


def fed(window: Windowed, rows: Sequence[Row], seed: int) -> list[tuple[Any, ...]]:
    """Return the results of a stream cut at random, with restarts and lost computations between."""
    chance, results, left = random.Random(seed), list[tuple[Any, ...]](), list(rows)
    while left:
        size = chance.choice([0, 1, 2, 3, 7, 30])
        some, left = left[:size], left[size:]
        given, _ = window.batch([(k, at(t), n) for k, t, n in some], twice=chance.random() < 0.2)
        results += given
        if chance.random() < 0.2:
            window.restart()
    return results


def values(rows: Sequence[Row]) -> list[int]:
    return [n for _, _, n in rows]


FOLDS: dict[str, tuple[Any, str, Callable[[Sequence[Row]], Any]]] = {
    "count": (Count(), "c", len),
    "sum": (Sum(), "c", lambda rows: sum(values(rows))),
    "max": (Max(), "c", lambda rows: max(values(rows))),
    "python": (Product(), "c", lambda rows: sum(1 << max(0, n) for n in values(rows))),
    "reducer": (Listed(), "c", values),
}
FOLD = st.sampled_from(sorted(FOLDS))


def windowed(config: Any, fold: str, grouped: bool) -> Windowed:
    aggregator, output, _ = FOLDS[fold]

    def build(stream: Stream) -> WindowedStream:
        over = stream.groupBy("k") if grouped else stream
        given = (aggregator, output) if fold == "count" else ("n", aggregator, output)
        return over.window(config, *given)

    return Windowed(build)


def groups(rows: Sequence[Row], grouped: bool) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[(row[0],) if grouped else ()].append(row)
    return found


# --- by count -------------------------------------------------------------------------------------------------------


def count_oracle(rows: Sequence[Row], length: int, slide: int, fold: str, grouped: bool) -> list[tuple[Any, ...]]:
    """Every `slide` tuples of a group, its last `length`; in the order of the tuples that complete them."""
    seen: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    results = []
    for row in rows:
        key = (row[0],) if grouped else ()
        seen[key].append(row)
        if len(seen[key]) % slide == 0:
            results.append((*key, FOLDS[fold][2](seen[key][-length:])))
    return results


@QUICK
@given(ROWS, SEEDS, st.integers(1, 9), st.integers(0, 8), FOLD, st.booleans())
@example([("a", 0, n) for n in range(30)], 1, 9, 7, "reducer", False)
def test_count_windows_are_every_slide_tuples_whatever_the_batches(
    rows: list[Row], seed: int, length: int, less: int, fold: str, grouped: bool
) -> None:
    slide = max(1, length - less)
    window = windowed(SlidingCountWindow(length, slide), fold, grouped)
    assert fed(window, rows, seed) == count_oracle(rows, length, slide, fold, grouped)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 700), SEEDS, st.integers(200, 900), st.integers(90, 900), st.booleans())
def test_long_count_windows_are_held_in_parts(total: int, seed: int, length: int, slide: int, grouped: bool) -> None:
    """Longer than a part, over several: nothing is lost at their edges, and what no window needs is gone."""
    slide = min(slide, length)
    rows: list[Row] = [("ab"[n % 3 == 0], 0, n) for n in range(total)]
    chance, window = random.Random(seed), windowed(SlidingCountWindow(length, slide), "reducer", grouped)
    results, left = [], list(rows)
    while left:
        size = chance.randint(1, 400)
        some, left = left[:size], left[size:]
        results += window.batch([(k, at(t), n) for k, t, n in some])[0]
        window.restart()
    assert results == count_oracle(rows, length, slide, "reducer", grouped)
    held = window.states[window.window.state.name].values
    kept = sum(len(value["tuples"]) for value in held.values())
    needed = 0
    for own in groups(rows, grouped).values():
        done = (len(own) // slide + 1) * slide - length
        needed += len(own) - max(0, done)
    assert needed <= kept <= needed + 256 * len(groups(rows, grouped))


def test_a_part_goes_when_no_window_needs_it() -> None:
    """After 600 tuples, 512 of them in two parts, all have left."""
    window = windowed(SlidingCountWindow(600, 600), "sum", False)
    parts = []
    for batch in range(14):
        window.batch([("a", None, n) for n in range(50 * batch, 50 * batch + 50)])
        parts.append(sorted(part for _, part in window.states[window.window.state.name].values))
    assert parts == [[-1]] * 5 + [[-1, 0]] * 5 + [[-1, 0, 1]] + [[-1]] * 3


def test_a_windows_number_goes_up_by_one_each_time_it_fires() -> None:
    window = Windowed(lambda s: s.tumblingWindow(2, "n", Numbered(), ["number", "n"]))
    assert window.batch([("a", None, n) for n in range(3)])[0] == [(1, 0), (1, 1)]
    window.restart()
    assert window.batch([("a", None, n) for n in range(3, 6)])[0] == [(2, 2), (2, 3), (3, 4), (3, 5)]


# --- by event time --------------------------------------------------------------------------------------------------


def time_oracle(rows: Sequence[Row], length: int, slide: int, fold: str, grouped: bool) -> list[Any]:
    """Every tuple in each window that covers its time; a window's tuples by their times, then as they came."""
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row[1] or 0):
        last = int(row[1] or 0) // slide * slide
        for start in range(last, last - length - slide, -slide):
            if start <= (row[1] or 0) < start + length:
                found[(start, start + length, *((row[0],) if grouped else ()))].append(row)
    return [(*key, FOLDS[fold][2](own)) for key, own in found.items()]


def plain(results: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [(round(secs(start)), round(secs(end)), *rest) for start, end, *rest in results]


def ordered(results: Sequence[Any]) -> list[Any]:
    return sorted(results, key=repr)


def disorder(rows: Sequence[Row]) -> int:
    """How far behind the latest time before it a tuple comes."""
    latest, most = 0, 0
    for _, time, _ in rows:
        latest = max(latest, int(time or 0))
        most = max(most, latest - int(time or 0))
    return most


END: Row = ("a", 10_000, 0)
"""Closes all windows before it."""


@QUICK
@given(ROWS, SEEDS, st.integers(1, 12), st.integers(0, 11), FOLD, st.booleans())
@example([("a", 5, 1), ("a", 0, 2)], 3, 10, 6, "sum", True)
def test_event_time_windows_depend_on_the_times_alone(
    rows: list[Row], seed: int, length: int, less: int, fold: str, grouped: bool
) -> None:
    slide = max(1, length - less)
    config = SlidingEventTimeWindow(length, slide, "at", lateness=disorder(rows))
    window = windowed(config, fold, grouped)
    results = plain(fed(window, [*rows, END], seed))
    assert ordered(results) == ordered(time_oracle(rows, length, slide, fold, grouped))
    left = window.states[window.window.state.name].values
    assert {round(secs(key[0])) > 9_000 for key in left} <= {True}, "what has left holds nothing"


@QUICK
@given(st.lists(ROWS, max_size=6), st.integers(1, 12), st.integers(0, 8), st.booleans(), st.booleans(), SEEDS)
def test_what_comes_behind_the_watermark_is_late_and_counted_nowhere(
    batches: list[list[Row]], length: int, lateness: int, grouped: bool, python: bool, seed: int
) -> None:
    """The watermark of a batch is the latest time of the batches before it, less the lateness."""
    config = TumblingEventTimeWindow(length, "at", lateness=lateness)
    window = Windowed(
        lambda s: (s.groupBy("k") if grouped else s).window(config, "n", Listed() if python else Sum(), "c"), late=True
    )
    mark, taken, late, results, came_late = float("-inf"), list[Row](), list[Row](), list[Any](), list[Any]()
    chance = random.Random(seed)
    for batch in [*batches, [END]]:
        rows = [*batch, *([("a", None, 77)] if chance.random() < 0.3 else [])]
        given, behind = window.batch([(k, at(t), n) for k, t, n in rows], twice=chance.random() < 0.2)
        results += given
        came_late += [(k, None if t is None else round(secs(t)), n) for k, t, n in behind]
        for row in rows:
            gone = row[1] is None or row[1] // length * length + length <= mark
            (late if gone else taken).append(row)
        mark = max([mark, *(t - lateness for _, t, _ in rows if t is not None)])
        if chance.random() < 0.3:
            window.restart()
    assert came_late == late
    taken.remove(END)
    found = time_oracle(taken, length, length, "reducer" if python else "sum", grouped)
    assert ordered(plain(results)) == ordered(found), "each window once"


def test_a_late_tuple_changes_no_result_that_is_kept() -> None:
    window = Windowed(lambda s: s.window(TumblingEventTimeWindow(10, "at"), "n", Sum(), "c", keepFor=100), late=True)
    window.batch([("a", at(1), 1), ("a", at(12), 2)])
    assert window.batch([("a", at(2), 4), ("a", at(13), 8)]) == ([], [("a", at(2), 4)])
    assert window.states[window.window.state.name].values == {(at(0),): 1, (at(10),): 10}


def test_tuples_of_one_time_come_as_they_came_after_a_restart_too() -> None:
    window = windowed(SlidingEventTimeWindow(10, 5, "at"), "reducer", True)
    for n in range(12):
        window.batch([("a", at(3), n)])
        window.restart()
    (first, second) = window.batch([("a", at(100), 0)])[0]
    assert first[-1] == second[-1] == list(range(12))


class OnceBroken(Listed):
    """Raises at its first window's end, and never again."""

    broken = False

    def reduce(self, curr: list[int], tuple: Any) -> list[int]:
        if tuple.n == 99 and not OnceBroken.broken:
            OnceBroken.broken = True
            raise RuntimeError("once")
        return super().reduce(curr, tuple)


@pytest.mark.parametrize(
    "config", [TumblingEventTimeWindow(10, "at"), SessionWindow(10, "at"), SlidingCountWindow(3, 3)], ids=repr
)
def test_a_batch_that_failed_in_the_aggregator_leaves_nothing_behind(config: Any) -> None:
    """What the first try had taken in of keys and panes is forgotten with it."""
    OnceBroken.broken = False
    window = Windowed(lambda s: s.groupBy("k").window(config, "n", OnceBroken(), "c"))
    assert window.batch([("a", at(1), 1), ("a", at(2), 2), ("c", at(1), 8)])[0] == []
    rows = [("a", at(3), 99), ("b", at(4), 4), ("b", at(30), 5), ("a", at(31), 6), ("b", at(50), 7)]
    with pytest.raises(UserFunctionError, match="raised RuntimeError: once"):
        window.batch(rows)
    window.txid -= 1
    found = ordered([row[-2:] for row in window.batch(rows)[0]])
    if isinstance(config, SlidingCountWindow):
        assert found == [("a", [1, 2, 99]), ("b", [4, 5, 7])]
    else:
        assert found == ordered([("a", [1, 2, 99]), ("a", [6]), ("b", [4]), ("b", [5]), ("c", [8])])


# --- by sessions ----------------------------------------------------------------------------------------------------


def session_oracle(rows: Sequence[Row], gap: int, fold: str, grouped: bool) -> list[Any]:
    found = []
    for key, own in groups(sorted(rows, key=lambda row: row[1] or 0), grouped).items():
        session: list[Row] = []
        for row in [*own, ("", 10**9, 0)]:
            if session and int(row[1] or 0) - int(session[-1][1] or 0) >= gap:
                bounds = (int(session[0][1] or 0), int(session[-1][1] or 0) + gap)
                found.append((*bounds, *key, FOLDS[fold][2](session)))
                session = []
            session.append(row)
    return found


@QUICK
@given(ROWS, SEEDS, st.integers(1, 12), FOLD, st.booleans())
@example([("a", 0, 1), ("a", 8, 2), ("a", 4, 4)], 5, 5, "sum", True)
@example([("a", 0, 0), ("a", 0, 0), ("a", 2, 0), ("a", 2, 1), ("a", 1, 0)], 0, 2, "reducer", False)
def test_sessions_depend_on_the_times_alone(rows: list[Row], seed: int, gap: int, fold: str, grouped: bool) -> None:
    window = windowed(SessionWindow(gap, "at", lateness=disorder(rows)), fold, grouped)
    results = plain(fed(window, [*rows, END], seed))
    assert ordered(results) == ordered(session_oracle(rows, gap, fold, grouped))
    (left,) = window.states[window.window.state.name].values.values()
    assert [round(secs(each["start"])) for each in left] == [10_000]


def test_a_session_of_the_last_time_there_is_ends_with_it() -> None:
    never = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
    window = windowed(SessionWindow(5, "at"), "reducer", True)
    assert window.batch([("a", never, 1), ("b", at(3), 2)])[0] == [(at(3), at(8), "b", [2])]
    window.restart()
    assert window.batch([("a", never, 3)])[0] == []
    ((session,),) = window.states[window.window.state.name].values.values()
    last = datetime.datetime.max.replace(tzinfo=datetime.UTC)
    assert (session["start"], session["end"], len(session["held"])) == (never, last, 2)


# --- by batch time --------------------------------------------------------------------------------------------------


@QUICK
@given(st.lists(ROWS, max_size=6), SEEDS, st.integers(1, 9), st.integers(0, 8), FOLD, st.booleans())
def test_duration_windows_go_by_the_batches_time_which_never_goes_back(
    batches: list[list[Row]], seed: int, length: int, less: int, fold: str, grouped: bool
) -> None:
    slide, chance, clock, latest = max(1, length - less), random.Random(seed), 100, 0
    window = windowed(SlidingDurationWindow(length, slide), fold, grouped)
    results, taken = list[Any](), list[Row]()
    for batch in [*batches, []]:
        # If it went back by more than a window, the windows would go by its progress (tests/faults/test_clock.py).
        clock = max(clock + chance.choice([-4, 0, 1, 2, 3, 20]), latest - length)
        latest = max(latest, clock)
        taken += [(k, latest, n) for k, _, n in batch]
        results += window.batch([(k, at(t), n) for k, t, n in batch], time=float(clock), twice=chance.random() < 0.3)[0]
    results += window.batch([], time=10_000.0)[0]
    expected = [row[2:] for row in time_oracle(taken, length, slide, fold, grouped)]
    assert ordered(results) == ordered(expected)
    assert not window.states[window.window.state.name].values


@pytest.mark.parametrize("config", [SlidingEventTimeWindow(10, 4, "at"), SessionWindow(5, "at")])
def test_nothing_comes_of_nothing(config: Any) -> None:
    window = windowed(config, "sum", False)
    assert window.batch([]) == ([], [])
    assert window.batch([("a", None, 5)]) == ([], []), "a tuple without a time is in no window"
    assert not any(state.values for state in window.states.values())


@pytest.mark.parametrize(
    "config",
    [TumblingCountWindow(2), TumblingDurationWindow(5), TumblingEventTimeWindow(5, "at"), SessionWindow(3, "at")],
    ids=repr,
)
def test_a_value_of_null_is_no_result_whatever_the_window(config: Any) -> None:
    def build(stream: Stream) -> WindowedStream:
        return stream.groupBy("k").window(config, "n", Max(), "most")

    window = Windowed(build)
    given = window.batch([("a", at(1), None), ("b", at(1), 5), ("a", at(2), None), ("b", at(2), None)], time=1.0)[0]
    given += window.batch([("c", at(100), 7)], time=100.0)[0]
    assert [row[-2:] for row in given] == [("b", 5)]
