"""A state in a Delta table as it grows: what a batch costs, and what a read costs; measured, and drawn.

``python -m benchmarks.large_states`` writes ``large_states.json`` and ``large_states.svg`` into ``benchmarks/results``;
``--quick`` only shows that everything runs. One state grows from 1,000,000 to 100,000,000 keys: batches of 100,000 keys
and reads of single keys are timed on the way. Another takes 10,000 batches of 100 keys: its files, and its rows for
each key (the read amplification), are counted on the way.
"""

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from matplotlib.figure import Figure

from benchmarks.check import WrongAnswerError
from benchmarks.report import results_folder, save_picture
from benchmarks.timing import percentile
from trident import Count, TridentTopology
from trident.spouts import FeederBatchSpout
from trident.state import DeltaMapState

SIZES = tuple(1_000_000 * each for each in (1, 2, 5, 10, 20, 50, 100))
STEP = 1_000_000
"""The new keys of a batch with which the state grows."""
CHANGED, TIMED = 100_000, 100
"""The keys of a batch whose time counts, drawn evenly from all keys of the state, and the number of such batches."""
READS = 200

BATCHES, SMALL, SMALL_KEYS, SLICE = 10_000, 100, 100_000, 250
"""The long run: its batches, the keys of each, the keys of the state, and the batches between two looks."""

Figures = dict[str, Any]


@contextmanager
def counted(folder: Path) -> Iterator[tuple[FeederBatchSpout, Any, Path]]:
    """Run a count by key in a Delta table; give its source, the run, and the table's folder."""
    spout, topology = FeederBatchSpout("key long"), TridentTopology()
    keys = topology.newStream("keys", spout).groupBy("key")
    keys.persistentAggregate(DeltaMapState.opaque(folder / "states"), Count(), "n", name="counts")
    with topology.start(engine="embedded", name="large", checkpointLocation=folder / "checkpoint") as running:
        yield spout, running, folder / "states" / "large" / "counts"


def _fed(spout: FeederBatchSpout, keys: Any) -> float:
    """Return the milliseconds until a batch of these keys is committed."""
    batch = pa.table({"key": keys})
    began = time.perf_counter()
    spout.feed(batch, wait=True, timeout=1_000)
    return 1000 * (time.perf_counter() - began)


def _rest() -> None:
    """Wait until the merges that the growth of the state has begun are done."""
    spent = -1.0
    while time.process_time() - spent > 0.1:
        spent = time.process_time()
        time.sleep(1.0)


def _read(state: Any, expected: Any, key: int) -> float:
    """Return the milliseconds in which the value of a key is read."""
    began = time.perf_counter()
    value = state.get(key)
    took = 1000 * (time.perf_counter() - began)
    if value != expected[key]:
        raise WrongAnswerError(f"key {key} has the count {value}, expected {expected[key]}")
    return took


def grow(folder: Path, sizes: tuple[int, ...], step: int, changed: int) -> list[Figures]:
    """Return the cost of a batch and of a read at each size. Raises WrongAnswerError for a wrong count."""
    drawn, numbers = random.Random(5), np.random.default_rng(5)
    expected = np.zeros(sizes[-1], np.int32)
    found: list[Figures] = []
    with counted(folder) as (spout, running, table):
        there = 0
        for size in sizes:
            for first in range(there, size, step):
                _fed(spout, np.arange(first, min(first + step, size)))
            expected[there:size] += 1
            there = size
            _rest()
            took, spent = [], time.process_time()
            for _ in range(TIMED):
                keys = np.unique(numbers.integers(0, size, changed))
                took.append(_fed(spout, keys))
                expected[keys] += 1
            _rest()
            spent = time.process_time() - spent
            state = running.state("counts")
            reads = [_read(state, expected, drawn.randrange(size)) for _ in range(READS)]
            files = _files(table)
            found.append(
                {
                    "keys": size,
                    "batch_ms": {f"p{n}": round(percentile(took, n), 1) for n in (10, 50, 90)},
                    "batch_cpu_ms": round(1000 * spent / TIMED, 1),
                    "read_ms": {f"p{n}": round(percentile(reads, n), 2) for n in (50, 99)},
                    "files": len(files["bytes"]),
                    "table_mb": round(sum(files["bytes"]) / 1e6, 1),
                    "folder_mb": round(_bytes_of(table) / 1e6, 1),
                    "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
                }
            )
            print(f"  {found[-1]}", flush=True)
    _check(table, expected)
    return found


