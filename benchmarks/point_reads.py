"""The time of a read of one key in a large state, by the store: measured from another program, and drawn.

``python -m benchmarks.point_reads`` writes ``point_reads.json`` and ``point_reads.svg`` into ``benchmarks/results``;
``--quick`` only shows that everything runs, ``--keys 10000000`` takes a larger state. *Cold* is the first read after
the state was opened, *warm* a read of a key that was read before. Both find the files in the operating system's cache.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.check import WrongAnswerError
from benchmarks.keyed_files import KeyedFiles, make_keyed_files
from benchmarks.report import results_folder, save_bars
from benchmarks.timing import percentile
from tests.support.s3 import BUCKET, S3Server
from tests.support.server import RedisServer
from trident import Count, TridentTopology, openState
from trident.spouts import FileSpout
from trident.state import DeltaMapState, RedisMapState, SqliteMapState, StateFactory

KEYS, BATCHES = 1_000_000, 10
WARM, COLD = 1_000, 30
"""The reads of each kind. A cold read opens the state anew."""

Figures = dict[str, dict[str, float]]


def measure(folder: Path, url: str, objects: S3Server, keys: int, warm: int, cold: int) -> Figures:
    """Return the percentiles of the reads in ms, by store and kind. Raises WrongAnswerError for a wrong value."""
    load = make_keyed_files(folder / "load", BATCHES, keys // 4, keys)
    stores: Mapping[str, StateFactory] = {
        "delta": DeltaMapState.opaque(folder / "states"),
        "delta, S3": DeltaMapState.opaque(f"s3://{BUCKET}/states", storageOptions=objects.delta_storage),
        "sqlite": SqliteMapState.opaque(folder / "states.sqlite"),
        "redis": RedisMapState.opaque(url),
    }
    figures = Figures()
    for name, store in stores.items():
        _fill(load, store, folder / name)
        drawn = random.Random(5)
        samples = {"cold": _cold(load, store, drawn, cold), "warm": _warm(load, store, drawn, warm)}
        for kind, took in samples.items():
            figures[f"{name}, {kind}"] = {"p50": percentile(took, 50), "p99": percentile(took, 99)}
            print(f"  {name}, {kind}: {figures[f'{name}, {kind}']}", flush=True)
    return figures


def _fill(load: KeyedFiles, store: StateFactory, folder: Path) -> None:
    topology = TridentTopology()
    spout = FileSpout(str(load.folder / "*.parquet"), format="parquet", schema=load.schema, maxFilesPerBatch=1)
    topology.newStream("rows", spout).groupBy("key").persistentAggregate(store, Count(), "count", name="counts")
    with topology.start(engine="embedded", name="reads", checkpointLocation=folder) as running:
        running.processAllAvailable(timeout=1_000)


@contextmanager
def _opened(store: StateFactory) -> Iterator[Any]:
    with openState("reads", "counts", factory=store) as state:
        yield state


def _cold(load: KeyedFiles, store: StateFactory, drawn: random.Random, reads: int) -> list[float]:
    took = []
    for _ in range(reads):
        with _opened(store) as state:
            took.append(_read(load, state, drawn.randrange(len(load.expected.keys))))
    return took


def _warm(load: KeyedFiles, store: StateFactory, drawn: random.Random, reads: int) -> list[float]:
    some = [drawn.randrange(len(load.expected.keys)) for _ in range(200)]
    with _opened(store) as state:
        for at in some:
            _read(load, state, at)
        return [_read(load, state, drawn.choice(some)) for _ in range(reads)]


def _read(load: KeyedFiles, state: Any, at: int) -> float:
    """Return the milliseconds in which the value of a key is read."""
    key, count = int(load.expected.keys[at]), int(load.expected.counts[at])
    began = time.perf_counter()
    value = state.get(key)
    took = 1000 * (time.perf_counter() - began)
    if value != count:
        raise WrongAnswerError(f"key {key} has the count {value}, expected {count}")
    return took


def draw(figures: Figures, keys: int, path: Path) -> None:
    """Draw the percentiles beside each other."""
    bars = {name: [each[name] for each in figures.values()] for name in ("p50", "p99")}
    save_bars([*figures], bars, f"A read of one of {keys:,} keys, from another program", "milliseconds", path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.point_reads", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small state: does everything run?")
    parser.add_argument("--keys", type=int, default=KEYS, help=f"the keys of the state ({KEYS:,})")
    parser.add_argument("--out", type=Path, help="folder for the figures and the picture")
    asked = parser.parse_args()
    keys, warm, cold = (5_000, 20, 3) if asked.quick else (asked.keys, WARM, COLD)
    out = results_folder(asked.out, asked.quick)
    with (
        tempfile.TemporaryDirectory(prefix="trident-reads-") as name,
        RedisServer(Path(name, "redis"), "everysec") as server,
        S3Server(Path(name), options=["-Xmx4g"]) as objects,
    ):
        figures = measure(Path(name), server.url, objects, keys, warm, cold)
    (out / "point_reads.json").write_text(json.dumps({"keys": keys, "ms": figures}, indent=1) + "\n")
    draw(figures, keys, out / "point_reads.svg")


if __name__ == "__main__":
    main()
