"""The Redis store by itself: random keys of a large state, against raw pipelined SET."""

from collections.abc import Iterator

from benchmarks.bench import FULL, Bench
from benchmarks.redis_store import rows
from benchmarks.row import Row
from benchmarks.workload import Workload

_OFTEN = 3
"""Times the rounds of others: these take a fifth of a second."""


def redis_update(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure the store; it is emptied before and after."""
    bench.server.client.flushall()
    yield from rows(bench.server, _OFTEN * bench.scale.rounds, part=1 if bench.scale == FULL else 50)
    bench.server.client.flushall()
