"""Rounds of several engines over the same data: each runs once in every round, and its counts are checked."""

from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.check import Counts, check_counts
from benchmarks.timing import median

Engine = Callable[[Path], tuple[float, Counts]]
"""Counts, with an empty folder to work in, and returns the seconds that it took and its counts."""


def median_seconds(bench: Bench, engines: Mapping[str, Engine], expected: Counts) -> dict[str, float]:
    """Return the median of each engine's seconds over all rounds but the first, which warms everything up."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for number in bench.scale.turns:
        for name, count in engines.items():
            folder = bench.fresh()
            took, counts = count(folder)
            check_counts(name, counts, expected)
            bench.drop(folder)
            if number:
                seconds[name].append(took)
            print(f"    round {number or 'to warm up'}: {name} {took:.2f} s", flush=True)
    return {name: median(each) for name, each in seconds.items()}
