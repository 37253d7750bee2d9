"""A driver of a changing program: several groups, outputs, user code that raises or does not come back."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.simulator.changing import core
from tests.simulator.changing.history import Given
from tests.simulator.changing.programs import Shape
from tests.simulator.oracle import Wrong
from tests.simulator.scheduler import Crashed, Pool, Process
from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError, UserFunctionError
from trident.compiler.program import Group, Stage
from trident.frozen.results import StageResult
from trident.plan.nodes import Node, SpoutSource

if TYPE_CHECKING:
    from tests.simulator.changing.world import World


class Driver:
    """A driver from its start to its end, or its crash."""

    def __init__(self, world: "World", name: str, shape: Shape) -> None:
        self.world, self.name, self.shape = world, name, shape
        self.process = Process(name)
        self.engine, self.notes = Engine(self), Notes(self)
        self.begun: Any = None
        self.run: core.Started | None = None
        self.error: BaseException | None = None
        self.ended = False
        self.life = world.lives
        """Which log it began with: a reset makes another one."""
        self.given: dict[tuple[str, TransactionAttempt], Given] = {}
        """What each attempt of a group read."""
        self.freezing: dict[tuple[Any, int], Given] = {}
        """What is about to be frozen, by the log's name for the group, and txid."""
        self.asked_at: float | None = None
        """When it was asked to stop."""
        self.hanging = set[str]()
        """The outputs whose function has not come back."""
        self._handing: dict[str, str] = {}
        self._due: dict[Any, float] = {}
        self._looks = 1e18
        self._busy = set[Any]()
        self._over_runs = set[Any]()
        self._tokens = shape.by_name()
        world.scheduler.processes.append(self.process)

    # --- start -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        Pool(self.world.scheduler, self.process, "main", 1).submit(self._begin)

    def _begin(self) -> None:
        try:
            run = core.started(self)
        except Crashed:
            raise
        except BaseException as error:
            self._over(error)
            return
        self.run = run
        self.world.accepted(self)
        self._watching = Pool(self.world.scheduler, self.process, "watch", 1)
        self._looks = self.world.scheduler.now + 1.0
        for each in run.runs.values():
            self._due[each] = 0.0
            self.process.loops.append(lambda now, each=each: self._loop(each, now))  # type: ignore[misc]
        self.process.due.append(self._next_due)
        for each in run.runs.values():
            self._turn(each, lambda each=each: each._carry_out(each.coordinator.start()))  # type: ignore[misc]

    def threads(self, name: str, most: int | None) -> Any:
        return Pool(self.world.scheduler, self.process, name.rsplit("-", 1)[1], most)

    def stop(self) -> None:
        if self.run is not None:
            if self.asked_at is None:
                self.asked_at = self.world.scheduler.now
            self.run.stop()

    # --- the loops -----------------------------------------------------------------------------------------------

    def _loop(self, run: Any, now: float) -> Callable[[], None] | None:
        """What this group's loop thread, and the watch, would do now."""
        if self._looks <= now and not self.ended:
            return self._look
        if run in self._busy or run.coordinator.finished:
            return None
        if run._queue.empty() and now < self._due[run]:
            return None
        return lambda: self._turn(run, lambda: run._react(None if run._queue.empty() else run._queue.get_nowait()))

    def _next_due(self) -> float:
        idle = [due for run, due in self._due.items() if run not in self._busy and not run.coordinator.finished]
        return min([self._looks, *idle])

    def _turn(self, run: Any, react: Callable[[], None]) -> None:
        """As `GroupRun._loop`: one turn, and the end where it was the last; with a stack of its own, because the log's
        server is waited for, and at the end whatever is under way."""
        self._busy.add(run)
        self.world.scheduler.in_fiber(self.process, lambda: self._turned(run, react))

    def _turned(self, run: Any, react: Callable[[], None]) -> None:
        try:
            react()
        except Crashed:
            return
        except BaseException as error:
            run.error = run.error or error
            run.coordinator.finished = True
        if run.coordinator.finished:
            try:
                run._end()
                self._group_ended(run)
            except Crashed:
                return
        else:
            self._busy.discard(run)
            self._due[run] = self.world.scheduler.now + run._idle_time()

    def _group_ended(self, run: Any) -> None:
        """As `RunningTopology._group_ended`; whoever started it stops the other groups where one failed."""
        self._over_runs.add(run)
        if run.error is not None:
            self.error = self.error or run.error
            self.stop()
        if self.run is None or len(self._over_runs) < len(self.run.runs):
            return
        self._looks = 1e18
        self._watching.close()
        self.run.close()
        self._over(self.error)

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
        assert self.run is not None
        try:
            self.run.watch.look()
        except Exception as error:
            self.run.watch._break(error)

    # --- what the oracle hears -----------------------------------------------------------------------------------

    def froze(self, label: Any, txid: int) -> None:
        given = self.freezing.pop((label, txid))
        self.world.heard(self, lambda history: history.froze(label, txid, self.shape, given))

    def committed(self, label: Any, txid: int) -> None:
        self.world.heard(self, lambda history: history.committed(label, txid, self.shape))

    def handing(self, group: str, output: str) -> None:
        """A batch of this group is handed over now."""
        self._handing[output] = group

    def handed(self, output: str, table: Any, txid: int, attempt: int) -> None:
        if output in self.hanging:
            self.world.fail(
                Wrong(f"output {output!r} is called with batch {txid}, and its last call has not come back")
            )
        if ("more" in table.column_names) != self.shape.wide:
            self.world.fail(Wrong(f"output {output!r}, batch {txid}: gets {table.column_names}, declared otherwise"))
        label, counts = core.label_of(self, self._handing[output]), None if self.world.taken_over(self) else attempt
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        frozen = (
            None if self.world.taken_over(self) else core.frozen_rows(self.world, self._handing[output], txid, output)
        )
        if frozen is not None and Counter(frozen) != Counter(rows):
            self.world.fail(Wrong(f"output {output!r}, batch {txid}: gets {rows}, and {frozen} was frozen for it"))
        self.world.heard(self, lambda history: history.given_out(label, output, txid, counts, rows))

    def reads(self, group: str, attempt: TransactionAttempt, inputs: Mapping[Node, Any]) -> None:
        """What an attempt read."""
        given: Given = {}
        for node, emission in inputs.items():
            if isinstance(node, SpoutSource):
                table = emission.arrow()
                words, numbers = table.column("word").to_pylist(), table.column("seq").to_pylist()
                given[self._tokens[node.stream]] = list(zip(words, numbers, strict=True))
        self.given[group, attempt] = given


