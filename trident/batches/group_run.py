"""The loop of one batch group: it carries out the coordinator's actions, using the group's threads.

    thread (`trident-<group>...`)   what runs in it
    the loop                        `GroupRun`: events, actions, timers, limits of calls, FROZEN
    -plan, one                      `AttemptRuns.plan`
    -run, one for each attempt      `AttemptRuns.run`, cancels; `GroupRun._succeed`
    -commit, one                    `CommitTurns.commit` and `heal`

Spouts, and the user code of a commit turn, have separate threads (`WatchedCalls`), and the threads above wait for
these. All threads talk to the loop by events, through one queue, so the coordinator needs no lock. More than one thread
touches these attributes:

    attribute                       written by                  why this is safe
    coordinator                     loop                        others read `finished`, `reached`, copies
    turns.committed                 commit                      an int that only grows; late readers do too much work
    turns.at_hand                   loop sets, commit removes   set before the turn is submitted
    turns.waiting_for               commit, watch               only `status` reads it
    _attempts.held                  run sets, loop removes      an entry is one attempt's; read after its Ran
    _attempts._void                 loop                        replaced as a whole; a run thread checks again
    _attempts._plan_times           plan sets, loop removes     set before the attempt is submitted
    _plans                          loop sets, run removes      set at FROZEN, before the success is submitted
    _trimming                       loop counts, run trims      a lost count only moves the next trim
    _queue, turns.gate, _calls      all                         a `SimpleQueue`; each has a lock of its own
"""

import queue
import sched
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from trident.base.crash_points import reach
from trident.base.errors import TopologyConditionError
from trident.base.interruptible_waits import Flag
from trident.batches import coordinator_events as on
from trident.batches.attempt_runs import AttemptRuns
from trident.batches.commit_turns import CommitTurns
from trident.batches.coordinator import Coordinator
from trident.batches.coordinator_settings import CoordinatorSettings
from trident.batches.idle_moments import IdleMoments
from trident.batches.log_retention import Trimming
from trident.batches.retries import retries_of
from trident.batches.run_context import GroupContext
from trident.commits.user_code import COMMIT_LANE
from trident.log.group_records import BatchPlan, Positions
from trident.plan.parallelism_hints import Hints
from trident.reads.stream_positions import StreamPosition, stream_position
from trident.spouts.dead_letters import ReplaySpout
from trident.user_calls.daemon_threads import MakeThreads, Threads
from trident.user_calls.watched_calls import PATIENCE_SECONDS
from trident.user_calls.watched_store import STATE_LANE
from trident_spouts.executor import ReadSoFar

_IDLE_ASKING = 0.5
"""The longest sleep (seconds) of an idle group with a spout that must be polled for new rows."""

_IDLE_WOKEN = 30.0
"""The longest sleep (seconds) of an idle group whose spouts all report new rows. It limits the delay if a report is
lost."""

_LOOP_SECONDS = 1.0
"""The seconds that `quiet` waits for the loop to handle earlier events. The loop may be in the middle of a write."""

_LAST_PATIENCE = 2.0
"""The least number of seconds that the end of a group waits for work that was just cancelled."""