def _check(table: Path, expected: Any) -> None:
    """Raise WrongAnswerError if the rows of the table, read without the library, do not add up to each count."""
    got = np.zeros(len(expected), np.int32)
    for batch in DeltaTable(table).to_pyarrow_dataset().to_batches(columns=["key", "value"], batch_size=1 << 20):
        np.add.at(got, batch["key"].to_numpy(), batch["value"].to_numpy().astype(np.int32))
    if not np.array_equal(got, expected):
        wrong = int(np.count_nonzero(got != expected))
        raise WrongAnswerError(f"{wrong} of {len(expected)} counts of the table are wrong")


def _files(table: Path) -> dict[str, list[int]]:
    """Return the rows and the bytes of each file of the table's last version."""
    actions = pa.table(DeltaTable(table).get_add_actions(flatten=True))
    return {"rows": actions["num_records"].to_pylist(), "bytes": actions["size_bytes"].to_pylist()}


def _bytes_of(folder: Path) -> int:
    """Return the bytes of all files in a folder, with those that merges have replaced."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # deleted meanwhile
            continue
    return total


def amplify(folder: Path, batches: int, keys: int) -> list[Figures]:
    """Return the files, and the rows for each key, after each slice of a long run. Raises WrongAnswerError as above."""
    numbers, drawn = np.random.default_rng(7), random.Random(7)
    expected = np.zeros(keys, np.int32)
    found: list[Figures] = []
    with counted(folder) as (spout, running, table):
        for first in range(0, batches, SLICE):
            took = []
            for _ in range(min(SLICE, batches - first)):
                chosen = numbers.choice(keys, SMALL, replace=False)
                took.append(_fed(spout, chosen))
                expected[chosen] += 1
            state, files = running.state("counts"), _files(table)
            there = np.flatnonzero(expected)
            reads = [_read(state, expected, int(drawn.choice(there))) for _ in range(50)]
            found.append(
                {
                    "batches": first + len(took),
                    "files": len(files["rows"]),
                    "rows_per_key": round(sum(files["rows"]) / len(there), 2),
                    "batch_ms": round(percentile(took, 50), 1),
                    "read_ms": round(percentile(reads, 50), 2),
                }
            )
            print(f"  {found[-1]}", flush=True)
    _check(table, expected)
    return found


def draw(growth: list[Figures], long_run: list[Figures], path: Path) -> None:
    """Draw both runs side by side."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    by_size, over_time = figure.subplots(1, 2)
    sizes = [each["keys"] for each in growth]
    by_size.loglog(sizes, [each["batch_ms"]["p50"] for each in growth], marker="o", label="batch of 100,000 keys")
    by_size.loglog(sizes, [each["read_ms"]["p50"] for each in growth], marker="o", label="read of one key")
    by_size.set(xlabel="keys in the state", ylabel="milliseconds, median", title="As the state grows")
    by_size.legend()
    batches = [each["batches"] for each in long_run]
    over_time.plot(batches, [each["files"] for each in long_run], label="files")
    over_time.plot(batches, [each["rows_per_key"] for each in long_run], label="rows for each key")
    over_time.set(xlabel=f"batches of {SMALL} keys", title=f"What a read meets ({SMALL_KEYS:,} keys)")
    over_time.set_ylim(bottom=0)
    over_time.legend()
    for axes in (by_size, over_time):
        axes.grid(visible=True, alpha=0.3)
    save_picture(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_states", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small states: does everything run?")
    parser.add_argument("--out", type=Path, help="folder for the figures and the picture")
    asked = parser.parse_args()
    sizes, step, changed = ((2_000, 5_000), 1_000, 500) if asked.quick else (SIZES, STEP, CHANGED)
    batches, keys = (SLICE, 1_000) if asked.quick else (BATCHES, SMALL_KEYS)
    out = results_folder(asked.out, asked.quick)
    with tempfile.TemporaryDirectory(prefix="trident-large-") as name:
        growth = grow(Path(name, "growth"), sizes, step, changed)
        long_run = amplify(Path(name, "long"), batches, keys)
    (out / "large_states.json").write_text(json.dumps({"growth": growth, "long_run": long_run}, indent=1) + "\n")
    draw(growth, long_run, out / "large_states.svg")


if __name__ == "__main__":
    main()
