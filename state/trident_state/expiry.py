"""Expiry of values by txid: a value has expired if its last change was at or before a cutoff.

No time is stored with a value, only the txid of the batch that changed the value last: the value has expired if that
txid is at or before the cutoff. The commit of a batch moves the cutoff according to the time of the batch, which is
part of the batch's plan and so the same at every replay. Marks translate times into txids: a state keeps the times and
txids of at most `_MARKS` batches that are younger than the time to live. Reasons and cost:
``docs/decisions/0011-values-expire-by-txid.md``.
"""

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.durations import Duration, read_limit
from trident.base.errors import StateValueError
from trident_state.state_shape import StateKind

_MARKS = 64
"""The number of marks per time to live. So a value expires at most 1/64 of the time to live too late."""

Mark = tuple[int, int]
"""A batch's time in milliseconds since 1970, and its txid."""


Cutoff = int | npt.NDArray[np.int64]
"""The txid up to which every value has expired: one for all rows, or one for each row."""


class Expiry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The cutoffs of a state: `cutoff` as of the marker, `before` as of the txid before the marker.

    `last` is the mark of the last batch; `marks` are those of some batches before the last. `shift` (milliseconds) is
    added to the time of each batch after a clock was set back far. Stores keep an Expiry as JSON, so its field names
    are part of their format.
    """

    cutoff: int = 0
    before: int = 0
    last: Mark | None = None
    marks: tuple[Mark, ...] = ()
    shift: int = 0

    def after(self, txid: int, time: float | None, ttl: float | None, where: str) -> "Expiry":
        """Return the expiry after batch `txid`, which was planned at `time` (seconds since 1970).

        Without a time to live (`ttl` in seconds is None) no further value expires. Raises StateValueError if there is a
        time to live and no `time`. If the clock went back since an earlier batch, the time of that earlier batch
        is used, so that no expired value comes back. If the clock went back by more than a time to live, it was wrong
        before or is wrong now; from then on its progress is added to the latest known time (`shift`), until the clock
        reaches that time again.

        >>> expiry = Expiry()
        >>> for txid, time in enumerate([100.0, 101.0, 109.0, 110.5], start=1):
        ...     expiry = expiry.after(txid, time, 10.0, "a state")
        >>> expiry.cutoff, expiry.before
        (1, 0)
        """
        if ttl is None:
            return msgspec.structs.replace(self, before=self.cutoff)
        if time is None:
            raise StateValueError(f"{where}: batch {txid} has no time, which a state with ttlSecs={ttl:g} needs")
        clock, ttl_ms = round(1000 * time), max(1, round(1000 * ttl))
        marks, shift = self.marks, self.shift
        now = clock + shift
        if self.last is not None:
            if clock >= self.last[0]:
                now, shift = clock, 0
            elif now < self.last[0] - ttl_ms:
                shift += self.last[0] - now
            now = max(now, self.last[0])
            if not marks or now - marks[-1][0] >= ttl_ms / _MARKS:
                marks = (*marks, self.last)
        expired = [mark for mark in marks if mark[0] <= now - ttl_ms]
        cutoff = max(self.cutoff, expired[-1][1]) if expired else self.cutoff
        return Expiry(cutoff, self.cutoff, (now, txid), marks[len(expired) :], shift)

    def as_of(self, asOf: int | None, marker: int | None) -> int:
        """Return the cutoff for a read as of `asOf`: the marker (or None), or the txid before the marker.

        It is -1 if nothing had expired, because the content that a state began with may have the txid 0.
        """
        cutoff = self.cutoff if asOf is None or marker is None or asOf >= marker else self.before
        return cutoff or -1


def without_expired(values: pa.Array, txids: npt.NDArray[np.int64], cutoff: Cutoff) -> pa.Array:
    """Return the values. A value with a txid at or before the cutoff has expired, and is null in the result.

    >>> without_expired(pa.array([10, 20, 30]), np.array([4, 5, 6]), 4).to_pylist()
    [None, 20, 30]
    """
    no_cutoff = cutoff <= 0 if isinstance(cutoff, int) else np.max(cutoff, initial=0) <= 0
    if no_cutoff or np.all(txids > cutoff):
        return values
    return pc.if_else(pa.array(txids > cutoff), values, pa.scalar(None, values.type))


def read_ttl(ttl: Duration | None, kind: StateKind) -> float | None:
    """Return a time to live in seconds; None if values never expire.

    A non-transactional state must not have a time to live.

    >>> read_ttl("1 hour", StateKind.OPAQUE)
    3600
    """
    seconds = read_limit("ttlSecs", ttl)
    if seconds is None:
        return None
    if not 0.001 <= seconds < 1e10:
        raise ValueError(f"ttlSecs={ttl!r}: expected from 1 millisecond to 300 years, or None to keep values")
    if kind is StateKind.NON_TRANSACTIONAL:
        raise ValueError(
            f"ttlSecs={ttl!r}: a nonTransactional state stores no txid with its values, so their age is unknown; "
            f"use opaque or transactional"
        )
    return seconds
