"""The shared parts of the store contract's tests: storages for states, leases, shapes and keys."""

import os
import signal
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

from trident.base.attempt import Lease
from trident.base.errors import FencedError, SnapshotMovedError, TridentError
from trident.base.value_conversion import to_python
from trident.files.disk import DiskFiles
from trident_state.state_shape import Combine, StateIdentity, StateKind, StateShape
from trident_state.store import FewReadable, StateFactory, Store, count_entries
from trident_state.store_messages import Applied, Found, Update

FIRST = Lease(1, "first")
SECOND = Lease(2, "second")

KINDS = tuple(StateKind)
VERSIONED = (StateKind.TRANSACTIONAL, StateKind.OPAQUE)

COUNT = Combine("Count", lambda stored, delta: stored + delta, "sum")
LAST = Combine("Last", lambda stored, delta: delta)
JOIN = Combine("Join", lambda stored, delta: stored + delta)

KEYS = {
    "one": pa.schema({"word": pa.string()}),
    "compound": pa.schema({"user": pa.int64(), "day": pa.date32(), "tag": pa.string()}),
    "global": pa.schema({}),
}

_CHILD_SECONDS = 30
"""The seconds after which a forked child is ended."""


class Storage(Protocol):
    """The storage of the states of one kind of store. It is empty when a test begins."""

    def open(self, identity: StateIdentity, shape: StateShape, kind: StateKind) -> Store:
        """Open a store for a state, as a driver does at its start. A second call means a restart."""
        ...

    def secure(self, store: Store) -> None:
        """Make the store's content survive a restart. There is nothing to do if every commit is durable."""
        ...


@dataclass
class FileHome:
    """A `Home` for a memory state without a log. The manifest is a file beside `folder`, replaced in one step."""

    folder: Path | None
    holder: Lease | None = None
    """The lease in force. `publish` refuses every other lease; if this is None, it accepts every lease."""
    published: list[bytes] = field(default_factory=list)

    @property
    def files(self) -> DiskFiles | None:
        """The store of the state's files; None without a folder."""
        return None if self.folder is None else DiskFiles(self.folder, private=True)

    def manifest(self) -> bytes | None:
        """Return the manifest that was published last; None if no manifest was published."""
        file = self._file()
        return file.read_bytes() if file.exists() else None

    def publish(self, manifest: bytes, lease: Lease) -> None:
        """Make this manifest the valid one. Raises FencedError if `lease` is not in force."""
        if self.holder is not None and self.holder != lease:
            raise FencedError(f"the log belongs to epoch {self.holder.epoch}")
        file = self._file()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".new").write_bytes(manifest)
        file.with_suffix(".new").rename(file)
        self.published.append(manifest)

    def _file(self) -> Path:
        assert self.folder is not None, "a run without a checkpoint has no manifest either"
        return self.folder.parent / f"{self.folder.name}.manifest"


@dataclass
class FactoryStorage:
    """A storage for stores with durable commits. `factory` returns the state factory for a kind of state.

    A store that takes snapshots needs a special storage class, with a `secure` that takes a snapshot.
    """

    factory: Callable[[StateKind], StateFactory]
    folder: Path
    """The checkpoint for states that need one."""
    opened: list[Store] = field(default_factory=list)

    def open(self, identity: StateIdentity, shape: StateShape, kind: StateKind) -> Store:
        """Return a store that the factory for this kind of state opened."""
        home = FileHome(self.folder / identity.topology / identity.name)
        store = self.factory(kind).open(identity, shape, home)
        self.opened.append(store)
        return store

    def secure(self, store: Store) -> None:
        """Do nothing: every commit is durable already."""

    def close(self) -> None:
        """Close every store that was opened."""
        for store in self.opened:
            store.close()


@dataclass(frozen=True)
class Setting:
    """One state in a storage: its kind, keys, values and combiner."""

    storage: Storage
    kind: StateKind = StateKind.OPAQUE
    keys: pa.Schema = KEYS["one"]
    value: pa.DataType = pa.int64()
    combine: Combine = COUNT
    identity: StateIdentity = StateIdentity("wordcount", "counts", "log-1")

    @property
    def shape(self) -> StateShape:
        return StateShape(self.keys, self.value, self.combine)

    def open(self) -> Store:
        return self.storage.open(self.identity, self.shape, self.kind)

    def named(self, name: str) -> "Setting":
        return replace(self, identity=replace(self.identity, name=name))

    def started(self, birth: int = 0, lease: Lease = FIRST) -> Store:
        """Return a new store, with a state that was created and acquired under `lease`."""
        store = self.open()
        store.report()
        store.create(lease, birth)
        store.acquire(lease)
        return store

    def key_table(self, numbers: Sequence[int]) -> pa.Table:
        """Return a table with one key for each number. In compound keys, each number divisible by 3 becomes a null."""
        if not self.keys.names:
            return pa.table({"": pa.nulls(len(numbers))}).select([])
        if len(self.keys) == 1:
            return pa.table([pa.array([f"w{n}" for n in numbers], pa.string())], schema=self.keys)
        columns = [
            pa.array(list(numbers), pa.int64()),
            pa.array([n % 7 for n in numbers], pa.int32()).cast(pa.date32()),
            pa.array([None if n % 3 == 0 else f"t{n % 5}" for n in numbers], pa.string()),
        ]
        return pa.table(columns, schema=self.keys)

    def update(self, txid: int, deltas: dict[int, Any]) -> Update:
        return Update(txid, self.key_table(list(deltas)), pa.array(list(deltas.values()), self.value))

    def apply(
        self, store: Store, txid: int, deltas: dict[int, Any], values: bool = False, lease: Lease = FIRST
    ) -> Applied:
        return store.apply(lease, self.update(txid, deltas), values)

    def answers(self, store: Store, txid: int, deltas: dict[int, Any], lease: Lease = FIRST) -> list[Any]:
        """Apply a batch. Return the values of its keys after that."""
        applied = self.apply(store, txid, deltas, True, lease)
        assert applied.values is not None
        return list(applied.values.to_pylist())

    def read(self, store: Store, numbers: Sequence[int], as_of: int | None) -> list[Any]:
        keys = self.key_table(numbers)
        found = read_alike(store, keys, as_of)
        assert found.values.type == self.value
        return list(found.values.to_pylist())


