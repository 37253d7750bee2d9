"""``python -m benchmarks.yahoo``: on both engines beside foreachBatch by hand, every count checked in each round."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.check import check_counts
from benchmarks.session import bench_spark
from benchmarks.timing import Timed, median
from benchmarks.yahoo.by_hand import by_hand
from benchmarks.yahoo.events import Advertising, Counts, make_advertising
from benchmarks.yahoo.program import run
from tests.support.processes import cpu_seconds
from tests.support.server import RedisServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.yahoo", description=__doc__)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--batches", type=int, default=10, help="into which the events are divided")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is taken, after one to warm up")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trident-yahoo-") as name, RedisServer(Path(name, "redis")) as server:
        spark = bench_spark(Path(name))
        data = make_advertising(Path(name, "events"), asked.events, asked.batches)
        systems: dict[str, Callable[[Path], Counts]] = {
            "embedded": lambda folder: run(data, "embedded", folder, server.url),
            "spark": lambda folder: run(data, "spark", folder, server.url, spark),
            "foreachBatch by hand": lambda folder: by_hand(spark, data, folder, server.client),
        }
        clock: dict[str, list[float]] = {system: [] for system in systems}
        processor: dict[str, list[float]] = {system: [] for system in systems}
        for number in range(asked.rounds + 1):
            for system, count in systems.items():
                seconds, spent = _measured(count, Path(name, f"{system}-{number}"), data, server, system)
                print(f"round {number or 'to warm up'}: {system} {seconds:.1f} s, processor {spent:.1f} s", flush=True)
                if number:
                    clock[system].append(seconds)
                    processor[system].append(spent)
        spark.stop()
    print("\n| system | thousand events a second of the clock | of processor time |\n|---|---:|---:|")
    for system in systems:
        figures = [f"{asked.events / median(kind[system]) / 1_000:,.0f}" for kind in (clock, processor)]
        print(f"| {system} | {' | '.join(figures)} |")


def _measured(
    count: Callable[[Path], Counts], folder: Path, data: Advertising, server: RedisServer, system: str
) -> tuple[float, float]:
    """Return the seconds of a system by the clock and of all processors; WrongAnswerError if a count is wrong."""
    server.client.flushall()
    data.put_campaigns(server.client)
    before = cpu_seconds()
    with Timed() as timed:
        counts = count(folder)
    spent = cpu_seconds() - before
    check_counts(system, _named(counts), _named(data.expected))
    return timed.seconds, spent


def _named(counts: Counts) -> dict[str, int]:
    return {f"{campaign} at {start}": views for (campaign, start), views in counts.items()}


if __name__ == "__main__":
    main()
