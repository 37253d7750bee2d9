"""One simulated schedule: what runs, what goes wrong and when, and whether everything comes out right.

A program that stays what it is (`staying.py`) is one that changes no time (`changing.py`). Both have this world, its
drivers, faults, sources, stores and history. They differ in: the program (one of `flows.py` with its meaning, or lines
that chance draws), the fault weights, the stops that are right (`verdict.py`, or a refusal with a way out that works),
the log (in a file; or on a server too) and the readers (beside drivers, of several states; or outside, of one).
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulator import core, patches
from tests.simulator.bucket import Bucket
from tests.simulator.driver import Driver
from tests.simulator.engines import Engines
from tests.simulator.fake_log import LogDisk
from tests.simulator.fake_redis import FakeRedis
from tests.simulator.faults import NEVER, Faults
from tests.simulator.frozen_disk import FrozenDisk
from tests.simulator.history import Given, History
from tests.simulator.in_world import Worlds
from tests.simulator.logs import LogNetwork, LogServer
from tests.simulator.network import FakeAddress, Network
from tests.simulator.places import Places
from tests.simulator.programs import Shape
from tests.simulator.reads import Reads
from tests.simulator.scheduler import Crashed, Process, Scheduler, Stuck, Wrong
from tests.simulator.setting import Setting
from tests.simulator.side_disks import SideDisks
from tests.simulator.spouts import Source
from tests.simulator.verdict import Verdict, why_right
from tests.simulator.workers import Troubles
from trident.base import crash_points
from trident.compiler import frozen_parts
from trident.configuration.settings import Settings
from trident_state.redis import due_index, writer
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home, Store

_LOOKED = 8
"""Turns after which we look whether everything is there."""
_LONG = 400.0
"""Seconds in which everything is done, once nothing goes wrong any more."""


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
    """A schedule. Everything that chance decides is decided by `seed`."""

    setting: Setting
    sources: dict[str, Source]
    shape: Shape
    """The program of the next start."""
    faults: Faults

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.result = Result(seed)
        self.scheduler = Scheduler(seed)
        if trace is not None:
            self.scheduler.trace = lambda text: trace(f"{self.scheduler.now:10.4f} {text}")
        self.scheduler.passed = self._passed  # type: ignore[method-assign]
        self.chance = chance = self.scheduler.random
        Worlds.now = None
        self.disk = LogDisk()
        pages = Random(f"pages {seed}")
        self._due_page = pages.choice((1, 2, 10_000))
        """How many keys a read of an index of due times takes at once."""
        self.server = FakeRedis()
        self.server.page = pages.choice((0, 0, 1, 2))
        self.network = Network(self.scheduler, self.server)
        self.log_server: LogServer | None = None
        """Where the log is, if not in a file."""
        self.patience = 0.0
        self.log_network = LogNetwork(self.scheduler, self.server)
        self.bucket = Bucket(self, Random(f"object store {seed}"))
        self.segments = patches.SegmentFiles()
        self.frozen_files = FrozenDisk()
        self.bodies: list[Any] = []
        """What is frozen in a log on a server."""
        self.settings = self._settings()
        self.places = Places(self, seed)
        self.troubles = Troubles(self)
        self.engines = Engines(self, seed)
        self.history = History()
        self.reads = Reads(self)
        self.answers: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
        """What each part of a frozen query was answered as of a txid."""
        self.lives = 1
        self.logs_gone = set[str]()
        """The uuids of logs that were reset."""
        self.files_lost = False
        """Whether a file of a published snapshot is gone."""
        self.lost_writes = 0
        self.side_disks = SideDisks()
        self.manifests: dict[str, bytes] = {}
        """Those of savepoints, by name."""
        self.saves: Any = None
        """The savepoint of this schedule, and its fork; None for most schedules."""
        self.drivers: list[Driver] = []
        self.over = False
        self.wrong: BaseException | None = None
        self.idle = chance.choice((0.001, 0.05, 0.5))
        """Seconds after which a source that had nothing is asked again."""
        self._next_read = chance.randint(1, 60)
        self._finished_at: float | None = None
        self._reading = False
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
            messageTimeoutSecs=chance.choice((0.5, 10.0, 100.0)),
            commitRetrySecs=chance.choice((None, 0.5, 5.0)),
            keepBatches=chance.choice((0, 1, 3, 1000, 1000)),
            rewindBytes=chance.choice((8, 400, 2 << 30, 2 << 30)),
            clock=self.scheduler,
            uuid="log",
        )

    @property
    def kind(self) -> StateKind:
        return self.setting.kind

    @property
    def writers(self) -> str:
        return self.setting.writers

    @property
    def log_address(self) -> Any:
        return FakeAddress(self.log_network)

    @property
    def ending(self) -> bool:
        """Whether nothing more goes wrong in this schedule."""
        return self._finished_at is not None or self._reading

    def open_store(self, identity: StateIdentity, shape: StateShape, home: Home) -> Store:
        return self.setting.open_store(identity, shape, home, self.network)

    # --- from start to end -------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Run it all, within `patches.machine()`. Raises Wrong, Stuck, or whatever else a broken library raises."""
        Worlds.now = self
        vars(writer)["PUT_KEYS"] = vars(writer)["SLICE_KEYS"] = self.setting.put_keys
        vars(due_index)["_PAGE_KEYS"] = self._due_page
        vars(frozen_parts)["PART_ROWS"] = self.setting.part_rows
        if self.setting.delta is not None:
            self.setting.delta.apply()
            self.bucket.draw()
        scheduler = self.scheduler
        crash_points.listen(self._reached)
        try:
            self.say("sources %s", {name: source.partitions for name, source in self.sources.items()})
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
        result.batches, result.drivers = len(self.history.batches), len(self.drivers)
        result.steps = scheduler.steps
        return result

    def _close(self) -> None:
        self.faults.stop()
        self.troubles.stop()
        self.bucket.stop()
        self._next_read = NEVER
        for process in [*self.scheduler.processes]:
            self.scheduler.kill(process)
            self.scheduler.reap(process)

    def say(self, text: str, *of: object) -> None:
        """A line of the trace, put together as `logging` does it."""
        if self.scheduler.trace is not None:
            self.scheduler.trace(f"*** {text % of}")

    def fail(self, error: BaseException) -> None:
        if self.wrong is None:
            self.say("WRONG: %s", error)
        self.wrong = self.wrong or error

    def _passed(self, process: Process) -> None:
        """A point of input or output at which a read begins or something goes wrong."""
        steps, faults, driver = self.scheduler.steps, self.faults, process.driver
        if steps >= self._next_read:
            self._next_read = steps + self.chance.randint(5, 90)
            self._begin_read()
        trouble = driver is not None and steps >= faults.at and faults.due()
        self.scheduler.alarm = min(self._next_read, faults.at)
        if not trouble:
            return
        try:
            faults.strike(driver)
        except Crashed:
            if process is driver.process:
                raise  # else its executors live a little longer

    def _begin_read(self) -> None:
        self.reads.begin()

    def _reached(self, place: str) -> None:
        """A place of the library's steps."""
        if self.saves is not None:
            self.saves.reached(place)
        self.scheduler.point(place)
        process = self.scheduler.current
        if process is not None and process.driver is not None and process is process.driver.process:
            self._came(process.driver, place)
            self.faults.reached(place, process.driver)

    def _came(self, driver: Driver, place: str) -> None: ...

    # --- drivers -----------------------------------------------------------------------------------------------------

    def _start_driver(self) -> None:
        driver = Driver(self, f"driver {len(self.drivers) + 1}", self.shape)
        self.drivers.append(driver)
        self.say("%s starts: %s", driver.name, driver.shape)
        driver.begin()

    @property
    def _at_work(self) -> list[Driver]:
        return [d for d in self.drivers if d.process.alive and not d.ended]

    def supervise(self) -> None:
        """Start a driver if none is at work."""
        if not self.over and all(driver.process.asleep_until > self.scheduler.now for driver in self._at_work):
            self._next_start()

    def _next_start(self) -> None:
        self._start_driver()

    def accepted(self, driver: Driver) -> None:
        """A driver began."""

    def driver_ended(self, driver: Driver) -> None:
        """A driver stopped, by itself or as it was asked to."""
        error = driver.error
        self.say("%s stopped%s", driver.name, "" if error is None else f" with {type(error).__name__}: {error}")
        why = "again" if error is None or self.engines.stopped(error) else self._why_right(driver, error)
        if why is None:
            self.fail(Wrong(f"{driver.name} stopped for no good reason with {type(error).__name__}: {error}"))
            self.wrong.__cause__ = error  # type: ignore[union-attr]
        elif why == "final":
            self.result.stop = type(error).__name__
            self.over = True
        elif driver is self._satisfied and error is None:
            self._last()
        else:
            self._satisfied = None if driver is self._satisfied else self._satisfied
            self._ended_well(driver)
            self.scheduler.after(self.chance.choice((0.0, 0.2, 1.5)), self.supervise)

    def _why_right(self, driver: Driver, error: BaseException) -> Verdict:
        return why_right(self, driver, error)

    def _ended_well(self, driver: Driver) -> None: ...

    def _last(self) -> None:
        """Everything was there, and the driver under which it was has stopped."""
        self.over = True

    def heard(self, driver: Driver, tell: Callable[[History], None]) -> None:
        """The oracle hears of something that a driver did; of what it does to a log that was given up, nothing."""
        if driver.life != self.lives:
            return
        try:
            tell(self.history)
        except Wrong as error:
            self.fail(error)

    def founded(self, driver: Driver, states: Collection[str]) -> None:
        """A driver created states, in its start."""
        self.heard(driver, lambda history: history.founded(driver.shape, states))

    def taken_over(self, driver: Driver) -> bool:
        """Whether somebody else took the log since this driver did."""
        if driver.life != self.lives or driver.begun is None:
            return True
        return core.lease_of(self) != driver.begun.lease

    def poisons(self, given: Given) -> bool:
        """Whether these tuples always fail."""
        return False

    # --- faults ------------------------------------------------------------------------------------------------------

    def lose_unsynced(self, count: int) -> None:
        """A power loss takes the last writes from the log that no fsync followed."""
        self.side_disks.lose(count)
        if self.log_server is None:
            self.disk.lose(count)
            for (group, txid), batch in self.history.batches.items():
                batch.committed = txid <= max(self.history.begins, core.committed_of(self.disk, group))

    def put_back(self, copy: LogDisk) -> None:
        """The log of a program that stays what it is is replaced by an older copy."""
        self.disk.put_back(copy)
        group = next(iter(self.disk.groups.values()), None)
        self.history.put_back(*((0, 0) if group is None else (group.frozen, group.committed)))

    def down(self, server: FakeRedis | None, lose: int = 0, tag: bytes | None = None, empty: bool = False) -> None:
        """A server goes down, and loses its last writes (those of one hash tag), or all of them."""
        if server is None or not server.up:
            return
        self.lost_writes += server.kill(lose, tag) + empty
        if empty:
            server.forget()
        self.scheduler.after(self.chance.choice((0.0, 0.05, 0.7, 3.0)), lambda: self._up(server))

    def _up(self, server: FakeRedis) -> None:
        server.up = True
        self.say("the server is back")
        self.troubles.wake()

    # --- the end -----------------------------------------------------------------------------------------------------

    @property
    def missing(self) -> dict[str, list[int]]:
        """What no batch has, of the streams of the program."""
        missing = {}
        for stream in self.shape.streams:
            left = self.sources[stream.source].there() - self.history.streams.get(stream.token, set())
            if left:
                missing[stream.name] = sorted(left)
        return missing

    @property
    def _may_finish(self) -> bool:
        """Whether nothing more needs to go wrong."""
        return not self.history.waiting and not self.missing

    def _look(self) -> None:
        """Is everything there? Then read it all and stop."""
        now = self.scheduler.now
        for driver in self.drivers:
            asked = driver.asked_at
            if asked is None or driver.ended or not driver.process.alive or driver.process.asleep_until > asked:
                continue
            if now - asked > core.STOPS_WITHIN:
                raise Stuck(f"{driver.name} was asked to stop {now - asked:.0f} s ago, and has not come to its end")
        late = self._finished_at is not None and now > self._finished_at + _LONG
        if late:
            raise Stuck(
                f"no end: {[d.name for d in self._at_work]} are at work, {self.missing} were never read, "
                f"{self.history.waiting} wait; the last read was refused: {self.reads.refusal}"
            )
        if self._reading or self._satisfied is not None or not self._may_finish:
            return
        if self._finished_at is None:
            self._finished_at = now
            self.faults.stop()
            self.troubles.stop()
            self.bucket.stop()
            for source in self.sources.values():
                source.trouble.clear()
        if self._wait_for_programs() or self.history.waiting or self.missing:
            return
        self._read_if_quiet()

    def _wait_for_programs(self) -> bool:
        """Whether another program is still to come."""
        return False

    def _read_if_quiet(self) -> None:
        """Read everything, if only one driver is at work and nothing is on its way that is late."""
        alive, now = self._at_work, self.scheduler.now
        asleep = any(d.process.asleep_until > now for d in self.drivers if d.process.alive)
        late = self.log_network.late or self.network.late or self.bucket.late
        if asleep or len(alive) != 1 or late or not self.server.up:
            return
        driver = alive[0]
        if driver.run is None or driver.asked_at is not None or not driver.run.resting():
            return
        if self.taken_over(driver):  # a zombie that woke up last: its own memory is as old as its sleep
            driver.stop()
        elif not any(each.workers.at_work for each in self.drivers):
            self._reading = True
            self.reads.begin_all(driver)

    def read_under(self, driver: Driver, found: dict[str, dict[Any, Any]] | None) -> None:
        """Everything was read under this driver, or (None) was refused."""
        if self.history.waiting:
            found = None  # a batch without tuples has begun meanwhile: read again once it is committed
        if found is not None:
            self.check_end(found)
        self._reading = False
        if found is None:
            return
        self.say("everything is there")
        if self._restarts:
            self._restarts -= 1
        elif not driver.ended:  # it may have been taken over while it was read
            self._satisfied = driver
        driver.stop()

    def check_end(self, found: dict[str, dict[Any, Any]]) -> None:
        """Look at what else must be so when everything was read. Raises Wrong."""
