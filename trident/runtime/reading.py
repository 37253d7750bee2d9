"""Committed reads: several states of a batch group as of one txid, while batches go on being committed.

A store can answer as of S as long as its marker is S or S + 1: it keeps the value before the last update beside the
value. So a reader takes S = the last txid that every state of the group holds, reads, and takes a newer S where a
store has gone on in the meantime. Where that happens too often, or the read is large, it holds the commit of S + 2
back until it is done; a commit of S + 1 under way does not disturb it, and it waits for none.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Literal, Protocol, TypeVar

import pyarrow as pa

from trident.base.errors import SnapshotMovedError
from trident.runtime.statics import Readable
from trident_state.store import Found, StateKind

_T = TypeVar("_T")

Isolation = Literal["committed", "latest"]
"""``committed``: as of one txid that every state of the group has committed. ``latest``: whatever was written last."""

FREE_ROWS = 10_000
"""Keys that one read may ask for without holding commits back."""

_FREE_TRIES = 4
_HELD_SECONDS = 3.0
"""A fence that is another driver's is noticed once a second; until then a read finds nothing that holds."""


class Commits(Protocol):
    """What reads need of a running topology."""

    def group_of(self, state: str) -> str:
        """The batch group that writes this state."""
        ...

    def committed(self, group: str) -> int:
        """The last txid that every state of the group has committed; it never goes down."""
        ...

    def between(self, group: str) -> AbstractContextManager[int]:
        """Gives S = `committed(group)`; until it is left, no batch beyond S + 1 begins its commit. Does not wait."""
        ...

    def store(self, state: str) -> Readable: ...

    def kind(self, state: str) -> StateKind: ...

    def check(self) -> None:
        """Raise the reason why this run may no longer answer (fenced, closed), if there is one."""
        ...


class CommitGate:
    """Where reads hold the commits of one batch group back, and the committer asks whether it may go on.

    >>> gate = CommitGate(lambda: 4)
    >>> with gate.between() as txid:
    ...     txid, gate.wait(5, timeout=0), gate.wait(6, timeout=0)
    (4, True, False)
    >>> gate.wait(6, timeout=0)
    True
    """

    def __init__(self, committed: Callable[[], int]) -> None:
        self._committed = committed
        self._changed = threading.Condition()
        self._holds: Counter[int] = Counter()

    @contextmanager
    def between(self) -> Iterator[int]:
        """The last committed txid S; until the context is left, `wait` lets no batch beyond S + 1 through."""
        with self._changed:
            txid = self._committed()
            self._holds[txid] += 1
        try:
            yield txid
        finally:
            with self._changed:
                self._holds[txid] -= 1
                if not self._holds[txid]:
                    del self._holds[txid]
                    self._changed.notify_all()

    def wait(self, txid: int, timeout: float | None = None) -> bool:
        """Return True as soon as no read holds the commit of `txid` back, False after `timeout` seconds.

        The committer calls it before the first write of a batch, after `committed` tells the batch before it.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._holds or min(self._holds) >= txid - 1, timeout)


class _TooLarge(Exception):
    """A read is too large to be made while commits go on."""


class Snapshot:
    """The states as they stood at one txid a group. `asOf` maps each group to its txid."""

    def __init__(self, commits: Commits, asOf: Mapping[str, int], isolation: Isolation, held: bool) -> None:
        self._commits = commits
        self._isolation = isolation
        self._held = held
        self.asOf = dict(asOf)

    def txid(self, state: str) -> int | None:
        """The txid that reads of this state are made as of; None where only the latest values can be had."""
        if self._isolation == "latest" or self._commits.kind(state) is StateKind.NON_TRANSACTIONAL:
            return None
        return self.asOf[self._commits.group_of(state)]

    def read(self, state: str, keys: pa.Table) -> Found:
        """The values of these keys, in their order."""
        if keys.num_rows <= FREE_ROWS:
            return self._commits.store(state).read(keys, self.txid(state))
        if not self._held:
            raise _TooLarge
        store, txid = self._commits.store(state), self.txid(state)
        parts = [store.read(keys.slice(at, FREE_ROWS), txid) for at in range(0, keys.num_rows, FREE_ROWS)]
        return Found(pa.concat_arrays([part.values for part in parts]), min(part.asOf for part in parts))

    def scan(self, state: str) -> Iterator[pa.Table]:
        """All entries of a state, page by page: the key fields, then ``value``."""
        if not self._held:
            raise _TooLarge
        return self._commits.store(state).scan(self.txid(state), FREE_ROWS)


def consistently(
    commits: Commits,
    states: Sequence[str],
    body: Callable[[Snapshot], _T],
    *,
    isolation: Isolation = "committed",
    large: bool = False,
) -> _T:
    """Run `body` over one snapshot of these states; again over a newer one where a store went on meanwhile.

    Parameters
    ----------
    body : makes all its reads through the snapshot; may be called more than once.
    large : whether it is known beforehand that the read is large, so that commits are held back at once.

    Raises
    ------
    SnapshotMovedError
        No snapshot could be read for some seconds although commits were held back: somebody else writes.
    StateRecoveringError
        A state is behind the log and being healed.
    """
    groups = sorted({commits.group_of(state) for state in states})
    commits.check()
    if not large:
        try:
            return _freely(commits, groups, body, isolation)
        except (SnapshotMovedError, _TooLarge):
            pass
    return _held(commits, groups, body, isolation)


def _freely(commits: Commits, groups: list[str], body: Callable[[Snapshot], _T], isolation: Isolation) -> _T:
    before: dict[str, int] = {}
    for _ in range(_FREE_TRIES):
        txids = {group: commits.committed(group) for group in groups}
        if txids == before:  # the same question would get the same answer
            break
        before = txids
        try:
            return body(Snapshot(commits, txids, isolation, held=False))
        except SnapshotMovedError:
            continue
    raise SnapshotMovedError("the store has gone on")


def _held(commits: Commits, groups: list[str], body: Callable[[Snapshot], _T], isolation: Isolation) -> _T:
    until, pause = time.monotonic() + _HELD_SECONDS, 0.001
    while True:
        with ExitStack() as holds:
            txids = {group: holds.enter_context(commits.between(group)) for group in groups}
            try:
                return body(Snapshot(commits, txids, isolation, held=True))
            except SnapshotMovedError as error:
                moved = error
        commits.check()
        if time.monotonic() > until:
            raise SnapshotMovedError(
                f"no read as of {_shown(txids)} for {_HELD_SECONDS:g} s, though this driver held its commits back: "
                f"{moved}; somebody else writes to the state, or its store was replaced; a restart heals it"
            ) from moved
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


def _shown(txids: Mapping[str, int]) -> str:
    return ", ".join(f"txid {txid} of {group}" for group, txid in txids.items())


def read_committed(
    commits: Commits, reads: Mapping[str, pa.Table], isolation: Isolation = "committed"
) -> dict[str, Found]:
    """The values of these keys, state by state; all states of one batch group as of one txid.

    Parameters
    ----------
    reads : state name to a table of the state's key fields, one row a key.
    isolation : ``latest`` reads what was written last, committed or not; a non-transactional state has nothing else.

    Raises
    ------
    StateRecoveringError, StateUnavailableError, SnapshotMovedError
        as `consistently` tells; and whatever `commits.check` says of a run that may no longer answer.
    """
    return consistently(
        commits,
        list(reads),
        lambda snapshot: {state: snapshot.read(state, keys) for state, keys in reads.items()},
        isolation=isolation,
    )
