"""The word count with a ledger of each batch (``start(ledger=True)``), against the same without, in turns."""

from collections.abc import Iterator
from functools import partial
from typing import get_args

from benchmarks.bench import Bench
from benchmarks.ours import ours
from benchmarks.rounds import median_seconds
from benchmarks.row import Row
from benchmarks.words import Way
from benchmarks.workload import Workload
from trident.state import MemoryMapState


def tracking(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure what the ledger costs, for words that Spark splits and for words that Python splits."""
    for way in get_args(Way):
        run = partial(ours, bench.spark, load, way, MemoryMapState.opaque())
        engines = {
            "with": lambda folder, run=run: run(folder, ledger=True),
            "without": lambda folder, run=run: run(folder),
        }
        seconds = median_seconds(bench, engines, load.expected)
        how = "split by expr" if way == "native" else "split by a Python function"
        what = f"word count, {how}, memory state, with a ledger; against the same without"
        yield Row(f"tracking.words.{way}", what, seconds["with"], seconds["without"], "s", 1.1, "at most")
