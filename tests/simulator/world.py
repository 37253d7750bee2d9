"""One simulated schedule: what runs, what goes wrong and when, and whether everything comes out right."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulator import patches
from tests.simulator.driver import Driver
from tests.simulator.fake_log import LogDisk
from tests.simulator.fake_redis import FakeRedis
from tests.simulator.faults import NEVER, Faults
from tests.simulator.frozen_disk import FrozenDisk
from tests.simulator.in_world import Worlds
from tests.simulator.network import Network
from tests.simulator.oracle import Oracle, Wrong
from tests.simulator.reads import Reads
from tests.simulator.scheduler import Crashed, Process, Scheduler, Stuck
from tests.simulator.setting import Setting
from tests.simulator.verdict import Seen, why_right
from tests.simulator.workers import Troubles
from trident.base import crash_points
from trident.base.attempt import TransactionAttempt
from trident.batches import events as on
from trident.compiler import frozen_parts
from trident.configuration.settings import Settings
from trident_state.redis import writer
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home, Store

_LOOKED = 8
"""Turns after which we look whether everything is there."""


@dataclass
class Result:
    """How a schedule went."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    stop: str = "done"
    """Why it ended: everything was counted, or the typed error that was the right answer."""
    reads: int = 0
    refused: int = 0
    batches: int = 0
    drivers: int = 0
    steps: int = 0


