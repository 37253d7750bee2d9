"""One simulated schedule: what runs, what goes wrong and when, and whether everything comes out right."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from tests.simulator import flows, patches
from tests.simulator.driver import Driver, found_of
from tests.simulator.fake_log import LogDisk
from tests.simulator.fake_redis import FakeRedis
from tests.simulator.network import FakeAddress, Network
from tests.simulator.oracle import Oracle, Wrong
from tests.simulator.scheduler import Crashed, Pool, Process, Scheduler, Stuck
from tests.simulator.spouts import Source
from tests.simulator.verdict import Seen, why_right
from trident.base.attempt import TransactionAttempt
from trident.base.errors import (
    FencedError,
    SnapshotMovedError,
    StateFullError,
    StateRecoveringError,
    StateUnavailableError,
)
from trident.runtime import crash
from trident.runtime import events as on
from trident.runtime.reading import consistently, read_committed
from trident.runtime.settings import Settings
from trident_state.memory.store import MemoryStore, Pace
from trident_state.records.forms import ValueForm
from trident_state.redis import writer
from trident_state.redis.layout import Layout
from trident_state.redis.store import RedisStore
from trident_state.store import Home, StateIdentity, StateKind, StateShape, Store

KEYS = ("apple", "avocado", "banana", "blueberry")
LETTERS = ("a", "b")

_NEVER = 1 << 60

READ_ERRORS = (StateRecoveringError, StateUnavailableError, StateFullError, SnapshotMovedError, FencedError)
"""What a read may meet while faults go on."""


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

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.result = Result(seed)
        self.scheduler = Scheduler(seed)
        self._trace = trace
        if trace is not None:
            self.scheduler.trace = lambda text: trace(f"{self.scheduler.now:10.4f} {text}")
        self.scheduler.passed = self._passed  # type: ignore[method-assign]
        self.chance = chance = self.scheduler.random
        flows.Worlds.now = None
        self._draw_topology()
        self.disk = LogDisk()
        self.server = FakeRedis()
        self.network = Network(self.scheduler, self.server)
        self.seen = Seen()
        self.drivers: list[Driver] = []
        self.over = False
        self.wrong: BaseException | None = None
        self.attempts: dict[TransactionAttempt, list[Any]] = {}
        self.segments = patches.SegmentFiles()
        folder: Any = patches.Folder("nowhere")
        self.settings = Settings(
            "sim",
            folder,
            True,
            maxSpoutPending=chance.randint(1, 3),
            maxAttempts=chance.choice((2, 3, 6)),
            messageTimeoutSecs=chance.choice((0.5, 10.0)),
            commitRetrySecs=chance.choice((None, 0.5, 5.0)),
            keepBatches=chance.choice((0, 1, 3, 1000)),
            rewindBytes=chance.choice((8, 400, 2 << 30)),
            clock=self.scheduler,
        )
        self.scheduler.in_fibers = chance.choice((0.0, 0.02, 0.05, 0.1, 0.3))
        self.scheduler.pausing = chance.choice((0.2, 0.6))
        self.put_keys = chance.choice((1, 2, 1000))
        self._faults_left = chance.choice((0, 1, 2, 3, 4, 6, 9))
        self._next_fault = self._gap()
        self._next_read = chance.randint(1, 100)
        self._worker: str | None = None
        self._log_fault: str | None = None
        self._copy: LogDisk | None = None
        self._finishing = 0.0
        self._tries = 0
        self._restarts = chance.choice((0, 0, 1))
        served = Process("server")
        served.loops.append(lambda now: self.network.deliver if self.network.late and self.server.up else None)
        self.scheduler.processes.append(served)

    # --- what runs -------------------------------------------------------------------------------------------------

    def _draw_topology(self) -> None:
        chance = self.chance
        self.flow = chance.choices(flows.FLOWS, (25, 20, 30, 10, 15))[0]
        self.program = flows.program(self.flow)
        self.kind = chance.choice((StateKind.OPAQUE, StateKind.TRANSACTIONAL))
        places = chance.choice((("memory",), ("redis",), ("memory", "redis")))
        self.homes = {state: chance.choice(places) for state in flows.states_of(self.flow)}
        self.python = chance.random() < 0.3
        self.groups = chance.choice((1, 1, 2))
        self.buckets = self.groups * chance.choice((1, 2))
        self.form: ValueForm = "json" if chance.random() < 0.05 else "packed"
        self.pace = Pace(bytes=chance.choice((1, 2**30)), seconds=chance.choice((0.5, 30.0)))
        self.sources: dict[str, Source] = {}
        seq = 0
        for name in ("numbers", "others") if self.flow == "merged" else ("numbers",):
            opaque = chance.random() < 0.6
            partitions: dict[str, list[tuple[str, int]]] = {}
            for partition in ("p", "q")[: 2 if opaque else 1]:
                count = chance.randint(1, 7 if opaque else 12)
                partitions[partition] = [(chance.choice(KEYS), seq + at) for at in range(count)]
                seq += count
            source = Source(partitions, opaque, not opaque or chance.random() < 0.5, self.scheduler)
            self.sources[name] = source
            if chance.random() < 0.3:  # the rest comes later
                source.shown = {p: chance.randint(0, len(rows)) for p, rows in partitions.items()}
                self.scheduler.after(chance.choice((0.01, 0.3, 3.0)), source.show_all)
        everything = [row for source in self.sources.values() for row in source.tuples()]
        self.poison = chance.randrange(seq) if chance.random() < 0.04 else None
        self.oracle = Oracle(self.flow, everything)

    def open_store(self, identity: StateIdentity, shape: StateShape, home: Home) -> Store:
        """A state where this world keeps it: the library's own stores."""
        if self.homes[identity.name] == "memory":
            return MemoryStore(
                identity, shape, self.kind, home, None, self.pace, self.scheduler, lambda name, work: work()
            )
        if self.python:
            shape = _combined_in_python(self.flow, identity.name)
        address: Any = FakeAddress(self.network)
        layout = _layout(identity, self.buckets, self.groups)
        return RedisStore(identity, shape, self.kind, address, layout, self.form)

    # --- from start to end -------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Run it all, within `patches.machine()`. Raises Wrong, Stuck, or whatever else a broken library raises."""
        flows.Worlds.now = self
        vars(writer)["PUT_KEYS"] = self.put_keys
        scheduler = self.scheduler
        crash.listen(scheduler.point)
        try:
            self._start_driver()
            while not self.over and self.wrong is None:
                scheduler.step()
                if not scheduler.turns % 8:
                    self._look()
            if self.wrong is not None:
                raise self.wrong
        finally:
            self._close()
            flows.Worlds.now = None
            crash.listen(None)
        result = self.result
        result.batches, result.drivers = len(self.oracle.batches), len(self.drivers)
        result.steps = scheduler.steps
        return result

    def _close(self) -> None:
        self._faults_left, self._next_fault, self._next_read = 0, _NEVER, _NEVER
        for process in [*self.scheduler.processes]:
            self.scheduler.kill(process)
            self.scheduler.reap(process)

    def say(self, text: str) -> None:
        if self.scheduler.trace is not None:
            self.scheduler.trace(f"*** {text}")

    def fail(self, error: BaseException) -> None:
        self.wrong = self.wrong or error

    def _start_driver(self) -> None:
        driver = Driver(self, f"driver {len(self.drivers) + 1}")
        self.seen.began(driver)
        self.drivers.append(driver)
        self.say(f"{driver.name} starts")
        driver.begin()

    def _supervise(self) -> None:
        """Start a driver if none is at work."""
        at_work = (d for d in self.drivers if d.process.alive and not d.ended)
        if not self.over and not any(d.process.asleep_until <= self.scheduler.now for d in at_work):
            self._start_driver()

    def driver_ended(self, driver: Driver) -> None:
        """A driver stopped, by itself or as it was asked to."""
        error = driver.error
        if error is None:
            self.say(f"{driver.name} stopped")
        else:
            self.say(f"{driver.name} stopped with {type(error).__name__}: {error}")
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
        self.scheduler.after(self.chance.choice((0.5, 2.0) if starting else (0.0, 0.2)), self._supervise)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Is everything there? Then read it all, stop, and perhaps look again after a restart."""
        if self.scheduler.now < self._finishing:
            return
        group = self.disk.groups.get(self.program.groups[0].name)
        if group is None or group.committed != group.frozen:
            return
        if not all(source.read_up(group.positions.get(name)) for name, source in self.sources.items()):
            return
        self._faults_left, self._next_fault = 0, _NEVER
        self._finishing = self.scheduler.now + 0.3
        driver = next((d for d in reversed(self.drivers) if d.holds_log), self.drivers[-1])
        asleep = any(d.process.asleep_until > self.scheduler.now for d in self.drivers if d.process.alive)
        if driver.commits is None or driver.ended or not self.server.up or asleep or self.network.late:
            return
        if not driver.process.alive or driver.run is None or driver.run.committed < group.committed:
            return
        others = [d for d in self.drivers if d is not driver and d.process.alive and not d.ended]
        if others and self._tries < 40:  # a zombie has its say first
            self._tries += 1
            return
        self._tries += 1
        if self._tries > 80:
            raise Stuck(f"the states do not come up: {self._last}")
        self._reading(driver, "final", lambda: self._read_all(driver))

    _last: BaseException | None = None
    _satisfied: Driver | None = None

    def _reading(self, driver: Driver, name: str, work: Callable[[], None]) -> None:
        for pool in driver.process.pools:
            if pool.name == name:
                break
        else:
            pool = Pool(self.scheduler, driver.process, name, 1)
        if not pool.work and not pool.running:
            pool.submit(work)

    def _read_all(self, driver: Driver) -> None:
        assert driver.commits is not None and driver.run is not None
        states = flows.states_of(self.flow)
        try:
            found = consistently(driver.commits, states, lambda snapshot: {s: _scanned(snapshot, s) for s in states})
        except Crashed:
            raise
        except (StateRecoveringError, StateUnavailableError, SnapshotMovedError) as error:
            self._last = error
            return
        except BaseException as error:
            self.fail(error)
            return
        try:
            self.oracle.demand_all(found)
            self._demand_clean()
        except Wrong as error:
            self.fail(error)
            return
        self.say("everything is there")
        self._satisfied = driver
        driver.run.post(on.StopAsked())

    def _demand_clean(self) -> None:
        """The server's own bookkeeping is right: markers, key counts, nothing left open."""
        last = str(len(self.oracle.batches)).encode()
        for state, home in self.homes.items():
            if home == "memory":
                continue
            metas = [
                h for n, h in self.server.data.items() if n.startswith(b"p:{sim/" + state.encode()) and n[-2:] == b":m"
            ]
            keys = sum(int(meta[b"keys"]) for meta in metas)
            if len(metas) != self.groups or any(m[b"marker"] != last or b"open" in m for m in metas):
                raise Wrong(f"state {state!r} ends with {metas}, the last batch is {last!r}")
            if keys != len(self.oracle.after[-1][state]):
                raise Wrong(f"state {state!r} counts {keys} keys, it has {len(self.oracle.after[-1][state])}")

    # --- reads -------------------------------------------------------------------------------------------------------

    def _begin_read(self) -> None:
        able = [d for d in self.drivers if d.process.alive and d.commits is not None and not d.ended]
        if able:
            driver = self.chance.choice(able)
            self._reading(driver, "reader", lambda: self._read(driver))

    def _read(self, driver: Driver) -> None:
        """A committed read of one state or more, which must show exactly what was after one batch."""
        assert driver.commits is not None
        chance, floor = self.chance, driver.read
        states = [s for s in flows.states_of(self.flow) if chance.random() < 0.7] or ["counts"]
        scans = chance.random() < 0.2
        found: dict[str, dict[str, int | None]] = {}
        txids: set[int] = set()
        try:
            if scans:
                group = self.program.groups[0].name
                txid, found = consistently(
                    driver.commits,
                    states,
                    lambda snapshot: (snapshot.asOf[group], {s: _scanned(snapshot, s) for s in states}),
                    large=True,
                )
                txids = {txid}
            else:
                asked = {
                    s: flows.key_table(*(("letter", LETTERS) if s == "totals" else ("word", KEYS))) for s in states
                }
                for state, read in read_committed(driver.commits, asked).items():
                    found[state] = found_of(asked[state], read.values)
                    txids.add(read.asOf)
        except Crashed:
            raise
        except READ_ERRORS as error:
            self.result.refused += 1
            self.say(f"{driver.name}: a read was refused: {type(error).__name__}: {error}")
            return
        except BaseException as error:
            self.fail(error)
            return
        self.result.reads += 1
        self.say(f"{driver.name}: read {found} as of {txids}")
        try:
            if len(txids) != 1:
                raise Wrong(f"one read as of several txids: {txids}")
            txid = min(txids)
            if txid < floor:
                raise Wrong(f"{driver.name} read as of txid {txid} after a read as of {floor}")
            driver.read = max(driver.read, txid)
            if txid < len(self.oracle.after) or not self.seen.copied:
                for state, values in found.items():
                    self.oracle.demand(state, values, txid, driver.name)
        except Wrong as error:
            self.fail(error)

    # --- what the parts tell -----------------------------------------------------------------------------------------

    def attempted(self, attempt: TransactionAttempt, tuples: list[Any]) -> None:
        self.attempts[attempt] = tuples

    def froze(self, group: str, attempt: TransactionAttempt) -> None:
        try:
            self.oracle.froze(attempt.txid, self.attempts[attempt])
        except Wrong as error:
            self.fail(error)

    def committed(self, group: str, txid: int) -> None:
        pass

    def heard_success(self, txid: int) -> None:
        if txid > len(self.oracle.batches) and not self.seen.copied:
            self.fail(Wrong(f"a spout heard success({txid}), frozen are {len(self.oracle.batches)}"))

    def log_fault(self, what: str) -> str | None:
        fault, self._log_fault = self._log_fault, None
        return fault

    def worker_trouble(self, stage: int) -> str | None:
        trouble, self._worker = self._worker, None
        return trouble

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    def _gap(self) -> int:
        """Points of input and output until the next fault."""
        return self.scheduler.steps + 1 + int(self.chance.expovariate(1 / self.chance.choice((4, 20, 60))))

    def _passed(self, process: Process) -> None:
        steps, trouble = self.scheduler.steps, False
        if steps >= self._next_read:
            self._next_read = steps + self.chance.randint(10, 120)
            self._begin_read()
        if steps >= self._next_fault:
            trouble = self._faults_left > 0
            self._faults_left -= trouble
            self._next_fault = self._gap() if trouble else _NEVER
        self.scheduler.alarm = min(self._next_read, self._next_fault)
        if trouble:
            self._trouble(process)

    def _trouble(self, process: Process) -> None:
        kind = self.chance.choices(_KINDS, _WEIGHTS)[0]
        if self._copy is not None and self.chance.random() < 0.4:
            kind = "log copied"
        driver = next(d for d in self.drivers if d.process is process)
        self.say(f"fault: {kind}")
        self.result.faults[kind] += 1
        self.seen.fault(kind)
        _FAULTS[kind](self, driver)

    def _crash(self, driver: Driver) -> None:
        """SIGKILL: what the operating system holds stays."""
        self.scheduler.kill(driver.process)
        self.scheduler.after(0.0, lambda: self.scheduler.reap(driver.process))
        self.scheduler.after(self.chance.choice((0.0, 0.1, 1.5)), self._supervise)
        raise Crashed

    def _power(self, driver: Driver) -> None:
        """The driver's machine loses power, and with it what no fsync secured; zombies on it too."""
        for other in self.drivers:
            self.scheduler.kill(other.process)
        for process in [d.process for d in self.drivers]:
            self.scheduler.after(0.0, partial(self.scheduler.reap, process))
        self.disk.lose(self.chance.randint(0, len(self.disk.unsynced)))
        self.scheduler.after(self.chance.choice((0.0, 1.5)), self._supervise)
        raise Crashed

    def _zombie(self, driver: Driver) -> None:
        """The driver stands still; another one is started; it wakes up and goes on."""
        driver.process.asleep_until = self.scheduler.now + self.chance.choice((0.02, 0.2, 2.0, 5.0))
        self.scheduler.after(self.chance.choice((0.0, 0.01)), self._supervise)

    def _files(self, driver: Driver) -> None:
        """A power loss that takes a file of a snapshot with it."""
        files = sorted(self.segments.files)
        if files:
            del self.segments.files[self.chance.choice(files)]
            self.seen.files_lost = True
        self._power(driver)

    def _take_copy(self, driver: Driver) -> None:
        """Somebody copies the log; or puts the copy back while no driver runs."""
        if self._copy is None:
            self._copy = self.disk.copy()
            return
        for other in self.drivers:
            self.scheduler.kill(other.process)
        for process in [d.process for d in self.drivers]:
            self.scheduler.after(0.0, partial(self.scheduler.reap, process))
        self.disk.put_back(self._copy)
        group = self.disk.groups.get(self.program.groups[0].name)
        self.oracle.forget(0 if group is None else group.frozen)
        self.seen.copied = True
        self.scheduler.after(0.1, self._supervise)
        raise Crashed

    def _stop(self, driver: Driver) -> None:
        if driver.run is not None:
            driver.run.post(on.StopAsked())

    def _redis_down(self, lose: int, tag: bytes | None = None, empty: bool = False) -> None:
        if not self.server.up:
            return
        lost = self.server.kill(lose, tag)
        if empty:
            self.server.forget()
            lost += 1
        self.seen.lost_writes += lost
        self.scheduler.after(self.chance.choice((0.0, 0.05, 0.7, 3.0)), self._redis_up)

    def _redis_up(self) -> None:
        self.server.up = True
        self.say("the server is back")

    def _redis_kill(self, driver: Driver) -> None:
        self._redis_down(0)

    def _redis_rewind(self, driver: Driver) -> None:
        self._redis_down(self.chance.choice((1, 2, 3, 5, 8, 13, 30, 100)))

    def _redis_node(self, driver: Driver) -> None:
        """One hash tag's writes are lost."""
        state = self.chance.choice(sorted(self.homes))
        tag = f"{{sim/{state}/{self.chance.randrange(self.groups)}}}" if self.groups > 1 else f"{{sim/{state}}}"
        self._redis_down(self.chance.choice((1, 3, 8, 30, 1000)), tag.encode())

    def _redis_empty(self, driver: Driver) -> None:
        self._redis_down(0, empty=True)

    def _net(self, driver: Driver) -> None:
        self.network.fault = self.chance.choice(("refused", "cut", "cut", "late", "late", "error", "error"))

    def _fails(self, driver: Driver) -> None:
        self._worker = "fails"

    def _slow(self, driver: Driver) -> None:
        self._worker = "slow"

    def _spout(self, driver: Driver) -> None:
        self.chance.choice(list(self.sources.values())).broken = self.chance.choice((1, 1, 2))

    def _log(self, driver: Driver) -> None:
        self._log_fault = self.chance.choice(("before", "after"))

    def _file_full(self, driver: Driver) -> None:
        self.segments.full = True


