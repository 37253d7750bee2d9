"""The sizes of batches follow from what the last ones took: the rule alone, and in topologies."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.batches.batch_sizes import Amount, BatchSizes, Limit, Measured, fixed_part, size_for
from trident.errors import FailedException, SpoutContractError, TopologyError
from trident.spouts import BatchSpout, Budget, FileSpout, IterableSpout, PollingSpout, SpoutKind
from trident.state import MemoryMapState
from trident.testing import TestOutput
from trident.testing.local import start_local
from trident_spouts.batch_budget import NO_LIMIT
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Metadata, SpoutExecutor
from trident_spouts.rows import read_schema, table_of


def driven(target: float, seconds: Callable[[int, int], float], batches: int, there: int = 100_000) -> list[int]:
    """The sizes of batches, of a source that gives `there` rows at most; `seconds` tells what a batch takes."""
    limit, sizes = Limit(target), []
    for number in range(batches):
        sizes.append(there if limit.now is None else min(there, limit.now))
        limit.took(sizes[-1], seconds(number, sizes[-1]))
    return sizes


# --- the rule ---------------------------------------------------------------------------------------------------------


def test_without_a_slow_batch_there_is_no_limit() -> None:
    assert driven(1.0, lambda number, rows: 0.9, 20) == [100_000] * 20


def test_sizes_come_to_what_takes_the_target_and_stay_there() -> None:
    sizes = driven(1.0, lambda number, rows: 0.1 + rows / 10_000, 30)
    assert all(8_500 <= size <= 9_500 for size in sizes[12:]), sizes


def test_a_batch_is_cut_to_a_quarter_at_most() -> None:
    """A commit that waited a minute for its server tells nothing of the rows."""
    sizes = driven(1.0, lambda number, rows: 60.0 if number == 5 else rows / 1_000_000, 24)
    assert sizes[:7] == [100_000] * 6 + [25_000]
    assert sizes[-1] == 100_000, "and it grows back"


def test_a_system_that_gets_slower_gets_smaller_batches_and_larger_ones_when_it_is_fast_again() -> None:
    sizes = driven(1.0, lambda number, rows: rows / (1_000 if 20 <= number < 40 else 20_000), 60)
    assert all(18_000 <= size <= 20_000 for size in sizes[10:20]), sizes
    assert all(700 <= size <= 1_300 for size in sizes[30:40]), sizes
    assert sizes[-1] >= 15_000, sizes


def test_what_every_batch_costs_does_not_shrink_batches_to_nothing() -> None:
    """Each batch takes 2 s, whatever is in it. Batches of one row would make the rest only slower."""
    sizes = driven(1.0, lambda number, rows: 2.0 + rows / 10_000, 40)
    assert all(10_000 <= size <= 40_000 for size in sizes[15:]), sizes


def test_small_batches_of_a_source_that_has_little_set_no_limit() -> None:
    limit = Limit(1.0)
    for _ in range(10):
        limit.took(3, 0.3)
    assert limit.now is None, "or a sudden crowd would come in batches of ten rows"


def test_a_batch_that_was_not_full_changes_no_limit() -> None:
    limit = Limit(1.0)
    limit.took(1000, 2.0)
    assert limit.now == 500
    limit.took(100, 0.01)
    assert limit.now == 500
    limit.took(500, 0.01)
    assert limit.now == 1000, "it doubles at most"


def test_a_batch_without_rows_says_nothing() -> None:
    limit = Limit(1.0)
    limit.took(0, 5.0)
    assert limit.now is None


def test_a_limit_is_one_at_least() -> None:
    assert min(driven(0.001, lambda number, rows: float(rows), 30, there=50)) == 1


def test_batches_of_one_size_count_as_all_variable() -> None:
    assert fixed_part([Measured(100, 2.0)] * 3, before=0.0) == 0
    assert size_for(1.0, [Measured(100, 2.0)] * 3, fixed=0.0) == pytest.approx(50)


def test_streams_of_a_group_are_limited_together_and_those_without_rows_are_left_alone() -> None:
    sizes = BatchSizes(target=1.0)
    sizes.ran(1, {"a": Amount(800, 8_000), "b": Amount(None, 100)}, began=0.0)
    sizes.committed(1, now=4.0)
    assert sizes.budget("a") == Budget(200, 2_000, 1.0)
    assert sizes.budget("b") == Budget(None, 25, 1.0)
    assert sizes.budget("c") == Budget(None, None, 1.0)


def test_a_batch_that_an_earlier_run_froze_says_nothing() -> None:
    sizes = BatchSizes(target=1.0)
    sizes.committed(7, now=100.0)
    assert sizes.budget("a") == Budget(None, None, 1.0)


def test_without_a_target_no_batch_is_limited() -> None:
    sizes = BatchSizes(target=None)
    sizes.ran(1, {"a": Amount(800, 8_000)}, began=0.0)
    sizes.committed(1, now=4_000.0)
    assert sizes.budget("a") == NO_LIMIT


# --- in topologies ----------------------------------------------------------------------------------------------------


def slowly(n: int) -> int:
    time.sleep(0.001)
    return n


def counted(spout: Any, **options: Any) -> list[Any]:
    """The rows of the batches of a topology whose function takes a millisecond for each row."""
    topology = TridentTopology()
    rows = topology.newStream("rows", spout).map(slowly, "n long")
    rows.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with start_local(topology, maxSpoutPending=1, **options) as running:
        running.processAllAvailable(timeout=60)
        return [event["numInputRows"] for event in running.recentProgress]


def test_the_batches_of_a_slow_topology_shrink_to_the_target() -> None:
    rows = counted(IterableSpout("n long", range(2000), batchSize=800), targetBatchSecs=0.2)
    assert rows[0] == 800
    assert sum(rows) == 2000
    assert all(count <= 400 for count in rows[1:-1]), rows  # some 200; on a busy machine any number below


def test_without_a_target_the_batches_keep_their_sizes() -> None:
    assert counted(IterableSpout("n long", range(1600), batchSize=800)) == [800, 800]


def test_the_functions_of_a_polling_spout_get_a_smaller_limit() -> None:
    limits = []

    def numbers(position: Any, limit: int) -> Any:
        limits.append(limit)
        start = position or 0
        return list(range(start, min(start + limit, 2000))), min(start + limit, 2000)

    rows = counted(PollingSpout("n long", {"p": numbers}, maxRows=800), targetBatchSecs=0.2)
    assert limits[0] == 800
    assert all(limit <= 400 for limit in limits[1:4]), limits
    assert sum(rows) == 2000


class Asking(BatchSpout):
    """A user's spout whose method has a parameter for the budget."""

    outputFields = "n long"
    kind = SpoutKind.TRANSACTIONAL

    def __init__(self) -> None:
        self.budgets: list[Budget] = []

    def emitBatch(self, batchId: int, budget: Budget = NO_LIMIT) -> Any:
        self.budgets.append(budget)
        return [batchId] * 400 if batchId < 3 else None


