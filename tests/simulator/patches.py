"""What is put in place of the machine while schedules run: time, disk, and bytes that only cost time.

No decision of the library is taken here.
"""

import inspect
import sched
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa

from tests.simulator.bucket import BucketFiles
from tests.simulator.fake_delta import MODULE
from tests.simulator.frozen_disk import FrozenDisk, read_here, secure_here, whole, written_here
from tests.simulator.in_world import Worlds
from tests.simulator.memo import MOST, content, kept, of_programs, remembered
from tests.simulator.places import placed
from tests.simulator.saved_files import SavedFiles, read, written
from tests.simulator.scheduler import Pool, Process
from tests.simulator.side_disks import in_memory, removed
from trident.access import forking, removal, restoring
from trident.base import crash_points, interruptible_waits
from trident.base.spark_types import arrow_schema
from trident.batches import attempt_runs, attempt_slots, attempts, group_run, sources
from trident.commits import committer, query_answers, user_code
from trident.compiler import frozen_parts, program
from trident.compiler.arrow import engine
from trident.compiler.frozen_parts import PART_ROWS
from trident.compiler.outline import outline_of
from trident.compiler.spark import keyed_jobs, state_puts
from trident.compiler.states.queries import compile_query
from trident.files import delta_folder, disk
from trident.files.disk import DiskFiles
from trident.frozen import files as frozen_files
from trident.frozen.results import FrozenFiles
from trident.log import frozen_batches, log_server, redis_log
from trident.log.frozen_batches import keys_and_values
from trident.outputs import parquet_outlet
from trident.reads import commit_gate, committed_reads
from trident.recovery import first_content, savepoint, state_evolution
from trident.run import backfill, fence_watch, run_control, savepoint_states, savepoints
from trident_spouts import emission, rows, user_calls
from trident_spouts.adapters import partitioned_executors
from trident_state import keys as state_keys
from trident_state.binary_arrays import with_lengths
from trident_state.delta import batch_rows, compaction, data_files, maintenance, vacuum
from trident_state.delta import store as delta_store
from trident_state.delta import table as delta_table
from trident_state.keys import decode_keys, hash_keys
from trident_state.memory import entries as memory_entries
from trident_state.memory import key_index, segments, snapshots
from trident_state.memory import store as memory_store
from trident_state.memory.segments import Segment
from trident_state.records.forms import records_of, unpack_records
from trident_state.redis import (
    cluster,
    due_index,
    key_ownership,
    open_batch,
    open_snapshot,
    placement,
    reader,
    shared_state,
    writer,
)
from trident_state.redis import store as redis_store
from trident_state.redis.key_ownership import inspection_commands
from trident_state.redis.layout import Layout
from trident_state.redis.meta import parse_meta, read_meta
from trident_state.redis.placement import PUT_KEYS, Placement, place_distinct_keys, place_keys
from trident_state.redis.server_check import check_server, parse_info
from trident_state.redis.wire import Arguments, Blob, command

_FILE_BYTES = 1
"""What each file of a snapshot is said to take."""


class Kept:
    """A frozen result that keeps the table, or the list of its files: in the place of bytes and their checksum."""

    __slots__ = ("rows", "size", "table")
    checksum = 0

    def __init__(self, table: pa.Table | FrozenFiles) -> None:
        self.table, self.rows, self.size = table, table.num_rows, 40 + 8 * table.num_rows

    @property
    def files(self) -> bool:
        return isinstance(self.table, FrozenFiles)

    @property
    def folder(self) -> str:
        """That of the files."""
        return self.table.folder if isinstance(self.table, FrozenFiles) else ""

    @property
    def body(self) -> bytes:
        """What a server keeps in its place: the number under which the world has it."""
        bodies = Worlds.now.bodies
        bodies.append(self.table)
        return b"%d" % (len(bodies) - 1)


def _thawed(kept: Any, where: str) -> Any:
    return kept.table if isinstance(kept, Kept) else Worlds.now.bodies[int(kept.body)]


