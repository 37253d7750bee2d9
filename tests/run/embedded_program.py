"""A topology without a step that needs Spark: it counts words, and answers queries for a count."""

from trident import Count, MapGet, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

LINES = [["the cow", "the moon"], ["the cow"]]
COUNTS = {"the": 3, "cow": 2, "moon": 1}


def split(line: str) -> list[str]:
    return line.split()


def counting() -> TridentTopology:
    """Count words, and answer queries for a word's count."""
    topology = TridentTopology()
    words = topology.newStream("lines", FixedBatchSpout("line string", LINES)).flatMap("line", split, "word string")
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    topology.newDRPCStream("ask", "word string").stateQuery(counts, "word", MapGet(), "count")
    return topology
