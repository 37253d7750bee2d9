"""Committed reads: several states of a batch group are read as of one txid, while further batches are committed.

With each value, a store keeps the value before the last update. So it can answer as of a txid until two further batches
are written to it. A reader takes the last txid that every state of the group holds, and reads as of it. If the store
has got two further batches meanwhile, the reader begins again with a newer txid.

If that happens too often, or the read is large, the reader holds back the second commit after its txid (`CommitGate`).
The first commit after it may be under way; the reader does not wait for it. A reader holds commits back from its first
read to its last, but never longer than `HOLD_SECONDS`: then commits continue, and the read fails. So no reader can stop
a group.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TypeVar

import pyarrow as pa

from trident.base.errors import SnapshotMovedError
from trident.reads import commit_gate
from trident.reads.static_states import ReadableStore
from trident_state.few_keys import Key
from trident_state.key_order import KeyRange
from trident_state.range_reads import is_quick, ranges_of
from trident_state.state_shape import StateKind
from trident_state.store import count_entries, read_few
from trident_state.store_messages import Found

_T = TypeVar("_T")

Isolation = Literal["committed", "latest"]
"""``committed``: reads are as of one txid that every state of the group has committed. ``latest``: they return the last
written values, committed or not."""

FREE_ROWS = 10_000
"""The most keys that one read may request without holding commits back."""

_FREE_TRIES = 4
_HELD_SECONDS = 3.0
"""The seconds for which a read is repeated although it holds commits back. The fence watch checks for a takeover once a
second. Until then the other driver's commits invalidate every snapshot, and no gate of this driver holds them back."""


class ReadSource(Protocol):
    """The parts of a topology that reads use, whether the topology runs here or elsewhere."""

    def group_of(self, state: str) -> str:
        """Return the batch group that writes a state."""
        ...

    def committed(self, group: str) -> int:
        """Return the last txid that every state of the group has committed. Later calls never return less."""
        ...

    def between(self, group: str) -> AbstractContextManager[int]:
        """Hold commits back, and yield `committed(group)`. Does not wait.

        Until the end of the block, or for `HOLD_SECONDS`, only the first batch after that txid may begin its commit.
        """
        ...

    def store(self, state: str) -> ReadableStore: ...

    def kind(self, state: str) -> StateKind: ...

    def isPrompt(self, state: str) -> bool:
        """Return whether a read of a few keys waits for nothing outside this process (`FewReadable.isPrompt`)."""
        ...

    def check(self) -> None:
        """Raise an error if this run must not answer any more, because it was fenced or closed."""
        ...


class ReadAbandoned(Exception):
    """Raised within a read whose callers have all left."""


_check: ContextVar[Callable[[], None]] = ContextVar("_check", default=lambda: None)


@contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Within the block, large reads of this thread call `check` at each page. It may raise to end them.

    So a read for a client that has left stops holding back commits.
    """
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


class _TooLarge(Exception):
    """Raised by a read that is too large to succeed while commits continue."""


class Snapshot:
    """The states of batch groups, each group as of one txid (`asOf`). This class holds no commits back."""

    _held = False

    def __init__(self, source: ReadSource, asOf: Mapping[str, int], isolation: Isolation) -> None:
        self._source = source
        self._isolation = isolation
        self._as_of = dict(asOf)

    @property
    def asOf(self) -> dict[str, int]:
        return self._as_of

    def release(self) -> None:
        """Stop holding commits back. Any thread may call this; later reads may raise SnapshotMovedError."""

    def _end_read(self) -> None:
        """Record that one read has ended."""

    def txid(self, state: str) -> int | None:
        """Return the txid as of which a state is read; None if the read returns its latest values."""
        if self._isolation == "latest" or self._source.kind(state) is StateKind.NON_TRANSACTIONAL:
            return None
        return self.asOf[self._source.group_of(state)]

    def read(self, state: str, keys: pa.Table) -> Found:
        """Return the values of these keys, in the order of the keys."""
        store, txid = self._source.store(state), self.txid(state)
        if keys.num_rows <= FREE_ROWS:
            result = store.read(keys, txid)
        elif not self._held:
            # Several requests take so long that two batches may be written between them. So this read is repeated with
            # commits held back.
            raise _TooLarge
        else:
            parts = [store.read(keys.slice(at, FREE_ROWS), txid) for at in range(0, keys.num_rows, FREE_ROWS)]
            # If the latest values are read, the parts may be as of different txids. The least of these holds for all
            # parts.
            result = Found(pa.concat_arrays([part.values for part in parts]), min(part.asOf for part in parts))
        self._end_read()
        return result

    def read_few(self, state: str, keys: Sequence[Key]) -> list[Any] | None:
        """Return the values of a few keys as Python values.

        Return None, without a read, if only `read` can read the state.
        """
        found = read_few(self._source.store(state), keys, self.txid(state))
        if found is None:
            return None
        self._end_read()
        return found.values

    def ranges(self, state: str, entries: pa.Schema, ranges: Sequence[KeyRange], most: int | None) -> list[pa.Table]:
        """Return the entries of each range of keys, in order: the first `most` of them, or all.

        `entries` has the names and types of the key fields and of the value.
        """
        store, txid = self._source.store(state), self.txid(state)
        if not self._held and not is_quick(store, pa.schema(list(entries)[:-1]), ranges):
            raise _TooLarge
        few = most is not None and most * len(ranges) <= FREE_ROWS
        asked = most if self._held or few else FREE_ROWS + 1
        tables = ranges_of(store, lambda: self._pages(store, txid), entries, ranges, asked, txid)
        if not self._held and sum(table.num_rows for table in tables) > FREE_ROWS:
            raise _TooLarge
        self._end_read()
        return tables

    def count(self, state: str) -> int | None:
        """Return the number of entries of a state; None, without a read, if only a scan can tell."""
        count = count_entries(self._source.store(state), self.txid(state))
        if count is not None:
            self._end_read()
        return count

    def scan(self, state: str) -> Iterator[pa.Table]:
        """Return all entries of a state, page by page: the key fields, then ``value``."""
        if not self._held:
            # Raised here, at the call, because a generator would raise it only when its first page is requested.
            raise _TooLarge
        return self._scan(state)

    def _scan(self, state: str) -> Iterator[pa.Table]:
        yield from self._pages(self._source.store(state), self.txid(state))
        self._end_read()

    def _pages(self, store: ReadableStore, txid: int | None) -> Iterator[pa.Table]:
        check = _check.get()
        for page in store.scan(txid, FREE_ROWS):
            check()
            yield page


class HeldReads(Snapshot):
    """A snapshot whose creator holds back commits during the reads."""

    _held = True


class _HeldSnapshot(Snapshot):
    """A snapshot that holds commits back, from its first read to its last.

    `reads`: the number of reads after which the hold ends; None: hold until `release`. So user code before the first
    read or after the last read holds back no commit, however long it runs.
    """

    _held = True

    def __init__(self, source: ReadSource, groups: Sequence[str], isolation: Isolation, reads: int | None) -> None:
        super().__init__(source, {}, isolation)
        self._groups, self._reads = groups, reads
        self._followed = False
        self._lock = threading.Lock()  # the reading thread takes the holds; another thread may release a hanging read
        self._holds = ExitStack()

    @property
    def asOf(self) -> dict[str, int]:
        with self._lock:
            if not self._as_of:
                # The txids are taken once: if the holds are released meanwhile, later reads are still as of the same
                # txids, and fail if a store no longer has these values.
                self._as_of = {group: self._holds.enter_context(self._source.between(group)) for group in self._groups}
            return self._as_of

    def txid(self, state: str) -> int | None:
        txid = super().txid(state)
        if txid is None and not self._followed:
            # Latest values hold no commit back. But a source with its driver in another process brings its copies up
            # to date, and notices states that ended, when it is asked for its txid (guard "reads, latest values").
            self._followed = True
            for group in self._groups:
                self._source.committed(group)
        return txid

    @property
    def shown(self) -> str:
        """The snapshot's txids, in words for messages."""
        return ", ".join(f"txid {txid} of {group}" for group, txid in self._as_of.items())

    def release(self) -> None:
        with self._lock:
            # Both the reader and the thread of a client that stops waiting call this. The second call finds no holds.
            holds = self._holds.pop_all()
        holds.close()

    def _end_read(self) -> None:
        if self._reads is not None:
            self._reads -= 1
            if self._reads <= 0:
                self.release()


