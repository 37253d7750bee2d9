"""The attempts at a group's batches, from the plan to a result that is held until it is frozen.

Three kinds of threads call this module; the headings say which thread calls which methods. No lock is needed: no two
threads write the same entry of a dict, and a thread posts its event only after its write, so the loop reads a complete
entry.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from trident.base.attempt import TransactionAttempt
from trident.base.crash_points import reach
from trident.base.errors import FencedError, LogError, StateError
from trident.base.spark_types import arrow_schema
from trident.batches import coordinator_events as on
from trident.batches.attempts import Attempts
from trident.batches.run_context import GroupContext
from trident.frozen.results import Result
from trident.log.frozen_results import FrozenOutput
from trident.log.group_records import Positions
from trident.log.protocol import BatchRecord
from trident.plan.nodes import Node
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission


class HeldResult(msgspec.Struct, frozen=True):
    """The results of an attempt that has run. They are held until its batch is committed."""

    results: Mapping[str, Result]
    outputs: dict[str, FrozenOutput]
    positions: Positions
    batch: BatchRecord


class AttemptRuns:
    """Plans, runs and cancels attempts.

    `committed` returns the group's last committed txid; `post` sends an event to the group's loop.
    """

    def __init__(self, context: GroupContext, committed: Callable[[], int], post: Callable[[on.Event], None]) -> None:
        self._context = context
        self._committed = committed
        self._post = post
        self._clock, self._trace, self._name = context.clock, context.trace, context.name
        self._logger = context.logger(__name__)
        self._outline = context.group.outline.encode()
        self._records = Attempts(context.group, context.log, context.lease, context.history)
        self.held: dict[TransactionAttempt, HeldResult] = {}
        """The results of each attempt that has run. The attempt's run thread sets the entry; the loop reads and
        removes it."""
        self._void: set[TransactionAttempt] = set()
        """The cancelled attempts. Only the loop adds to the set, or replaces it by a smaller one. A run thread that
        read the former set checks again before it posts."""
        self._plan_times: dict[int, float] = {}
        """The time at which each batch was planned, by txid. The plan thread sets the entry before it posts `Planned`,
        and so before any run thread reads it."""

    # --- in the plan thread ------------------------------------------------------------------------------------

    def plan(self, action: on.Plan) -> None:
        """Have the spouts plan a batch, and post Planned, NothingThere or PlanFailed."""
        attempt, began = action.attempt, self._clock.monotonic()
        try:
            reach("plan.before")
            # The time is read once, and frozen with the batch: values expire by this time at every replay, however late
            # the replay commits (guard "expiry, the batch's own time").
            time = self._clock.time()
            try:
                plan = self._context.sources.plan(attempt, action.previous, action.kept, time)
            except Exception as error:
                self._trace.failed(self._name, attempt, "plan", error)
                self._post(on.PlanFailed(attempt, error))
                return
            reach("plan.made")
            if plan is None:
                waits_for, due = self._until_due(attempt.txid, time)
                if due is None or due > 0:
                    self._post(on.NothingThere(attempt, waits_for, due))
                    return
                plan = self._context.sources.no_tuples
            self._plan_times[attempt.txid] = time
            self._trace.began(self._name, attempt, began)
            self._trace.phase(self._name, attempt.txid, "plan", self._clock.monotonic() - began)
            self._post(on.Planned(attempt, plan))
        except BaseException as error:
            self._post(on.Broken(error))

    def _until_due(self, txid: int, time: float) -> tuple[str | None, float | None]:
        """Return the seconds until a state needs batch `txid` even without tuples; None if no state needs it.

        Also return the reason why the group must not rest, if there is one.
        """
        waits_for = self._context.sources.waits_for
        # The due times are known only then: those of batch n follow from the states as of batch n - 1. The plan is made
        # again after that commit.
        if self._committed() != txid - 1:
            return waits_for, None
        # Rounded like the time of an update, so that a batch that is planned because of a due time also finds the due
        # keys.
        now = round(time * 1_000_000)
        try:
            due = self._context.committer.dues.first(txid - 1, now)
        except StateError as error:  # the store does not answer, or must be healed: a later plan asks again
            return f"due times: {error}", None
        return waits_for, None if due == math.inf else max(0.0, (due - now) / 1_000_000)

    # --- in a run thread of its own ----------------------------------------------------------------------------

    def run(self, action: on.Run) -> None:
        """Emit the batch and compute stage 1. Hold the results and post Ran, or post RunFailed."""
        attempt, began, context = action.attempt, self._clock.monotonic(), self._context
        if self.is_over(attempt):
            return
        try:
            self._trace.began(self._name, attempt, began)
            # The log has the attempt's number before a spout gets it. So after a crash no other tuples are emitted
            # under the same number.
            self._records.begin(attempt)
            reach("attempt.logged")
            reach("emit.before")
            emissions = context.sources.emit(attempt, action.plan)
            reach("emit.after")
            # Checked before the engine gets the tuples: if a transactional spout emitted other tuples than before,
            # nothing of them is computed (guard "attempts, the same tuples").
            self._records.check(attempt, action.plan, emissions)
            if self.is_over(attempt):
                return
            reach("run.before")
            inputs = {
                n: _no_tuples(n) if given is None else self._records.witnessed(attempt, action.plan, n, given)
                for n, given in emissions.items()
            }
            code, committer = context.committer.code, context.committer
            result = code.run_first(context.group.stages[0], inputs, attempt, partial(self.fail, attempt))
            results = committer.with_ttl(result.results)
            reach("run.after")
            outputs = committer.frozen(results, result.skipped, attempt, 1)
            positions = context.sources.positions_after(action.previous, action.plan, emissions)
            batch = BatchRecord(action.plan, self._plan_times[attempt.txid], self._outline)
            self.held[attempt] = HeldResult(results, outputs, positions, batch)
            # The loop may have cancelled the attempt meanwhile, at a time when there was no result to remove yet.
            # `discard` first marks the attempt as void, then removes the result. This method first stores the result,
            # then checks the mark. So one of the two always removes the result.
            if self.is_over(attempt):
                self.held.pop(attempt, None)
                return
            context.sources.ran(attempt.txid, emissions, result.rows, began)
            self._trace.ran(self._name, attempt, result, self._clock.monotonic() - began)
            times = context.sources.times(emissions)
            self._trace.read(self._name, attempt, context.sources.read_so_far(positions), times)
            self._post(on.Ran(attempt))
        except (FencedError, LogError) as error:
            # Not a failure of the attempt: the next attempt would get the same error from the log, and `maxAttempts`
            # would be used up for a wrong cause.
            self._post(context.broken(error))
        except BaseException as error:
            self.fail(attempt, error)

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Stop the attempt's work. The loop leaves this to another thread, because Spark may take long to answer."""
        try:
            self._context.slots.cancel(attempt)
        except Exception:
            fields = {"txid": attempt.txid, "attempt": attempt.attempt}
            self._logger.warning("attempt %s could not be cancelled", attempt, exc_info=True, extra=fields)

    # --- in any thread -----------------------------------------------------------------------------------------

    def fail(self, attempt: TransactionAttempt, error: BaseException) -> None:
        """Report that an attempt failed. The loop calls this only for an attempt that overran its limit."""
        if not self.is_over(attempt):
            self._trace.failed(self._name, attempt, "run", error)
        # Posted in any case: only the coordinator knows which attempt is the current one. If the run thread and the
        # loop both report a failure, it drops the second report.
        self._post(on.RunFailed(attempt, error))

    def is_over(self, attempt: TransactionAttempt) -> bool:
        """Return whether the attempt was cancelled, or its batch is committed."""
        # The txid is compared too, because `forget` removes the attempts of committed batches from the set: work that
        # ends after its batch was committed is recognised by its txid
        # (tests/batches/test_group_run.py::test_a_late_attempt_leaves_nothing_behind).
        return attempt in self._void or attempt.txid <= self._committed()

    # --- in the loop -------------------------------------------------------------------------------------------

    def discard(self, attempt: TransactionAttempt) -> None:
        """Discard an attempt, and its result, even if the result arrives later."""
        # Mark first, then remove: `run` first stores the result, then checks the mark.
        self._void.add(attempt)
        self.held.pop(attempt, None)

    def forget(self, txid: int) -> None:
        """Forget all attempts at batches up to `txid`, the last committed batch."""
        self._records.forget(txid)
        self._plan_times.pop(txid, None)
        self._void = {attempt for attempt in self._void if attempt.txid > txid}
        for attempt in [attempt for attempt in list(self.held) if attempt.txid <= txid]:  # run threads add meanwhile
            self.held.pop(attempt, None)


def _no_tuples(node: Node) -> Emission:
    """Return the empty emission for a spout that has nothing in this batch."""
    return ArrowEmission(arrow_schema(node.schema).empty_table())
