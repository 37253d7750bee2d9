"""The loops of batch groups, and the watch of a run, as tasks of one process: each does one turn at a time."""

from collections.abc import Callable, Iterable
from functools import partial

from tests.simulator.scheduler import Crashed, Pool, Process, Scheduler
from trident.batches.group_run import GroupRun
from trident.run.fence_watch import Watch


class Loops:
    """The loops of some groups. `react` makes one turn of a group; `ended` hears of a group's end."""

    def __init__(
        self,
        scheduler: Scheduler,
        process: Process,
        ended: Callable[[GroupRun], None],
        react: Callable[[GroupRun], None] | None = None,
    ) -> None:
        self._scheduler, self._process, self._ended = scheduler, process, ended
        self._react = react or next_event
        self._due: dict[GroupRun, float] = {}
        self._busy = set[GroupRun]()

    def begin(self, runs: Iterable[GroupRun]) -> None:
        """Begin the loops of these groups."""
        runs = [*runs]
        for each in runs:
            self._due[each] = 0.0
            self._process.loops.append(partial(self._loop, each))
        self._process.due.append(self._next_due)
        for each in runs:
            self._turn(each, partial(_start, each))

    def _loop(self, run: GroupRun, now: float) -> Callable[[], None] | None:
        """What this group's loop thread would do now."""
        if run in self._busy or run.coordinator.finished:
            return None
        if run._queue.empty() and now < self._due[run]:
            return None
        return partial(self._turn, run, partial(self._react, run))

    def _next_due(self) -> float:
        idle = [due for run, due in self._due.items() if run not in self._busy and not run.coordinator.finished]
        return min(idle, default=1e18)

    def _turn(self, run: GroupRun, react: Callable[[], None]) -> None:
        """As `GroupRun._loop`: one turn, and the end where it was the last; perhaps with a stack of its own."""
        self._busy.add(run)  # a reaction may wait, and the loop's thread does nothing else meanwhile
        scheduler = self._scheduler
        if scheduler.random.random() < scheduler.in_fibers:
            scheduler.in_fiber(self._process, partial(self._turned, run, react))
        else:
            self._turned(run, react)

    def _turned(self, run: GroupRun, react: Callable[[], None]) -> None:
        try:
            react()
        except Crashed:
            return
        except BaseException as error:
            run.error = run.error or error
            run.coordinator.finished = True
        if not run.coordinator.finished:
            self._busy.discard(run)
            self._due[run] = self._scheduler.now + run._idle_time()
        elif self._scheduler.fiber is None and any(pool.running for pool in self._process.pools):
            # The end waits for what is under way, which may stand below on this very stack.
            self._scheduler.in_fiber(self._process, lambda: self._end(run))
        else:
            self._end(run)

    def _end(self, run: GroupRun) -> None:
        try:
            run._end()
            self._ended(run)
        except Crashed:
            return


class Looks:
    """The looks of a run's watch at the log and the stores, one a second until it is closed."""

    def __init__(self, scheduler: Scheduler, process: Process, watch: Watch) -> None:
        self._scheduler, self._watch = scheduler, watch
        self._pool = Pool(scheduler, process, "watch", 1)
        self._due = scheduler.now + 1.0
        process.loops.append(lambda now: self._look if self._due <= now else None)
        process.due.append(lambda: self._due)

    def close(self) -> None:
        self._due = 1e18
        self._pool.close()

    def _look(self) -> None:
        self._due = self._scheduler.now + 1.0
        if not self._pool.work and not self._pool.running:
            self._pool.submit(self._looked)

    def _looked(self) -> None:
        try:
            self._watch.look()
        except Exception as error:
            self._watch._break(error)


def next_event(run: GroupRun) -> None:
    """One turn of a group: the first event that waits, if there is one."""
    run._react(None if run._queue.empty() else run._queue.get_nowait())


def _start(run: GroupRun) -> None:
    run._carry_out(run.coordinator.start())
