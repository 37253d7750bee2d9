"""The library's own parts, as the changing programs run them: the one file that knows how they are put together."""

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.simulator.changing import places
from tests.simulator.changing.programs import Shape, program_of
from tests.simulator.driver import Gate as Gate
from tests.simulator.fake_log import FakeLog, LogDisk
from tests.simulator.memo import content, remembered
from tests.simulator.patches import Folder, Kept, Turns
from tests.simulator.scheduler import Pool
from trident.access import removal
from trident.access.opening import _combine, _known
from trident.access.replica import MemoryReplica
from trident.base import errors
from trident.base.attempt import Lease
from trident.base.types import arrow_schema
from trident.batches import attempt_runs, sources
from trident.batches import events as on
from trident.batches.group_run import GroupRun
from trident.batches.run_context import RunContext
from trident.batches.sources import Sources
from trident.commits.output_memory import LogMemory
from trident.commits.query_answers import CommittedAnswers
from trident.compiler.arrow.engine import ArrowSlot
from trident.compiler.program import Group
from trident.files.disk import DiskFiles
from trident.files.store import StoredFile
from trident.log import frozen_batches, redis_log, redis_server
from trident.log.redis_log import RedisTransactionLog
from trident.outputs import parquet_outlet
from trident.outputs.parquet_outlet import ParquetOutlet
from trident.recovery.acquisition import Begun, begin, close_all, open_stores
from trident.run import start
from trident.run.fence_watch import Watch
from trident.run.read_source import RunReadSource
from trident.user_calls.watched_calls import WatchedCalls
from trident_spouts import emission, rows, user_calls
from trident_spouts.adapters import partitioned

if TYPE_CHECKING:
    from tests.simulator.changing.driver import Driver
    from tests.simulator.changing.world import World

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


def output_conflict(error: BaseException | None) -> errors.OutputConflictError | None:
    """The error of an output that is not as the log knows it, if a driver stopped for that."""
    while error is not None and not isinstance(error, errors.OutputConflictError):
        error = error.__cause__
    return error


def lost_data(error: BaseException | None) -> bool:
    """Whether a driver stopped because a source is not the one that was read."""
    while error is not None:
        if isinstance(error, errors.DataLossError):
            return True
        error = error.__cause__
    return False


class Started:
    """A run that has begun."""

    def __init__(self, driver: "Driver", log: Any, begun: Begun, runs: dict[str, GroupRun]) -> None:
        self.log, self.begun, self.runs = log, begun, runs
        self.read_source = RunReadSource("sim", runs, begun.stores)
        self.watch = Watch(runs, begun.stores, log, begun.lease)

    def resting(self) -> bool:
        """Whether nothing is frozen that is not committed, as far as this driver knows."""
        return all(run.committed == run.coordinator.frozen for run in self.runs.values())

    def stop(self) -> None:
        for run in self.runs.values():
            run.post(on.StopAsked())

    def close(self) -> None:
        if not any(run.writes_hang for run in self.runs.values()):
            close_all(self.begun.stores)
        start._give_back(self.log, self.begun.lease)


def started(driver: "Driver") -> Started:
    """Start a program, as `trident.run.start` does it: from the same parts, in its order."""
    world, program = driver.world, program_of(driver.shape)
    log: Any = open_log(world, driver)
    begun = begin(program, log, world.settings)
    driver.begun = begun
    if log.uuid not in world.logs_gone:  # it may have opened its log after a reset that it slept through
        driver.life = world.lives
    runs: dict[str, GroupRun] = {}
    looking = CommittedAnswers()
    try:
        pool: Any = Pool(world.scheduler, driver.process, "states", None)
        unused: Any = None
        engine: Any = driver.engine
        trace: Any = driver.notes
        memory = LogMemory.of(begun, log, world.settings.leaseSecs)
        for group in begun.program.groups:
            mine: Any = OfGroup(log, driver, group.name)
            limit: Any = world.settings.messageTimeoutSecs
            calls = WatchedCalls(group.name, world.scheduler, limit, driver.threads)
            context = RunContext(
                unused,
                world.settings,
                "",
                mine,
                begun,
                engine,
                pool,
                unused,
                trace,
                memory,
                make_threads=driver.threads,
            )
            opened = start._outlets(group, context)
            outlets = _Telling(opened, world.places.open(group, opened), driver, group.name)
            run = start._group_run(group, context, Sources(group.spouts, calls), outlets, looking)
            mine.run = run
            run.turns.gate = Gate(_RunOf(world, run))  # type: ignore[arg-type]
            run.coordinator._rules = replace(run.coordinator._rules, idleFirst=world.idle)
            runs[group.name] = run
        memory.keep()
    except BaseException:
        close_all(begun.stores)
        start._give_back(log, begun.lease)
        raise
    begun_run = Started(driver, log, begun, runs)
    looking.source = begun_run.read_source
    return begun_run


