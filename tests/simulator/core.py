"""The library's own parts, as the changing programs run them: the one file that knows how they are put together."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.simulator.fake_log import FakeLog, LogDisk
from tests.simulator.in_world import Worlds
from tests.simulator.memo import remembered
from tests.simulator.patches import Folder
from tests.simulator.programs import Shape
from tests.simulator.scheduler import Pool, Scheduler
from tests.simulator.verdict import OF_STAGES
from trident.access import removal
from trident.access.opening import _combine, _known
from trident.access.replica import MemoryReplica
from trident.base import errors
from trident.base.attempt import Lease
from trident.batches import coordinator_events as on
from trident.batches.group_run import GroupRun
from trident.batches.run_context import RunContext
from trident.batches.sources import Sources
from trident.commits.output_memory import LogMemory
from trident.commits.query_answers import CommittedAnswers
from trident.compiler.arrow.engine import ArrowSlot
from trident.compiler.program import Group, Program
from trident.configuration.settings import Settings
from trident.display.display import Condition
from trident.files.disk import DiskFiles
from trident.files.store import StoredFile
from trident.log import frozen_batches
from trident.log.redis_log import RedisTransactionLog
from trident.log.returned_lease import give_back
from trident.outputs.parquet_outlet import ParquetOutlet
from trident.reads.commit_gate import CommitGate
from trident.recovery.acquisition import Begun, begin, close_all, open_stores
from trident.recovery.backfills import Fill, no_fill
from trident.recovery.takeover import explaining
from trident.run import start
from trident.run.backfill import Starts, backfilled
from trident.run.fence_watch import Watch
from trident.run.read_source import RunReadSource
from trident.run.run_control import RunControl
from trident.run.savepoints import Saving
from trident.user_calls.watched_calls import WatchedCalls

if TYPE_CHECKING:
    from tests.simulator.changing import Changing
    from tests.simulator.driver import Driver
    from tests.simulator.world import World

STOPS_WITHIN = 40.0
"""Seconds in which a driver ends that is asked to, whatever user code does."""

PASSING = (
    errors.StateUnavailableError,
    errors.StateFullError,
    errors.StateBehindError,
    errors.StateRecoveringError,
    errors.SnapshotMovedError,
    errors.FencedError,
    errors.BatchFailedError,
    errors.BatchTimeoutError,
    errors.UserFunctionError,
    errors.OutputError,
    errors.SpoutError,
    errors.FailedException,
)
"""Errors after which the same program is started again."""

DAMAGE = (errors.LogCorruptError, errors.LogMismatchError, errors.StateLostError, errors.StateOwnedError)
"""Nothing was damaged or lost in these schedules."""


def caused(error: BaseException | None, kind: type[BaseException]) -> Any:
    """The error of this kind for which a driver stopped, if it is one."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    return error


class Started:
    """A run that has begun."""

    def __init__(self, context: RunContext, runs: dict[str, GroupRun]) -> None:
        self.context, self.runs = context, runs
        self.log, self.begun = log, begun = context.log, context.begun
        self.read_source = RunReadSource(context.settings.name, runs, begun.stores, None, begun.births)
        self.watch = Watch(runs, begun.stores, log, begun.lease)

    def saving(self, over: Callable[[], Condition | None]) -> Saving:
        """The object that takes savepoints of this run, as `RunningTopology` has it."""
        switches = RunControl(self.context.settings.name, self.runs, True, {}, {}, over)
        return Saving(self.context, self.runs, switches)

    def resting(self) -> bool:
        """Whether nothing is frozen that is not committed, as far as this driver knows."""
        return all(run.committed == run.coordinator.frozen for run in self.runs.values())

    def stop(self) -> None:
        for run in self.runs.values():
            run.post(on.StopAsked())

    def close(self) -> None:
        if not any(run.writes_hang for run in self.runs.values()):
            close_all(self.begun.stores)
        give_back(self.log, self.begun.lease)


def started(driver: "Driver", starts: Starts) -> Started:
    """Start a program, as `trident.run.start` does it: from the same parts, in its order."""
    world, shape = driver.world, driver.shape
    settings = replace(world.settings, clock=driver.clock)
    opening = partial(open_log, world, driver)
    with backfilled(shape.plan, shape.program, settings, lambda settings: opening(), starts) as fill:
        return run_of(driver, shape.program, settings, fill)


def run_of(driver: "Driver", program: Program, settings: Settings, fill: Fill = no_fill) -> Started:
    """Start a program, or a part of it, over the topology's log."""
    world = driver.world
    log: Any = open_log(world, driver)
    settings = replace(settings, uuid=log.uuid)
    driver.begun = begun = begin(program, log, settings, fill=fill)
    if log.uuid not in world.logs_gone:  # it may have opened its log after a reset that it slept through
        driver.life = world.lives
    return _assembled(driver, log, settings, begun, driver.engine, driver.notes, _group_started)


