"""A transactional source that is read by reference: a replay's rows are compared where they come to the driver."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from trident import Sum, TridentTopology
from trident.base.spark_types import parse_schema
from trident.errors import BatchFailedError, SpoutContractError
from trident.spouts import Budget, FileSpout, SharesEmission, SparkSpout, SpoutExecutor, SpoutKind
from trident.state import MemoryMapState
from trident.testing import DriverCrashedError, crash_at
from trident.testing.local import start_local

Read = Callable[[int], list[tuple[int, ...]]]


@dataclass(frozen=True)
class Shares:
    """One batch of two shares, which `read` reads; it gets the number of its call."""

    read: Read
    verified: bool = False
    kind: SpoutKind = SpoutKind.TRANSACTIONAL
    schema: StructType = parse_schema("n long")  # noqa: RUF009  never changed

    def open(self) -> SpoutExecutor:
        return _SharesExecutor(self)


class _SharesExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: Shares) -> None:
        self.spout = spout

    def plan(self, attempt: Any, previous: Any, time: float, budget: Budget = Budget()) -> Any:  # noqa: B008
        return None if previous else {"to": 2}

    def emit(self, attempt: Any, metadata: Any) -> SharesEmission:
        return SharesEmission((0, 1), self.spout.read, self.spout.schema, verified=self.spout.verified)


def reads(*answers: list[tuple[int]]) -> Read:
    """A function that gives an answer for each read of a batch of two shares; the last one again and again."""
    calls: list[int] = []

    def read(share: int) -> Any:
        calls.append(share)
        answer = answers[min((len(calls) - 1) // 2, len(answers) - 1)]
        return answer[share::2]

    return read


def failing_once(spout: Any) -> TridentTopology:
    failed: list[int] = []

    def once(n: int) -> int:
        if not failed:
            failed.append(n)
            raise RuntimeError("once")
        return n

    topology = TridentTopology()
    topology.newStream("rows", spout).each("n", once, "m long").persistentAggregate(
        MemoryMapState.opaque(), "m", Sum(), "s", name="sum"
    )
    return topology


ROWS = [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("ledger", [False, True])
@pytest.mark.parametrize(
    "other", [[(100,)], [(1,), (2,), (3,), (5,)], [(1,), (2,), (3,)], [*ROWS, (4,)], [(2,), (2,), (2,), (4,)]], ids=str
)
def test_a_replay_with_other_rows_stops_the_group_and_leaves_the_state_alone(
    other: Any, ledger: bool, tmp_path: Path
) -> None:
    topology = failing_once(Shares(reads(ROWS, other)))
    running = start_local(topology, checkpointLocation=tmp_path, requireExactlyOnce=True, ledger=ledger)
    with pytest.raises(
        BatchFailedError, match=r"attempt 1:\d emitted different tuples than an earlier attempt with"
    ) as failed:
        running.processAllAvailable(timeout=20)
    assert isinstance(failed.value.__cause__, SpoutContractError)
    assert running.state("sum").value is None


@pytest.mark.parametrize("again", [ROWS, [(4,), (2,), (1,), (3,)]], ids=["same", "another-order"])
def test_a_replay_with_the_same_rows_counts_once_in_whatever_order(again: Any) -> None:
    with start_local(failing_once(Shares(reads(ROWS, again)))) as running:
        running.processAllAvailable(timeout=20)
        assert running.state("sum").value == 10


def test_the_next_driver_compares_with_what_the_killed_one_has_read(tmp_path: Path) -> None:
    def topology(rows: Any) -> TridentTopology:
        made = TridentTopology()
        made.newStream("rows", Shares(reads(rows))).persistentAggregate(
            MemoryMapState.opaque(), "n", Sum(), "s", name="sum"
        )
        return made

    def goes_on(rows: Any) -> None:
        with start_local(topology(rows), name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=20)

    with crash_at("run.after"), pytest.raises(DriverCrashedError):
        goes_on(ROWS)
    with pytest.raises(BatchFailedError, match="emitted different tuples than an earlier attempt with"):
        goes_on([(100,)])
    with start_local(topology(ROWS), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert running.state("sum").value == 10


def test_an_opaque_source_may_read_other_rows_and_a_verified_one_is_not_compared() -> None:
    for spout in (
        Shares(reads(ROWS, [(100,)]), kind=SpoutKind.OPAQUE),
        Shares(reads(ROWS, [(100,)]), verified=True),
    ):
        with start_local(failing_once(spout)) as running:
            running.processAllAvailable(timeout=20)
            assert running.state("sum").value == 100


def test_a_spark_spout_is_held_to_its_promise_on_the_embedded_engine() -> None:
    calls: list[int] = []

    def local(metadata: Any) -> Any:
        calls.append(1)
        return [(len(calls),)]

    def plan(previous: Any) -> Any:
        return {"d": 1} if previous is None else None

    def read(spark: Any, metadata: Any) -> Any:
        raise NotImplementedError

    with (
        pytest.raises(BatchFailedError, match="emitted different tuples than an earlier attempt with"),
        start_local(failing_once(SparkSpout(read, plan, "n long", readLocal=local))) as running,
    ):
        running.processAllAvailable(timeout=20)


def test_explain_says_whose_rows_nobody_compares(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    failing_once(Shares(reads(ROWS))).explain()
    told = "    not compared: rows of rows that Spark's workers read by reference (a replay must have the same rows;"
    assert told in capsys.readouterr().out
    (tmp_path / "a.txt").write_text("1\n")
    files = TridentTopology()
    files.newStream("rows", FileSpout(tmp_path, "json", "n long")).persistentAggregate(
        MemoryMapState.opaque(), "n", Sum(), "s", name="sum"
    )
    files.explain()
    assert "not compared" not in capsys.readouterr().out