class Engine:
    """Workers: they compute what a batch comes to, raise, hang, or come back late."""

    puts = None

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def slot(self, group: Group) -> "Slot":
        return Slot(self._driver, group)


class Slot:
    def __init__(self, driver: Driver, group: Group) -> None:
        self._driver, self._world, self._group = driver, driver.world, group
        self._cancelled = False

    def run(self, stage: Stage, inputs: Mapping[Node, Any], attempt: TransactionAttempt, scratch: Path) -> StageResult:
        world = self._world
        self._cancelled = False
        world.scheduler.point("run", attempt, "stage", stage.number)
        if stage.number == 1:
            self._driver.reads(self._group.name, attempt, inputs)
        trouble = world.faults.of_worker(stage.number)
        if trouble == "raises":
            raise UserFunctionError(f"attempt {attempt}: a function raised")
        if trouble is not None:
            stops = world.chance.random() < 0.5  # else it is deaf: cancelled work that goes on
            world.scheduler.wait(lambda: stops and self._cancelled, float(trouble))
            if self._cancelled and stops:
                raise AttemptCancelledError(f"attempt {attempt} was cancelled")
        result = core.slot_of(self._group).run(stage, inputs, attempt, scratch)
        world.scheduler.point("ran", attempt, "stage", stage.number)
        return result

    def cancel(self) -> None:
        self._cancelled = True

    def close(self) -> None:
        pass


class Notes:
    """In the place of the trace."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def failed(self, group: str, attempt: TransactionAttempt, phase: str, error: BaseException) -> None:
        trace = self._driver.world.scheduler.trace
        if trace is not None:
            trace(f"{self._driver.name}: batch {attempt} of {group}: {phase} failed: {type(error).__name__}: {error}")

    def began(self, *_: object) -> None: ...

    def phase(self, *_: object) -> None: ...

    def ran(self, *_: object) -> None: ...

    def read(self, *_: object) -> None: ...

    def tell(self, *_: object, **__: object) -> None: ...

    def committed(self, group: str, txid: int, written: object) -> None:
        trace = self._driver.world.scheduler.trace
        if trace is not None:
            trace(f"{self._driver.name}: batch {txid} of {group} committed")
