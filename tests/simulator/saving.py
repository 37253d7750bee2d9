"""Savepoints of a run, and the fork that is made of one, or the return to it.

A savepoint is taken beside batches, faults and other drivers, and must hold what the log froze up to its txid: the
states and the positions. When everything of the first topology is there, its life ends, and that of a fork begins at
the savepoint: the schedule goes on with it, with faults of its own. Or the topology itself goes back to the savepoint,
by the library's restore, and reads the later tuples again.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulator.driver import Driver
from tests.simulator.fake_log import FakeLog, LogDisk
from tests.simulator.history import History
from tests.simulator.reads import found_of
from tests.simulator.saved_files import SavedFiles
from tests.simulator.scheduler import Crashed, Pool, Process, Wrong
from tests.simulator.spouts import ends_of
from trident.access.forking import _Fork
from trident.access.restored_streams import RestoredStreams
from trident.access.restoring import _Restore
from trident.base import errors
from trident.base.crash_points import FORK_POINTS, RESTORE_POINTS, SAVEPOINT_POINTS
from trident.recovery.fork_origin import Origin
from trident.recovery.savepoint import Savepoint, content_of_state, read_savepoint

if TYPE_CHECKING:
    from tests.simulator.staying import Staying

SAVED = 0.15
"""In how many schedules a savepoint is taken."""
RESTORED = 0.4
"""In how many of these the topology goes back to it."""
_NAME = "before"
_PASSING = (errors.TridentError, TimeoutError)


class Saves:
    """The savepoint of a schedule, and its fork, drawn by chance of their own."""

    def __init__(self, world: "Staying", seed: int) -> None:
        self._world, self._dice = world, Random(f"savepoint {seed}")
        self._tries = 0
        self._saved: Savepoint | None = None
        self._history: History | None = None
        """What was frozen up to the savepoint's txid."""
        self._deaths = self._dice.choice((0, 0, 1, 1, 2))
        """How often the fork dies while it is made."""
        self._first: History | None = None
        """Return the batches that were frozen in the first topology, once the fork has begun."""
        self._before: dict[Any, Any] = {}
        """The data of the first topology on the server."""
        self.forked = False
        self.restores = Random(f"restore {seed}").random() < RESTORED
        """True if the topology itself is restored to the savepoint, False if a fork of it is made."""
        self._is_made = False
        self._again()

    # --- the savepoint -------------------------------------------------------------------------------------------

    def _again(self) -> None:
        self._world.scheduler.after(self._dice.choice((0.01, 0.03, 0.1, 0.3)), self._begin)

    def _begin(self) -> None:
        """Take it under some driver, as its user would; a zombie's does not know better."""
        world = self._world
        if world.ending or world.over or self._saved is not None or self._tries > 40:
            return
        able = [d for d in world.drivers if d.process.alive and d.saving is not None and not d.ended]
        self._tries += 1
        if self._dice.random() < 0.15:
            self._rewind()
        if able:
            driver = self._dice.choice(able)
            if self._dice.random() < 0.3:
                world.scheduler.after(self._dice.uniform(0.0, 0.02), partial(self._sleep, driver))
            world.scheduler.in_fiber(driver.process, partial(self._take, driver))
        self._again()

    def _sleep(self, driver: Driver) -> None:
        """A driver stands still in the middle of a savepoint, and another one takes over."""
        world = self._world
        if driver.process.alive and not world.ending:
            world.result.faults["zombie"] += 1
            driver.process.asleep_until = world.scheduler.now + self._dice.choice((0.2, 2.0))
            world.scheduler.after(0.0, world.supervise)

    def reached(self, place: str) -> None:
        """A savepoint or a fork has come to a place: its driver sleeps there, or whoever makes the fork dies."""
        process = self._world.scheduler.current
        if process is None:
            return
        if place in SAVEPOINT_POINTS and process.driver is not None and self._dice.random() < 0.15:
            self._sleep(process.driver)
        if place in (*FORK_POINTS, *RESTORE_POINTS) and self._deaths and self._dice.random() < 0.3:
            self._deaths -= 1
            self._die(process)

    def _rewind(self) -> None:
        """The server loses its last writes just before a savepoint, so that its states are not healed yet."""
        world = self._world
        if "redis" in world.setting.homes.values() and world.server.up:
            world.result.faults["server rewound"] += 1
            world.down(world.server, self._dice.choice((1, 2, 3, 5, 8)))

    def _take(self, driver: Driver) -> None:
        world = self._world
        name = _NAME if self._dice.random() < 0.8 else f"{_NAME}{self._tries}"
        try:
            saved = driver.saving.take(name, self._dice.choice((0.5, 5.0, None)))
        except Crashed:
            return
        except _PASSING as error:  # its user tries again later
            world.say("%s: no savepoint: %s: %s", driver.name, type(error).__name__, error)
            return
        except BaseException as error:
            world.fail(error)
            return
        try:
            self._check(driver, saved)
        except (Wrong, errors.TridentError) as error:
            world.fail(error)

    def _check(self, driver: Driver, saved: Savepoint) -> None:
        """The states and the positions are those after the savepoint's txid. Raises Wrong."""
        world, place, history = self._world, SavedFiles(), self._history_of(driver)
        txid = saved.groups[world.group]
        world.say("%s: savepoint %s as of txid %s", driver.name, saved.name, txid)
        world.result.faults["savepoint"] += 1
        if read_savepoint(place, saved.name) != saved:
            raise Wrong(f"savepoint {saved.name!r} is read as another one than was written")
        if txid and (world.group, txid) not in history.batches:
            raise Wrong(f"savepoint {saved.name!r} is as of txid {txid}, frozen are {[*history.batches]}")
        for state in driver.shape.states:
            table = content_of_state(place, saved, state)
            keys = table.drop_columns(table.column_names[-1])
            found = found_of(keys, table.column(table.num_columns - 1).combine_chunks(), driver.shape.shown(state))
            history.check(state, found, txid, f"savepoint {saved.name!r}")
        for stream in driver.shape.streams:
            ends = ends_of(saved.streams[stream.name].record.position)
            partitions = world.sources[stream.source].partitions.items()
            read = {row[1] for name, entries in partitions for row in entries[: ends.get(name, 0)] if row is not None}
            given = _numbers(history, stream.token, txid)
            if read != given:
                raise Wrong(f"savepoint {saved.name!r}: {stream.name!r} stands after {read}, and {given} froze")
        if self._saved is None and not self.forked:
            self._saved, self._history = saved, history.up_to(txid)

    def _history_of(self, driver: Driver) -> History:
        """Return the batches frozen in a driver's topology. One of the first may end its savepoint beside the fork."""
        if self._first is None or driver.life == self._world.lives:
            return self._world.history
        return self._first

    # --- the fork ------------------------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """True if a start must wait: the fork does not exist yet, or the topology is not restored yet.

        A start before the fork would make a new topology; one before the restore would continue the former life.
        """
        return self.forked and (not self._is_made if self.restores else self._world.disk.origin is None)

    @property
    def ready(self) -> bool:
        """Whether a fork can be made."""
        return self._saved is not None and not self.forked

    def fork(self) -> None:
        """End the life of the first topology, and begin that of the fork, or another one of its own."""
        world = self._world
        assert self._history is not None
        self.forked = True
        self._first, self._before = world.history, self._of_first()
        if self.restores:
            world.begin_again(self._history)
        else:
            world.begin_fork(self._history, LogDisk(uuid="fork"))
        self._make()

    def _make(self) -> None:
        """Make the fork, in a process that may die."""
        world, process = self._world, Process("forker")
        world.scheduler.processes.append(process)
        Pool(world.scheduler, process, "fork", 1).submit(self._made)
        if self._deaths:
            self._deaths -= 1
            world.scheduler.after(self._dice.choice((0.001, 0.002, 0.004, 0.008)), partial(self._die, process))

    def _die(self, process: Process) -> None:
        world = self._world
        if not process.alive or not any(pool.running for pool in process.pools):
            return
        if self._is_made:
            return
        world.say("the fork dies while it is made")
        world.scheduler.kill(process)
        world.scheduler.after(0.0, partial(world.scheduler.reap, process))
        world.scheduler.after(0.0, self._make)
        if self._dice.random() < 0.5 and not self.waits:
            world.scheduler.after(0.0, world.supervise)  # somebody starts it nevertheless

    def _made(self) -> None:
        world, saved = self._world, self._saved
        assert saved is not None
        origin = Origin(saved.id, saved.name, saved.topology, False, saved.outputs)
        log: Any = FakeLog(world.disk, world.scheduler, lambda what: None)
        place: Any = SavedFiles()
        settings = replace(world.settings, uuid=log.uuid)
        try:
            if self.restores:
                new = {name for name, stream in saved.streams.items() if stream.record.position is None}
                streams = RestoredStreams(saved, new & world.disk.members.streams.keys(), ())
                _Restore(saved, place, streams, settings, log).make(force=True)
                world.history.restored_at(world.disk.groups[world.group].committed)
                world.result.faults["restored"] += 1
            else:
                _Fork(saved, place, origin, settings, log, ()).make()
        except Crashed:
            raise
        except errors.SavepointError as error:
            if "is complete" not in str(error):  # else it died after its last write
                world.fail(error)
        except BaseException as error:
            world.fail(error)
        self._is_made = True
        world.say("the fork is made")
        world.scheduler.after(self._dice.choice((0.0, 0.1)), world.supervise)

    def why_right(self, error: BaseException) -> bool:
        """Return whether a start was right to end with this error: the fork is not made yet."""
        return self.forked and isinstance(error, errors.SavepointError) and "was not completed" in str(error)

    def check_first(self) -> None:
        """The fork has not touched the data of the first topology. Raises Wrong."""
        if self.forked and not self.restores and not self._world.lost_writes and self._of_first() != self._before:
            raise Wrong("the fork has changed the states of the first topology")

    def _of_first(self) -> dict[Any, Any]:
        world = self._world
        tables = {name: held for name, held in world.bucket.objects.items() if name.startswith("sim://states/sim/")}
        held = {name: dict(held) for name, held in world.server.data.items() if name.startswith(b"p:{sim/")}
        return {**held, **tables}


def _numbers(history: History, token: str, txid: int) -> set[int]:
    batches: Iterable[Any] = (batch for (_, at), batch in history.batches.items() if at <= txid)
    return {seq for batch in batches for _, seq in batch.given.get(token, ())}
