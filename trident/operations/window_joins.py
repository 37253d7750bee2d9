"""Window joins as plain data: the two streams, their keys and windows."""

from dataclasses import dataclass

from trident.base.callsite import CallSite
from trident.operations.interval_joins import Side, join_kind
from trident.operations.windows import EventTimeWindow


@dataclass(frozen=True, slots=True, eq=False)
class WindowJoining:
    """A join of the tuples of two streams that are in the same window.

    `window` is the left stream's; the right stream's differs at most in the time field. `unmatched` has a flag for
    each stream: whether its tuples without a partner are emitted, too.
    """

    site: CallSite
    sides: tuple[Side, Side]
    window: EventTimeWindow
    unmatched: tuple[bool, bool]

    @property
    def meaning(self) -> str:
        """The parts of the join that must not change between restarts, as text."""
        return f"WindowJoin({self.window.meaning} and {self.sides[1].time}, {self.kind})"

    @property
    def kind(self) -> str:
        """The kind of the join, as users write it."""
        return join_kind(self.unmatched)
