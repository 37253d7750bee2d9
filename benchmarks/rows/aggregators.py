"""The built-in aggregators in states, one by one and in bundles, without Spark."""

from collections.abc import Iterator

from benchmarks.aggregator_cost import SMALL, Scale, aggregator_rows
from benchmarks.bench import FULL, Bench
from benchmarks.row import Row
from benchmarks.workload import Workload


def aggregators(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure the microseconds of each for one key and batch."""
    yield from aggregator_rows(bench.server, Scale() if bench.scale == FULL else SMALL)
