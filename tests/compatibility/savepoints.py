"""A savepoint of a running topology, and its forks: one that the same version made, and one of each later version."""

from typing import Any

from tests.compatibility.entries import entries
from tests.compatibility.programs import BATCH, CHECKPOINT, NAME, PART, Places, numbers, record
from trident import CollectSet, Count, TridentTopology, forkTopology, listSavepoints
from trident.run.running import RunningTopology
from trident.spouts import PollingSpout, Spout
from trident.state import MemoryMapState, SqliteMapState
from trident.testing.local import start_local

SAVEPOINT, EARLIER = "kept", "earlier"
STATES = ("counts", "sets")


def counting(spout: Spout) -> TridentTopology:
    made = TridentTopology()
    words = made.newStream("numbers", spout).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    words.persistentAggregate(SqliteMapState.opaque("states.db"), "seq", CollectSet(), "seqs", name="sets")
    return made


def topology(places: Places) -> TridentTopology:
    """Keep a state in memory and one in a table, so that a savepoint has both."""
    return counting(numbers(places))


def save(running: RunningTopology, places: Places) -> None:
    """Take the savepoint in the first run, and make a fork that is not started yet."""
    if not listSavepoints(NAME, CHECKPOINT):
        running.savepoint(SAVEPOINT)
        forkTopology(NAME, SAVEPOINT, EARLIER, CHECKPOINT)


def rest(places: Places) -> PollingSpout:
    """Return the input without what lies before the savepoint: a fork must continue at its position."""

    def fetch(position: int, limit: int) -> tuple[list[tuple[str, int]], int]:
        until = min(position + limit, PART * places.parts)
        return [record(seq) for seq in range(position, until)], until

    return PollingSpout("word string, seq long", {"numbers": fetch}, maxRows=BATCH)


def forked(places: Places) -> Any:
    """Run both forks when the last part has come, and return the content of their states."""
    if places.parts < 3:
        return None
    later = f"later-{len(listSavepoints(NAME, CHECKPOINT))}"
    forkTopology(NAME, SAVEPOINT, later, CHECKPOINT)
    return {"earlier": _run(EARLIER, places), "later": _run(later, places)}


def _run(fork: str, places: Places) -> dict[str, Any]:
    with start_local(counting(rest(places)), name=fork, checkpointLocation=CHECKPOINT) as running:
        running.processAllAvailable(timeout=120)
        return {name: entries(running.state(name)) for name in STATES}
