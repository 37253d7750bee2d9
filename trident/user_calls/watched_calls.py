"""Calls of user code, each with a time limit. At the limit, the run logs the call and continues without it.

The threads of a run never run a user's function that writes something or belongs to a spout. They hand it to a *lane*,
a thread for one piece of user code (a spout, the functions of a commit turn, a user's store), and wait. So a function
that does not return blocks only its lane. If its result comes late, it is dropped. Until it returns, a second call of
the function waits in the lane.

Only `WatchedCalls.expire` checks limits. The group's loop calls it at every turn.
"""

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from trident.base.callsite import CallSite
from trident.base.clock import Clock
from trident.base.errors import AttemptCancelledError, BatchTimeoutError, CallHangsError
from trident.base.log_fields import RunLogger
from trident.user_calls.daemon_threads import MakeThreads, Threads

T = TypeVar("T")

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 10.0
"""Seconds that a call waits for its lane (thread) after the limit of the previous call, and that a stop waits for user
code."""

_TICK = 0.1

_MOST_DOUBLINGS = 10
"""The most doublings of a limit. Attempt numbers also grow over restarts, so a limit would become years, and then
overflow."""

SHOWN_AFTER_SECONDS = 1.0
"""Seconds after which a call is shown as the reason why a batch waits."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The words for a call in messages, and the sites of the user's functions in it.

    >>> str(Subject("output 'lines'", (CallSite("send", "/home/me/app.py", 7),)))
    "output 'lines': send (app.py:7)"
    """

    what: str
    sites: tuple[CallSite, ...] = ()

    def __str__(self) -> str:
        return f"{self.what}: {', '.join(map(str, self.sites))}" if self.sites else self.what


@dataclass(slots=True, eq=False)
class _Call:
    """A call of user code. It waits for its lane (thread), runs, or still runs after it was abandoned."""

    subject: Subject
    lane: str | None
    seconds: float
    since: float
    """The time at which the call began. Before it begins: the time since which it has waited for its lane's current
    call."""
    fail: Callable[[BaseException], None]
    thread: int | None = None
    """The ident of the thread that runs the call; None until it begins."""
    abandoned: bool = False


