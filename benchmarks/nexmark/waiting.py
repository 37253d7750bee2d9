"""The driver's memory for a bid that waits in a join: ``python -m benchmarks.nexmark.waiting``.

In query 20, on the embedded engine, every bid waits for ever for its auction. One half of the batches warms the process
up: the figures are the bytes that the other half adds, divided by its bids.
"""

import argparse
import gc
import tempfile
import tracemalloc
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.memory_use import resident_mb
from benchmarks.nexmark.events import SCHEMAS, make_events
from benchmarks.nexmark.queries import q20
from benchmarks.nexmark.tables import Nexmark

MOST = 300
"""The most live bytes for a waiting bid."""


def live_bytes(folder: Path, events: int, batches: int) -> float:
    """Return the bytes of Python, NumPy and Arrow for a waiting bid, with the arrays' spare room."""
    tracemalloc.start()
    try:
        return _added(folder, events, batches, lambda: tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes())
    finally:
        tracemalloc.stop()


def resident_bytes(folder: Path, events: int, batches: int) -> float:
    """Return the bytes by which the process grows for a waiting bid, with the memory that its allocators keep."""
    return _added(folder, events, batches, lambda: resident_mb() * 2**20)


def _added(folder: Path, events: int, batches: int, held: Callable[[], float]) -> float:
    """Return the bytes that the second half of the batches adds for each of its bids. The folder must be empty."""
    made = make_events(folder / "events", events, batches)
    later = {table: made.paths(table)[batches // 2 :] for table in SCHEMAS}
    bids: int = sum(pq.read_metadata(path).num_rows for path in later["bids"])
    for path in chain(*later.values()):
        path.rename(path.with_suffix(".later"))
    nexmark = Nexmark(made, str(folder / "out"))
    q20(nexmark)
    with nexmark.topology.start(engine="embedded", name="q20", checkpointLocation=str(folder / "checkpoint")) as run:
        run.processAllAvailable()
        gc.collect()
        before = held()
        for path in chain(*later.values()):
            path.with_suffix(".later").rename(path)
        run.processAllAvailable()
        gc.collect()
        return (held() - before) / bids


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark.waiting", description=__doc__)
    parser.add_argument("--events", type=int, default=200_000, help="persons, auctions and bids together")
    parser.add_argument("--batches", type=int, default=20, help="into which the events are divided")
    asked = parser.parse_args()
    for name, measure in {"resident": resident_bytes, "live": live_bytes}.items():
        with tempfile.TemporaryDirectory(prefix="trident-waiting-") as folder:
            print(
                f"{measure(Path(folder), asked.events, asked.batches):.0f} {name} bytes for a waiting bid", flush=True
            )


if __name__ == "__main__":
    main()
