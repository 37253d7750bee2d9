"""One batch group at work: the coordinator's actions carried out by threads.

The loop thread owns the coordinator, writes FROZEN and checks the limits of calls; one thread plans, one commits, and
as many as there are attempts run them. Spouts, and the user's code of a commit turn, have threads of their own, which
these wait for (`WatchedCalls`).
"""

import logging
import queue
import sched
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from trident.base.attempt import Lease, TransactionAttempt
from trident.base.crash_points import reach
from trident.base.errors import AttemptCancelledError, CallHangsError, FencedError, LogError, TridentError
from trident.base.types import arrow_schema
from trident.compiler.engine import Result
from trident.compiler.program import Group
from trident.log.frozen_results import FrozenOutput
from trident.log.history import BatchPlan, History, Positions
from trident.log.protocol import BatchRecord, TransactionLog
from trident.plan.nodes import Node
from trident.reads.commit_gate import CommitGate
from trident.recovery.settings import Settings
from trident.recovery.takeover import explained
from trident.run import events as on
from trident.run.attempts import Attempts
from trident.run.batch_trace import Trace
from trident.run.commit_errors import PASSING, REPEATED
from trident.run.committer import Committer, Turn
from trident.run.coordinator import Coordinator, Rules
from trident.run.log_retention import Trimming
from trident.run.rests import Rests
from trident.run.slots import Slots
from trident.run.sources import Sources
from trident.user_calls.threads import MakeThreads, Threads
from trident.user_calls.watched_calls import PATIENCE, WORTH_TELLING
from trident.user_calls.watched_store import STATE_LANE
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission

logger = logging.getLogger(__name__)

_LAST_PATIENCE = 2.0
"""Seconds that an end waits at least for what it has just cancelled."""


class _Held(msgspec.Struct, frozen=True):
    """A computed attempt, until it is frozen and committed."""

    results: Mapping[str, Result]
    outputs: dict[str, FrozenOutput]
    positions: Positions
    batch: BatchRecord


