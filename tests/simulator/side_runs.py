"""Runs beside that of a driver, in its process: those of a start that fills new states with earlier tuples.

One reads these tuples into states in memory, with a log of its own; one commits what waits for the former program.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.simulator import core
from tests.simulator.fake_log import FakeLog
from tests.simulator.loops import Looks, Loops
from tests.simulator.scheduler import Stuck
from trident.base.attempt import TransactionAttempt
from trident.batches.group_run import GroupRun
from trident.compiler.stages import cut_nodes
from trident.plan.plan_copy import PlanOfCopies
from trident.run.backfill import Starts

if TYPE_CHECKING:
    from tests.simulator.driver import Driver


class SideRun:
    """A run beside a driver's own: as much of a `RunningTopology` as a start asks for."""

    def __init__(self, driver: "Driver", started: core.Started) -> None:
        self._scheduler, self._started = driver.world.scheduler, started
        self._read_source = started.read_source
        self._over = set[GroupRun]()
        self._looks = Looks(self._scheduler, driver.process, started.watch)
        Loops(self._scheduler, driver.process, self._ended).begin(started.runs.values())

    @property
    def isActive(self) -> bool:
        return len(self._over) < len(self._started.runs)

    def exception(self) -> BaseException | None:
        return next((run.error for run in self._started.runs.values() if run.error is not None), None)

    def processAllAvailable(self) -> None:
        for run in self._started.runs.values():
            run.rest(None)
            if (error := self.exception()) is not None:
                raise error

    def stop(self) -> None:
        self._started.stop()
        if not self._scheduler.wait(lambda: not self.isActive, core.STOPS_WITHIN):
            raise Stuck("a run beside a driver's own was asked to stop, and has not come to its end")

    def __enter__(self) -> "SideRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ended(self, run: GroupRun) -> None:
        self._over.add(run)
        if run.error is not None:
            self._started.stop()
        if not self.isActive:
            self._looks.close()
            self._started.close()


class Notes:
    """In the place of the trace of a run for earlier tuples: tells its driver of failures."""

    def __init__(self, driver: "Driver") -> None:
        self._driver = driver

    def failed(self, group: str, attempt: TransactionAttempt, phase: str, error: BaseException) -> None:
        self._driver.side_failures += 1
        told = self._driver.name, attempt, phase, type(error).__name__, error
        self._driver.world.say("%s: earlier tuples, batch %s: %s failed: %s: %s", *told)

    def began(self, *_: object, **__: object) -> None: ...

    phase = ran = read = tell = committed = began


def starts_of(driver: "Driver") -> Starts:
    """The functions by which a start of this driver starts other runs."""

    def run(plan: PlanOfCopies, options: Mapping[str, Any]) -> Any:
        world, folder = driver.world, options["checkpointLocation"]
        disk = world.side_disks.at(folder)
        settings = replace(world.settings, folder=folder, uuid=disk.uuid, clock=driver.clock)
        log = FakeLog(disk, world.scheduler, world.faults.of_log)
        world.result.faults["backfill"] += 1
        world.say("%s reads earlier tuples, in %s", driver.name, folder)
        return SideRun(driver, core.beside(driver, cut_nodes(plan.sinks, {}), log, settings, Notes(driver)))

    def former(plan: PlanOfCopies) -> Any:
        driver.world.say("%s commits what waits for the former program", driver.name)
        settings = replace(driver.world.settings, active=False, clock=driver.clock)
        return SideRun(driver, core.run_of(driver, cut_nodes(plan.sinks, {}), settings))

    return Starts(run, former)
