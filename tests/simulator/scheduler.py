"""Who runs next: one seeded choice at a time, in a time that only moves when nothing else can.

Everything of a run happens in one thread. A task is called to its end, unless a seed made it a *fiber* beforehand:
that one has a stack of its own (a greenlet) which takes turns with the scheduler, so that it can be left standing at
any point of input or output, and others (another driver, a reader) go on in between.
"""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]  # it comes without types

MOST_TURNS = 20_000


class Crashed(BaseException):
    """The process that this code belonged to is dead. It unwinds the stack; whatever it does there has no effect."""


class Stuck(AssertionError):
    """Nothing can go on, or nothing comes to an end."""


class Wrong(AssertionError):
    """The library broke its promise."""


class Process:
    """A process: it lives, sleeps (and may wake up as a zombie), or is dead. `driver`: whose it is, if a driver's."""

    def __init__(self, name: str, driver: Any = None) -> None:
        self.name, self.driver = name, driver
        self.alive = True
        self.asleep_until = 0.0
        self.pools: list[Pool] = []
        self.queued = 0
        """Tasks that no pool began yet."""
        self.fibers: list[Fiber] = []
        self.loops: list[Callable[[float], Callable[[], None] | None]] = []
        """Each gives what it would do now, if it has something to do."""
        self.due: list[Callable[[], float]] = []
        """When each of them has something to do though nothing happens."""


class Fiber:
    """A stack of its own that takes turns with the scheduler."""

    def __init__(self) -> None:
        self.over = True
        self.ready: Callable[[], bool] | None = None
        self.deadline = 0.0
        self._work: Callable[[], None] = _nothing
        self._stack = greenlet(self._loop)
        self._resumed_by: Any = None

    def begin(self, work: Callable[[], None]) -> None:
        self._work, self.over, self.ready = work, False, None

    def resume(self) -> None:
        """Let it run until it pauses or is over; what it raises comes out here."""
        self._resumed_by = self._stack.parent = getcurrent()
        self._stack.switch()

    def pause(self) -> None:
        """Called inside: let whoever resumed it go on."""
        self._resumed_by.switch()

    def _loop(self) -> None:
        while True:
            self._work()
            self.over, self._work = True, _nothing
            self._resumed_by.switch()


def _nothing() -> None: ...


_idle_fibers: list[Fiber] = []


class Scheduler:
    """Runs processes and what happens in the world around them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.steps = 0
        """Points of input and output that were passed."""
        self.alarm = 0
        """At which of them `passed` is called, and at all later ones, until it is set anew."""
        self.turns = 0
        self.processes: list[Process] = []
        """Those that live."""
        self.current: Process | None = None
        self.fiber: Fiber | None = None
        self.in_fibers = 0.0
        """How many of the tasks are fibers (0 to 1), and how often such a one pauses at a point."""
        self.pausing = 0.5
        self.trace: Callable[[str], None] | None = None
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._waited: list[float] = []
        """Until when somebody waits, nested ones too."""

    # --- clock ---------------------------------------------------------------------------------------------------

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_700_000_000.0 + self.now

    def sleep(self, seconds: float) -> None:
        """As ``time.sleep``, called by a task."""
        self.wait(lambda: False, seconds)

    def after(self, seconds: float, thing: Callable[[], None]) -> None:
        """Have something happen later."""
        heapq.heappush(self._later, (self.now + seconds, next(self._order), thing))

    # --- what tasks call -----------------------------------------------------------------------------------------

    def point(self, what: str, *more: object, still: bool = False) -> None:
        """A point of input or output: the process may die or be left standing here (not where `still` says so, because
        a lock is held that others of the process want). `what` and `more` are for the trace."""
        process = self.current
        if process is None:
            return
        if not process.alive:
            raise Crashed
        self.steps += 1
        self.now += 0.0003
        if self.trace is not None:
            self.trace(f"{process.name}: {' '.join([what, *map(str, more)])}")
        if self.steps >= self.alarm:
            self.passed(process)
        fiber = self.fiber
        if still or fiber is None:
            return
        if process.asleep_until > self.now or self.random.random() < self.pausing:
            self._pause(fiber)

    def passed(self, process: Process) -> None:
        """For whoever makes trouble."""

    def wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        """Come back when something is so, or after `timeout` seconds; whether it is so."""
        deadline = self.now + (1e9 if timeout is None else timeout)
        self._waited.append(deadline)
        try:
            return self._wait(until, deadline)
        finally:
            self._waited.remove(deadline)

    def _wait(self, until: Callable[[], bool], deadline: float) -> bool:
        fiber, process = self.fiber, self.current
        while not until() and self.now < deadline:
            if fiber is not None:
                fiber.ready, fiber.deadline = until, deadline
                self._pause(fiber)
            else:
                self.step()
                self.current = process
                if process is not None and not process.alive:
                    raise Crashed
        return until()

    def _pause(self, fiber: Fiber) -> None:
        process = self.current
        fiber.pause()
        if process is not None and not process.alive:
            raise Crashed

    # --- turns ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One turn: anything that can go on does, or time passes."""
        self.turns += 1
        if self.turns > MOST_TURNS:  # raised in every nested turn, so in the outermost at last
            raise Stuck(f"no end after {self.turns} turns")
        while self._later and self._later[0][0] <= self.now:
            heapq.heappop(self._later)[2]()
        choices = self._choices()
        if not choices:
            self._let_time_pass()
            return
        process, thing = choices[int(self.random.random() * len(choices))]
        outer = self.current, self.fiber
        self.current, self.fiber = process, None
        try:
            thing()
        except Crashed:
            pass
        finally:
            self.current, self.fiber = outer

    def _choices(self) -> list[tuple[Process, Callable[[], None]]]:
        """Everything that can go on now, with its process."""
        now = self.now
        choices: list[tuple[Process, Callable[[], None]]] = []
        for process in self.processes:
            if process.asleep_until > now:
                continue
            for loop in process.loops:
                thing = loop(now)
                if thing is not None:
                    choices.append((process, thing))
            if process.queued:
                for pool in process.pools:
                    if pool.work and (pool.most is None or pool.running < pool.most):
                        choices.append((process, pool.begin))
            for fiber in process.fibers:
                if fiber.ready is None or now >= fiber.deadline or fiber.ready():
                    choices.append((process, partial(self.resume, process, fiber)))
        return choices

    def _let_time_pass(self) -> None:
        until = min([when for when in self._waited if when > self.now], default=1e12)
        until = min(until, self._later[0][0]) if self._later else until
        for process in self.processes:
            if process.asleep_until > self.now:
                until = min(until, process.asleep_until)
                continue
            for due in process.due:
                until = min(until, due())
            for fiber in process.fibers:
                until = min(until, fiber.deadline)
        if until >= 1e9:
            raise Stuck("nothing can go on")
        self.now = max(self.now + 1e-6, until)

    def resume(self, process: Process, fiber: Fiber) -> None:
        """Let a fiber of a process go on."""
        outer = self.current, self.fiber
        self.current, self.fiber, fiber.ready = process, fiber, None
        try:
            fiber.resume()
        finally:
            self.current, self.fiber = outer
        if fiber.over:
            process.fibers.remove(fiber)
            _idle_fibers.append(fiber)

    def in_fiber(self, process: Process, work: Callable[[], None]) -> None:
        """Do a piece of work in a fiber, which begins now."""
        fiber = _idle_fibers.pop() if _idle_fibers else Fiber()
        fiber.begin(work)
        process.fibers.append(fiber)
        self.resume(process, fiber)

    def kill(self, process: Process) -> None:
        """The process is dead from here on; its stacks unwind without an effect."""
        if process.alive:
            process.alive = False
            self.processes.remove(process)

    def reap(self, process: Process) -> None:
        """Let the fibers of a dead process come to their end."""
        while process.fibers:
            self.resume(process, process.fibers[0])


