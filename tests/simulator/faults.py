"""What goes wrong in a schedule beside the changes of its program, drawn by chance: when, what, and how badly."""

from functools import partial
from typing import TYPE_CHECKING

from tests.simulator.fake_log import LogDisk
from tests.simulator.scheduler import Crashed

if TYPE_CHECKING:
    from tests.simulator.driver import Driver
    from tests.simulator.world import World

NEVER = 1 << 60

_OUTPUTS = ("output.before", "output.after")
_WINDOWS = ("run.before", "emit.before", "freeze.after", "commit.before", "commit.stage.before", *_OUTPUTS)
"""Where a driver ends while a batch is under way, or waits: what the next program finds then."""

WEIGHTS = {
    "driver killed": (14, 14),
    "power lost": (8, 8),
    "zombie": (12, 6),
    "stop asked": (3, 6),
    "network": (18, 5),
    "log's network": (0, 30),
    "log's server killed": (0, 5),
    "server killed": (3, 3),
    "server rewound": (10, 4),
    "one hash tag rewound": (6, 0),
    "server emptied": (2, 0),
    "function raises": (12, 6),
    "function hangs": (8, 5),
    "spout raises": (5, 5),
    "spout hangs": (0, 4),
    "output raises": (0, 4),
    "output hangs": (0, 6),
    "source forgets": (0, 2),
    "log fails": (3, 4),
    "disk full": (3, 3),
    "snapshot lost": (1, 0),
    "log copied": (1, 0),
}
"""How often each is drawn: for a program that stays what it is, and for one that changes."""


class Faults:
    """The faults of a schedule that are still to come, the next one last. `at`: the point of input or output of that
    one. `hangs`: the seconds for which user code may not come back."""

    def __init__(self, world: "World", left: list[str], hangs: tuple[float, ...], copies: bool = False) -> None:
        self._world, self._chance, self._left, self._hangs = world, world.chance, left, hangs
        self.at = self._gap()
        self.outputs: list[str | float] = []
        self._log_write: str | None = None
        self._worker: dict[bool, str | float] = {}
        self._armed = "", ""
        """What happens when a driver comes to some place, and the place."""
        self._copies = copies
        """Whether the log is copied with the first fault, and may be put back with each."""
        self._copy: LogDisk | None = None

    def _gap(self) -> int:
        seldom = self._chance.choice((4, 20, 60))
        return self._world.scheduler.steps + 1 + int(self._chance.expovariate(1 / seldom))

    @property
    def over(self) -> bool:
        return not self._left

    def stop(self) -> None:
        """No more of them."""
        self._left, self.at = [], NEVER
        self._armed = "", ""
        self.outputs.clear()
        self._worker.clear()

    def due(self) -> bool:
        """Whether there is one here, where `at` is reached; and draw the next one's place."""
        self.at = self._gap() if self._left else NEVER
        return bool(self._left)

    def strike(self, driver: "Driver") -> None:
        """Something goes wrong while this driver is at work."""
        kind, world = self._left.pop(), self._world
        if self._copies:
            kind = "log copied" if self._copy is not None and self._chance.random() < 0.4 else kind
            self._copy = self._copy or world.disk.copy()
        world.say("fault: %s", kind)
        world.result.faults[kind] += 1
        match kind:
            case "driver killed" | "stop asked" if self._chance.random() < 0.5:
                self._armed = kind, self._chance.choice(_WINDOWS)
            case "driver killed":
                self._killed(driver)
            case "stop asked":
                driver.stop()
            case "power lost":
                self._power()
            case "zombie":
                driver.process.asleep_until = world.scheduler.now + self._chance.choice((0.02, 0.2, 2.0, 5.0))
                world.scheduler.after(self._chance.choice((0.0, 0.01)), world.supervise)
            case "snapshot lost":
                files = sorted(world.segments.files)
                if files:
                    del world.segments.files[self._chance.choice(files)]
                    world.files_lost = True
                self._power()
            case "log copied":
                self._take_copy()
            case _:
                self._strike_others(kind)

    def _strike_others(self, kind: str) -> None:
        """Something goes wrong that is not the drivers' machine."""
        world, choice = self._world, self._chance.choice
        match kind:
            case "network":
                world.network.fault = choice(("refused", "cut", "cut", "late", "late", "error", "error"))
            case "log's network":
                world.log_network.fault = choice(("refused", "cut", "late", "late", "twice", "twice", "twice"))
            case "log's server killed":
                world.down(world.log_server)
            case "server killed":
                world.down(world.server)
            case "server rewound":
                world.down(world.server, choice((1, 2, 3, 5, 8, 13, 30, 100)))
            case "one hash tag rewound":
                world.down(world.server, choice((1, 3, 8, 30, 1000)), world.setting.tag())
            case "server emptied":
                world.down(world.server, empty=True)
            case "log fails":
                self._log_write = choice(("before", "after"))
            case "disk full":
                world.segments.full = True
            case "function raises" | "function hangs":
                self._worker[self._chance.random() < 0.5] = self._trouble(kind)
            case "spout raises" | "spout hangs":
                world.sources[choice(list(world.sources))].trouble += [self._trouble(kind)] * choice((1, 1, 2))
            case "output raises" | "output hangs":
                self.outputs.append(self._trouble(kind))
            case "source forgets":
                world.sources[choice(list(world.sources))].forget()

    def _trouble(self, kind: str) -> str | float:
        return "raises" if kind.endswith("raises") else float(self._chance.choice(self._hangs))

    def reached(self, place: str, driver: "Driver") -> None:
        """A driver is at a place of its steps where somebody may be waiting for one."""
        kind, where = self._armed
        if place == where:
            self._armed = "", ""
            self._world.say("%s at %s", kind, place)
            if kind == "stop asked":
                driver.stop()
            else:
                self._killed(driver)

    def of_log(self, what: str) -> str | None:
        """Whether a write of the log fails, and when."""
        fault, self._log_write = self._log_write, None
        return fault

    def of_worker(self, stage: int) -> str | float | None:
        """Whether a user's function raises or hangs in this stage: the first one, or a later one."""
        return self._worker.pop(stage > 1, None)

    # --- drivers -------------------------------------------------------------------------------------------------

    def _killed(self, driver: "Driver") -> None:
        """SIGKILL: what the operating system holds stays."""
        self._end(driver)
        self._world.scheduler.after(self._chance.choice((0.0, 0.1, 1.5)), self._world.supervise)
        raise Crashed

    def _end(self, driver: "Driver") -> None:
        scheduler = self._world.scheduler
        scheduler.kill(driver.process)
        scheduler.after(0.0, partial(scheduler.reap, driver.process))
        driver.workers.leave()

    def _power(self) -> None:
        """The drivers' machine loses power, and its log what no fsync secured."""
        world = self._world
        for driver in world.drivers:
            self._end(driver)
        world.lose_unsynced(self._chance.randint(0, len(world.disk.unsynced)))
        world.scheduler.after(self._chance.choice((0.0, 1.5)), world.supervise)
        raise Crashed

    def _take_copy(self) -> None:
        """Somebody copies the log; or puts the copy back while no driver runs, nor a zombie."""
        world = self._world
        if self._copy is None:
            self._copy = world.disk.copy()
            return
        for driver in world.drivers:
            self._end(driver)
        world.put_back(self._copy)
        world.scheduler.after(0.1, world.supervise)
        raise Crashed
