"""A small topology to serve: words counted in a state, and functions over it."""

import time
from typing import Any

from trident import Count, MapGet, Sum, TridentTopology
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState, StateFactory


def slowly(word: str) -> str:
    """Sleep as long as the word says."""
    time.sleep(float(word))
    return word


def counting(factory: StateFactory | None = None, index: str | None = None) -> tuple[TridentTopology, FeederBatchSpout]:
    """Return a topology with the state `counts` and four functions, and its feeder."""
    topology = TridentTopology()
    feeder = FeederBatchSpout("word string")
    words = topology.newStream("words", feeder)
    factory = factory or MemoryMapState.opaque()
    counts = words.groupBy("word").persistentAggregate(factory, Count(), "count", name="counts", index=index)
    topology.newDRPCStream("count", "word string").stateQuery(counts, "word", MapGet(), "count")
    (
        topology.newDRPCStream("total", "words string")
        .flatMap("words", lambda words: words.split(" "), "word string")
        .stateQuery(counts, "word", MapGet(), "count")
        .aggregate("count", Sum(), "sum")
    )
    topology.newDRPCStream("slow", "word string").each("word", slowly, "slept string").stateQuery(
        counts, "word", MapGet(), "count"
    )
    topology.newDRPCStream("fails", "word string").each("word", fails, "out string")
    return topology, feeder


def fails(word: str) -> Any:
    raise ValueError(f"no {word} here")
