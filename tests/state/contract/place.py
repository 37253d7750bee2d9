"""What the contract's tests stand on: a place where states can be, leases, shapes, keys."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
import pytest

from trident.base.attempt import Lease
from trident_state.messages import Applied, Update
from trident_state.state_shape import Combine, StateIdentity, StateKind, StateShape
from trident_state.store import Store

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


class Place(Protocol):
    """Where states of one kind of store can be; empty when a test begins."""

    def open(self, identity: StateIdentity, shape: StateShape, kind: StateKind) -> Store:
        """A store over what is there, as a driver that starts would open it. Called again: as after a restart."""
        ...

    def secure(self, store: Store) -> None:
        """Make what the store holds survive a restart (nothing to do where every commit is durable)."""
        ...


@dataclass(frozen=True)
class Setting:
    """One state in a place, and how the tests speak of it."""

    place: Place
    kind: StateKind = StateKind.OPAQUE
    keys: pa.Schema = KEYS["one"]
    value: pa.DataType = pa.int64()
    combine: Combine = COUNT
    identity: StateIdentity = StateIdentity("wordcount", "counts", "log-1")

    @property
    def shape(self) -> StateShape:
        return StateShape(self.keys, self.value, self.combine)

    def open(self) -> Store:
        return self.place.open(self.identity, self.shape, self.kind)

    def named(self, name: str) -> "Setting":
        return replace(self, identity=replace(self.identity, name=name))

    def started(self, birth: int = 0, lease: Lease = FIRST) -> Store:
        """A new state, created and acquired."""
        store = self.open()
        store.report()
        store.create(lease, birth)
        store.acquire(lease)
        return store

    def key_table(self, numbers: Sequence[int]) -> pa.Table:
        """A key for each number; every third one of a compound key has a null in it."""
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

    def read(self, store: Store, numbers: Sequence[int], as_of: int | None) -> list[Any]:
        found = store.read(self.key_table(numbers), as_of)
        assert found.values.type == self.value
        return list(found.values.to_pylist())


def marker(store: Store) -> int | None:
    """Where all groups of the store stand."""
    markers = {group.marker for group in store.groups_of()}
    assert len(markers) == 1, f"the groups stand at {markers}"
    return markers.pop()


def opened(store: Store) -> set[int | None]:
    return {group.opened for group in store.groups_of()}


def entries(store: Store, as_of: int | None, page_rows: int = 10_000) -> dict[Any, Any]:
    """All that a scan gives, by key; each key once."""
    found: dict[Any, Any] = {}
    for page in store.scan(as_of, page_rows):
        assert 0 < page.num_rows <= page_rows
        *keys, value = (column.to_pylist() for column in page.columns)
        for row, given in enumerate(value):
            key = tuple(column[row] for column in keys)
            assert key not in found, f"{key} comes twice"
            found[key] = given
    return found


every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
every_versioned_kind = pytest.mark.parametrize("kind", VERSIONED, ids=lambda kind: kind.value)
