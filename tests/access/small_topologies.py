"""Small topologies whose states are then read from outside."""

from pathlib import Path
from typing import Any

from trident import Count, TridentTopology
from trident.log import RedisLog
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


class Longest:
    """A combiner of our own, with what queries see."""

    def init(self, tuple: Any) -> str:
        return str(tuple[0])

    def combine(self, a: str, b: str) -> str:
        return max(a, b, key=len)

    def zero(self) -> str:
        return ""

    def present(self, acc: str) -> str:
        return acc.upper()


def counting(spout: Any, state: Any = None, **more: Any) -> TridentTopology:
    """Words counted into the state ``counts``; `more` states by name count the same words."""
    topology = TridentTopology()
    words = topology.newStream("words", spout)
    for name, kind in {"counts": state or MemoryMapState.opaque(), **more}.items():
        words.groupBy("word").persistentAggregate(kind, Count(), "count", name=name)
    return topology


def counted(topology: TridentTopology, **options: Any) -> None:
    """One run that processes everything and stops."""
    with start_local(topology, name="wc", **options) as running:
        running.processAllAvailable(timeout=20)


def fixed(*batches: list[Any], fields: str = "word string") -> FixedBatchSpout:
    return FixedBatchSpout(fields, list(batches))


class Fed:
    """A run that is fed batch by batch."""

    def __init__(self, state: Any = None, log: RedisLog | None = None, **options: Any) -> None:
        self.feeder = FeederBatchSpout("word string")
        self.running: RunningTopology = start_local(counting(self.feeder, state), name="wc", log=log, **options)

    def feed(self, *words: str) -> None:
        self.feeder.feed(list(words), wait=True, timeout=20)


def everything(folder: Path) -> dict[str, bytes]:
    """All files below a folder: what reading must not change."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
