"""The contract of spouts with a changing source: new rows, older copies, replaced sources, unavailable servers."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from trident.base.attempt import TransactionAttempt
from trident.base.errors import DataLossError, SourceChangedError, SpoutContractError, TridentError
from trident.testing.contracts.spout_calls import MOST_BATCHES, Rows, Step, batch, planned, shown, waits_for, walk
from trident.testing.output import rows_of
from trident_spouts.adapters.adapter_choice import as_spout
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.executor import Emission, Metadata, SpoutExecutor, SpoutKind
from trident_spouts.rows import RowsLike, table_of

REFUSALS = (DataLossError, SourceChangedError, SpoutContractError)
"""The errors for a source that is no longer the source that was read."""

CALLS_WITH_ROWS = 40
"""The number of calls before each of which a row is added. After that the source ends."""


class ChangingSource:
    """A source that the tests of `SourceContract` change while a spout reads it. Inherit it, and define its methods.

    `spout` and `add` are needed. The tests that need another method are skipped if it is not defined.
    """

    starts_at_its_end: bool = False
    """True if the spout begins at the end of the source ("latest"), so that rows before its first plan do not count."""

    patience_secs: float = 60.0
    """The longest time for which a server may not answer after `restore`, `replace` and `show`."""

    def spout(self) -> Any:
        """Return a new spout over the source, as a restarted program makes one."""
        raise NotImplementedError

    def add(self, count: int) -> RowsLike:
        """Add `count` new rows to the source, all different from earlier rows. Return them as the spout emits them."""
        raise NotImplementedError

    def copy(self) -> None:
        """Take a copy of the source as it is now, as a backup does."""
        raise NotImplementedError

    def restore(self) -> None:
        """Put the source back to the last copy, as an operator restores a backup."""
        raise NotImplementedError

    def replace(self) -> None:
        """Put another source in place of this one, empty and with the same name: recreated, or on another server."""
        raise NotImplementedError

    def remove(self) -> None:
        """Remove the source, so that nothing has its name, as before its creation. The next `add` creates it."""
        raise NotImplementedError

    def hide(self) -> None:
        """Make the source unreachable: its server stops, or its folder is not mounted."""
        raise NotImplementedError

    def show(self) -> None:
        """Make the source reachable again, unchanged."""
        raise NotImplementedError


class SourceContract:
    """The contract of a spout with a source that changes between its calls, as tests.

    Inherit it as ``class TestMySource(SourceContract)`` and define the fixture `source`, a new `ChangingSource` for
    each test. `SpoutContract` tests a spout over an unchanging source.

    If the source was restored from an older copy, or if another source has its name, the spout has two choices, even if
    that source has received other rows since. It may refuse the source with a `DataLossError` (or a
    `SourceChangedError` or `SpoutContractError`) before a row is left out or counted twice. Or it may read each row
    that was added afterwards exactly once. A source that cannot be reached is an error, never the end of the rows.
    """

    @pytest.fixture
    def source(self) -> ChangingSource:
        raise NotImplementedError(f"{type(self).__name__}: define the fixture 'source'")

    # --- plans -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("failed", [False, True], ids=["planned-again", "failed"])
    def test_a_batch_planned_again_after_later_plans_begins_where_it_began(
        self, source: ChangingSource, failed: bool
    ) -> None:
        """The first batch and the next batch are planned, rows come, and the first batch is planned again."""
        history = History(source)
        history.add(5)
        with history.open() as executor:
            plans = _plans(executor, 3)
            history.add(4)
            if failed and plans:
                executor.emit(TransactionAttempt(1, 0, 1), plans[0])
                executor.fail(TransactionAttempt(1, 0, 1))
            for _ in range(2):
                _plans(executor, 2)
            history.read_on(executor)
        history.check()

    def test_a_position_is_planned_from_in_another_run(self, source: ChangingSource) -> None:
        """Each run plans several batches ahead, commits only the first, and dies.

        The next run continues after that batch.
        """
        history = History(source)
        history.add(6)
        for _ in range(MOST_BATCHES):
            with history.open() as executor:
                if not history.read_on(executor, most=1):
                    break
                _plans(executor, 3, history.steps)
            if len(history.steps) < 4:
                history.add(1)
        history.check()

    @pytest.mark.parametrize("failures", [0, 1])
    def test_rows_that_come_between_any_two_calls_count_once(self, source: ChangingSource, failures: int) -> None:
        history = History(source)
        history.add(2)
        with history.open() as executor:
            meddler = _Meddler(executor, history)
            opaque = as_spout(source.spout()).kind is SpoutKind.OPAQUE
            for step in walk(meddler, failures=failures, replans=opaque):
                history.steps.append(step)
        history.check()

    # --- beginnings --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("restarts", [1, 3])
    def test_a_beginning_without_a_row_is_kept(self, source: ChangingSource, restarts: int) -> None:
        """A stream that begins at the end of its source finds no row there. Every row after its first plan counts.

        Runs end before a row comes, and rows come between two runs.
        """
        if not source.starts_at_its_end:
            pytest.skip("the spout does not begin at the end of its source")
        history = History(source)
        history.add(3)
        _begin(history, restarts)
        history.check()

    @pytest.mark.parametrize("restarts", [1, 3])
    def test_a_source_that_is_created_after_the_first_plan_is_read_as_a_whole(
        self, source: ChangingSource, restarts: int
    ) -> None:
        """The first plan finds no source. It is an error, or the stream has begun and every row is read."""
        _needs(source.remove)
        history = History(source)
        try:
            with history.open() as executor:
                planned(executor, 1, None)
        except (TridentError, OSError) as error:
            assert str(error), "the error has no message"
            return
        _begin(history, restarts)
        history.check()

    # --- other sources -----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("same_run", [True, False], ids=["same-run", "restarted"])
    @pytest.mark.parametrize("grown", [0, 2, 3, 7], ids=["shorter", "a-little-shorter", "as-long", "longer"])
    def test_an_older_copy_is_refused_however_far_it_grows(
        self, source: ChangingSource, grown: int, same_run: bool
    ) -> None:
        """Three rows that were read are not in the copy. Before the next plan, the copy has received other rows."""
        self._refused(source, source.restore, grown, same_run)

    @pytest.mark.parametrize("same_run", [True, False], ids=["same-run", "restarted"])
    @pytest.mark.parametrize("grown", [0, 7, 9], ids=["empty", "as-long", "longer"])
    def test_another_source_of_the_name_is_refused(self, source: ChangingSource, grown: int, same_run: bool) -> None:
        self._refused(source, source.replace, grown, same_run)

    def test_a_copy_that_lacks_nothing_goes_on(self, source: ChangingSource) -> None:
        """All rows that were read are in the copy, so nothing is lost."""
        history = History(source)
        history.add(4)
        with history.open() as executor:
            history.read_on(executor)
        _needs(source.copy)
        _needs(source.restore)
        _until_it_answers(source, lambda: history.add(3))
        with history.open() as executor:
            history.read_on(executor)
        history.check()

    def _refused(self, source: ChangingSource, change: Callable[[], None], grown: int, same_run: bool) -> None:
        history = History(source)
        with history.open() as executor:
            if source.starts_at_its_end:
                history.read_on(executor)
            history.add(4)
            history.read_on(executor)
            if type(source).copy is not ChangingSource.copy:
                source.copy()
            history.add(3)
            history.read_on(executor)
            if same_run:
                _change(source, change, history, grown)
                _check_refused(source, executor, history)
        if not same_run:
            _change(source, change, history, grown)
            with history.open() as executor:
                _check_refused(source, executor, history)

    # --- unavailable sources -----------------------------------------------------------------------------------

    @pytest.mark.parametrize("same_run", [True, False], ids=["same-run", "restarted"])
    def test_a_source_that_is_away_is_not_at_its_end(self, source: ChangingSource, same_run: bool) -> None:
        history = History(source)
        history.add(4)
        with history.open() as executor:
            history.read_on(executor)
            if same_run:
                _check_away(source, executor, history)
        if not same_run:
            _check_away(source, None, history)
        _until_it_answers(source, lambda: history.add(3))
        with history.open() as executor:
            _until_it_answers(source, lambda: history.read_on(executor))
        history.check()


class History:
    """The rows that were added to a source, and the batches that a spout has read from it."""

    def __init__(self, source: ChangingSource) -> None:
        self.source = source
        self.schema = as_spout(source.spout()).schema
        self.steps: list[Step] = []
        self._rows = Rows()
        self._begun = not source.starts_at_its_end

    @contextmanager
    def open(self) -> Iterator[SpoutExecutor]:
        """Open a new spout over the source, and close it at the end.

        As each run does, it begins by repeating the success of the last batch: nothing that proves the source may be
        lost by that, since no plan has compared it yet.
        """
        with closing(as_spout(self.source.spout()).open()) as executor:
            if not self._begun:
                _plans(executor, 1)
                self._begun = True
            if self.steps:
                executor.success(self.steps[-1].txid, self.steps[-1].plan)
            yield executor

    def add(self, count: int) -> None:
        """Add rows to the source. They must be read, unless the spout begins at the end and has not begun yet."""
        rows = self.source.add(count)
        if self._begun:
            self._rows += Counter(map(repr, rows_of(table_of(rows, self.schema, "the rows of `add`"))))

    def read_on(self, executor: SpoutExecutor, most: int = MOST_BATCHES) -> int:
        """Read batches until the source is empty, but at most `most`, and return their number."""
        for number in range(most):
            step = batch(executor, len(self.steps) + 1, self.position)
            if step is None:
                return number
            self.steps.append(step)
            executor.success(step.txid, step.plan)
        return most

    @property
    def position(self) -> Metadata:
        """Return the position after the last batch."""
        return self.steps[-1].position if self.steps else None

    def check(self) -> None:
        """Fail, with the rows that differ, unless the batches contain each row once."""
        read = sum((step.rows for step in self.steps), Rows())
        lost, more = self._rows - read, read - self._rows
        assert not lost and not more, f"rows that were lost: {shown(lost)}; rows that were read twice: {shown(more)}"


class _Meddler(SpoutExecutor):
    """An executor whose source gets a new row before each of the first `CALLS_WITH_ROWS` calls."""

    def __init__(self, executor: SpoutExecutor, history: History) -> None:
        self._executor, self._history, self._left = executor, history, CALLS_WITH_ROWS

    @property
    def plans_ahead(self) -> bool:
        return self._executor.plans_ahead

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        self._meddle()
        return self._executor.plan(attempt, previous, time, budget)

    def waits_for(self) -> str | None:
        return waits_for(self._executor)

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        self._meddle()
        emission = self._executor.emit(attempt, metadata)
        self._meddle()
        return emission

    def success(self, txid: int, metadata: Metadata) -> None:
        self._meddle()
        self._executor.success(txid, metadata)

    def fail(self, attempt: TransactionAttempt) -> None:
        self._meddle()
        self._executor.fail(attempt)

    def _meddle(self) -> None:
        if self._left > 0:
            self._left -= 1
            self._history.add(1)


def _plans(executor: SpoutExecutor, most: int, steps: Sequence[Step] = ()) -> list[Metadata]:
    """Plan up to `most` batches after `steps`, one after the other if the spout plans ahead, and return the plans."""
    position, plans = steps[-1].position if steps else None, list[Metadata]()
    for txid in range(len(steps) + 1, len(steps) + 1 + (most if executor.plans_ahead else 1)):
        position = planned(executor, txid, position, patient=not plans)
        if position is None:
            break
        plans.append(position)
    return plans


def _begin(history: History, restarts: int) -> None:
    """Start runs that find no row, and add rows between them. The last run reads to the end."""
    for _ in range(restarts):
        with history.open() as executor:
            history.read_on(executor, most=1)
    for _ in range(restarts):
        history.add(3)
        with history.open() as executor:
            history.read_on(executor)


def _change(source: ChangingSource, change: Callable[[], None], history: History, grown: int) -> None:
    """Put the source back, or another source in its place, and let it grow by `grown` rows."""
    _needs(change)
    if grown:
        _until_it_answers(source, lambda: history.add(grown))


def _check_refused(source: ChangingSource, executor: SpoutExecutor, history: History) -> None:
    """Fail unless the source is refused, or each of its rows still counts once, including later rows."""
    try:
        for _ in range(2):
            _until_it_answers(source, lambda: history.read_on(executor))
            _until_it_answers(source, lambda: history.add(5))
        _until_it_answers(source, lambda: history.read_on(executor))
    except REFUSALS as error:
        assert str(error), "the error has no message"
        return
    history.check()


def _check_away(source: ChangingSource, executor: SpoutExecutor | None, history: History) -> None:
    """Fail unless planning an unavailable source is an error. With `executor` None, a new run plans it."""
    _needs(source.hide)
    try:
        with pytest.raises((TridentError, OSError)) as raised:  # noqa: PT012  a new run may fail when it opens
            if executor is None:
                with history.open() as started:
                    planned(started, len(history.steps) + 1, history.position)
            else:
                planned(executor, len(history.steps) + 1, history.position)
        assert not isinstance(raised.value, REFUSALS), (
            f"an unavailable source was taken for a different source: {raised.value}"
        )
    finally:
        source.show()


def _needs(method: Callable[[], None]) -> None:
    """Call a method of the source; skip the test if the source does not define it."""
    try:
        method()
    except NotImplementedError:
        pytest.skip(f"the source does not define what this test needs ({getattr(method, '__qualname__', method)})")


def _until_it_answers(source: ChangingSource, call: Callable[[], object]) -> None:
    """Repeat the call until it raises no error, because a restarted server needs a while."""
    until = time.monotonic() + source.patience_secs
    while True:
        try:
            call()
        except REFUSALS:
            raise
        except (TridentError, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
        else:
            return
