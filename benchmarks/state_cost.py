"""What a state costs, with no Spark: ``python -m benchmarks.state_cost``.

Batches against the number of keys in the state, a million keys in one batch, batches that touch nothing, bytes a key,
a restart. Every answer is compared with what it must be.
"""

import argparse
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.check import WrongAnswerError
from benchmarks.competitors.raw_increments import raw_increments
from benchmarks.competitors.raw_set import raw_set
from benchmarks.row import Row
from benchmarks.timing import Timed, median
from tests.support.buckets import stored_keys
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base.attempt import Lease
from trident.files.disk import DiskFiles
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory
from trident_state.state_shape import Combine, StateIdentity, StateKind, StateShape
from trident_state.store import Store
from trident_state.store_messages import Update

LEASE, LATER = Lease(1, "bench"), Lease(2, "later")
COUNT = Combine("Count", lambda stored, delta: stored + delta, "sum")
SHAPE = StateShape(pa.schema({"word": pa.string()}), pa.int64(), COUNT)
FILLING = 1_000_000
"""Keys a batch while a state is filled."""


@dataclass(frozen=True)
class Sizes:
    """The sizes and the number of rounds."""

    memory: tuple[int, ...] = (10_000, 100_000, 1_000_000, 5_000_000)
    redis: tuple[int, ...] = (10_000, 100_000, 300_000, 1_000_000)
    batch: int = 10_000
    batches: int = 40
    distinct: int = 1_000_000
    rounds: int = 5


SMALL = Sizes((500, 5_000), (500, 5_000), 200, 3, 5_000, 1)


# --- batches against keys ------------------------------------------------------------------------------------------


Start = Callable[..., RunningTopology]
"""Starts a topology, on Spark or on the embedded engine."""


def whole_batches(
    start: Start, engine: str, homes: Sequence[str], server: RedisServer, folder: Path, sizes: Sizes, rounds: int = 1
) -> Iterator[Row]:
    """Measure batches from emit to commit: source, engine, log and state.

    On Spark this is the cost of a batch. The embedded engine has no Spark job, so it shows by how many milliseconds
    the state makes a batch longer. Each round goes over all sizes, so that a change of the machine's speed affects all.
    """
    places: dict[str, tuple[tuple[int, ...], StateFactory]] = {
        "memory": (sizes.memory, MemoryMapState.opaque()),
        "redis": (sizes.redis, RedisMapState.opaque(server.url)),
    }
    for home in homes:
        counts, state = places[home]
        took: dict[int, list[float]] = {count: [] for count in counts}
        for number, count in enumerate((counts[0], *counts * rounds)):
            _renew(server)
            with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
                milliseconds = _whole(start, state, server, count, sizes, checkpoint)
            if number > 0:  # the first warmed the engine up
                took[count].append(milliseconds)
        for count in counts:
            named = {"spark": "on Spark", "embedded": "on the embedded engine"}[engine]
            what = f"{sizes.batch:,} random keys a batch {named}, emit to commit, {home} state of {count:,} keys"
            least = None if count == counts[0] else median(took[counts[0]])
            bounded = engine == "spark" or home == "memory"
            yield _against(f"keys.{engine}.{home}.{count}", what, median(took[count]), least, 1.3 if bounded else None)


