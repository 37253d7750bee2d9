"""A state in the driver's memory, durable by snapshots under the run's checkpoint."""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.clock import Clock, SystemClock
from trident.base.errors import FencedError, StateFullError, StateOwnedError
from trident_state.binary import in_halves, replaced, together
from trident_state.checks import (
    check_fitting,
    check_named_once,
    check_newest,
    check_none_later,
    check_not_beyond,
    check_reached,
    check_turn,
    encoded_keys,
)
from trident_state.expiry import Expiry, kept
from trident_state.keys import decode_keys, hash_keys
from trident_state.memory.entries import Entries
from trident_state.memory.key_index import Hashes
from trident_state.memory.snapshots import Cut, Snapshots
from trident_state.memory.triples import Triples
from trident_state.memory.value_columns import Cells, Slots
from trident_state.rules import as_of, combined
from trident_state.store import (
    Applied,
    Found,
    GroupStatus,
    Home,
    StateIdentity,
    StateKind,
    StateShape,
    StoreReport,
    Update,
    read_again,
)

_log = logging.getLogger("trident.state")

_CHUNK = 32_768
"""Entries written under one hold of the readers' lock, so that a reader waits well under a millisecond."""

_FROM = 4096
"""Entries below which those that nobody can see any more are left where they are."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When a snapshot is due: so many bytes of entries were written since the last one, or so many seconds passed."""

    bytes: int = 64 * 2**20
    seconds: float = 30.0


class _Change(msgspec.Struct, frozen=True):
    """What an update, or a part of it, comes to before anything is written: the entries to write, and all values after
    it."""

    encoded: pa.Array
    hashes: Hashes
    slots: Slots
    before: Triples
    after: Triples
    values: pa.Array