class GroupRun:
    """Runs one group's batches until it is stopped, drained, or broken."""

    def __init__(self, context: GroupContext, threads: MakeThreads = Threads) -> None:
        settings, sources, name = context.settings, context.sources, context.name
        self.group = context.group
        self._context = context
        self._clock = context.clock
        self.logger = context.logger(__name__)
        self._calls = sources.calls
        rules = CoordinatorSettings(
            pending=settings.maxSpoutPending,
            retries=retries_of(settings),
            plans_ahead=sources.plans_ahead,
            replans=sources.replans,
            commitRetry=settings.commitRetrySecs,
            idleMost=_IDLE_WOKEN if sources.wakes else _IDLE_ASKING,
            active=settings.active,
            wait=settings.waitStrategy,
        )
        sources.wake = lambda: self.post(on.RowsCame())
        self.coordinator = Coordinator(rules, context.lease.epoch, context.history)
        self.turns = CommitTurns(context, self.post)
        self._attempts = AttemptRuns(context, lambda: self.turns.committed, self.post)
        self._trimming = Trimming(name, context.log, context.lease, context.committer, settings)
        self._plans: dict[int, BatchPlan] = {}
        """The plans, by txid, of frozen batches whose success has not been reported to the spouts yet."""
        self.error: BaseException | None = None
        self.done = Flag()
        self.writes_hang = False
        """True if a write to a store had not returned when the run ended."""
        self._queue: queue.SimpleQueue[on.Event | Callable[[], object]] = queue.SimpleQueue()
        self._timers = sched.scheduler(self._clock.monotonic)
        self._rests = IdleMoments(self._no_rest_comes)
        self._inactive = not settings.active
        """True if a user deactivated the group. A pause by the run itself (`pause`) does not count."""
        self._sleeps = 0
        self._next_tick = self._clock.monotonic()
        self._unsynced_since: float | None = None
        """The time of the first COMMITTED that neither a later FROZEN nor a sync has made durable; None if all are
        durable."""
        self._give_up_at: float | None = None
        """The time at which a requested stop no longer waits for running work; None before a stop is requested."""
        self._plan_thread = threads(f"trident-{name}-plan", 1)
        self._run_threads = threads(f"trident-{name}-run", None)  # no limit: a hanging call must not block the next
        # One thread, because a store has one writer: turns run in txid order, and no heal runs beside a turn.
        self._commit_thread = threads(f"trident-{name}-commit", 1)
        self._loop_thread: threading.Thread | None = None
        self._starts = [None]
        """One entry until the loop begins: only the thread that takes it becomes the loop."""

    # --- from other threads ------------------------------------------------------------------------------------

    def start(self, ended: Callable[["GroupRun"], None]) -> None:
        """Start the loop in a thread. The loop calls `ended` as its last act.

        A second call has no effect: an interrupted call is repeated, because it may have started no thread.
        """
        name = f"trident-{self.group.name}"
        threading.Thread(target=self._loop, args=(ended,), name=name, daemon=True).start()

    def post(self, event: on.Event) -> None:
        """Send an event to the loop."""
        self._queue.put(event)

    def rest(self, timeout: float | None) -> bool:
        """Wait until a new plan finds nothing and everything is committed, or until the group ends.

        Return False after `timeout`.
        """
        return self._rests.wait(lambda: self.post(on.Woken()), timeout)

    def deactivate(self) -> None:
        """Plan no new batch until `activate`. Batches in flight are finished."""
        self._inactive = True
        self.post(on.DeactivateAsked())

    def activate(self) -> None:
        """Plan new batches again."""
        self._inactive = False
        self.post(on.ActivateAsked())

    def pause(self) -> None:
        """Plan no new batch for a moment.

        Unlike `deactivate`, threads that wait for a rest keep waiting until `activate`.
        """
        self.post(on.DeactivateAsked())

    def quiet(self, timeout: float | None) -> bool:
        """Wait until an inactive group has nothing in flight, or has ended. Return False after `timeout` seconds."""
        told: list[bool] = []  # until the loop has handled earlier events, `coordinator.quiet` is out of date

        def tell() -> None:
            told.append(True)
            self._rests.wake()

        self._queue.put(tell)
        self._rests.wait_until(lambda: self.done.is_set() or bool(told), _LOOP_SECONDS)
        return self._rests.wait_until(lambda: self.done.is_set() or (bool(told) and self.coordinator.quiet), timeout)

    def rebalance(self, hints: Hints) -> None:
        """Use these hints for all batches from now on. Call this while the group is quiet."""
        self._context.slots.rebalance(hints)

    def _no_rest_comes(self) -> bool:
        """Return whether the group has ended, so that it never rests.

        Raises TopologyConditionError if it is inactive and quiet.
        """
        if self.done.is_set():
            return True
        if self._inactive and self.coordinator.quiet:
            raise TopologyConditionError(
                f"group {self.group.name!r} is inactive and reads nothing: call activate() first"
            )
        return False

    @property
    def committed(self) -> int:
        """The last committed txid."""
        return self.turns.committed

    @property
    def read_so_far(self) -> dict[str, ReadSoFar]:
        """Return how far frozen batches have read each stream's source. Sources without a known size are left out."""
        return self._context.sources.read_so_far(self.coordinator.positions)

    @property
    def positions(self) -> list[StreamPosition]:
        """The positions of the group's streams after the last frozen batch. Dead letters that return have none."""
        frozen, positions = self.coordinator.reached
        topology, group, committed = self._context.settings.name, self.group.name, self.committed
        return [
            stream_position(topology, node.stream, group, committed, frozen, node.spout, positions.get(node.stream))
            for node in self.group.spouts
            if not isinstance(node.spout, ReplaySpout)
        ]

    @property
    def hanging(self) -> list[dict[str, Any]]:
        """The calls of user code that are over their limit and have not returned; see `WatchedCalls.hanging`."""
        return self._calls.hanging

    @property
    def waits_for(self) -> str | None:
        """The call, error, commit turn or source that holds up the group, in the words of `status`."""
        waiting_for = self.turns.waiting_for
        turn = str(waiting_for) if waiting_for else self.turns.slow_turn
        waits_for = self._calls.longest or turn or self.coordinator.waits_for
        return "; ".join(filter(None, (waits_for, self.coordinator.failing))) or None

    def owns_this_thread(self) -> bool:
        """Return whether the calling thread belongs to this group. Such a thread must not wait for the group."""
        own = (self._plan_thread, self._run_threads, self._commit_thread, self._calls)
        return threading.current_thread() is self._loop_thread or any(threads.owns_this_thread() for threads in own)

    def commits_in_this_thread(self) -> bool:
        """Return whether a commit of this group waits for the calling thread."""
        return self._commit_thread.owns_this_thread() or self._calls.owns_this_thread(COMMIT_LANE)

    def heal(self, state: str) -> None:
        """Let the commit thread heal a rewound store."""
        # Sent through the loop, because the loop closes the commit thread, and a later submit would raise an error in
        # the watch.
        self._queue.put(partial(self._commit_thread.submit, self.turns.heal, state))

    # --- the loop ----------------------------------------------------------------------------------------------

    def _loop(self, ended: Callable[["GroupRun"], None]) -> None:
        try:
            self._starts.pop()
        except IndexError:
            return
        self._loop_thread = threading.current_thread()
        try:
            self._carry_out(self.coordinator.start())
            while not self.coordinator.finished:
                self._react(self._next_event())
        except BaseException as error:
            self.error = self.error or error
            self.logger.exception("group %r ended with an unexpected error", self.group.name)
        finally:
            # Done after an error of the loop itself, too: `rest` waits until `done` is set, and `awaitTermination`
            # until the last group has called `ended`.
            self._end()
            ended(self)

    def _next_event(self) -> on.Event | Callable[[], object] | None:
        try:
            return self._queue.get(timeout=self._idle_time())
        except queue.Empty:
            return None

    def _idle_time(self) -> float:
        """Return for how many seconds the loop may wait for an event: until the next timer or limit, at most 0.5."""
        now = self._clock.monotonic()
        timers = [timer.time for timer in self._timers.queue[:1]]
        return max(0.0001, min([now + 0.5, self._calls.next(now + 0.5), *timers]) - now)

    def _react(self, event: on.Event | Callable[[], object] | None) -> None:
        """Run the timers that are due, give up calls over their limit, then handle the event if it is not None."""
        now = self._clock.monotonic()
        self._timers.run(blocking=False)
        # The loop checks the limits in every iteration. So it iterates at least twice a second, even without an event.
        self._calls.expire(now)
        if callable(event):
            event()
        elif event is not None:
            # Only the first request sets the time: a second `stop` must not put it off. Without this timer a stop would
            # wait for user code that does not return (guard "stop, code that hangs").
            if isinstance(event, on.StopAsked) and self._give_up_at is None:
                self._give_up_at = now + PATIENCE_SECONDS
                self._later(PATIENCE_SECONDS, self._give_up)
            self._carry_out(self.coordinator.handle(event))
        self._sync_when_idle()

    def _carry_out(self, actions: list[on.Action]) -> None:
        for action in actions:
            self._ACTIONS[type(action)](self, action)

    def _later(self, seconds: float, work: Callable[[], object]) -> None:
        """Let the loop call `work` after this many seconds, or call it at once if the number is 0 or less."""
        if seconds <= 0:
            work()
        else:
            self._timers.enter(seconds, 0, work)

    def _give_up(self) -> None:
        """End a stop that has waited long enough: give up hanging calls now, and soon after that all other work."""
        # In two steps: a commit turn whose call is given up here fails, and then the group ends in good order.
        # `GivenUp` ends the group if something else still hangs, such as a store or the log.
        self._calls.abandon()
        self._later(_LAST_PATIENCE, lambda: self.post(on.GivenUp()))

    # --- actions: attempts ---------------------------------------------------------------------------------------

    def _do_plan(self, action: on.Plan) -> None:
        delay = action.delay
        # `processingTime` is the time between the first plans of two batches. A replay waits only for its own delay.
        if self._context.settings.processingTime is not None and action.kept is None and not delay:
            delay = self._next_tick - self._clock.monotonic()
        self._later(delay, lambda: self._begin_plan(action))

    def _begin_plan(self, action: on.Plan) -> None:
        interval = self._context.settings.processingTime
        if interval is not None:
            now = self._clock.monotonic()
            while self._next_tick <= now:  # missed ticks are skipped
                self._next_tick += interval
        # Counted after the delay: this plan asks the sources only now, so its answer also counts for a `rest` that
        # began during the delay.
        self._rests.plan_begins()
        self._plan_thread.submit(self._attempts.plan, action)

    def _do_run(self, action: on.Run) -> None:
        self._later(action.delay, lambda: self._submit_run(action))

    def _submit_run(self, action: on.Run) -> None:
        if not self._attempts.is_over(action.attempt):  # it may have been cancelled during its delay
            self._run_threads.submit(self._attempts.run, action)

    def _do_cancel(self, action: on.Cancel) -> None:
        # Make the attempt void first, whether or not the cancel succeeds: work that cannot be stopped ends late, and
        # must then find its attempt void (tests/batches/test_replays_that_differ.py).
        self._attempts.discard(action.attempt)
        self._run_threads.submit(self._attempts.cancel, action.attempt)

    def _do_fail(self, action: on.Fail) -> None:
        # Called in the loop, so that `fail` enters the spout's lane before the next attempt's `emit`, which a run
        # thread submits later (tests/run/test_limits.py::test_fail_reaches_a_spout_before_its_next_emit).
        self._context.sources.fail(action.attempt, action.error)

    # --- actions: freezing and committing ------------------------------------------------------------------------

    def _do_freeze(self, action: on.Freeze) -> None:
        """Freeze an attempt's results.

        This happens in the loop itself, so that nothing can cancel the attempt meanwhile.
        """
        attempt, held, began = action.attempt, self._attempts.held[action.attempt], self._clock.monotonic()
        context, txid = self._context, action.attempt.txid
        try:
            reach("freeze.before")
            context.log.freeze(context.lease, context.name, txid, held.batch, held.positions, held.outputs)
            reach("freeze.after")
        except BaseException as error:
            # FROZEN is not tried again: after an error the run cannot know whether it is on the disk. The next start
            # reads what is there (docs/faults.md, "The log's disk is full, or an fsync fails").
            self._queue.put(on.Broken(error))
            return
        self.turns.at_hand[txid] = held.results
        self._plans[txid] = held.batch.plan
        self._trimming.count(sum(output.size for output in held.outputs.values()))
        # This write was durable, and made every COMMITTED before it durable.
        self._unsynced_since = None
        context.trace.phase(context.name, txid, "freeze", self._clock.monotonic() - began)
        # Put into the queue, and not handled at once: the actions after this one were decided before the batch was
        # frozen.
        self._queue.put(on.Frozen(attempt, held.positions))

    def _do_commit(self, action: on.Commit) -> None:
        self._later(action.delay, partial(self._commit_thread.submit, self.turns.commit, action.txid))

    def _do_succeed(self, action: on.Succeed) -> None:
        # Called here and not in `_succeed`, because only the loop may replace the set of void attempts.
        self._attempts.forget(action.txid)
        # The earliest COMMITTED counts: further ones, without a FROZEN between them, must not put the sync off.
        if self._unsynced_since is None:
            self._unsynced_since = self._clock.monotonic()
        self._run_threads.submit(self._succeed, action.txid)  # not in the plan thread, which may wait for a slow spout

    def _succeed(self, txid: int) -> None:
        """Tell the spouts that a batch is committed, then trim the log.

        Run threads do this for one batch after the other.
        """
        context = self._context
        try:
            reach("success.before")
            plan = self._plans.pop(txid, None)
            earlier: Positions = {}
            if plan is None:  # an earlier run froze it
                plan, earlier = self._plan_of(txid), self._told_before(txid)
            context.sources.success(txid, plan, earlier)
            reach("success.after")
            self._trimming.trim_if_due(self.committed)
            # Posted after the trim, because the coordinator begins the next commit only after this event: near
            # `rewindBytes` that commit waits for the snapshots, and the log cannot outgrow them
            # (tests/batches/test_log_retention.py).
            self.post(on.Succeeded(txid))
        except BaseException as error:
            self.post(on.Broken(error))

    def _plan_of(self, txid: int) -> BatchPlan:
        """Return the plan of a frozen batch, from the log."""
        batch = self._context.log.batch(self._context.name, txid)
        return batch.plan if batch else {}

    def _told_before(self, txid: int) -> Positions:
        """Return the positions of the streams that had no waiting batch when this run began.

        The first `success` of a run reports them to the spouts. It is for the last batch that an earlier run committed;
        for other batches this returns no positions. A stream in a waiting batch gets the `success` of that batch (guard
        "outcomes, every stream").
        """
        history = self._context.history
        if txid != history.committed:
            return {}
        plans = [self._plan_of(later) for later in history.frozen]
        waiting = {stream for plan in plans for stream, metadata in plan.items() if metadata is not None}
        return {stream: position for stream, position in history.positions.items() if stream not in waiting}

    # --- actions: waiting and ending -----------------------------------------------------------------------------

    def _do_sleep(self, action: on.Sleep) -> None:
        self._sleeps += 1
        number = self._sleeps
        self._later(action.seconds, lambda: self._wake(number))

    def _wake(self, number: int) -> None:
        """End the sleep `number`, unless a later sleep has begun.

        Otherwise each `rest` would start a new chain of sleeps.
        """
        if number == self._sleeps:
            self.post(on.Woken())

    def _do_rest(self, action: on.Rest) -> None:
        self._rests.found_nothing()

    def _do_switch(self, action: on.Switch) -> None:
        self._context.sources.switch(action.active)

    def _do_quiet(self, action: on.Quiet) -> None:
        self._rests.wake()

    def _do_finish(self, action: on.Finish) -> None:
        self.error = action.error

    def _sync_when_idle(self) -> None:
        """Sync the log when a COMMITTED has waited for `checkpointInterval` and no FROZEN has made it durable."""
        since, context = self._unsynced_since, self._context
        if since is not None and self._clock.monotonic() - since >= context.settings.checkpointInterval:
            self._unsynced_since = None
            try:
                context.log.sync(context.lease)
            except BaseException as error:
                self._queue.put(on.Broken(error))

    def _end(self) -> None:
        """Close the group's slots, spouts, lanes and threads. Threads that do not return are abandoned.

        Such a thread may run user code, or wait for a store or a log that does not answer.
        """
        now = self._clock.monotonic()
        until = max(self._give_up_at or now + PATIENCE_SECONDS, now + _LAST_PATIENCE)

        def left() -> float:
            return max(0.0, until - self._clock.monotonic())

        # In a run thread: Spark may take long to cancel its jobs, and meanwhile this waits for the commit below.
        closing = self._run_threads.submit(self._context.slots.close)
        # The commit thread is closed before the lanes: a turn that is under way may still finish, if it does so in
        # time.
        committed = self._commit_thread.close(left())
        self._plan_thread.close(left())
        until = max(until, self._clock.monotonic() + _LAST_PATIENCE)
        with suppress(TimeoutError):
            closing.exception(left())
        # Spouts are closed in their lanes, so before the lanes are closed.
        self._context.sources.close(left(), failed=self.error is not None)
        behind = self._calls.close(left())
        # The code that closes the stores must know of a write that still runs: it would write into a closed store.
        self.writes_hang = any(lane.startswith(STATE_LANE) for lane in behind)
        # Closed once more: the call that a turn waited for has been given up by now, so the turn ends.
        self.writes_hang |= not (committed or self._commit_thread.close(_LAST_PATIENCE))
        self._plan_thread.close(timeout=0)
        self._run_threads.close(timeout=0)
        # Set last: once all groups are done, the run closes the log and the stores. Before `wake`, because threads that
        # wait in `rest` check `done`.
        self.done.set()
        self._rests.wake()

    _ACTIONS: ClassVar[dict[type, Callable[["GroupRun", Any], None]]] = {
        on.Plan: _do_plan,
        on.Run: _do_run,
        on.Cancel: _do_cancel,
        on.Freeze: _do_freeze,
        on.Commit: _do_commit,
        on.Succeed: _do_succeed,
        on.Fail: _do_fail,
        on.Sleep: _do_sleep,
        on.Rest: _do_rest,
        on.Switch: _do_switch,
        on.Quiet: _do_quiet,
        on.Finish: _do_finish,
    }
