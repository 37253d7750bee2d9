"""Window joins compared with a plain computation of their meaning, for streams that are cut into batches at random.

Between batches the driver may start anew, and a batch may be computed twice before it is frozen.
"""

import random
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.compiler.join_runner import Joining, Tuple
from tests.compiler.window_runner import secs
from trident import SlidingEventTimeWindow

TUPLES = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 120) | st.none(), st.integers(0, 99)), max_size=25
)
QUICK = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
END = 10**6


class Oracle:
    """The meaning of the join: the tuples on time are kept for ever, and each closed window is joined one by one."""

    def __init__(self, length: int, slide: int, lateness: int, joinType: str) -> None:
        self.length, self.slide, self.lateness, self.joinType = length, slide, lateness, joinType
        self.latest = [float("-inf"), float("-inf")]
        self.kept: tuple[list[Tuple], list[Tuple]] = ([], [])
        self.late: tuple[list[int], list[int]] = ([], [])
        self.closed: set[int] = set()

    def windows(self, time: int) -> list[int]:
        return [
            s for s in range(time // self.slide * self.slide, time - self.length, -self.slide) if s > time - self.length
        ]

    def batch(self, *sides: list[Tuple]) -> list[tuple[Any, ...]]:
        before = min(self.latest) - self.lateness
        for side, tuples in enumerate(sides):
            for k, time, n in tuples:
                if time is None or max(self.windows(time)) + self.length <= before:
                    self.late[side].append(n)
                else:
                    self.kept[side].append((k, time, n))
                if time is not None:
                    self.latest[side] = max(self.latest[side], time)
        after = min(self.latest) - self.lateness
        held = {start for tuples in self.kept for _, time, _ in tuples for start in self.windows(time or 0)}
        closing = [start for start in sorted(held) if before < start + self.length <= after]
        return [row for start in closing for row in self.joined(start)]

    def joined(self, start: int) -> list[tuple[Any, ...]]:
        assert start not in self.closed
        self.closed.add(start)
        left, right = ([t for t in kept if start in self.windows(t[1] or 0)] for kept in self.kept)
        rows: list[tuple[Any, ...]] = [(start, k, n, m) for k, _, n in left for other, _, m in right if k == other]
        if self.joinType in ("left", "full"):
            rows += [(start, k, n, None) for k, _, n in left if k not in {other for other, _, _ in right}]
        if self.joinType in ("right", "full"):
            rows += [(start, k, None, m) for k, _, m in right if k not in {other for other, _, _ in left}]
        return rows


def rows_of(emitted: list[dict[str, Any]], length: int) -> list[tuple[Any, ...]]:
    """Return the joined rows by the starts of their windows, the keys and the numbers of the tuples."""
    starts = [secs(row["windowStart"]) for row in emitted]
    assert starts == sorted(starts)
    assert all(secs(row["windowEnd"]) - secs(row["windowStart"]) == length for row in emitted)
    return [(start, row["k"], row["n"], row["m"]) for start, row in zip(starts, emitted, strict=True)]


@given(
    TUPLES,
    TUPLES,
    st.integers(0, 2**32),
    st.sampled_from([(30, 30), (30, 10), (30, 20), (7, 7)]),
    st.integers(0, 60),
    st.sampled_from(["inner", "left", "right", "full"]),
)
@example([("a", 0, 1), ("a", 30, 2)], [("a", 29, 3), ("a", 60, 4)], 0, (30, 30), 0, "full")
@QUICK
def test_each_window_leaves_once_when_both_streams_have_passed_it(
    left: list[Tuple], right: list[Tuple], seed: int, sizes: tuple[int, int], lateness: int, joinType: str
) -> None:
    chance = random.Random(seed)
    if chance.random() < 0.7:  # mostly in order, so that few are late
        left.sort(key=lambda row: (row[1] or 0) + chance.randint(0, 20))
        right.sort(key=lambda row: (row[1] or 0) + chance.randint(0, 20))
    window = SlidingEventTimeWindow(*sizes, "at", lateness=lateness)
    options: Any = {"otherTimestampField": "t", "joinType": joinType}
    join = Joining(lambda first, second: first.windowJoin(second, "k", window, **options))
    oracle = Oracle(*sizes, lateness, joinType)
    late: tuple[list[int], list[int]] = ([], [])
    while left or right:
        a, b = chance.randint(0, 6), chance.randint(0, 6)
        batch = (left[:a], right[:b])
        left, right = left[a:], right[b:]
        if chance.random() < 0.2:
            join.restart()
        emitted, too_late = join.batch(*batch, twice=chance.random() < 0.2)
        expected = oracle.batch(*batch)
        assert sorted(rows_of(emitted, sizes[0]), key=repr) == sorted(expected, key=repr)
        for side in (0, 1):
            late[side].extend(too_late[side])
    last: list[Tuple] = [("z", END, -1)]
    for _ in range(2):  # these close all others; only they wait then
        emitted, _ = join.batch(last, last)
        assert sorted(rows_of(emitted, sizes[0]), key=repr) == sorted(oracle.batch(last, last), key=repr)
    assert late == oracle.late
    assert join.held <= 4, "a tuple whose windows have closed is gone"


def test_a_tuple_that_waits_for_later_windows_leaves_once_in_each() -> None:
    window = SlidingEventTimeWindow(30, 10, "at")
    join = Joining(lambda first, second: first.windowJoin(second, "k", window, otherTimestampField="t"))
    found = []
    for time in (5, 15, 25, 35, 45):
        rows, _ = join.batch([("a", time, time)], [("a", 5, time)] if time == 5 else [("b", time, time)])
        found.append([(start, n) for start, _, n, _ in rows_of(rows, 30)])
    assert found == [[], [(-20, 5)], [(-10, 5), (-10, 15)], [(0, 5), (0, 15), (0, 25)], []]
