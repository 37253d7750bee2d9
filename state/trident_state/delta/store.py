"""DeltaStore: the store of a state in a Delta table."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident.base.errors import (
    LogMismatchError,
    SnapshotMovedError,
    StateBehindError,
    StateClosedError,
    StateOwnedError,
    StateRecoveringError,
    StateShapeError,
)
from trident.files.delta_folder import TableFolder
from trident_state.binary_arrays import concatenate, in_halves
from trident_state.delta.batch_rows import BatchRows, check_parts_distinct
from trident_state.delta.compaction import Compactor
from trident_state.delta.data_files import DataFile
from trident_state.delta.entry_counts import count_entries
from trident_state.delta.folding import WHOLE, rows_kind
from trident_state.delta.maintenance import Maintenance
from trident_state.delta.past_files import MissingFileError
from trident_state.delta.past_reads import PastReads
from trident_state.delta.range_reads import RangeReads
from trident_state.delta.record import (
    COMPACTIONS,
    DROPPED,
    EPOCH,
    FILES,
    KEPT,
    MARKER,
    TAGS,
    TableVersion,
    changed_numbers,
    expiry_numbers,
    lease_numbers,
    properties_of,
)
from trident_state.delta.shared_table import OpenBatch, OpenSnapshot, files_of
from trident_state.delta.table import MovedError, StateTable
from trident_state.delta.tagging import Tagger
from trident_state.delta.tags import NO_TAGS
from trident_state.delta.vacuum import Cleaner, Retention
from trident_state.expiry import Expiry
from trident_state.incarnation import Incarnation
from trident_state.key_order import KeyRange
from trident_state.keys import check_key_types, encode_checked_keys
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import read_again
from trident_state.store_messages import Applied, Found, GroupStatus, Put, StoreReport, Update
from trident_state.tags import StateTag
from trident_state.value_rules import check_not_beyond, check_reached
from trident_state.write_checks import (
    check_newest,
    check_next_batch,
    check_update_types,
)

_TRIES = 20
"""The most attempts at a drop or a takeover, which start over if a driver wrote the state meanwhile."""


class DeltaStore:
    """The store of a DeltaMapState (one group). `trident_state.store.Store` documents the promise of each method.

    An `apply` writes the batch's rows into a file, and commits one version of the table that names the file and sets
    the marker. No open record is needed.
    """

    def __init__(
        self,
        identity: StateIdentity,
        shape: StateShape,
        kind: StateKind,
        folder: TableFolder,
        ttl: float | None,
        cache: int,
        keep: Retention,
    ) -> None:
        check_key_types(shape.keys)
        self._where = f"state {identity.name!r}"
        self._identity, self._shape, self._kind, self._ttl = identity, shape, kind, ttl
        self._rows = rows_kind(shape.combine, shape.value, ttl is not None)
        self._folder, self._table = folder, StateTable(folder, self._where)
        self._batches = BatchRows(folder, shape, cache, self._where)
        self._columns, self._files, self._reads = self._batches.columns, self._batches.files, self._batches.reads
        # a separate handle, because a batch needs the other one at the version of that batch
        beside = StateTable(folder, self._where)
        compactor = Compactor(beside, self._files, self._reads, self._columns, self._where)
        cleaner = Cleaner(beside, self._reads.past, keep, lambda: self._lease)
        self._ranges = RangeReads(self._reads, shape.entries)
        self._tagger = Tagger(StateTable(folder, self._where), self._reads.past, self._tagged, self._where)
        self.upkeep = Maintenance(beside, compactor, cleaner, self._where)
        self._writing = threading.RLock()
        self._lease: Lease | None = None
        self._incarnation: Incarnation | None = None
        self._leaving = False

    # --- start -----------------------------------------------------------------------------------------------

    def report(self) -> StoreReport:
        version = self._table.look()
        if version is None:
            return StoreReport(None, None, None, (GroupStatus(None, None, None),))
        self._check_ours(version)
        return version.report

    def create(self, lease: Lease, birth: int) -> None:
        self._table.check_safe()
        with self._writing:
            version = self._table.look()
            if version is not None and not version.dropped:
                self._check_ours(version)
                if version.lease != lease:
                    check_newest(self._where, version.lease, lease)
                    raise StateOwnedError(
                        f"{self._where} exists already, at txid {version.marker}: nothing was created"
                    )
            else:
                properties = properties_of(self._identity, self._shape, self._kind, self._rows, birth)
                numbers = {MARKER: birth, DROPPED: 0, FILES: 0, KEPT: birth, TAGS: 0, **lease_numbers(lease)}
                if version is not None:
                    numbers |= changed_numbers(expiry_numbers(version.expiry), expiry_numbers(Expiry()))
                self._table.create(self._columns.schema, properties, numbers, version)
            self._lease = lease

    def acquire(self, lease: Lease) -> None:
        self._table.check_safe()
        with self._writing:
            for attempt in range(1, _TRIES + 1):
                version = self._present(self._table.look())
                check_newest(self._where, version.lease, lease)
                self._check_rows(version)
                if version.lease == lease:
                    break
                # An older table does not record its first kept txid, and its merges do not name the files that they
                # replaced.
                kept = version.marker if version.kept is None else version.kept
                numbers = {**lease_numbers(lease), KEPT: kept}
                try:
                    self._table.commit(version, numbers, {"lease": lease, "kept": kept})
                    break
                # the previous driver was first with its last batch or with cleaning, or a newer
                # driver has the state
                except MovedError:
                    if attempt == _TRIES:
                        raise
            self._lease = lease

    def _check_rows(self, version: TableVersion) -> None:
        """Raise StateShapeError if the table's rows are deltas, but the state needs other ones.

        Whole values always fit.

        A Combine in Python writes whole values. If the rows are deltas nevertheless, the Combine is a former
        program's, known only by name: the state is read to evolve it, and no batch is written.
        """
        combine = self._shape.combine
        written = combine.native is not None or combine.parts is not None or self._ttl is not None
        if written and version.rows not in (WHOLE, self._rows):
            raise StateShapeError(
                f"{self._where} is a table of deltas (rows={version.rows}), but its declaration needs whole values: "
                "because of ttlSecs=, or because it sums floating-point numbers, which earlier versions stored as "
                "deltas. Nothing was changed. Declare it as before, or give the new state another name= "
                "(initialState= can copy the values of this one), or drop this one (dropState: its values are lost, "
                "so export them first), or reset the topology"
            )

    # --- write -----------------------------------------------------------------------------------------------

    def apply(self, lease: Lease, update: Update, values: bool = False) -> Applied:
        check_update_types(self._where, self._shape, update)
        with self._writing:
            version = self._next(lease, update.txid)
            if version.marker >= update.txid:
                return Applied(read_again(self, update) if values else None, 0, len(update.deltas))
            expiry = version.expiry.after(update.txid, update.time, update.life(self._ttl), self._where)
            work = partial(self._batches.part, version, update, expiry, values)
            with self._checking(version):
                parts = list(in_halves(work, 0, len(update.deltas)))
            check_parts_distinct(self._where, parts, update.txid)
            self._check_open(update.txid)
            files = [self._batches.write(part, update.txid, expiry) for part in parts if len(part.table)]
            self._commit(version, lease, update.txid, expiry, files)
        after = concatenate([part.values for part in parts]) if values else None
        return Applied(after, len(update.deltas), 0)

    def _next(self, lease: Lease, txid: int) -> TableVersion:
        version = self._present(self._table.look())
        check_next_batch(self._where, version.lease, version.marker, lease, txid)
        return version

    def _check_open(self, txid: int) -> None:
        if self._leaving:
            raise StateClosedError(f"{self._where}: the run has ended; batch {txid} is not written")

    def _commit(self, version: TableVersion, lease: Lease, txid: int, expiry: Expiry, files: list[DataFile]) -> None:
        """Commit the version of a batch whose rows are in some files."""
        if not files and expiry.cutoff != version.expiry.cutoff:
            files = [self._batches.write_none(txid, expiry)]
        reach("delta.written")
        numbers = {MARKER: txid, EPOCH: lease.epoch}
        numbers |= changed_numbers(expiry_numbers(version.expiry), expiry_numbers(expiry))
        try:
            committed = self._table.commit(version, numbers, {"marker": txid, "expiry": expiry}, added=files)
        except MovedError:
            self._next(lease, txid)  # raises the error if another driver caused the conflict
            raise
        reach("delta.committed")
        self._forget({file.path for file in committed.files})
        self.upkeep.after(committed)

    def _forget(self, kept: set[str]) -> None:
        self._files.forget(kept)
        self._ranges.index.forget(kept)

    # --- by other processes ----------------------------------------------------------------------------------

    def open_batch(self, lease: Lease, update: Update) -> OpenBatch:
        """Return a batch for which any process can write rows; see `trident_state.store.Shared`."""
        with self._writing:
            version = self._next(lease, update.txid)
            done = version.marker >= update.txid
            ttl = update.life(self._ttl)
            expiry = version.expiry if done else version.expiry.after(update.txid, update.time, ttl, self._where)
        return OpenBatch(self._where, self._folder, self._shape, version, lease, update.txid, expiry)

    def commit_batch(self, batch: OpenBatch, update: Update, puts: Sequence[Put]) -> Applied:
        """Name the files of the puts in one version; see `trident_state.store.Shared`."""
        count = sum(sum(put.counts) for put in puts)
        with self._writing:
            version = self._next(batch.lease, update.txid)
            if version.marker >= update.txid:
                return Applied(None, 0, count)
            self._check_open(update.txid)
            self._commit(version, batch.lease, update.txid, batch.expiry, files_of(puts, self._folder, self._where))
        return Applied(None, count, 0)

    def open_snapshot(self, asOf: int, time: float | None = None) -> OpenSnapshot:
        """Return the state as of a txid for other processes to read; see `trident_state.store.Readable`."""
        version = self._readable(asOf)
        if version is None:
            raise StateRecoveringError(f"{self._where}: its table is missing")
        cutoff = version.expiry.as_of(asOf, version.marker)
        if time is not None:
            cutoff = self._cutoff_for(version, asOf + 1, time)
        return OpenSnapshot(self._where, self._folder, self._shape, version, asOf, cutoff)

    # --- read ------------------------------------------------------------------------------------------------

    def bind(self, incarnation: Incarnation) -> None:
        """Read only this incarnation of the state from now on; see `trident_state.store.Bindable`."""
        self._incarnation = incarnation

    def groups_of(self) -> tuple[GroupStatus, ...]:
        version = self._table.look()
        if self._incarnation is not None:
            self._incarnation.check(None if version is None else version.incarnation)
        return (GroupStatus(None, None, None) if version is None else version.status,)

    def durable(self) -> int:
        """Return the marker: every commit is on the disk, or in the object store."""
        version = self._table.look()
        return -1 if version is None or version.dropped else version.marker

    def snapshot(self) -> int:
        """Return `durable()` and do nothing else."""
        return self.durable()

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        encoded = encode_checked_keys(self._where, self._shape.keys, keys)
        version = self._readable(asOf)
        if version is None:
            return Found(pa.nulls(len(encoded), self._shape.value), -1)
        at = version.marker if asOf is None else asOf
        with self._checking(version):
            values = self._reads.values(version, encoded, at, version.expiry.as_of(asOf, version.marker))
        self._readable(asOf)
        return Found(values, at)

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        version = self._readable(asOf)
        if version is not None:
            cutoff = version.expiry.as_of(asOf, version.marker)
            at = version.marker if asOf is None else asOf
            for page in self._pages(version, at, cutoff, pageRows):
                self._readable(asOf)
                yield page

    def has_order(self) -> bool:
        """Return whether the keys have an order; see `trident_state.range_reads.Ranged`."""
        return self._ranges.has_order

    def read_ranges(self, ranges: Sequence[KeyRange], most: int | None, asOf: int | None) -> list[pa.Table] | None:
        """Return the entries of each range; see `trident_state.range_reads.Ranged`."""
        if not self._ranges.has_order:
            return None
        version = self._readable(asOf)
        at = 0 if version is None else version.marker if asOf is None else asOf
        cutoff = 0 if version is None else version.expiry.as_of(asOf, version.marker)
        with self._checking(version):
            tables = self._ranges.tables(version, ranges, most, at, cutoff)
        self._readable(asOf)
        return tables

    def count_entries(self, asOf: int | None) -> int | None:
        """Return the number of entries; see `trident_state.store.EntriesCounted`."""
        version = self._readable(asOf)
        if version is None:
            return 0
        at, cutoff = version.marker if asOf is None else asOf, version.expiry.as_of(asOf, version.marker)
        with self._checking(version):
            count = count_entries(self._reads, self._columns, version, at, cutoff)
        self._readable(asOf)
        return count

    def read_for(self, keys: pa.Table, txid: int, time: float) -> pa.Array:
        encoded = encode_checked_keys(self._where, self._shape.keys, keys)
        version = self._readable(txid - 1)
        if version is None:
            return pa.nulls(len(encoded), self._shape.value)
        with self._checking(version):
            return self._reads.values(version, encoded, txid - 1, self._cutoff_for(version, txid, time))

    def scan_for(self, txid: int, time: float) -> Iterator[pa.Table]:
        version = self._readable(txid - 1)
        if version is not None:
            for page in self._pages(version, txid - 1, self._cutoff_for(version, txid, time), 10_000):
                self._readable(txid - 1)
                yield page

    def _cutoff_for(self, version: TableVersion, txid: int, time: float) -> int:
        if version.marker == txid - 1:
            return version.expiry.after(txid, time, self._ttl, self._where).cutoff
        return version.expiry.as_of(txid - 1, version.marker)

    def _pages(self, version: TableVersion, asOf: int, cutoff: int, pageRows: int) -> Iterator[pa.Table]:
        with self._checking(version):
            yield from self._reads.tables(version, asOf, cutoff, pageRows)

    def _readable(self, asOf: int | None) -> TableVersion | None:
        """Return the last version. Raises StateRecoveringError or SnapshotMovedError if `asOf` cannot be read in it.

        Also raises the error of `Incarnation.check` if this is not the state that a reader opened.
        """
        version = self._last()
        if asOf is None:
            return version
        held, ours = None if version is None else version.lease, self._lease
        if ours is not None and held != ours and held is not None and held.epoch >= ours.epoch:
            raise SnapshotMovedError(f"{self._where}: another driver has taken it over (epoch {held.epoch})")
        marker = None if version is None else version.marker
        check_reached(self._where, marker if held == ours or ours is None else None, asOf)
        check_not_beyond(self._where, marker, asOf)
        return version

    def _last(self) -> TableVersion | None:
        """Return the last version; None if there is no state. Raises the error of `Incarnation.check`."""
        return self._bound(self._table.look())

    def _bound(self, version: TableVersion | None) -> TableVersion | None:
        if version is not None and version.dropped:
            version = None
        if self._incarnation is not None:
            self._incarnation.check(None if version is None else version.incarnation)
        return version

    # --- as of earlier txids ---------------------------------------------------------------------------------

    def kept_since(self) -> int:
        """Return the first txid as of which the state can be read; see `trident_state.store.Historic`."""
        version = self._last()
        return 0 if version is None else version.kept_since

    def last_written(self, time: float) -> int | None:
        """Return the last txid that was written at or before a time; see `trident_state.store.Dated`."""
        version = self._last()
        if version is None:
            return None
        txid = self._reads.past.txid_at(version.files, round(1000 * time), version.kept_since)
        return -1 if txid is None else txid

    def at(self, txid: int) -> PastReads:
        """Return the state as of a txid that is kept."""
        return PastReads(self._last, self._reads, self._ranges, self._columns, txid, self._where)

    def tags(self) -> tuple[StateTag, ...]:
        """Return the tags; see `trident_state.store.Tagging`."""
        version = self._last()
        return () if version is None else version.tags.tags

    def tag(self, tag: StateTag) -> None:
        """Keep a txid under a name; see `trident_state.store.Tagging`."""
        self._tagger.tag(tag)

    def untag(self, name: str) -> None:
        """Drop a tag; see `trident_state.store.Tagging`."""
        self._tagger.untag(name)

    def _tagged(self, version: TableVersion | None) -> TableVersion:
        return self._present(self._bound(version))

    # --- end -------------------------------------------------------------------------------------------------

    def drop(self, lease: Lease | None = None) -> None:
        with self._writing:
            version = self._table.look()
            if version is None:
                return
            self._check_ours(version)
            version = self._mark_dropped(version, lease)
            reach("delta.dropped")
            self._table.delete_files(version)
            self._forget(set())
            self._lease = None

    def _mark_dropped(self, version: TableVersion, lease: Lease | None) -> TableVersion:
        """Commit a version without files that marks the state as dropped. Return it, or the existing one."""
        for left in reversed(range(_TRIES)):
            if version.dropped:
                break
            if lease is not None:
                self._check_droppable(version, lease)
            held = version.lease if lease is None else lease
            try:
                merges = version.compactions + 1  # the files of a concurrent merge would remain in the table
                numbers = {DROPPED: 1, COMPACTIONS: merges, TAGS: 0, **lease_numbers(held)}
                becomes = {"dropped": True, "compactions": merges, "lease": held, "tags": NO_TAGS}
                return self._table.commit(version, numbers, becomes, everything=True)
            except MovedError:
                moved = self._table.look()
                if not left or moved is None:
                    raise
                version = moved
        return version

    def _check_droppable(self, version: TableVersion, lease: Lease) -> None:
        # `dropState` opens the state by name, and does not know the log.
        if self._identity.log not in ("", version.identity.log):
            raise LogMismatchError(f"{self._where} belongs to another log, {version.identity.log}: it was not dropped")
        check_newest(self._where, version.lease, lease)

    def leave(self) -> None:
        """Refuse further versions. A run calls this at its end if a write has not returned."""
        self._leaving = True

    def close(self) -> None:
        """Stop the upkeep, and release cached files. No file stays open between reads."""
        self.upkeep.stop()
        self._forget(set())

    # --- checks ----------------------------------------------------------------------------------------------

    def _present(self, version: TableVersion | None) -> TableVersion:
        if version is None or version.dropped:
            raise StateBehindError(f"{self._where}: its table does not contain this state (any longer)", -1)
        self._check_ours(version)
        return version

    def _check_ours(self, version: TableVersion) -> None:
        held = version.identity
        if (held.topology, held.name) != (self._identity.topology, self._identity.name):
            raise StateOwnedError(
                f"{self._where}: its table holds state {held.name!r} of topology {held.topology!r}; nothing was "
                "changed. Use another url for the state"
            )

    @contextmanager
    def _checking(self, version: TableVersion | None) -> Iterator[None]:
        """Raise SnapshotMovedError if a file is missing because the version was replaced long ago."""
        try:
            yield
        except MissingFileError as error:
            now = self._table.look()
            if now is not None and version is not None and now.version == version.version:
                raise
            raise SnapshotMovedError(f"{self._where}: files were replaced during the read ({error})") from error