class Clock:
    """In the place of `time`: that of the world which runs just now."""

    @staticmethod
    def monotonic() -> float:
        return Worlds.now.scheduler.now  # type: ignore[no-any-return]

    @staticmethod
    def time() -> float:
        return Worlds.now.scheduler.time()  # type: ignore[no-any-return]

    @staticmethod
    def sleep(seconds: float) -> None:
        Worlds.now.scheduler.sleep(seconds)


class Turns:
    """In the place of `threading.RLock` where it is held at points of input and output: all stacks are one thread's, so
    that it is the fiber's, and waited for in simulated time."""

    def __init__(self) -> None:
        self._scheduler = Worlds.now.scheduler
        self._owner: Any = None
        self._depth = 0

    def acquire(self, blocking: bool = True) -> bool:
        me = self._scheduler.fiber or self._scheduler
        while self._depth and self._owner is not me:
            if not blocking:
                return False
            self._scheduler.wait(lambda: not self._depth)
        self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Turn:
    """In the place of `threading.Lock`: as `Turns`, once at a time for the same fiber too."""

    def __init__(self) -> None:
        self._scheduler = Worlds.now.scheduler
        self._taken = False

    def acquire(self, blocking: bool = True) -> bool:
        while self._taken:
            if not blocking:
                return False
            self._scheduler.wait(lambda: not self._taken)
        self._taken = True
        return True

    def release(self) -> None:
        self._taken = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Folder:
    """In the place of a path: names, and nothing there but the files of snapshots, as long as `SegmentFiles` says, and
    those of large results."""

    __slots__ = ("_path", "name")
    parent = "."

    def __init__(self, name: str, above: str = "") -> None:
        self.name, self._path = name, above + name

    def __str__(self) -> str:
        return self._path

    def __truediv__(self, name: str) -> "Folder":
        above, _, last = name.rpartition("/")
        return Folder(last, f"{self._path}/{above}/" if above else f"{self._path}/")

    def exists(self) -> bool:
        """False: a backfill of the simulator leaves nothing to a later start, so it has no note of its batches."""
        return False

    def write_text(self, text: str) -> None:
        """Drop the note of a backfill."""

    def is_dir(self) -> bool:
        return "/frozen/" in self._path and bool(list(self.iterdir()))

    def iterdir(self) -> Iterator["Folder"]:
        disk: FrozenDisk = Worlds.now.frozen_files
        return (self / name for name in disk.folders(self.relative_to()))

    def relative_to(self, other: Any = None) -> str:
        """The path below the checkpoint."""
        return self._path.partition("/")[2]

    def stat(self) -> SimpleNamespace:
        _, folder, name = self._path.rsplit("/", 2)
        if (folder, name) not in Worlds.now.segments.files:
            raise FileNotFoundError(self._path)
        return SimpleNamespace(st_size=_FILE_BYTES)


class Alone:
    """In the place of a `threading.Condition`: there is one thread, which waits for nobody."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def wait_for(self, so: Callable[[], bool], timeout: float | None = None) -> bool:
        return so()

    def notify_all(self) -> None: ...


def _until(_: interruptible_waits.Waits, condition: Callable[[], object], timeout: float | None = None) -> bool:
    """In the place of `Waits.until`: it waits in simulated time."""
    return Worlds.now.scheduler.wait(condition, timeout)  # type: ignore[no-any-return]


class Thread:
    """In the place of a `threading.Thread`: a task of the process that starts it."""

    def __init__(self, target: Callable[[], None], **_: object) -> None:
        self._target, self._over = target, True

    def start(self) -> None:
        scheduler = Worlds.now.scheduler
        process: Process = scheduler.current
        self._over = False
        pool = next((pool for pool in process.pools if pool.name == "upkeep"), None)
        (pool or Pool(scheduler, process, "upkeep", None)).submit(self._run)

    def _run(self) -> None:
        try:
            self._target()
        finally:
            self._over = True

    def is_alive(self) -> bool:
        return not self._over

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end. A task without a stack of its own does not wait for a time, since it may hold a lock."""
        scheduler = Worlds.now.scheduler
        if timeout is None or scheduler.fiber is not None:
            scheduler.wait(lambda: self._over, timeout)


