"""What goes wrong beside the changes of the program."""

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from tests.simulator.scheduler import Crashed

if TYPE_CHECKING:
    from tests.simulator.changing.driver import Driver
    from tests.simulator.changing.world import World

NEVER = 1 << 60

_OUTPUTS = ("output.before", "output.after")
_WINDOWS = ("run.before", "emit.before", "freeze.after", "commit.before", "commit.stage.before", *_OUTPUTS)
"""Where a driver ends while a batch is under way, or waits: what the next program finds then."""


class Faults:
    """The faults of a schedule. `at`: the point of input or output of the next one. As many ends of drivers are among
    them as the program has changes."""

    def __init__(self, world: "World", changes: int) -> None:
        self._world, self._chance = world, world.chance
        kinds = [kind for kind, weight in _FAULTS.items() if self._fits(kind)]
        weights = list(accumulate(_FAULTS[kind] for kind in kinds))
        others = self._chance.choice((0, 0, 1, 2, 3, 5))
        self._left = self._chance.choices(kinds, cum_weights=weights, k=others) if others else []
        self._left += self._chance.choices(("driver killed", "stop asked", "power lost"), (5, 3, 2), k=changes)
        if world.loose:  # turns that are repeated behind the query, while the other group goes on
            self._left += ["output raises"] * self._chance.choice((2, 4, 8))
        self._chance.shuffle(self._left)
        if world.log_server is not None and self._chance.random() < 0.5:
            self._left.append("log's network")  # the first one: while states are founded
        self._seldom = self._chance.choice((4, 15, 40))
        self.at = self._gap()
        self.log_write: str | None = None
        self._worker: dict[bool, str | float] = {}
        self.outputs: list[str | float] = []
        self._armed = "", ""
        """What happens when a driver comes to some place, and the place."""

    def _fits(self, kind: str) -> bool:
        world = self._world
        if kind == "log fails":
            return world.log_server is None
        if kind in ("log's network", "log's server killed"):
            return world.log_server is not None
        if kind == "server rewound":
            return world.settings.rewindBytes > 1000 and world.settings.keepBatches == 1000
        return True

    def _gap(self) -> int:
        return self._world.scheduler.steps + 1 + int(self._chance.expovariate(1 / self._seldom))

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
        self.at = self._gap() if self._left else NEVER
        return bool(self._left)

    def strike(self, driver: "Driver") -> None:
        """Something goes wrong while this driver is at work."""
        kind, world = self._left.pop(), self._world
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
            case "network":
                world.network.fault = self._chance.choice(("refused", "cut", "cut", "late", "error"))
            case "log's network":
                world.log_network.fault = self._chance.choice(
                    ("refused", "cut", "late", "late", "twice", "twice", "twice")
                )
            case "log's server killed":
                world.down(world.log_server, 0)
            case "server killed":
                world.down(world.server, 0)
            case "server rewound":
                world.down(world.server, self._chance.choice((1, 3, 8)))
            case "log fails":
                self.log_write = self._chance.choice(("before", "after"))
            case "disk full":
                world.segments.full = True
            case "function raises" | "function hangs":
                trouble: str | float = "raises" if kind.endswith("raises") else self._seconds()
                self._worker[self._chance.random() < 0.5] = trouble
            case "spout raises" | "spout hangs":
                source = world.sources[self._chance.choice(list(world.sources))]
                many = self._chance.choice((1, 1, 2))
                source.trouble += ["raises"] * many if kind.endswith("raises") else [self._seconds()]
            case "output raises" | "output hangs":
                self.outputs.append("raises" if kind.endswith("raises") else self._seconds())
            case "source forgets":
                world.sources[self._chance.choice(list(world.sources))].forget()

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

    def _seconds(self) -> float:
        return float(self._chance.choice((0.3, 3.0, 30.0, 120.0, 120.0)))

    def of_log(self, what: str) -> str | None:
        """Whether a write of the log fails, and when."""
        fault, self.log_write = self.log_write, None
        return fault

    def of_worker(self, stage: int) -> str | float | None:
        """Whether a user's function raises or hangs in this stage."""
        return self._worker.pop(stage > 1, None)

    def _killed(self, driver: "Driver") -> None:
        world = self._world
        world.scheduler.kill(driver.process)
        world.scheduler.after(0.0, partial(world.scheduler.reap, driver.process))
        world.scheduler.after(self._chance.choice((0.0, 0.1, 1.5)), world.supervise)
        raise Crashed

    def _power(self) -> None:
        """The drivers' machine loses power, and its log what no fsync secured."""
        world = self._world
        for driver in world.drivers:
            world.scheduler.kill(driver.process)
            world.scheduler.after(0.0, partial(world.scheduler.reap, driver.process))
        world.lose_unsynced(self._chance.randint(0, len(world.disk.unsynced)))
        world.scheduler.after(self._chance.choice((0.0, 1.5)), world.supervise)
        raise Crashed


_FAULTS = {
    "driver killed": 14,
    "stop asked": 6,
    "power lost": 8,
    "zombie": 6,
    "network": 5,
    "log's network": 30,
    "log's server killed": 5,
    "server killed": 3,
    "server rewound": 4,
    "log fails": 4,
    "disk full": 3,
    "function raises": 6,
    "function hangs": 5,
    "spout raises": 5,
    "spout hangs": 4,
    "output raises": 4,
    "output hangs": 6,
    "source forgets": 2,
}
