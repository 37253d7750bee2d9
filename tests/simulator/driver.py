"""A driver of the simulated topology, whatever its program: groups, outputs, executors, user code that raises or does
not come back."""

import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.simulator import core
from tests.simulator.history import Given
from tests.simulator.loops import Looks, Loops, next_event
from tests.simulator.programs import Shape
from tests.simulator.scheduler import Crashed, MachineClock, Pool, Process, Wrong
from tests.simulator.side_runs import starts_of
from tests.simulator.verdict import OF_STAGES
from tests.simulator.workers import SimulatedPuts, Workers
from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError, UserFunctionError
from trident.batches.group_run import GroupRun
from trident.compiler.arrow.engine import ArrowSlot
from trident.compiler.program import Group, Stage
from trident.frozen.results import Result, StageResult
from trident.plan.nodes import Node, SpoutSource
from trident_spouts.shared_reading import SharesEmission

if TYPE_CHECKING:
    from tests.simulator.world import World


class Driver:
    """A driver from its start to its end, or its crash."""

    def __init__(self, world: "World", name: str, shape: Shape) -> None:
        self.world, self.name, self.shape = world, name, shape
        self.process = Process(name, self)
        self.workers = Workers(self)
        self.puts = SimulatedPuts(self) if world.setting.large else None
        self.engine: Any = SimpleNamespace(slot=lambda group: Slot(self, group), puts=self.puts)
        self.side_engine: Any = SimpleNamespace(slot=lambda group: Slot(self, group, beside=True), puts=None)
        self.notes: Any = Notes(self)
        self.begun: Any = None
        self.run: core.Started | None = None
        self.saving: Any = None
        """The object that takes savepoints of its run."""
        self.error: BaseException | None = None
        self.ended = False
        self.frozen_before = len(world.history.batches)
        """The number of batches that were frozen when it began."""
        self.life = world.lives
        """The number of the log with which it began: a reset makes another log."""
        self.given: dict[tuple[str, TransactionAttempt], Given] = {}
        """The content that each attempt of a group read."""
        self.freezing: dict[tuple[Any, int], tuple[Given, float]] = {}
        """The content that is about to be frozen, and its time, by the log's name for the group, and txid."""
        self.failures = Counter[tuple[str, int]]()
        """The number of failures of each batch of a group under this driver, before it was frozen."""
        self.stage_failures = 0
        """The number of later stages, commits and heals that its engine failed since the last commit."""
        self.failing_since: float | None = None
        """When a commit first failed since the last one that went through."""
        self.side_failures = 0
        """The number of failures of its runs for earlier tuples."""
        self.read = 0
        """The last txid that a read under this driver was made as of."""
        self.asked_at: float | None = None
        """When it was asked to stop."""
        self.hanging = set[str]()
        """The outputs whose function has not come back."""
        self._handing: dict[str, str] = {}
        self._over_runs = set[Any]()
        self._tokens = shape.by_name()
        seed = world.result.seed
        # So the times of batches go back from driver to driver, too.
        ahead = random.Random(f"clock {seed} {name}").choice((0.0, 0.0, 0.0, 0.7, 20.0, -0.7, -20.0))
        self.clock = MachineClock(world.scheduler, ahead)
        self._switching = random.Random(seed) if seed % 4 == 0 and world.saves is None else None
        """In every fourth world somebody deactivates a group now and then, and activates it again."""
        self._inactive = set[Any]()
        world.scheduler.processes.append(self.process)

    # --- start -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin, as a task: a start may be left standing too."""
        Pool(self.world.scheduler, self.process, "main", 1).submit(self._begin)

    def _begin(self) -> None:
        try:
            run = core.started(self, starts_of(self))
        except Crashed:
            raise
        except BaseException as error:
            self._over(error)
            return
        self.run = run
        self.world.accepted(self)
        if self.world.saves is not None:
            self.saving = run.saving(lambda: "STOPPED" if self.ended or self.asked_at is not None else None)
        self._looks = Looks(self.world.scheduler, self.process, run.watch)
        Loops(self.world.scheduler, self.process, self._group_ended, self._react).begin(run.runs.values())

    def threads(self, name: str, most: int | None) -> Any:
        return Pool(self.world.scheduler, self.process, name.rsplit("-", 1)[1], most)

    def stop(self) -> None:
        if self.run is not None:
            if self.asked_at is None:
                self.asked_at = self.world.scheduler.now
            self.run.stop()

    # --- the loops -----------------------------------------------------------------------------------------------

    def _react(self, run: GroupRun) -> None:
        dice = self._switching
        if dice is not None and dice.random() < (0.3 if run in self._inactive else 0.05):
            (run.activate if run in self._inactive else run.deactivate)()
            self._inactive ^= {run}
        next_event(run)

    def _group_ended(self, run: GroupRun) -> None:
        """As `RunningTopology._group_ended`; whoever started it stops the other groups where one failed."""
        self._over_runs.add(run)
        if run.error is not None:
            self.error = self.error or run.error
            self.stop()
        if self.run is None or len(self._over_runs) < len(self.run.runs):
            return
        self._looks.close()
        if self.puts is not None:
            self.puts.close()
        self.run.close()
        self._over(self.error)

    def _over(self, error: BaseException | None) -> None:
        self.error, self.ended = error, True
        self.process.loops.clear()
        self.process.due.clear()
        self.world.driver_ended(self)

    # --- what the oracle hears -----------------------------------------------------------------------------------

    def froze(self, label: Any, txid: int) -> None:
        given, time = self.freezing.pop((label, txid))
        self.world.heard(self, lambda history: history.froze(label, txid, self.shape, given, time))

    def committed(self, label: Any, txid: int) -> None:
        self.world.heard(self, lambda history: history.committed(label, txid, self.shape))

    def founded(self, states: Collection[str]) -> None:
        self.world.founded(self, states)

    def succeeded(self, label: Any, txid: int) -> None:
        self.world.heard(self, lambda history: history.succeeded(label, txid))

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
        label, over = self._handing[output], self.world.taken_over(self)
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        frozen = None if over else core.frozen_rows(self.world, label, txid, output)
        if frozen is not None and Counter(frozen) != Counter(rows):
            self.world.fail(Wrong(f"output {output!r}, batch {txid}: gets {rows}, and {frozen} was frozen for it"))
        counts = None if over else attempt
        self.world.heard(self, lambda history: history.given_out(label, output, txid, counts, rows))

    def reads(self, group: str, attempt: TransactionAttempt, inputs: Mapping[Node, Any]) -> Given:
        """What an attempt read."""
        given: Given = {}
        for node, emission in inputs.items():
            if isinstance(node, SpoutSource):
                table = emission.arrow()
                words, numbers = table.column("word").to_pylist(), table.column("seq").to_pylist()
                given[self._tokens[node.stream]] = list(zip(words, numbers, strict=True))
        self.given[group, attempt] = given
        return given