def in_children(work: Callable[[], str], meanwhile: Callable[[], str], count: int = 3) -> list[str]:
    """Return the results of `work` in forked children, and of the last call of `meanwhile`.

    A thread of this process calls `meanwhile` again and again as long as the children work. A result is "refused" if
    the work raises an error that says that the process was forked.
    """
    over, last = threading.Event(), [""]

    def read() -> None:
        while not over.is_set() and last[0] in ("", "right"):
            last[0] = meanwhile()

    reading = threading.Thread(target=read)
    reading.start()
    try:
        results = list(map(_result, [_forked(work) for _ in range(count)]))
    finally:
        over.set()
        reading.join()
    return [*results, last[0]]


def _forked(work: Callable[[], str]) -> tuple[int, int]:
    """Begin the work in a child. Return its process, and the pipe for its result."""
    source, sink = os.pipe()
    with warnings.catch_warnings():
        # Return the result of `read`. If the store has `read_few`, fail if that returns other values for a
        # few keys.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        os.close(sink)
        return child, source
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_CHILD_SECONDS)
        os.write(sink, work().encode())
    except TridentError as error:
        os.write(sink, b"refused" if "forked" in str(error) else repr(error).encode())
    except BaseException as error:
        os.write(sink, repr(error).encode())
    finally:
        os._exit(0)


def _result(end: tuple[int, int]) -> str:
    child, source = end
    with os.fdopen(source) as pipe:
        result = pipe.read()
    _, status = os.waitpid(child, 0)
    return result or f"ended with {status}"


def read_alike(store: Store, keys: pa.Table, as_of: int | None) -> Found:
    """Return the result of `read`. Fails if the store has `read_few`, and it returns other values for a few keys."""
    keys_few = _tuples(keys)[:_FEW]
    try:
        found = store.read(keys, as_of)
    except SnapshotMovedError:
        # With more keys, the others may be those that moved, in another group of buckets.
        if isinstance(store, FewReadable) and 0 < len(keys) <= _FEW:
            with pytest.raises(SnapshotMovedError):
                store.read_few(keys_few, as_of)
        raise
    few = store.read_few(keys_few, as_of) if isinstance(store, FewReadable) else None
    if few is not None:
        assert repr(few.values) == repr(to_python(found.values.slice(0, len(keys_few))))
        assert as_of is None or few.asOf == found.asOf
    return found


_FEW = 64


def _tuples(keys: pa.Table) -> list[tuple[Any, ...]]:
    if not keys.num_columns:
        return [()] * keys.num_rows
    return list(zip(*map(to_python, keys.columns), strict=True))


def marker(store: Store) -> int | None:
    """Return the marker of all groups of the store. Fails if the groups have different markers."""
    markers = {group.marker for group in store.groups_of()}
    assert len(markers) == 1, f"the groups are at {markers}"
    return markers.pop()


def opened(store: Store) -> set[int | None]:
    return {group.opened for group in store.groups_of()}


def entries(store: Store, as_of: int | None, page_rows: int = 10_000) -> dict[Any, Any]:
    """Return the values of a scan, by key. Fails if the scan returns a key twice."""
    entries: dict[Any, Any] = {}
    for page in store.scan(as_of, page_rows):
        assert 0 < page.num_rows <= page_rows
        *keys, value = (column.to_pylist() for column in page.columns)
        for row, each in enumerate(value):
            key = tuple(column[row] for column in keys)
            assert key not in entries, f"{key} comes twice"
            entries[key] = each
    if as_of is not None and (count := count_entries(store, as_of)) is not None:
        assert count == sum(each is not None for each in entries.values())
    return entries


every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
every_versioned_kind = pytest.mark.parametrize("kind", VERSIONED, ids=lambda kind: kind.value)
