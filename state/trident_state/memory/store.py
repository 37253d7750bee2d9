"""MemoryStore: a state in the driver's memory. Snapshots under the run's checkpoint make it durable."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.clock import Clock, SystemClock
from trident.base.errors import FencedError, FilesError, StateFullError, StateOwnedError
from trident.base.forked_child import free_in_child
from trident_state.binary_arrays import concatenate, in_halves
from trident_state.expiry import Expiry, without_expired
from trident_state.few_keys import Key, hash_key, key_encoder
from trident_state.key_order import KeyRange
from trident_state.keys import check_key_types, decode_keys, encode_and_hash
from trident_state.memory.entries import Entries
from trident_state.memory.key_index import Slots
from trident_state.memory.snapshots import Cut, Snapshots
from trident_state.memory.update_changes import Change, changes_of
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home, read_again
from trident_state.store_messages import Applied, FewFound, Found, GroupStatus, StoreReport, Update
from trident_state.value_rules import as_of, check_not_beyond, check_reached, few_as_of
from trident_state.write_checks import check_newest, check_next_batch

_log = logging.getLogger("trident.state")

_CHUNK = 32_768
"""The entries that `apply` writes before it lets readers continue. They are so few that a reader waits far less than 1
ms."""

_FEWEST_ROWS, _RANGE_ROWS = 64, 10_000
"""The least and the most entries that a read of a range takes at once. Some of them may have no value any more."""

_COLLECT_FROM = 4096
"""A store with fewer entries than this does not look for entries that no read can see any more."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of snapshots: after `bytes` bytes of entries, `batches` batches, or `seconds` after the last snapshot.

    A driver that dies within `seconds` of its start takes no snapshot by time. If one driver after another dies so
    early, each has to re-apply more batches than the driver before it. `batches` limits that number, because re-applied
    batches count, too.
    """

    bytes: int = 64 * 2**20
    seconds: float = 30.0
    batches: int = 500


class MemoryStore:
    """The store of a MemoryMapState (one group). `trident_state.store.Store` documents the promise of each method.

    **Durability.** The run's log keeps every frozen batch that is newer than `durable()`. A snapshot advances that
    txid: between two commits the store copies the entries that changed since the last snapshot (a few milliseconds for
    100,000 keys), and a thread writes, fsyncs and publishes the copy. The end of an `apply`, and `groups_of`, start a
    snapshot if `pace` says that a snapshot is due. `snapshot` takes a snapshot at once. `close` takes a last snapshot,
    so that the next start need not apply batches again. If a snapshot fails, the failure is logged, nothing is lost,
    and the snapshot is tried again `pace.seconds` later. Without a folder nothing survives the run, and the log keeps
    no batches for the state.

    **Expiry.** With a time to live (`ttl`, seconds) each commit advances the cutoff: a value that was last changed at
    or before the cutoff has expired (`trident_state.expiry`). The next collection frees the memory of expired values. A
    collection happens when the state has grown by half since the last collection, so that its cost is spread over the
    batches.

    **Locks.** An `apply`, and the copying of a cut, hold the writer's lock (`_writing`). A reader holds another lock
    (`_triples`) for as long as it takes to copy the triples that it reads; an `apply` holds this lock for one chunk of
    entries at a time. Between two chunks each entry shows its value from before or after the batch, and its txid says
    which of the two.
    """

    isPrompt = True

    def __init__(
        self,
        identity: StateIdentity,
        shape: StateShape,
        kind: StateKind,
        home: Home,
        maxBytes: int | None = None,
        pace: Pace | None = None,
        clock: Clock | None = None,
        start_thread: Callable[[str, Callable[[], None]], None] | None = None,
        ttl: float | None = None,
    ) -> None:
        check_key_types(shape.keys)
        self._where = f"state {identity.name!r}"
        self._encode_key = key_encoder(shape.keys)
        self._identity, self._shape, self._kind = identity, shape, kind
        self._ttl, self._expiry = ttl, Expiry()
        self._collect_at = _COLLECT_FROM
        """The number of entries from which the store looks again for entries that no read can see any more."""
        self._max_bytes, self._pace, self._start_thread = maxBytes, pace or Pace(), start_thread or _start_thread
        self._snapshots = Snapshots(home, identity, shape, kind, clock or SystemClock(), self._where, ttl)
        self._writing = free_in_child(threading.RLock())
        self._triples = free_in_child(threading.Lock())
        self._entries: Entries | None = None
        self._lease: Lease | None = None
        self._marker: int | None = None
        self._opened: int | None = None
        self._unsaved, self._unsaved_batches = 0, 0
        """The amounts written since the last cut: bytes of entries, and batches."""
        self._fenced: FencedError | None = None
        self._snapshotting = free_in_child(threading.Lock())

    # --- start -----------------------------------------------------------------------------------------------

    def report(self) -> StoreReport:
        with self._writing:
            if self._entries is None:
                self._snapshots.refresh()
            manifest = self._snapshots.manifest
            if self._entries is None and manifest is not None:
                status = GroupStatus(manifest.lease, manifest.txid, None)
                return StoreReport(manifest.identity, manifest.fingerprint, manifest.kind, (status,))
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
                raise StateOwnedError(f"{self._where} exists already, at txid {self._marker}: nothing was created")
            self._snapshots.create_manifest(lease, birth)
            self._lease, self._marker, self._expiry = lease, birth, Expiry()

    def acquire(self, lease: Lease) -> None:
        with self._snapshotting, self._writing:
            self._load()
            check_newest(self._where, self._lease, lease)
            self._lease, self._opened, self._fenced = lease, None, None
            self._snapshots.publish_rules(lease)
            self._snapshots.delete_strays(lease)

    def _load(self) -> Entries:
        """Return the entries.

        They are loaded from the last snapshot if none are loaded, or if another driver published it.
        """
        changed, manifest = self._snapshots.refresh(), self._snapshots.manifest
        ours = manifest is not None and manifest.lease == self._lease
        if self._entries is None or (changed and not ours):
            self._entries = self._snapshots.load()
            self._lease, self._marker = (manifest.lease, manifest.txid) if manifest else (None, None)
            self._expiry = manifest.expiry if manifest else Expiry()
            self._opened, self._unsaved, self._unsaved_batches = None, 0, 0
        return self._entries

    def _loaded(self) -> Entries:
        """Return the entries. They are loaded first if that has not happened yet."""
        if self._entries is None:
            with self._writing:
                return self._load() if self._entries is None else self._entries
        return self._entries

    # --- write -----------------------------------------------------------------------------------------------

    def apply(self, lease: Lease, update: Update, values: bool = False) -> Applied:
        with self._writing:
            entries = self._loaded()
            marker = self._check_next_batch(lease, update.txid)
            if marker >= update.txid:
                return Applied(read_again(self, update) if values else None, 0, len(update.deltas))
            expiry = self._expiry.after(update.txid, update.time, update.life(self._ttl), self._where)
            changes = changes_of(update, entries, self._shape, expiry, marker, self._where)
            full = self._room_error(entries, changes)
            if full is not None and self._collect():
                entries = self._loaded()  # the collection has assigned new slots to the keys
                changes = changes_of(update, entries, self._shape, expiry, marker, self._where)
                full = self._room_error(entries, changes)
            if full is not None:
                raise full
            self._opened = update.txid
            for change in changes:
                self._write(entries, change)
            with self._triples:  # a reader must see the marker and the cutoff of the same batch
                self._marker, self._expiry = update.txid, expiry
            self._opened = None
            written = sum(len(change.slots) for change in changes)
            self._unsaved += written * entries.entry_bytes
            self._unsaved_batches += 1
            if len(entries) >= self._collect_at:
                self._collect()
            self._snapshot_if_due()
        after = concatenate([change.values for change in changes]) if values else None
        return Applied(after, written, len(update.deltas) - written)

    def _check_next_batch(self, lease: Lease, txid: int) -> int:
        """Check that `lease` may apply batch `txid`, and return the marker; -1 if there is no marker.

        Raises FencedError or StateBehindError if the driver with `lease` may not commit `txid` now.
        """
        if self._fenced is not None:
            raise FencedError(str(self._fenced))
        marker = -1 if self._marker is None else self._marker
        check_next_batch(self._where, self._lease, marker, lease, txid)
        return marker

    def _write(self, entries: Entries, change: Change) -> None:
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
        """Free the memory of entries that no read can see any more, if they are at least a quarter of all entries.

        Return whether memory was freed.
        """
        entries = self._loaded()
        slots = entries.live(self._expiry.before, self._removed_txid())
        self._collect_at = max(_COLLECT_FROM, len(slots) + len(slots) // 2)
        if 4 * len(slots) > 3 * len(entries):
            return False
        self._entries = entries.copy_of(slots)  # a read that has begun continues with the old entries
        return True

    def _removed_txid(self) -> int:
        """Return the last txid whose removed keys may be forgotten.

        For a later removal, a read might still see the value before it, or an older segment might still hold that
        value, and the next load would bring it back.
        """
        before = (-1 if self._marker is None else self._marker) - 1
        return before if self._snapshots.files is None else min(before, self._snapshots.base_txid())

    def _room_error(self, entries: Entries, changes: list[Change]) -> StateFullError | None:
        """Return an error if the changes would exceed `maxBytes`; None if there is room for them."""
        if self._max_bytes is None:
            return None
        growth = sum(entries.growth(change.encoded, change.before, change.after) for change in changes)
        if growth <= 0 or entries.bytes + growth <= self._max_bytes:
            return None
        return StateFullError(
            f"{self._where} holds {entries.bytes:,} bytes in {len(entries):,} keys; {growth:,} more for this batch "
            f"exceed maxBytes={self._max_bytes:,}. Nothing was changed; raise maxBytes. (Or use a RedisMapState. It "
            f"starts empty, so export the values of this state first)"
        )

    # --- read ------------------------------------------------------------------------------------------------

    def groups_of(self) -> tuple[GroupStatus, ...]:
        if self._writing.acquire(blocking=False):  # otherwise an `apply` is under way, which starts a snapshot itself
            try:
                self._snapshot_if_due()
            finally:
                self._writing.release()
        return (GroupStatus(self._lease, self._marker, self._opened),)

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        self._loaded()
        encoded, hashes = encode_and_hash(self._where, self._shape.keys, keys)
        marker = self._check_reached(asOf)  # first, because the look-up must see the keys of batch `asOf`
        entries = self._loaded()
        slots = entries.index.keys.find(encoded, hashes)
        return Found(self._visible(entries, slots, asOf), marker if asOf is None or not entries.versioned else asOf)

    def read_few(self, keys: Sequence[Key], asOf: int | None) -> FewFound | None:
        if self._encode_key is None:
            return None
        self._loaded()
        encoded = list(map(self._encode_key, keys))
        marker = self._check_reached(asOf)  # first, because the look-up must see the keys of batch `asOf`
        entries = self._loaded()
        find = entries.index.keys.find_one
        slots = np.array([find(key, hash_key(key)) for key in encoded], np.int64)
        values = self._few_visible(entries, slots, asOf)
        return FewFound(values, marker if asOf is None or not entries.versioned else asOf)

    def _few_visible(self, entries: Entries, slots: Slots, asOf: int | None) -> list[Any]:
        """Return the values in a few slots as Python values, by the rules of `_visible`."""
        with self._triples:
            triples = entries.take(slots)
            marker, expiry = self._marker, self._expiry
        txids, values = triples.txids.tolist(), entries.value.values(triples.values)
        if expiry.cutoff:
            cutoff = expiry.as_of(asOf, marker)
            values = [value if txid > cutoff else None for txid, value in zip(txids, values, strict=True)]
        if asOf is None or triples.prevs is None:
            return values
        check_not_beyond(self._where, marker, asOf)
        if max(txids, default=asOf) <= asOf:
            return values
        return few_as_of(asOf, txids, values, entries.value.values(triples.prevs), self._where)

    def count(self) -> int | None:
        return len(self._loaded().index)

    def scan(self, asOf: int | None, pageRows: int = 10_000, time: float | None = None) -> Iterator[pa.Table]:
        self._loaded()
        self._check_reached(asOf)
        entries = self._loaded()
        count = len(entries)

        def rows(page: slice) -> pa.Table:
            return self._page(entries, page, asOf, time)

        for at in range(0, count, pageRows):
            stop = min(at + pageRows, count)
            yield from (table for table in in_halves(rows, at, stop) if table.num_rows)

    def has_order(self) -> bool:
        return True

    def read_ranges(self, ranges: Sequence[KeyRange], most: int | None, asOf: int | None) -> list[pa.Table]:
        self._loaded()
        self._check_reached(asOf)  # first, because the index must see the keys of batch `asOf`
        entries = self._loaded()
        tables = [self._in_range(entries, between, most, asOf) for between in ranges]
        if asOf is not None and entries.versioned:
            # A range without a key reads no triple, but a key removed since then may have been in it.
            check_not_beyond(self._where, self._marker, asOf)
        return tables

    def _in_range(self, entries: Entries, between: KeyRange, most: int | None, asOf: int | None) -> pa.Table:
        pages = [self._shape.entries.empty_table()]
        at_once = _RANGE_ROWS if most is None else min(max(most, _FEWEST_ROWS), _RANGE_ROWS)
        for slots in entries.in_order(self._shape.keys).slots(between, at_once):
            pages += in_halves(partial(self._some, entries, slots, asOf), 0, len(slots))
            if most is not None and sum(page.num_rows for page in pages) >= most:
                break
        table = pa.concat_tables(pages)
        return table if most is None else table.slice(0, most)

    def _some(self, entries: Entries, slots: Slots, asOf: int | None, part: slice) -> pa.Table:
        return self._page(entries, slots[part], asOf)

    def _page(self, entries: Entries, slots: Slots | slice, asOf: int | None, time: float | None = None) -> pa.Table:
        """Return the entries in the given slots that have a value as of `asOf`; see `_visible` for `time`."""
        values, stored = self._visible(entries, slots, asOf, time), entries.index.keys.stored.take(slots)
        if values.null_count:
            present = values.is_valid()
            stored, values = stored.filter(present), values.filter(present)
        return decode_keys(stored, self._shape.keys).append_column("value", values)

    def read_for(self, keys: pa.Table, txid: int, time: float) -> pa.Array:
        encoded, hashes = encode_and_hash(self._where, self._shape.keys, keys)
        self._check_reached(txid - 1)
        entries = self._loaded()
        return self._visible(entries, entries.index.keys.find(encoded, hashes), txid - 1, time)

    def scan_for(self, txid: int, time: float) -> Iterator[pa.Table]:
        return self.scan(txid - 1, time=time)

    def _visible(self, entries: Entries, slots: Slots | slice, asOf: int | None, time: float | None = None) -> pa.Array:
        """Return the values in the given slots as of `asOf`; null for values that have expired.

        With `time`, the time of batch `asOf` + 1, return the values that this batch reads before it writes: values that
        expire with it are null, too.
        """
        with self._triples:
            triples = entries.take(slots)
            marker, expiry = self._marker, self._expiry
        values = entries.value.unpack(triples.values)
        if expiry.cutoff or time is not None:  # otherwise nothing has expired so far
            cutoff = expiry.as_of(asOf, marker)
            if time is not None and asOf is not None and asOf == marker:
                cutoff = expiry.after(asOf + 1, time, self._ttl, self._where).cutoff
            values = without_expired(values, triples.txids, cutoff)
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
        if self._snapshots.files is None:
            return -1 if self._marker is None else self._marker
        manifest = self._snapshots.manifest
        return -1 if manifest is None else manifest.txid

    def snapshot(self) -> int:
        """Take a snapshot now if there are batches after the last snapshot, or if one of its files is missing.

        Return `durable()`.

        If a snapshot is under way, wait for its end first. Raises OSError, FencedError, or an error of the log.
        """
        with self._snapshotting:
            with self._writing:
                cut = self._cut(again=self._entries is not None and self._snapshots.incomplete())
            if cut is not None:
                self._save(cut)
        return self.durable()

    def _snapshot_if_due(self) -> None:
        """Start a thread that takes a snapshot, if a snapshot is due and no thread is taking one.

        The caller holds the writer's lock, under which this method copies the cut. The thread writes the cut without
        that lock, and releases `_snapshotting`, which this method acquires.
        """
        written = self._unsaved >= self._pace.bytes or self._unsaved_batches >= self._pace.batches
        due = written or self._snapshots.seconds_since_last() >= self._pace.seconds
        if not due or not self._dirty() or not self._snapshotting.acquire(blocking=False):
            return
        try:
            cut = self._cut()
        except (OSError, FilesError):
            # A file store that does not answer must not keep a batch from being committed.
            self._snapshotting.release()
            self._put_off()
            return
        except BaseException:
            self._snapshotting.release()
            raise
        if cut is None:
            self._snapshotting.release()
            return
        self._start_thread(f"snapshot of {self._where}", lambda: self._save_in_thread(cut))

    def _dirty(self) -> bool:
        """Return whether this driver has batches to publish: committed ones after the last snapshot."""
        behind = self._marker is not None and self._marker > self.durable()
        return behind and self._entries is not None and self._fenced is None

    def _cut(self, again: bool = False) -> Cut | None:
        """Return a copy of the entries for the next segment, as of the marker; None if no snapshot is due.

        With `again`, return a cut even if no batch came after the last snapshot.
        """
        if (
            not (self._dirty() or (again and self._fenced is None))
            or self._lease is None
            or self._marker is None
            or self._opened is not None
        ):
            return None
        entries = self._loaded()
        since = self._snapshots.since(entries)
        # removed keys need not be written if every segment that may hold their values is replaced
        rewritten = since < self._snapshots.base_txid()
        slots = entries.live(since, self._marker - 1) if rewritten else entries.changed(since)
        self._unsaved, self._unsaved_batches = 0, 0
        return Cut(
            self._lease,
            self._marker,
            since,
            entries.index.keys,
            slots,
            entries.take(slots),
            entries.value,
            self._expiry,
            entries.entry_bytes,
        )

    def _save_in_thread(self, cut: Cut) -> None:
        try:
            self._save(cut)
        except FencedError as error:
            _log.warning("%s: the snapshot failed: %s", self._where, error)
        except Exception:
            self._put_off()
        finally:
            self._snapshotting.release()

    def _put_off(self) -> None:
        """Log the current exception. The next snapshot comes after `pace.seconds` or `pace.batches`."""
        error = sys.exception()
        self._snapshots.postpone()
        self._unsaved, self._unsaved_batches = 0, 0
        trace = None if isinstance(error, OSError | FilesError) else error
        text = (
            "%s: the snapshot failed (%s) and is tried again; until then the log keeps the batches after the "
            "previous snapshot"
        )
        _log.error(text, self._where, error, exc_info=trace)

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
            self._snapshots.delete(lease or held)  # the log refuses any lease but the last lease
            self._entries, self._marker, self._lease, self._opened = None, None, None, None
            self._expiry = Expiry()

    def close(self) -> None:
        try:
            self.snapshot()
        except Exception as error:
            _log.warning(
                "%s: the snapshot at the end of the run failed (%s); the log keeps the batches after the previous "
                "snapshot",
                self._where,
                error,
            )


def _start_thread(name: str, work: Callable[[], None]) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()
