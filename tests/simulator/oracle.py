"""What must be there: computed from the sources and from which tuples each batch froze, by nothing of the library."""

from collections.abc import Mapping

from tests.simulator import flows
from tests.simulator.flows import Values
from tests.simulator.spouts import Tuple


class Wrong(AssertionError):
    """The library broke its promise."""


class Oracle:
    """The history of the frozen batches, and the states after each of them."""

    def __init__(self, flow: str, everything: list[Tuple]) -> None:
        self.flow = flow
        self.everything = {seq: word for word, seq in everything}
        self.batches: list[list[Tuple]] = []
        self.after: list[Values] = [{state: {} for state in flows.states_of(flow)}]
        self._seen: set[int] = set()

    def froze(self, txid: int, tuples: list[Tuple]) -> None:
        """A batch is frozen: each of its tuples for the first time."""
        if txid != len(self.after):
            raise Wrong(f"batch {txid} froze after batch {len(self.after) - 1}")
        numbers = {seq for _, seq in tuples}
        if len(numbers) != len(tuples) or numbers & self._seen:
            raise Wrong(f"batch {txid} froze tuples that were frozen before: {sorted(numbers & self._seen)}")
        self._seen |= numbers
        before = self.after[-1]
        added = flows.deltas(self.flow, txid, tuples, before["counts"])
        self.batches.append(tuples)
        self.after.append({state: _sum(before[state], added[state]) for state in before})

    def forget(self, frozen: int) -> None:
        """The log was replaced by an older copy."""
        for tuples in self.batches[frozen:]:
            self._seen -= {seq for _, seq in tuples}
        del self.batches[frozen:], self.after[frozen + 1 :]

    def check(self, state: str, found: Mapping[str, int | None], asOf: int, who: str) -> None:
        """A read as of a txid shows exactly what the state held after it."""
        if asOf >= len(self.after):
            raise Wrong(f"{who} read {state!r} as of txid {asOf}, frozen are {len(self.after) - 1}")
        expected = self.after[asOf][state]
        for key in {*expected, *found}:
            if expected.get(key) != found.get(key):
                raise Wrong(
                    f"{who} read {state!r} as of txid {asOf}: {key!r} is {found.get(key)}, and ought to be "
                    f"{expected.get(key)} (found {dict(found)}, expected {expected})"
                )

    def check_all(self, found: Mapping[str, Mapping[str, int | None]]) -> None:
        """At the end: every tuple of the sources counted once."""
        missing = set(self.everything) - self._seen
        if missing:
            raise Wrong(f"tuples {sorted(missing)} never froze")
        counts: dict[str, int] = {}
        sums: dict[str, int] = {}
        for seq, word in self.everything.items():
            counts[word] = counts.get(word, 0) + 1
            sums[word] = sums.get(word, 0) + flows.checksum(seq)
        expected = {**self.after[-1], "counts": counts, "sums": sums}
        for state, values in found.items():
            if dict(values) != expected[state]:
                raise Wrong(f"state {state!r} ends as {dict(values)}, and ought to be {expected[state]}")


def _sum(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {**a, **{key: a.get(key, 0) + value for key, value in b.items()}}
