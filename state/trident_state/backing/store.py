"""BackingStore: the store of a state in a user's map."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.attempt import Lease
from trident.base.errors import (
    SnapshotMovedError,
    StateBehindError,
    StateClosedError,
    StateCorruptError,
    StateOwnedError,
    StateUnavailableError,
)
from trident_state.backing.calls import MapCalls
from trident_state.backing.map_rules import RULES
from trident_state.backing.meta import Meta, read_meta
from trident_state.backing.protocol import META, BackingMap
from trident_state.binary_arrays import concatenate, in_halves, replace_rows
from trident_state.incarnation import Incarnation
from trident_state.key_order import KeyRange, is_stored_in_order, order_of, stored_range
from trident_state.keys import check_key_types, decode_keys, encode_checked_keys
from trident_state.records.forms import ValueForm, records_of, unpack_records
from trident_state.state_parts import Part
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import read_again
from trident_state.store_messages import Applied, Found, GroupStatus, StoreReport, Update
from trident_state.value_rules import as_of, check_not_beyond, check_reached, combined
from trident_state.write_checks import (
    check_newest,
    check_next_batch,
    check_none_later,
    check_unchanged_option,
    check_update_types,
    duplicate_key_error,
)

_DROP_TRIES = 20
_HASHED_AT_ONCE = 100_000
"""The most attempts at a drop, which starts over if a driver wrote the state between its read and its write."""


_FEWEST_KEYS, _RANGE_KEYS = 64, 10_000
"""The least and the most keys of a range that are read at once. Removed keys have no value, so more may be needed."""


class _Change(NamedTuple):
    """The changes that an update makes to some of its keys: their numbers (`rows`) and their new `records`.

    `values` are the values of all these keys after the update, including the keys that are not written.
    """

    rows: list[int]
    records: list[bytes]
    values: pa.Array


class BackingStore:
    """The store of a BackingMapState (one group). `trident_state.store.Store` documents the promise of each method.

    If the map has a conditional put and a batch has less than `most` keys, an `apply` is one read and one atomic write
    of entries and marker, on the condition that the meta entry has not changed since the read. Otherwise the meta entry
    first records which txid is open, then the entries are written in pieces, and the marker moves last. With a
    conditional put each piece is written only if the meta entry has not changed meanwhile.
    """

    def __init__(
        self,
        identity: StateIdentity,
        shape: StateShape,
        kind: StateKind,
        make: Callable[[], BackingMap],
        form: ValueForm = "packed",
        most: int = 10_000,
    ) -> None:
        check_key_types(shape.keys)
        self._where = f"state {identity.name!r}"
        self._identity, self._shape, self._kind, self._form, self._most = identity, shape, kind, form, most
        self._bare = kind is StateKind.NON_TRANSACTIONAL
        self._records = records_of(shape.value, form, self._bare)
        self._rule = RULES[kind]
        self._calls = MapCalls(make, self._where, most)
        self._writing = threading.RLock()
        self._lease: Lease | None = None
        self._incarnation: Incarnation | None = None
        """For a reader: the incarnation of the state that it opened. Reads of another incarnation raise an error."""
        self._leaving = False

    # --- start -----------------------------------------------------------------------------------------------

    def report(self) -> StoreReport:
        meta = self._meta()
        if meta is not None:
            check_unchanged_option(self._where, "values", meta.values, self._form)
            return meta.report
        if self._calls.listed and self._calls.keys():
            raise StateOwnedError(
                f"{self._where}: its map has entries that belong to no state; nothing was changed. Use a separate "
                f"map for the state, or empty this one if its entries are not needed"
            )
        return StoreReport(None, None, None, (GroupStatus(None, None, None),))

    def create(self, lease: Lease, birth: int) -> None:
        with self._writing:
            meta = self._meta()
            if meta is not None and meta.dropping:
                self.drop(lease)  # the remains of a state whose drop was interrupted
                meta = None
            if meta is None:
                self.report()  # refuses a map with entries that this library did not write
                new = Meta.created(self._identity, self._shape, self._kind, self._form, lease, birth)
                self._put_meta(new, None)
            elif self._check_present(meta).lease != lease:
                check_newest(self._where, meta.lease, lease)
                raise StateOwnedError(f"{self._where} exists already, at txid {meta.marker}: nothing was created")
            self._lease = lease

    @property
    def warnings(self) -> tuple[str, ...]:
        """The map's warnings that the database may lose confirmed writes. A start shows them."""
        return self._calls.warnings()

    def acquire(self, lease: Lease) -> None:
        with self._writing:
            (text,) = self._calls.get([META])
            meta = self._check_present(read_meta(text, self._where))
            check_newest(self._where, meta.lease, lease)
            if meta.dropping:
                raise StateBehindError(
                    f"{self._where}: an earlier drop was interrupted, and parts of the state are missing", -1
                )
            self._put_meta(meta.held_by(lease), text)
            self._lease = lease

    # --- write -----------------------------------------------------------------------------------------------

    def apply(self, lease: Lease, update: Update, values: bool = False) -> Applied:
        keys = self._keys(update)
        with self._writing:
            text, *records = self._calls.get([META, *keys])
            meta = self._check_next_batch(text, lease, update.txid)
            if meta.marker >= update.txid:
                return Applied(read_again(self, update) if values else None, 0, len(keys))
            parts = list(in_halves(partial(self._change, update, meta, records), 0, len(keys)))
            written = [keys[row] for part in parts for row in part.rows]
            self._write(text, meta, update.txid, written, [record for part in parts for record in part.records])
        after = concatenate([part.values for part in parts]) if values else None
        return Applied(after, len(written), len(keys) - len(written))

    def check_keys(self, keys: pa.Table) -> None:
        """Raise StateValueError if the map cannot store a key. A run calls this before it freezes a batch."""
        if self._calls.checks_keys:
            self._calls.check_keys(self._encoded(keys).to_pylist())

    def _change(self, update: Update, meta: Meta, records: list[bytes | None], part: slice) -> _Change:
        """Return the changes that an update makes to its keys in `part`.

        `records` are the stored records of all its keys.
        """
        stored = unpack_records(self._records, records[part], self._where)
        check_none_later(self._where, stored.txids, meta.marker, update.txid)
        effect = self._rule.turn(stored, update.txid)
        rows = np.flatnonzero(effect.rows)
        indices = pa.array(rows)
        base = effect.base.take(indices)
        after = combined(self._shape.combine, base, update.part(part)[1].take(indices), self._where)
        values = replace_rows(stored.values, rows, after)
        new_records = self._records.pack(update.txid, after, base).to_pylist()
        return _Change((part.start + rows).tolist(), new_records, values)

    def _write(self, text: bytes | None, meta: Meta, txid: int, keys: list[bytes], records: list[bytes]) -> None:
        """Write the entries, and move the marker after them, or in one atomic step with them if the map can."""
        done = meta.committed(txid).encoded()
        if self._calls.fenced and len(keys) < self._most:
            self._put([META, *keys], [done, *records], text, meta, txid)
            return
        opened = meta.opened(txid).encoded()
        if keys:
            self._put([META], [opened], text, meta, txid)
        for at in range(0, len(keys), self._most):
            part = slice(at, at + self._most)
            self._put(keys[part], records[part], opened, meta, txid)
        self._put([META], [done], opened if keys else text, meta, txid)

    def _put(self, keys: list[bytes], values: list[bytes], expected: bytes | None, meta: Meta, txid: int) -> None:
        if self._leaving:
            raise StateClosedError(f"{self._where}: the run has ended; the rest of batch {txid} is not written")
        if self._calls.put(keys, values, expected):
            return
        (text,) = self._calls.get([META])
        self._check_next_batch(text, meta.lease, txid)
        raise StateUnavailableError(f"{self._where} was changed while batch {txid} was written; the commit is repeated")

    def _put_meta(self, meta: Meta, expected: bytes | None) -> None:
        if not self._calls.put([META], [meta.encoded()], expected):
            raise StateUnavailableError(
                f"{self._where}: another program changed the state's meta entry at the same time; the call is repeated"
            )

    # --- read ------------------------------------------------------------------------------------------------

    def bind(self, incarnation: Incarnation) -> None:
        """Read only this incarnation of the state from now on; see `trident_state.store.Bindable`."""
        self._incarnation = incarnation

    def groups_of(self) -> tuple[GroupStatus, ...]:
        meta = self._meta()
        if meta is None:
            return (GroupStatus(None, None, None),)
        self._check_incarnation(meta)
        return (meta.status,)

    def durable(self) -> int:
        """Return the marker: the library cannot know how durable the user's store is."""
        meta = self._meta()
        return -1 if meta is None else meta.marker

    def snapshot(self) -> int:
        """Return `durable()` and do nothing else, because the map itself stores all values."""
        return self.durable()

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        encoded = self._encoded(keys).to_pylist()
        marker = self._check_readable(asOf)
        values = self._values(encoded, asOf)
        return Found(values, marker if asOf is None or self._bare else asOf)

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        self._check_readable(asOf)
        yield from self._entries_of(self._calls.keys(), asOf, pageRows)

    def parts(self) -> int:
        """Return 1, because a map cannot count its keys cheaply."""
        return 1

    def scan_part(self, asOf: int | None, part: Part, pageRows: int = 10_000) -> Iterator[pa.Table]:
        """Yield the entries of a part. All keys are read, but only the values of this part."""
        self._check_readable(asOf)
        keys, mine = self._calls.keys(), list[bytes]()
        for at in range(0, len(keys), _HASHED_AT_ONCE):
            some = pa.array(keys[at : at + _HASHED_AT_ONCE], pa.binary())
            mine += some.filter(part.has(some)).to_pylist()
        yield from self._entries_of(mine, asOf, pageRows)

    def _entries_of(self, keys: list[bytes], asOf: int | None, pageRows: int) -> Iterator[pa.Table]:
        for at in range(0, len(keys), pageRows):
            page = self._entries(keys[at : at + pageRows], asOf)
            if page.num_rows:
                yield page

    def _entries(self, keys: list[bytes], asOf: int | None) -> pa.Table:
        """Return the entries of the given keys that have a value as of `asOf`."""
        values = self._values(keys, asOf)
        present = values.is_valid()
        decoded = self._decoded(pa.array(keys, pa.binary()).filter(present))
        return decoded.append_column("value", values.filter(present))

    def _decoded(self, encoded: pa.Array) -> pa.Table:
        try:
            return decode_keys(encoded, self._shape.keys)
        except StateCorruptError as error:
            raise StateCorruptError(f"{self._where}: {error}") from error

    def has_order(self) -> bool:
        """Return whether the map can list the keys of a range in order: those of one text, binary or boolean field."""
        return is_stored_in_order(self._shape.keys) and self._calls.is_sorted

    def read_ranges(self, ranges: Sequence[KeyRange], most: int | None, asOf: int | None) -> list[pa.Table]:
        self._check_readable(asOf)
        at_once = _RANGE_KEYS if most is None else min(max(most, _FEWEST_KEYS), _RANGE_KEYS)
        if self.has_order():
            keys = [self._keys_between(between, at_once) for between in ranges]
        else:
            listed = self._all_in_order()
            keys = [self._listed(listed, between, at_once) for between in ranges]
        tables = [self._first_entries(pages, most, asOf) for pages in keys]
        self._check_readable(asOf)  # a range without a key reads no record
        return tables

    def _first_entries(self, pages: Iterable[list[bytes]], most: int | None, asOf: int | None) -> pa.Table:
        tables, rows = [self._shape.entries.empty_table()], 0
        for keys in pages:
            tables.append(self._entries(keys, asOf))
            rows += tables[-1].num_rows
            if most is not None and rows >= most:
                break
        table = pa.concat_tables(tables)
        return table if most is None else table.slice(0, most)

    def _keys_between(self, between: KeyRange, size: int) -> Iterator[list[bytes]]:
        """Yield the keys of a range in their order, at most `size` at once, as the map lists them."""
        low, high = stored_range(between, self._shape.keys.field(0).type)
        while keys := self._calls.keys_between(low, high, size):
            yield keys
            low = keys[-1] + b"\0"

    def _all_in_order(self) -> tuple[pa.Array, pa.Array]:
        """Return all keys, and the order-preserving bytes of each."""
        keys = pa.array(self._calls.keys(), pa.binary())
        return keys, order_of(self._decoded(keys), len(self._shape.keys))

    def _listed(self, listed: tuple[pa.Array, pa.Array], between: KeyRange, size: int) -> Iterator[list[bytes]]:
        """Yield the keys of a range in their order, at most `size` at once, from all keys. Reads no values."""
        keys, orders = listed
        inside = between.holds(orders)
        found = keys.filter(inside).take(pc.sort_indices(orders.filter(inside))).to_pylist()
        yield from (found[at : at + size] for at in range(0, len(found), size))

    def _values(self, keys: list[bytes], asOf: int | None) -> pa.Array:
        """Return the values of the given keys as of `asOf`.

        The caller has checked that the marker permits the read. This method checks it again after it has read the
        values, because a map cannot be read as of one moment.
        """
        if asOf is None or self._bare:
            *records, text = self._calls.get([*keys, META])
            self._check_incarnation(read_meta(text, self._where))
            return unpack_records(self._records, records, self._where).values
        records = self._calls.get(keys)
        self._check_readable(asOf)
        stored = unpack_records(self._records, records, self._where)
        return as_of(asOf, stored.txids, stored.values, stored.prevs, self._where)

    def _check_readable(self, asOf: int | None) -> int:
        """Return the marker. Raises StateRecoveringError or SnapshotMovedError if `asOf` cannot be read.

        Also raises the error of `Incarnation.check` if this is not the state that a reader opened.
        """
        meta = self._meta()
        self._check_incarnation(meta)
        marker = -1 if meta is None else meta.marker
        if asOf is None:
            return marker
        held, ours = None if meta is None else meta.lease, self._lease
        if ours is not None and held != ours and held is not None and held.epoch >= ours.epoch:
            raise SnapshotMovedError(f"{self._where}: another driver has taken it over (epoch {held.epoch})")
        check_reached(self._where, marker if held == ours or ours is None else None, asOf)
        if not self._bare:
            check_not_beyond(self._where, marker, asOf)
        return marker

    # --- end -------------------------------------------------------------------------------------------------

    def check_drop(self) -> None:
        """Raise StateError if the state cannot be dropped as a whole.

        A reset calls this for all states before it drops a state.
        """
        with self._writing:
            if self._meta() is not None:
                self._calls.check_removable()

    def drop(self, lease: Lease | None = None) -> None:
        with self._writing:
            if not self._begin_drop(lease):
                return
            self._calls.remove(self._calls.keys())
            self._calls.remove([META])
            self._lease = None

    def _begin_drop(self, lease: Lease | None) -> bool:
        """Record in the meta entry that the state is being dropped, and return False if there is no state.

        This comes before the first removal, so that after an interrupted drop no driver mistakes the remaining entries
        for the whole state. If the map has a conditional put, it also prevents a fenced-out driver from putting
        anything between two removals.
        """
        for _ in range(_DROP_TRIES):
            (text,) = self._calls.get([META])
            meta = read_meta(text, self._where)
            if meta is None:
                return False
            self._check_ours(meta)
            if lease is not None:
                check_newest(self._where, meta.lease, lease)
            self._calls.check_removable()  # before the write, so that a state that cannot be dropped does not change
            if self._calls.put([META], [meta.dropped_by(lease).encoded()], text):
                return True
        raise StateUnavailableError(
            f"{self._where}: cannot drop: a driver keeps writing this state; stop that driver first"
        )

    def leave(self) -> None:
        """Refuse further writes to the map. A run calls this at its end if a write has not returned."""
        self._leaving = True

    def close(self) -> None:
        with self._writing:
            self._calls.close()

    # --- checks ----------------------------------------------------------------------------------------------

    def _meta(self) -> Meta | None:
        return read_meta(self._calls.get([META])[0], self._where)

    def _check_incarnation(self, meta: Meta | None) -> None:
        if self._incarnation is not None:
            self._incarnation.check(None if meta is None else meta.incarnation)

    def _check_present(self, meta: Meta | None) -> Meta:
        if meta is None:
            raise StateBehindError(f"{self._where}: its map does not contain this state (any longer)", -1)
        self._check_ours(meta)
        return meta

    def _check_ours(self, meta: Meta) -> None:
        if (meta.topology, meta.state) != (self._identity.topology, self._identity.name):
            raise StateOwnedError(
                f"{self._where}: its map holds state {meta.state!r} of topology {meta.topology!r}; nothing was "
                f"changed. Use a separate map for each state: the function that makes the map gets the state's identity"
            )

    def _check_next_batch(self, text: bytes | None, lease: Lease, txid: int) -> Meta:
        """Return the meta entry in `text`. Raises FencedError or StateBehindError if `lease` must not commit `txid`."""
        meta = self._check_present(read_meta(text, self._where))
        check_next_batch(self._where, meta.lease, meta.marker, lease, txid)
        return meta

    def _keys(self, update: Update) -> list[bytes]:
        """Return the encoded keys of an update. Raises StateValueError for wrong types or if a key occurs twice."""
        check_update_types(self._where, self._shape, update)
        parts = in_halves(lambda part: self._encoded(update.part(part)[0]).to_pylist(), 0, len(update.deltas))
        keys = [key for part in parts for key in part]
        if len(set(keys)) != len(keys):
            raise duplicate_key_error(self._where, update.txid)
        return keys

    def _encoded(self, keys: pa.Table) -> pa.Array:
        return encode_checked_keys(self._where, self._shape.keys, keys)
