"""Readers that know nothing of the library find whole batches, also between a crash and the next start."""

import glob
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset as ds
import pytest

from trident import publishedFiles

PROGRAM = """
import sys
from trident import TridentTopology
from trident.spouts import FixedBatchSpout
from trident.testing import start_local
topology = TridentTopology()
batches = [[(f"{letter}{n}", "xy"[n % 2]) for n in range(4)] for letter in "abcd"]
letters = topology.newStream("letters", FixedBatchSpout("value string, part string", batches))
letters.writeParquet(sys.argv[1], partitionBy=sys.argv[3] or None)
with start_local(topology, name="t", checkpointLocation=sys.argv[2], maxSpoutPending=1) as running:
    running.processAllAvailable(timeout=60)
"""
READERS: dict[str, Callable[[Path], Any]] = {
    "publishedFiles": lambda folder: ds.dataset(publishedFiles(folder)).to_table()["value"].to_pylist(),
    "pyarrow": lambda folder: ds.dataset(str(folder), partitioning=None).to_table()["value"].to_pylist(),
    "pandas": lambda folder: list(pd.read_parquet(folder, partitioning=None)["value"]),
    "glob": lambda folder: (
        ds.dataset(glob.glob(f"{folder}/**/*.parquet", recursive=True)).to_table()["value"].to_pylist()
    ),
}


@pytest.mark.parametrize("partition", ["", "part"])
@pytest.mark.parametrize(("point", "published"), [("output.staged", 2), ("output.published", 3)])
def test_each_reader_finds_whole_batches_after_a_crash(
    point: str, published: int, partition: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def run(crash: str) -> int:
        words = [sys.executable, "-c", PROGRAM, str(out), str(tmp_path / "c"), partition]
        environment = {**os.environ, **({"TRIDENT_CRASH_AT": crash} if crash else {})}
        return subprocess.run(words, env=environment, capture_output=True, timeout=120).returncode

    def check(batches: int) -> None:
        whole = sorted(f"{letter}{n}" for letter in "abcd"[:batches] for n in range(4))
        assert {name: sorted(read(out)) for name, read in READERS.items()} == dict.fromkeys(READERS, whole)

    assert run(f"{point}:3") != 0
    check(published)
    assert run("") == 0
    check(4)
