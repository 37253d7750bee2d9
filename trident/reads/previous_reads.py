"""Reads as of the batch before the last committed one.

With each value, a store keeps the value before the last update. So the store can be read as of the txid before its
marker until the next batch begins to be written. Therefore such a read holds commits back from its beginning. A commit
that has already begun continues; the read is then as of the batch that was the last committed batch before it.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol, TypeVar, runtime_checkable

from trident.base.errors import SnapshotMovedError
from trident.reads import commit_gate
from trident.reads.committed_reads import HeldReads, ReadSource, Snapshot
from trident.reads.first_txids import check_begun

_T = TypeVar("_T")

_OTHER_WRITER_SECONDS = 3.0
"""The seconds for which a read is repeated although batches continue.

Only another driver's commits can pass the gate.
"""


@runtime_checkable
class CommitsHere(Protocol):
    """A source of reads whose commits run in this process, and call user code that may read."""

    def check_other_turn(self, group: str) -> None:
        """Raise TridentError in a thread that a commit of the group waits for: the read would wait for itself."""
        ...


def txid_before(committed: int) -> int:
    """Return the txid of the batch before the last committed one; 0, which means the empty state, if there is none.

    >>> txid_before(5), txid_before(0)
    (4, 0)
    """
    return max(0, committed - 1)


def read_previous(source: ReadSource, states: Sequence[str], body: Callable[[Snapshot], _T]) -> _T:
    """Call `body` with a snapshot of these states as of the batch before the last committed one.

    `body` makes all its reads through the snapshot, and may be called more than once. Raises SnapshotMovedError if
    batches continued for some seconds although commits were held back, StateRecoveringError if a state lacks batches,
    and TxidNotKeptError if a state began with the last committed batch.
    """
    groups = sorted({source.group_of(state) for state in states})
    source.check()
    if isinstance(source, CommitsHere):
        for group in groups:
            source.check_other_turn(group)
    with ExitStack() as holds:
        # From here on each group commits at most the batch that may be in progress, so the second attempt succeeds at
        # the latest when that batch is committed (guard "previous, hold").
        first = {group: holds.enter_context(source.between(group)) for group in groups}
        began, pause = time.monotonic(), 0.001
        while True:
            txids = {group: source.committed(group) for group in groups}
            for state in states:
                committed = txids[source.group_of(state)]
                check_begun(source, state, txid_before(committed), committed)
            try:
                return body(HeldReads(source, {group: txid_before(txid) for group, txid in txids.items()}, "committed"))
            except SnapshotMovedError as error:
                moved = error
            source.check()
            limit = commit_gate.HOLD_SECONDS if txids == first else _OTHER_WRITER_SECONDS
            if time.monotonic() - began > limit:
                shown = ", ".join(f"txid {txid_before(txid)} of {group}" for group, txid in txids.items())
                raise SnapshotMovedError(
                    f"no read as of {shown} succeeded within {limit:g} s: {moved}; a batch takes that long to "
                    f"commit, or another "
                    f"program writes to the state. Read the last committed batch instead (without asOf='previous')"
                ) from moved
            time.sleep(pause)
            pause = min(pause * 2, 0.1)