def keys(server: RedisServer, folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Start on the embedded engine."""
    start = partial(TridentTopology.start, engine="embedded")
    yield from whole_batches(start, "embedded", ("memory", "redis"), server, folder, sizes, sizes.rounds)


def _whole(start: Start, state: StateFactory, server: RedisServer, count: int, sizes: Sizes, checkpoint: str) -> float:
    """Return the median milliseconds of a batch.

    A run of its own fills the state, because its end takes the snapshot, which would otherwise run beside the batches.
    """
    words = _words(count)
    random = np.random.default_rng(7)
    fills = [pa.table({"word": words.slice(at, FILLING)}) for at in range(0, count, FILLING)]
    size = min(sizes.batch, count)
    batches = [_table(words, random.choice(count, size, replace=False)) for _ in range(sizes.batches)]
    took: dict[int, float] = {}
    total = 0
    for tables in (fills, fills + batches):
        _settle(server)
        topology = TridentTopology()
        stream = topology.newStream("words", FixedBatchSpout("word string", tables))
        stream.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
        with start(topology, name="keys", checkpointLocation=checkpoint, maxSpoutPending=1) as running:
            running.progress.listen(lambda event: took.update({event["txid"]: event["durationMs"]["total"]}))
            running.processAllAvailable()
            total = pc.sum(running.state("counts").toArrow()["count"]).as_py()
    _check("whole batches", total, count + size * sizes.batches)
    return median([took[txid] for txid in sorted(took) if txid > len(fills) + sizes.batches // 8])


def stores_alone(server: RedisServer, folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Measure the stores alone, without log and engine.

    The processor's cache holds a small state and not a large one, so the figures grow with the size.
    """
    places: dict[str, tuple[tuple[int, ...], Callable[[], Store]]] = {
        "memory": (sizes.memory, _in_memory),
        "redis": (sizes.redis, lambda: _in_redis(server)),
    }
    for home, (counts, make) in places.items():
        least = None
        for count in counts:
            _renew(server)
            store, txid = _filled(make(), count)
            _settle(server)
            random, words, took = np.random.default_rng(7), _words(count), []
            size = min(sizes.batch, count)
            for _ in range(sizes.batches):
                txid += 1
                update = _update(txid, words.take(pa.array(random.choice(count, size, replace=False))))
                with Timed() as timed:
                    store.apply(LEASE, update)
                took.append(1000 * timed.seconds)
            store.close()
            what = f"the {home} store alone, {sizes.batch:,} random keys a batch, {count:,} keys"
            yield _against(f"store.{home}.{count}", what, median(took), least, None)
            least = least or median(took)
    yield from _increments(server, sizes)
    _renew(server)


def _increments(server: RedisServer, sizes: Sizes) -> Iterator[Row]:
    """Measure the server's own counters, without any protection, in hash tables like ours."""
    least = None
    for count in sizes.redis:
        _renew(server)
        server.client.config_set("hash-max-ziplist-entries", 32)  # the name that every version knows
        words, random = _words(count), np.random.default_rng(7)
        raw_increments(server.port, words.to_pylist())
        _settle(server)
        size, took = min(sizes.batch, count), list[float]()
        for _ in range(sizes.batches):
            drawn = words.take(pa.array(random.choice(count, size, replace=False)))
            took.append(1000 * raw_increments(server.port, drawn.to_pylist()))
        total = sum(sum(map(int, server.client.hvals(name))) for name in server.client.scan_iter("counts:*"))
        _check("raw counters", total, count + size * sizes.batches)
        what = f"for comparison: {sizes.batch:,} pipelined HINCRBY of random fields, {count:,} fields in 1,024 hashes"
        yield _against(f"raw.increments.{count}", what, median(took), least, None)
        least = least or median(took)


def _against(id: str, what: str, took: float, least: float | None, target: float | None) -> Row:
    """Make a row of milliseconds, against those with the fewest keys; the first row has no other."""
    if least is None:
        return Row(id, what, took, None, "ms", None)
    return Row(id, f"{what}; against the fewest", took, least, "ms", target, "at most")


# --- a million keys in one batch, and none -------------------------------------------------------------------------


def distinct(server: RedisServer, folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Measure one batch of only new keys, and as many raw SETs, each on an empty server."""
    ours, raw = list[float](), list[float]()
    update = _update(1, _words(sizes.distinct))
    for _ in range(sizes.rounds):
        _renew(server)
        store = _in_redis(server)
        with Timed() as timed:
            store.apply(LEASE, update)
        ours.append(timed.seconds)
        _check("one batch", stored_keys(server), sizes.distinct)
        store.close()
        _renew(server)
        raw.append(raw_set(server.port, sizes.distinct, sizes.distinct))
    _renew(server)
    what = f"{sizes.distinct:,} distinct new keys in one batch (opaque count), against as many raw pipelined SETs"
    yield Row("distinct.redis", what, sizes.distinct / median(ours), sizes.distinct / median(raw), "keys/s", 0.6)


def untouched(server: RedisServer, folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Measure open and commit of a state that the batch does not touch."""
    _renew(server)
    places: dict[str, Callable[[], Store]] = {"memory": lambda: _in_memory(), "redis": lambda: _in_redis(server)}
    for home, make in places.items():
        store, txid = _filled(make(), sizes.distinct // 10)
        empty, took = _words(0), []
        for _ in range(10 * sizes.batches):
            txid += 1
            with Timed() as timed:
                store.apply(LEASE, _update(txid, empty))
            took.append(1000 * timed.seconds)
        store.close()
        what = f"open and commit of a {home} state that a batch does not touch: p50"
        yield Row(f"untouched.{home}", what, median(took), None, "ms", 1.0, "at most")
    _renew(server)


# --- room ----------------------------------------------------------------------------------------------------------


def bytes_a_key(server: RedisServer, folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Measure the bytes of keys like "word123456" with counts."""
    opaque, plain = StateKind.OPAQUE, StateKind.NON_TRANSACTIONAL
    for kind in (opaque, plain):
        tracemalloc.start()
        store, _ = _filled(_in_memory(kind), sizes.distinct)
        taken = tracemalloc.get_traced_memory()[0] / sizes.distinct
        tracemalloc.stop()
        what = f"memory, {kind.value}: bytes a key, with the arrays' spare room"
        yield Row(f"bytes.memory.{kind.value}", what, taken, None, "bytes", None)
        del store
    for form in ("packed", "json"):
        for kind in (opaque, plain):
            _renew(server)
            redis, _ = _filled(_in_redis(server, kind, values=form), sizes.distinct)
            names = server.client.scan_iter("*:b:*", count=1000)
            taken = sum(server.client.memory_usage(name, samples=0) or 0 for name in names) / sizes.distinct
            redis.close()
            what = f"Redis, {form}, {kind.value}: bytes a key on the server"
            yield Row(f"bytes.redis.{form}.{kind.value}", what, taken, None, "bytes", None)
    _renew(server)


def recovery(server: RedisServer, folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Measure a restart from a snapshot of a memory state."""
    took = []
    for number in range(sizes.rounds):
        home = _Home(folder / f"recovery-{number}")
        store, txid = _filled(_in_memory(home=home), sizes.distinct)
        store.close()  # which takes a snapshot
        del store
        with Timed() as timed:
            again = MemoryMapState.opaque().open(StateIdentity("bench", "counts", "log"), SHAPE, home)
            again.acquire(LATER)
            values = again.read(_table(_words(sizes.distinct), np.arange(10)), txid).values
        _check("recovery", pc.sum(values).as_py(), 10)
        took.append(timed.seconds)
    what = f"a restart with a memory state of {sizes.distinct:,} keys: load, and the first read"
    yield Row("recovery.memory", what, median(took), None, "s", 5.0, "at most")


# --- small things --------------------------------------------------------------------------------------------------


class _Home:
    """What a run lends to a state; in memory where it has no folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.files = None if folder is None else DiskFiles(folder, private=True)
        self._manifest = b""

    def manifest(self) -> bytes | None:
        return self._manifest or None

    def publish(self, manifest: bytes, lease: Lease) -> None:
        self._manifest = manifest


def _in_memory(kind: StateKind = StateKind.OPAQUE, home: _Home | None = None) -> Store:
    return _founded(MemoryMapState(kind), home or _Home())


def _in_redis(server: RedisServer, kind: StateKind = StateKind.OPAQUE, **options: Any) -> Store:
    return _founded(RedisMapState(kind, server.url, **options), _Home())


def _founded(factory: StateFactory, home: _Home) -> Store:
    store = factory.open(StateIdentity("bench", "counts", "log"), SHAPE, home)
    store.create(LEASE, 0)
    store.acquire(LEASE)
    return store


def _filled(store: Store, count: int) -> tuple[Store, int]:
    """Return a store with this many keys, and its txid."""
    words, txid = _words(count), 0
    for txid, at in enumerate(range(0, count, FILLING), start=1):
        store.apply(LEASE, _update(txid, words.slice(at, FILLING)))
    return store, txid


def _words(count: int) -> pa.Array:
    return pc.binary_join_element_wise("word", pa.array(np.arange(count)).cast(pa.string()), "")


def _table(words: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Table:
    return pa.table({"word": words.take(pa.array(rows))})


def _update(txid: int, words: pa.Array) -> Update:
    return Update(txid, pa.table({"word": words}), pa.array(np.ones(len(words), np.int64)))


def _renew(server: RedisServer) -> None:
    """Start a new server process without data: the fragmented memory of an old one costs a quarter of a batch."""
    server.kill()
    server.wipe()
    server.start()


def _settle(server: RedisServer) -> None:
    """Make the server rewrite its file now; otherwise the rewrite after a fill would run beside the batches."""
    server.client.bgrewriteaof()
    while server.client.info("persistence")["aof_rewrite_in_progress"]:
        time.sleep(0.05)


def _check(what: str, got: int, expected: int) -> None:
    if got != expected:
        raise WrongAnswerError(f"{what}: {got} counted, {expected} given")


PARTS: dict[str, Callable[[RedisServer, Path, Sizes], Iterator[Row]]] = {
    "keys": keys,
    "store": stores_alone,
    "distinct": distinct,
    "untouched": untouched,
    "bytes": bytes_a_key,
    "recovery": recovery,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small data, one round: does everything run?")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="these parts alone")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder, "redis"), "everysec") as server:
        sizes = SMALL if asked.quick else Sizes()
        for row in (row for part in asked.only for row in PARTS[part](server, Path(folder), sizes)):
            other = "" if row.other is None else f"  other {row.other:,.4g}  ratio {row.ratio:.2f}"
            met = "" if row.ok is None else f"  target {row.target}: {'met' if row.ok else 'MISSED'}"
            print(f"{row.id:32} {row.ours:12,.4g} {row.unit:7}{other}{met}", flush=True)


if __name__ == "__main__":
    main()
