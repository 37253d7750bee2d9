"""The topology of the kills that meet a user's own code over states: a reducer, updaters that remove and emit.

Whatever the batches and the order within them, the answer is one: each tuple turns its word on or off.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tests.faults.source import NumberedSpout, records
from trident import Sum, TridentTopology
from trident.state import RemovableMapState
from trident_spouts.executor import SpoutKind

STATES = ("folded", "lit", "letters", "mirror")


class Folded:
    """The sum of seq, a checksum that +1-1 cannot cheat."""

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + int(tuple.seq)


def toggle(state: RemovableMapState, tuples: Sequence[Any], collector: Any) -> None:
    """A word that is there goes, one that is not comes; and what that does to the number of words there."""
    for word in [t.word for t in tuples]:
        if state.multiGet([word]) == [None]:
            state.multiPut([word], [1])
            collector.emit([word[0], 1])
        else:
            state.multiRemove([word])
            collector.emit([word[0], -1])


def mirror(state: RemovableMapState, tuples: Sequence[Any], collector: Any) -> None:
    """What the reducer came to."""
    state.multiPut([t.word for t in tuples], [t.sum for t in tuples])


def topology(kind: str, total: int, state: Callable[[], Any]) -> TridentTopology:
    """Updates after the spout, after each other, and an aggregate of what is emitted."""
    made = TridentTopology()
    spout = NumberedSpout(total, SpoutKind.OPAQUE if kind == "opaque" else SpoutKind.TRANSACTIONAL)
    words = made.newStream("numbers", spout)
    folded = words.groupBy("word").persistentAggregate(state(), "seq", Folded(), "sum", name="folded")
    lit = words.partitionPersist(
        state(), "word", toggle, "letter string, by long", keyFields="word", valueType="int", name="lit"
    )
    letters = lit.newValuesStream(everyChange=True).groupBy("letter")
    letters.persistentAggregate(state(), "by", Sum(), "words", name="letters")
    folded.newValuesStream().partitionPersist(state(), mirror, keyFields="word", valueType="long", name="mirror")
    return made


def expected(total: int) -> dict[str, dict[str, int]]:
    """What the states hold at the end."""
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for part in records(total):
        for word, seq in part:
            counts[word] += 1
            sums[word] += seq
    lit = {word: 1 for word, count in counts.items() if count % 2}
    letters = {letter: sum(word[0] == letter for word in lit) for letter in {word[0] for word in counts}}
    return {"folded": dict(sums), "lit": lit, "letters": letters, "mirror": dict(sums)}