def test_a_users_spout_gets_the_budget_if_it_asks_for_it() -> None:
    spout = Asking()
    counted(spout, targetBatchSecs="200 ms")
    assert spout.budgets[0] == Budget(None, None, 0.2)
    assert 100 <= (spout.budgets[1].rows or 0) <= 260


@dataclass(frozen=True)
class Numbers:
    """A transactional spout that cuts its rows by the budget, and notes each plan."""

    plans: list[tuple[TransactionAttempt, Any]]
    kind = SpoutKind.TRANSACTIONAL
    schema = read_schema("n long")

    def open(self) -> SpoutExecutor:
        return NumbersExecutor(self)


class NumbersExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: Numbers) -> None:
        self.spout = spout

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        start = previous[1] if isinstance(previous, list) else 0
        end = min(2000, start + budget.rows_within(800))
        self.spout.plans.append((attempt, [start, end]))
        return [start, end] if end > start else None

    def emit(self, attempt: TransactionAttempt, metadata: Any) -> ArrowEmission:
        return ArrowEmission(table_of(list(range(*metadata)), self.spout.schema, "Numbers"))


def test_a_batch_that_was_planned_is_never_resized() -> None:
    """The second batch fails after the first one was slow: its replay has the rows of its plan, and no new plan."""
    spout, output, failed = Numbers([]), TestOutput(), []

    def fail_once(n: int) -> None:
        if n == 800 and not failed:
            failed.append(n)
            time.sleep(1.5)  # the first batch is committed meanwhile, and the limit is far below 800
            raise FailedException("once")

    topology = TridentTopology()
    topology.newStream("rows", spout).map(slowly, "n long").peek("n", fail_once).foreachArrow(output)
    with start_local(topology, targetBatchSecs=0.1, maxSpoutPending=2) as running:
        running.processAllAvailable(timeout=60)
        events = [event for event in running.recentProgress if event["event"] == "committed"]
    assert [(event["attempt"], event["numInputRows"]) for event in events[:2]] == [(0, 800), (1, 800)]
    assert all(event["numInputRows"] <= 400 for event in events[2:]), events
    assert [plan for attempt, plan in spout.plans if attempt.txid == 2] == [[800, 1600]]
    assert sorted(row.n for row in output.rows) == list(range(2000))


