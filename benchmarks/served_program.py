"""The program of the serving rows: words counted in Redis or in memory, and a function over four of them.

``python -m benchmarks.served_program FOLDER [serve]`` is its driver, until its standard input ends; with ``serve`` it
answers requests itself.
"""

import os
import sys
import time

from trident import Count, MapGet, Sum, TridentTopology
from trident.server.limits import Limits
from trident.spouts import RateSpout
from trident.state import MemoryMapState, RedisMapState

KEYS = 1000

TOKEN = "what clients of a driver that serves must say"


def sleep(seconds: str) -> int:
    time.sleep(float(seconds))
    return 0


def topology() -> TridentTopology:
    """Return the topology; its state is in Redis if SERVED_REDIS has the address of a server."""
    url = os.environ.get("SERVED_REDIS")
    made = TridentTopology()
    numbers = made.newStream("numbers", RateSpout(20_000))
    words = numbers.map("value", lambda value: f"word{value % KEYS}", "word string")
    factory = RedisMapState.opaque(url) if url else MemoryMapState.opaque()
    counts = words.groupBy("word").persistentAggregate(factory, Count(), "count", name="counts")
    (
        made.newDRPCStream("total", "words string")
        .flatMap("words", lambda words: words.split(" "), "word string")
        .stateQuery(counts, "word", MapGet(), "count")
        .aggregate("count", Sum(), "sum")
    )
    made.newDRPCStream("sleep", "seconds string").map("seconds", sleep, "n int")
    return made


def main(folder: str, serves: str = "") -> None:
    with topology().start(engine="embedded", name="served", checkpointLocation=folder) as running:
        if serves:
            limits = Limits(bodySecs=1.0, timeoutSecs=2.0, connections=20_000)
            print("started", running.serve(limits=limits, token=TOKEN).url, flush=True)
        else:
            print("started", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
