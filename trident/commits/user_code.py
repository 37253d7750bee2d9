"""The calls of a batch group's user code outside its spouts: stages, queries, updaters and outputs.

Each call gets a time limit here, and its file and line for messages. For calls of a user's store see `WatchedStore`.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.callsite import CallSite
from trident.commits.query_answers import Answers
from trident.compiler.program import Stage
from trident.compiler.stage_layout import stage_ends
from trident.frozen.results import Result, StageResult
from trident.outputs.outlets import HandOver
from trident.plan.function_sites import sites_in
from trident.plan.nodes import CommittedQuery, Node, Sink, StateReader, TableChanges, walk
from trident.user_calls.daemon_threads import Threads
from trident.user_calls.watched_calls import Subject, WatchedCalls
from trident_spouts.executor import Emission

T = TypeVar("T")

AnswerCommitted = Callable[[CommittedQuery, pa.Table], pa.Table]
"""A function that answers a query of a state as of the last batch that all states of its group have committed."""

COMMIT_LANE = "commit turn"
"""The name of the thread in which commit turns call user code, one call after the other."""


class Stages(Protocol):
    """The methods of a group's slots that a commit turn needs."""

    def run(self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], attempt: TransactionAttempt) -> StageResult:
        """Run a stage of an attempt."""
        ...

    def cancel(self, attempt: TransactionAttempt, stage: int) -> None:
        """Stop this stage of the attempt if it runs."""
        ...


class UserCode:
    """Calls the user code of one group.

    `stores` are the threads that write to states. For a user's store they wait until the store's thread is free.
    """

    def __init__(
        self,
        calls: WatchedCalls,
        slots: Stages,
        answers: Answers,
        answer_committed: AnswerCommitted,
        hand_over: HandOver,
        stores: Threads,
    ) -> None:
        self._calls, self._slots, self._hand_over, self._stores = calls, slots, hand_over, stores
        self._answers, self._answer_committed = answers, answer_committed
        self.tries = 0
        """The number of commit turns since the last commit that failed in user code or in Spark. Limits grow with it.
        Only the commit thread changes it."""
        self._failing_since: float | None = None

    def count_try(self, now: float) -> float:
        """Count a commit turn that failed in user code or in Spark. Return the seconds since the first such turn."""
        self.tries += 1
        self._failing_since = now if self._failing_since is None else self._failing_since
        return now - self._failing_since

    def settle(self) -> None:
        """Forget the failed turns, because one has succeeded."""
        self.tries, self._failing_since = 0, None

    def run_first(
        self,
        stage: Stage,
        inputs: Mapping[Node, Emission | pa.Table],
        attempt: TransactionAttempt,
        over: Callable[[BaseException], None],
    ) -> StageResult:
        """Run stage 1 of an attempt in the calling thread.

        If the attempt overruns its limit, `over` is called with the error.
        """
        with self._calls.watch(Subject(f"attempt {attempt}", _sites_of(stage)), attempt.attempt, over):
            return self._slots.run(stage, inputs, attempt)

    def run_stage(self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], txid: int, epoch: int) -> StageResult:
        """Run a later stage in the commit turn."""
        attempt = TransactionAttempt(txid, self.tries, epoch)
        subject = Subject(f"attempt {attempt} of stage {stage.number}", _sites_of(stage))
        work = partial(self._slots.run, stage, inputs, attempt)
        overrun = partial(self._slots.cancel, attempt, stage.number)
        return self._calls.submit(COMMIT_LANE, subject, work, self.tries, overrun).result()

    def answer(self, step: StateReader, table: pa.Table, as_of: int) -> pa.Table:
        """Answer a query of a state as of a txid; see `Answers`."""
        return self.call(step, as_of, partial(self._answers.query, step, table, as_of))

    def changes(
        self, step: TableChanges, values: Sequence[pa.Table], after: Mapping[str, int], before: Mapping[str, int]
    ) -> pa.Table:
        """Compute the changes of a table; see `Answers`."""
        work = partial(self._answers.changes, step, values, after, before)
        return self.call(step, after[step.table.state.name], work)

    def answer_committed(self, step: CommittedQuery, table: pa.Table, txid: int) -> pa.Table:
        """Answer a query of another group's committed values; see `AnswerCommitted`."""
        return self.call(step, txid, partial(self._answer_committed, step, table))

    def hand_over(self, sink: Sink, result: Result, txid: int) -> None:
        """Hand a batch over to an output."""
        self.call(sink, txid, partial(self._hand_over, sink, result, txid), getattr(self._hand_over, "cancel", None))

    def write(self, work: Callable[[], T]) -> "Future[T]":
        """Write a state in a thread of `stores`, at the same time as other states.

        For a user's store, it waits until the store's thread is free.
        """
        return self._stores.submit(work)

    def call(self, step: Node, txid: int, work: Callable[[], T], overrun: Callable[[], None] | None = None) -> T:
        """Call a step's code in the commit turn, and return its result.

        `overrun` is the same as in `WatchedCalls.submit`.
        """
        subject = Subject(f"{step.step}, batch {txid}", sites_in([step]))
        return self._calls.submit(COMMIT_LANE, subject, work, self.tries, overrun).result()


def _sites_of(stage: Stage) -> tuple[CallSite, ...]:
    return sites_in(walk(*stage_ends(stage), starts=set(map(id, stage.inputs))))
