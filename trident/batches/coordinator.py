"""The path of a group's batches from plan to commit, as a pure state machine: events in, actions out.

It has no thread, no clock and no I/O. The runtime drives it with threads, Spark and a real log; a simulator drives the
same code with a seeded scheduler. Its guarantees, whatever the order of events:

- txids are planned in order and without gaps; a plan is made from the end of the batch before it;
- at most `pending` batches are in flight (planned, not yet committed);
- batches freeze in txid order and commit in txid order, one at a time;
- a message of an attempt that is not its batch's current one changes nothing;
- while the group is inactive no new txid is planned, and batches in flight are finished;
- before FROZEN a failure makes a new attempt; after it only the commit is repeated.

Meaning: ``org.apache.storm.trident.topology.MasterBatchCoordinator``, with the freeze added. Unlike there, a batch
never starts out of order, and a stale failure message has no effect.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from trident.base.attempt import TransactionAttempt
from trident.base.errors import BatchFailedError, TridentError
from trident.batches import coordinator_events as on
from trident.batches.coordinator_events import Action, Event
from trident.batches.coordinator_settings import CoordinatorSettings
from trident.batches.retries import Failures, deadly, longer
from trident.commits.commit_errors import TRANSIENT
from trident.log.group_records import BatchPlan, History, Positions, positions_after
from trident_spouts.wait_strategy import wait_of


class Status(enum.Enum):
    """The steps of a batch, from its plan to its commit."""

    PLANNING = "planning"
    RUNNING = "running"
    RAN = "ran"
    FREEZING = "freezing"
    FROZEN = "frozen"
    COMMITTING = "committing"


@dataclass(slots=True)
class Batch:
    """A batch in flight. `previous` and `after` are the positions of the spouts before and after the batch."""

    attempt: TransactionAttempt
    status: Status
    previous: Positions
    plan: BatchPlan | None = None
    after: Positions | None = None


class Reached(NamedTuple):
    """The last frozen txid of a group, and the positions of the spouts after that batch."""

    txid: int
    positions: Positions


class Coordinator:
    """One batch group's state machine.

    Call `start` once, then `handle` for each event, and carry out the actions that they return.
    """

    def __init__(self, rules: CoordinatorSettings, epoch: int, history: History) -> None:
        self._rules = rules
        self._epoch = epoch
        self.committed = history.committed
        self.reached = Reached(history.last_frozen, history.positions)
        """Any thread may read it: it is replaced as a whole."""
        self._history = history
        self._batches: dict[int, Batch] = {}
        self._attempts = {txid: last.number for txid, last in history.attempts.items()}
        self._failures: dict[int, Failures] = {}
        self._actions: list[Action] = []
        self._succeeding = False
        self._planning = False
        self._streak = 0
        """The number of times in a row that no batch could be planned."""
        self.waits_for: str | None = None
        """The reason why the last plan had nothing; None if the sources are empty. Any thread may read it."""
        self.failing: str | None = None
        """The failures of the batch that failed last, while it is retried; None otherwise. Any thread may read it."""
        self._sleeping = False
        self._at_limit = False
        """True if the group plans nothing for now because `pending` batches are in flight."""
        self._rows_came = False
        """True if a source reported rows while it was being asked. Then its answer may be older than the rows."""
        self._commit_tries = 0
        self._commit_waited = 0.0
        self._active = rules.active
        self._told_quiet = False
        self._draining = False
        self._stopping = False
        self._reason: BaseException | None = None
        self.finished = False

    # --- in and out ------------------------------------------------------------------------------------------

    def start(self) -> list[Action]:
        """Continue at the end of an earlier run: repeat the last `success`, and commit the frozen batches.

        Batches of which nothing was frozen are planned again, since neither a state nor an output has seen them.
        """
        for txid in self._history.frozen:
            # A frozen batch needs no attempt number and no positions: it is only committed, and the batch after the
            # last frozen one starts from `positions`.
            attempt = TransactionAttempt(txid, 0, self._epoch)
            self._batches[txid] = Batch(attempt, Status.FROZEN, {})
        if self.committed:  # the earlier run may not have reported its last commit to the spouts
            self._succeeding = True
            self._do(on.Succeed(self.committed))
        return self._settle()

    def handle(self, event: Event) -> list[Action]:
        """Handle an event, and return the actions that follow from it."""
        if self.finished:  # the event comes from a thread that ended late
            return []
        self._HANDLERS[type(event)](self, event)
        return self._settle()

    @property
    def frozen(self) -> int:
        """The last frozen txid."""
        return self.reached.txid

    @property
    def positions(self) -> Positions:
        """The positions of the spouts after the last frozen batch."""
        return self.reached.positions

    @property
    def in_flight(self) -> dict[int, tuple[TransactionAttempt, Status]]:
        """The batches in flight, with their attempts. Any thread may read this: the dict is copied first."""
        return {txid: (batch.attempt, batch.status) for txid, batch in self._batches.copy().items()}

    @property
    def quiet(self) -> bool:
        """Return whether the group is inactive and nothing is in flight. Any thread may call this."""
        return not (self._active or self._batches or self._succeeding or self._planning)

    # --- events ------------------------------------------------------------------------------------------------

    def _planned(self, event: on.Planned) -> None:
        # Set before the attempt is checked: the plan of a discarded batch also ends the planning. Otherwise no further
        # batch would be planned.
        self._planning = False
        batch = self._current(event.attempt, Status.PLANNING)
        if batch is None:
            return
        self._streak = 0
        self._rows_came = False
        self.waits_for = None
        # Only an opaque spout gives another plan at another attempt. The batches after this one start where the former
        # plan would have ended (guard "void plans").
        if batch.plan is not None and batch.plan != event.plan:
            self._discard_after(event.attempt.txid)
        # The batch's end position until it freezes: if spouts plan ahead, the next batch is planned from it meanwhile.
        batch.plan = event.plan
        batch.after = positions_after(batch.previous, event.plan)
        self._run(batch)

    def _nothing_there(self, event: on.NothingThere) -> None:
        self._planning = False
        batch = self._current(event.attempt, Status.PLANNING)
        if batch is None:
            return
        # An opaque spout may have nothing at another attempt. The batches after this one were planned from the end of
        # its earlier plan.
        self._discard_after(event.attempt.txid)
        del self._batches[event.attempt.txid]
        if batch.plan is None:  # nothing was emitted: all plans of an idle source count as one attempt
            self._attempts[event.attempt.txid] -= 1
            self._forget_failures(event.attempt.txid)
        self.waits_for = event.waits_for
        if self._rows_came:  # plan again at once, without a rest or a sleep
            self._rows_came = False
            return
        # The group rests only if its sources are empty, and not if a source is at its limit, has not answered yet
        # (both: `waits_for`) or is out of reach (PlanFailed). Until a source has got the last `success`, it may give
        # nothing because of its limit, without saying so (guard "rest, an empty source").
        if not self._batches and event.waits_for is None and not self._succeeding:
            self._do(on.Rest())
            if self._draining:
                self._stop(None)
                return
        self._wait(event.due)

    def _plan_failed(self, event: on.PlanFailed) -> None:
        self._planning = False
        batch = self._current(event.attempt, Status.PLANNING)
        if batch is not None:
            self._again(batch, event.error)

    def _ran(self, event: on.Ran) -> None:
        batch = self._current(event.attempt, Status.RUNNING)
        if batch is not None:
            batch.status = Status.RAN

    def _run_failed(self, event: on.RunFailed) -> None:
        batch = self._current(event.attempt, Status.RUNNING)
        if batch is not None:
            # Cancel first: an attempt that overran its limit still works, and must be void before the next one begins.
            self._do(on.Cancel(event.attempt))
            self._do(on.Fail(event.attempt, event.error))
            self._again(batch, event.error)

    def _froze(self, event: on.Frozen) -> None:
        batch = self._current(event.attempt, Status.FREEZING)
        if batch is not None:
            batch.status = Status.FROZEN
            batch.after = event.positions  # the emission decides the positions, no longer the plan
            self.reached = Reached(event.attempt.txid, event.positions)

    def _committed(self, event: on.Committed) -> None:
        self._batches.pop(event.txid, None)
        if self._at_limit:  # fewer than `pending` batches are in flight again
            self._sleeping = self._at_limit = False
        self._attempts.pop(event.txid, None)
        self._forget_failures(event.txid)
        self.committed = event.txid
        self._commit_tries, self._commit_waited = 0, 0.0
        self._succeeding = True
        self._do(on.Succeed(event.txid))

    def _commit_failed(self, event: on.CommitFailed) -> None:
        self._batches[event.txid].status = Status.FROZEN
        limit = self._rules.commitRetry
        if self._stopping:  # the next start commits the batch
            self._finish()
            return
        # Tries that fail in user code or in Spark have a separate limit: after the last one `transient` is false.
        ended = isinstance(event.error, TRANSIENT) and limit is not None and self._commit_waited >= limit
        if not event.transient or ended:
            # Finish at once: `_finishing` would wait for the frozen batches after this one, and none of them may be
            # committed before it.
            self._stop(event.error)
            self._finish()
            return
        delay = min(1.0, 0.01 * 2 ** min(self._commit_tries, 12))  # min: a higher power would overflow a float
        self._commit_tries += 1
        # A sum of waits, because the coordinator has no clock: the tries themselves do not count towards `commitRetry`.
        self._commit_waited += delay
        self._commit(event.txid, delay)

    def _succeeded(self, event: on.Succeeded) -> None:
        self._succeeding = False
        # A source may give more tuples after `success`. And if nothing is in flight, the next plan shows whether the
        # group rests. Threads that wait for a rest must not wait for the end of a sleep: under a test clock that stands
        # still, it never comes.
        if self._draining or not self._batches:
            self._sleeping = False

    def _woken(self, event: on.Woken) -> None:
        self._sleeping = self._at_limit = False
        # A thread that waits for a rest needs a plan that begins now; the one in progress does not count.
        self._rows_came = self._planning

    def _source_has_rows(self, event: on.RowsCame) -> None:
        self._sleeping = False
        self._streak = 0
        self._rows_came = self._planning

    def _drain(self, event: on.DrainAsked) -> None:
        self._draining = True
        self._sleeping = False

    def _deactivate(self, event: on.DeactivateAsked) -> None:
        if self._active:
            self._active = False
            self._do(on.Switch(False))

    def _activate(self, event: on.ActivateAsked) -> None:
        if not self._active:
            self._active, self._told_quiet = True, False
            self._sleeping, self._idle = False, 0
            self._do(on.Switch(True))

    def _stop_asked(self, event: on.StopAsked) -> None:
        self._stop(None)
        if self._commit_tries:  # the store does not answer: a stop does not wait for it
            self._finish()

    def _given_up(self, event: on.GivenUp) -> None:
        self._finish()

    def _broken(self, event: on.Broken) -> None:
        self._stop(event.error)
        self._finish()

    # --- consequences ----------------------------------------------------------------------------------------

    def _settle(self) -> list[Action]:
        """Freeze, commit and plan all that is possible now. Return the actions requested since the last call."""
        if not self.finished:
            self._freeze_next()
            self._commit_next()
            self._plan_next()
            if self.quiet and not self._told_quiet:
                self._told_quiet = True
                self._do(on.Quiet())
            if self._stopping and not self._finishing():
                self._finish()
        actions, self._actions = self._actions, []
        return actions

    def _freeze_next(self) -> None:
        # This txid and no other: a later batch that has run was planned from the end of a batch that is not frozen
        # (guard "freeze order (coordinator)"). Once the batch is FREEZING, no failure and no new plan makes it void.
        batch = self._batches.get(self.frozen + 1)
        if batch is not None and batch.status is Status.RAN and not self._stopping:
            batch.status = Status.FREEZING
            self._do(on.Freeze(batch.attempt))

    def _commit_next(self) -> None:
        # In txid order: a store refuses a gap, and an updater reads what the batch before has written (guard "commit
        # order").
        txid = self.committed + 1
        batch = self._batches.get(txid)
        # One at a time: each commit is reported to the spouts, in order, before the next one begins.
        if batch is not None and batch.status is Status.FROZEN and not self._succeeding:
            self._commit(txid, 0.0)

    def _commit(self, txid: int, delay: float) -> None:
        self._batches[txid].status = Status.COMMITTING
        self._do(on.Commit(txid, delay))

    def _plan_next(self) -> None:
        """Request one plan: for the earliest batch that waits for a plan, or else for a new batch if there is room."""
        # One plan at a time, since each begins where the plan before it ends.
        if self._planning or self._stopping:
            return
        for txid in sorted(self._batches):
            batch = self._batches[txid]
            if batch.status is Status.PLANNING:
                # Without `plans_ahead`, a spout knows where a batch starts only when the batch before it is frozen.
                if not self._rules.plans_ahead and txid > self.frozen + 1:
                    return
                self._plan(batch)
                return
        # Only a new txid may have to wait: a batch in flight that needs another plan got it above.
        if self._active and not self._sleeping and not self._at_pending_limit():
            self._plan_new()

    def _at_pending_limit(self) -> bool:
        """Return whether the limit of batches in flight is reached.

        If so, a wait strategy decides when to check again.
        """
        reached = len(self._batches) >= self._rules.pending
        if reached and self._rules.wait is not None:
            self._at_limit = True
            self._wait()
        return reached

    def _plan_new(self) -> None:
        txid = max(self._batches, default=self.committed) + 1
        previous = self._position_before(txid)
        if previous is None:
            return
        deaths = self._deaths(txid)
        running = [other for other in self._batches if other > self.frozen]
        if running and (deaths or any(map(self._deaths, running))):
            return  # a batch during which drivers died runs alone, to show which batch ends the process
        most = self._rules.retries.most
        if most is not None and deaths >= most:
            self._stop(deadly(txid, deaths))
        else:
            self._batches[txid] = Batch(self._next_attempt(txid), Status.PLANNING, previous)
            self._plan(self._batches[txid])

    def _deaths(self, txid: int) -> int:
        """Return how many drivers in a row died while the batch was under way."""
        last = self._history.attempts.get(txid)
        return 0 if last is None else last.deaths

    def _position_before(self, txid: int) -> Positions | None:
        """Return the positions at which batch `txid` starts; None if they are not known yet."""
        if txid == self.frozen + 1:
            return self.positions
        return self._batches[txid - 1].after if self._rules.plans_ahead else None

    def _plan(self, batch: Batch) -> None:
        if batch.plan is not None and not self._rules.replans:  # a replay has the same tuples, so the same plan
            batch.after = positions_after(batch.previous, batch.plan)
            self._run(batch)
            self._plan_next()
            return
        self._planning = True
        self._do(on.Plan(batch.attempt, batch.previous, batch.plan, self._delay(batch)))

    def _run(self, batch: Batch) -> None:
        assert batch.plan is not None
        batch.status = Status.RUNNING
        # If spouts plan again, the delay already preceded the plan.
        self._do(on.Run(batch.attempt, batch.plan, batch.previous, 0.0 if self._rules.replans else self._delay(batch)))

    def _delay(self, batch: Batch) -> float:
        """Return the seconds to wait before an attempt: none before the first replay, more before each later one."""
        failures = self._failures.get(batch.attempt.txid)
        return 0.0 if failures is None else failures.pause

    def _again(self, batch: Batch, error: BaseException) -> None:
        """Request another attempt at a batch that failed before it was frozen, or stop the group."""
        if self._stopping:  # the attempt was cancelled, or its spout closed
            return
        txid = batch.attempt.txid
        failures = self._failures.setdefault(txid, Failures())
        hopeless = isinstance(error, TridentError) and error.hopeless
        if not failures.count(error, self._rules.retries) or hopeless:
            often = "and would fail again" if hopeless else f"{failures.number} times, the last time with"
            failed = BatchFailedError(f"batch {txid} failed {often}: {error}{longer(error)}")
            failed.__cause__ = error
            self._stop(failed)
            return
        often = "once" if failures.number == 1 else f"{failures.number} times, the last time"
        self.failing = f"batch {txid}, which failed {often} with: {error}"
        batch.attempt = self._next_attempt(txid)
        batch.status = Status.PLANNING

    def _forget_failures(self, txid: int) -> None:
        """Forget the failures of a batch that is frozen, or that is not there."""
        if self._failures.pop(txid, None) is not None:
            self.failing = None

    def _discard_after(self, txid: int) -> None:
        """Drop the batches after `txid`, because its plan changed. They start at the position after its former plan."""
        # Their attempt numbers stay in `_attempts`: the next plan of such a txid gets a new number, and a late message
        # of the former attempt cannot be mistaken for one of the new attempt (guard "living attempt").
        for later in sorted(t for t in self._batches if t > txid):
            batch = self._batches.pop(later)
            # Batches freeze in order, and `txid` itself is not frozen.
            assert batch.status not in (Status.FREEZING, Status.FROZEN, Status.COMMITTING)
            self._do(on.Cancel(batch.attempt))

    def _wait(self, most: float | None = None) -> None:
        """Request a sleep, of at most `most` seconds if a state is due then."""
        self._sleeping = True
        self._streak += 1
        if self._rules.wait is None:
            seconds = min(self._rules.idleMost, self._rules.idleFirst * 2 ** min(self._streak - 1, 16))
        else:
            seconds = wait_of(self._rules.wait, self._streak)
        self._do(on.Sleep(seconds if most is None else min(seconds, most)))

    def _stop(self, error: BaseException | None) -> None:
        """Begin nothing new, and cancel attempts that are not frozen.

        Batches that are frozen or being frozen are finished.
        """
        # The first error is the cause; errors after it mostly follow from it.
        if self._reason is None:
            self._reason = error
        if self._stopping:
            return
        self._stopping = True
        # A batch that is being planned is cancelled, too: its plan may still come back, and then only the cancelled
        # attempt keeps the batch from running. None of these batches is lost: the next start plans them again.
        for batch in self._batches.values():
            if batch.status in (Status.RUNNING, Status.RAN, Status.PLANNING):
                self._do(on.Cancel(batch.attempt))

    def _finishing(self) -> bool:
        """Return whether a batch is frozen or being frozen, or a commit has not been reported to the spouts yet."""
        finishing = (Status.FREEZING, Status.FROZEN, Status.COMMITTING)
        return self._succeeding or any(batch.status in finishing for batch in self._batches.values())

    def _finish(self) -> None:
        if not self.finished:
            self.finished = True
            self._do(on.Finish(self._reason))

    # --- attempts and actions ----------------------------------------------------------------------------------------

    def _do(self, action: Action) -> None:
        self._actions.append(action)

    def _next_attempt(self, txid: int) -> TransactionAttempt:
        self._attempts[txid] = self._attempts.get(txid, -1) + 1
        return TransactionAttempt(txid, self._attempts[txid], self._epoch)

    def _current(self, attempt: TransactionAttempt, status: Status) -> Batch | None:
        """Return the batch if `attempt` is its current one and it has this status; None for a late message."""
        batch = self._batches.get(attempt.txid)
        return batch if batch is not None and batch.attempt == attempt and batch.status is status else None

    _HANDLERS: ClassVar[dict[type, Callable[["Coordinator", Any], None]]] = {
        on.Planned: _planned,
        on.NothingThere: _nothing_there,
        on.PlanFailed: _plan_failed,
        on.Ran: _ran,
        on.RunFailed: _run_failed,
        on.Frozen: _froze,
        on.Committed: _committed,
        on.CommitFailed: _commit_failed,
        on.Succeeded: _succeeded,
        on.Woken: _woken,
        on.RowsCame: _source_has_rows,
        on.DrainAsked: _drain,
        on.DeactivateAsked: _deactivate,
        on.ActivateAsked: _activate,
        on.StopAsked: _stop_asked,
        on.GivenUp: _given_up,
        on.Broken: _broken,
    }