class WatchedCalls:
    """The watched calls of one batch group. Thread-safe.

    Parameters
    ----------
    group : the group's name, for messages. clock : returns the monotonic time for limits. seconds : the limit of the
    first attempt; it doubles at each further attempt. threads : creates the pool of each lane, which has one thread.
    topology : the topology's name, for log records.
    """

    def __init__(
        self, group: str, clock: Clock, seconds: float, threads: MakeThreads = Threads, topology: str | None = None
    ) -> None:
        self.fields = {"topology": topology, "group": group}
        self._logger = RunLogger(logger, **self.fields)
        self._group, self._clock, self._seconds, self._make = group, clock, seconds, threads
        self._lock = threading.Lock()
        self._lanes: dict[str, Threads] = {}
        self._calls: set[_Call] = set()
        self._closed = False

    # --- calls -----------------------------------------------------------------------------------------------

    def submit(
        self,
        lane: str,
        subject: Subject,
        work: Callable[[], T],
        tries: int = 0,
        overrun: Callable[[], None] | None = None,
    ) -> "Future[T]":
        """Run user code in its lane (thread), and return the future.

        `overrun` is called at the limit, to stop as much of the work as possible.

        The future raises BatchTimeoutError if the call is over its limit, and CallHangsError if the call cannot begin
        because the previous call in the lane has not returned.
        """
        call = _Call(subject, lane, self._limit(tries), self._clock.monotonic(), _nothing)

        def run() -> T:
            with self._running(call):
                return work()

        def fail(error: BaseException) -> None:
            # The outcome is set first, so that the caller continues even if `overrun` takes long (it cancels Spark
            # jobs).
            with suppress(InvalidStateError):  # the call has just returned
                future.set_exception(error)
            if overrun is not None:
                overrun()

        with self._lock:
            # No error is raised here, because `Sources.fail` submits from the group's loop, and an error would end the
            # loop.
            if self._closed:
                future: Future[T] = Future()
                future.set_exception(AttemptCancelledError(f"{subject.what} is not called: the run has ended"))
                return future
            if lane not in self._lanes:
                # One thread per lane, so that hanging code is not called a second time concurrently (guard "one call at
                # a time", decision 19).
                self._lanes[lane] = self._make(f"trident-{self._group}-{lane}", 1)
            # Submitted under the lock, for which `run` waits, too, so that no call is given up before it has its
            # future.
            future = self._lanes[lane].submit(run)
            call.fail = fail
            self._calls.add(call)
        return future

    def wait(self, future: "Future[T]") -> T:
        """Wait for a call, and check limits meanwhile.

        The group's loop, which normally checks limits, may not be running yet.
        """
        while True:
            try:
                return future.result(_TICK)
            except TimeoutError:
                # A TimeoutError may also be the outcome of the call itself.
                if future.done():
                    raise
                self.expire(self._clock.monotonic())

    @contextmanager
    def watch(self, subject: Subject, tries: int, over: Callable[[BaseException], None]) -> Iterator[None]:
        """Set a limit for the block, which the calling thread runs. `over` is called with an error at the limit.

        The block continues in its thread even then, so the run must be able to abandon that thread.
        """
        call = _Call(subject, None, self._limit(tries), self._clock.monotonic(), over)
        with self._running(call):
            yield

    @contextmanager
    def _running(self, call: _Call) -> Iterator[None]:
        with self._lock:
            # The call waited in its lane after a hanging call, and its caller has continued: the batch may be at
            # another attempt.
            if call.abandoned:
                raise AttemptCancelledError(f"{call.subject.what} is not called: it was cancelled before it started")
            # The waiting time in the lane does not count; the call's limit begins here.
            call.since, call.thread = self._clock.monotonic(), threading.get_ident()
            # A call of `watch` is added here; a call of a lane was added when it was submitted.
            self._calls.add(call)
        try:
            yield
        finally:
            with self._lock:
                self._calls.discard(call)
                for waiting in self._calls:  # for each call that waits for the lane, the waiting time begins again
                    if call.lane is not None and waiting.lane == call.lane:
                        waiting.since = self._clock.monotonic()
            if call.abandoned:
                seconds = self._clock.monotonic() - call.since
                self._logger.info("group %r: %s has returned after %.1f s", self._group, call.subject, seconds)

    def _limit(self, tries: int) -> float:
        return self._seconds * float(2 ** min(tries, _MOST_DOUBLINGS))

    # --- limits ----------------------------------------------------------------------------------------------

    def next(self, otherwise: float) -> float:
        """Return the time of the next limit; `otherwise` if there are no calls."""
        with self._lock:
            return min([self._deadline(call) for call in self._calls if not call.abandoned], default=otherwise)

    def _deadline(self, call: _Call) -> float:
        """Return the time at which the call times out.

        A call that waits for its lane gets more time than its limit, because the previous call may use up its own limit
        first.
        """
        if call.thread is not None:
            return call.since + call.seconds
        running, patience = self._running_in_lane(call), max(call.seconds, PATIENCE_SECONDS)
        return max(call.since + patience, running.since + running.seconds + PATIENCE_SECONDS if running else 0)

    def _running_in_lane(self, call: _Call) -> _Call | None:
        """Return the call that is running in the same lane (thread); None if the lane is free."""
        return next((other for other in self._calls if other.lane == call.lane and other.thread is not None), None)

    def expire(self, now: float) -> None:
        """Give up the calls that are over their limits."""
        with self._lock:
            # Without this check the run would wait for ever for a call that does not return (guard "limit").
            overdue = [call for call in self._calls if not call.abandoned and now >= self._deadline(call)]
            for call in overdue:
                self._give_up(call)
        for call in overdue:  # without the lock, because functions that `fail` calls may submit
            error = self._limit_error(call)
            self._logger.warning("group %r: %s", self._group, error)
            call.fail(error)

    def abandon(self) -> None:
        """Give up all calls, and begin no further call, because the run ends."""
        with self._lock:
            # Closed in the same step in which the copy is made: a later submit is refused, and no call is left out.
            self._closed = True
            calls = [call for call in self._calls if not call.abandoned]
            for call in calls:
                self._give_up(call)
        for call in calls:
            call.fail(AttemptCancelledError(f"{call.subject}: the run has ended"))

    def _give_up(self, call: _Call) -> None:
        """Mark a call as abandoned. It stays listed while it runs. If it has not begun, it never begins."""
        call.abandoned = True
        if call.thread is None:
            self._calls.discard(call)

    def _limit_error(self, call: _Call) -> BatchTimeoutError:
        what, sites = call.subject.what, ", ".join(map(str, call.subject.sites))
        if call.thread is not None:
            line = self._current_line(call)
            where = ", ".join([*([sites] if sites else []), *([f"now at {line}"] if line else [])])
            limit = f"{call.seconds:g} s (messageTimeoutSecs, doubled at each retry)"
            return BatchTimeoutError(f"{what} ran longer than {limit}{f': {where}' if where else ''}")
        # Called after `expire` has released the lock: the previous call may have returned since, and the lane may be
        # free.
        with self._lock:
            running = self._running_in_lane(call)
        if running is None:
            return BatchTimeoutError(f"{what} did not begin within {call.seconds:g} s")
        line = self._current_line(running)
        return CallHangsError(
            f"{what} cannot be called: the call before it, {running.subject}, has not returned for "
            f"{self._clock.monotonic() - running.since:.1f} s{f', now at {line}' if line else ''}; correct it and "
            f"start again"
        )

    # --- status --------------------------------------------------------------------------------------------------

    @property
    def hanging(self) -> list[dict[str, Any]]:
        """The calls that are over their limits and have not returned.

        Each has `call`, `since` (ISO 8601, UTC) and `at`, the line of user code that it is running.
        """
        with self._lock:
            calls = sorted((call for call in self._calls if call.abandoned), key=lambda call: call.since)
        now, time = self._clock.monotonic(), self._clock.time()
        return [hanging_call(call.subject, time - (now - call.since), call.thread) for call in calls]

    @property
    def longest(self) -> str | None:
        """The call that has run longest, in words, if it has run for more than a second; otherwise None."""
        now = self._clock.monotonic()
        with self._lock:
            calls = [call for call in self._calls if call.thread is not None and now - call.since > SHOWN_AFTER_SECONDS]
        if not calls:
            return None
        call = min(calls, key=lambda call: call.since)
        line = self._current_line(call)
        return f"{call.subject}, for {now - call.since:.1f} s{f', now at {line}' if line else ''}"

    def _current_line(self, call: _Call) -> str | None:
        return current_line(call.thread, call.subject.sites)

    def owns_this_thread(self, lane: str | None = None) -> bool:
        """Return whether the calling thread is the thread for the user code `lane` (None: for any user code)."""
        with self._lock:
            return any(threads.owns_this_thread() for name, threads in self._lanes.items() if lane in (None, name))

    # --- end ---------------------------------------------------------------------------------------------------

    def close(self, timeout: float) -> list[str]:
        """Close the lanes (threads) within `timeout` seconds.

        Return the names of the lanes with a call that does not return.

        Such a call is abandoned, and its result is dropped.
        """
        # Abandon first, so that no call that waits in a lane begins during the end.
        self.abandon()
        deadline = self._clock.monotonic() + timeout
        # Without the lock, which calls need in order to end. No lane is added any more, because `abandon` has closed
        # them.
        hanging_lanes = [
            lane
            for lane, threads in self._lanes.items()
            if not threads.close(max(0.0, deadline - self._clock.monotonic()))
        ]
        with self._lock:
            subjects = [call.subject for call in self._calls if call.lane in hanging_lanes]
        for subject in subjects:
            self._logger.warning("group %r: %s does not return; it is abandoned", self._group, subject)
        return hanging_lanes


def hanging_call(subject: Subject, since: float, thread: int | None) -> dict[str, Any]:
    """Return a hanging call in the form in which `status` shows it.

    `since` is the time at which it began, in seconds since 1970.
    """
    began = datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds")
    return {"call": str(subject), "since": began, "at": current_line(thread, subject.sites)}


def current_line(thread: int | None, sites: Iterable[CallSite]) -> str | None:
    """Return the innermost line that a thread is running in the files of these functions.

    None if there is no such line.
    """
    files = {site.file for site in sites if site.file}
    frame = sys._current_frames().get(thread) if thread is not None else None  # noqa: SLF001  there is no other way
    # The innermost frame is often in a library that the user's function called, which would not help the user.
    while frame is not None and frame.f_code.co_filename not in files:
        frame = frame.f_back
    return None if frame is None else CallSite("", frame.f_code.co_filename, frame.f_lineno).location


def _nothing(_: BaseException) -> None: ...
