"""The Redis store by itself: random keys of a large state, against raw pipelined SET."""

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.redis_store import rows
from benchmarks.row import Row
from benchmarks.workload import Workload


def redis_update(bench: Bench, load: Workload) -> Iterator[Row]:
    """Its rows; the store is emptied first and after."""
    bench.server.client.flushall()
    yield from rows(bench.server, bench.scale.rounds)
    bench.server.client.flushall()
