"""One driver of the simulated topology: put together as `trident.run.start` does it, from the same parts."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.simulator import flows, verbs
from tests.simulator.fake_log import FakeLog
from tests.simulator.scheduler import Crashed, Pool, Process
from tests.simulator.verdict import OF_STAGES
from tests.simulator.workers import SimulatedPuts, Workers
from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError, UserFunctionError
from trident.batches.group_run import GroupRun
from trident.batches.run_context import RunContext
from trident.batches.sources import Sources
from trident.compiler.program import Group, Stage
from trident.configuration.settings import Settings
from trident.frozen.results import Result, StageResult
from trident.plan.nodes import Node
from trident.reads.commit_gate import CommitGate
from trident.recovery.acquisition import Begun, begin, close_all
from trident.run import start
from trident.run.fence_watch import Watch
from trident.run.read_source import RunReadSource
from trident.user_calls.watched_calls import WatchedCalls
from trident_spouts.shares import SharesEmission

if TYPE_CHECKING:
    from tests.simulator.world import World


class Driver:
    """A driver from its start to its end, or its crash."""

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name = world, name
        self.process = Process(name)
        self.workers = Workers(self)
        self.puts = SimulatedPuts(self) if world.setting.large else None
        self.log = FakeLog(world.disk, world.scheduler, world.faults.of_log)
        self.log.frozen_heard = self._froze
        self.settings: Settings = world.settings
        self.begun: Begun | None = None
        self.run: GroupRun | None = None
        self.read_source: RunReadSource | None = None
        self.watch: Watch | None = None
        self.error: BaseException | None = None
        self.ended = False
        self.failures: dict[int, int] = {}
        """How often each batch failed under this driver before it was frozen."""
        self.stage_failures = 0
        """The number of later stages, commits and heals that its engine failed since the last commit."""
        self.failing_since: float | None = None
        """When a commit first failed since the last one that went through."""
        self.read = 0
        """The last txid that a read under this driver was made as of."""
        self._due = 0.0
        self._looks = 0.0
        self._busy = False
        seed = world.result.seed
        self._switching = random.Random(seed) if seed % 4 == 0 else None
        """In every fourth world somebody deactivates the run now and then, and activates it again. By draws of its own,
        so that the other schedules stay as they were."""
        self._inactive = False
        world.scheduler.processes.append(self.process)

    # --- start -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin, as a task: a start may be left standing too."""
        main = Pool(self.world.scheduler, self.process, "main", 1)
        main.submit(self._begin)

    def _begin(self) -> None:
        world, program = self.world, self.world.setting.program
        group = program.groups[0]
        log: Any = self.log
        pool: Any = Pool(world.scheduler, self.process, "states", None)
        try:
            self.begun = begin(program, log, self.settings)
            try:
                limit = self.settings.messageTimeoutSecs
                calls = WatchedCalls(group.name, world.scheduler, limit, self._threads)  # type: ignore[arg-type]
                sources = Sources(group.spouts, calls)
                engine: Any = Engine(self)
                notes: Any = Notes(self)
                unused: Any = None
                context = RunContext(
                    unused,
                    self.settings,
                    "",
                    log,
                    self.begun,
                    engine,
                    pool,
                    unused,
                    notes,
                    unused,
                    make_threads=self._threads,
                )
                run = start._group_run(group, context, sources)
            except BaseException:
                close_all(self.begun.stores)
                raise
        except Crashed:
            raise
        except BaseException as error:
            self._over(error)
            return
        run.turns.gate = Gate(self)
        run.coordinator._rules = replace(run.coordinator._rules, idleFirst=world.idle)
        self.run = run
        run.turns.heal = partial(self._heal, run.turns.heal, run)  # type: ignore[method-assign]
        self.read_source = RunReadSource("sim", {group.name: run}, self.begun.stores)
        self.watch = Watch({group.name: run}, self.begun.stores, log, self.begun.lease)
        self._watching = Pool(world.scheduler, self.process, "watch", 1)
        self._looks = world.scheduler.now + 1.0
        self.process.loops.append(self._loop)
        self.process.due.append(self._next_due)
        self._loop_once(lambda: run._carry_out(run.coordinator.start()))

    def _threads(self, name: str, most: int | None) -> Any:
        return Pool(self.world.scheduler, self.process, name.rsplit("-", 1)[1], most)

    def _heal(self, heal: Callable[[str], None], run: GroupRun, state: str) -> None:
        """Let a store be healed. The library counts a heal that Spark failed like such a commit, and tells nobody."""
        heal(state)
        self.stage_failures += isinstance(run.turns.waiting_for, OF_STAGES)

    def _froze(self, group: str, txid: int) -> None:
        assert self.run is not None
        attempt, _ = self.run.coordinator.in_flight[txid]
        self.world.froze(group, attempt)

    # --- the loop ------------------------------------------------------------------------------------------------

    def _loop(self, now: float) -> Callable[[], None] | None:
        """What this driver's loop thread and its watch would do now."""
        if self._looks <= now and not self.ended:
            return self._look
        run = self.run
        if run is None or self._busy or run.coordinator.finished:
            return None
        if run._queue.empty() and now < self._due:
            return None
        return self._turn

    def _next_due(self) -> float:
        run = self.run
        working = run is not None and not self._busy and not run.coordinator.finished
        return min(self._due, self._looks) if working else self._looks

    def _turn(self) -> None:
        run = self.run
        assert run is not None
        self._switch(run)
        event = None if run._queue.empty() else run._queue.get_nowait()
        self._loop_once(run._react, event)

    def _switch(self, run: GroupRun) -> None:
        if self._switching is not None and self._switching.random() < (0.3 if self._inactive else 0.05):
            self._inactive = not self._inactive
            (run.deactivate if self._inactive else run.activate)()

    def _loop_once(self, react: Callable[..., None], *args: Any) -> None:
        """As `GroupRun._loop`: one turn, and the end where it was the last."""
        run = self.run
        assert run is not None
        self._busy = True  # a reaction may wait, and the loop's thread does nothing else meanwhile
        try:
            react(*args)
        except Crashed:
            raise
        except BaseException as error:
            run.error = run.error or error
            run.coordinator.finished = True
        if run.coordinator.finished:
            self._end_once()
        else:
            self._busy = False
            self._due = self.world.scheduler.now + run._idle_time()

    def _end_once(self) -> None:
        """The end waits for what is under way, which may stand below on this very stack: then in a fiber."""
        scheduler = self.world.scheduler
        if any(pool.running for pool in self.process.pools) or scheduler.random.random() < scheduler.in_fibers:
            scheduler.in_fiber(self.process, self._end)
        else:
            self._end()

    def _end(self) -> None:
        assert self.run is not None
        try:
            self.run._end()
            self._group_ended(self.run)
        except Crashed:
            return

    def _group_ended(self, run: GroupRun) -> None:
        """As `RunningTopology._group_ended`."""
        assert self.begun is not None
        self._looks = 1e18
        self._watching.close()
        if not run.writes_hang:
            close_all(self.begun.stores)
        if self.puts is not None:
            self.puts.close()
        log: Any = self.log
        start._give_back(log, self.begun.lease)
        self._over(run.error)

    def _over(self, error: BaseException | None) -> None:
        self.error, self.ended = error, True
        self.process.loops.clear()
        self.process.due.clear()
        self.world.driver_ended(self)

    def _look(self) -> None:
        self._looks = self.world.scheduler.now + 1.0
        if not self._watching.work and not self._watching.running:
            self._watching.submit(self._watched)

    def _watched(self) -> None:
        assert self.watch is not None
        try:
            self.watch.look()
        except Exception as error:
            self.watch._break(error)

    @property
    def holds_log(self) -> bool:
        """Whether no later driver took the log."""
        return self.begun is not None and self.begun.lease == self.log.lease()

    @property
    def txids(self) -> str:
        run = self.run
        return "not started" if run is None else f"committed {run.committed}, {run.coordinator.in_flight}"


