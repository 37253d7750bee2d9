"""Map logics over a plain map of bytes, whose batches may break off: what Trident's cases about states speak of."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.state.backing.maps import LeastMap, Meddled
from trident.base.attempt import Lease
from trident.base.errors import StateUnavailableError
from trident.base.spark_types import arrow_schema, arrow_type, parse_schema, parse_type
from trident.base.value_conversion import type_name
from trident_state.backing import BackingMapState, BackingStore
from trident_state.backing.meta import read_meta
from trident_state.backing.protocol import META
from trident_state.keys import decode_keys, encode_keys
from trident_state.records.forms import records_of
from trident_state.state_shape import Combine, StateIdentity, StateKind, StateShape, replacing
from trident_state.store_messages import Applied, Update

SUM = Combine("Sum", lambda stored, delta: stored + delta, "sum")
PUT = replacing()
KEYS = pa.schema({"k": pa.string()})
LEASE = Lease(1, "mine")

NOTHING_WRITTEN = {1: "before its first write"}
WRITTEN = {3: "before its end"}
"""A batch over a plain map is three writes: that it is open, its keys, that it is done."""


def record(stored: bytes | None, kind: StateKind, value: pa.DataType) -> dict[str, Any] | None:
    """What stands under a key, in the cases' words; None where nothing does."""
    if stored is None:
        return None
    bare = kind is StateKind.NON_TRANSACTIONAL
    found = records_of(value, "packed", bare).unpack(pa.array([stored], pa.binary()))
    given = {"value": found.values[0].as_py()}
    if bare:
        return given
    given = {"txid": int(found.txids[0]), **given}
    return given if kind is StateKind.TRANSACTIONAL else {**given, "prev": found.prevs[0].as_py()}


class MapAtHand:
    """A state of one kind over a plain map, to which a test applies batches as it likes."""

    def __init__(self, kind: StateKind, value: pa.DataType | None = None, before: int = 0) -> None:
        """`before`: the txid before the first one."""
        self.kind = kind
        self.value = pa.int64() if value is None else value
        self.entries: dict[bytes, bytes] = {}
        store = self.store()
        store.create(LEASE, before)
        store.acquire(LEASE)

    def store(self, combine: Combine = SUM, breaks: Mapping[int, str] = {}) -> BackingStore:  # noqa: B006
        """The state as one finds it. `breaks`: the writes that do not happen any more."""

        def before(write: int) -> None:
            if write in breaks:
                raise ConnectionResetError(breaks[write])

        shape = StateShape(KEYS, self.value, combine)
        identity = StateIdentity("conformance", "sums", "log")
        return BackingStore(identity, shape, self.kind, lambda: Meddled(LeastMap(self.entries), before))

    def update(self, txid: int, batch: Mapping[str, Any], combine: Combine = SUM) -> Applied:
        """Apply a batch; its keys' values after it."""
        return self.store(combine).apply(LEASE, self._of(txid, batch), values=True)

    def values(self, txid: int, batch: Mapping[str, Any], combine: Combine = SUM) -> dict[str, Any]:
        found = self.update(txid, batch, combine).values
        assert found is not None
        return dict(zip(batch, found.to_pylist(), strict=True))

    def broken_off(self, txid: int, batch: Mapping[str, Any], at: Mapping[int, str] = WRITTEN) -> None:
        """Apply a batch, all keys of which are written, and which does not come to its end; or stops earlier."""
        with pytest.raises(StateUnavailableError):
            self.store(breaks=at).apply(LEASE, self._of(txid, batch))

    def put_off(self, txid: int, batch: Mapping[str, Any]) -> None:
        """The same with values that replace what is there."""
        with pytest.raises(StateUnavailableError):
            self.store(PUT, WRITTEN).apply(LEASE, self._of(txid, batch))

    def untouched(self, *txids: int) -> None:
        """Batches that bring nothing for this state."""
        for txid in txids:
            self.update(txid, {})

    def records(self) -> dict[Any, Any]:
        """What stands under every key."""
        return _records(self.entries, self.kind, "k string", type_name(self.value))

    def stored(self, key: str) -> dict[str, Any] | None:
        """What stands under a key."""
        return record(self.entries.get(self._key(key)), self.kind, self.value)

    def read(self, key: str, asOf: int | None = None) -> Any:
        table = pa.table([pa.array([key], pa.string())], schema=KEYS)
        return self.store().read(table, asOf).values[0].as_py()

    def _of(self, txid: int, batch: Mapping[str, Any]) -> Update:
        keys = pa.table([pa.array(list(batch), pa.string())], schema=KEYS)
        return Update(txid, keys, pa.array(list(batch.values()), self.value))

    def rewound(self, meta: bytes) -> None:
        """Have the map's meta entry as it was."""
        self.entries[META] = meta

    def _key(self, key: str) -> bytes:
        encoded: bytes = encode_keys(pa.table([pa.array([key], pa.string())], schema=KEYS))[0].as_py()
        return encoded


class Fragile:
    """The home of a topology's state: a plain map that loses its connection in one batch.

    A batch of it is written in pieces of `most` keys, then comes its end: write number `at` is not done. All before it
    is done; whoever writes does not know how far it came, and asks again.
    """

    def __init__(self, kind: StateKind, txid: int = 2, at: int = 2, times: int = 1, most: int = 10_000) -> None:
        self.kind, self.txid, self.at, self.times, self.most = kind, txid, at, times, most
        self.entries: dict[bytes, bytes] = {}
        self.broken: dict[bytes, bytes] | None = None
        """What it held when it broke."""
        self._writes = 0

    @property
    def state(self) -> BackingMapState:
        return BackingMapState(self.kind, lambda identity: self, most=self.most)

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        return [self.entries.get(key) for key in keys]

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        now = read_meta(self.entries.get(META), "here")
        if self.times and now is not None and now.open == self.txid:
            self._writes += 1
            if self._writes == self.at:
                self.times, self._writes, self.broken = self.times - 1, 0, dict(self.entries)
                raise ConnectionResetError("the connection is gone")
        self.entries.update(zip(keys, values, strict=True))

    def keys(self) -> list[bytes]:
        return list(self.entries)

    def multiRemove(self, keys: list[bytes]) -> None:
        for key in keys:
            self.entries.pop(key, None)

    def records(self, keys: str, value: str) -> dict[Any, Any]:
        """What stands under every key."""
        return _records(self.entries, self.kind, keys, value)

    def records_when_broken(self, keys: str, value: str) -> dict[Any, Any]:
        """What stood there when the connection went."""
        assert self.broken is not None, "nothing happened to it"
        return _records(self.broken, self.kind, keys, value)


def _records(entries: Mapping[bytes, bytes], kind: StateKind, keys: str, value: str) -> dict[Any, Any]:
    encoded = [key for key in entries if key != META]
    rows = decode_keys(pa.array(encoded, pa.binary()), arrow_schema(parse_schema(keys))).to_pylist()
    there = [record(entries[key], kind, arrow_type(parse_type(value))) for key in encoded]
    return {tuple(row.values()): each for row, each in zip(rows, there, strict=True)}


def totals(rows: Sequence[Sequence[Any]]) -> dict[str, int]:
    """The sum of n by k."""
    found: Counter[str] = Counter()
    for k, n in rows:
        found[k] += n
    return dict(found)


def of_records(records: list[dict[str, Any]]) -> dict[Any, Any]:
    """A case's records by their keys."""
    return {tuple(each["key"]): {name: each[name] for name in each if name != "key"} for each in records}