def test_files_are_read_within_the_budget(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a").write_text("".join(f"{n:09}\n" for n in range(100)))
    executor = FileSpout(folder, maxBytesPerBatch=600).open()
    first: Any = executor.plan(TransactionAttempt(1, 0), None, 0.0)
    second: Any = executor.plan(TransactionAttempt(2, 0), first, 0.0, Budget(bytes=95, rows=1))
    third: Any = executor.plan(TransactionAttempt(3, 0), second, 0.0, Budget(bytes=10**9))
    bounds = [file[3:5] for plan in (first, second, third) for file in plan["files"]]
    assert bounds == [[0, 600], [600, 700], [700, 1000]], "a plan ends behind a whole line"
    assert executor.emit(TransactionAttempt(2, 0), second).bytes == 100


def test_parquet_files_are_read_whole_and_at_least_one(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in "abc":
        pq.write_table(pa.table({"n": range(1000)}), tmp_path / f"{name}.parquet")
    size = (tmp_path / "a.parquet").stat().st_size
    executor = FileSpout(tmp_path, format="parquet").open()
    names = []
    for budget in (Budget(bytes=1), Budget(bytes=2 * size)):
        plan: Any = executor.plan(TransactionAttempt(1, 0), None, 0.0, budget)
        names.append([file[0] for file in plan["files"]])
        assert executor.emit(TransactionAttempt(1, 0), plan).bytes == size * len(names[-1])
    assert names == [["a.parquet"], ["a.parquet", "b.parquet"]]


def test_an_executor_that_knows_no_budgets_is_refused_at_the_start() -> None:
    closed = []

    class Former(NumbersExecutor):
        def close(self) -> None:
            closed.append(self)

        def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float) -> Metadata:  # type: ignore[override]
            return None

    class FormerNumbers(Numbers):
        def open(self) -> SpoutExecutor:
            return Former(self)

    topology = TridentTopology()
    topology.newStream("rows", FormerNumbers([])).foreachArrow(TestOutput())
    with pytest.raises(SpoutContractError) as refused:
        start_local(topology)
    assert str(refused.value) == (
        "spout 'rows': Former.plan cannot be called as plan(attempt, previous, time, budget) (too many positional "
        "arguments); write def plan(self, attempt, previous, time, budget=Budget())"
    )
    assert len(closed) == 1


@pytest.mark.parametrize("target", [0, -1, "soon", True])
def test_a_target_that_is_no_time_is_refused(target: Any) -> None:
    topology = TridentTopology()
    topology.newStream("rows", IterableSpout("n long", [1])).foreachArrow(TestOutput())
    with pytest.raises(TopologyError, match="targetBatchSecs"):
        start_local(topology, targetBatchSecs=target)
