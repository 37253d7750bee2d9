"""The text that every engine counts: the same Parquet files, and how often each word is in them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.check import Counts

VOCABULARY = 50_000
EXPONENT = 1.15
SEED = 7
WORDS_PER_LINE = 10


@dataclass(frozen=True)
class Workload:
    """Parquet files of one string column, ``line``, a file a batch; `expected` counts all words of all files."""

    folder: Path
    files: tuple[Path, ...]
    lines: int
    words: int
    expected: Counts


def make_workload(folder: Path, files: int = 20, lines_per_file: int = 100_000) -> Workload:
    """Write the files: lines of ten words, drawn by Zipf's law (exponent 1.15) from 50,000, the same ones each time."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(SEED)
    weights = np.arange(1, VOCABULARY + 1, dtype=np.float64) ** -EXPONENT
    steps = np.cumsum(weights / weights.sum())
    vocabulary = pa.array([f"word{n}" for n in range(VOCABULARY)])
    totals = np.zeros(VOCABULARY, dtype=np.int64)
    paths = []
    for number in range(files):
        drawn = np.minimum(np.searchsorted(steps, random.random(lines_per_file * WORDS_PER_LINE)), VOCABULARY - 1)
        totals += np.bincount(drawn, minlength=VOCABULARY)
        paths.append(folder / f"batch-{number:03d}.parquet")
        pq.write_table(pa.table({"line": _lines(vocabulary, drawn)}), paths[-1])
    expected = {word: int(n) for word, n in zip(vocabulary.to_pylist(), totals, strict=True) if n}
    lines = files * lines_per_file
    return Workload(folder, tuple(paths), lines, lines * WORDS_PER_LINE, expected)


def _lines(vocabulary: pa.Array, drawn: "np.typing.NDArray[np.int64]") -> pa.Array:
    offsets = pa.array(np.arange(0, len(drawn) + 1, WORDS_PER_LINE, dtype=np.int32))
    return pc.binary_join(pa.ListArray.from_arrays(offsets, vocabulary.take(pa.array(drawn))), " ")


def small_tables(load: Workload, batches: int, rows: int) -> list[pa.Table]:
    """Divide the first lines of the first file into batches; start again at its beginning when it ends."""
    lines = pq.read_table(load.files[0])
    whole = lines.num_rows // rows
    return [lines.slice(number % whole * rows, rows) for number in range(batches)]


@dataclass(frozen=True)
class Events:
    """Parquet files of a key and a time, a file a batch; `expected` counts all events by ``key@minute``."""

    folder: Path
    files: tuple[Path, ...]
    schema: str
    expected: Counts


KEYS = 5_000
DISORDER = 5
"""The seconds by which an event may be late."""


def make_events(folder: Path, files: int, events_per_file: int) -> Events:
    """Write the files: events of two minutes each, 5,000 keys drawn evenly, times a little out of order."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(SEED)
    names = pa.array([f"key{n}" for n in range(KEYS)])
    totals: dict[str, int] = {}
    paths = []
    for number in range(files):
        drawn = random.integers(0, KEYS, events_per_file)
        late = random.integers(0, DISORDER * 1_000_000, events_per_file)
        times = 120_000_000 * number + np.linspace(0, 120_000_000, events_per_file, endpoint=False, dtype=np.int64)
        times = np.maximum(times - late, 0)
        both, counts = np.unique(times // 60_000_000 * KEYS + drawn, return_counts=True)
        for each, count in zip(both.tolist(), counts.tolist(), strict=True):
            key = f"key{each % KEYS}@{each // KEYS * 60}"
            totals[key] = totals.get(key, 0) + count
        paths.append(folder / f"batch-{number:03d}.parquet")
        at = pa.array(times, pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table({"k": names.take(pa.array(drawn)), "at": at}), paths[-1])
    return Events(folder, tuple(paths), "k string, at timestamp", totals)
