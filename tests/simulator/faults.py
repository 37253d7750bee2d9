"""What goes wrong in a schedule, drawn by chance: when, what, and how badly."""

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from tests.simulator.fake_log import LogDisk
from tests.simulator.scheduler import Crashed
from trident.batches import events as on

if TYPE_CHECKING:
    from tests.simulator.driver import Driver
    from tests.simulator.world import World

NEVER = 1 << 60


class Faults:
    """The faults of a schedule that are still to come. `at`: the point of input or output of the next one."""

    def __init__(self, world: "World") -> None:
        self._world, self._chance = world, world.chance
        self._left = self._chance.choice((0, 1, 2, 3, 4, 6, 9))
        self.at = self._gap()
        self._worker: str | None = None
        self._log_write: str | None = None
        self._copy: LogDisk | None = None

    def _gap(self) -> int:
        return self._world.scheduler.steps + 1 + int(self._chance.expovariate(1 / self._chance.choice((4, 20, 60))))

    def stop(self) -> None:
        """No more of them."""
        self._left, self.at = 0, NEVER

    def due(self) -> bool:
        """Whether there is one here, where `at` is reached; and draw the next one."""
        trouble = self._left > 0
        self._left -= trouble
        self.at = self._gap() if trouble else NEVER
        return trouble

    def strike(self, driver: "Driver") -> None:
        """Something goes wrong while this driver is at work."""
        kind = self._chance.choices(_KINDS, cum_weights=_WEIGHTS)[0]
        if self._copy is None and self._world.setting.copies:
            self._copy = self._world.disk.copy()
        if self._copy is not None and self._chance.random() < 0.4:
            kind = "log copied"
        self._world.say("fault: %s", kind)
        self._world.result.faults[kind] += 1
        self._world.seen.kinds.add(kind)
        _FAULTS[kind](self, driver)

    def of_log(self, what: str) -> str | None:
        """Whether a write of the log fails, and when."""
        fault, self._log_write = self._log_write, None
        return fault

    def of_worker(self, stage: int) -> str | None:
        """Whether a worker fails, or is slow."""
        fault, self._worker = self._worker, None
        return fault

    # --- drivers -------------------------------------------------------------------------------------------------

    def _kill_all(self) -> None:
        """The machine of all drivers is gone, zombies on it too."""
        world = self._world
        for driver in world.drivers:
            world.scheduler.kill(driver.process)
            driver.workers.leave()
        for driver in world.drivers:
            world.scheduler.after(0.0, partial(world.scheduler.reap, driver.process))

    def _crash(self, driver: "Driver") -> None:
        """SIGKILL: what the operating system holds stays."""
        world = self._world
        world.scheduler.kill(driver.process)
        world.scheduler.after(0.0, partial(world.scheduler.reap, driver.process))
        driver.workers.leave()
        world.scheduler.after(self._chance.choice((0.0, 0.1, 1.5)), world.supervise)
        raise Crashed

    def _power(self, driver: "Driver") -> None:
        """The drivers' machine loses power, and with it what no fsync secured."""
        world = self._world
        self._kill_all()
        world.disk.lose(self._chance.randint(0, len(world.disk.unsynced)))
        world.scheduler.after(self._chance.choice((0.0, 1.5)), world.supervise)
        raise Crashed

    def _zombie(self, driver: "Driver") -> None:
        """The driver stands still; another one is started; it wakes up and goes on."""
        scheduler = self._world.scheduler
        driver.process.asleep_until = scheduler.now + self._chance.choice((0.02, 0.2, 2.0, 5.0))
        scheduler.after(self._chance.choice((0.0, 0.01)), self._world.supervise)

    def _stop_asked(self, driver: "Driver") -> None:
        if driver.run is not None:
            driver.run.post(on.StopAsked())

    # --- files ---------------------------------------------------------------------------------------------------

    def _files(self, driver: "Driver") -> None:
        """A power loss that takes a file of a snapshot with it."""
        segments = self._world.segments
        files = sorted(segments.files)
        if files:
            del segments.files[self._chance.choice(files)]
            self._world.seen.files_lost = True
        self._power(driver)

    def _take_copy(self, driver: "Driver") -> None:
        """Somebody copies the log; or puts the copy back while no driver runs."""
        world = self._world
        if self._copy is None:
            self._copy = world.disk.copy()
            return
        self._kill_all()
        world.disk.put_back(self._copy)
        group = world.disk.groups.get(world.setting.group)
        world.oracle.forget(0 if group is None else group.frozen)
        world.seen.copied = True
        world.scheduler.after(0.1, world.supervise)
        raise Crashed

    def _log(self, driver: "Driver") -> None:
        self._log_write = self._chance.choice(("before", "after"))

    def _file_full(self, driver: "Driver") -> None:
        self._world.segments.full = True

    # --- the server ----------------------------------------------------------------------------------------------

    def _server_down(self, lose: int, tag: bytes | None = None, empty: bool = False) -> None:
        world = self._world
        if not world.server.up:
            return
        lost = world.server.kill(lose, tag)
        if empty:
            world.server.forget()
            lost += 1
        world.seen.lost_writes += lost
        world.scheduler.after(self._chance.choice((0.0, 0.05, 0.7, 3.0)), self._server_up)

    def _server_up(self) -> None:
        self._world.server.up = True
        self._world.say("the server is back")
        self._world.troubles.wake()

    def _server_kill(self, driver: "Driver") -> None:
        self._server_down(0)

    def _server_rewind(self, driver: "Driver") -> None:
        self._server_down(self._chance.choice((1, 2, 3, 5, 8, 13, 30, 100)))

    def _server_node(self, driver: "Driver") -> None:
        """One hash tag's writes are lost."""
        setting = self._world.setting
        state = self._chance.choice(sorted(setting.homes))
        tag = f"{{sim/{state}/{self._chance.randrange(setting.groups)}}}" if setting.groups > 1 else f"{{sim/{state}}}"
        self._server_down(self._chance.choice((1, 3, 8, 30, 1000)), tag.encode())

    def _server_empty(self, driver: "Driver") -> None:
        self._server_down(0, empty=True)

    def _net(self, driver: "Driver") -> None:
        self._world.network.fault = self._chance.choice(("refused", "cut", "cut", "late", "late", "error", "error"))

    # --- workers and sources -------------------------------------------------------------------------------------

    def _fails(self, driver: "Driver") -> None:
        self._worker = "fails"

    def _slow(self, driver: "Driver") -> None:
        self._worker = "slow"

    def _spout(self, driver: "Driver") -> None:
        self._chance.choice(list(self._world.setting.sources.values())).broken = self._chance.choice((1, 1, 2))


_FAULTS: dict[str, Callable[[Faults, "Driver"], None]] = {
    "driver killed": Faults._crash,
    "power lost": Faults._power,
    "zombie": Faults._zombie,
    "stop asked": Faults._stop_asked,
    "server killed": Faults._server_kill,
    "server rewound": Faults._server_rewind,
    "one hash tag rewound": Faults._server_node,
    "server emptied": Faults._server_empty,
    "network": Faults._net,
    "attempt fails": Faults._fails,
    "attempt late": Faults._slow,
    "spout fails": Faults._spout,
    "log fails": Faults._log,
    "disk full": Faults._file_full,
    "snapshot lost": Faults._files,
    "log copied": Faults._take_copy,
}
_KINDS = tuple(_FAULTS)
_WEIGHTS = tuple(accumulate((14, 8, 12, 3, 3, 10, 6, 2, 18, 12, 8, 5, 3, 3, 1, 1)))
