"""The streams of the joins: orders, users, payments; the same Parquet files for us and for DataFrames."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.check import Counts

COUNTRIES = 200
SEED = 11


@dataclass(frozen=True)
class Shop:
    """Folders of Parquet files, one file of each for each batch.

    `orders`: id, user, amount. `payments`: order_id, paid; of nine orders in ten, and of some orders that do not exist.
    `users`: user, country. `discounts`: user, percent; of every tenth user. All fields but the country are longs. The
    expected figures are those of all batches together.
    """

    folder: Path
    batches: int
    rows: int
    by_country: Counts
    """Amounts by country."""
    by_discount: Counts
    """Amounts by country and percent, "c7/5" or "c7/None"."""
    by_payment: Counts
    """Tuples of orders and payments: "both", "order" alone, "payment" alone."""

    def files(self, of: str) -> list[str]:
        """Return the files of one stream, batch by batch."""
        return [str(self.folder / of / f"{number:03d}.parquet") for number in range(self.batches)]


def make_shop(folder: Path, batches: int, rows: int) -> Shop:
    """Write the files: this many batches of this many orders, with a fifth as many users."""
    random = np.random.default_rng(SEED)
    users = np.arange(max(COUNTRIES, rows // 5))
    percent = users % 7
    by_country, by_discount = np.zeros(COUNTRIES, np.int64), np.zeros((COUNTRIES, 8), np.int64)
    for number in range(batches):
        ids = random.permutation(np.arange(rows) + number * rows)
        buyers, amounts = random.choice(users, rows), random.integers(1, 1_000, rows)
        paid = np.concatenate([ids[: rows * 9 // 10], np.arange(rows // 10) - rows])
        _write(folder / "orders", number, id=ids, user=buyers, amount=amounts)
        _write(folder / "payments", number, order_id=random.permutation(paid), paid=np.ones(len(paid), np.int64))
        _write(folder / "users", number, user=users, country=[f"c{user % COUNTRIES}" for user in users])
        _write(folder / "discounts", number, user=users[::10], percent=percent[::10])
        np.add.at(by_country, buyers % COUNTRIES, amounts)
        np.add.at(by_discount, (buyers % COUNTRIES, np.where(buyers % 10 == 0, buyers % 7, 7)), amounts)
    cells = [(at, p, int(total)) for at, row in enumerate(by_discount) for p, total in enumerate(row) if total]
    tenth = rows // 10
    return Shop(
        folder,
        batches,
        rows,
        {f"c{at}": int(total) for at, total in enumerate(by_country)},
        {f"c{at}/{None if p == 7 else p}": total for at, p, total in cells},
        {"both": (rows - tenth) * batches, "order": tenth * batches, "payment": tenth * batches},
    )


def _write(folder: Path, number: int, **columns: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{number:03d}.parquet")
