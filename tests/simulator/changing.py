"""A schedule of a program that changes: between two starts it becomes another one, and everything comes out exact, or
is refused with a way out that works."""

import itertools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from tests.simulator import core, programs
from tests.simulator.driver import Driver
from tests.simulator.fake_log import LogDisk
from tests.simulator.faults import WEIGHTS, Faults
from tests.simulator.history import History
from tests.simulator.logs import LogNetwork, LogServer
from tests.simulator.programs import Changes, Shape, groups_of
from tests.simulator.readers import Readers
from tests.simulator.scheduler import Crashed, Pool, Process
from tests.simulator.setting import Setting
from tests.simulator.spouts import Source, sources_of
from tests.simulator.verdict import Verdict
from tests.simulator.world import World
from trident.base import errors
from trident_state.state_shape import StateIdentity
from trident_state.store import Store

EVOLVING = 0.3
"""In how many schedules states evolve, or begin with a content."""
_AGAIN = 6
"""So many starts in a row may fail without a fault."""
_HANGS = (0.3, 3.0, 30.0, 120.0, 120.0)


class Changing(World):
    """A schedule. `loose`: its program begins with a loose query of another group's state. `evolving`: its states
    evolve, or begin with a content."""

    shape: Shape

    def __init__(
        self,
        seed: int,
        trace: Callable[[str], None] | None = None,
        loose: bool = False,
        evolving: bool = False,
        delta: bool = False,
    ) -> None:
        super().__init__(seed, trace)
        chance = self.chance
        if chance.random() < 0.4:
            self.log_server = LogServer()
            self.log_network = LogNetwork(self.scheduler, self.log_server)
        self.patience = chance.choice((0.0, 2.0))
        self.setting = Setting(self.scheduler, (*programs.STATES, "totals"))
        self.setting.draw_delta(Random(f"{seed}/delta"), delta)
        names = chance.sample(("o1", "o2", "t1", "t2", "p1", "p2"), 3)
        self.sources = sources_of(self.scheduler, {name: name[0] for name in names}, late=0.6)
        for source in self.sources.values():
            if self.settings.messageTimeoutSecs > 1 and chance.random() < 0.2:
                source.slow = 0.6  # so that one plan reads no more than a page or two
        self._draw_falls(seed)
        self.shape = programs.first(chance, list(self.sources), loose, evolving)
        dice = Random(f"evolutions {seed}")
        evolves = dice.random() < EVOLVING or evolving
        if evolves:
            self.shape = programs.filled(self.shape, dice)
        self._changes = Changes(chance, self.shape, list(self.sources), dice if evolves else None)
        self._to_change = chance.choice((1, 1, 2, 3, 4)) + evolving
        self._operator = Pool(self.scheduler, Process("operator"), "operator", 1)
        self.scheduler.processes += [self._operator.process, self.log_network.process]
        self.scheduler.in_fibers = 1.0  # user code may hang anywhere, and the log's server be waited for
        self.scheduler.pausing = chance.choice((0.1, 0.4))
        self.faults = Faults(self, self._drawn(loose), _HANGS)
        self.readers = Readers(self)
        self._accepted: list[Shape] = []
        """The programs that a driver began with, without those that were refused."""
        self._enrolled: list[Shape] = []
        """These, and those whose groups or states the log knows from a start that did not come to its end."""
        self._losses_accepted = 0
        """The number of drivers that had begun when its user last accepted the losses of a source."""
        self._homes_shape: dict[str, Shape] = {}
        self._ways: list[str] = []
        self._way = ""
        self._message = ""
        self._refused_shape: Shape | None = None
        self._failures = 0
        self._tokens = 0

    def _drawn(self, loose: bool) -> list[str]:
        """The faults, and as many ends of drivers as the program has changes."""
        chance, apart = self.chance, {"log fails"} if self.log_server else {"log's network", "log's server killed"}
        if self.settings.rewindBytes <= 1000 or self.settings.keepBatches < 1000:
            apart.add("server rewound")
        weights = {kind: changes for kind, (_, changes) in WEIGHTS.items() if kind not in apart}
        left = chance.choices([*weights], [*weights.values()], k=chance.choice((0, 0, 1, 2, 3, 5)))
        left += chance.choices(("driver killed", "stop asked", "power lost"), (5, 3, 2), k=self._to_change)
        if loose:  # turns that are repeated behind the query, while the other group goes on
            left += ["output raises"] * chance.choice((2, 4, 8))
        chance.shuffle(left)
        if self.log_server is not None and chance.random() < 0.5:
            left.append("log's network")  # the first one: while states are founded
        return left

    def _draw_falls(self, seed: int) -> None:
        """In a third of the schedules sources fall back to older copies. A source of chance of its own decides."""
        chance, numbers = Random(f"older copies {seed}"), itertools.count(1000)
        for _ in range(chance.choice((0, 0, 1, 2)) if chance.random() < 0.7 else 0):
            source = self.sources[chance.choice(list(self.sources))]
            self.scheduler.after(chance.choice((0.02, 0.1, 0.5, 3.0)), partial(self._fall, source, chance, numbers))

    def _fall(self, source: Source, chance: Random, numbers: Iterator[int]) -> None:
        if not self.ending:
            source.fall_back(chance, numbers)
            self.scheduler.after(chance.choice((0.05, 0.5, 3.0)), source.show_all)
            self.say("source %s is an older copy: %s, shown %s", source.name, source.partitions, source.shown)
            self.result.faults["source fell back"] += 1

    def _begin_read(self) -> None:
        self.readers.begin()

    def _came(self, driver: Driver, place: str) -> None:
        if driver.life != self.lives:
            return
        if place == "start.state.born":
            self.history.known |= {*driver.shape.states}  # it may die before it is done
        elif place == "start.enrolled":
            self._enrolled.append(driver.shape)

    # --- drivers -----------------------------------------------------------------------------------------------------

    def _start_driver(self) -> None:
        self.shape = self._with_names_said(self.shape)
        super()._start_driver()

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

    def _next_start(self) -> None:
        """Start a driver; change the program before."""
        if self._operator.work or self._operator.running:
            return
        if self._way:
            self._go_on_with_way()
        elif self._to_change and not self._ways and self.chance.random() < 0.8:
            self._to_change -= 1
            self._change()
        else:
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
        if driver.life == self.lives:  # else the log was reset while it slept in its start
            self._accepted.append(driver.shape)
            self._enrolled.append(driver.shape)
        if not self.taken_over(driver):
            self.history.began(driver.shape)
        for state in driver.shape.states:
            self._homes_shape[state] = driver.shape

    def founded(self, driver: Driver, states: Collection[str]) -> None:
        super().founded(driver, states)
        if driver.life == self.lives:
            self._enrolled.append(driver.shape)

    def _ended_well(self, driver: Driver) -> None:
        if driver.error is None:
            self._failures = 0
            if not self._way:
                self._ways = []

    def _last(self) -> None:
        self.readers.last(super()._last)

    def _why_right(self, driver: Driver, error: BaseException) -> Verdict:
        return "again" if self._right(driver, error) else None

    def _right(self, driver: Driver, error: BaseException) -> bool:
        """Return whether a driver was right to stop with this error, and note what its user then does."""
        if not isinstance(error, errors.TridentError):
            return False
        if isinstance(error, core.DAMAGE):  # that of what missed batches, or what a server forgot
            missed = self.history.absent & {*driver.shape.states}
            late = self.logs_gone and self.result.faults["zombie"]  # founded a state after the reset dropped it
            if not (missed or late or self.result.faults["server rewound"]):
                return False
            return self._refused(driver, error)
        if isinstance(error, errors.FencedError):
            return self.taken_over(driver)
        conflict = core.caused(error, errors.OutputConflictError)
        if conflict is not None and self.places.used:
            later = self.drivers[self.drivers.index(driver) + 1 :]
            over = driver.life != self.lives or any(other in self._at_work for other in later)
            over = over or bool(later and self.result.faults["output fell back"])  # a later one has said it meanwhile
            return over or self.places.told(conflict, driver)
        if core.caused(
            error, errors.DataLossError
        ):  # its user reads the message, and starts again with the way out that it names
            fell = [source for source in self.sources.values() if source.unaccepted]
            for source in fell:
                source.accept_losses()
            if fell:
                self._losses_accepted = len(self.drivers)
            # Or it was accepted since this driver began, so that it may tell of it once more.
            return bool(fell) or driver in self.drivers[: self._losses_accepted]
        if isinstance(error, (*core.PASSING, errors.SparkFailedError)) or type(error) is errors.LogError:
            self._failures += self.faults.over and self.server.up and self.log_network.server.up
            return self._failures < _AGAIN
        return self._refused(driver, error)

    def _refused(self, driver: Driver, error: BaseException) -> bool:
        """A program was refused: there must be a way out."""
        if any(other.process.alive and not other.ended for other in self.drivers if other is not driver):
            return True  # by a later one, which has changed the program meanwhile
        again = "the same txids again" in str(error)
        if again and not driver.shape.states and len([*groups_of(driver.shape)]) == 1:
            return False  # it may go on with the highest txids that its streams and outputs had
        before = [shape for shape in self._enrolled if shape != driver.shape]
        # A server that was rewound may have forgotten that a state was dropped, and a driver that slept through it
        # may have founded the state again: the log no longer knows that state, and the message says what to do.
        slept = self.result.faults["zombie"] and self.history.dropped
        undropped = isinstance(error, errors.StateAheadError) and (self.result.faults["server rewound"] or slept)
        damage = isinstance(error, core.DAMAGE) or undropped
        if self._accepted and self._accepted[-1] == driver.shape and not before and not damage:
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
        """Return the ways out that a user tries, in this order: first the one that the message names."""
        ways = list[str]()
        if "formerly" in message:
            ways.append("formerly")
        if self._enrolled and self._enrolled[-1] != shape:
            ways.append("former")
        named = re.findall(r"dropState\('sim', '(\w+)'", message)
        ways += [f"drop {state}" for state in dict.fromkeys(named)]
        return [*ways, "drop", "reset"]

    def _go_on_with_way(self) -> None:
        """The next step of the way out."""
        way, shape = self._way, self._refused_shape
        assert shape is not None
        if way == "former":
            former = next(s for s in reversed(self._enrolled) if s != shape)
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
        super().heard(driver, tell)
        if (
            driver.life == self.lives
            and self._way == "former"
            and not self.history.waiting
            and driver.shape == self.shape
        ):
            driver.stop()

    def handed(self, output: str, table: Any, txid: int, attempt: int) -> None:
        """A user's output function is called."""
        driver = self.scheduler.current.driver  # type: ignore[union-attr]
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
        self._operator.submit(self._operated, work)

    def _operated(self, work: Callable[[], None]) -> None:
        """Again and again, while the servers are away."""
        for _ in range(10):
            try:
                work()
                break
            except Crashed:
                raise
            except (errors.LogError, errors.FencedError, *core.PASSING) as error:
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
        if self.setting.homes[state] == "memory":
            return None
        program = shape.program
        group = next(g for g in program.groups if any(s.state.name == state for s in g.states))
        identity = StateIdentity("sim", state, "", group.name)
        home: Any = None
        return self.open_store(identity, program.shapes[state], home)

    def _reset(self) -> None:
        self.say("reset")
        core.reset_all(self, self.shape)
        self.disk.put_back(LogDisk(uuid=f"log{self.lives}"))
        self.segments.files.clear()
        self.bucket.objects.clear()
        self.server.data.clear()  # states that this program does not declare: the reset warns of them
        self.server.journal.clear()
        self.history = History()
        self.lives += 1
        self._accepted.clear()
        self._enrolled.clear()
        self._homes_shape.clear()

    def new_token(self) -> str:
        self._tokens += 1
        token, process = f"token{self._tokens}", self.scheduler.current
        if self.log_server is not None:
            self.log_server.holders[token.encode()] = None if process is None else process.driver
        return token

    def new_uuid(self) -> str:
        self._tokens += 1
        return f"uuid{self._tokens}"

    # --- the end -----------------------------------------------------------------------------------------------------

    @property
    def _may_finish(self) -> bool:
        return self.faults.over

    def _wait_for_programs(self) -> bool:
        if (self._to_change and not self._way) or (self._way == "former" and not self.history.waiting):
            self._let_end(lambda driver: True)  # it has committed what waited: the next program may come
        self._let_end(lambda driver: driver.shape != self.shape)  # a zombie that woke up when no other one could start
        return bool(self._to_change or self._way)

    def _let_end(self, which: Callable[[Driver], bool]) -> None:
        """These drivers stop, for the next one to start."""
        for driver in self._at_work:
            if driver.asked_at is None and which(driver):
                driver.stop()

    def check_end(self, found: dict[str, dict[Any, Any]]) -> None:
        for output in self.shape.outputs:
            self.places.check(output, self.history.handed.get(output, {}))