def read_consistently(
    source: ReadSource,
    states: Sequence[str],
    body: Callable[[Snapshot], _T],
    *,
    isolation: Isolation = "committed",
    large: bool = False,
    reads: int | None = None,
    mayWait: bool = True,
) -> _T:
    """Call `body` with a snapshot of these states.

    If a store has got further batches meanwhile, call `body` again with a newer snapshot.

    Parameters
    ----------
    body : makes all its reads through the snapshot; may be called more than once. large : hold commits back at once,
    because the read is known to be large. mayWait : if False, raise SnapshotMovedError instead of holding back commits,
    which may take seconds. reads : the number of reads that the body makes, if user code follows them: after the last
    of them, no commit is
        held back. None: commits are held back until the body returns.

    Raises
    ------
    SnapshotMovedError
        For some seconds no snapshot could be read although commits were held back, so another program writes the state;
        or the read took longer than `HOLD_SECONDS`.
    StateRecoveringError
        A state lacks batches of the log, and is being healed.
    """
    # One txid for each group, because a batch belongs to one group.
    groups = sorted({source.group_of(state) for state in states})
    # Checked before the first read, because the stores of a driver that was taken over may still answer.
    source.check()
    if not large:
        try:
            return _read_freely(source, groups, body, isolation)
        except (SnapshotMovedError, _TooLarge):
            if not mayWait:
                raise SnapshotMovedError("the read succeeds only if the driver holds commits back") from None
            # Not an error yet: the short attempts without a hold came first, because a hold delays commits.
            pass
    return _read_held(source, groups, body, isolation, reads)


def _read_freely(source: ReadSource, groups: list[str], body: Callable[[Snapshot], _T], isolation: Isolation) -> _T:
    """Try a few snapshots without holding commits back. A short read nearly always succeeds at once.

    Raises SnapshotMovedError if none of them succeeds.
    """
    before: dict[str, int] = {}
    for _ in range(_FREE_TRIES):
        txids = {group: source.committed(group) for group in groups}
        if txids == before:  # no batch was committed meanwhile: the same read would fail again
            break
        before = txids
        try:
            # No commit is held back: SnapshotMovedError is raised if the store gets too many batches during the read.
            return body(Snapshot(source, txids, isolation))
        except SnapshotMovedError:
            continue
    raise SnapshotMovedError("the store already has a later batch")


def _read_held(
    source: ReadSource, groups: list[str], body: Callable[[Snapshot], _T], isolation: Isolation, reads: int | None
) -> _T:
    """Repeat a read with commits held back, until it succeeds or another program is known to write the states."""
    until, pause = time.monotonic() + _HELD_SECONDS, 0.001
    while True:
        began, snapshot = time.monotonic(), _HeldSnapshot(source, groups, isolation, reads)
        try:
            return body(snapshot)
        except SnapshotMovedError as error:
            moved = error
        finally:
            # Released before the pause, and also after an error of the body, because a reader that has left must hold
            # back no commit.
            snapshot.release()
        source.check()  # a fenced driver must raise FencedError, not SnapshotMovedError
        # The gate admitted commits during this read, and would do so again.
        if time.monotonic() - began > commit_gate.HOLD_SECONDS:
            raise SnapshotMovedError(
                f"a read took longer than {commit_gate.HOLD_SECONDS:g} s, the limit for holding commits back: "
                f"{moved}; read fewer keys at once, or read the latest values (isolation='latest')"
            ) from moved
        # This is not a takeover, because the watch would have noticed it. Another program writes, or the store was
        # replaced.
        if time.monotonic() > until:
            raise SnapshotMovedError(
                f"no read as of {snapshot.shown} succeeded within {_HELD_SECONDS:g} s, although this driver held its "
                f"commits back: {moved}; another program writes to the state, or its store was replaced; restart the "
                f"topology"
            ) from moved
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


def read_committed(
    source: ReadSource, reads: Mapping[str, pa.Table], isolation: Isolation = "committed"
) -> dict[str, Found]:
    """Return the values of keys by state name; all states of one batch group are read as of one txid.

    Parameters
    ----------
    reads : for each state, by name, a table of its key fields with one row for each key. isolation : ``latest`` reads
    the newest values, committed or not; a non-transactional state is always read in this way.

    Raises
    ------
    StateRecoveringError, StateUnavailableError, SnapshotMovedError
        As in `read_consistently`. Also raises the error of `source.check` if the run may no longer answer.
    """
    return read_consistently(
        source,
        list(reads),
        lambda snapshot: {state: snapshot.read(state, keys) for state, keys in reads.items()},
        isolation=isolation,
    )
