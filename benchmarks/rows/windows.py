"""Counts by key and minute of event time: ours, against the DataFrame and the same Redis merge written by hand."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.check import Counts, check_counts
from benchmarks.competitors.window_by_hand import window_by_hand
from benchmarks.row import Row
from benchmarks.timing import Timed, median
from benchmarks.workload import Events, Workload, make_events
from trident import Count, TridentTopology, TumblingEventTimeWindow
from trident.spouts import FileSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory

MOST = 1.3
"""Our time is at most this many times the other one."""


def windows(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure both in turn, round after round, and compare every count."""
    events = make_events(bench.folder / "events", bench.scale.files, bench.scale.lines * 5)
    seconds: dict[str, list[float]] = {"by hand": [], "redis": [], "memory": []}
    for number in bench.scale.turns:
        for name, taken in seconds.items():
            folder = bench.fresh()
            took, counts = _run(name, bench, events, folder)
            check_counts(name, counts, events.expected)
            bench.drop(folder)
            if number:
                taken.append(took)
            print(f"    round {number or 'to warm up'}: {name} {took:.2f} s", flush=True)
    what = "counts by key and minute of event time, a watermark, opaque"
    other = median(seconds["by hand"])
    by_hand = "against groupBy(window) and the same Redis merge by hand, without log or watermark"
    yield Row("windows.redis", f"{what} Redis state; {by_hand}", median(seconds["redis"]), other, "s", MOST, "at most")
    yield Row(
        "windows.memory", f"{what} memory state; {by_hand}", median(seconds["memory"]), other, "s", MOST, "at most"
    )


def _run(name: str, bench: Bench, events: Events, folder: Path) -> tuple[float, Counts]:
    if name == "by hand":
        return window_by_hand(bench.spark, events, bench.server.client)
    return _ours(bench, events, folder, RedisMapState.opaque(bench.server.url) if name == "redis" else _MEMORY)


_MEMORY = MemoryMapState.opaque()


def _ours(bench: Bench, events: Events, folder: Path, state: StateFactory) -> tuple[float, Counts]:
    topology = TridentTopology()
    files = str(events.folder / "*.parquet")
    spout = FileSpout(files, format="parquet", schema=events.schema, maxFilesPerBatch=1)
    minutes = TumblingEventTimeWindow("1 minute", "at", lateness="10 seconds")
    topology.newStream("events", spout).groupBy("k").window(
        minutes, state, Count(), "count", keepFor="1 day", name="minutes"
    )
    with Timed() as timed:
        running = topology.start(bench.spark, name="windows", checkpointLocation=str(folder))
        running.processAllAvailable()
    with running:
        held = running.state("minutes").toArrow()
    starts = (int(start.timestamp()) for start in held["windowStart"].to_pylist())
    keys = [f"{key}@{start}" for key, start in zip(held["k"].to_pylist(), starts, strict=True)]
    return timed.seconds, dict(zip(keys, held["count"].to_pylist(), strict=True))
