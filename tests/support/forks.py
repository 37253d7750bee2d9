"""Small topologies that are saved and forked: fed row by row, so that a test decides what each batch has."""

from pathlib import Path
from typing import Any

import msgspec

from trident import Count, TridentTopology
from trident.log.sqlite_log import SqliteLog
from trident.recovery.fork_origin import origin_of
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout, RichSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

BATCHES: list[Any] = [["dog", "cat"], ["dog"]]
LATER: list[Any] = [*BATCHES, ["dog", "cow"]]
"""The batches of a run that continues after the savepoint."""
OTHER: list[Any] = [*BATCHES, ["owl"], ["owl"]]
"""The batches of a run that returned to the savepoint, so that its results differ from those of `LATER`."""
SAVED = {"dog": 2, "cat": 1}
"""The counts of `BATCHES`, and of the savepoint."""
WHOLE = {"dog": 3, "cat": 1, "cow": 1}
"""The counts of `LATER`."""


class Queue(RichSpout):
    """A source that gives each row once, and never again."""

    outputFields = "word string"

    def __init__(self, rows: list[str]) -> None:
        self.rows = list(rows)

    def __repr__(self) -> str:
        return "Queue()"

    def nextTuple(self, collector: Any) -> None:
        if self.rows:
            row = self.rows.pop(0)
            collector.emit(row, messageId=row)


def words(batches: list[Any] = BATCHES, state: Any = None, name: str = "counts") -> TridentTopology:
    """Count words."""
    topology = TridentTopology()
    stream = topology.newStream("words", FixedBatchSpout("word string", batches)).groupBy("word")
    stream.persistentAggregate(MemoryMapState.opaque() if state is None else state, Count(), "n", name=name)
    return topology


def contents(topology: TridentTopology, name: str, where: Path, state: str = "counts", **more: Any) -> dict[Any, Any]:
    """Run a topology to the end of its source, and return the content of a state."""
    with start_local(topology, name=name, checkpointLocation=where, **more) as running:
        return read(running, state)


def read(running: RunningTopology, state: str = "counts") -> dict[Any, Any]:
    """Return the content of a state when everything is committed."""
    running.processAllAvailable(timeout=60)
    return dict(running.state(state).items())


def save(topology: TridentTopology, where: Path, name: str = "before", **more: Any) -> None:
    """Run the topology "first" to the end of its source, and take a savepoint."""
    with start_local(topology, name="first", checkpointLocation=where, **more) as running:
        running.processAllAvailable(timeout=60)
        running.savepoint(name)


def change_origin(where: Path, fork: str, **fields: Any) -> None:
    """Change the record of a fork's origin in its log."""
    log = SqliteLog(where / fork / "log.sqlite", fork)
    origin = origin_of(log, "of the test")
    assert origin is not None
    lease = log.take()
    log.keep_origin(lease, msgspec.json.encode(msgspec.structs.replace(origin, **fields)))
    log.give_back(lease)
    log.close()