class World:
    """A schedule. Everything that chance decides is decided by `seed`. `flow`: how the name of its
    topology begins; several with commas. `executors`: whether executors certainly write states."""

    def __init__(
        self, seed: int, trace: Callable[[str], None] | None = None, flow: str = "", executors: bool = False
    ) -> None:
        self.result = Result(seed)
        self.scheduler = Scheduler(seed)
        if trace is not None:
            self.scheduler.trace = lambda text: trace(f"{self.scheduler.now:10.4f} {text}")
        self.scheduler.passed = self._passed  # type: ignore[method-assign]
        self.chance = chance = self.scheduler.random
        Worlds.now = None
        self.setting = Setting(self.scheduler, flow, seed, executors)
        self.oracle = Oracle(self.setting.flow, self.setting.sources)
        self.disk = LogDisk()
        self.server = FakeRedis()
        self.network = Network(self.scheduler, self.server)
        self.segments = patches.SegmentFiles()
        self.frozen_files = FrozenDisk()
        self.seen = Seen()
        self.troubles = Troubles(self)
        self.answers: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
        """What each part of a frozen query was answered as of a txid."""
        self.drivers: list[Driver] = []
        self.over = False
        self.wrong: BaseException | None = None
        self.attempts: dict[TransactionAttempt, list[Any]] = {}
        """What each attempt read."""
        self.settings = self._settings()
        self.scheduler.in_fibers = chance.choice((0.0, 0.02, 0.05, 0.1, 0.3))
        self.scheduler.pausing = chance.choice((0.2, 0.6))
        self._put_keys = chance.choice((1, 2, 1000))
        self.idle = chance.choice((0.001, 0.05, 0.5))
        """Seconds after which a source that had nothing is asked again."""
        self.faults = Faults(self)
        self._reads = Reads(self)
        self._next_read = chance.randint(1, 100)
        self._finishing = 0.0
        self._tries = 0
        self._satisfied: Driver | None = None
        """Under whom everything was there."""
        self._restarts = chance.choice((0, 0, 1))
        self.scheduler.processes.append(self.network.process)

    def _settings(self) -> Settings:
        chance, folder = self.chance, patches.Folder("nowhere")
        return Settings(
            folder,  # type: ignore[arg-type]
            True,
            name="sim",
            maxSpoutPending=chance.randint(1, 3),
            maxAttempts=chance.choice((2, 3, 6)),
            messageTimeoutSecs=chance.choice((0.5, 10.0)),
            commitRetrySecs=chance.choice((None, 0.5, 5.0)),
            keepBatches=chance.choice((0, 1, 3, 1000)),
            rewindBytes=chance.choice((8, 400, 2 << 30)),
            clock=self.scheduler,
            uuid="log",
        )

    @property
    def kind(self) -> StateKind:
        return self.setting.kind

    @property
    def writers(self) -> str:
        return self.setting.writers

    def open_store(self, identity: StateIdentity, shape: StateShape, home: Home) -> Store:
        return self.setting.open_store(identity, shape, home, self.network)

    # --- from start to end -------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Run it all, within `patches.machine()`. Raises Wrong, Stuck, or whatever else a broken library raises."""
        Worlds.now = self
        vars(writer)["PUT_KEYS"] = self._put_keys
        vars(frozen_parts)["PART_ROWS"] = self.setting.part_rows
        scheduler = self.scheduler
        crash_points.listen(scheduler.point)
        try:
            self._start_driver()
            while not self.over and self.wrong is None:
                scheduler.step()
                if not scheduler.turns % _LOOKED:
                    self._look()
            if self.wrong is not None:
                raise self.wrong
        finally:
            self._close()
            Worlds.now = None
            crash_points.listen(None)
        result = self.result
        result.batches, result.drivers = len(self.oracle.batches), len(self.drivers)
        result.steps = scheduler.steps
        return result

    def _close(self) -> None:
        self.faults.stop()
        self.troubles.stop()
        self._next_read = NEVER
        for process in [*self.scheduler.processes]:
            self.scheduler.kill(process)
            self.scheduler.reap(process)

    def say(self, text: str, *of: object) -> None:
        """A line of the trace, put together as `logging` does it."""
        if self.scheduler.trace is not None:
            self.scheduler.trace(f"*** {text % of}")

    def fail(self, error: BaseException) -> None:
        self.wrong = self.wrong or error

    def _start_driver(self) -> None:
        driver = Driver(self, f"driver {len(self.drivers) + 1}")
        self.drivers.append(driver)
        self.say("%s starts", driver.name)
        driver.begin()

    def supervise(self) -> None:
        """Start a driver if none is at work."""
        at_work = (d for d in self.drivers if d.process.alive and not d.ended)
        if not self.over and not any(d.process.asleep_until <= self.scheduler.now for d in at_work):
            self._start_driver()

    def driver_ended(self, driver: Driver) -> None:
        """A driver stopped, by itself or as it was asked to."""
        error = driver.error
        if error is None:
            self.say("%s stopped", driver.name)
        else:
            self.say("%s stopped with %s: %s", driver.name, type(error).__name__, error)
            why = why_right(self, driver, error)
            if why is None:
                self.fail(Wrong(f"{driver.name} stopped for no good reason with {type(error).__name__}: {error}"))
                self.wrong.__cause__ = error  # type: ignore[union-attr]
                return
            if why == "final":
                self.result.stop = type(error).__name__
                self.over = True
                return
        if driver is self._satisfied:
            if self._restarts == 0:
                self.over = True
                return
            self._restarts -= 1
            self._tries = 0
        starting = driver.run is None and error is not None
        self.scheduler.after(self.chance.choice((0.5, 2.0) if starting else (0.0, 0.2)), self.supervise)

    def _passed(self, process: Process) -> None:
        """A point of input or output at which a read begins or something goes wrong."""
        steps, faults, trouble = self.scheduler.steps, self.faults, False
        if steps >= self._next_read:
            self._next_read = steps + self.chance.randint(10, 120)
            self._reads.begin()
        if steps >= faults.at:
            trouble = faults.due()
        self.scheduler.alarm = min(self._next_read, faults.at)
        if not trouble:
            return
        driver = next(d for d in self.drivers if d.process is process or process in d.workers.at_work)
        try:
            faults.strike(driver)
        except Crashed:
            if process is driver.process:
                raise  # else its executors live a little longer

    # --- the end -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Is everything there? Then read it all, stop, and perhaps look again after a restart."""
        if self.scheduler.now < self._finishing:
            return
        group = self.disk.groups.get(self.setting.group)
        if group is None or group.committed != group.frozen:
            return
        positions = {name: stream.position for name, stream in self.disk.members.streams.items()}
        if not all(source.read_up(positions.get(name)) for name, source in self.setting.sources.items()):
            return
        self.faults.stop()
        self.troubles.stop()
        self._finishing = self.scheduler.now + 0.3
        driver = next((d for d in reversed(self.drivers) if d.holds_log), self.drivers[-1])
        asleep = any(d.process.asleep_until > self.scheduler.now for d in self.drivers if d.process.alive)
        if driver.read_source is None or driver.ended or not self.server.up or asleep or self.network.late:
            return
        if not driver.process.alive or driver.run is None or driver.run.committed < group.committed:
            return
        others = [d for d in self.drivers if d is not driver and d.process.alive and not d.ended]
        # A zombie, and every task that is late, has its say first.
        if (others or any(d.workers.at_work for d in self.drivers)) and self._tries < 40:
            self._tries += 1
            return
        self._tries += 1
        if self._tries > 80:
            raise Stuck(f"the states do not come up: {self._reads.refusal}")
        self._reads.begin_all(driver)

    def satisfied_by(self, driver: Driver) -> None:
        """Everything is there, read under this driver; it may stop."""
        assert driver.run is not None
        self.say("everything is there")
        self._satisfied = driver
        driver.run.post(on.StopAsked())

    # --- what the parts tell -----------------------------------------------------------------------------------------

    def froze(self, group: str, attempt: TransactionAttempt) -> None:
        try:
            self.oracle.froze(attempt.txid, self.attempts[attempt])
        except Wrong as error:
            self.fail(error)

    def heard_success(self, txid: int) -> None:
        if txid > len(self.oracle.batches) and not self.seen.copied:
            self.fail(Wrong(f"a spout heard success({txid}), frozen are {len(self.oracle.batches)}"))
