"""Queries inside the driver: alone, and while batches commit as fast as they can."""

import threading
from collections.abc import Callable, Iterator

from benchmarks.bench import Bench
from benchmarks.check import WrongAnswerError
from benchmarks.ours import wordcount
from benchmarks.row import Row
from benchmarks.timing import Timed, percentile
from benchmarks.workload import Workload
from trident.state import MemoryMapState, RedisMapState, StateFactory

ASKED = ("word0", "word10", "word100", "word1000")

TARGETS = {"idle": (2.0, 20.0), "busy": (5.0, 60.0)}
"""Milliseconds: p50, p99."""


def drpc(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure each state: p50 and p99, idle and busy."""
    states: dict[str, StateFactory] = {
        "redis": RedisMapState.opaque(bench.server.url),
        "memory": MemoryMapState.opaque(),
    }
    for name, state in states.items():
        samples = _ask(bench, load, state)
        for when, (p50, p99) in TARGETS.items():
            how = "idle" if when == "idle" else "at full commit speed"
            what = f"DRPC in process, {name} state, {how}, {len(ASKED)} keys, {len(samples[when])} queries"
            yield Row(
                f"drpc.{name}.{when}.p50", f"{what}: p50", percentile(samples[when], 50), None, "ms", p50, "at most"
            )
            yield Row(
                f"drpc.{name}.{when}.p99", f"{what}: p99", percentile(samples[when], 99), None, "ms", p99, "at most"
            )


def _ask(bench: Bench, load: Workload, state: StateFactory) -> dict[str, list[float]]:
    """Return the milliseconds of each query, first while the whole load is committed, then without load."""
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
        left = iter(range(bench.scale.queries))
        idle, seen = _while(total, lambda: next(left, None) is not None)
        if set(seen) != {expected}:
            raise WrongAnswerError(f"queries saw {sorted(set(seen))[:5]}, the files hold {expected}")
    bench.drop(folder)
    return {"idle": idle, "busy": busy}


def _while(ask: Callable[[], int], going_on: Callable[[], bool]) -> tuple[list[float], list[int]]:
    """Repeat a query; return its milliseconds and answers."""
    took: list[float] = []
    answers: list[int] = []
    while going_on() or not took:
        with Timed() as timed:
            answers.append(ask())
        took.append(timed.seconds * 1000)
    return took, answers
