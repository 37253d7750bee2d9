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
    """The first lines of the first file, as so many batches of so many rows, from the beginning again at its end."""
    lines = pq.read_table(load.files[0])
    whole = lines.num_rows // rows
    return [lines.slice(number % whole * rows, rows) for number in range(batches)]