class Gate(CommitGate):
    """The gate of commits, at which a task waits in simulated time."""

    def __init__(self, driver: Driver) -> None:
        run = driver.run
        super().__init__(lambda: driver.run.committed if driver.run is not None else run)  # type: ignore
        self._scheduler = driver.world.scheduler

    def wait(self, txid: int, timeout: float | None = None) -> bool:
        return self._scheduler.wait(lambda: super(Gate, self).wait(txid, timeout=0), timeout)


class Engine:
    """Fake workers: they compute what a batch comes to, fail, hang, or come back late."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self.puts = driver, driver.puts

    def slot(self, group: Group) -> "FakeSlot":
        return FakeSlot(self._driver, group.name)


class FakeSlot:
    def __init__(self, driver: Driver, group: str) -> None:
        self._driver, self._world, self._group = driver, driver.world, group
        self._cancelled = False

    def run(self, stage: Stage, inputs: Mapping[Node, Any], attempt: TransactionAttempt, scratch: Path) -> StageResult:
        world = self._world
        self._cancelled = False
        world.scheduler.point("run", attempt, "stage", stage.number)
        tuples = []
        if stage.number == 1:
            tuples = [row for given in inputs.values() for row in getattr(given, "tuples", ())]
            world.attempts[attempt] = tuples
        trouble = world.faults.of_worker(stage.number)
        if trouble == "slow":
            seconds = world.scheduler.random.choice((0.1, 1.0, 20.0))
            stops = world.scheduler.random.random() < 0.5  # else it is deaf: cancelled work that goes on
            world.scheduler.wait(lambda: stops and self._cancelled, seconds)
            if self._cancelled and stops:
                raise AttemptCancelledError(f"attempt {attempt} was cancelled")
        poison = world.setting.poison
        poisoned = poison is not None and any(seq == poison for _, seq in tuples)
        if trouble == "fails" or poisoned:
            raise UserFunctionError(f"attempt {attempt}: a function raised")
        inputs = {node: self._read(given) for node, given in inputs.items()}
        flow = world.setting.flow
        if flow in verbs.MADE:
            results = flows.computed(flow, stage, inputs, attempt)
        else:
            results = flows.worked(stage, tuples, inputs)
        world.scheduler.point("ran", attempt, "stage", stage.number)
        return StageResult(self._frozen(results, attempt, stage.number), len(tuples))

    def _read(self, given: Any) -> Any:
        """What enters a stage; where executors have it, as they read it."""
        if not isinstance(given, SharesEmission):
            return given
        return self._driver.workers.read(given, lambda: self._cancelled)

    def _frozen(self, results: dict[str, pa.Table], attempt: TransactionAttempt, stage: int) -> dict[str, Result]:
        """Results, of which the large ones are files that executors wrote."""
        setting, dice = self._world.setting, self._world.troubles.dice
        if not setting.large:
            return dict(results)
        files = self._driver.settings.files
        assert files is not None
        folder = files.folder(self._group, attempt, stage).folder
        disk = self._world.frozen_files
        return {n: disk.write(folder, t, dice) if dice.random() < setting.large else t for n, t in results.items()}

    def cancel(self) -> None:
        self._cancelled = True

    def close(self) -> None:
        pass


class Notes:
    """In the place of the trace: keeps count of failures."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def failed(self, group: str, attempt: TransactionAttempt, phase: str, error: BaseException) -> None:
        driver = self._driver
        if phase in ("run", "plan"):
            driver.failures[attempt.txid] = driver.failures.get(attempt.txid, 0) + 1
        if phase == "commit":
            driver.stage_failures += isinstance(error, OF_STAGES)
            if driver.failing_since is None:
                driver.failing_since = driver.world.scheduler.now
        trace = driver.world.scheduler.trace
        if trace is not None:
            trace(f"{driver.name}: batch {attempt}: {phase} failed: {type(error).__name__}: {error}")

    def began(self, *_: object) -> None: ...

    def phase(self, *_: object) -> None: ...

    def ran(self, *_: object) -> None: ...

    def read(self, *_: object) -> None: ...

    def committed(self, group: str, txid: int, written: object) -> None:
        driver = self._driver
        driver.stage_failures, driver.failing_since = 0, None
        trace = driver.world.scheduler.trace
        if trace is not None:
            trace(f"{driver.name}: batch {txid} committed")
