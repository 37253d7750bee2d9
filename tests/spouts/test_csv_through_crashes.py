"""CSV files, plain and compressed, through drivers that die, on both engines: every row counts once."""

import csv
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.files.test_compressed import PACK
from trident import Count, Sum, TridentTopology
from trident.spouts import Csv, FileSpout
from trident.state import MemoryMapState
from trident.testing import EngineStart, crash_at, engines, run_through

start = engines(spark="spark", marks=[pytest.mark.spark])


def written(folder: Path) -> tuple[Counter[str], dict[str, int]]:
    """Write files of all forms; return how many rows each carrier has and the sum of its delays, by Python's reader."""
    folder.mkdir()
    chance, plain = random.Random(7), folder.parent / "plain.csv"
    counts: Counter[str] = Counter()
    sums: dict[str, int] = {}
    for at, suffix in enumerate(["", *PACK, ""]):
        with plain.open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\r\n" if at % 2 else "\n")
            rows.writerow(["note", "delay", "carrier"] if at % 2 else ["carrier", "delay", "note"])
            for _ in range(300):
                row = [chance.choice("ABC"), chance.choice(["", "7.0", "-2"]), chance.choice(['say "x", y', "", "n"])]
                rows.writerow(row[::-1] if at % 2 else row)
        with plain.open(newline="") as file:
            for row in csv.DictReader(file):
                counts[row["carrier"]] += 1
                sums[row["carrier"]] = sums.get(row["carrier"], 0) + int(float(row["delay"] or 0))
        (folder / f"{at}.csv{suffix}").write_bytes(PACK.get(suffix, bytes)(plain.read_bytes()))
    return counts, sums


@pytest.mark.parametrize("point", ["emit.after", "freeze.after", "commit.state.after"])
def test_every_row_counts_once(start: EngineStart, tmp_path: Path, point: str) -> None:
    counts, sums = written(tmp_path / "in")
    topology = TridentTopology()
    spout = FileSpout(
        tmp_path / "in",
        Csv(numbers="lenient"),
        "carrier string, delay long",
        maxBytesPerBatch=2_000,
        maxFilesPerBatch=2,
    )
    flights = topology.newStream("flights", spout).groupBy("carrier")
    flights.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    flights.persistentAggregate(MemoryMapState.opaque(), "delay", Sum(), "total", name="sums")
    options: dict[str, Any] = {"checkpointLocation": tmp_path / "ckpt", "start": start}
    with crash_at(point, 3), run_through(topology, **options) as running:
        assert dict(running.state("counts")) == counts
        assert dict(running.state("sums")) == sums
        assert running.state("counts").asOfTxid > 4