class GroupRun:
    """Runs one group's batches until it is stopped, drained, or broken."""

    def __init__(
        self,
        group: Group,
        settings: Settings,
        lease: Lease,
        log: TransactionLog,
        sources: Sources,
        slots: Slots,
        committer: Committer,
        history: History,
        trace: Trace,
        ended: Callable[["GroupRun"], None],
        threads: MakeThreads = Threads,
    ) -> None:
        self.group = group
        self._settings = settings
        self._lease = lease
        self._log = log
        self._sources = sources
        self._calls = sources.calls
        self._slots = slots
        self._committer = committer
        self._code = committer.code
        self._trace = trace
        self._ended = ended
        self._clock = settings.clock
        rules = Rules(
            pending=settings.maxSpoutPending,
            maxAttempts=settings.maxAttempts,
            ahead=sources.ahead,
            replans=sources.replans,
            commitRetry=settings.commitRetrySecs,
        )
        self.coordinator = Coordinator(rules, lease.epoch, history)
        self.committed = history.committed
        self.error: BaseException | None = None
        self.waiting_for: BaseException | None = None
        self.done = threading.Event()
        self.writes_hang = False
        """Whether a write to a store had not come back when the run ended."""
        self._queue: queue.SimpleQueue[on.Event | Callable[[], object]] = queue.SimpleQueue()
        self._timers = sched.scheduler(self._clock.monotonic)
        self._trimming = Trimming(group.name, log, lease, committer, settings)
        self._held: dict[TransactionAttempt, _Held] = {}
        self._at_hand: dict[int, Mapping[str, Result]] = {}
        """What was frozen, until it is committed: of the very attempt that froze, whichever others end late."""
        self._plans: dict[int, BatchPlan] = {}
        self._times: dict[int, float] = {}
        """When each batch was planned."""
        self._outline = group.outline.encode()
        self._attempts = Attempts(group, log, lease, history)
        self._dead: set[TransactionAttempt] = set()
        self.gate = CommitGate(lambda: self.committed)
        self._rests = Rests(lambda: self.done.is_set())  # a fork puts another event there
        self._sleeps = 0
        self._next_tick = self._clock.monotonic()
        self._unsynced_since: float | None = None
        self._committing: tuple[int, float] | None = None
        """The batch whose commit turn runs, and since when."""
        self._given_up_at: float | None = None
        """When a stop that was asked for waits no longer for what is under way."""
        name = group.name
        self._plan_thread = threads(f"trident-{name}-plan", 1)
        self._run_threads = threads(f"trident-{name}-run", None)  # one that hangs must not keep the next waiting
        self._commit_thread = threads(f"trident-{name}-commit", 1)
        self._loop_thread = threading.Thread(target=self._loop, name=f"trident-{name}", daemon=True)

    # --- from other threads ------------------------------------------------------------------------------------

    def start(self) -> None:
        self._loop_thread.start()

    def post(self, event: on.Event) -> None:
        """Tell the group that something happened."""
        self._queue.put(event)

    def rest(self, timeout: float | None) -> bool:
        """Wait until the sources were asked anew and had nothing, and everything is committed. False: not in time."""
        return self._rests.wait(lambda: self.post(on.Woken()), timeout)

    @property
    def hanging(self) -> list[dict[str, Any]]:
        """The calls of user code that are over their limit and do not come back; see `WatchedCalls.hanging`."""
        return self._calls.hanging

    @property
    def waits_for(self) -> str | None:
        """What the group waits for longer than usual: a call of user code, or what a commit failed with."""
        return self._calls.longest or (str(self.waiting_for) if self.waiting_for else self._long_commit())

    def _long_commit(self) -> str | None:
        """What a commit does that takes longer than usual, with states that do not answer yet, perhaps."""
        committing = self._committing
        seconds = 0.0 if committing is None else self._clock.monotonic() - committing[1]
        if committing is None or seconds < WORTH_TELLING:
            return None
        states = {step.state.name: step.state.factory for step in self.group.states}
        writing = [f"state {name!r} ({states[name]!r}) is being written" for name in sorted(self._committer.writing)]
        return f"the commit of batch {committing[0]}, for {seconds:.1f} s{': ' if writing else ''}{', '.join(writing)}"

    def mine(self) -> bool:
        """Whether the calling thread is one of this group's own: it must not wait for the group."""
        own = (self._plan_thread, self._run_threads, self._commit_thread, self._calls)
        return threading.current_thread() is self._loop_thread or any(threads.mine() for threads in own)

    def heal(self, state: str) -> None:
        """Bring a rewound store up again, in the commit turn's thread."""
        self._queue.put(partial(self._commit_thread.submit, self._heal, state))

    # --- the loop ----------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        try:
            self._carry_out(self.coordinator.start())
            while not self.coordinator.finished:
                self._react(self._next_event())
        except BaseException as error:
            self.error = self.error or error
            logger.exception("group %r broke", self.group.name)
        finally:
            self._end()

    def _next_event(self) -> on.Event | Callable[[], object] | None:
        try:
            return self._queue.get(timeout=self._idle_time())
        except queue.Empty:
            return None

    def _idle_time(self) -> float:
        """Seconds until something is due though nothing happens."""
        now = self._clock.monotonic()
        timers = [timer.time for timer in self._timers.queue[:1]]
        return max(0.0001, min([now + 0.5, self._calls.next(now + 0.5), *timers]) - now)

    def _react(self, event: on.Event | Callable[[], object] | None) -> None:
        """Do what is due, then what this event asks for."""
        now = self._clock.monotonic()
        self._timers.run(blocking=False)
        self._calls.expire(now)
        if callable(event):
            event()
        elif event is not None:
            if isinstance(event, on.StopAsked) and self._given_up_at is None:
                self._given_up_at = now + PATIENCE
                self._later(PATIENCE, self._give_up)
            self._carry_out(self.coordinator.handle(event))
        self._sync_when_idle()

    def _carry_out(self, actions: list[on.Action]) -> None:
        for action in actions:
            _DOING[type(action)](self, action)

    def _later(self, seconds: float, thing: Callable[[], object]) -> None:
        if seconds <= 0:
            thing()
        else:
            self._timers.enter(seconds, 0, thing)

    def _give_up(self) -> None:
        """A stop has waited long enough: leave behind the calls that hang, then whatever is left."""
        self._calls.abandon()
        self._later(_LAST_PATIENCE, lambda: self.post(on.GivenUp()))

    def _run_failed(self, attempt: TransactionAttempt, error: BaseException) -> None:
        if not self._over(attempt):
            self._trace.failed(self.group.name, attempt, "run", error)
        self.post(on.RunFailed(attempt, error))

    # --- planning ----------------------------------------------------------------------------------------------

    def _do_plan(self, action: on.Plan) -> None:
        delay = action.delay
        if self._settings.processingTime is not None and action.kept is None and not delay:
            delay = self._next_tick - self._clock.monotonic()
        self._later(delay, lambda: self._begin_plan(action))

    def _begin_plan(self, action: on.Plan) -> None:
        if self._settings.processingTime is not None:
            now = self._clock.monotonic()
            while self._next_tick <= now:
                self._next_tick += self._settings.processingTime
        self._rests.plan_begins()
        self._plan_thread.submit(self._plan, action)

    def _plan(self, action: on.Plan) -> None:
        attempt, began = action.attempt, self._clock.monotonic()
        try:
            reach("plan.before")
            time = self._clock.time()
            try:
                plan = self._sources.plan(attempt, action.previous, action.kept, time)
            except Exception as error:
                self._trace.failed(self.group.name, attempt, "plan", error)
                self.post(on.PlanFailed(attempt, error))
                return
            reach("plan.made")
            if plan is None:
                self.post(on.NothingThere(attempt))
                return
            self._times[attempt.txid] = time
            self._trace.began(self.group.name, attempt, began)
            self._trace.phase(self.group.name, attempt.txid, "plan", self._clock.monotonic() - began)
            self.post(on.Planned(attempt, plan))
        except BaseException as error:
            self.post(on.Broken(error))

    # --- running -----------------------------------------------------------------------------------------------

    def _do_run(self, action: on.Run) -> None:
        self._plans[action.attempt.txid] = action.plan
        self._later(action.delay, lambda: self._submit_run(action))

    def _submit_run(self, action: on.Run) -> None:
        if not self._over(action.attempt):
            self._run_threads.submit(self._run, action)

    def _run(self, action: on.Run) -> None:
        attempt, began = action.attempt, self._clock.monotonic()
        if self._over(attempt):
            return
        try:
            self._trace.began(self.group.name, attempt, began)
            self._attempts.begin(attempt)
            reach("attempt.logged")
            reach("emit.before")
            emissions = self._sources.emit(attempt, action.plan)
            reach("emit.after")
            self._attempts.check(attempt, action.plan, emissions)
            if self._over(attempt):
                return
            reach("run.before")
            stage = self.group.stages[0]
            inputs = {node: _nothing(node) if given is None else given for node, given in emissions.items()}
            result = self._code.run_first(stage, inputs, attempt, partial(self._run_failed, attempt))
            results = self._committer.living(result.results)
            reach("run.after")
            outputs = self._committer.frozen(results, result.skipped, attempt, 1)
            positions = self._sources.after(action.previous, action.plan, emissions)
            batch = BatchRecord(action.plan, self._times[attempt.txid], self._outline)
            self._held[attempt] = _Held(results, outputs, positions, batch)
            if self._over(attempt):
                self._held.pop(attempt, None)
                return
            self._trace.ran(self.group.name, attempt, result, self._clock.monotonic() - began)
            self.post(on.Ran(attempt))
        except (FencedError, LogError) as error:
            self._break(error)
        except BaseException as error:
            self._run_failed(attempt, error)

    def _over(self, attempt: TransactionAttempt) -> bool:
        """Whether nobody waits for this attempt any more."""
        return attempt in self._dead or attempt.txid <= self.committed

    def _do_cancel(self, action: on.Cancel) -> None:
        self._dead.add(action.attempt)
        self._held.pop(action.attempt, None)
        self._run_threads.submit(self._cancel, action.attempt)

    def _cancel(self, attempt: TransactionAttempt) -> None:
        try:
            self._slots.cancel(attempt)
        except Exception:
            logger.warning("attempt %s could not be cancelled", attempt, exc_info=True)

    def _do_fail(self, action: on.Fail) -> None:
        self._sources.fail(action.attempt)

    # --- freezing and committing -------------------------------------------------------------------------------

    def _do_freeze(self, action: on.Freeze) -> None:
        attempt, held, began = action.attempt, self._held[action.attempt], self._clock.monotonic()
        try:
            reach("freeze.before")
            txid = attempt.txid
            self._log.freeze(self._lease, self.group.name, txid, held.batch, held.positions, held.outputs)
            reach("freeze.after")
        except BaseException as error:
            self._queue.put(on.Broken(error))
            return
        self._at_hand[attempt.txid] = held.results
        self._trimming.froze(sum(output.size for output in held.outputs.values()))
        self._unsynced_since = None
        self._trace.phase(self.group.name, attempt.txid, "freeze", self._clock.monotonic() - began)
        self._queue.put(on.Frozen(attempt, held.positions))

    def _do_commit(self, action: on.Commit) -> None:
        self._later(action.delay, partial(self._commit_thread.submit, self._commit, action.txid))

    def _commit(self, txid: int) -> None:
        began = self._clock.monotonic()
        self._committing = txid, began
        try:
            self.gate.wait(txid)
            turn = self._committer.commit(txid, self._at_hand.get(txid))
            self.committed = txid
            self.waiting_for = None
            self._code.tries = 0
            self._finish_batch(txid, turn, began)
            self.post(on.Committed(txid))
        except (FencedError, LogError) as error:
            self._break(error)
        except AttemptCancelledError as error:  # the run ends
            self.post(on.CommitFailed(txid, error, False))
        except BaseException as error:
            self.waiting_for = error
            attempt = TransactionAttempt(txid, self._code.tries, self._lease.epoch)
            self._trace.failed(self.group.name, attempt, "commit", error)
            passing = self._passing(error)
            if not passing and isinstance(error, REPEATED) and not isinstance(error, CallHangsError):
                error.args = (  # the same error, with its cause and its place
                    f"{error}; batch {txid} is frozen and kept: mend what failed and start again, so that it is "
                    f"committed",
                )
            why = explained(error, self._log, self._lease)
            self.post(on.Broken(why) if isinstance(why, FencedError) else on.CommitFailed(txid, error, passing))
        finally:
            self._committing = None

    def _break(self, error: BaseException) -> None:
        """The run cannot go on."""
        self.post(on.Broken(explained(error, self._log, self._lease)))

    def _passing(self, error: BaseException) -> bool:
        """Whether repeating a commit may help: a store that is away; a function or Spark that failed a later stage, an
        output that did not take the batch, as often as an attempt may fail."""
        if isinstance(error, PASSING):
            return True
        if isinstance(error, TridentError) and (error.hopeless or not isinstance(error, REPEATED)):
            return False
        self._code.tries += 1
        return self._code.tries < self._settings.maxAttempts

    def _finish_batch(self, txid: int, turn: Turn, began: float) -> None:
        self._at_hand.pop(txid, None)
        self._times.pop(txid, None)
        self._queue.put(lambda: self._forget(txid))
        self._trace.phase(self.group.name, txid, "commit", self._clock.monotonic() - began)
        self._trace.committed(self.group.name, txid, turn)

    def _forget(self, txid: int) -> None:
        """Nothing of the attempts up to `txid` matters any more."""
        self._attempts.forget(txid)
        self._dead = {attempt for attempt in self._dead if attempt.txid > txid}
        for attempt in [a for a in list(self._held) if a.txid <= txid]:
            self._held.pop(attempt, None)

    def _do_succeed(self, action: on.Succeed) -> None:
        if self._unsynced_since is None:
            self._unsynced_since = self._clock.monotonic()
        self._run_threads.submit(self._succeed, action.txid)  # beside plans, which may wait for a slow spout

    def _succeed(self, txid: int) -> None:
        try:
            reach("success.before")
            plan = self._plans.pop(txid, None)
            if plan is None:
                batch = self._log.batch(self.group.name, txid)
                plan = batch.plan if batch else {}
            self._sources.success(txid, plan)
            reach("success.after")
            self._trimming.after(self.committed)
            self.post(on.Succeeded(txid))
        except BaseException as error:
            self.post(on.Broken(error))

    def _heal(self, state: str) -> None:
        try:
            self._committer.heal(state, self.committed)
            self.waiting_for = None
            self._code.tries = 0
        except AttemptCancelledError:
            logger.debug("group %r: state %r is not healed: the run ends", self.group.name, state)
        except BaseException as error:
            self.waiting_for = error  # the watch asks again, as long as it finds the store behind
            if not self._passing(error):
                self._break(error)

    # --- waiting and ending ------------------------------------------------------------------------------------

    def _do_sleep(self, action: on.Sleep) -> None:
        self._sleeps += 1
        number = self._sleeps
        self._later(action.seconds, lambda: self._wake(number))

    def _wake(self, number: int) -> None:
        """The end of a sleep; one that somebody ended before is over, else every `rest` would begin another chain."""
        if number == self._sleeps:
            self.post(on.Woken())

    def _do_rest(self, action: on.Rest) -> None:
        self._rests.begin()

    def _do_finish(self, action: on.Finish) -> None:
        self.error = action.error

    def _sync_when_idle(self) -> None:
        """A COMMITTED that no FROZEN follows becomes durable by itself after `checkpointInterval`."""
        since = self._unsynced_since
        if since is not None and self._clock.monotonic() - since >= self._settings.checkpointInterval:
            self._unsynced_since = None
            try:
                self._log.sync(self._lease)
            except BaseException as error:
                self._queue.put(on.Broken(error))

    def _end(self) -> None:
        """Close everything, and leave behind what does not come back: code of the user's, or a thread of ours to which
        a store or the log does not answer."""
        now = self._clock.monotonic()
        until = max(self._given_up_at or now + PATIENCE, now + _LAST_PATIENCE)

        def left() -> float:
            return max(0.0, until - self._clock.monotonic())

        closing = self._run_threads.submit(self._slots.close)
        committed = self._commit_thread.close(left())
        self._plan_thread.close(left())
        until = max(until, self._clock.monotonic() + _LAST_PATIENCE)
        with suppress(TimeoutError):
            closing.exception(left())
        self._sources.close(left())
        behind = self._calls.close(left())
        self.writes_hang = any(lane.startswith(STATE_LANE) for lane in behind)
        self.writes_hang |= not (committed or self._commit_thread.close(_LAST_PATIENCE))
        self._plan_thread.close(timeout=0)
        self._run_threads.close(timeout=0)
        self.done.set()
        self._rests.look()
        self._ended(self)


def _nothing(node: Node) -> Emission:
    """What a spout that is idle in a batch gives to it."""
    return ArrowEmission(arrow_schema(node.schema).empty_table())


_DOING: dict[type, Callable[[GroupRun, Any], None]] = {
    on.Plan: GroupRun._do_plan,
    on.Run: GroupRun._do_run,
    on.Cancel: GroupRun._do_cancel,
    on.Freeze: GroupRun._do_freeze,
    on.Commit: GroupRun._do_commit,
    on.Succeed: GroupRun._do_succeed,
    on.Fail: GroupRun._do_fail,
    on.Sleep: GroupRun._do_sleep,
    on.Rest: GroupRun._do_rest,
    on.Finish: GroupRun._do_finish,
}
