"""The calls of a batch group's user code outside its spouts: stages, queries, updaters and outputs.

Each call is watched here, and named with its file and line. For users' own stores see `WatchedStore`.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.callsite import CallSite
from trident.compiler.layout import stage_ends
from trident.compiler.program import Stage
from trident.compiler.results import Result, StageResult
from trident.outputs.outlets import HandOver
from trident.plan.nodes import Node, Sink, StateQuery, walk
from trident.plan.sites import sites_in
from trident.run.slots import Slots
from trident.user_calls.threads import Threads
from trident.user_calls.watched_calls import Subject, WatchedCalls
from trident_spouts.executor import Emission

T = TypeVar("T")

AnswerQuery = Callable[[StateQuery, pa.Table, int], pa.Table]
"""Answers a query over the tuples that enter it, from the state as of a txid."""

_COMMIT = "commit turn"
"""The lane of what a commit turn calls, one after the other."""


class UserCode:
    """Calls the user's code of one group. `stores` are the threads in which states are written, or wait for lanes."""

    def __init__(
        self, calls: WatchedCalls, slots: Slots, answer: AnswerQuery, hand_over: HandOver, stores: Threads
    ) -> None:
        self._calls, self._slots, self._answer, self._hand_over, self._stores = calls, slots, answer, hand_over, stores
        self.tries = 0
        """How often commit turns failed in such code since the last commit: the limits grow with it. The commit thread
        changes it."""

    def run_first(
        self,
        stage: Stage,
        inputs: Mapping[Node, Emission | pa.Table],
        attempt: TransactionAttempt,
        over: Callable[[BaseException], None],
    ) -> StageResult:
        """Run stage 1 of an attempt in the calling thread. `over` is called when its time is over."""
        with self._calls.watch(Subject(f"attempt {attempt}", _sites_of(stage)), attempt.attempt, over):
            return self._slots.run(stage, inputs, attempt)

    def run_stage(self, stage: Stage, inputs: Mapping[Node, pa.Table], txid: int, epoch: int) -> StageResult:
        """Run a later stage in the commit turn."""
        attempt = TransactionAttempt(txid, self.tries, epoch)
        subject = Subject(f"attempt {attempt} of stage {stage.number}", _sites_of(stage))
        work = partial(self._slots.run, stage, inputs, attempt)
        overrun = partial(self._slots.cancel, attempt, stage.number)
        return self._calls.submit(_COMMIT, subject, work, self.tries, overrun).result()

    def answer(self, step: StateQuery, table: pa.Table, as_of: int) -> pa.Table:
        """Answer a query; see `AnswerQuery`."""
        return self.call(step, as_of, partial(self._answer, step, table, as_of))

    def hand_over(self, sink: Sink, result: Result, txid: int) -> None:
        """Hand a batch over to an output."""
        self.call(sink, txid, partial(self._hand_over, sink, result, txid), getattr(self._hand_over, "cancel", None))

    def write(self, work: Callable[[], T]) -> "Future[T]":
        """Write a state beside others. A store of the user's own is called in its lane: see `WatchedStore`."""
        return self._stores.submit(work)

    def call(self, step: Node, txid: int, work: Callable[[], T], overrun: Callable[[], None] | None = None) -> T:
        """Call a step's code in the commit turn and wait for it; `overrun` as for `WatchedCalls.submit`."""
        subject = Subject(f"{step.step}, batch {txid}", sites_in([step]))
        return self._calls.submit(_COMMIT, subject, work, self.tries, overrun).result()


def _sites_of(stage: Stage) -> tuple[CallSite, ...]:
    return sites_in(walk(*stage_ends(stage), starts=set(map(id, stage.inputs))))
