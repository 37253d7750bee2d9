"""Sessions close alike in the driver, by an index of due times, and by tasks that each have some groups."""

import datetime as dt
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compiler.keyed_runner import FIELDS, KEYS, Held, Last, by_tasks, rows_by_key, update_of
from tests.compiler.window_runner import EPOCH
from trident import Count, SessionWindow, Sum
from trident.base.attempt import TransactionAttempt
from trident.base.spark_types import arrow_schema, spark_schema
from trident.compiler.keyed_job import TASK_ROWS, KeyedJob, Wanted
from trident.compiler.keyed_updates import KeyedUpdate, why_not_by_key
from trident.compiler.spark.keyed_jobs import REPORT, result_of
from trident.compiler.state_updates import compile_state_update
from trident.compiler.states.due_times import first_ends
from trident.compiler.states.update_types import Clock, WindowBatch
from trident.compiler.windows.time_windows import NEVER
from trident.files.disk import DiskFiles
from trident.frozen.files import FrozenFolders, read_whole
from trident.state import MemoryMapState
from trident_spouts.shared_reading import SharesEmission
from trident_state.keys import decode_keys

GAP, SLACK = 10, 4
LAST_SECOND = (dt.datetime.max.replace(tzinfo=dt.UTC) - EPOCH) // dt.timedelta(seconds=1)


def summed(s: Any) -> None:
    window = SessionWindow(GAP, "at", lateness=SLACK)
    s.groupBy("k").window(window, MemoryMapState.opaque(), {"n": Count(), "sum": Sum("n")}, name="held").peek(print)


def gathered(s: Any) -> None:
    window = SessionWindow(GAP, "at", lateness=SLACK)
    s.groupBy("k").window(window, MemoryMapState.opaque(), "n", All(), "all string", name="held").peek(print)


class All(Last):
    """An aggregator that tells every tuple of a session."""

    def complete(self, state: list[int], collector: Any) -> None:
        collector.emit([str(state)])


class Indexed:
    """A state between two batches that knows what is due. Some keys it tells too early, as a rounded score does."""

    groups = 3

    def __init__(self, held: Held, early: random.Random) -> None:
        self.held, self.early = held, early

    def read(self, keys: pa.Table) -> pa.Array:
        return self.held.read(keys)

    def found(self, until: int) -> list[bytes]:
        ends = {key: first_ends(pa.array([row.as_py()], self.held.value.type))[0].as_py() for key, row in self.rows()}
        return [key for key, end in ends.items() if end <= until or self.early.random() < 0.2]

    def rows(self) -> list[tuple[bytes, pa.Scalar]]:
        return list(self.held.rows.items())

    def table(self, keys: list[bytes]) -> pa.Table:
        return decode_keys(pa.array(keys, pa.binary()), self.held.keys)


class InDriver(Indexed):
    """As an update in the driver sees it."""

    def due(self, until: int) -> pa.Table:
        return self.table(self.found(until))


class InGroups(Indexed):
    """As workers see it. The index has several groups, and each group has pages of two keys."""

    def due_in(self, group: int, until: int) -> Iterator[pa.Table]:
        keys = [key for key in sorted(self.found(until)) if sum(key) % self.groups == group]
        for at in range(0, len(keys), 2):
            yield self.table(keys[at : at + 2])


def closings(batches: Sequence[Sequence[tuple[Any, int, int | None]]], whole: Callable[[list[int]], Any]) -> list[Any]:
    """Return the sessions that leave with each batch, by a model that knows nothing of states."""
    mark: int | None = None
    opened: dict[str, list[list[tuple[int, int, int]]]] = {}
    left, order = [], 0
    for batch in batches:
        before = mark
        mark = max(
            [*[t - SLACK for _, _, t in batch if t is not None], *([] if mark is None else [mark])], default=None
        )
        for k, n, t in batch:
            order += 1
            if t is None or (before is not None and t + GAP <= before):
                continue
            own = opened.setdefault(repr(k or 0.0 if k is not None else None), [])
            met = [session for session in own if any(abs(t - other) < GAP for other, _, _ in session)]
            own[:] = [session for session in own if session not in met]
            own.append(sorted([(t, order, n), *(row for session in met for row in session)]))
        now = []
        for key, own in opened.items():
            for session in [s for s in own if mark is not None and min(s[-1][0] + GAP, LAST_SECOND + 1) <= mark]:
                own.remove(session)
                now.append((key, session[0][0], whole([n for _, _, n in session])))
        left.append(sorted(now))
    return left


TIMES = st.one_of(st.none(), st.integers(-40, 40), st.integers(-40, 40), st.integers(60, 90))
VISITS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 9), TIMES), max_size=20)