def beside(driver: "Driver", program: Program, log: Any, settings: Settings, notes: Any) -> Started:
    """Start a program beside that of a driver, in its process, over another log."""
    begun = begin(program, log, settings)
    return _assembled(driver, log, settings, begun, driver.side_engine, notes, _side_started)


def _assembled(
    driver: "Driver", log: Any, settings: Settings, begun: Begun, engine: Any, notes: Any, make: Callable[..., GroupRun]
) -> Started:
    looking = CommittedAnswers()
    try:
        pool: Any = Pool(driver.world.scheduler, driver.process, "states", None)
        unused: Any = None
        memory = LogMemory.of(begun, log, settings.leaseSecs)
        context = RunContext(
            unused,
            settings,
            "",
            log,
            begun,
            engine,
            pool,
            unused,
            notes,
            memory,
            make_threads=driver.threads,
        )
        runs = {group.name: make(driver, group, context, looking) for group in begun.program.groups}
        memory.keep()
    except BaseException:
        close_all(begun.stores)
        give_back(log, begun.lease)
        raise
    run = Started(context, runs)
    looking.source = run.read_source
    return run


def _group_started(driver: "Driver", group: Group, context: RunContext, looking: CommittedAnswers) -> GroupRun:
    world, mine = driver.world, OfGroup(context.log, driver, group.name)
    context = replace(context, log=mine)  # type: ignore[arg-type]
    opened = start._outlets(group, context)
    with explaining(context.log, context.begun.lease):  # as `start._outlets`, which opens no place here
        outlets = _Telling(opened, world.places.open(group, opened), driver, group.name)
    run = start._group_run(group, context, _Heard(driver, group, _calls(driver, group, context)), outlets, looking)
    mine.run = run
    run.turns.heal = partial(_heal, driver, run.turns.heal, run)  # type: ignore[method-assign]
    return _in_world(run, world)


def _side_started(driver: "Driver", group: Group, context: RunContext, looking: CommittedAnswers) -> GroupRun:
    sources = Sources(group.spouts, _calls(driver, group, context))
    return _in_world(start._group_run(group, context, sources, committed=looking), driver.world)


def _calls(driver: "Driver", group: Group, context: RunContext) -> WatchedCalls:
    limit: Any = context.settings.messageTimeoutSecs
    return WatchedCalls(group.name, driver.world.scheduler, limit, driver.threads)  # type: ignore[arg-type]


def _in_world(run: GroupRun, world: "World") -> GroupRun:
    run.turns.gate = Gate(run, world.scheduler)
    run.coordinator._rules = replace(run.coordinator._rules, idleFirst=world.idle)
    return run


def _heal(driver: "Driver", heal: Callable[[str], None], run: GroupRun, state: str) -> None:
    """Let a store be healed. The library counts a heal that Spark failed like such a commit, and tells nobody."""
    heal(state)
    driver.stage_failures += isinstance(run.turns.waiting_for, OF_STAGES)


class Gate(CommitGate):
    """The gate of commits, at which a task waits in simulated time."""

    def __init__(self, run: GroupRun, scheduler: Scheduler) -> None:
        super().__init__(lambda: run.committed)
        self._scheduler = scheduler

    def wait(self, txid: int, timeout: float | None = None) -> bool:
        return self._scheduler.wait(lambda: super(Gate, self).wait(txid, timeout=0), timeout)


class _Heard(Sources):
    """Spouts of a group that say which batches they hear the success of."""

    def __init__(self, driver: "Driver", group: Group, calls: WatchedCalls) -> None:
        super().__init__(group.spouts, calls)
        self._driver, self._group = driver, group.name

    def success(self, txid: int, *more: Any) -> None:
        self._driver.succeeded(self._group, txid)
        super().success(txid, *more)


class _Telling:
    """Outputs that say for which group they are handed a batch, and publish it in their places."""

    def __init__(self, outlets: Any, places: dict[str, ParquetOutlet], driver: "Driver", group: str) -> None:
        self._outlets, self._places, self._driver, self._group = outlets, places, driver, group

    def __call__(self, sink: Any, result: Any, txid: int) -> None:
        self._driver.handing(self._group, sink.name)
        self._outlets(sink, result, txid)
        if sink.name in self._places:
            self._places[sink.name].take(result, txid)
            self._driver.world.places.took(sink.name, result.num_rows)


class OfGroup:
    """A driver's log, as one of its groups uses it: remembers which attempt's content is about to be frozen."""

    run: GroupRun

    def __init__(self, log: Any, driver: "Driver", name: str) -> None:
        self._log, self._driver, self._name = log, driver, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def freeze(self, lease: Any, group: Any, txid: int, batch: Any, *more: Any, **named: Any) -> None:
        attempt, _ = self.run.coordinator.in_flight[txid]
        self._driver.freezing[group, txid] = self._driver.given[self._name, attempt], batch.time
        self._log.freeze(lease, group, txid, batch, *more, **named)


# --- logs -----------------------------------------------------------------------------------------------------------