class _RunOf:
    """What a `Gate` asks of a driver."""

    def __init__(self, world: "World", run: GroupRun) -> None:
        self.world, self.run = world, run


class _Telling:
    """Outputs that say for which group they are handed a batch, and publish it in their places."""

    def __init__(self, outlets: Any, places: dict[str, ParquetOutlet], driver: "Driver", group: str) -> None:
        self._outlets, self._places, self._driver, self._group = outlets, places, driver, group

    def __call__(self, sink: Any, result: Any, txid: int) -> None:
        self._driver.handing(self._group, sink.name)
        self._outlets(sink, result, txid)
        if sink.name in self._places:
            self._places[sink.name].take(result, txid)
            self._driver.world.places.took(sink.name)


class OfGroup:
    """A driver's log, as one of its groups uses it: remembers which attempt's content is about to be frozen."""

    run: GroupRun

    def __init__(self, log: Any, driver: "Driver", name: str) -> None:
        self._log, self._driver, self._name = log, driver, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def freeze(self, lease: Any, group: Any, txid: int, *more: Any, **named: Any) -> None:
        attempt, _ = self.run.coordinator.in_flight[txid]
        self._driver.freezing[group, txid] = self._driver.given[self._name, attempt]
        self._log.freeze(lease, group, txid, *more, **named)


def label_of(driver: "Driver", group: str) -> Any:
    """The log's name for a group of a driver's program."""
    return group


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


def _content(rows: Any) -> Any:
    return tuple(rows) if isinstance(rows, list) else content(rows)


def patched() -> list[tuple[Any, str, Any]]:
    """What is put in the place of what, beside that of the unchanging programs."""
    from types import SimpleNamespace

    from tests.simulator.patches import Clock

    locks = SimpleNamespace(Lock=Turns, RLock=Turns)
    table = remembered(user_calls.table_of, lambda rows, schema, where: (_content(rows), id(schema)))
    return [
        *((module, "arrow_schema", _same(arrow_schema)) for module in (rows, emission, attempt_runs)),
        (user_calls, "table_of", table),
        (inspect, "getsourcelines", cache(inspect.getsourcelines)),  # for messages; it parses a file each time
        *((module, "monotonic", Clock.monotonic) for module in (sources, partitioned)),
        (redis_server, "threading", locks),
        (redis_server, "time", Clock),
        (redis_log, "threading", locks),
        (redis_log, "secrets", SimpleNamespace(token_hex=lambda size: _now().new_token())),
        (redis_log, "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=_now().new_uuid()))),
        (removal, "time", Clock),
        (parquet_outlet, "parquet_place", places.placed),
    ]


def _same(work: Any) -> Any:
    """The same function, that computes once what it is asked about the same object."""
    known: dict[int, tuple[Any, Any]] = {}

    def remembering(thing: Any) -> Any:
        found = known.get(id(thing))
        if found is None:
            found = known[id(thing)] = thing, work(thing)
        return found[1]

    return remembering


def _now() -> Any:
    from tests.simulator.in_world import Worlds

    return Worlds.now


# --- engine ---------------------------------------------------------------------------------------------------------


@cache
def slot_of(group: Group) -> ArrowSlot:
    """The driver's own engine computes the stages; nothing stops it in the middle, so that one serves all."""
    return ArrowSlot(group)


# --- what users do beside a run --------------------------------------------------------------------------------------


def drop(world: "World", shape: Shape, state: str) -> None:
    """As `dropState` with force: the driver is fenced out, the state deleted, and forgotten by the log."""
    log: Any = open_log(world)
    try:
        known, memory = state in log.births(), bool(log.manifest(state))
        if not known and world.homes[state] == "memory":
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
        return (StoredFile(name, 1) for name in _now().segments.names(self))

    def delete(self, names: Iterable[str]) -> None:
        _now().segments.delete(self, names)

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
        stores = open_stores(program_of(shape), log, world.settings)
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


__all__ = ["DAMAGE", "PASSING", "Gate", "Kept", "OfGroup", "Started"]
