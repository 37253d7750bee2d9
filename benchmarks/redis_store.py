"""The Redis store by itself, with no Spark: ``python -m benchmarks.redis_store``.

Counts of words, in a server of its own. Each round updates keys drawn at random and, in turn, sends as many raw SETs;
in the end every count is compared with NumPy's.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute as pc

from benchmarks.check import WrongAnswerError
from benchmarks.competitors.raw_set import raw_set
from benchmarks.row import Row
from benchmarks.timing import Timed, median, percentile
from tests.support.server import RedisServer
from trident.base.attempt import Lease
from trident.files.store import FileStore
from trident_state.redis import RedisMapState, RedisStore
from trident_state.state_shape import Combine, StateIdentity, StateShape
from trident_state.store_messages import Update

LEASE = Lease(1, "bench")
NATIVE = Combine("Count", lambda stored, delta: stored + delta, "sum")
PYTHON = Combine("Mine", lambda stored, delta: stored + delta)
ASKED = 3


@dataclass(frozen=True)
class Load:
    """A state of `live` keys, and `rounds` batches of `batch` distinct ones of them drawn at random."""

    live: int
    batch: int
    rounds: int

    def words(self) -> pa.Array:
        return pc.binary_join_element_wise("word", pa.array(np.arange(self.live)).cast(pa.string()), "")

    def draws(self, seed: int = 7) -> Iterator[npt.NDArray[np.int64]]:
        drawn = np.random.default_rng(seed)
        for _ in range(self.rounds):
            yield drawn.choice(self.live, self.batch, replace=False)


@dataclass(frozen=True)
class Figures:
    """The times of a measurement, in seconds.

    Of each round: the store's updates, and raw SETs. CPU of all rounds: the server's with the updates and with the raw
    SETs, the client's with the updates. Of reads of three keys.
    """

    updates: list[float]
    raw: list[float]
    server: float
    raw_server: float
    client: float
    reads: list[float]


def measure(server: RedisServer, load: Load, combine: Combine = NATIVE, reads: int = 300) -> Figures:
    """Run a load on this server, which is emptied before."""
    server.client.flushall()
    words, counts = load.words(), np.ones(load.live, np.int64)
    store = _store(server, combine)
    store.apply(LEASE, _update(1, words, np.arange(load.live)))
    _settled(server)
    updates, raw, used, used_by_raw, spent = list[float](), list[float](), 0.0, 0.0, 0.0
    for txid, rows in enumerate(load.draws(), start=2):
        update = _update(txid, words, rows)
        before, began = _server_cpu(server), time.process_time()
        with Timed() as timed:
            store.apply(LEASE, update)
        spent, between = spent + time.process_time() - began, _server_cpu(server)
        updates.append(timed.seconds)
        counts[rows] += 1
        raw.append(raw_set(server.port, load.batch, 1_000_000))
        used, used_by_raw = used + between - before, used_by_raw + _server_cpu(server) - between
    asked = list(_ask(store, words, reads, load.rounds + 1))
    _check(store, words, counts)
    store.close()
    return Figures(updates, raw, used, used_by_raw, spent, asked)


def rows(server: RedisServer, rounds: int = 7, part: int = 1) -> Iterator[Row]:
    """Measure the store against raw SET, and batches of the word count's size; `part` divides both for a quick run."""
    load = Load(1_000_000 // part, 100_000 // part, rounds)
    large = measure(server, load)
    yield Row(
        "redis.update",
        f"{load.batch:,} random keys of {load.live:,} updated (opaque count), against as many raw pipelined SETs",
        load.batch / median(large.updates),
        load.batch / median(large.raw),
        "keys/s",
        0.6,
    )
    for name, combine in {"server": NATIVE, "python": PYTHON}.items():
        load = Load(50_000 // part, 35_000 // part, 20)
        measured = measure(server, load, combine)
        what = f"20 batches of {load.batch:,} of {load.live:,} keys, combined by the {name}"
        yield Row(f"redis.batches.{name}.wall", f"{what}: wall", sum(measured.updates), None, "s", None)
        yield Row(
            f"redis.batches.{name}.server",
            f"{what}: CPU of the server, against that for as many raw pipelined SETs",
            measured.server,
            measured.raw_server,
            "s",
            1.67,  # the 0.6 of their speed, told in CPU
            "at most",
        )
        limit = 1.0 if combine is NATIVE else None
        yield Row(
            f"redis.batches.{name}.client", f"{what}: CPU of the client", measured.client, None, "s", limit, "at most"
        )
    reads = [1000 * seconds for seconds in large.reads]
    yield Row(
        "redis.read.p50",
        f"committed read of 3 keys of {1_000_000 // part:,}: p50",
        percentile(reads, 50),
        None,
        "ms",
        1.0,
        "at most",
    )
    yield Row(
        "redis.read.p99",
        f"committed read of 3 keys of {1_000_000 // part:,}: p99",
        percentile(reads, 99),
        None,
        "ms",
        None,
    )


def _store(server: RedisServer, combine: Combine) -> RedisStore:
    shape = StateShape(pa.schema({"word": pa.string()}), pa.int64(), combine)
    state = RedisMapState.opaque(server.url)
    store = state.open(StateIdentity("bench", "counts", "log"), shape, _NoHome())
    store.create(LEASE, 0)
    store.acquire(LEASE)
    return store


class _NoHome:
    """A state in a server needs nothing of a run's folder."""

    files: FileStore | None = None

    def manifest(self) -> bytes | None:
        return None

    def publish(self, manifest: bytes, lease: Lease) -> None:
        raise NotImplementedError


def _update(txid: int, words: pa.Array, rows: npt.NDArray[np.int64]) -> Update:
    return Update(txid, pa.table({"word": words.take(pa.array(rows))}), pa.array(np.ones(len(rows), np.int64)))


def _ask(store: RedisStore, words: pa.Array, reads: int, as_of: int) -> Iterator[float]:
    for at in range(reads):
        keys = pa.table({"word": words.slice(at, ASKED)})
        with Timed() as timed:
            store.read(keys, as_of)
        yield timed.seconds


def _check(store: RedisStore, words: pa.Array, counts: npt.NDArray[np.int64]) -> None:
    table = pa.concat_tables(store.scan(None))
    stored = table.sort_by("word")
    order = pc.sort_indices(words)
    if not stored["word"].combine_chunks().equals(words.take(order)):
        raise WrongAnswerError(f"{table.num_rows} keys are stored, not the {len(words)} of the load")
    if not np.array_equal(stored["value"].to_numpy(), counts[order.to_numpy()]):
        raise WrongAnswerError("stored counts differ from NumPy's")


def _settled(server: RedisServer) -> None:
    """Wait until the server has rewritten the log of what it was just filled with: that is no update's work."""
    while any(server.client.info("persistence")[f"aof_rewrite_{state}"] for state in ("in_progress", "scheduled")):
        time.sleep(0.1)


def _server_cpu(server: RedisServer) -> float:
    used = server.client.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--aof", choices=("always", "everysec", "none"), default="everysec")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder, "redis"), asked.aof) as server:
        for row in rows(server, asked.rounds):
            other = "" if row.other is None else f"  other {row.other:,.4g}  ratio {row.ratio:.2f}"
            met = "" if row.ok is None else f"  target {row.target}: {'met' if row.ok else 'MISSED'}"
            print(f"{row.id:26} {row.ours:12,.4g} {row.unit:7}{other}{met}", flush=True)


if __name__ == "__main__":
    main()