def _removed(folder: Folder, ignore_errors: bool) -> None:
    Worlds.now.frozen_files.delete(folder.relative_to())


_THREADING = SimpleNamespace(Condition=Alone, Lock=Alone, Thread=lambda **_: None)


class SegmentFiles:
    """A disk for the files of snapshots: the batches of each, by state and name."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], list[pa.RecordBatch]] = {}
        self.full = False
        """Whether the next file does not fit."""
        self._made = 0

    def write(
        self, folder: DiskFiles, log: str, lease: Any, since: int, txid: int, batches: Iterable[pa.RecordBatch]
    ) -> Segment:
        self._made += 1
        name = f"{txid}-{lease.epoch}-{log}-{self._made:08x}.arrow"
        content = list(batches)
        self.files[folder.root.name, name] = content
        return Segment(name, since, txid, sum(batch.num_rows for batch in content), _FILE_BYTES, 0)

    def read(self, folder: DiskFiles, segment: Segment) -> list[pa.RecordBatch] | None:
        return self.files.get((folder.root.name, segment.name))

    def delete(self, folder: DiskFiles, names: Iterable[str]) -> None:
        for name in names:
            self.files.pop((folder.root.name, name), None)

    def names(self, folder: DiskFiles) -> list[str]:
        return [name for state, name in self.files if state == folder.root.name]


def _write_segment(folder: DiskFiles, *args: Any) -> Segment:
    world = Worlds.now
    world.scheduler.point("segment", still=True)
    disk: SegmentFiles = world.segments
    if disk.full:
        disk.full = False
        raise OSError(28, "No space left on device")
    segment = disk.write(folder, *args)
    world.scheduler.point("segment", "done", still=True)
    return segment


_read_file = segments.read_segment


def _read_segment(folder: DiskFiles, segment: Segment, schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
    found = Worlds.now.segments.read(folder, segment)
    return _read_file(folder, segment, schema, where) if found is None else iter(found)  # says that it is gone


def _strays(folder: DiskFiles, manifest: Any, log: str, epoch: int | None) -> list[str]:
    named = {segment.name for segment in manifest.segments} if manifest else set()
    names = Worlds.now.segments.names(folder)
    return [
        name
        for name in names
        if name not in named and log in ("", name.split("-")[2]) and (epoch is None or int(name.split("-")[1]) < epoch)
    ]


_short_keys, _encode = key_index._short, state_keys._encode


def _keeping(work: Callable[..., Placement]) -> Callable[..., Placement]:
    def keeping(*args: Any) -> Placement:
        placement = work(*args)
        kept(placement.keys)
        return placement

    return keeping


def _bits(count: int) -> int:
    return Worlds.now.bucket.dice.getrandbits(count)  # type: ignore[no-any-return]


def _split(table: pa.Table) -> tuple[pa.Table, pa.Array]:
    keys, values = keys_and_values(table)
    return kept(keys), kept(values)


def _placed(encoded: pa.Array, layout: Layout, *what: str) -> Any:
    return content(encoded), layout.buckets, layout.groups, layout.identity.topology, layout.identity.name


def _all() -> list[tuple[Any, str, Any]]:
    """What is put in the place of what: module, name, and the other thing."""
    encode = remembered(lambda keys: kept(_encode(keys)), content)
    hashed = remembered(hash_keys, content)
    decode = remembered(decode_keys, lambda encoded, schema: (content(encoded), schema))
    arguments = remembered(Arguments, content)
    unpack = remembered(unpack_records, lambda form, records, where: (form, *records))
    packed = lru_cache(MOST)(command)
    places = remembered(_keeping(place_keys), _placed)
    distinct = remembered(_keeping(place_distinct_keys), _placed)
    return [
        *((module, "freeze", lambda result, beside=None: Kept(result)) for module in (committer, first_content)),
        (committer, "secure", secure_here),
        (disk, "shutil", SimpleNamespace(rmtree=_removed)),
        *((module, "thaw", _thawed) for module in (frozen_batches, state_evolution)),
        (frozen_batches, "read_whole", lambda folder, result: whole(Worlds.now.frozen_files, result)),
        (frozen_parts, "read_frozen", read_here),
        (keyed_jobs, "write_frozen", written_here),
        (frozen_files.FileFolder, "sync", lambda folder: None),  # a file is durable before a result names it
        (frozen_parts, "PART_ROWS", PART_ROWS),  # each world sets its own
        (state_puts, "_PROBES", 1),
        (frozen_batches, "keys_and_values", remembered(_split, content)),
        *((module, "time", Clock) for module in (commit_gate, committed_reads)),
        (sources, "_JSON", SimpleNamespace(encode=msgspec.json.encode)),
        (sources, "json", SimpleNamespace(loads=msgspec.json.decode)),
        *((module, "threading", _THREADING) for module in (group_run, commit_gate, committed_reads, fence_watch)),
        (query_answers, "compile_query", of_programs(compile_query)),
        (
            program,
            "outline_of",
            remembered(outline_of, lambda frozen, _: tuple(id(output[3]) for output in frozen), programs=True),
        ),
        (interruptible_waits.Waits, "until", _until),
        (backfill, "time", Clock),
        (backfill, "shutil", SimpleNamespace(rmtree=removed)),
        (backfill, "make_folder", lambda folder: None),
        (backfill, "_in_memory", in_memory),
        (run_control, "time", Clock),
        (savepoints, "DiskFiles", SavedFiles),
        (savepoints, "secrets", SimpleNamespace(token_hex=lambda size: Worlds.now.frozen_files.token())),
        (savepoint_states, "write_frozen", written),
        (savepoint, "read_whole", read),
        (forking, "check_own_folder", lambda settings, uuid: None),  # there is no folder
        (restoring, "check_own_folder", lambda settings, uuid: None),
        (attempt_slots, "shutil", SimpleNamespace(rmtree=lambda path, ignore_errors: None)),  # nobody writes there
        (key_index, "heads_of", remembered(key_index.heads_of, content)),
        (key_index, "_short", remembered(lambda heads: kept(_short_keys(heads)), bytes)),
        (snapshots, "write_segment", _write_segment),
        (snapshots, "read_segment", _read_segment),
        (snapshots, "delete_segments", lambda folder, names: Worlds.now.segments.delete(folder, names)),
        (snapshots, "unnamed_segments", _strays),
        (state_keys, "_encode", encode),
        *((module, "hash_keys", hashed) for module in (state_keys, placement, memory_entries, snapshots)),
        *((writer, name, PUT_KEYS) for name in ("PUT_KEYS", "SLICE_KEYS")),  # each world sets its own
        (due_index, "_PAGE_KEYS", due_index._PAGE_KEYS),  # each world sets its own
        (redis_store, "threading", SimpleNamespace(RLock=Turns)),
        (memory_store, "threading", SimpleNamespace(RLock=Turns, Lock=Turn)),
        (attempts, "threading", SimpleNamespace(Lock=Turns)),
        (delta_folder, "_file_system", lambda folder: BucketFiles(folder.uri)),
        (delta_table, "deltalake", lambda need: MODULE),
        (delta_table, "threading", SimpleNamespace(Lock=Turn)),
        (delta_store, "threading", SimpleNamespace(RLock=Turns)),
        (maintenance, "threading", SimpleNamespace(Lock=Turns, Thread=Thread)),
        *((module, "time", Clock) for module in (delta_table, maintenance, batch_rows, compaction, vacuum)),
        (
            data_files,
            "secrets",
            SimpleNamespace(randbits=_bits, token_hex=lambda size: f"{_bits(8 * size):0{2 * size}x}"),
        ),
        # Each world with Delta tables sets its own:
        *((compaction, name, getattr(compaction, name)) for name in ("LEAST", "MOST", "_SMALL", "_ROWS")),
        *(
            (maintenance, name, getattr(maintenance, name))
            for name in ("CHECKPOINT_EVERY", "_CLEAN_EVERY", "_MANY", "_PAUSE")
        ),
        (data_files, "ROW_GROUP", data_files.ROW_GROUP),
        *((module, "parse_info", cache(parse_info)) for module in (redis_store, cluster)),  # equal ones are one
        *((module, "parse_meta", remembered(parse_meta, tuple)) for module in (reader, key_ownership)),
        *((module, "Arguments", arguments) for module in (reader, writer)),
        *((module, "unpack_records", unpack) for module in (reader, writer)),
        *((module, "decode_keys", decode) for module in (reader, memory_store)),
        (writer, "with_lengths", remembered(lambda values: kept(with_lengths(values)), content)),
        (writer, "Blob", remembered(Blob, content)),
        *((module, "place_keys", places) for module in (redis_store, open_snapshot)),
        *((module, "place_distinct_keys", distinct) for module in (redis_store, open_batch)),
        *((module, "records_of", cache(records_of)) for module in (redis_store, shared_state)),
        (redis_store, "check_server", remembered(check_server, lambda info, *where: (id(info), *where))),
        *((module, "command", packed) for module in (cluster, key_ownership, reader, redis_store)),
        (key_ownership, "inspection_commands", cache(inspection_commands)),
        *((module, "read_meta", lru_cache(MOST)(read_meta)) for module in (key_ownership, reader)),
        *((module, "arrow_schema", _same(arrow_schema)) for module in (rows, emission, attempt_runs)),
        (
            user_calls,
            "table_of",
            remembered(user_calls.table_of, lambda rows, schema, where: (_held(rows), id(schema)), programs=True),
        ),
        (inspect, "getsourcelines", of_programs(inspect.getsourcelines)),  # for messages; it parses a file each time
        *((module, "monotonic", Clock.monotonic) for module in (sources, partitioned_executors)),
        *((module, "threading", SimpleNamespace(Lock=Turns, RLock=Turns)) for module in (log_server, redis_log)),
        *((module, "time", Clock) for module in (log_server, removal)),
        (redis_log, "secrets", SimpleNamespace(token_hex=lambda size: Worlds.now.new_token())),
        (redis_log, "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=Worlds.now.new_uuid()))),
        (parquet_outlet, "parquet_place", placed),
        # What the library asks of the same classes, methods and steps again at each start and each call:
        (group_run, "sched", SimpleNamespace(scheduler=lambda clock: sched.scheduler(clock, lambda seconds: None))),
        (
            user_calls,
            "asks_for",
            remembered(user_calls.asks_for, lambda of, name: (_function(of), name), programs=True),
        ),
        (sources, "inspect", SimpleNamespace(signature=remembered(inspect.signature, _function, programs=True))),
        (user_code, "sites_in", remembered(user_code.sites_in, tuple, programs=True)),
        (user_code, "_sites_of", of_programs(user_code._sites_of)),
        (engine, "arrow_schema", _same(arrow_schema)),
    ]


def _function(method: Any) -> Any:
    return getattr(method, "__func__", method)


def _held(rows: Any) -> Any:
    return tuple(rows) if isinstance(rows, list) else content(rows)


def _same(work: Any) -> Any:
    """The same function, that computes once what it is asked about the same object."""
    held = remembered(lambda thing: (thing, work(thing)), id, programs=True)  # so that no other object has its id
    return lambda thing: held(thing)[1]


_PUT = _all()
"""Made once: what is remembered serves all schedules of this process."""


@contextmanager
def machine() -> Iterator[None]:
    """Everything that is the same for all worlds."""
    with ExitStack() as stack:
        for module, name, thing in _PUT:
            stack.enter_context(patch.object(module, name, thing))
        stack.callback(crash_points.listen, None)  # each world listens itself
        yield
