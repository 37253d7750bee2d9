"""A Delta table for a test, and calls of a DeltaSpout as a run makes them."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from trident.base.attempt import TransactionAttempt
from trident.spouts import Budget, DeltaSpout

FEED = {"delta.enableChangeDataFeed": "true"}
WORDS = pa.schema([("id", pa.int64()), ("word", pa.string())])


class Table:
    """A table with the fields `id` and `word`; each call of `add` is a version."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, *ids: int, mode: str = "append", **options: Any) -> "Table":
        """Append a row for each id."""
        rows = pa.table({"id": ids, "word": [f"w{id % 3}" for id in ids]}, schema=WORDS)
        return self.write(rows, mode=mode, **options)

    def write(self, rows: pa.Table, **options: Any) -> "Table":
        write_deltalake(str(self.path), rows, **{"mode": "append", **options})
        return self

    def rows(self) -> dict[int, str]:
        """Return the words that the table holds now, by their ids."""
        held = self.delta.to_pyarrow_table().to_pylist()
        assert len({row["id"] for row in held}) == len(held)
        return {row["id"]: row["word"] for row in held}

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(str(self.path))

    @property
    def version(self) -> int:
        return int(self.delta.version())

    def commit(self, version: int) -> Path:
        """Return the file of a version's commit."""
        return self.path / "_delta_log" / f"{version:020}.json"

    def actions(self, version: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.commit(version).read_text().splitlines()]

    def append_actions(self, *actions: dict[str, Any]) -> None:
        """Commit a version with these actions, as another writer than deltalake would."""
        self.commit(self.version + 1).write_text("\n".join(map(json.dumps, actions)) + "\n")

    def forget_log_before(self, version: int) -> None:
        """Make a checkpoint, and clean the log up before a version, as retention does."""
        self.delta.create_checkpoint()
        for old in range(version):
            self.commit(old).unlink()


def read_all(spout: DeltaSpout, position: Any = None, budget: Budget = Budget(), most: int = 50) -> list[list[Any]]:  # noqa: B008
    """Return the rows of each batch that there is now, each batch read by a new executor, from the metadata alone."""
    batches = []
    for txid in range(1, most):
        attempt = TransactionAttempt(txid, 0, 1)
        with closing(spout.open()) as planner, closing(spout.open()) as reader:
            plan = planner.plan(attempt, position, 0.0, budget)
            if plan is None:
                return batches
            position = json.loads(json.dumps(plan))
            batches.append([tuple(row.values()) for row in reader.emit(attempt, position).arrow().to_pylist()])
    raise AssertionError(f"no end within {most} batches")


def ids_of(batches: Sequence[Sequence[Any]]) -> list[list[int]]:
    """Return the sorted ids of each batch."""
    return [sorted(row[0] for row in batch) for batch in batches]


def last_position(spout: DeltaSpout) -> Any:
    """Return the position behind all that there is now."""
    position = None
    with closing(spout.open()) as executor:
        while (plan := executor.plan(TransactionAttempt(1, 0, 1), position, 0.0)) is not None:
            position = json.loads(json.dumps(plan))
    return position
