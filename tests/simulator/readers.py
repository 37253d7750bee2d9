"""Readers outside: states in memory, followed over the log, which stay open over drops, resets and restarts."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulator import core
from tests.simulator.history import State, Values
from tests.simulator.reads import scanned
from tests.simulator.scheduler import Crashed, Pool, Process, Wrong
from trident.base.errors import LogError, StateError

if TYPE_CHECKING:
    from tests.simulator.changing import Changing


class Readers:
    """One open reader a state."""

    def __init__(self, world: "Changing") -> None:
        self._world = world
        self._pool = Pool(world.scheduler, Process("reader"), "reader", 1)
        self._open: dict[str, Any] = {}
        world.scheduler.processes.append(self._pool.process)

    def begin(self) -> None:
        """Begin a read of some state."""
        world = self._world
        states = [state for state in world.history.states if world.setting.homes[state] == "memory"]
        states += [state for state in self._open if state not in states]
        if states and not self._pool.work and not self._pool.running:
            self._pool.submit(self._read, world.chance.choice(states), world.chance.random() < 0.05)

    def last(self, then: Callable[[], None]) -> None:
        """Everything, by readers that are opened now and by those that were open; then the schedule is over."""
        self._pool.submit(self._read_last, then)

    def _read_last(self, then: Callable[[], None]) -> None:
        self._world.scheduler.wait(lambda: self._world.log_network.server.up, 10.0)
        states = [state for state in self._world.shape.states if self._world.setting.homes[state] == "memory"]
        for state in states:
            self._read(state, False)
            if not self._read(state, True):
                self._world.fail(Wrong(f"a reader of {state!r} that is opened when all is done is refused"))
        then()

    def _read(self, state: str, anew: bool) -> bool:
        """Look at a state, and whether that is what a batch left; False where it was refused."""
        world = self._world
        before = world.history.states.get(state)
        try:
            if anew or state not in self._open:
                self._open.pop(state, None)
                self._open[state] = core.reader(world, state)
            replica = self._open[state]
            txid = replica.committed()
            found = scanned(replica.scan(txid), world.shape.shown(state))
        except Crashed:
            raise
        except (StateError, LogError) as error:
            world.say("a reader of %s was refused: %s: %s", state, type(error).__name__, error)
            if world.chance.random() < 0.3:
                self._open.pop(state, None)
            return False
        except BaseException as error:
            world.fail(error)
            return False
        world.result.reads += 1
        world.say("a reader of %s found %s as of %s", state, found, txid)
        if world.history.states.get(state) is before or not _was(before, found, txid):
            try:
                world.history.check(state, found, txid, "a reader outside")
            except Wrong as error:
                world.fail(error)
        return True


def _was(state: State | None, found: Values, txid: int) -> bool:
    """Whether a state that began anew meanwhile held this."""
    if state is None:
        return not found
    return found in state.as_of(txid)
