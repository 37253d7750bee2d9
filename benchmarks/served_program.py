"""The program of the serving rows: words counted in Redis or in memory, and a function over four of them.

``python -m benchmarks.served_program FOLDER`` is its driver, until its standard input ends.
"""

import os
import sys

from trident import Count, MapGet, Sum, TridentTopology
from trident.spouts import RateSpout
from trident.state import MemoryMapState, RedisMapState

KEYS = 1000


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
    return made


def main() -> None:
    with topology().start(engine="embedded", name="served", checkpointLocation=sys.argv[1]):
        print("started", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
