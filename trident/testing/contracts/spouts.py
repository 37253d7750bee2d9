"""The contract of spouts, as tests over the `Spout` protocol: rows, replays, positions, restarts, closing, workers."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trident.base.attempt import TransactionAttempt
from trident.base.errors import FailedException
from trident.base.spark_types import arrow_schema
from trident.testing.contracts.spout_calls import (
    MOST_BATCHES,
    Rows,
    Step,
    as_logged,
    batch,
    check_rows,
    check_same,
    check_workers,
    emissions,
    planned,
    planned_ahead,
    rows_in,
    walk,
)
from trident.testing.crashes import DriverCrashedError, crash_at
from trident.testing.local import start_local
from trident.testing.output import TestOutput, rows_of
from trident.topology import TridentTopology
from trident_spouts.adapters.adapter_choice import as_spout
from trident_spouts.batch_budget import Budget
from trident_spouts.executor import Metadata, SpoutKind
from trident_spouts.positions import position_by_part
from trident_spouts.rows import RowsLike, table_of
from trident_spouts.source_times import checked_span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeSpout = Callable[[], Any]
"""A function that returns a new spout over the same rows at each call, like a restarted program."""

ShowPartitions = Callable[[Sequence[str]], None]
"""A function that makes only the partitions with these names available."""


class SpoutContract:
    """The contract of a spout under replays, failures, restarts and repeated calls, as tests.

    Inherit it as ``class TestMySpout(SpoutContract)`` and define the fixture `make_spout`: a function that returns a
    new spout over the same rows at each call, as a restarted program makes one. The source must end after a few
    batches, but not before the second. The kind of the spout decides the requirements of the tests; for example, a
    non-transactional spout need not repeat a batch after a restart.

    Two more fixtures may be defined. `every_row` returns the rows of the source as the test knows them; without it the
    tests cannot notice a row that the spout always leaves out or always emits twice. `workers` returns a SparkSession;
    with it Spark's workers read every batch, too, and must read the same rows as the driver.

    A source whose partitions come and go has two more: `partitions`, their names, and `show_partitions`, a function
    that takes names and makes exactly these partitions available from then on.
    """

    @pytest.fixture
    def make_spout(self) -> MakeSpout:
        raise NotImplementedError(f"{type(self).__name__}: define the fixture 'make_spout'")

    @pytest.fixture
    def every_row(self) -> RowsLike | None:
        """Return the rows of the source, in any form that a spout may emit; None if they are not known."""
        return None

    @pytest.fixture
    def workers(self) -> "SparkSession | None":
        """Return a Spark session whose workers also read every batch; None if there is no Spark."""
        return None

    @pytest.fixture
    def partitions(self) -> Sequence[str]:
        """Return the names of the partitions that `show_partitions` can hide.

        No names if all partitions are always available.
        """
        return ()

    @pytest.fixture
    def show_partitions(self) -> ShowPartitions | None:
        """Return a function that makes only the partitions with the given names available.

        None if the source has no such partitions.
        """
        return None

    @pytest.fixture
    def expected(self, make_spout: MakeSpout) -> list[Step]:
        """Return the batches that the source emits if nothing fails."""
        with closing(as_spout(make_spout()).open()) as executor:
            steps = list(walk(executor))
        assert len(steps) > 1, f"the source has {len(steps)} batches; the tests need at least two"
        return steps

    # --- the spout's properties --------------------------------------------------------------------------------

    def test_it_declares_its_kind_and_its_fields(self, make_spout: MakeSpout) -> None:
        spout = as_spout(make_spout())
        assert isinstance(spout.kind, SpoutKind)
        assert spout.schema.names, "its tuples have no fields"

    def test_emissions_have_the_declared_fields_and_know_their_rows(self, make_spout: MakeSpout) -> None:
        spout = as_spout(make_spout())
        declared = {field.name: field.type for field in arrow_schema(spout.schema)}
        with closing(spout.open()) as executor:
            for txid, plan, emission in emissions(executor):
                table = emission.arrow()
                where = f"batch {txid} ({plan!r:.200})"
                assert sorted(table.column_names) == sorted(declared), f"{where} has other fields than declared"
                for name, kind in declared.items():
                    assert table.schema.field(name).type == kind, (
                        f"{where}: the type of {name!r} is not the declared type"
                    )
                assert emission.rows in (None, table.num_rows), f"{where} reports another number of rows than it has"
                assert emission.digest == emission.digest, f"{where} has two digests of the same rows"
                spans = [checked_span(span) for span in getattr(emission, "source_times", ())]
                timed = sum(span.tuples for span in spans)
                assert timed <= table.num_rows, f"{where} has times of more rows than it has"

    def test_it_brings_every_row_of_the_source_once(
        self, make_spout: MakeSpout, expected: list[Step], every_row: RowsLike | None
    ) -> None:
        if every_row is None:
            pytest.skip("the fixture 'every_row' does not say what the source holds")
        table = table_of(every_row, as_spout(make_spout()).schema, "every_row")
        held = Step(0, None, table, None)
        check_rows([step.rows for step in expected], [held])

    def test_each_position_is_shown_by_the_parts_of_the_source(
        self, make_spout: MakeSpout, expected: list[Step]
    ) -> None:
        spout = as_spout(make_spout())  # it is not opened: positions are shown while nothing runs
        before: Metadata = {}
        for step in expected:
            where = f"the position after batch {step.txid} ({step.position!r:.200})"
            parts = position_by_part(spout, step.position)
            assert parts, f"{where} is shown without any part"
            assert all(isinstance(part, str) for part in parts), f"{where}: the names of parts are texts, not {parts!r}"
            assert as_logged(parts, f"{where}, by parts,") == parts, f"{where} is not shown as JSON: {parts!r}"
            moved = parts != before or not step.table.num_rows
            assert moved, f"{where} is shown as the position before the batch, {parts!r}, but the batch has rows"
            before = parts

    def test_workers_read_what_the_driver_reads(
        self, make_spout: MakeSpout, workers: "SparkSession | None", tmp_path: Path
    ) -> None:
        """Each batch is counted, and read as a DataFrame and by Python workers, twice: Spark may repeat a task."""
        if workers is None:
            pytest.skip("the fixture 'workers' gives no Spark")
        with closing(as_spout(make_spout()).open()) as executor:
            for txid, plan, emission in emissions(executor):
                check_workers(workers, emission, f"batch {txid} ({plan!r:.200})", tmp_path)

    # --- positions ---------------------------------------------------------------------------------------------

    def test_metadata_and_positions_are_json(self, make_spout: MakeSpout) -> None:
        with closing(as_spout(make_spout()).open()) as executor:
            for txid, plan, emission in emissions(executor):
                as_logged(plan, f"the metadata of batch {txid}")
                as_logged(emission.after, f"the position after batch {txid}")

    def test_a_position_that_only_an_emission_tells_is_not_planned_ahead(self, make_spout: MakeSpout) -> None:
        with closing(as_spout(make_spout()).open()) as executor:
            for txid, plan, emission in emissions(executor):
                if executor.plans_ahead:
                    assert emission.after is None, (
                        f"it plans ahead, but batch {txid} knows its position only after the emission"
                    )
                    # After the read, it may return evidence of the rows together with the position.
                    emission.arrow()
                    if emission.after is not None:
                        place = as_logged(emission.after, f"the position after {txid}")
                        following = [planned(executor, txid + 1, position) for position in (plan, place)]
                        assert following[0] == following[1], f"the batch after {txid} depends on the evidence of it"

    def test_batches_that_are_planned_ahead_bring_every_row_once(
        self, make_spout: MakeSpout, expected: list[Step]
    ) -> None:
        with closing(as_spout(make_spout()).open()) as executor:
            if not executor.plans_ahead:
                pytest.skip("it does not plan ahead")
            emitted: list[Rows] = []
            position: Metadata = None
            while plans := planned_ahead(executor, len(emitted) + 1, position, MOST_BATCHES):
                emitted += [rows_in(executor, TransactionAttempt(txid, 0, 1), plan) for txid, plan in plans]
                for txid, plan in plans:
                    executor.success(txid, plan)
                position = plans[-1][1]
        check_rows(emitted, expected)

    def test_batches_of_any_size_bring_every_row_once(self, make_spout: MakeSpout, expected: list[Step]) -> None:
        """A budget may make batches smaller.

        It changes from batch to batch, and no row may be lost between two batches.
        """
        budgets = itertools.cycle([Budget(rows=1, bytes=1), Budget(rows=2, bytes=10), Budget()])
        with closing(as_spout(make_spout()).open()) as executor:
            steps = list(walk(executor, budgets=budgets))
        check_rows([step.rows for step in steps], expected)

    def test_an_idle_source_stays_where_it_is(self, make_spout: MakeSpout, expected: list[Step]) -> None:
        with closing(as_spout(make_spout()).open()) as executor:
            steps = list(walk(executor))
            for _ in range(3):
                assert planned(executor, len(steps) + 1, steps[-1].position) is None, "rows came after the end"
            executor.success(steps[-1].txid, steps[-1].plan)
            assert planned(executor, len(steps) + 1, steps[-1].position) is None, "rows came after the end"

    # --- replays -----------------------------------------------------------------------------------------------

    def test_a_replay_within_a_run_holds_what_the_kind_promises(self, make_spout: MakeSpout) -> None:
        """A transactional or non-transactional spout emits the same rows again. An opaque spout may emit any rows."""
        spout = as_spout(make_spout())
        with closing(spout.open()) as executor:
            if spout.kind is SpoutKind.OPAQUE:
                pytest.skip("an opaque replay may hold other rows")
            for txid, plan, emission in emissions(executor):
                first = Counter(map(repr, rows_of(emission.arrow())))
                for number in (1, 2):
                    executor.fail(TransactionAttempt(txid, number - 1, 1))
                    again = rows_in(executor, TransactionAttempt(txid, number, 1), plan)
                    check_same(again, first, f"attempt {number} at batch {txid}")

    def test_every_row_comes_once_though_attempts_fail(self, make_spout: MakeSpout, expected: list[Step]) -> None:
        """Two attempts at each batch fail. An opaque spout plans each attempt from the end of the previous batch."""
        spout = as_spout(make_spout())
        with closing(spout.open()) as executor:
            steps = list(walk(executor, failures=2, replans=spout.kind is SpoutKind.OPAQUE))
        check_rows([step.rows for step in steps], expected)

    def test_a_failed_attempt_moves_no_batch_that_was_planned_ahead(
        self, make_spout: MakeSpout, expected: list[Step]
    ) -> None:
        """A batch and the next batch are under way together; both are emitted, fail, and are emitted again."""
        spout = as_spout(make_spout())
        with closing(spout.open()) as executor:
            if not executor.plans_ahead or spout.kind is SpoutKind.OPAQUE:
                pytest.skip("it does not plan ahead, or it plans a failed batch again")
            emitted: list[Rows] = []
            position: Metadata = None
            while plans := planned_ahead(executor, len(emitted) + 1, position, 2):
                for number, (at, plan) in itertools.product((0, 1), plans):
                    attempt = TransactionAttempt(at, number, 1)
                    rows = rows_in(executor, attempt, plan)
                    if number == 0:
                        executor.fail(attempt)
                    else:
                        emitted.append(rows)
                for at, plan in plans:
                    executor.success(at, plan)
                position = plans[-1][1]
        check_rows(emitted, expected)

    def test_plans_that_were_not_used_bring_no_row_twice(self, make_spout: MakeSpout, expected: list[Step]) -> None:
        """A batch may be planned more than once. Only the plan of the attempt that is frozen counts."""
        with closing(as_spout(make_spout()).open()) as executor:
            steps, position = [], None
            for txid in range(1, MOST_BATCHES):
                planned(executor, txid, position)
                step = batch(executor, txid, position)
                if step is None:
                    break
                steps.append(step)
                executor.success(txid, step.plan)
                position = step.position
        check_rows([step.rows for step in steps], expected)

    def test_a_batch_is_planned_again_after_later_plans(self, make_spout: MakeSpout, expected: list[Step]) -> None:
        """Batches are planned ahead, and the first of them is planned again: a plan depends only on its arguments."""
        with closing(as_spout(make_spout()).open()) as executor:
            steps: list[Step] = []
            for txid in range(1, MOST_BATCHES):
                position = steps[-1].position if steps else None
                planned_ahead(executor, txid, position, 2 if executor.plans_ahead else 1)
                step = batch(executor, txid, position)
                if step is None:
                    break
                steps.append(step)
                executor.success(txid, step.plan)
        check_rows([step.rows for step in steps], expected)

    # --- restarts ----------------------------------------------------------------------------------------------

    def test_every_row_comes_once_over_restarts(self, make_spout: MakeSpout, expected: list[Step]) -> None:
        """The driver dies after each batch, while the next batch is under way."""
        self._skip_without_promise(make_spout)
        steps: list[Step] = []
        position: Metadata = None
        for epoch in range(1, MOST_BATCHES):
            with closing(as_spout(make_spout()).open()) as executor:
                if steps:  # a restarted driver reports the last success again
                    executor.success(steps[-1].txid, steps[-1].plan)
                step = batch(executor, len(steps) + 1, position, epoch)
                if step is None:
                    break
                steps.append(step)
                position = step.position
                batch(executor, len(steps) + 1, position, epoch, patient=False)
        check_rows([step.rows for step in steps], expected)

    def test_every_row_comes_once_beside_another_stream(self, make_spout: MakeSpout, expected: list[Step]) -> None:
        """Between two of its batches there are two batches of another stream in the group, and a restart.

        A run informs a spout that plans ahead of all earlier commits: with the last txid, which belongs to another
        stream, and the metadata of the spout's last batch.
        """
        self._skip_without_promise(make_spout)
        steps: list[Step] = []
        position: Metadata = None
        for txid in range(1, 3 * MOST_BATCHES, 3):
            with closing(as_spout(make_spout()).open()) as executor:
                early = txid % 2 == 0  # the report may come before the first plan, or after it
                step = None if early else batch(executor, txid, position)
                if steps and executor.plans_ahead:
                    executor.success(txid - 1, position)
                step = batch(executor, txid, position) if early else step
                if step is None:
                    break
                steps.append(step)
                position = step.position
        check_rows([step.rows for step in steps], expected)

    def test_a_transactional_batch_is_the_same_after_a_restart(
        self, make_spout: MakeSpout, expected: list[Step]
    ) -> None:
        spout = as_spout(make_spout())
        if spout.kind is not SpoutKind.TRANSACTIONAL:
            pytest.skip(f"it is not guaranteed for the kind {spout.kind.value}")
        for step in reversed(expected):
            with closing(as_spout(make_spout()).open()) as executor:
                again = rows_in(executor, TransactionAttempt(step.txid, 1, 2), step.plan)
                check_same(again, step.rows, f"batch {step.txid}, emitted by another run from its metadata,")

    def test_partitions_that_come_and_go_bring_every_row_once(
        self,
        make_spout: MakeSpout,
        expected: list[Step],
        partitions: Sequence[str],
        show_partitions: ShowPartitions | None,
    ) -> None:
        """A partition appears late, disappears while others continue, and comes back, also across restarts."""
        if show_partitions is None:
            pytest.skip("the fixture 'show_partitions' gives nothing that takes partitions away")
        assert len(partitions) > 1, f"the fixture 'partitions' names {list(partitions)}; the test needs at least two"
        self._skip_without_promise(make_spout)
        steps: list[Step] = []
        position: Metadata = None
        for epoch in range(1, MOST_BATCHES):
            before = len(steps)
            with closing(as_spout(make_spout()).open()) as executor:
                for listed in (partitions[:1], partitions[1:], partitions[:-1], partitions):
                    show_partitions(listed)
                    step = batch(executor, len(steps) + 1, position, epoch)
                    if step is not None:
                        steps.append(step)
                        executor.success(step.txid, step.plan)
                        position = step.position
            if len(steps) == before:
                break
        check_rows([step.rows for step in steps], expected)

    # --- other calls -----------------------------------------------------------------------------------

    def test_success_may_be_repeated(self, make_spout: MakeSpout, expected: list[Step]) -> None:
        with closing(as_spout(make_spout()).open()) as executor:
            steps: list[Step] = []
            for step in walk(executor):
                steps.append(step)
                for _ in range(2):
                    executor.success(step.txid, step.plan)
        check_rows([step.rows for step in steps], expected)

    def test_it_can_be_opened_again_after_it_was_closed(self, make_spout: MakeSpout, expected: list[Step]) -> None:
        spout = as_spout(make_spout())
        with closing(spout.open()):
            pass
        with closing(spout.open()) as executor:
            steps = list(walk(executor))
        check_rows([step.rows for step in steps], expected)

    def test_it_can_be_closed_with_a_batch_under_way(self, make_spout: MakeSpout) -> None:
        for reached in ("planned", "emitted", "failed"):
            executor = as_spout(make_spout()).open()
            attempt = TransactionAttempt(1, 0, 1)
            plan = planned(executor, 1, None)
            if reached != "planned":
                executor.emit(attempt, plan)
            if reached == "failed":
                executor.fail(attempt)
            executor.close()

    # --- in a topology -----------------------------------------------------------------------------------------

    def test_a_topology_gets_every_row_once_though_attempts_fail(
        self, make_spout: MakeSpout, expected: list[Step]
    ) -> None:
        failed: list[object] = []

        def fail_twice(*values: object) -> None:
            if len(failed) < 2:
                failed.append(values)
                raise FailedException("the test fails this attempt")

        output, topology = TestOutput(), TridentTopology()
        spout = as_spout(make_spout())
        topology.newStream("source", spout).peek(spout.schema.names, fail_twice).foreachArrow(output)
        with start_local(topology, name="contract") as running:
            running.processAllAvailable(timeout=60)
        check_rows([Counter(map(repr, output.rows))], expected)

    def test_a_topology_that_ends_by_itself_gets_every_row_once(
        self, make_spout: MakeSpout, expected: list[Step]
    ) -> None:
        """A run with `availableNow` ends when the source is empty.

        A queue that delivers no more messages until some are acknowledged is not empty, nor is a source that has not
        answered yet.
        """
        output, topology = TestOutput(), TridentTopology()
        topology.newStream("source", make_spout()).foreachArrow(output)
        with start_local(topology, name="contract", availableNow=True) as running:
            assert running.awaitTermination(timeout=60), f"it does not end: {running.status}"
        check_rows([Counter(map(repr, output.rows))], expected)

    @pytest.mark.parametrize("point", ["emit.after", "freeze.after", "success.before"])
    def test_a_topology_gets_every_row_once_though_its_driver_dies(
        self, make_spout: MakeSpout, expected: list[Step], point: str, tmp_path: Path
    ) -> None:
        self._skip_without_promise(make_spout)
        output = TestOutput()

        def topology() -> TridentTopology:
            topology = TridentTopology()
            topology.newStream("source", make_spout()).foreachArrow(output)
            return topology

        folder = tmp_path / "checkpoint-of-the-contract"
        with crash_at(point, count=2):
            running = start_local(topology(), name="contract", checkpointLocation=folder)
            try:
                with pytest.raises(DriverCrashedError):  # noqa: PT012  the driver may die behind its last commit
                    running.processAllAvailable(timeout=60)
                    running.awaitTermination(timeout=60)
            finally:
                running.stop()
        with start_local(topology(), name="contract", checkpointLocation=folder) as running:
            running.processAllAvailable(timeout=60)
        check_rows([Counter(map(repr, output.rows))], expected)

    def _skip_without_promise(self, make_spout: MakeSpout) -> None:
        if as_spout(make_spout()).kind is SpoutKind.NON_TRANSACTIONAL:
            pytest.skip("a non-transactional spout guarantees nothing after a restart")
