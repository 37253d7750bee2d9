"""The topology of the kills that meet stateful operations: four in series, over two stores and over memory alone.

Whatever the batches and the order within them, the answer is one: the numbers of a word's tuples are 1, 2, 3 and so on.
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.faults.source import NumberedSpout, records
from tests.support.totals import Total
from trident import StatefulOperation, TridentTopology
from trident.state import KeyValueState
from trident_spouts.executor import SpoutKind

STATES = ("runs", "ranks", "checkpoint", "timed")


def counted(tuple: Any, state: KeyValueState) -> int:
    """The number of the tuple among those of its word; the sum of seq is a checksum that +1-1 cannot cheat."""
    n, checked = state.get(tuple.word, (0, 0))
    state.put(tuple.word, (n + 1, checked + int(tuple.seq)))
    return int(n) + 1


class Ranks(StatefulOperation):
    """The sums of these numbers by letter: held in memory within a batch, and put at its end."""

    def initState(self, state: KeyValueState) -> None:
        self.state, self.sums = state, Counter[str]()

    def execute(self, tuple: Any, collector: Any) -> None:
        self.sums[tuple.word[0]] += tuple.n
        collector.emit([tuple.word[0]])

    def prePrepare(self, txid: int) -> None:
        for letter, total in self.sums.items():
            self.state.put(letter, self.state.get(letter, 0) + total)
        self.sums.clear()

    def preRollback(self) -> None:
        self.sums.clear()


def alarmed(tuple: Any, state: Any) -> None:
    """Set a timer for each tuple that is due at once. More are due than one batch fires, so others have no tuples."""
    state.setTimer(tuple.word, state.now(), str(tuple.seq))


def rung(timer: Any, state: KeyValueState) -> None:
    """Count a timer, and add the number in its name."""
    n, checked = state.get(timer.key, (0, 0))
    state.put(timer.key, (n + 1, checked + int(timer.name)))


def topology(kind: str, total: int, state: Callable[..., Any]) -> TridentTopology:
    """Four operations in series; if the states are in Redis, the second one's is in memory."""
    made = TridentTopology()
    spout = NumberedSpout(total, SpoutKind.OPAQUE if kind == "opaque" else SpoutKind.TRANSACTIONAL)
    numbered = made.newStream("numbers", spout).statefulEach(
        counted, "n long", keyFields="word", valueType="struct<n: long, sum: long>", stateFactory=state(), name="runs"
    )
    ranked = numbered.statefulEach(
        Ranks(), "letter string", keyFields="letter string", valueType="long", stateFactory=state(True), name="ranks"
    )
    totals = ranked.statefulEach("n", Total(), "total long", stateFactory=state(), name="checkpoint")
    totals.statefulEach(
        alarmed,
        keyFields="word",
        valueType="struct<n: long, sum: long>",
        stateFactory=state(),
        onTimer=rung,
        maxTimersPerBatch=2,
        name="timed",
    )
    return made


def results(found: dict[str, dict[Any, Any]]) -> dict[str, dict[str, Any]]:
    """The contents of the states, as JSON."""
    runs, timed = (
        {word: [value["n"], value["sum"]] for word, value in found[name].items()} for name in ("runs", "timed")
    )
    (checkpoint,) = found["checkpoint"].values()
    return {"runs": runs, "ranks": found["ranks"], "checkpoint": {"total": json.loads(checkpoint)}, "timed": timed}


def expected(total: int) -> dict[str, dict[str, Any]]:
    """What the states hold at the end."""
    runs: dict[str, list[int]] = {}
    ranks: Counter[str] = Counter()
    for part in records(total):
        for word, seq in part:
            run = runs.setdefault(word, [0, 0])
            run[0] += 1
            run[1] += seq
            ranks[word[0]] += run[0]
    totals = {"total": sum(ranks.values())}
    return {"runs": dict(runs), "ranks": dict(ranks), "checkpoint": totals, "timed": dict(runs)}
