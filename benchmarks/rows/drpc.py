"""Queries inside the driver: alone, and while batches commit as fast as they can."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.check import WrongAnswerError
from benchmarks.ours import wordcount
from benchmarks.row import Row
from benchmarks.timing import Timed, percentile
from benchmarks.workload import Workload
from trident.state import MemoryMapState, RedisMapState, StateFactory
from trident_state.keys import encode_keys

T = TypeVar("T")

ASKED = ("word0", "word10", "word100", "word1000")

TARGETS = {
    ("memory", "idle"): (0.25, 2.0),
    ("memory", "busy"): (0.5, 60.0),
    ("redis", "idle"): (0.4, 2.0),
    ("redis", "busy"): (0.8, 60.0),
}
"""Milliseconds of each state: p50, p99. Beside commits, the p50 is at most twice as long as without."""

MOST_READS = 3.0
"""A query takes at most this many times one pipelined read of the same keys by redis-py."""


def drpc(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure each state: p50 and p99, idle and busy."""
    states: dict[str, StateFactory] = {
        "redis": RedisMapState.opaque(bench.server.url),
        "memory": MemoryMapState.opaque(),
    }
    for name, state in states.items():
        samples, raw = _ask(bench, load, state, name == "redis")
        for when in ("idle", "busy"):
            p50, p99 = TARGETS[name, when]
            how = "idle" if when == "idle" else "at full commit speed"
            what = f"DRPC in process, {name} state, {how}, {len(ASKED)} keys, {len(samples[when])} queries"
            yield Row(
                f"drpc.{name}.{when}.p50", f"{what}: p50", percentile(samples[when], 50), None, "ms", p50, "at most"
            )
            yield Row(
                f"drpc.{name}.{when}.p99", f"{what}: p99", percentile(samples[when], 99), None, "ms", p99, "at most"
            )
        if raw:
            ours, other = percentile(samples["idle"], 50), percentile(raw, 50)
            what = f"DRPC in process, {name} state, idle, {len(ASKED)} keys: p50; against a pipelined read by redis-py"
            yield Row(f"drpc.{name}.raw", what, ours, other, "ms", MOST_READS, "at most")


def _ask(
    bench: Bench, load: Workload, state: StateFactory, in_redis: bool
) -> tuple[dict[str, list[float]], list[float]]:
    """Return the milliseconds of each query, first while the whole load is committed, then without load.

    Of a state in Redis return those of raw reads of the same keys, too, which take turns with the queries without load.
    """
    expected = sum(load.expected.get(word, 0) for word in ASKED)
    folder = bench.fresh()
    topology = wordcount(load, "native", state)
    with topology.start(bench.spark, name="asked", checkpointLocation=str(folder), maxSpoutPending=2) as running:

        def total() -> int:
            answer = running.drpc.execute("total", " ".join(ASKED))
            return int(answer[0]["sum"] or 0)

        reader = threading.Thread(target=running.processAllAvailable)
        reader.start()
        busy, seen = _while(total, reader.is_alive)
        reader.join()
        if seen != sorted(seen) or seen[-1] > expected:
            raise WrongAnswerError(f"queries saw counts go back, or more than there is: {seen[-5:]} of {expected}")
        idle, raw, seen = list[float](), list[float](), list[int]()
        read = _raw_read(bench.server.client) if in_redis else None
        for _ in range(bench.scale.queries):
            seen.append(_timed(total, idle))
            if read is not None:
                _timed(read, raw)
        if set(seen) != {expected}:
            raise WrongAnswerError(f"queries saw {sorted(set(seen))[:5]}, the files hold {expected}")
    bench.drop(folder)
    return {"idle": idle, "busy": busy}, raw


def _raw_read(client: Any) -> Callable[[], Any]:
    """Return a read of what is stored under the asked words, all in one pipeline, after a check that all are there."""
    fields = encode_keys(pa.table({"word": ASKED})).to_pylist()
    buckets = [name for name in client.keys("*:b:*")]
    places = [(bucket, field) for field in fields for bucket in buckets if client.hexists(bucket, field)]
    if len(places) != len(fields):
        raise WrongAnswerError(f"{len(places)} of {len(fields)} words are stored")

    def read() -> Any:
        pipe = client.pipeline(transaction=False)
        for bucket, field in places:
            pipe.hget(bucket, field)
        return pipe.execute()

    return read


def _timed(ask: Callable[[], T], took: list[float]) -> T:
    """Call, and append the milliseconds to `took`."""
    with Timed() as timed:
        answer = ask()
    took.append(timed.seconds * 1000)
    return answer


def _while(ask: Callable[[], int], going_on: Callable[[], bool]) -> tuple[list[float], list[int]]:
    """Repeat a query; return its milliseconds and answers."""
    took: list[float] = []
    answers: list[int] = []
    while going_on() or not took:
        answers.append(_timed(ask, took))
    return took, answers
