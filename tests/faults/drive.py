"""One driver's life, as a program: word counts with a second and a third state, on the real log and the real states."""

import json
import os
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import backfilling, evolving, outputs, poison, stateful, updates, windows
from tests.faults.source import NumberedSpout
from trident import Count, Max, Sum, TridentTopology
from trident.run.running import RunningTopology
from trident.state import DeltaMapState, MemoryMapState
from trident.testing.local import start_local
from trident_spouts.executor import SpoutKind

NAME = "faults"


@dataclass(frozen=True)
class Case:
    """What runs: the spout's and the states' kind, where the states live, and how often an operation raises."""

    kind: str
    checkpoint: str
    redis: str | None = None
    total: int = 240
    failing: float = 0.0
    pending: int = 3
    spark: bool = False
    mixed: bool = False
    """One of the three states in memory, the others in Redis."""
    log: str | None = None
    """The server of the transaction log; None: it lies in the checkpoint."""
    updates: bool = False
    """The topology of `tests.faults.updates`, with reducers and updaters, in place of the word counts."""
    outputs: bool = False
    """The topology of `tests.faults.outputs`, with Parquet and a function."""
    poison: bool = False
    """The topology of `tests.faults.poison`, with functions that fail on some tuples."""
    replayed: bool = False
    """Of these the one whose dead letters come back."""
    windows: bool = False
    """The topology of `tests.faults.windows`."""
    stateful: bool = False
    """The topology of `tests.faults.stateful`, with operations over states and over checkpoints."""
    evolving: str = ""
    """The topology of `tests.faults.evolving`: "old" or "new", and where its states are."""
    forking: str = ""
    """A step of `tests.faults.forking`, which is carried out instead."""
    backfilling: str = ""
    """The topology of `tests.faults.backfilling`: "old" or "new", and where its states are."""
    delta: bool = False
    """The states are Delta tables in the checkpoint's folder."""
    files: dict[str, Any] | None = None
    """The options by which all results go into files on an object store; None: into the log, and the checkpoint."""


def topology(case: Case) -> TridentTopology:
    """Two states in the first stage, one in the second, fed by the first one's new values."""
    if case.evolving:
        return evolving.topology(case.evolving, case.redis, Path(case.checkpoint))
    if case.backfilling:
        return backfilling.topology(case.backfilling, case.kind, case.total, case.redis, Path(case.checkpoint))
    if case.updates:
        return updates.topology(case.kind, case.total, lambda: _state(case))
    if case.replayed:
        return poison.replayed(case.kind, case.total, lambda: _state(case), Path(case.checkpoint) / "fixed")
    if case.poison:
        return poison.topology(case.kind, case.total, lambda: _state(case))
    if case.stateful:
        return stateful.topology(case.kind, case.total, lambda mixed=False: _state(case, mixed))
    if case.windows:
        return windows.topology(case.kind, case.total, lambda: _state(case))
    if case.outputs:
        return outputs.topology(case.kind, case.total, lambda: _state(case), Path(case.checkpoint))
    faults = random.Random()

    def sometimes(word: str) -> str:
        if faults.random() < case.failing:
            raise RuntimeError("a fault that was asked for")
        return word[0]

    topology = TridentTopology()
    spout = NumberedSpout(case.total, SpoutKind.OPAQUE if case.kind == "opaque" else SpoutKind.TRANSACTIONAL)
    words = topology.newStream("numbers", spout).each("word", sometimes, "letter string").groupBy("word")
    counts = words.persistentAggregate(_state(case), Count(), "count", name="counts")
    words.persistentAggregate(_state(case, mixed=case.mixed), "seq", Sum(), "sum", name="sums")
    letters = counts.newValuesStream().each("word", lambda word: word[0], "letter string").groupBy("letter")
    letters.persistentAggregate(_state(case), "count", Max(), "most", name="letters")
    return topology


def _state(case: Case, mixed: bool = False) -> Any:
    if case.redis is not None and not mixed:
        from trident.state import RedisMapState

        return getattr(RedisMapState, case.kind)(case.redis, buckets=16)
    if case.delta:
        return getattr(DeltaMapState, case.kind)(Path(case.checkpoint) / "tables")
    return getattr(MemoryMapState, case.kind)()


def run(case: Case) -> dict[str, dict[str, int]]:
    """Start, process everything, and tell what the states hold."""
    if case.forking:
        return _forking(case)
    with start(case) as running:
        running.processAllAvailable(timeout=300)
        if case.replayed:
            poison.put_back(running, Path(case.checkpoint) / "fixed")
        if case.windows:
            return windows.found(running) | windows.found_early(running)
        found = {name: dict(running.state(name).items()) for name in states_of(case)}
        if case.poison:
            return poison.results(found)
        if case.stateful:
            return stateful.results(found)
        if case.evolving:
            return evolving.results(found)
        if case.backfilling:
            return found | backfilling.seen(Path(case.checkpoint))
        return found | outputs.results(Path(case.checkpoint)) if case.outputs else found


def _forking(case: Case) -> dict[str, dict[str, int]]:
    from tests.faults import forking
    from trident.log import RedisLog

    log = None if case.log is None else RedisLog(case.log, requireDurable=False)
    return forking.run(case.forking, str(case.redis), Path(case.checkpoint), log)


def states_of(case: Case) -> tuple[str, ...]:
    """The states that a case's topology writes."""
    if case.outputs:
        return outputs.STATES
    if case.poison:
        return poison.STATES
    if case.stateful:
        return stateful.STATES
    if case.evolving:
        return evolving.STATES
    if case.backfilling:
        return backfilling.states_of(case.backfilling)
    if case.replayed:
        return ("counts", "deadLetters")
    return updates.STATES if case.updates else ("counts", "sums", "letters")


def start(case: Case) -> RunningTopology:
    options: dict[str, Any] = {
        "name": NAME,
        "checkpointLocation": case.checkpoint,
        "maxSpoutPending": case.pending,
        "maxAttempts": 10**6,
    }
    if case.log is not None:
        from trident.log import RedisLog

        options["log"] = RedisLog(case.log, requireDurable=False)
    if case.files is not None:
        from trident.log import frozen_results

        frozen_results.MOST_IN_LOG = -1
        options |= {"checkpointLocation": None, **case.files}
    if case.spark:
        from tests.support.spark import small_spark

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        return topology(case).start(small_spark(Path(case.checkpoint)), **options)
    return start_local(topology(case), **options)


if __name__ == "__main__":
    print(json.dumps(run(Case(**json.loads(sys.argv[1])))))
