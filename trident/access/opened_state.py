"""A state that was opened by its name: the reading verbs of a running topology's, from outside of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from trident.base.errors import SnapshotMovedError, StateClosedError, StateError, StateRecoveringError
from trident.reads.committed_reads import FREE_ROWS
from trident.reads.state_view import Described, StateView
from trident.reads.static_states import Readable
from trident_state.store import StateKind, Store

_T = TypeVar("_T")


class Followed(Readable, Protocol):
    """A state that somebody else may be writing meanwhile."""

    def committed(self) -> int:
        """The last batch that all of it holds. Never goes back."""
        ...


@runtime_checkable
class Paged(Protocol):
    """A store that can tell of each page as of which txid it is, for readers who cannot hold commits back."""

    def scan_by_page(self, pageRows: int = FREE_ROWS) -> Iterator[tuple[int, pa.Table]]:
        """All entries: (txid, the key fields and then the value), each page as its groups had committed it then."""
        ...


class FollowedStore:
    """A store on a server, of which the markers tell how far its driver is."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name, self._last = store, name, -1
        self.read, self.scan, self.close = store.read, store.scan, store.close

    def committed(self) -> int:
        markers = [group.marker for group in self._store.groups_of()]
        there = [marker for marker in markers if marker is not None]
        if len(there) < len(markers) or min(there) < self._last:
            found = "a part of it is gone" if len(there) < len(markers) else f"it stands at txid {min(there)}"
            raise StateRecoveringError(
                f"state {self._name!r}: {found}, and was read as of {self._last} before: its server lost its last "
                f"commits, which its driver writes again when it runs"
                if self._last >= 0
                else f"state {self._name!r}: {found}: its driver heals it when it runs"
            )
        self._last = min(there)
        return self._last

    @property
    def paged(self) -> Paged | None:
        """The store, if it tells of each page as of which txid it is."""
        return self._store if isinstance(self._store, Paged) else None


class _Commits:
    """The `Commits` of a state that stands alone, and whose driver is somewhere else."""

    def __init__(self, followed: Followed, kind: StateKind, name: str) -> None:
        self._followed, self._kind, self._name = followed, kind, name
        self.closed = False

    def group_of(self, state: str) -> str:
        return state

    def committed(self, group: str) -> int:
        return self._followed.committed()

    @contextmanager
    def between(self, group: str) -> Iterator[int]:
        """Nothing can be held back from here."""
        yield self._followed.committed()

    def store(self, state: str) -> Readable:
        return self._followed

    def kind(self, state: str) -> StateKind:
        return self._kind

    def check(self) -> None:
        if self.closed:
            raise StateClosedError(f"state {self._name!r} was closed; open it again")


class OpenedState(StateView):
    """Reads a state by its name, while its topology is stopped or runs elsewhere; made by `openState`.

    Every read is committed and as of the newest txid that the state has then. A key's value costs two round trips to a
    server. `items`, `toArrow` and `toPandas` of a state in Redis go page by page while it is written: each page is as
    of one txid, ``asOfTxid`` is the first of them and ``toTxid`` the last. Everywhere else they are as of one. Nothing
    is ever written, and no driver is held back. A context manager; thread-safe but for `close`.
    """

    def __init__(self, topology: str, followed: Followed, state: Described, isolation: str = "committed") -> None:
        self.topology = topology
        """The name of the topology that writes it."""
        self._followed = followed
        self._outside = _Commits(followed, state.kind, state.name)
        super().__init__(self._outside, state, isolation)

    @property
    def keyFields(self) -> pa.Schema:
        """The key fields and their Arrow types; none of a global state."""
        return self._shape.keys

    def close(self) -> None:
        """Let its connections and files go. What was read stays."""
        if not self._outside.closed:
            self._outside.closed = True
            self._followed.close()

    def __enter__(self) -> "OpenedState":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._outside.closed:
            return f"OpenedState({self.topology + '/' + self.name!r}, closed)"
        try:
            as_of = self._as_of()
        except StateError as error:
            as_of = f", {error}"
        return f"OpenedState({self.topology + '/' + self.name!r}, {self.kind.value}, {self._shown_shape()}{as_of})"

    def _values(self, read: Callable[..., pa.Array]) -> list[Any]:
        return self._outrun(lambda: super(OpenedState, self)._values(read))

    def _table(self, limit: int | None) -> tuple[pa.Table, dict[str, int]]:
        self._check_limit(limit)
        paged = self._followed.paged if isinstance(self._followed, FollowedStore) else None
        if paged is None or self.isolation == "latest":
            return self._outrun(lambda: super(OpenedState, self)._table(limit))
        self._outside.check()
        began, txids = self._followed.committed(), list[int]()

        def pages() -> Iterator[pa.Table]:
            for txid, page in paged.scan_by_page():
                txids.append(txid)
                yield page

        table = self._outrun(lambda: self._collected(pages(), limit))
        first, last = min(txids, default=began), max(txids, default=began)
        return table, {"asOfTxid": first} if first == last else {"asOfTxid": first, "toTxid": last}

    def _outrun(self, read: Callable[[], _T]) -> _T:
        """A read of one moment; its writer may be too quick for it."""
        try:
            return read()
        except SnapshotMovedError as error:
            raise SnapshotMovedError(
                f"state {self.name!r} of topology {self.topology!r}: it was written faster than it could be read as "
                f"of one txid, and from outside no driver is held back. Ask for fewer keys at once, ask the running "
                f"topology, or read with isolation='latest'"
            ) from error
