"""The cost of states: batches on Spark for several sizes of the state, and the stores by themselves."""

from collections.abc import Iterator
from typing import Any

from benchmarks.bench import FULL, Bench
from benchmarks.row import Row
from benchmarks.state_cost import PARTS, SMALL, Sizes, whole_batches
from benchmarks.workload import Workload
from trident import TridentTopology


def keys(bench: Bench, home: str) -> Iterator[Row]:
    """Measure batches on Spark into a state in memory or Redis, from emit to commit."""

    def start(topology: TridentTopology, **options: Any) -> Any:
        return topology.start(bench.spark, **options)

    yield from whole_batches(start, "spark", (home,), bench.server, bench.fresh(), _sizes(bench))


def state_cost(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure the rest, without Spark."""
    for part in PARTS.values():
        yield from part(bench.server, bench.fresh(), _sizes(bench))


def _sizes(bench: Bench) -> Sizes:
    return Sizes() if bench.scale == FULL else SMALL
