"""What must be there: computed from the sources and from which tuples each batch froze, by nothing of the library."""

from collections.abc import Mapping
from typing import Any

from tests.simulator import flows
from tests.simulator.in_world import checksum
from tests.simulator.meanings import MEANINGS, Held, Waiting, difference
from tests.simulator.spouts import Source, Tuple


class Wrong(AssertionError):
    """The library broke its promise."""


class Oracle:
    """The history of the frozen batches, and the states after each of them."""

    def __init__(self, flow: str, sources: Mapping[str, Source]) -> None:
        self.flow = flow
        self._streams = {seq: name for name, source in sources.items() for _, seq in source.tuples()}
        self.everything = {seq: word for source in sources.values() for word, seq in source.tuples()}
        self.batches: list[list[Tuple]] = []
        meaning = MEANINGS.get(flow)
        self.after: list[Mapping[str, Held | Waiting]] = [
            {state: {} for state in flows.states_of(flow)} if meaning is None else meaning([])
        ]
        self._seen: set[int] = set()

    def froze(self, txid: int, tuples: list[Tuple]) -> None:
        """A batch is frozen: each of its tuples for the first time."""
        if txid != len(self.after):
            raise Wrong(f"batch {txid} froze after batch {len(self.after) - 1}")
        numbers = {seq for _, seq in tuples}
        if len(numbers) != len(tuples) or numbers & self._seen:
            raise Wrong(f"batch {txid} froze tuples that were frozen before: {sorted(numbers & self._seen)}")
        self._seen |= numbers
        self.batches.append(tuples)
        meaning = MEANINGS.get(self.flow)
        if meaning is not None:
            self.after.append(meaning([self._by_stream(batch) for batch in self.batches]))
            return
        before: Any = self.after[-1]
        added = flows.deltas(self.flow, txid, tuples, before["counts"])
        self.after.append({state: _sum(before[state], added[state]) for state in before})

    def _by_stream(self, tuples: list[Tuple]) -> dict[str, list[Tuple]]:
        found: dict[str, list[Tuple]] = {name: [] for name in self._streams.values()}
        for row in tuples:
            found[self._streams[row[1]]].append(row)
        return found

    def forget(self, frozen: int) -> None:
        """The log was replaced by an older copy."""
        for tuples in self.batches[frozen:]:
            self._seen -= {seq for _, seq in tuples}
        del self.batches[frozen:], self.after[frozen + 1 :]

    def check(self, state: str, found: Mapping[Any, Any], asOf: int, who: str) -> None:
        """A read as of a txid shows exactly what the state held after it."""
        if asOf >= len(self.after):
            raise Wrong(f"{who} read {state!r} as of txid {asOf}, frozen are {len(self.after) - 1}")
        wrong = difference(self.after[asOf][state], found)
        if wrong:
            raise Wrong(f"{who} read {state!r} as of txid {asOf}: {wrong}")

    def check_all(self, found: Mapping[str, Mapping[Any, Any]]) -> None:
        """At the end: every tuple of the sources counted once."""
        missing = set(self.everything) - self._seen
        if missing:
            raise Wrong(f"tuples {sorted(missing)} never froze")
        counts: dict[str, int] = {}
        sums: dict[str, int] = {}
        for seq, word in self.everything.items():
            counts[word] = counts.get(word, 0) + 1
            sums[word] = sums.get(word, 0) + checksum(seq)
        expected = {**self.after[-1], "counts": counts, "sums": sums}
        for state, values in found.items():
            wrong = difference(expected[state], values)
            if wrong:
                raise Wrong(f"state {state!r} ends as {dict(values)}: {wrong}")


def _sum(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {**a, **{key: a.get(key, 0) + value for key, value in b.items()}}
