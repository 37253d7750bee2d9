"""Interval joins compared with a plain computation of their meaning, for streams that are cut into batches at random.

Between batches the driver may start anew, and a batch may be computed twice before it is frozen.
"""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compiler.join_runner import Joining, Tuple
from trident.compiler.windows.waiting_tuples import Rows, pairs

TUPLES = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 400) | st.none(), st.integers(0, 99)), max_size=25
)
QUICK = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Oracle:
    """What the join means: every tuple on time is kept for ever, and each pair is looked for one by one."""

    def __init__(self, between: tuple[int, int], lateness: int, joinType: str) -> None:
        self.lower, self.upper = between
        self.lateness, self.joinType = lateness, joinType
        self.latest = [float("-inf"), float("-inf")]
        self.kept: tuple[list[Tuple], list[Tuple]] = ([], [])
        self.pairs: list[tuple[Any, int | None, int | None]] = []
        self.met: tuple[set[int], set[int]] = (set(), set())
        self.late: tuple[list[int], list[int]] = ([], [])

    def batch(self, *sides: Sequence[Tuple]) -> None:
        watermark = min(self.latest) - self.lateness
        before = (len(self.kept[0]), len(self.kept[1]))
        for side, tuples in enumerate(sides):
            for k, time, n in tuples:
                if time is None or time < watermark:
                    self.late[side].append(n)
                else:
                    self.kept[side].append((k, time, n))
                if time is not None:
                    self.latest[side] = max(self.latest[side], time)
        for i, (k, t, n) in enumerate(self.kept[0]):
            for j, (other, u, m) in enumerate(self.kept[1]):
                new = i >= before[0] or j >= before[1]
                if new and k == other and self.lower <= u - t <= self.upper:  # type: ignore[operator]
                    self.pairs.append((k, n, m))
                    self.met[0].add(i)
                    self.met[1].add(j)

    def everything(self) -> list[tuple[Any, int | None, int | None]]:
        """All that leaves once every tuple is closed."""
        alone = [(k, n, None) for i, (k, _, n) in enumerate(self.kept[0]) if i not in self.met[0]]
        others = [(k, None, m) for j, (k, _, m) in enumerate(self.kept[1]) if j not in self.met[1]]
        return [
            *self.pairs,
            *(alone if self.joinType in ("left", "full") else []),
            *(others if self.joinType in ("right", "full") else []),
        ]


@given(
    TUPLES,
    TUPLES,
    st.integers(0, 2**32),
    st.tuples(st.integers(-150, 150), st.integers(0, 200)),
    st.integers(0, 200),
    st.sampled_from(["inner", "left", "right", "full"]),
)
@QUICK
def test_every_pair_and_every_lonely_tuple_leaves_once(
    left: list[Tuple], right: list[Tuple], seed: int, interval: tuple[int, int], lateness: int, joinType: str
) -> None:
    between = (interval[0], interval[0] + interval[1])
    chance = random.Random(seed)
    if chance.random() < 0.7:  # mostly in order, so that few are late
        left.sort(key=lambda row: (row[1] or 0) + chance.randint(0, 60))
        right.sort(key=lambda row: (row[1] or 0) + chance.randint(0, 60))
    options: Any = {"timestampField": "at", "otherTimestampField": "t", "lateness": lateness, "joinType": joinType}
    join = Joining(lambda first, second: first.intervalJoin(second, "k", between, **options))
    oracle = Oracle(between, lateness, joinType)
    found: list[Any] = []
    late: tuple[list[int], list[int]] = ([], [])
    left_rows, right_rows = list(left), list(right)
    while left_rows or right_rows:
        a, b = chance.randint(0, 6), chance.randint(0, 6)
        batch = (left_rows[:a], right_rows[:b])
        left_rows, right_rows = left_rows[a:], right_rows[b:]
        if chance.random() < 0.2:
            join.restart()
        pairs_before = len(oracle.pairs)
        oracle.batch(*batch)
        emitted, too_late = join.batch(*batch, twice=chance.random() < 0.2)
        rows = [numbers(row) for row in emitted]
        found += rows
        assert sorted(oracle.pairs[pairs_before:], key=repr) == sorted(
            (row for row in rows if None not in row[1:]), key=repr
        ), "a pair leaves with the batch that brings its second tuple"
        for side in (0, 1):
            late[side].extend(too_late[side])
    last = [("z", 10**6, -1)]
    for _ in range(2):  # these close all others, and meet one another
        oracle.batch(last, last)
        found += map(numbers, join.batch(last, last)[0])
    plain = [row for row in oracle.everything() if row[0] != "z"]
    assert sorted((row for row in found if row[0] != "z"), key=repr) == sorted(plain, key=repr)
    assert late == oracle.late
    assert join.held <= 4, "what no tuple can meet any more is gone"


def numbers(row: dict[str, Any]) -> tuple[Any, int | None, int | None]:
    """Return the key and the numbers of the tuples of a joined row."""
    return row["k"], row["n"], row["m"]


@pytest.mark.parametrize("seed", range(5))
def test_pairs_of_many_rows(seed: int) -> None:
    chance = np.random.default_rng(seed)
    left = Rows(chance.integers(0, 300, 200), chance.integers(0, 7, 200))
    right = Rows(chance.integers(0, 300, 250), chance.integers(0, 7, 250))
    found = list(zip(*(rows.tolist() for rows in pairs(left, right, -9, 4)), strict=True))
    near = [
        (i, j)
        for i in range(200)
        for j in range(250)
        if left.numbers[i] == right.numbers[j] and -9 <= right.times[j] - left.times[i] <= 4
    ]
    assert sorted(found) == near and len(near) > 100
    empty = Rows(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert [len(rows) for rows in (*pairs(left, empty, -9, 4), *pairs(empty, right, -9, 4))] == [0, 0, 0, 0]
