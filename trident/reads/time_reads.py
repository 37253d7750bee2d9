"""Reads as of a time: as of the last batch that was committed at or before it.

The log has the time of each commit that it keeps. For earlier batches, and without a log, a store may know when it
wrote them.
"""

import datetime
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from trident.base.errors import TxidNotKeptError
from trident.base.json_values import read_time
from trident.reads.commit_times import CommitTimes
from trident.reads.committed_reads import ReadSource
from trident.reads.txid_reads import kept_txids
from trident_state.store import Dated


@dataclass(frozen=True)
class Moment:
    """A time as of which to read: the text by which messages name it, and the seconds since 1970."""

    text: str
    seconds: float


@runtime_checkable
class CommitsTimed(Protocol):
    """A source of reads that knows when batches were committed."""

    def times(self, group: str) -> CommitTimes:
        """Return when the group's batches were committed."""
        ...


def moment_of(value: object) -> Moment | None:
    """Return the time that a text in ISO 8601 or a datetime names; None for anything else, also for whole numbers.

    A text without an offset is in UTC. Raises ValueError for a datetime without a time zone, which is most often the
    local time of a program, and for a time in the future, because the batches up to that time are not known.

    >>> moment_of("2026-11-26 09:00").seconds, moment_of("2026-11-26T10:00:00+01:00").seconds, moment_of("41")
    (1795683600.0, 1795683600.0, None)
    """
    if isinstance(value, datetime.datetime):
        named = value
        if named.tzinfo is None:
            raise ValueError(
                f"asOf={value!r}: a datetime without a time zone; give it one, as in datetime.now(UTC), or "
                f"datetime.now().astimezone() for the local time"
            )
    elif isinstance(value, str) and not value.strip().isdecimal():
        try:
            named = read_time(value.strip())
        except ValueError:
            return None
    else:
        return None
    seconds = (named if named.tzinfo is not None else named.replace(tzinfo=datetime.UTC)).timestamp()
    if seconds > time.time():
        raise ValueError(f"asOf={str(value)!r}: this time is in the future (a text without an offset is in UTC)")
    return Moment(str(value), seconds)


def txid_at(source: ReadSource, state: str, moment: Moment) -> int:
    """Return the txid of the last batch that was committed at or before a time.

    Raises TxidNotKeptError if the state does not keep that batch, or if nothing says when it was committed.
    """
    source.check()
    kept = kept_txids(source, state)
    times = source.times(source.group_of(state)) if isinstance(source, CommitsTimed) else _UNKNOWN
    timed = _first(kept, lambda txid: times.of(txid) is not None)
    # One after the other, because the times are those of a clock, which may have been set back between two batches.
    known = (txid for txid in reversed(range(timed, kept.stop)) if (times.of(txid) or math.inf) <= moment.seconds)
    if (last := next(known, None)) is not None:
        return last
    store = source.store(state)
    written = store.last_written(moment.seconds) if isinstance(store, Dated) else None
    if written is not None and min(written, timed - 1) in kept:
        return min(written, timed - 1)
    first = f", the first of which was committed at {_shown(times.of(timed))}" if timed in kept else ""
    if first or written is not None:
        why, way = "is before the batches that are kept", ""
    else:
        why = "is given, and no log says when batches were committed"
        way = ". The topology's log has the times; openTopology(...) reads it, given its checkpointLocation or log"
    raise TxidNotKeptError(
        f"state {state!r}: {moment.text} {why}; the state can be read as of the txids {kept[0]} to {kept[-1]}{first}"
        f"{way}",
        kept,
    )


def _first(txids: range, holds: Callable[[int], bool]) -> int:
    """Return the first txid for which a condition holds; it then holds for all later ones. `stop` if there is none."""
    low, high = txids.start, txids.stop
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _shown(seconds: float | None) -> str:
    known = datetime.datetime.fromtimestamp(seconds or 0.0, datetime.UTC)
    return known.strftime("%Y-%m-%d %H:%M:%S UTC")


_UNKNOWN = CommitTimes(lambda txid: None)
