"""dropDuplicates compared with a plain computation of its meaning, for a stream that is cut into batches at random.

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
from tests.compiler.window_runner import FIELDS, InDict, at
from trident import StatefulStream, Stream, TridentTopology
from trident.base.errors import StateRecoveringError
from trident.compiler.stages import cut
from trident.compiler.state_updates import compile_late, compile_state_update
from trident.compiler.states.update_types import WindowBatch
from trident.compiler.windows import duplicates
from trident.plan.nodes import LateTuples, PartitionPersist, Watermark
from trident.spouts import FixedBatchSpout

Row = tuple[str | None, Any, int]

ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 60) | st.none(), st.integers(0, 9)), max_size=40
)
SEEDS = st.integers(0, 2**32)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Dropping:
    """One dropDuplicates, fed batch by batch: its states are dicts, and its steps are called as in a commit turn."""

    def __init__(self, fields: str, **arguments: Any) -> None:
        topology = TridentTopology()
        stream: Stream = topology.newStream("s", FixedBatchSpout(FIELDS, [[]]))
        once: StatefulStream = stream.dropDuplicates(fields, **arguments)
        once.peek(str)
        if arguments:
            once.late().peek(str)
        (group,) = cut(topology).groups
        outputs = [output for stage in group.stages for output in stage.updates]
        steps = [output for output in outputs if isinstance(output.step, PartitionPersist | Watermark)]
        self._states = {o.step: InDict(o.schema.types[-1], pa.schema(list(o.schema)[:-1])) for o in steps}
        self._late_step = next((o.step for o in outputs if isinstance(o.step, LateTuples)), None)
        self._txid = 0
        self.restart()

    @property
    def held(self) -> dict[Any, Any]:
        """What the state remembers."""
        return next(held.values for step, held in self._states.items() if isinstance(step, PartitionPersist))

    @property
    def mark(self) -> InDict | None:
        """The state of the watermark."""
        return next((held for step, held in self._states.items() if isinstance(step, Watermark)), None)

    def restart(self) -> None:
        """Forget what is not in the states."""
        self._run = {step: compile_state_update(step) for step in self._states}  # type: ignore[arg-type]
        self._late = None if self._late_step is None else compile_late(self._late_step)

    def batch(self, rows: Sequence[Row], twice: bool = False) -> tuple[list[Row], list[Row]]:
        """Feed one batch; return the tuples that go on, and the late ones. `twice`: the first results are lost."""
        self._txid += 1
        tuples = table(FIELDS, *rows)
        batch = WindowBatch(self._txid, lambda: 0.0, self.mark)
        for _ in range(2 if twice else 1):
            updates = {step: run([tuples], self._states[step], batch) for step, run in self._run.items()}
        late = [] if self._late is None else self._late(tuples, batch).to_pylist()
        for step, updated in updates.items():
            self._states[step].put(updated.puts)
        (emitted,) = [updated.emitted for updated in updates.values() if updated.emitted is not None]
        return [tuple(row.values()) for row in emitted.to_pylist()], [tuple(row.values()) for row in late]


def cut_at_random(rows: Sequence[Row], seed: int) -> list[tuple[list[Row], bool, bool]]:
    """Return the rows in batches, each with whether the driver starts anew before it, and is computed twice."""
    chance, left = random.Random(seed), list(rows)
    batches = []
    while left:
        count = chance.randint(0, 7)
        batches.append((left[:count], chance.random() < 0.2, chance.random() < 0.2))
        left = left[count:]
    return batches


@given(ROWS, SEEDS)
@QUICK
def test_without_event_time_the_first_of_each_key_goes_on(rows: list[Row], seed: int) -> None:
    rows = [(k, None, n) for k, _, n in rows]
    dropping, found = Dropping("k, n"), []
    first_txid: dict[Any, int] = {}
    for txid, (batch, anew, twice) in enumerate(cut_at_random(rows, seed), 1):
        if anew:
            dropping.restart()
        for k, _, n in batch:
            first_txid.setdefault((k, n), txid)
        found += dropping.batch(batch, twice)[0]
    assert found == [(k, None, n) for k, n in first_txid]
    assert dropping.held == first_txid


@given(ROWS, SEEDS, st.integers(1, 20), st.integers(0, 30))
@QUICK
def test_by_event_time_a_key_is_remembered_for_as_long_as_one_says(
    rows: list[Row], seed: int, within: int, lateness: int
) -> None:
    dropping = Dropping("k", timestampField="at", within=within, lateness=lateness)
    watermark, latest, until = float("-inf"), float("-inf"), dict[Any, int]()
    for batch, anew, twice in cut_at_random(rows, seed):
        if anew:
            dropping.restart()
        on, late = [], []
        for k, time, n in batch:
            row = (k, at(time), n)
            if time is None or time < watermark:
                late.append(row)
            elif k not in until or time > until[k]:
                on.append(row)
                until[k] = time + within
        latest = max([latest, *(time for _, time, _ in batch if time is not None)])
        watermark = latest - lateness
        assert dropping.batch([(k, at(time), n) for k, time, n in batch], twice) == (on, late)
        needed = {k for k, time in until.items() if time >= watermark}
        assert needed <= {k for (k,) in dropping.held} <= until.keys(), "what a tuple can still meet is remembered"
    dropping.batch([("z", at(10_000), 0)])
    dropping.batch([])
    assert {k for (k,) in dropping.held} <= {"z"}, "what no tuple can meet any more is forgotten"


def test_the_result_does_not_depend_on_how_the_stream_is_cut() -> None:
    chance = random.Random(5)
    rows = [(chance.choice("abc"), at(time // 3), time) for time in range(400)]
    results = []
    for seed in range(5):
        dropping = Dropping("k", timestampField="at", within=7)
        cuts = cut_at_random(rows, seed)
        results.append([row for batch, *_ in cuts for row in dropping.batch(batch)[0]])
    assert results[0] == results[1] == results[2] == results[3] == results[4]
    assert 3 <= len(results[0]) < len(rows)


@pytest.mark.parametrize("rounds", [0, 1, 3, 50])
def test_many_tuples_of_one_key_that_go_on_in_one_batch(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    monkeypatch.setattr(duplicates, "_ROUNDS", rounds)
    chance = np.random.default_rng(1)
    numbers, times = chance.integers(0, 5, 500), np.arange(500) + chance.integers(0, 9, 500)
    until = np.full(5, -1, np.int64)
    found = duplicates.admitted(numbers, times, until, 4).tolist()
    expected, last = [], dict[int, int]()
    for row, (key, time) in enumerate(zip(numbers.tolist(), times.tolist(), strict=True)):
        if time > last.get(key, -1):
            expected.append(row)
            last[key] = time + 4
    assert found == expected and len(found) > 100
    assert until.tolist() == [last[key] for key in range(5)]


def test_keys_are_equal_where_spark_says_so() -> None:
    nan = float("nan")
    topology = TridentTopology()
    topology.newStream("s", FixedBatchSpout("x double", [[]])).dropDuplicates().peek(str)
    (step,) = [node for node in topology.nodes if isinstance(node, PartitionPersist)]
    rows = table("x double", (0.0,), (-0.0,), (nan,), (None,), (nan,), (None,))
    state = InDict(pa.int64(), pa.schema({"x": pa.float64()}))
    updated = compile_state_update(step)([rows], state, WindowBatch(1, lambda: 0.0, None))
    assert updated.emitted is not None
    assert str(updated.emitted["x"].to_pylist()) == "[0.0, nan, None]"


def test_a_batch_that_breaks_off_while_keys_are_forgotten_forgets_them_when_it_is_repeated() -> None:
    """The index beside the state has moved on when the store does not answer: the next try reads it anew."""
    dropping = Dropping("k", timestampField="at", within=5, lateness=0)
    dropping.batch([("a", at(0), 0)])
    state = next(held for step, held in dropping._states.items() if isinstance(step, PartitionPersist))
    read, calls = state.read, list[int]()

    def fails_once(keys: pa.Table) -> pa.Array:
        calls.append(keys.num_rows)
        if len(calls) == 2:
            raise StateRecoveringError("the server came back with nothing")
        return read(keys)

    state.read = fails_once  # type: ignore[method-assign]
    dropping._txid += 1
    with pytest.raises(StateRecoveringError):
        dropping._run[next(step for step in dropping._run if isinstance(step, PartitionPersist))](
            [table(FIELDS, ("b", at(100), 0))], state, WindowBatch(2, lambda: 0.0, dropping.mark)
        )
    dropping._txid -= 1
    dropping.batch([("b", at(100), 0)])
    assert set(dropping.held) == {("b",)}
