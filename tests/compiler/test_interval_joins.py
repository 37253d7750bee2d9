"""Interval joins compared with a plain computation of their meaning, for streams that are cut into batches at random.

Between batches the driver may start anew, and a batch may be computed twice before it is frozen.
"""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compiler.stage_runner import table
from tests.compiler.window_runner import InDict, at
from trident import Stream, TridentTopology
from trident.compiler.stages import cut
from trident.compiler.state_updates import compile_late, compile_state_update
from trident.compiler.states.update_types import WindowBatch
from trident.compiler.windows.interval_joins import Rows, pairs
from trident.plan.nodes import IntervalJoin, LateTuples
from trident.spouts import FixedBatchSpout

FIELDS = ("k string, at timestamp, n long", "k string, m long, t timestamp")
Tuple = tuple[str | None, int | None, int]
"""A key, a time, and the tuple's number."""

TUPLES = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 400) | st.none(), st.integers(0, 99)), max_size=25
)
QUICK = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Joining:
    """One interval join, fed batch by batch: its states are dicts, and its steps are called as in a commit turn."""

    def __init__(self, between: tuple[int, int], lateness: int, joinType: str) -> None:
        topology = TridentTopology()
        streams: list[Stream] = [
            topology.newStream(name, FixedBatchSpout(fields, [[]])) for name, fields in zip("lr", FIELDS, strict=True)
        ]
        joined = streams[0].intervalJoin(
            streams[1],
            "k",
            between,
            timestampField="at",
            otherTimestampField="t",
            lateness=lateness,
            joinType=joinType,
        )
        joined.peek(str)
        for side in ("left", "right"):
            joined.late(side).peek(str)
        (group,) = cut(topology).groups
        outputs = [output for stage in group.stages for output in stage.updates]
        (self._join,) = [output.step for output in outputs if isinstance(output.step, IntervalJoin)]
        self._steps = (self._join, *self._join.watermarks)
        kinds = {output.step: output.schema for output in outputs}
        self._states = {s: InDict(kinds[s].types[-1], pa.schema(list(kinds[s])[:-1])) for s in self._steps}
        self._late = {o.step.side: compile_late(o.step) for o in outputs if isinstance(o.step, LateTuples)}
        self._txid = 0
        self.restart()

    @property
    def held(self) -> int:
        """The number of entries in the state."""
        return len(self._states[self._join].values)

    def restart(self) -> None:
        """Forget what is not in the states."""
        self._run = {step: compile_state_update(step) for step in self._steps}

    def batch(self, left: Sequence[Tuple], right: Sequence[Tuple], twice: bool = False) -> tuple[list[Any], list[Any]]:
        """Feed one batch; return what leaves and what is late, by the numbers of the tuples."""
        self._txid += 1
        tables = (
            table(FIELDS[0], *((k, at(time), n) for k, time, n in left)),
            table(FIELDS[1], *((k, n, at(time)) for k, time, n in right)),
        )
        marks = [self._states[mark] for mark in self._join.watermarks]
        batch = WindowBatch(self._txid, lambda: 0.0, *marks)
        entering = dict(zip(self._steps, (tables, tables[:1], tables[1:]), strict=True))
        for _ in range(2 if twice else 1):
            updates = {step: run(entering[step], self._states[step], batch) for step, run in self._run.items()}
        late = [self._late[side](tables[side], batch) for side in (0, 1)]
        for step, updated in updates.items():
            self._states[step].put(updated.puts)
        emitted = updates[self._join].emitted
        assert emitted is not None
        numbers = [late[0].column("n").to_pylist(), late[1].column("m").to_pylist()]
        return [(row["k"], row["n"], row["m"]) for row in emitted.to_pylist()], numbers


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
    join, oracle = Joining(between, lateness, joinType), Oracle(between, lateness, joinType)
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
        rows, too_late = join.batch(*batch, twice=chance.random() < 0.2)
        found += rows
        assert sorted(oracle.pairs[pairs_before:], key=repr) == sorted(
            (row for row in rows if None not in row[1:]), key=repr
        ), "a pair leaves with the batch that brings its second tuple"
        for side in (0, 1):
            late[side].extend(too_late[side])
    last = [("z", 10**6, -1)]
    for _ in range(2):  # these close all others, and meet one another
        oracle.batch(last, last)
        found += join.batch(last, last)[0]
    plain = [row for row in oracle.everything() if row[0] != "z"]
    assert sorted((row for row in found if row[0] != "z"), key=repr) == sorted(plain, key=repr)
    assert late == oracle.late
    assert join.held <= 4, "what no tuple can meet any more is gone"


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
