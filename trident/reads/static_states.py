"""States that a run only reads. They are opened at its start. Each is read as of its last committed batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa

from trident.base.errors import SnapshotMovedError, StateError, StateRecoveringError, StateShapeError
from trident.base.value_conversion import type_name
from trident.compiler.program import Program
from trident.compiler.states.shapes import shape_of
from trident.log.snapshot_home import NoHome
from trident.plan.nodes import StaticState
from trident_state.few_keys import Key
from trident_state.fingerprint import shown_shapes
from trident_state.incarnation import Incarnation
from trident_state.key_order import KeyRange
from trident_state.range_reads import has_order, read_ranges
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Readable, SharedSnapshot, Store, bind_reads, read_few
from trident_state.store_messages import FewFound, Found

_T = TypeVar("_T")

_TRIES = 20


class ReadableStore(Protocol):
    """The part of a store that readers use."""

    def read(self, keys: pa.Table, asOf: int | None) -> Found: ...

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]: ...

    def close(self) -> None: ...


def open_statics(program: Program) -> dict[str, ReadableStore]:
    """Open the states that the program only reads.

    Raises StateError if the topology of a state has not written it yet.
    """
    opened: dict[str, ReadableStore] = {}
    try:
        for node in program.statics:
            opened[node.state.name] = _open(node)
    except BaseException:
        close_statics(opened)
        raise
    return opened


def close_statics(statics: Mapping[str, ReadableStore]) -> None:
    for state in statics.values():
        state.close()


def _open(node: StaticState) -> ReadableStore:
    # Opened without a log and a home, because a reader takes no lease and publishes nothing.
    shape, identity = shape_of(node), StateIdentity(node.writer or "", node.state.name, "")
    store = node.state.factory.open(identity, shape, NoHome())
    # A state of given entries or of a user's object has no batches, so there is no txid as of which to read it.
    if node.writer is None:
        return store
    try:
        bind_reads(store, _written(node, store, shape))
    except BaseException:
        store.close()
        raise
    kind = node.state.factory.kind
    shared = isinstance(store, Readable) and kind is not StateKind.NON_TRANSACTIONAL
    return SharedForeignState(store, kind) if shared else ForeignState(store, kind)


def _written(node: StaticState, store: Store, shape: StateShape) -> Incarnation | None:
    """Return the incarnation of the state that is stored; None if the store does not have it.

    Raises StateError if the state's topology has not written it yet, or wrote it with another shape or kind.
    """
    report = store.report()
    if report.identity is None:
        raise StateError(
            f"{node.step} ({node.site.location}): topology {node.writer!r} has no state {node.state.name!r} in "
            f"{node.state.factory!r} yet; first start the topology that writes it, or correct the names"
        )
    # Compared without the aggregator, which the reader does not know, because only the state's writer combines values.
    held, declared = ((text or "").rpartition(" by ")[0] for text in (report.fingerprint, shape.fingerprint))
    if held != declared:
        shown = shown_shapes(f"{held} by put", f"{declared} by put")  # a fingerprint needs an aggregator
        held, declared = (text.removesuffix(" by put") for text in shown)
        raise StateShapeError(
            f"{node.step} ({node.site.location}): state {node.state.name!r} of topology {node.writer!r} holds {held} "
            f"but is declared as {declared}; correct keyFields and valueType, here "
            f"({', '.join(f'{f.name} {type_name(f.type)}' for f in shape.keys)}) and {type_name(shape.value)}"
        )
    if report.kind is not None and report.kind is not node.state.factory.kind:
        raise StateShapeError(
            f"{node.step} ({node.site.location}): state {node.state.name!r} of topology {node.writer!r} is "
            f"{report.kind.value} but is declared as {node.state.factory.kind.value}"
        )
    return report.incarnation


class ForeignState:
    """A state of another topology. Every read is as of the last batch that all groups of its store hold."""

    def __init__(self, store: Store, kind: StateKind) -> None:
        self._store = store
        self._kind = kind

    def read(self, keys: pa.Table, asOf: int | None = None) -> Found:
        """Return committed values.

        `asOf` is a txid of the reader's topology, which has no meaning for this state, and is ignored.
        """
        return self._as_of(lambda txid: self._store.read(keys, txid))

    def read_few(self, keys: Sequence[Key], asOf: int | None = None) -> FewFound | None:
        """Return committed values of a few keys; see `read`."""
        return self._as_of(lambda txid: read_few(self._store, keys, txid))

    def scan(self, asOf: int | None = None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        """Return all entries as of one txid. Raises SnapshotMovedError if the writer commits too quickly for that."""
        # All pages are read before the first is yielded, because a scan that begins again with a newer txid cannot take
        # back yielded pages.
        yield from self._as_of(lambda txid: list(self._store.scan(txid, pageRows)))

    def has_order(self) -> bool:
        return has_order(self._store)

    def read_ranges(
        self, ranges: Sequence[KeyRange], most: int | None, asOf: int | None = None
    ) -> list[pa.Table] | None:
        """Return the entries of each range, all as of one txid; None, without a read, if the store must be scanned."""
        return self._as_of(lambda txid: read_ranges(self._store, ranges, most, txid))

    def close(self) -> None:
        self._store.close()

    def _as_of(self, read: Callable[[int | None], _T]) -> _T:
        if self._kind is StateKind.NON_TRANSACTIONAL:
            return read(None)
        for _ in range(_TRIES):
            try:
                return read(self._committed())
            except SnapshotMovedError:  # the writer has committed two batches meanwhile, and no gate here holds it back
                continue
        # The caller gets the error of the last attempt. A commit turn treats it as temporary, and tries again
        # (tests/reads/test_static_states.py).
        return read(self._committed())

    def _committed(self) -> int:
        markers = [group.marker for group in self._store.groups_of()]
        if any(marker is None for marker in markers):
            raise StateRecoveringError(
                "a part of another topology's state is missing. The driver of that topology restores it from its "
                "log, unless the state was dropped"
            )
        # The groups of a store are written one by one. A batch that only some of them hold is not committed yet.
        return min(marker for marker in markers if marker is not None)


class SharedForeignState(ForeignState):
    """A state of another topology that processes other than this driver can read, too."""

    def open_snapshot(self, asOf: int, time: float | None = None) -> SharedSnapshot:
        """Return the state as of its last committed batch, for other processes to read; `asOf` is ignored.

        Raises StateRecoveringError if a part of the state is missing.
        """

        def opened(txid: int | None) -> SharedSnapshot:
            assert isinstance(self._store, Readable) and txid is not None
            return self._store.open_snapshot(txid)

        return self._as_of(opened)
