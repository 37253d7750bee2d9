"""One schedule of a program that changes: between two starts it becomes another one, and everything comes out exact, or
is refused with a way out that works."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from random import Random
from typing import Any

from tests.simulator import patches
from tests.simulator.changing import core, programs
from tests.simulator.changing.driver import Driver
from tests.simulator.changing.faults import NEVER, Faults
from tests.simulator.changing.history import History
from tests.simulator.changing.logs import LogNetwork, LogServer
from tests.simulator.changing.places import Places
from tests.simulator.changing.programs import Changes, Shape, groups_of
from tests.simulator.changing.readers import Readers
from tests.simulator.changing.spouts import Source, sources_of
from tests.simulator.fake_log import LogDisk
from tests.simulator.fake_redis import FakeRedis
from tests.simulator.frozen_disk import FrozenDisk
from tests.simulator.in_world import Worlds
from tests.simulator.network import FakeAddress, Network
from tests.simulator.oracle import Wrong
from tests.simulator.scheduler import Crashed, Pool, Process, Scheduler, Stuck
from tests.simulator.world import Result
from trident.base import crash_points
from trident.base.errors import FencedError, LogError, StateAheadError, TridentError
from trident.configuration.settings import Settings
from trident_state.memory.store import MemoryStore, Pace
from trident_state.redis import writer
from trident_state.redis.layout import Layout
from trident_state.redis.store import RedisStore
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home, Store

_LOOKED = 8
_AGAIN = 6
"""So many starts in a row may fail without a fault."""
_LONG = 400.0
"""Seconds in which everything is done, once nothing goes wrong any more."""


class World:
    """A schedule. Everything that chance decides is decided by `seed`. `loose`: its program begins with a loose query
    of another group's state."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None, loose: bool = False) -> None:
        self.result = Result(seed)
        self.scheduler = Scheduler(seed)
        if trace is not None:
            self.scheduler.trace = lambda text: trace(f"{self.scheduler.now:10.4f} {text}")
        self.scheduler.passed = self._passed  # type: ignore[method-assign]
        self.chance = chance = self.scheduler.random
        Worlds.now = None
        self.disk = LogDisk()
        self.server = FakeRedis()
        self.network = Network(self.scheduler, self.server)
        in_redis = chance.random() < 0.4
        self.log_server = LogServer(self) if in_redis else None
        self.log_network = LogNetwork(self.scheduler, self.log_server or self.server)
        self.log_address: Any = FakeAddress(self.log_network)
        self.patience = chance.choice((0.0, 2.0))
        self.segments = patches.SegmentFiles()
        self.frozen_files = FrozenDisk()
        self.bodies: list[Any] = []
        """What is frozen in a log on a server."""
        self.settings = self._settings()
        self.kind = chance.choice((StateKind.OPAQUE, StateKind.TRANSACTIONAL))
        homes = chance.choice((("memory",), ("redis",), ("memory", "redis")))
        self.homes = {state: chance.choice(homes) for state in (*programs.STATES, "totals")}
        self._pace = Pace(chance.choice((1, 2**30)), chance.choice((0.5, 30.0)), chance.choice((2, 500)))
        self.sources = sources_of(chance, gaps=chance.random() < 0.3)
        for source in self.sources.values():
            if chance.random() < 0.6:  # the rest comes later
                source.shown = {p: chance.randint(0, shown) for p, shown in source.shown.items()}
                self.scheduler.after(chance.choice((0.05, 0.5, 3.0)), source.show_all)
            if self.settings.messageTimeoutSecs > 1 and chance.random() < 0.2:
                source.slow = 0.6  # so that one plan reads no more than a page or two
        self._draw_falls(seed)
        self.places = Places(self, seed)
        self.loose = loose
        self.shape = programs.first(chance, list(self.sources), loose)
        """The program of the next start."""
        self._changes = Changes(chance, self.shape, list(self.sources))
        self._to_change = chance.choice((1, 1, 2, 3, 4))
        self.history = History()
        self.lives = 1
        self.logs_gone = set[str]()
        """The uuids of logs that were reset."""
        self.drivers: list[Driver] = []
        self._operators = Process("operator")
        self.scheduler.processes += [self._operators, self.network.process, self.log_network.process]
        self.over = False
        self.wrong: BaseException | None = None
        self.scheduler.in_fibers = 1.0  # user code may hang anywhere
        self.scheduler.pausing = chance.choice((0.1, 0.4))
        self.idle = chance.choice((0.05, 0.5))
        self.faults = Faults(self, self._to_change)
        self.readers = Readers(self)
        self._next_read = chance.randint(1, 60)
        self._accepted: list[Shape] = []
        """The programs that a driver began with, without those that were refused."""
        self._homes_shape: dict[str, Shape] = {}
        self._ways: list[str] = []
        self._way = ""
        self._message = ""
        self._refused_shape: Shape | None = None
        self._failures = 0
        self._finished_at: float | None = None
        self._reading = False
        self._satisfied: Driver | None = None
        self._restarts = chance.choice((0, 0, 1))
        self._tokens = 0

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
            keepBatches=chance.choice((0, 3, 1000, 1000)),
            rewindBytes=chance.choice((8, 400, 2 << 30, 2 << 30)),
            clock=self.scheduler,
        )

    def _draw_falls(self, seed: int) -> None:
        """In a third of the schedules sources fall back to older copies. A source of chance of its own decides."""
        chance, numbers = Random(f"older copies {seed}"), itertools.count(1000)
        for _ in range(chance.choice((0, 0, 1, 2)) if chance.random() < 0.7 else 0):
            source = self.sources[chance.choice(list(self.sources))]
            self.scheduler.after(chance.choice((0.02, 0.1, 0.5, 3.0)), partial(self._fall, source, chance, numbers))

    @property
    def ending(self) -> bool:
        """Whether nothing more goes wrong in this schedule."""
        return self._finished_at is not None or self._reading

    def _fall(self, source: Source, chance: Random, numbers: Iterator[int]) -> None:
        if not self.ending:
            source.fall_back(chance, numbers)
            self.scheduler.after(chance.choice((0.05, 0.5, 3.0)), source.show_all)
            self.say("source %s is an older copy: %s, shown %s", source.name, source.partitions, source.shown)
            self.result.faults["source fell back"] += 1

    def open_store(self, identity: StateIdentity, shape: StateShape, home: Home) -> Store:
        if self.homes[identity.name] == "memory":
            return MemoryStore(
                identity, shape, self.kind, home, None, self._pace, self.scheduler, lambda name, work: work()
            )
        address: Any = FakeAddress(self.network)
        return RedisStore(identity, shape, self.kind, address, _layout(identity), "packed")

    # --- from start to end -------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Run it all, within `patches.machine()`. Raises Wrong, Stuck, or whatever else a broken library raises."""
        Worlds.now = self
        vars(writer)["PUT_KEYS"] = 1000
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
        self._next_read = NEVER
        for process in [*self.scheduler.processes]:
            self.scheduler.kill(process)
            self.scheduler.reap(process)

    def say(self, text: str, *of: object) -> None:
        if self.scheduler.trace is not None:
            self.scheduler.trace(f"*** {text % of}")

    def fail(self, error: BaseException) -> None:
        if self.wrong is None:
            self.say("WRONG: %s", error)
        self.wrong = self.wrong or error

    def _passed(self, process: Process) -> None:
        """A point of input or output at which a read begins or something goes wrong."""
        steps, faults, trouble = self.scheduler.steps, self.faults, False
        if steps >= self._next_read:
            self._next_read = steps + self.chance.randint(5, 60)
            self.readers.begin()
        driver = next((d for d in self.drivers if d.process is process), None)
        if driver is not None and steps >= faults.at:
            trouble = faults.due()
        self.scheduler.alarm = min(self._next_read, faults.at)
        if trouble and driver is not None:
            faults.strike(driver)

    def _reached(self, place: str) -> None:
        """A place of the library's steps."""
        self.scheduler.point(place)
        driver = next((d for d in self.drivers if d.process is self.scheduler.current), None)
        if driver is not None:
            if place == "start.state.born" and driver.life == self.lives:
                self.history.known |= {*driver.shape.states}  # it may die before it is done
            self.faults.reached(place, driver)

    # --- drivers -----------------------------------------------------------------------------------------------------

    def _start_driver(self) -> None:
        self.shape = self._with_names_said(self.shape)
        driver = Driver(self, f"driver {len(self.drivers) + 1}", self.shape)
        self.drivers.append(driver)
        self.say("%s starts: %s", driver.name, driver.shape)
        driver.begin()

    def _with_names_said(self, shape: Shape) -> Shape:
        """The program that says what those streams were called whose new name no start has taken up, and whose former
        name is away by now: nobody asks for it then."""
        streams = []
        here = {stream.name for stream in self._accepted[-1].streams} if self._accepted else set()
        for stream in shape.streams:
            names = [s.name for other in self._accepted for s in other.streams if s.token == stream.token]
            if names and stream.name not in names and names[-1] not in here and stream.formerly == "?":
                stream = replace(stream, formerly=names[-1])
            streams.append(stream)
        return replace(shape, streams=tuple(streams))

    def supervise(self) -> None:
        """Start a driver if none is at work; change the program before."""
        at_work = (d for d in self.drivers if d.process.alive and not d.ended)
        busy = self._operators.queued or any(pool.running for pool in self._operators.pools)
        if self.over or busy or any(d.process.asleep_until <= self.scheduler.now for d in at_work):
            return
        if self._way:
            self._go_on_with_way()
            return
        if self._to_change and not self._ways and self.chance.random() < 0.8:
            self._to_change -= 1
            self._change()
            return
        self._start_driver()

    def _change(self) -> None:
        """The program becomes another one; or a state is dropped, or everything reset."""
        what = self.chance.random()
        self._ways = []
        if what < 0.12 and self.shape.states:
            self._operate(partial(self._drop, [self.chance.choice(self.shape.states)]))
        elif what < 0.18:
            self._operate(self._reset)
        else:
            kind, self.shape = self._changes.change(self.shape, self.history.lacking)
            self.say("change: %s", kind)
            self.result.faults[kind] += 1
            self._start_driver()

    def accepted(self, driver: Driver) -> None:
        """A driver began."""
        self._accepted.append(driver.shape)
        if not self.taken_over(driver):
            self.history.began(driver.shape)
        for state in driver.shape.states:
            self._homes_shape[state] = driver.shape

    def driver_ended(self, driver: Driver) -> None:
        """A driver stopped, by itself or as it was asked to."""
        error = driver.error
        self.say("%s stopped%s", driver.name, "" if error is None else f" with {type(error).__name__}: {error}")
        if error is not None and not self._right(driver, error):
            self.fail(Wrong(f"{driver.name} stopped for no good reason with {type(error).__name__}: {error}"))
            return
        if error is None:
            self._failures = 0
            if not self._way:
                self._ways = []
            if driver is self._satisfied:
                self.readers.last(self._done)
                return
        elif driver is self._satisfied:
            self._satisfied = None
        self.scheduler.after(self.chance.choice((0.0, 0.2, 1.5)), self.supervise)

    def _right(self, driver: Driver, error: BaseException) -> bool:
        """Whether a driver was right to stop with this error; and what its user then does."""
        if not isinstance(error, TridentError):
            return False
        if isinstance(error, core.DAMAGE):  # that of what missed batches, or what a server forgot
            missed = self.history.absent & {*driver.shape.states}
            late = self.logs_gone and self.result.faults["zombie"]  # founded a state after the reset dropped it
            if not (missed or late or self.result.faults["server rewound"]):
                return False
            return self._refused(driver, error)
        if isinstance(error, FencedError):
            return self.taken_over(driver)
        conflict = core.output_conflict(error)
        if conflict is not None and self.places.used:
            later = self.drivers[self.drivers.index(driver) + 1 :]
            at_work = any(other.process.alive and not other.ended for other in later)
            return at_work or driver.life != self.lives or self.places.told(conflict)
        if core.lost_data(error):  # its user reads the message, and starts again with the way out that it names
            fell = [source for source in self.sources.values() if source.unaccepted]
            for source in fell:
                source.accept_losses()
            return bool(fell) or self._was_accepted(driver)
        if isinstance(error, core.PASSING) or type(error) is LogError:
            self._failures += self.faults.over and self.server.up and self.log_network.server.up
            return self._failures < _AGAIN
        return self._refused(driver, error)

    def _was_accepted(self, driver: Driver) -> bool:
        """Whether a loss was accepted since this driver began, so that it may tell of it once more."""
        return self.result.faults["source fell back"] > 0 and driver is not self.drivers[-1]

    def _refused(self, driver: Driver, error: BaseException) -> bool:
        """A program was refused: there must be a way out."""
        if any(other.process.alive and not other.ended for other in self.drivers if other is not driver):
            return True  # by a later one, which has changed the program meanwhile
        if "would see txids again" in str(error) and not driver.shape.states and len([*groups_of(driver.shape)]) == 1:
            return False  # it may go on with the highest txids that its streams and outputs had
        before = [shape for shape in self._accepted if shape != driver.shape]
        # A server that was rewound may have forgotten that a state was dropped, and a driver that slept through it
        # may have founded the state again: the log no longer knows that state, and the message says what to do.
        slept = self.result.faults["zombie"] and self.history.dropped
        undropped = isinstance(error, StateAheadError) and (self.result.faults["server rewound"] or slept)
        damage = isinstance(error, core.DAMAGE) or undropped
        if driver.shape in self._accepted and self._accepted[-1] == driver.shape and not before and not damage:
            return False  # it never was another one
        if self._refused_shape != driver.shape or not self._ways:
            self._ways = self._ways_of(str(error), driver.shape)
        elif self._way == "former" and not damage:
            return False  # the way out is refused itself
        self._refused_shape = driver.shape
        self._message = f"{type(error).__name__}: {error}"
        self.result.refused += 1
        if not self._ways:
            return False
        self._way = self._ways.pop(0)
        self.say("way out: %s", self._way)
        self.result.faults[f"way out: {self._way}"] += 1
        return True

    def _ways_of(self, message: str, shape: Shape) -> list[str]:
        """What a user tries, in this order: first what the message says."""
        ways = list[str]()
        if "formerly" in message:
            ways.append("formerly")
        if self._accepted and self._accepted[-1] != shape:
            ways.append("former")
        named = re.findall(r"dropState\('sim', '(\w+)'", message)
        ways += [f"drop {state}" for state in dict.fromkeys(named)]
        return [*ways, "drop", "reset"]

    def _go_on_with_way(self) -> None:
        """The next step of the way out."""
        way, shape = self._way, self._refused_shape
        assert shape is not None
        if way == "former":
            former = next(s for s in reversed(self._accepted) if s != shape)
            if self.history.waiting:
                self.shape = former
            else:
                self._way, self.shape = "", shape
            self._start_driver()
            return
        self._way, self.shape = "", shape
        if way == "reset":
            self._operate(self._reset)
        elif way == "formerly":
            earlier = [driver.shape for driver in self.drivers if driver.life == self.lives]
            self.shape = core.with_formerly(shape, earlier, self._message)
            self._start_driver()
        else:
            states = [way.partition(" ")[2]] if " " in way else list(self._homes_shape)
            self._operate(partial(self._drop, states))

    def heard(self, driver: Driver, tell: Callable[[History], None]) -> None:
        """The oracle hears of something that a driver did; of what it does to a log that was given up, nothing."""
        if driver.life != self.lives:
            return
        try:
            tell(self.history)
        except Wrong as error:
            self.fail(error)
        if self._way == "former" and not self.history.waiting and driver.shape == self.shape:
            driver.stop()

    def taken_over(self, driver: Driver) -> bool:
        """Whether somebody else took the log since this driver did."""
        if driver.life != self.lives or driver.begun is None:
            return True
        return core.lease_of(self) != driver.begun.lease

    def handed(self, output: str, table: Any, txid: int, attempt: int) -> None:
        """A user's output function is called."""
        process = self.scheduler.current
        driver = next(d for d in self.drivers if d.process is process)
        self.say("%s: output %s gets batch %s, attempt %s: %s", driver.name, output, txid, attempt, table.to_pylist())
        driver.handed(output, table, txid, attempt)
        if self.faults.outputs:
            trouble = self.faults.outputs.pop()
            if trouble == "raises":
                raise ValueError("the output function raised")
            driver.hanging.add(output)
            self.hang(driver, float(trouble))
            driver.hanging.remove(output)

    def hang(self, driver: Driver, seconds: float) -> None:
        """User code does not come back for so long. Whoever watches it may lose patience and stop the program."""
        if seconds > 10 and self.chance.random() < 0.5:
            self.scheduler.after(self.chance.choice((0.1, 1.0, 9.0)), partial(self._lose_patience, driver))
        self.scheduler.sleep(seconds)

    def _lose_patience(self, driver: Driver) -> None:
        if not self._reading and self._satisfied is None:
            self.say("%s hangs, and is asked to stop", driver.name)
            driver.stop()

    # --- what users do beside a run ----------------------------------------------------------------------------------

    def _operate(self, work: Callable[[], None]) -> None:
        if not self._operators.pools:
            Pool(self.scheduler, self._operators, "operator", 1)
        self._operators.pools[0].submit(self._operated, work)

    def _operated(self, work: Callable[[], None]) -> None:
        """Again and again, while the servers are away."""
        for _ in range(10):
            try:
                work()
                break
            except Crashed:
                raise
            except (LogError, FencedError, *core.PASSING) as error:
                self.say("operator: %s: %s", type(error).__name__, error)
                self.scheduler.sleep(1.0)
            except BaseException as error:
                self.fail(error)
                return
        self.scheduler.after(0.0, self.supervise)

    def _drop(self, states: list[str]) -> None:
        """Drop states, and those that later stages feed from them: what waits gives them nothing on."""
        lines = {line.name: line for shape in self._homes_shape.values() for line in shape.lines}
        below = [name for name, line in lines.items() if line.kind == "total" and line.asked in states]
        for state in dict.fromkeys([*states, *below]):
            if state not in self._homes_shape:
                continue
            self.say("drop %s", state)
            core.drop(self, self._homes_shape[state], state)
            self.history.dropped_state(state)

    def store_left_of(self, state: str, shape: Shape) -> Store | None:
        """A state on the server, to be dropped. One in memory that has no snapshot yet is nowhere."""
        if self.homes[state] == "memory":
            return None
        program = programs.program_of(shape)
        group = next(g for g in program.groups if any(s.state.name == state for s in g.states))
        identity = StateIdentity("sim", state, "", group.name)
        home: Any = None
        return self.open_store(identity, program.shapes[state], home)

    def _reset(self) -> None:
        self.say("reset")
        core.reset_all(self, self.shape)
        self.disk.put_back(LogDisk(uuid=f"log{self.lives}"))
        self.segments.files.clear()
        self.server.data.clear()  # states that this program does not declare: the reset warns of them
        self.server.journal.clear()
        self.history = History()
        self.lives += 1
        self._accepted.clear()
        self._homes_shape.clear()

    # --- faults ------------------------------------------------------------------------------------------------------

    def lose_unsynced(self, count: int) -> None:
        """A power loss takes the last writes from the log that no fsync followed."""
        if self.log_server is not None:
            return
        self.disk.lose(count)
        for (group, txid), batch in self.history.batches.items():
            batch.committed = txid <= core.committed_of(self.disk, group)

    def down(self, server: FakeRedis | None, lose: int) -> None:
        if server is None or not server.up:
            return
        server.kill(lose)
        self.scheduler.after(self.chance.choice((0.0, 0.05, 0.7, 3.0)), lambda: self._up(server))

    def _up(self, server: FakeRedis) -> None:
        server.up = True
        self.say("the server is back")

    def new_token(self) -> str:
        self._tokens += 1
        token = f"token{self._tokens}"
        process = self.scheduler.current
        if self.log_server is not None:
            self.log_server.holders[token.encode()] = next((d for d in self.drivers if d.process is process), None)
        return token

    def new_uuid(self) -> str:
        self._tokens += 1
        return f"uuid{self._tokens}"

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

    def _look(self) -> None:
        """Is everything there? Then read it all and stop."""
        now = self.scheduler.now
        for driver in self.drivers:
            asked = driver.asked_at
            if asked is None or driver.ended or not driver.process.alive or driver.process.asleep_until > asked:
                continue
            if now - asked > core.STOPS_WITHIN:
                raise Stuck(f"{driver.name} was asked to stop {now - asked:.0f} s ago, and has not come to its end")
        if self._reading or self._satisfied is not None or not self.faults.over:
            if self._finished_at is not None and self.scheduler.now > self._finished_at + _LONG:
                raise Stuck(f"no end: {[d.name for d in self.drivers if not d.ended and d.process.alive]} go on")
            return
        if self._finished_at is None:
            self._finished_at = self.scheduler.now
            self.faults.stop()
            for source in self.sources.values():
                source.trouble.clear()
        if self.scheduler.now > self._finished_at + _LONG:
            raise Stuck(f"{self.missing} were never read, {self.history.waiting} wait")
        if (self._to_change and not self._way) or (self._way == "former" and not self.history.waiting):
            self._let_end(lambda driver: True)  # it has committed what waited: the next program may come
        self._let_end(lambda driver: driver.shape != self.shape)  # a zombie that woke up when no other one could start
        if self._to_change or self._way or self.history.waiting or self.missing:
            return
        asleep = any(d.process.asleep_until > self.scheduler.now for d in self.drivers if d.process.alive)
        alive = [d for d in self.drivers if d.process.alive and not d.ended]
        if asleep or len(alive) != 1 or self.log_network.late or self.network.late:
            return
        driver = alive[0]
        if driver.run is None or driver.asked_at is not None or not driver.run.resting():
            return
        self._reading = True
        Pool(self.scheduler, driver.process, "final", 1).submit(self._read_all, driver)

    def _let_end(self, which: Callable[[Driver], bool]) -> None:
        """These drivers stop, for the next one to start."""
        for driver in self.drivers:
            if driver.process.alive and not driver.ended and driver.asked_at is None and which(driver):
                driver.stop()

    def _read_all(self, driver: Driver) -> None:
        try:
            for state in driver.shape.states:
                found = self.readers.inside(driver, state)
                self.history.check(state, found, None, driver.name)
                self.result.reads += 1
            for output in driver.shape.outputs:
                self.places.check(output, self.history.handed.get(output, {}))
        except Crashed:
            raise
        except core.PASSING:
            self._reading = False
            return
        except BaseException as error:
            self.fail(error)
            return
        self.say("everything is there")
        self._reading = False
        if self._restarts:
            self._restarts -= 1
        elif not driver.ended:  # it may have been taken over while it was read
            self._satisfied = driver
        driver.stop()

    def _done(self) -> None:
        self.over = True


@cache
def _layout(identity: StateIdentity) -> Layout:
    return Layout("p", identity, 2, 1)
