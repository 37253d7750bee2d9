"""Interval joins as plain data: the two streams, their keys and times, and the interval."""

from dataclasses import dataclass

from trident.base.callsite import CallSite
from trident.base.durations import duration_text
from trident.operations.windows import EventTime, EventTimeWindow

_LEAST_BUCKET = 60_000_000
"""The shortest time bucket for waiting tuples, in microseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One stream of a join: its key fields, and either its event time or the windows of its tuples."""

    site: CallSite
    keys: tuple[str, ...]
    config: EventTime | EventTimeWindow

    @property
    def time(self) -> str:
        """The event time field."""
        assert self.config.timestampField is not None
        return self.config.timestampField


@dataclass(frozen=True, slots=True, eq=False)
class IntervalJoining:
    """A join of tuples whose times differ by at most an interval.

    The time of the right tuple is from `lower` to `upper` microseconds after that of the left one; both may be
    negative. `unmatched` has a flag for each stream: whether its tuples without a partner are emitted, too.
    """

    site: CallSite
    sides: tuple[Side, Side]
    lower: int
    upper: int
    unmatched: tuple[bool, bool]

    @property
    def bucket(self) -> int:
        """The length of the time buckets of waiting tuples, in microseconds."""
        return max(self.upper - self.lower, _LEAST_BUCKET)

    @property
    def meaning(self) -> str:
        """The parts of the join that must not change between restarts, as text."""
        fields = " and ".join(side.time for side in self.sides)
        return f"IntervalJoin(from {span(self.lower)} to {span(self.upper)} by {fields}, {self.kind})"

    @property
    def kind(self) -> str:
        """The kind of the join, as users write it."""
        return join_kind(self.unmatched)


def join_kind(unmatched: tuple[bool, bool]) -> str:
    """Return the kind of a join, as users write it. `unmatched` flags the streams whose tuples need no partner.

    >>> join_kind((True, False))
    'left'
    """
    return {(False, False): "inner", (True, False): "left", (False, True): "right", (True, True): "full"}[unmatched]


def span(microseconds: int) -> str:
    """Return a possibly negative duration as text.

    >>> span(-3_600_000_000), span(0)
    ('-1 hour', '0 seconds')
    """
    return f"-{duration_text(-microseconds)}" if microseconds < 0 else duration_text(microseconds)
