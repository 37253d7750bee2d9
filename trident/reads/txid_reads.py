"""Reads as of a txid that the caller names: of any batch that the state's store can still answer.

Every store keeps, with each value, the value before the last update. So it can be read as of its last batch, and as of
the one before until the next batch begins to be written. A `Historic` store keeps more.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from trident.base.errors import SnapshotMovedError, TxidNotKeptError
from trident.reads.committed_reads import HeldReads, ReadSource, Snapshot
from trident.reads.first_txids import first_txid
from trident.reads.previous_reads import txid_before
from trident.reads.static_states import ReadableStore
from trident_state.state_shape import StateKind
from trident_state.store import Historic, tags_of

_T = TypeVar("_T")


def kept_txids(source: ReadSource, state: str) -> range:
    """Return the txids as of which a state can be read now. The next commit may shorten the range."""
    store, committed = source.store(state), source.committed(source.group_of(state))
    kept = store.kept_since() if isinstance(store, Historic) else txid_before(committed)
    first = max(kept, first_txid(source, state))
    return range(min(first, committed), committed + 1)


def keeps(source: ReadSource, state: str, txid: int) -> bool:
    """Return whether a state can be read now as of a txid: it is in the kept range, or has a tag."""
    return txid in kept_txids(source, state) or any(tag.txid == txid for tag in tags_of(source.store(state)) or ())


def read_as_of(source: ReadSource, states: Sequence[str], txid: int, body: Callable[[Snapshot], _T]) -> _T:
    """Call `body` once with a snapshot of states of one batch group as of `txid`.

    Raises TxidNotKeptError if a store cannot answer.
    """
    source.check()
    group = source.group_of(states[0])
    if all(isinstance(source.store(state), Historic) for state in states):  # later batches change nothing of these
        return _read_kept(source, states, group, txid, body)
    # Commits are held back, or they would overwrite values during the read (guard "as of a txid, hold").
    with source.between(group):
        return _read_kept(source, states, group, txid, body)


def _read_kept(source: ReadSource, states: Sequence[str], group: str, txid: int, body: Callable[[Snapshot], _T]) -> _T:
    for state in states:
        check_kept(source, state, txid)
    kept = kept_txids(source, states[0])
    try:
        return body(HeldReads(_PastSource(source, txid), {group: txid}, "committed"))
    except SnapshotMovedError as error:
        raise _not_kept(states[0], txid, range(min(txid + 1, kept[-1]), kept.stop)) from error


def check_kept(source: ReadSource, state: str, txid: int) -> None:
    """Raise TxidNotKeptError if a state cannot be read now as of a txid."""
    if not keeps(source, state, txid):
        raise _not_kept(state, txid, kept_txids(source, state))


def _not_kept(state: str, txid: int, kept: range) -> TxidNotKeptError:
    later = "has not been committed yet" if txid > kept[-1] else "is not kept any more"
    return TxidNotKeptError(
        f"state {state!r}: txid {txid} {later}; the state can be read as of the txids {kept[0]} to {kept[-1]}. Read "
        f"without asOf for the last committed batch; to keep a batch, export it (trident state export), or keep the "
        f"state in a store that keeps more batches, and tags",
        kept,
    )


class _PastSource:
    """A `ReadSource` whose states are read from the stores of an earlier batch, if they have such."""

    def __init__(self, source: ReadSource, txid: int) -> None:
        self._source, self._txid = source, txid

    def group_of(self, state: str) -> str:
        return self._source.group_of(state)

    def committed(self, group: str) -> int:
        return self._source.committed(group)

    @contextmanager
    def between(self, group: str) -> Iterator[int]:
        with self._source.between(group) as txid:
            yield txid

    def store(self, state: str) -> ReadableStore:
        store = self._source.store(state)
        return store.at(self._txid) if isinstance(store, Historic) else store

    def kind(self, state: str) -> StateKind:
        return self._source.kind(state)

    def isPrompt(self, state: str) -> bool:
        return self._source.isPrompt(state)

    def check(self) -> None:
        self._source.check()