class MemoryStore:
    """The store of a MemoryMapState (one group). See `trident_state.store.Store` for what each method promises.

    **Durability.** The run's log keeps every frozen batch that is newer than `durable()`. A snapshot moves that txid
    on: a copy of the entries changed since the last one is taken between two commits (a few milliseconds for
    100,000 keys), then written, fsynced and published by a thread of its own. It starts by itself, at the end of an
    `apply` or in `groups_of`, as soon as `pace` says so; `snapshot` takes one at once; `close` takes a last one, so
    that the next start has nothing to apply again. One that fails is logged, tried again `pace.seconds` later, and
    loses nothing.
    Without a folder nothing survives, and nothing is kept for it.

    **What is forgotten.** A time to live (`ttl`, seconds) moves a cutoff in the commit: what was last changed at or
    before that txid is nothing from then on (`trident_state.expiry`). Its room is taken back when the state has grown
    by half since it was last looked for, so that a batch pays for its own keys only.

    **Locks.** The writer's lock is held through an `apply` and while a cut is copied. Readers take another one,
    for as long as a copy of the entries they ask for takes; an `apply` holds it for one chunk of entries at a time:
    between two chunks each entry is either before or after the batch, and the triple tells which.
    """

    def __init__(
        self,
        identity: StateIdentity,
        shape: StateShape,
        kind: StateKind,
        home: Home,
        maxBytes: int | None = None,
        pace: Pace | None = None,
        clock: Clock | None = None,
        aside: Callable[[str, Callable[[], None]], None] | None = None,
        ttl: float | None = None,
    ) -> None:
        self._where = f"state {identity.name!r}"
        self._identity, self._shape, self._kind = identity, shape, kind
        self._ttl, self._expiry = ttl, Expiry()
        self._look_at = _FROM
        """From so many entries on, those that nobody can see any more are looked for."""
        self._max_bytes, self._pace, self._aside = maxBytes, pace or Pace(), aside or _in_a_thread
        self._snapshots = Snapshots(home, identity, shape, kind, clock or SystemClock(), self._where, ttl)
        self._writing = threading.RLock()
        self._triples = threading.Lock()
        self._entries: Entries | None = None
        self._lease: Lease | None = None
        self._marker: int | None = None
        self._opened: int | None = None
        self._unsaved = 0
        self._fenced: FencedError | None = None
        self._snapshotting = threading.Lock()

    # --- start -----------------------------------------------------------------------------------------------

    def report(self) -> StoreReport:
        with self._writing:
            if self._entries is None:
                self._snapshots.refresh()
            manifest = self._snapshots.manifest
            if self._entries is None and manifest is not None:
                found = GroupStatus(manifest.lease, manifest.txid, None)
                return StoreReport(manifest.identity, manifest.fingerprint, manifest.kind, (found,))
            if self._marker is None:
                return StoreReport(None, None, None, self.groups_of())
            return StoreReport(self._identity, self._shape.fingerprint, self._kind, self.groups_of())

    def create(self, lease: Lease, birth: int) -> None:
        with self._snapshotting, self._writing:
            self._load()
            check_newest(self._where, self._lease, lease)
            if self._marker is not None:
                if self._lease == lease:
                    return
                raise StateOwnedError(f"{self._where} is there already, at txid {self._marker}: nothing was created")
            self._snapshots.found(lease, birth)
            self._lease, self._marker, self._expiry = lease, birth, Expiry()

    def acquire(self, lease: Lease) -> None:
        with self._snapshotting, self._writing:
            self._load()
            check_newest(self._where, self._lease, lease)
            self._lease, self._opened, self._fenced = lease, None, None
            self._snapshots.restate(lease)
            self._snapshots.sweep(lease)

    def _load(self) -> Entries:
        """The entries as they are, or from the last snapshot if that is none of this object's making."""
        another, manifest = self._snapshots.refresh(), self._snapshots.manifest
        ours = manifest is not None and manifest.lease == self._lease
        if self._entries is None or (another and not ours):
            self._entries = self._snapshots.load()
            self._lease, self._marker = (manifest.lease, manifest.txid) if manifest else (None, None)
            self._expiry = manifest.expiry if manifest else Expiry()
            self._opened, self._unsaved = None, 0
        return self._entries

    def _ready(self) -> Entries:
        if self._entries is None:
            with self._writing:
                return self._load() if self._entries is None else self._entries
        return self._entries

    # --- write -----------------------------------------------------------------------------------------------

    def apply(self, lease: Lease, update: Update, values: bool = False) -> Applied:
        with self._writing:
            entries = self._ready()
            marker = self._check_turn(lease, update.txid)
            if marker >= update.txid:
                return Applied(read_again(self, update) if values else None, 0, len(update.deltas))
            expiry = self._expiry.after(update.txid, update.time, update.life(self._ttl), self._where)
            changes = self._changes(entries, update, expiry)
            full = self._full(entries, changes)
            if full is not None and self._collect():
                entries = self._ready()
                changes = self._changes(entries, update, expiry)
                full = self._full(entries, changes)
            if full is not None:
                raise full
            self._opened = update.txid
            for change in changes:
                self._write(entries, change)
            with self._triples:  # marker and cutoff are one for readers
                self._marker, self._expiry = update.txid, expiry
            self._opened = None
            written = sum(len(change.slots) for change in changes)
            self._unsaved += written * (entries.bytes // max(1, len(entries)))
            if len(entries) >= self._look_at:
                self._collect()
            self._snapshot_if_due()
        after = together([change.values for change in changes]) if values else None
        return Applied(after, written, len(update.deltas) - written)

    def _check_turn(self, lease: Lease, txid: int) -> int:
        """The marker, if this driver may commit `txid` now."""
        if self._fenced is not None:
            raise FencedError(str(self._fenced))
        marker = -1 if self._marker is None else self._marker
        check_turn(self._where, self._lease, marker, lease, txid)
        return marker

    def _changes(self, entries: Entries, update: Update, expiry: Expiry) -> list[_Change]:
        """What an update comes to, all of it before anything is written; in parts where it is too long for one."""
        check_fitting(self._where, self._shape, update)
        return list(in_halves(partial(self._change, entries, update, expiry), 0, len(update.deltas)))

    def _change(self, entries: Entries, update: Update, expiry: Expiry, part: slice) -> _Change:
        keys, deltas = update.part(part)
        encoded, hashes = self._encoded(keys)
        check_named_once(self._where, encoded, hashes, update.txid)
        slots = entries.index.keys.find(encoded, hashes)
        before = entries.take(slots)
        check_none_later(self._where, before.txids, self._marker, update.txid)
        stored = kept(entries.value.unpack(before.values), before.txids, expiry.cutoff)
        rows = np.flatnonzero(before.txids != update.txid)
        if len(rows) == len(slots):
            after = self._combined(stored, deltas)
            moved = _moved(entries, before, after, update.txid, expiry.before)
            return _Change(encoded, hashes, slots, before, moved, after)
        # a commit of this very batch was interrupted: what it wrote stays, the rest follows
        some = pa.array(rows)
        after = self._combined(stored.take(some), deltas.take(some))
        whole = replaced(stored, rows, after)
        left = before[rows]
        moved = _moved(entries, left, after, update.txid, expiry.before)
        return _Change(encoded.take(some), hashes[rows], slots[rows], left, moved, whole)

    def _combined(self, stored: pa.Array, deltas: pa.Array) -> pa.Array:
        return combined(self._shape.combine, stored, deltas, self._where)

    def _write(self, entries: Entries, change: _Change) -> None:
        slots, new = change.slots, change.slots < 0
        if new.any():
            slots = slots.copy()
            slots[new] = entries.insert(change.encoded.filter(pa.array(new)), change.hashes[new])
        for at in range(0, len(slots), _CHUNK):
            part = slice(at, at + _CHUNK)
            with self._triples:
                entries.put(slots[part], change.after[part])
            entries.account(change.before[part], change.after[part])

    def _collect(self) -> bool:
        """Take back the room of what no read can see any more, where that is a quarter or more."""
        entries = self._ready()
        slots = entries.living(self._expiry.before, self._removed())
        self._look_at = max(_FROM, len(slots) + len(slots) // 2)
        if 4 * len(slots) > 3 * len(entries):
            return False
        self._entries = entries.only(slots)  # who reads the old ones finds them as they are now
        return True

    def _removed(self) -> int:
        """Up to which txid a removed key may go: no read sees the value before it, and no file that stays holds one."""
        before = (-1 if self._marker is None else self._marker) - 1
        return before if self._snapshots.folder is None else min(before, self._snapshots.whole())

    def _full(self, entries: Entries, changes: list[_Change]) -> StateFullError | None:
        """What is wrong where these changes go beyond the room there is."""
        if self._max_bytes is None:
            return None
        growth = sum(entries.growth(change.encoded, change.before, change.after) for change in changes)
        if growth <= 0 or entries.bytes + growth <= self._max_bytes:
            return None
        return StateFullError(
            f"{self._where} holds {entries.bytes:,} bytes in {len(entries):,} keys; {growth:,} more for this batch "
            f"go beyond maxBytes={self._max_bytes:,}. Nothing was changed; raise maxBytes. (A RedisMapState has "
            f"room too, and begins empty: what is here stays here. Export it first, as long as it fits)"
        )

    def _encoded(self, keys: pa.Table) -> tuple[pa.Array, Hashes]:
        encoded = encoded_keys(self._where, self._shape, keys)
        return encoded, hash_keys(encoded)

    # --- read ------------------------------------------------------------------------------------------------

    def groups_of(self) -> tuple[GroupStatus, ...]:
        if self._writing.acquire(blocking=False):  # else an apply is under way, and looks itself
            try:
                self._snapshot_if_due()
            finally:
                self._writing.release()
        return (GroupStatus(self._lease, self._marker, self._opened),)

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        self._ready()
        encoded, hashes = self._encoded(keys)
        marker = self._check_reached(asOf)  # before the look-up, which must see the keys of that batch
        entries = self._ready()
        slots = entries.index.keys.find(encoded, hashes)
        return Found(self._visible(entries, slots, asOf), marker if asOf is None or not entries.versioned else asOf)

    def scan(self, asOf: int | None, pageRows: int = 10_000, time: float | None = None) -> Iterator[pa.Table]:
        self._ready()
        self._check_reached(asOf)
        entries = self._ready()
        keys = entries.index.keys

        def rows(page: slice) -> pa.Table:
            values, stored = self._visible(entries, page, asOf, time), keys.stored.take(page)
            if values.null_count:
                there = values.is_valid()
                stored, values = stored.filter(there), values.filter(there)
            return decode_keys(stored, self._shape.keys).append_column("value", values)

        for at in range(0, keys.count, pageRows):
            stop = min(at + pageRows, keys.count)
            yield from (table for table in in_halves(rows, at, stop) if table.num_rows)

    def read_for(self, keys: pa.Table, txid: int, time: float) -> pa.Array:
        encoded, hashes = self._encoded(keys)
        self._check_reached(txid - 1)
        entries = self._ready()
        return self._visible(entries, entries.index.keys.find(encoded, hashes), txid - 1, time)

    def scan_for(self, txid: int, time: float) -> Iterator[pa.Table]:
        return self.scan(txid - 1, time=time)

    def _visible(self, entries: Entries, slots: Slots | slice, asOf: int | None, time: float | None = None) -> pa.Array:
        """`time`: of the batch after `asOf`, to which these values are to be what it finds."""
        with self._triples:
            triples = entries.take(slots)
            marker, expiry = self._marker, self._expiry
        cutoff = expiry.as_of(asOf, marker)
        if time is not None and asOf is not None and asOf == marker:
            cutoff = expiry.after(asOf + 1, time, self._ttl, self._where).cutoff
        values = kept(entries.value.unpack(triples.values), triples.txids, cutoff)
        if asOf is None or triples.prevs is None:
            return values
        check_not_beyond(self._where, marker, asOf)
        return as_of(asOf, triples.txids, values, entries.value.unpack(triples.prevs), self._where)

    def _check_reached(self, asOf: int | None) -> int:
        marker = -1 if self._marker is None else self._marker
        if asOf is not None:
            check_reached(self._where, marker, asOf)
        return marker

    # --- snapshots -------------------------------------------------------------------------------------------

    def durable(self) -> int:
        if self._snapshots.folder is None:
            return -1 if self._marker is None else self._marker
        manifest = self._snapshots.manifest
        return -1 if manifest is None else manifest.txid

    def snapshot(self) -> int:
        """Take a snapshot now, if the state has gone on since the last one, or a file of that is gone; returns
        `durable()`.

        Waits for one under way. Raises OSError, FencedError or what the log raises.
        """
        with self._snapshotting:
            with self._writing:
                cut = self._cut(again=self._entries is not None and self._snapshots.torn())
            if cut is not None:
                self._save(cut)
        return self.durable()

    def _snapshot_if_due(self) -> None:
        """Under the writer's lock, which the thread that writes the files does not need any more."""
        due = self._unsaved >= self._pace.bytes or self._snapshots.seconds() >= self._pace.seconds
        if not due or not self._dirty() or not self._snapshotting.acquire(blocking=False):
            return
        try:
            cut = self._cut()
        except BaseException:
            self._snapshotting.release()
            raise
        if cut is None:
            self._snapshotting.release()
            return
        self._aside(f"snapshot of {self._where}", lambda: self._save_aside(cut))

    def _dirty(self) -> bool:
        gone_on = self._marker is not None and self._marker > self.durable()
        return gone_on and self._entries is not None and self._fenced is None

    def _cut(self, again: bool = False) -> Cut | None:
        """A copy of what the next segment is to hold, as of the marker; None if there is nothing to secure. `again`:
        though the state has not gone on."""
        if (
            not (self._dirty() or (again and self._fenced is None))
            or self._lease is None
            or self._marker is None
            or self._opened is not None
        ):
            return None
        entries = self._ready()
        since = self._snapshots.since(entries)
        if since < self._snapshots.whole():  # no file stays that holds what was removed
            slots = entries.living(since, self._marker - 1)
        else:
            slots = entries.changed(since)
        self._unsaved = 0
        return Cut(
            self._lease,
            self._marker,
            since,
            entries.index.keys,
            slots,
            entries.take(slots),
            entries.value,
            self._expiry,
        )

    def _save_aside(self, cut: Cut) -> None:
        try:
            self._save(cut)
        except FencedError as error:
            _log.warning("%s: no snapshot was taken: %s", self._where, error)
        except Exception:
            self._snapshots.postpone()
            _log.exception("%s: the snapshot failed; the log keeps what it lacks, and it is tried again", self._where)
        finally:
            self._snapshotting.release()

    def _save(self, cut: Cut) -> None:
        try:
            self._snapshots.write(cut)
        except FencedError as error:
            self._fenced = error
            raise

    # --- end -------------------------------------------------------------------------------------------------

    def drop(self, lease: Lease | None = None) -> None:
        with self._snapshotting, self._writing:
            held = self._lease if self._entries is not None and self._fenced is None else None
            self._snapshots.forget(lease or held)  # the log refuses a lease that is not the last one
            self._entries, self._marker, self._lease, self._opened = None, None, None, None
            self._expiry = Expiry()

    def close(self) -> None:
        try:
            self.snapshot()
        except Exception as error:
            _log.warning("%s: no last snapshot was taken (%s); the log keeps what it lacks", self._where, error)


def _in_a_thread(name: str, work: Callable[[], None]) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()


def _moved(entries: Entries, before: Triples, after: pa.Array, txid: int, forgotten: int) -> Triples:
    """The triples after batch `txid` gave these values. What was forgotten before it is no value before it."""
    prevs = before.values if entries.versioned else None
    if prevs is not None and forgotten > 0:
        prevs = Cells(prevs.data, prevs.valid & (before.txids > forgotten))
    return Triples(np.full(len(after), txid, np.int64), entries.value.pack(after), prevs)