@cache
def _combined_in_python(flow: str, state: str) -> StateShape:
    shape = flows.program(flow).shapes[state]
    return replace(shape, combine=replace(shape.combine, native=None))


@cache
def _layout(identity: StateIdentity, buckets: int, groups: int) -> Layout:
    return Layout("p", identity, buckets, groups)


def _scanned(snapshot: Any, state: str) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for page in snapshot.scan(state):
        rows = found_of(page, page.column(page.num_columns - 1))
        if set(rows) & set(found):
            raise Wrong(f"a scan of {state!r} shows a key twice")
        found |= rows
    return found


_FAULTS: dict[str, Callable[[World, Driver], None]] = {
    "driver killed": World._crash,
    "power lost": World._power,
    "zombie": World._zombie,
    "stop asked": World._stop,
    "server killed": World._redis_kill,
    "server rewound": World._redis_rewind,
    "one hash tag rewound": World._redis_node,
    "server emptied": World._redis_empty,
    "network": World._net,
    "attempt fails": World._fails,
    "attempt late": World._slow,
    "spout fails": World._spout,
    "log fails": World._log,
    "disk full": World._file_full,
    "snapshot lost": World._files,
    "log copied": World._take_copy,
}
_KINDS = tuple(_FAULTS)
_WEIGHTS = (14, 8, 12, 3, 3, 10, 6, 2, 18, 12, 8, 5, 3, 3, 1, 1)
