"""Orders that come several times, and payments some minutes after them: the same Parquet files for everybody."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 13
SPAN = 120_000_000
"""The event time of one file, in microseconds: two minutes."""
PAIRED = 1_000
"""The amount of an order is its id modulo this."""

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Orders:
    """Two folders of Parquet files, one file of each for a batch.

    `orders`: id, at, amount; an order in five comes a second time, up to two files later. `payments`: id, paidAt, paid;
    of nine orders in ten, up to five minutes after the order. `distinct` are all ids, `paid` those that have a payment
    in the files, once for each time that the order comes.
    """

    folder: Path
    distinct: Ids
    paid: Ids
    rows: int
    payments: int

    def rows_of(self, kind: str) -> int:
        """Return the number of tuples that enter."""
        return self.rows if kind == "dedup" else self.rows + self.payments


def make_orders(folder: Path, files: int, rows: int) -> Orders:
    """Write the files: this many, of this many new orders each."""
    random = np.random.default_rng(SEED)
    ids = random.permutation(files * rows)
    at = np.sort(random.integers(0, files * SPAN, len(ids)))
    again = np.flatnonzero(random.random(len(ids)) < 0.2)
    again_at = at[again] + random.integers(1, 2 * SPAN, len(again))
    all_ids, all_at = np.concatenate([ids, ids[again]]), np.concatenate([at, again_at])
    _write(folder / "orders", files, all_at, id=all_ids, at=all_at, amount=all_ids % PAIRED)
    payers = np.flatnonzero(random.random(len(ids)) < 0.9)
    paid_at = at[payers] + random.integers(0, 300_000_000, len(payers))
    inside = paid_at < files * SPAN
    _write(folder / "payments", files, paid_at, id=ids[payers], paidAt=paid_at, paid=np.ones(len(payers), np.int64))
    kept = again_at < files * SPAN
    paid_ids, paid_times = ids[payers][inside], paid_at[inside]
    second = np.full(len(ids), -1, np.int64)
    second[ids[again][kept]] = again_at[kept]
    twice = (second[paid_ids] >= 0) & (second[paid_ids] <= paid_times)
    return Orders(
        folder,
        np.sort(ids),
        np.sort(np.concatenate([paid_ids, paid_ids[twice]])),
        len(ids) + int(kept.sum()),
        int(inside.sum()),
    )


def _write(folder: Path, files: int, times: Ids, **columns: Ids) -> None:
    """Write the rows into files by their times; rows of later times are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    order = np.argsort(times, kind="stable")
    cuts = np.searchsorted(times[order], SPAN * np.arange(files + 1))
    for number in range(files):
        rows = order[cuts[number] : cuts[number + 1]]
        table = {
            name: pa.array(column[rows], pa.timestamp("us", tz="UTC") if name.lower().endswith("at") else pa.int64())
            for name, column in columns.items()
        }
        pq.write_table(pa.table(table), folder / f"{number:03d}.parquet")
