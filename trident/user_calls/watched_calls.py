"""Calls of users' code, each with a limit: a run waits for one as long as that, names it, and goes on without it.

The runtime's own threads never run a user's function that writes something or belongs to a spout. They hand it to a
*lane*, a thread for one piece of user code (a spout, the functions of a commit turn, a store of the user's own), and
wait. So a function that does not come back holds its lane and nothing else, what it gives when it comes back late
reaches nobody, and no second call of it begins meanwhile: the next one waits in the lane.

`WatchedCalls.expire` is the one place where limits are checked; the group's loop calls it at every turn.
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
from trident.user_calls.threads import MakeThreads, Threads

T = TypeVar("T")

logger = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds that a lane is waited for whose last call overran its limit, and that a stop waits for user code."""

_TICK = 0.1

_MOST_DOUBLINGS = 10
"""Attempt numbers go on over restarts; a limit of years is none, and a float overflows."""

WORTH_TELLING = 1.0
"""Seconds after which a call is told as what a batch waits for."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is called, as messages name it, and the functions of the user that run in it.

    >>> str(Subject("output 'lines'", (CallSite("send", "/home/me/app.py", 7),)))
    "output 'lines': send (app.py:7)"
    """

    what: str
    sites: tuple[CallSite, ...] = ()

    def __str__(self) -> str:
        return f"{self.what}: {', '.join(map(str, self.sites))}" if self.sites else self.what


@dataclass(slots=True, eq=False)
class _Call:
    """A call that waits for its lane, runs, or was abandoned and runs on."""

    subject: Subject
    lane: str | None
    seconds: float
    since: float
    """When it began; before that, since when it waits for the one call that has its lane."""
    fail: Callable[[BaseException], None]
    thread: int | None = None
    """The thread that runs it; None until it begins."""
    abandoned: bool = False


