"""The attempts at a group's batches, from the plan to a result that is held until it is frozen.

Three kinds of threads come here, and each method belongs to one of them. No lock is needed, because no two threads
write one entry of a dict, and the event that a thread posts behind its write hands the entry over to the loop.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from trident.base.attempt import TransactionAttempt
from trident.base.crash_points import reach
from trident.base.errors import FencedError, LogError
from trident.base.types import arrow_schema
from trident.compiler.results import Result
from trident.log.frozen_results import FrozenOutput
from trident.log.history import Positions
from trident.log.protocol import BatchRecord
from trident.plan.nodes import Node
from trident.run import events as on
from trident.run.attempts import Attempts
from trident.run.context import GroupContext
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission

logger = logging.getLogger(__name__)


class HeldResult(msgspec.Struct, frozen=True):
    """What a finished attempt came to, until its batch is committed."""

    results: Mapping[str, Result]
    outputs: dict[str, FrozenOutput]
    positions: Positions
    batch: BatchRecord


class AttemptRuns:
    """Plans, runs and cancels attempts. `committed` gives the group's last committed txid; `post` reaches its loop."""

    def __init__(self, context: GroupContext, committed: Callable[[], int], post: Callable[[on.Event], None]) -> None:
        self._context = context
        self._committed = committed
        self._post = post
        self._clock, self._trace, self._name = context.clock, context.trace, context.name
        self._outline = context.group.outline.encode()
        self._records = Attempts(context.group, context.log, context.lease, context.history)
        self.held: dict[TransactionAttempt, HeldResult] = {}
        """Set by the run thread of an attempt, read and removed by the loop."""
        self._void: set[TransactionAttempt] = set()
        """The attempts that were cancelled. The loop alone adds to it, and replaces it by a smaller set; a run thread
        that still reads the former one asks again before it posts."""
        self._plan_times: dict[int, float] = {}
        """The time at which each batch was planned. Set by the plan thread before `Planned` is posted, so before any
        run thread reads it."""

    # --- in the plan thread ------------------------------------------------------------------------------------

    def plan(self, action: on.Plan) -> None:
        """Have the spouts name a batch; post Planned, NothingThere or PlanFailed."""
        attempt, began = action.attempt, self._clock.monotonic()
        try:
            reach("plan.before")
            # Read once, and frozen with the batch: values expire by this time at every replay, however late its commit
            # is (guard "expiry, the batch's own time").
            time = self._clock.time()
            try:
                plan = self._context.sources.plan(attempt, action.previous, action.kept, time)
            except Exception as error:
                self._trace.failed(self._name, attempt, "plan", error)
                self._post(on.PlanFailed(attempt, error))
                return
            reach("plan.made")
            if plan is None:
                self._post(on.NothingThere(attempt))
                return
            self._plan_times[attempt.txid] = time
            self._trace.began(self._name, attempt, began)
            self._trace.phase(self._name, attempt.txid, "plan", self._clock.monotonic() - began)
            self._post(on.Planned(attempt, plan))
        except BaseException as error:
            self._post(on.Broken(error))

    # --- in a run thread of its own ----------------------------------------------------------------------------

    def run(self, action: on.Run) -> None:
        """Emit the batch and compute stage 1; hold the result and post Ran, or post RunFailed."""
        attempt, began, context = action.attempt, self._clock.monotonic(), self._context
        if self.is_over(attempt):
            return
        try:
            self._trace.began(self._name, attempt, began)
            # The number is in the log before a spout hears it: after a crash no other tuples come under this number.
            self._records.begin(attempt)
            reach("attempt.logged")
            reach("emit.before")
            emissions = context.sources.emit(attempt, action.plan)
            reach("emit.after")
            # Before the engine sees them: a transactional source that emits other tuples than before is refused, and
            # nothing of them is computed (guard "attempts, the same tuples").
            self._records.check(attempt, action.plan, emissions)
            if self.is_over(attempt):
                return
            reach("run.before")
            inputs = {n: _no_tuples(n) if emission is None else emission for n, emission in emissions.items()}
            code, committer = context.committer.code, context.committer
            result = code.run_first(context.group.stages[0], inputs, attempt, partial(self.fail, attempt))
            results = committer.with_ttl(result.results)
            reach("run.after")
            outputs = committer.frozen(results, result.skipped, attempt, 1)
            positions = context.sources.positions_after(action.previous, action.plan, emissions)
            batch = BatchRecord(action.plan, self._plan_times[attempt.txid], self._outline)
            self.held[attempt] = HeldResult(results, outputs, positions, batch)
            # The loop may have cancelled it meanwhile, and has then looked for a result that was not yet there. Asked
            # in this order, one of the two removes the result.
            if self.is_over(attempt):
                self.held.pop(attempt, None)
                return
            self._trace.ran(self._name, attempt, result, self._clock.monotonic() - began)
            self._post(on.Ran(attempt))
        except (FencedError, LogError) as error:
            # Not a failure of the attempt: the next one would meet the log too, and use up `maxAttempts` under a wrong
            # cause.
            self._post(context.broken(error))
        except BaseException as error:
            self.fail(attempt, error)

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Stop the attempt's work. Not in the loop, because Spark may take long to answer."""
        try:
            self._context.slots.cancel(attempt)
        except Exception:
            logger.warning("attempt %s could not be cancelled", attempt, exc_info=True)

    # --- in any thread -----------------------------------------------------------------------------------------

    def fail(self, attempt: TransactionAttempt, error: BaseException) -> None:
        """Report that an attempt failed; the loop does it where the attempt overran its limit."""
        if not self.is_over(attempt):
            self._trace.failed(self._name, attempt, "run", error)
        # Posted in any case. Only the coordinator knows which attempt is the current one, and it drops the second
        # report where run thread and loop both send one.
        self._post(on.RunFailed(attempt, error))

    def is_over(self, attempt: TransactionAttempt) -> bool:
        """Return whether the attempt was cancelled, or its batch is committed."""
        # The txid too, because `forget` takes the attempts of committed batches out of the set: work that ends after
        # its batch was committed knows itself by the txid
        # (tests/run/test_group_run.py::test_a_late_attempt_leaves_nothing_behind).
        return attempt in self._void or attempt.txid <= self._committed()

    # --- in the loop -------------------------------------------------------------------------------------------

    def discard(self, attempt: TransactionAttempt) -> None:
        """Drop what the attempt came to, now or later."""
        # The reverse of the order in `run`, which holds the result and then asks.
        self._void.add(attempt)
        self.held.pop(attempt, None)

    def forget(self, txid: int) -> None:
        """Let go of everything up to batch `txid`, which is committed."""
        self._records.forget(txid)
        self._plan_times.pop(txid, None)
        self._void = {attempt for attempt in self._void if attempt.txid > txid}
        for attempt in [attempt for attempt in list(self.held) if attempt.txid <= txid]:  # run threads add meanwhile
            self.held.pop(attempt, None)


def _no_tuples(node: Node) -> Emission:
    """Return the emission of a spout that has nothing in a batch."""
    return ArrowEmission(arrow_schema(node.schema).empty_table())
