"""A topology whose timers fire ROUNDS times for each key: ``python -m tests.run.timed_program FOLDER STATE``.

STATE is ``memory``, ``sqlite`` or the address of a Redis. The driver stands by, and runs until its standard input ends.
"""

import datetime
import sys
from pathlib import Path
from typing import Any

from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, SqliteMapState

KEYS = [f"key{n}" for n in range(30)]
ROUNDS = 4
NAME = "timed"
PAUSE = datetime.timedelta(seconds=0.3)


def set_timer(row: Any, state: Any) -> Any:
    state.setTimer(row.key, state.now() + row.n * PAUSE / len(KEYS))


def fire(timer: Any, state: Any) -> str:
    """Count a firing, and set the next one."""
    fired = state.get(timer.key, 0) + 1
    state.put(timer.key, fired)
    if fired < ROUNDS:
        state.setTimer(timer.key, state.now() + PAUSE)
    return f"{timer.key} {fired}"


def topology(folder: Path, where: str) -> TridentTopology:
    """Return the topology: the firings of each key, and of each of them once more behind the operation."""

    def state() -> Any:
        if where == "memory":
            return MemoryMapState.opaque()
        return SqliteMapState.opaque(folder / "states.sqlite") if where == "sqlite" else RedisMapState.opaque(where)

    made = TridentTopology()
    rows = made.newStream("rows", FixedBatchSpout("key string, n long", [[(key, n) for n, key in enumerate(KEYS)]]))
    operation: dict[str, Any] = {"keyFields": "key", "valueType": "long", "onTimer": fire, "maxTimersPerBatch": 7}
    notes = rows.statefulEach(set_timer, "note string", stateFactory=state(), name="fired", **operation)
    notes.groupBy("note").persistentAggregate(state(), Count(), "n", name="noted")
    return made


def main(folder: str, where: str) -> None:
    options: dict[str, Any] = {"name": NAME, "checkpointLocation": folder, "leaseSecs": 0.3}
    print("stands by", flush=True)
    with topology(Path(folder), where).start(engine="embedded", standby=True, **options):
        print("active", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
