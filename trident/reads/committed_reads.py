"""Committed reads: several states of a batch group as of one txid, while batches go on being committed.

A store can answer as of S as long as its marker is S or S + 1: it keeps the value before the last update beside the
value. So a reader takes S = the last txid that every state of the group holds, reads, and takes a newer S where a
store has gone on in the meantime. Where that happens too often, or the read is large, it holds the commit of S + 2
back; a commit of S + 1 under way does not disturb it, and it waits for none. It holds from its first read on to its
last, and never longer than `HOLD_SECONDS`: then commits go on, and it is the read that fails.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import pyarrow as pa

from trident.base.errors import SnapshotMovedError
from trident.reads.static_states import Readable
from trident_state.messages import Found
from trident_state.state_shape import StateKind

_T = TypeVar("_T")

Isolation = Literal["committed", "latest"]
"""``committed``: as of one txid that every state of the group has committed. ``latest``: whatever was written last."""

FREE_ROWS = 10_000
"""Keys that one read may ask for without holding commits back."""

HOLD_SECONDS = 30.0
"""Seconds that one read holds commits back at most."""

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
        """Gives S = `committed(group)`; until it is left, or `HOLD_SECONDS` are over, no batch beyond S + 1 begins its
        commit. Does not wait."""
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
        self._holds: set[_Hold] = set()

    @contextmanager
    def between(self) -> Iterator[int]:
        """The last committed txid S; until the context is left, `wait` lets no batch beyond S + 1 through."""
        with self._changed:
            hold = _Hold(self._committed(), time.monotonic() + HOLD_SECONDS)
            self._holds.add(hold)
        try:
            yield hold.txid
        finally:
            with self._changed:
                self._holds.remove(hold)
                self._changed.notify_all()

    def wait(self, txid: int, timeout: float | None = None) -> bool:
        """Return True as soon as no read holds the commit of `txid` back, False after `timeout` seconds.

        The committer calls it before the first write of a batch, after `committed` tells the batch before it.
        """
        until = float("inf") if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                now = time.monotonic()
                over = max((hold.until for hold in self._holds if hold.txid < txid - 1), default=now)
                if over <= now:
                    return True
                if until <= now:
                    return False
                self._changed.wait(min(over, until) - now)


@dataclass(frozen=True, slots=True, eq=False)
class _Hold:
    """A read that holds the commits beyond `txid` + 1 back, `until` some time at most."""

    txid: int
    until: float


class _TooLarge(Exception):
    """A read is too large to be made while commits go on."""


class Snapshot:
    """The states as they stood at one txid a group. `asOf` maps each group to its txid."""

    _held = False

    def __init__(self, commits: Commits, asOf: Mapping[str, int], isolation: Isolation) -> None:
        self._commits = commits
        self._isolation = isolation
        self._as_of = dict(asOf)

    @property
    def asOf(self) -> dict[str, int]:
        return self._as_of

    def release(self) -> None:
        """Hold no commit back any longer. Any thread may say so; reads that follow may come too late."""

    def _done(self) -> None:
        """A read has ended."""

    def txid(self, state: str) -> int | None:
        """The txid that reads of this state are made as of; None where only the latest values can be had."""
        if self._isolation == "latest" or self._commits.kind(state) is StateKind.NON_TRANSACTIONAL:
            return None
        return self.asOf[self._commits.group_of(state)]

    def read(self, state: str, keys: pa.Table) -> Found:
        """The values of these keys, in their order."""
        store, txid = self._commits.store(state), self.txid(state)
        if keys.num_rows <= FREE_ROWS:
            found = store.read(keys, txid)
        elif not self._held:
            raise _TooLarge
        else:
            parts = [store.read(keys.slice(at, FREE_ROWS), txid) for at in range(0, keys.num_rows, FREE_ROWS)]
            found = Found(pa.concat_arrays([part.values for part in parts]), min(part.asOf for part in parts))
        self._done()
        return found

    def scan(self, state: str) -> Iterator[pa.Table]:
        """All entries of a state, page by page: the key fields, then ``value``."""
        if not self._held:
            raise _TooLarge
        return self._scan(state)

    def _scan(self, state: str) -> Iterator[pa.Table]:
        yield from self._commits.store(state).scan(self.txid(state), FREE_ROWS)
        self._done()


class _HeldSnapshot(Snapshot):
    """One that holds commits back, from its first read on to its last (`reads` of them; None: until it is left). What
    a user's code does before and behind its reads holds nobody up."""

    _held = True

    def __init__(self, commits: Commits, groups: Sequence[str], isolation: Isolation, reads: int | None) -> None:
        super().__init__(commits, {}, isolation)
        self._groups, self._reads = groups, reads
        self._lock = threading.Lock()
        self._holds = ExitStack()

    @property
    def asOf(self) -> dict[str, int]:
        with self._lock:
            if not self._as_of:
                self._as_of = {group: self._holds.enter_context(self._commits.between(group)) for group in self._groups}
            return self._as_of

    @property
    def shown(self) -> str:
        """As of what it was read."""
        return ", ".join(f"txid {txid} of {group}" for group, txid in self._as_of.items())

    def release(self) -> None:
        with self._lock:
            holds = self._holds.pop_all()
        holds.close()

    def _done(self) -> None:
        if self._reads is not None:
            self._reads -= 1
            if self._reads <= 0:
                self.release()


def consistently(
    commits: Commits,
    states: Sequence[str],
    body: Callable[[Snapshot], _T],
    *,
    isolation: Isolation = "committed",
    large: bool = False,
    reads: int | None = None,
) -> _T:
    """Run `body` over one snapshot of these states; again over a newer one where a store went on meanwhile.

    Parameters
    ----------
    body : makes all its reads through the snapshot; may be called more than once.
    large : whether it is known beforehand that the read is large, so that commits are held back at once.
    reads : how many reads the body makes, where code of a user's follows them: behind the last one no commit is held
        back.

    Raises
    ------
    SnapshotMovedError
        No snapshot could be read for some seconds although commits were held back: somebody else writes. Or the read
        took longer than commits are held back.
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
    return _held(commits, groups, body, isolation, reads)


def _freely(commits: Commits, groups: list[str], body: Callable[[Snapshot], _T], isolation: Isolation) -> _T:
    before: dict[str, int] = {}
    for _ in range(_FREE_TRIES):
        txids = {group: commits.committed(group) for group in groups}
        if txids == before:  # the same question would get the same answer
            break
        before = txids
        try:
            return body(Snapshot(commits, txids, isolation))
        except SnapshotMovedError:
            continue
    raise SnapshotMovedError("the store has gone on")


def _held(
    commits: Commits, groups: list[str], body: Callable[[Snapshot], _T], isolation: Isolation, reads: int | None
) -> _T:
    until, pause = time.monotonic() + _HELD_SECONDS, 0.001
    while True:
        began, snapshot = time.monotonic(), _HeldSnapshot(commits, groups, isolation, reads)
        try:
            return body(snapshot)
        except SnapshotMovedError as error:
            moved = error
        finally:
            snapshot.release()
        commits.check()
        if time.monotonic() - began > HOLD_SECONDS:
            raise SnapshotMovedError(
                f"a read took longer than {HOLD_SECONDS:g} s, for which commits wait at most: {moved}; read less at "
                f"once, or read the latest values (isolation='latest')"
            ) from moved
        if time.monotonic() > until:
            raise SnapshotMovedError(
                f"no read as of {snapshot.shown} for {_HELD_SECONDS:g} s, though this driver held its commits back: "
                f"{moved}; somebody else writes to the state, or its store was replaced; a restart heals it"
            ) from moved
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


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
