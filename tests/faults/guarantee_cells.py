"""A driver of one cell of the guarantee table, a spout and a state of one kind each, in a process of its own."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.spouts import ReplayingSpout
from trident import Count, Sum, TridentTopology
from trident.base import crash_points
from trident.base.attempt import TransactionAttempt
from trident.spouts import FixedBatchSpout
from trident.state import RedisMapState
from trident.testing.local import start_local

WORDS = [f"w{n}" for n in range(8)]
TWO = 2
"""Words in a batch."""


def _replay(attempt: TransactionAttempt) -> int:
    """The attempt at batch 2 that is killed takes two words, the one after the restart takes one."""
    return 1 if (attempt.txid, attempt.epoch) == (2, 2) else TWO


class Emptied:
    """Non-transactional: what is read is gone from the source, committed or not, as from a queue."""

    outputFields = "word string"

    def __init__(self, file: Path) -> None:
        self._file = file

    def open(self) -> None:
        if not self._file.exists():
            self._file.write_text("\n".join(WORDS))

    def emitBatch(self, batchId: int) -> Sequence[str]:
        words = self._file.read_text().split()
        self._file.write_text("\n".join(words[TWO:]))
        return words[:TWO]

    def ack(self, batchId: int) -> None: ...

    def close(self) -> None: ...


class FromTheStart:
    """Non-transactional: every run begins at the start again."""

    outputFields = "word string"

    def open(self) -> None:
        self._left = list(WORDS)

    def emitBatch(self, batchId: int) -> Sequence[str]:
        words, self._left = self._left[:TWO], self._left[TWO:]
        return words

    def ack(self, batchId: int) -> None: ...

    def close(self) -> None: ...


def spout_of(kind: str, folder: Path) -> Any:
    """A source of `WORDS`."""
    if kind == "transactional":
        return FixedBatchSpout("word string", [WORDS[at : at + TWO] for at in range(0, len(WORDS), TWO)])
    if kind == "opaque":
        return ReplayingSpout("word string", {"p": WORDS}, _replay)
    return Emptied(folder / "queue") if kind == "emptied" else FromTheStart()


def counting(spout: Any, state: Any) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", spout).groupBy("word")
    words.persistentAggregate(state, Count(), "count", name="counts")
    return topology


def switched(guarantee: Any, url: str, folder: Path) -> None:
    """One life of the driver of a program that has stateful operations and aggregates, under one of both guarantees."""
    topology = TridentTopology(guarantee=guarantee)
    words = topology.newStream("words", spout_of("transactional", folder))
    numbered = words.statefulEach(
        numbering, "n long", keyFields="word", valueType="long", stateFactory=RedisMapState.opaque(url), name="numbers"
    )
    numbered.groupBy("word").persistentAggregate(RedisMapState.opaque(url), "n", Sum(), "sum", name="sums")
    running = start_local(topology, name="t", checkpointLocation=folder / "c", maxSpoutPending=1)
    running.processAllAvailable(timeout=30)
    os.kill(os.getpid(), signal.SIGUSR1)


def numbering(tuple: Any, state: Any) -> int:
    """The number of a tuple among those of its word."""
    n = int(state.get(tuple.word, 0)) + 1
    state.put(tuple.word, n)
    return n


def run(spout: str, state: Any, folder: Path, crash_at: str) -> None:
    """One life of the driver. Killed at a point, or at the end, when all is committed."""
    crash_points.arm(crash_at)
    topology = counting(spout_of(spout, folder), state)
    running = start_local(topology, name="t", checkpointLocation=folder / "c", maxSpoutPending=1)
    running.processAllAvailable(timeout=30)
    os.kill(os.getpid(), signal.SIGUSR1)  # it dies of another signal than a killed one