class WatchedCalls:
    """The calls of one batch group. Any thread may call.

    Parameters
    ----------
    group : the group's name, for messages.
    clock : its monotonic time is that of the limits.
    seconds : the limit of a first try; it doubles at each further one.
    threads : makes the threads of lanes.
    """

    def __init__(self, group: str, clock: Clock, seconds: float, threads: MakeThreads = Threads) -> None:
        self._group, self._clock, self._seconds, self._make = group, clock, seconds, threads
        self._lock = threading.Lock()
        self._lanes: dict[str, Threads] = {}
        self._calls: set[_Call] = set()
        self._closed = False

    # --- calling ---------------------------------------------------------------------------------------------

    def submit(
        self,
        lane: str,
        subject: Subject,
        work: Callable[[], T],
        tries: int = 0,
        overrun: Callable[[], None] | None = None,
    ) -> "Future[T]":
        """Have a user's code run in its lane. `overrun` is called when its time is over, to stop what can be stopped.

        The outcome is a BatchTimeoutError where it takes longer than its limit, a CallHangsError where it cannot begin,
        because the lane's last call has not come back.
        """
        call = _Call(subject, lane, self._limit(tries), self._clock.monotonic(), _nothing)

        def run() -> T:
            with self._running(call):
                return work()

        def fail(error: BaseException) -> None:
            with suppress(InvalidStateError):  # it has come back just now
                future.set_exception(error)
            if overrun is not None:
                overrun()

        with self._lock:
            if self._closed:
                future: Future[T] = Future()
                future.set_exception(AttemptCancelledError(f"{subject.what} is not called: the run has ended"))
                return future
            if lane not in self._lanes:
                self._lanes[lane] = self._make(f"trident-{self._group}-{lane}", 1)
            future = self._lanes[lane].submit(run)
            call.fail = fail
            self._calls.add(call)
        return future

    def wait(self, future: "Future[T]") -> T:
        """Wait for a call before the group's loop, which checks the limits, has begun."""
        while True:
            try:
                return future.result(_TICK)
            except TimeoutError:
                if future.done():
                    raise
                self.expire(self._clock.monotonic())

    @contextmanager
    def watch(self, subject: Subject, tries: int, over: Callable[[BaseException], None]) -> Iterator[None]:
        """Watch what the calling thread does in here, a thread that nobody waits for: `over` is told that its time is
        over."""
        call = _Call(subject, None, self._limit(tries), self._clock.monotonic(), over)
        with self._running(call):
            yield

    @contextmanager
    def _running(self, call: _Call) -> Iterator[None]:
        with self._lock:
            if call.abandoned:
                raise AttemptCancelledError(f"{call.subject.what} is not called any more")
            call.since, call.thread = self._clock.monotonic(), threading.get_ident()
            self._calls.add(call)
        try:
            yield
        finally:
            with self._lock:
                self._calls.discard(call)
                for next_one in self._calls:
                    if call.lane is not None and next_one.lane == call.lane:
                        next_one.since = self._clock.monotonic()
            if call.abandoned:
                seconds = self._clock.monotonic() - call.since
                logger.info("group %r: %s has come back after %.1f s", self._group, call.subject, seconds)

    def _limit(self, tries: int) -> float:
        return self._seconds * float(2 ** min(tries, _MOST_DOUBLINGS))

    # --- limits ----------------------------------------------------------------------------------------------

    def next(self, otherwise: float) -> float:
        """When the first limit is reached."""
        with self._lock:
            return min([self._deadline(call) for call in self._calls if not call.abandoned], default=otherwise)

    def _deadline(self, call: _Call) -> float:
        """When it is given up. One that waits for its lane has not had its time yet: the call before it has overrun."""
        if call.thread is not None:
            return call.since + call.seconds
        before, patience = self._before(call), max(call.seconds, PATIENCE)
        return max(call.since + patience, before.since + before.seconds + PATIENCE if before else 0)

    def _before(self, call: _Call) -> _Call | None:
        """The call that has its lane."""
        return next((c for c in self._calls if c.lane == call.lane and c.thread is not None), None)

    def expire(self, now: float) -> None:
        """Give up the calls whose time is over."""
        with self._lock:
            over = [call for call in self._calls if not call.abandoned and now >= self._deadline(call)]
            for call in over:
                self._give_up(call)
        for call in over:
            error = self._overrun(call)
            logger.warning("group %r: %s", self._group, error)
            call.fail(error)

    def abandon(self) -> None:
        """The run ends: wait for none of them any longer, and begin none."""
        with self._lock:
            self._closed = True
            over = [call for call in self._calls if not call.abandoned]
            for call in over:
                self._give_up(call)
        for call in over:
            call.fail(AttemptCancelledError(f"{call.subject}: the run has ended"))

    def _give_up(self, call: _Call) -> None:
        """An abandoned call stays known as long as it runs; one that has not begun never will."""
        call.abandoned = True
        if call.thread is None:
            self._calls.discard(call)

    def _overrun(self, call: _Call) -> BatchTimeoutError:
        what, sites = call.subject.what, ", ".join(map(str, call.subject.sites))
        if call.thread is not None:
            at = self._place(call)
            told = ", ".join([*([sites] if sites else []), *([f"now at {at}"] if at else [])])
            limit = f"{call.seconds:g} s (messageTimeoutSecs, doubled at each retry)"
            return BatchTimeoutError(f"{what} ran longer than {limit}{f': {told}' if told else ''}")
        with self._lock:
            before = self._before(call)
        if before is None:
            return BatchTimeoutError(f"{what} was not begun within {call.seconds:g} s")
        at = self._place(before)
        return CallHangsError(
            f"{what} cannot be called: the call before it does not come back, {before.subject}, for "
            f"{self._clock.monotonic() - before.since:.1f} s{f', now at {at}' if at else ''}; mend it and start again: "
            f"what is frozen is kept, and committed then"
        )

    # --- how it stands -----------------------------------------------------------------------------------------

    @property
    def hanging(self) -> list[dict[str, Any]]:
        """The calls that overran their limit and have not come back: `call`, `since` (ISO 8601, UTC) and `at`, the line
        of the user's that runs."""
        with self._lock:
            calls = sorted((call for call in self._calls if call.abandoned), key=lambda call: call.since)
        now, time = self._clock.monotonic(), self._clock.time()
        return [
            {
                "call": str(call.subject),
                "since": datetime.fromtimestamp(time - (now - call.since), UTC).isoformat(timespec="milliseconds"),
                "at": self._place(call),
            }
            for call in calls
        ]

    @property
    def longest(self) -> str | None:
        """The call that has run longest, if for more than a second."""
        now = self._clock.monotonic()
        with self._lock:
            calls = [c for c in self._calls if c.thread is not None and now - c.since > WORTH_TELLING]
        if not calls:
            return None
        call = min(calls, key=lambda call: call.since)
        at = self._place(call)
        return f"{call.subject}, for {now - call.since:.1f} s{f', now at {at}' if at else ''}"

    def _place(self, call: _Call) -> str | None:
        return place_in(call.thread, call.subject.sites)

    def mine(self) -> bool:
        """Whether the calling thread is a lane's."""
        with self._lock:
            return any(threads.mine() for threads in self._lanes.values())

    # --- end ---------------------------------------------------------------------------------------------------

    def close(self, timeout: float) -> list[str]:
        """End the lanes, at most `timeout` seconds long, and return those whose call does not come back. It is left
        behind, and what it gives reaches nobody."""
        self.abandon()
        deadline = self._clock.monotonic() + timeout
        behind = [
            lane
            for lane, threads in self._lanes.items()
            if not threads.close(max(0.0, deadline - self._clock.monotonic()))
        ]
        with self._lock:
            left = [call.subject for call in self._calls if call.lane in behind]
        for subject in left:
            logger.warning("group %r: %s does not come back; it is left behind", self._group, subject)
        return behind


def place_in(thread: int | None, sites: Iterable[CallSite]) -> str | None:
    """The innermost line of these functions' files that a thread is at."""
    files = {site.file for site in sites if site.file}
    frame = sys._current_frames().get(thread) if thread is not None else None
    while frame is not None and frame.f_code.co_filename not in files:
        frame = frame.f_back
    return None if frame is None else CallSite("", frame.f_code.co_filename, frame.f_lineno).location


def _nothing(_: BaseException) -> None: ...