@pytest.mark.parametrize("make", [summed, gathered], ids=lambda make: make.__name__)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(VISITS, min_size=1, max_size=5),
    parts=st.integers(1, 4),
    tasks=st.integers(1, 5),
    seed=st.integers(0, 1000),
    never=st.booleans(),
)
def test_sessions_close_alike_in_the_driver_by_an_index_and_by_tasks(
    make: Any, tmp_path: Path, batches: list[Any], parts: int, tasks: int, seed: int, never: bool
) -> None:
    """Each batch is made by the driver's own index, by the state's, or by tasks, in turn; a model tells what leaves."""
    step, puts, emitted = update_of(make, f"{FIELDS}, at timestamp")
    assert why_not_by_key(step) is None and emitted is not None
    draw, held, by_listing = random.Random(seed), Held(puts), Held(puts)
    entering, listing, mark = arrow_schema(step.source.schema), compile_state_update(step), NEVER
    batches = [*batches, [], [(1.0, 5, LAST_SECOND if never else 10_000)]]
    whole = str if make is gathered else lambda session: (len(session), sum(session))
    expected = closings(batches, whole)
    for txid, batch in enumerate(batches, 1):
        rows = [{"k": k, "n": n, "at": None if t is None else EPOCH + dt.timedelta(seconds=t)} for k, n, t in batch]
        table = pa.Table.from_pylist(rows, entering)
        latest = max([t for _, _, t in batch if t is not None], default=None)
        clock = Clock(mark, mark if latest is None else max(mark, (latest - SLACK) * 1_000_000))
        mark = clock.after
        window = WindowBatch(txid, lambda: 0.0, None, clock=clock)
        by_listing.scan = partial(pages_of, by_listing)  # type: ignore[method-assign]
        listed = listing([table], by_listing, window)
        if not batch or draw.random() < 0.4:  # an empty batch has no parts, and stays with the driver
            updated = compile_state_update(step)([table], InDriver(held, draw), window)  # type: ignore[arg-type]
            put, left, dropped = updated.puts, updated.emitted, updated.dropped
        else:
            ends = [number * len(batch) // parts for number in range(parts + 1)]
            tables = [table.slice(start, end - start) for start, end in zip(ends, ends[1:], strict=False)]
            shares = SharesEmission(tuple(range(parts)), tables.__getitem__, spark_schema(entering), len(batch))
            folder = FrozenFolders(DiskFiles(tmp_path), "log").folder("g", TransactionAttempt(txid, 0, 1), 2)
            snapshot, wanted = InGroups(held, draw), Wanted(folder, puts, emitted)
            job = KeyedJob(KeyedUpdate.of(step), shares, snapshot, txid, 0.0, wanted, clock)  # type: ignore[arg-type]
            result = result_of(job, pa.Table.from_batches(by_tasks(job, tasks, draw), REPORT))
            assert result.emitted is not None
            put, left = (read_whole(DiskFiles(tmp_path), each) for each in (result.puts, result.emitted))
            dropped = result.dropped
        assert left is not None
        held.apply(put)
        by_listing.apply(listed.puts)
        assert held.contents == by_listing.contents and dropped == listed.dropped
        assert rows_by_key(left) == rows_by_key(listed.emitted)
        found = [
            (
                repr(row["k"] or 0.0 if row["k"] is not None else None),
                (row["windowStart"] - EPOCH) // dt.timedelta(seconds=1),
                row["all"] if make is gathered else (row["n"], row["sum"]),
            )
            for row in left.to_pylist()
        ]
        assert sorted(found) == expected[txid - 1]


def test_many_due_keys_are_divided_among_tasks_like_tuples(tmp_path: Path) -> None:
    """A batch of a few tuples may close millions of sessions."""
    step, puts, emitted = update_of(summed, f"{FIELDS}, at timestamp")
    folder = FrozenFolders(DiskFiles(tmp_path), "log").folder("g", TransactionAttempt(1, 0, 1), 2)
    shares = SharesEmission((0,), {}.__getitem__, spark_schema(arrow_schema(step.source.schema)), 5)
    snapshot: Any = InGroups(Held(puts), random.Random(1))
    job = KeyedJob(
        KeyedUpdate.of(step), shares, snapshot, 1, 0.0, Wanted(folder, puts, emitted), Clock(0, 9), 10 * TASK_ROWS
    )
    assert job.tasks == 11


def pages_of(held: Held) -> Iterator[pa.Table]:
    keys = decode_keys(pa.array(list(held.rows), pa.binary()), held.keys)
    values = pa.array([row.as_py() for row in held.rows.values()], held.value.type)
    yield keys.append_column("value", values)
