"""What a state has forgotten, told by txids alone: everything last changed at or before a cutoff is nothing.

No time lies beside a value. A batch's own time (part of its plan, so the same at every replay) moves the cutoff in the
commit of that batch, and the txid that every value carries says on which side of it the value is. Which txids a time
stands for is kept by marks: the times of at most `_MARKS` batches, of those that are younger than the time to live.
Why, and what it costs: ``docs/decisions/0011-values-pass-away-by-txid.md``.
"""

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import StateValueError
from trident_state.store import StateKind

_MARKS = 64
"""Marks a time to live: a value is there for at most 1/64 of it longer than asked for."""

Mark = tuple[int, int]
"""A batch's time in milliseconds since 1970, and its txid."""


Cutoff = int | npt.NDArray[np.int64]
"""A txid up to which everything is forgotten; or one a row."""


class Expiry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is forgotten as of a state's marker (`cutoff`) and as of the batch before it (`before`).

    `last` is the last batch, `marks` are some before it, all with their times; `shift` is what is added to a batch's
    own time (milliseconds) since a clock was set back far.
    """

    cutoff: int = 0
    before: int = 0
    last: Mark | None = None
    marks: tuple[Mark, ...] = ()
    shift: int = 0

    def after(self, txid: int, time: float | None, ttl: float | None, where: str) -> "Expiry":
        """As batch `txid`, planned at `time` (seconds since 1970), leaves it. Without a time to live nothing new passes
        away. A time before that of an earlier batch counts as that one's: clocks that go back bring nothing back. One
        that goes back by more than a time to live was wrong before, or is now: time goes on from there, by its steps.

        >>> expiry = Expiry()
        >>> for txid, time in enumerate([100.0, 101.0, 109.0, 110.5], start=1):
        ...     expiry = expiry.after(txid, time, 10.0, "a state")
        >>> expiry.cutoff, expiry.before
        (1, 0)
        """
        if ttl is None:
            return msgspec.structs.replace(self, before=self.cutoff)
        if time is None:
            raise StateValueError(f"{where}: batch {txid} has no time, and values here live for {ttl:g} seconds")
        now, life = round(1000 * time) + self.shift, max(1, round(1000 * ttl))
        marks, shift = self.marks, self.shift
        if self.last is not None:
            if now < self.last[0] - life:
                shift += self.last[0] - now
            now = max(now, self.last[0])
            if not marks or now - marks[-1][0] >= life / _MARKS:
                marks = (*marks, self.last)
        gone = [mark for mark in marks if mark[0] <= now - life]
        cutoff = max(self.cutoff, gone[-1][1]) if gone else self.cutoff
        return Expiry(cutoff, self.cutoff, (now, txid), marks[len(gone) :], shift)

    def as_of(self, asOf: int | None, marker: int | None) -> int:
        """The cutoff for a read as of a txid, which is the marker or the one before it; None: the latest."""
        return self.cutoff if asOf is None or marker is None or asOf >= marker else self.before


def kept(values: pa.Array, txids: npt.NDArray[np.int64], cutoff: Cutoff) -> pa.Array:
    """These values, null where the txid is at or before the cutoff.

    >>> kept(pa.array([10, 20, 30]), np.array([4, 5, 6]), 4).to_pylist()
    [None, 20, 30]
    """
    nothing = cutoff <= 0 if isinstance(cutoff, int) else np.max(cutoff, initial=0) <= 0
    if nothing or np.all(txids > cutoff):
        return values
    return pc.if_else(pa.array(txids > cutoff), values, pa.scalar(None, values.type))


def check_ttl(ttl: float | None, kind: StateKind) -> None:
    """Refuse a time to live that means nothing."""
    if ttl is None:
        return
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0.001 <= ttl < 1e10:
        raise ValueError(f"ttlSecs={ttl!r}: expected seconds, 0.001 or more, or None for values that stay")
    if kind is StateKind.NON_TRANSACTIONAL:
        raise ValueError(
            f"ttlSecs={ttl!r}: a nonTransactional state keeps no txid beside its values, by which their age is known; "
            f"take opaque or transactional"
        )
