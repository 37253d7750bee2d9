"""Streams that are read to their end before the other streams of their group begin: `newStream(bootstrap=True)`."""

from collections.abc import Iterable, Iterator, Set

from trident.compiler.program import Group
from trident.plan.nodes import SpoutSource


class Bootstrapping:
    """Decides which streams of a group wait. Only the thread that plans uses it.

    A stream is at its end if its spout has nothing for a batch, although its source answered and is not at a limit, and
    if all earlier batches are committed. Then the next batch sees all of the stream's tuples in the states, and no
    earlier batch gets another plan. The end is not recorded: after a restart these streams go first again.
    """

    def __init__(self, spouts: Iterable[SpoutSource]) -> None:
        nodes = tuple(spouts)
        self._first = {node.stream for node in nodes if node.bootstrap}
        reason = f"the end of {', '.join(sorted(self._first))}"
        self.waiting = {node.stream: reason for node in nodes if self._first and not node.bootstrap}
        """The streams whose spouts are not asked yet, with the reason. A group with such a stream must not rest."""

    def end(self, txid: int, succeeded: int, empty: Set[str]) -> Set[str]:
        """Return the streams that begin with batch `txid`, and wait no longer.

        `empty`: the streams whose spouts were asked for this batch and have nothing. `succeeded`: the last committed
        txid that was reported to the spouts.
        """
        if succeeded < txid - 1 or not self._first <= empty:
            return frozenset()
        begun, self.waiting = self.waiting.keys(), {}
        return begun


def without_effect(groups: Iterable[Group]) -> Iterator[str]:
    """Yield a warning for each stream with `bootstrap` for which no other stream waits."""
    for group in groups:
        if all(node.bootstrap for node in group.spouts):
            for node in group.spouts:
                yield (
                    f"{node.step} ({node.site.location}): bootstrap=True has no effect, because no stream without it "
                    f"shares the batches of {node.stream!r}; streams share batches if they are merged or joined, or if "
                    f"one looks up a state of the other"
                )