def open_log(world: "World", driver: "Driver | None" = None) -> Any:
    """The topology's log, in a file or in Redis."""
    if world.log_server is not None:
        return RedisTransactionLog(world.log_address, "p", "sim", False, world.patience)
    faulty = world.faults.of_log if driver is not None else (lambda what: None)
    log = FakeLog(world.disk, world.scheduler, faulty)
    if driver is not None:
        log.frozen_heard = driver.froze
        log.committed_heard = driver.committed
        log.founded_heard = driver.founded
    return log


def lease_of(world: "World") -> Lease:
    """The lease in force."""
    if world.log_server is None:
        return Lease(world.disk.epoch, world.disk.token)
    meta = world.log_server.data.get(b"p:{sim}:log:m", {})
    return Lease(int(meta.get(b"epoch", b"0")), meta.get(b"token", b"").decode())


def committed_of(disk: LogDisk, group: Any) -> int:
    """The last committed txid that the log's file holds."""
    found = disk.groups.get(group)
    return 0 if found is None else found.committed


def frozen_rows(world: "World", group: str, txid: int, output: str) -> list[Any] | None:
    """What a later stage froze for an output; None where it is stage 1's, or the log is not a file."""
    for (name, at, stage), outputs in world.disk.frozen.items() if world.log_server is None else ():
        if (name, at) == (group, txid) and stage > 1 and f"{output}!" in outputs:
            table = frozen_batches.thaw(outputs[f"{output}!"], output)
            assert isinstance(table, pa.Table)
            return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return None


def with_formerly(shape: Shape, earlier: list[Shape], message: str) -> Shape:
    """The program that says of every stream what it was called before, or that it is new."""
    streams = []
    for stream in shape.streams:
        names = [former.name for other in earlier for former in other.streams if former.token == stream.token]
        if f"{stream.name!r}" in message:
            known = [name for name in names if name != stream.name and f"{name!r}" in message]
            stream = replace(stream, formerly=known[-1] if known else None)
        streams.append(stream)
    return replace(shape, streams=tuple(streams))


def look_at_log(world: "World") -> Any:
    """The log, only to be read; others go on between two looks."""
    if world.log_server is not None:
        return RedisTransactionLog(world.log_address, "p", "sim", False, 0.0, reading=True)
    return _Looking(FakeLog(world.disk, world.scheduler, lambda what: None), world)


class _Looking:
    def __init__(self, log: FakeLog, world: "World") -> None:
        self._log, self._world = log, world

    def __getattr__(self, name: str) -> Any:
        if name in ("births", "history", "manifest", "frozen"):
            self._world.scheduler.point("look", name)
        return getattr(self._log, name)


# --- engine ---------------------------------------------------------------------------------------------------------


slot_of = remembered(ArrowSlot, lambda group: group.stages, programs=True)
"""The driver's own engine computes the stages; nothing stops it in the middle, so that one serves all drivers.

By stages: each start makes groups of its own, which share them."""


# --- what users do beside a run --------------------------------------------------------------------------------------


def drop(world: "Changing", shape: Shape, state: str) -> None:
    """As `dropState` with force: the driver is fenced out, the state deleted, and forgotten by the log."""
    log: Any = open_log(world)
    try:
        known, memory = state in log.births(), bool(log.manifest(state))
        if not known and world.setting.homes[state] == "memory":
            return
        place: Any = _Place()
        if memory:
            removal._drop(place, log, "sim", [state], False, False)
            return
        lease = log.take()
        store = world.store_left_of(state, shape)
        if store is not None:
            store.drop()
            store.close()
        if known:  # else a driver that was overtaken made the state again, or the server forgot that it was dropped
            log.forget(lease, state)
        log.give_back(lease)
    finally:
        log.close()


class _SnapshotFiles(DiskFiles):
    """The files of snapshots, as long as the world's disk has them."""

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        return (StoredFile(name, 1) for name in Worlds.now.segments.names(self))

    def delete(self, names: Iterable[str]) -> None:
        Worlds.now.segments.delete(self, names)

    def remove_empty(self) -> None: ...


class _Place:
    """In the place of `trident.access.locations.Place`."""

    has_files = True

    def place(self, topology: str, log: object = None) -> DiskFiles:
        folder: Any = Folder("nowhere")
        return _SnapshotFiles(folder)


def reset_all(world: "World", shape: Shape) -> None:
    """As `topology.reset`: whoever writes the log is fenced out, the states are dropped, the log goes."""
    log: Any = open_log(world)
    try:
        lease = log.take()
        stores = open_stores(shape.program, log, world.settings)
        for store in stores.values():
            store.drop()
        close_all(stores)
        if world.log_server is not None:
            log.drop(lease)
        world.logs_gone.add(log.uuid)
    finally:
        log.close()


def reader(world: "World", state: str) -> MemoryReplica:
    """A state in memory, opened from outside."""
    files = _Place().place("sim")
    log = look_at_log(world)
    probe = MemoryReplica(log, files, state, None)
    combine = _combine(probe.manifest, probe.fingerprint, _known(probe.fingerprint, state, None))
    return MemoryReplica(log, files, state, combine)
