"""Files of whole numbers as keys, and how often each comes: the batches of a large state."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.check import WrongAnswerError

SEED = 11


@dataclass(frozen=True)
class KeyCounts:
    """The keys in their order, and the number of rows of each key."""

    keys: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """Return the counts of a table with the columns ``key`` and ``count``."""
        keys, counts = table.column("key").to_numpy(), table.column("count").to_numpy()
        order = np.argsort(keys)
        return cls(keys[order], counts[order])

    def check(self, engine: str, got: "KeyCounts") -> None:
        """Raise WrongAnswerError if an engine counted otherwise."""
        if not (np.array_equal(self.keys, got.keys) and np.array_equal(self.counts, got.counts)):
            raise WrongAnswerError(
                f"{engine}: {len(got.keys)} keys with {got.counts.sum()} rows, but the files have {len(self.keys)} "
                f"keys with {self.counts.sum()} rows, or single counts differ"
            )


@dataclass(frozen=True)
class KeyedFiles:
    """Parquet files of one column, ``key long``, a file a batch."""

    folder: Path
    batches: int
    rows: int
    """The rows of all files."""
    expected: KeyCounts
    schema = "key long"


def make_keyed_files(folder: Path, batches: int, rows: int, keys: int) -> KeyedFiles:
    """Write the files: each has `rows` keys, drawn evenly from `keys`, the same ones each time."""
    folder.mkdir(parents=True)
    random, totals = np.random.default_rng(SEED), np.zeros(keys, np.int64)
    for number in range(batches):
        drawn = random.integers(0, keys, rows)
        totals += np.bincount(drawn, minlength=keys)
        pq.write_table(pa.table({"key": drawn}), folder / f"batch-{number:03d}.parquet")
    there = np.flatnonzero(totals)
    return KeyedFiles(folder, batches, batches * rows, KeyCounts(there, totals[there]))
