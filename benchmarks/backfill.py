"""A backfill beside a running topology: how long that topology's batches take before and during it.

Usage: python -m benchmarks.backfill ROWS [RATE]. One process counts ROWS rows by key, then RATE rows a second as they
come (10,000). Another process then starts the program with one more state, ``backfill=True``. The last line is JSON:
the p50 and p99 (ms) of the running topology's batches before the second start and during its backfill, the seconds of
the backfill, and whether both states are equal at the end.
"""

import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.timing import percentile
from trident import Count, Sum, TridentTopology
from trident.base import crash_points
from trident.errors import FencedError
from trident.spouts import RateSpout
from trident.state import MemoryMapState

KEYS = 10_000
BASELINE_SECS = 15.0
BATCH_SECS = 0.05
"""The time from the beginning of a batch to that of the next, once the old rows are counted."""


def topology(start: float, rate: int, new: bool) -> TridentTopology:
    """Return the running program, or the one with a further state."""
    made = TridentTopology()
    spout = RateSpout(rate, keys=KEYS, startTime=datetime.fromtimestamp(start, UTC), maxRowsPerBatch=200_000)
    keys = made.newStream("rows", spout).groupBy("key")
    keys.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    if new:
        keys.persistentAggregate(MemoryMapState.opaque(), "value", Sum(), "sum", name="sums", backfill=True)
        keys.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="again", backfill=True)
    return made


def options(folder: Path) -> dict[str, Any]:
    """Return the options of both starts."""
    return {"engine": "embedded", "name": "b", "checkpointLocation": folder, "processingTime": BATCH_SECS}


def run_first(folder: Path, start: float, rate: int) -> None:
    """Run the first program until another driver takes it over, and print the time and the milliseconds of batches."""
    took: list[tuple[float, float]] = []

    def hear(event: dict[str, Any]) -> None:
        if event["event"] == "committed":
            took.append((time.time(), event["durationMs"]["total"]))

    try:
        with topology(start, rate, new=False).start(**options(folder)) as running:
            running.progress.listen(hear)
            while running.readSoFar.get("rows") is None or running.readSoFar["rows"].lag > rate:
                time.sleep(0.2)
            print(json.dumps({"ready": time.time()}), flush=True)
            running.awaitTermination()
    except FencedError:
        print(json.dumps({"took": took}), flush=True)


def run_second(folder: Path, start: float, rate: int) -> None:
    """Start the second program, and print when it began, took over and was there, and whether its states agree."""
    times = {"began": time.time()}

    def note(point: str) -> None:
        if point.startswith("backfill"):
            times[point] = time.time()

    crash_points.listen(note)
    with topology(start, rate, new=True).start(**options(folder)) as running:
        times["there"] = time.time()
        time.sleep(2)
        running.deactivate(wait=30)
        counts, again = (dict(running.state(name).items()) for name in ("counts", "again"))
        print(json.dumps({**times, "equal": counts == again, "rows": sum(again.values())}), flush=True)


def measure(rows: int, rate: int) -> dict[str, Any]:
    """Run both programs, and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.time() - rows / rate
        command = [sys.executable, "-m", "benchmarks.backfill"]
        place = [folder, str(start), str(rate)]
        with subprocess.Popen([*command, "first", *place], stdout=subprocess.PIPE, text=True) as first:
            assert first.stdout is not None
            ready = json.loads(first.stdout.readline())["ready"]
            time.sleep(BASELINE_SECS)
            second = subprocess.run([*command, "second", *place], stdout=subprocess.PIPE, text=True, check=True)
            times = json.loads(second.stdout.splitlines()[-1])
            took = json.loads(first.stdout.readline())["took"]
    phases = {"before": (ready + 1, times["began"]), "during": (times["began"], times["backfill.caught.up"])}
    found: dict[str, Any] = {"rows": rows, "rate": rate}
    for phase, (since, until) in phases.items():
        batches = [milliseconds for at, milliseconds in took if since <= at < until]
        found[phase] = {"batches": len(batches)} | {f"p{n}": round(percentile(batches, n), 1) for n in (50, 99)}
    found["backfill_s"] = round(times["backfill.caught.up"] - times["began"], 1)
    found["takeover_s"] = round(times["there"] - times["backfill.caught.up"], 2)
    return {**found, "equal": times["equal"], "counted": times["rows"]}


def main(arguments: list[str]) -> None:
    """Measure, or be one of the two processes."""
    if arguments and arguments[0] in ("first", "second"):
        run = {"first": run_first, "second": run_second}[arguments[0]]
        run(Path(arguments[1]), float(arguments[2]), int(arguments[3]))
    else:
        print(json.dumps(measure(int(arguments[0]), int(arguments[1]) if arguments[1:] else 10_000)))


if __name__ == "__main__":
    main(sys.argv[1:])
