"""Calls of a spout as a driver makes them, without a driver: plans, emissions, walks through a source, comparisons."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.spark_types import spark_schema
from trident.testing.output import rows_of
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.executor import Emission, Metadata, SpoutExecutor, WaitingExecutor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Rows = Counter[str]
"""The number of times that each row was emitted, by the row's text."""

_PATIENCE_SECS = 60.0
"""The longest time for which a spout may wait for rows that it has."""

MOST_BATCHES = 1000
"""The most batches of a source. A source with more batches counts as endless, and fails the test."""


@dataclass(frozen=True)
class Step:
    """A committed batch of a walk through a source."""

    txid: int
    plan: Metadata
    table: pa.Table
    position: Metadata
    """The position of the spout after the batch, from which the next plan begins."""

    @property
    def rows(self) -> Rows:
        return Counter(map(repr, rows_of(self.table)))


def as_logged(metadata: Metadata, what: str) -> Metadata:
    """Return metadata as the log returns it.

    Fails if `metadata` (errors call it `what`) is not JSON.
    """
    try:
        back: Metadata = json.loads(json.dumps(metadata, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{what} is not JSON ({error}): {metadata!r:.200}") from None
    return back


def planned(
    executor: SpoutExecutor,
    txid: int,
    previous: Metadata,
    number: int = 0,
    epoch: int = 1,
    budget: Budget = NO_LIMIT,
    patient: bool = True,
) -> Metadata:
    """Return the metadata of the batch that follows the position `previous`; None if the source is empty.

    If the spout waits for its rows, `plan` is repeated for some seconds; with `patient` False the result is None at
    once.
    """
    attempt, until = TransactionAttempt(txid, number, epoch), time.monotonic() + _PATIENCE_SECS
    while (plan := executor.plan(attempt, previous, 1000.0 + txid, budget)) is None and patient and waits_for(executor):
        assert time.monotonic() < until, (
            f"no batch {txid} within {_PATIENCE_SECS:g} s: it waits for {waits_for(executor)}"
        )
        time.sleep(0.01)
    return as_logged(plan, f"the metadata of batch {txid}")


def waits_for(executor: SpoutExecutor) -> str | None:
    """Return the reason why the last plan, which was None, must wait; None if the source is empty."""
    return executor.waits_for() if isinstance(executor, WaitingExecutor) else None


def planned_ahead(executor: SpoutExecutor, txid: int, previous: Metadata, most: int) -> list[tuple[int, Metadata]]:
    """Plan batches from `txid` and the position `previous` on, each after the previous batch. Return plans with txids.

    There are at most `most` plans, and fewer if the source is empty or waits for a commit. No plan means that the
    source is empty.
    """
    plans: list[tuple[int, Metadata]] = []
    for at in range(txid, txid + most):
        plan = planned(executor, at, plans[-1][1] if plans else previous, patient=not plans)
        if plan is None:
            break
        plans.append((at, plan))
    return plans


def batch(
    executor: SpoutExecutor,
    txid: int,
    previous: Metadata,
    epoch: int = 1,
    failures: int = 0,
    replans: bool = False,
    budget: Budget = NO_LIMIT,
    patient: bool = True,
) -> Step | None:
    """Plan and emit the batch after the position `previous`, and return it; None if the source is empty.

    `failures`: how many attempts fail before the last attempt. With `replans` each attempt has a separate plan.
    """
    plan = planned(executor, txid, previous, 0, epoch, budget, patient)
    if plan is None:
        return None
    for number in range(failures):
        attempt = TransactionAttempt(txid, number, epoch)
        executor.emit(attempt, plan)
        executor.fail(attempt)
        plan = planned(executor, txid, previous, number + 1, epoch) if replans else plan
    emission = executor.emit(TransactionAttempt(txid, failures, epoch), plan)
    table = emission.arrow()
    position = as_logged(emission.after, f"the position after batch {txid}")  # with evidence of the read rows
    return Step(txid, plan, table, plan if position is None else position)


def walk(
    executor: SpoutExecutor, failures: int = 0, replans: bool = False, budgets: Iterable[Budget] = ()
) -> Iterator[Step]:
    """Plan, emit and commit batch by batch until the source is empty, and yield each batch before its success.

    The first batches get one of the `budgets` each.
    """
    position: Metadata = None
    left = iter(budgets)
    for txid in range(1, MOST_BATCHES):
        budget = next(left, NO_LIMIT)
        step = batch(executor, txid, position, failures=failures, replans=replans, budget=budget)
        if step is None:
            return
        yield step
        executor.success(txid, step.plan)
        position = step.position
    raise AssertionError(f"the source did not come to an end within {MOST_BATCHES} batches")


def emissions(executor: SpoutExecutor) -> Iterator[tuple[int, Metadata, Emission]]:
    """Plan and emit batch by batch, and yield the txid, the metadata and the emission of each."""
    position: Metadata = None
    for txid in range(1, MOST_BATCHES):
        plan = planned(executor, txid, position)
        if plan is None:
            return
        emission = executor.emit(TransactionAttempt(txid, 0, 1), plan)
        yield txid, plan, emission
        executor.success(txid, plan)
        position = plan if emission.after is None else as_logged(emission.after, f"the position after batch {txid}")


def rows_in(executor: SpoutExecutor, attempt: TransactionAttempt, plan: Metadata) -> Rows:
    """Return the rows that the executor emits for an attempt and a plan."""
    return Counter(map(repr, rows_of(executor.emit(attempt, plan).arrow())))


def check_workers(spark: "SparkSession", emission: Emission, where: str, scratch: Path) -> None:
    """Fail unless Spark reads the emission's rows in each of the ways that a stage may use."""
    expected = Counter(map(repr, rows_of(emission.arrow())))
    names = emission.arrow().schema.names
    emission.check_planned()
    frame = emission.dataframe(spark, scratch).select(*names)
    check_same(Counter(map(repr, rows_of(frame.toArrow()))), expected, f"{where}, read as a DataFrame,")
    reader = emission.reader(spark, names)
    if reader is not None:
        assert sorted(reader.names) == sorted(names), f"{where}: its reader names other fields than its rows have"
        read = reader.numbers.mapInArrow(reader.read, spark_schema(reader.schema)).select(*names)
        for time in ("", " a second time"):
            check_same(Counter(map(repr, rows_of(read.toArrow()))), expected, f"{where}, read by workers{time},")
    for counter, _ in emission.counters(spark):
        counts = counter.numbers.mapInArrow(counter.read, spark_schema(counter.schema)).toArrow().column(0)
        counted = sum(counts.to_pylist())
        total = sum(expected.values())
        assert counted == total, f"{where}: workers count {counted} rows, but it has {total}"
    emission.check_scanned()


def check_same(rows: Rows, expected: Rows, what: str) -> None:
    """Fail, with the rows that differ, unless `rows` equals `expected`. The failure calls the rows `what`."""
    lost, more = expected - rows, rows - expected
    assert not lost and not more, f"{what} has different rows. Missing: {shown(lost)}; unexpected: {shown(more)}"


def check_rows(batches: list[Rows], expected: list[Step]) -> None:
    """Fail, with the rows that differ, unless the batches contain every row of `expected` exactly once."""
    every = sum((step.rows for step in expected), Rows())
    rows = sum(batches, Rows())
    lost, more = every - rows, rows - every
    assert not lost and not more, f"rows that were lost: {shown(lost)}; rows that were read twice: {shown(more)}"


def shown(rows: Rows) -> str:
    """Return the first rows as text, for the message of a failed test."""
    first = [f"{row} ({count} times)" if count > 1 else row for row, count in list(rows.items())[:5]]
    return f"{', '.join(first) or 'none'}{' ...' if len(rows) > 5 else ''}"