class Slot:
    """Workers: they compute what a batch comes to, raise, hang, or come back late."""

    def __init__(self, driver: Driver, group: Group, beside: bool = False) -> None:
        """`beside`: of a run for earlier tuples, of which the oracle hears nothing."""
        self._driver, self._world, self._group, self._beside = driver, driver.world, group, beside
        self._cancelled = False
        self._slot = ArrowSlot(group) if beside else self._world.engines.slot_of(group, core.slot_of)

    def run(self, stage: Stage, inputs: Mapping[Node, Any], attempt: TransactionAttempt, scratch: Path) -> StageResult:
        world = self._world
        self._cancelled = False
        world.scheduler.point("run", attempt, "stage", stage.number)
        told = stage.number == 1 and not self._beside
        given = self._driver.reads(self._group.name, attempt, inputs) if told else {}
        trouble = world.faults.of_worker(stage.number)
        if trouble is not None and trouble != "raises":
            stops = world.chance.random() < 0.5  # else it is deaf: cancelled work that goes on
            world.scheduler.wait(lambda: stops and self._cancelled, float(trouble))
            if self._cancelled and stops:
                raise AttemptCancelledError(f"attempt {attempt} was cancelled")
        if trouble == "raises" or world.poisons(given):
            raise UserFunctionError(f"attempt {attempt}: a function raised")
        inputs = {node: self._read(entering) for node, entering in inputs.items()}
        result = self._slot.run(stage, inputs, attempt, scratch)
        world.scheduler.point("ran", attempt, "stage", stage.number)
        return replace(result, results=self._frozen(result.results, attempt, stage.number))

    def _read(self, entering: Any) -> Any:
        """What enters a stage; where executors have it, as they read it."""
        if not isinstance(entering, SharesEmission):
            return entering
        return self._driver.workers.read(entering, lambda: self._cancelled)

    def _frozen(self, results: Mapping[str, pa.Table], attempt: TransactionAttempt, stage: int) -> dict[str, Result]:
        """Results, of which the large ones are files that executors wrote."""
        setting, dice = self._world.setting, self._world.troubles.dice
        files = self._world.settings.files
        if not setting.large or files is None or self._beside:
            return dict(results)
        folder, disk = files.folder(self._group.name, attempt, stage).folder, self._world.frozen_files
        return {n: disk.write(folder, t, dice) if dice.random() < setting.large else t for n, t in results.items()}

    def cancel(self) -> None:
        self._cancelled = True
        self._slot.cancel()

    def close(self) -> None:
        pass


class Notes:
    """In the place of the trace: keeps count of failures."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def failed(self, group: str, attempt: TransactionAttempt, phase: str, error: BaseException) -> None:
        driver = self._driver
        if phase in ("run", "plan"):
            driver.failures[group, attempt.txid] += 1
        if phase == "commit":
            driver.stage_failures += isinstance(error, OF_STAGES)
            if driver.failing_since is None:
                driver.failing_since = driver.world.scheduler.now
        told = driver.name, attempt, group, phase, type(error).__name__, error
        driver.world.say("%s: batch %s of %s: %s failed: %s: %s", *told)

    def began(self, *_: object, **__: object) -> None: ...

    phase = ran = read = tell = began

    def committed(self, group: str, txid: int, written: object) -> None:
        driver = self._driver
        driver.stage_failures, driver.failing_since = 0, None
        driver.world.say("%s: batch %s of %s committed", driver.name, txid, group)