class MachineClock:
    """The clock of one machine, which is so many seconds ahead of the others' or (below 0) behind."""

    def __init__(self, scheduler: Scheduler, ahead: float) -> None:
        self._scheduler, self._ahead = scheduler, ahead
        self.monotonic = scheduler.monotonic

    def time(self) -> float:
        return self._scheduler.time() + self._ahead


class Outcome:
    """What a task will come to: as much of a Future as the runtime asks for."""

    __slots__ = ("_done", "_error", "_pool", "_result", "_work")

    def __init__(self, pool: "Pool", work: Callable[[], Any]) -> None:
        self._pool, self._work = pool, work
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._done

    def run(self) -> None:
        result, error = None, None
        try:
            result = self._work()
        except BaseException as raised:
            error = raised
        if not self._done:  # else somebody would not wait any longer
            self._result, self._error, self._done = result, error, True

    def set_exception(self, error: BaseException) -> None:
        if not self._done:
            self._error, self._done = error, True

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._finish(timeout)
        return self._error

    def result(self, timeout: float | None = None) -> Any:
        self._finish(timeout)
        if self._error is not None:
            raise self._error
        return self._result

    def cancel(self) -> None:
        self.set_exception(RuntimeError("cancelled"))

    def _finish(self, timeout: float | None) -> None:
        if not self._done and not self._pool.scheduler.wait(lambda: self._done, timeout):
            raise TimeoutError


class Pool:
    """Stand in for `trident.user_calls.daemon_threads.Threads`: a queue; the scheduler begins the first task."""

    def __init__(
        self, scheduler: Scheduler, process: Process, name: str, most: int | None, fibers: bool = True
    ) -> None:
        self.scheduler, self.process, self.name, self.most = scheduler, process, name, most
        self.work: deque[Outcome] = deque()
        self.running = 0
        self._fibers = fibers
        self._closed = False
        process.pools.append(self)

    def submit(self, work: Callable[..., Any], *args: Any) -> Outcome:
        if self._closed:
            raise RuntimeError(f"{self.name}: closed, nothing more is done here")
        outcome = Outcome(self, partial(work, *args) if args else work)
        self.work.append(outcome)
        self.process.queued += 1
        return outcome

    def begin(self) -> None:
        """Begin the first task."""
        scheduler, outcome = self.scheduler, self.work.popleft()
        self.running += 1
        self.process.queued -= 1
        if self._fibers and scheduler.random.random() < scheduler.in_fibers:
            scheduler.in_fiber(self.process, partial(self._do, outcome))
        else:
            self._do(outcome)

    def _do(self, outcome: Outcome) -> None:
        outcome.run()
        self.running -= 1

    def owns_this_thread(self) -> bool:
        return False

    def close(self, timeout: float | None = None) -> bool:
        self._closed = True
        for outcome in self.work:
            outcome.cancel()
        self.process.queued -= len(self.work)
        self.work.clear()
        return self.scheduler.wait(lambda: not self.running, timeout)
