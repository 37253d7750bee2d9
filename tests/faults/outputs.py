"""The topology of the kills that meet outputs: Parquet of the tuples and of new values, and a function that notes what
it is handed. Whatever the batches are, every tuple is published once."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as dataset

from tests.faults.source import NumberedSpout, records
from trident import Count, TridentTopology, publishedFiles
from trident_spouts.executor import SpoutKind

STATES = ("counts",)


def topology(kind: str, total: int, state: Callable[[], Any], folder: Path) -> TridentTopology:
    """An output in the first stage, one in a later one, and a function."""
    made = TridentTopology()
    spout = NumberedSpout(total, SpoutKind.OPAQUE if kind == "opaque" else SpoutKind.TRANSACTIONAL)
    numbers = made.newStream("numbers", spout)
    counts = numbers.groupBy("word").persistentAggregate(state(), Count(), "count", name="counts")
    numbers.writeParquet(folder / "tuples", name="tuples")
    counts.newValuesStream().writeParquet(folder / "counts", name="counted", partitionBy="word")

    def note(table: Any, txid: int, attempt: int) -> None:
        line = json.dumps([txid, attempt, sorted(map(list, (row.values() for row in table.to_pylist())))])
        at = os.open(folder / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(at, f"{line}\n".encode())
        os.close(at)

    numbers.foreachArrow(note, name="noted")
    return made


def results(folder: Path) -> dict[str, dict[str, int]]:
    """How often each tuple was published; of the new values each word's last; and what the notes say."""
    tuples: dict[str, int] = {}
    for row in dataset.dataset(publishedFiles(folder / "tuples")).to_table().to_pylist():
        name = f"{row['word']} {row['seq']}"
        tuples[name] = tuples.get(name, 0) + 1
    last: dict[str, int] = {}
    for row in dataset.dataset(publishedFiles(folder / "counts")).to_table().to_pylist():
        last[row["word"]] = max(row["count"], last.get(row["word"], 0))
    return {"tuples": tuples, "last": last, **_noted(folder / "notes")}


def _noted(path: Path) -> dict[str, dict[str, int]]:
    """How often each tuple was noted, a txid counted once; and what must not be: txids with two contents, batches that
    came with attempt 0 though they had come before, txids out of order."""
    seen: dict[int, Any] = {}
    wrong = {"two contents": 0, "again as the first": 0, "out of order": 0}
    for line in path.read_text().splitlines():
        txid, attempt, rows = json.loads(line)
        wrong["two contents"] += seen.get(txid, rows) != rows
        wrong["again as the first"] += txid in seen and attempt == 0
        wrong["out of order"] += txid < max(seen, default=0)
        seen[txid] = rows
    noted: dict[str, int] = {}
    for rows in seen.values():
        for word, seq in rows:
            noted[f"{word} {seq}"] = noted.get(f"{word} {seq}", 0) + 1
    return {"noted": noted, "wrong": wrong}


def expected(total: int) -> dict[str, dict[str, int]]:
    """What `results` tells at the end, and the counts."""
    counts: dict[str, int] = {}
    once: dict[str, int] = {}
    for part in records(total):
        for word, seq in part:
            counts[word] = counts.get(word, 0) + 1
            once[f"{word} {seq}"] = 1
    wrong = {"two contents": 0, "again as the first": 0, "out of order": 0}
    return {"counts": counts, "last": counts, "tuples": once, "noted": once, "wrong": wrong}
