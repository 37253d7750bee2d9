"""Snapshots of a memory state: choosing the entries of the next segment, publishing and loading.

Only entries that changed since the last snapshot are written, so that the cost grows with the changes and not with the
state. A new segment also includes, and replaces, the last segments before it that are not much larger than itself, so
that each segment holds more than twice the rows of the next segment. So there are few segments, and together they hold
at most about twice as many rows as the state has keys.
"""

import logging
from collections.abc import Iterator
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.attempt import Lease
from trident.base.clock import Clock
from trident.base.errors import FencedError, StateOwnedError, StateShapeError
from trident.files.store import FileStore
from trident_state.binary_arrays import in_halves
from trident_state.expiry import Expiry
from trident_state.fingerprint import shown_shapes
from trident_state.keys import hash_keys
from trident_state.memory.entries import Cells, Column, Entries, Triples
from trident_state.memory.key_index import Keys, Slots
from trident_state.memory.segments import (
    FORMAT,
    Manifest,
    Segment,
    delete_segments,
    read_manifest,
    read_segment,
    unnamed_segments,
    write_segment,
)
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home

_log = logging.getLogger("trident.state")

_ROWS, _BYTES = 65_536, 8 * 2**20
"""The most entries in a record batch of a segment, and about the most bytes of entries.

It is so small that no call into Arrow takes long, and that the copies of its values take little memory.
"""


class Cut(msgspec.Struct, frozen=True):
    """A copy of the entries that changed after batch `since`, as of batch `txid`."""

    lease: Lease
    txid: int
    since: int
    keys: Keys
    slots: Slots
    triples: Triples
    column: Column
    expiry: Expiry
    entry_bytes: int
    """The estimated mean of the bytes of an entry."""


class Snapshots:
    """The snapshots of one state: its segments and its manifest. One thread at a time calls it."""

    def __init__(
        self,
        home: Home,
        identity: StateIdentity,
        shape: StateShape,
        kind: StateKind,
        clock: Clock,
        where: str,
        ttl: float | None = None,
    ) -> None:
        self._home, self._identity, self._shape, self._kind = home, identity, shape, kind
        self._clock, self._where, self._ttl = clock, where, ttl
        self._text: bytes | None = None
        self._manifest: Manifest | None = None
        self._last = clock.monotonic()

    @property
    def files(self) -> FileStore | None:
        return self._home.files

    @property
    def manifest(self) -> Manifest | None:
        """The last manifest that this object published or read; None if there was none."""
        return self._manifest

    def refresh(self) -> bool:
        """Read the manifest again, and return whether it has changed. An empty manifest counts as no manifest."""
        text = (self._home.manifest() if self.files is not None else None) or None
        if text == self._text:
            return False
        self._manifest = read_manifest(text, self._where) if text else None
        self._text = text
        return True

    def seconds_since_last(self) -> float:
        """Return the seconds since a snapshot was last published or loaded, or since an attempt last failed."""
        return self._clock.monotonic() - self._last

    def postpone(self) -> None:
        """Make `seconds_since_last` count from now, because a snapshot failed."""
        self._last = self._clock.monotonic()

    def create_manifest(self, lease: Lease, birth: int) -> None:
        """Publish the manifest of an empty state that begins after txid `birth`.

        Do nothing if the state has no folder for files.
        """
        if self.files is not None:
            self._publish(lease, birth, (), Expiry())

    def delete(self, lease: Lease | None) -> None:
        """Delete every segment of this state, and before that the manifest if `lease` is not None.

        Without a lease the manifest stays until the log is deleted, and names missing files. Raises FencedError, and
        deletes nothing, if `lease` is not in force.
        """
        if self.files is None:
            return
        if lease is not None:
            self._home.publish(b"", lease)
        self._manifest, self._text = None, self._home.manifest() or None
        delete_segments(self.files, unnamed_segments(self.files, None, self._identity.log, None))
        self.files.remove_empty()

    @property
    def _replaces(self) -> bool:
        return self._shape.combine.native == "put"

    def publish_rules(self, lease: Lease) -> None:
        """Publish the manifest again with the rules by which this driver applies batches, if they differ.

        The rules are the time to live, and whether values replace the stored values.
        """
        manifest, ours = self._manifest, (self._ttl, self._replaces)
        if self.files is not None and manifest is not None and (manifest.ttl, manifest.replaces) != ours:
            self._publish(lease, manifest.txid, manifest.segments, manifest.expiry)

    def delete_strays(self, lease: Lease) -> None:
        """Delete the segments that drivers before `lease` wrote for this log and that no manifest names."""
        if self.files is not None:
            delete_segments(self.files, unnamed_segments(self.files, self._manifest, self._identity.log, lease.epoch))

    # --- writing ---------------------------------------------------------------------------------------------

    def since(self, entries: Entries) -> int:
        """Return the txid after which an entry must have changed to be part of the next segment.

        It is the txid before the segments that the next segment replaces. These are the last segments that are at most
        twice as large as all that comes after them, and all segments from the first damaged file on, which must be
        rewritten.
        """
        assert self._manifest is not None
        since, rows = self._manifest.txid, len(entries.changed(self._manifest.txid))
        gone = min((segment.since for segment in self._manifest.segments if not self._intact(segment)), default=since)
        for segment in reversed(self._manifest.segments):
            if segment.since < gone and (rows == 0 or segment.rows > 2 * rows):
                break
            since, rows = segment.since, rows + segment.rows
        return since

    def _intact(self, segment: Segment) -> bool:
        """Return whether the file of a segment has its full size. If not, log that its entries are written again."""
        assert self.files is not None
        intact = self.files.size(segment.name) == segment.bytes
        if not intact:
            _log.warning(
                "%s: file %s of the snapshot was removed or truncated; the state writes it again",
                self._where,
                segment.name,
            )
        return intact

    def base_txid(self) -> int:
        """Return the txid up to which the first segment holds the whole state.

        Without segments (the state is empty) it is the manifest's txid; without a manifest it is -1.
        """
        manifest = self._manifest
        if manifest is None:
            return -1
        return manifest.segments[0].txid if manifest.segments else manifest.txid

    def incomplete(self) -> bool:
        """Return whether a file that the manifest names is missing, or does not have its full size."""
        named = self._manifest.segments if self._manifest is not None and self.files is not None else ()
        return not all(map(self._intact, named))

    def write(self, cut: Cut) -> None:
        """Write the cut as a segment, publish a manifest that names it, and delete the segments that it replaces.

        A cut without entries makes no segment, only a new manifest.
        """
        assert self._manifest is not None and self.files is not None
        before = self._manifest.segments
        kept = tuple(segment for segment in before if segment.txid <= cut.since)
        if not len(cut.slots):
            self._publish(cut.lease, cut.txid, kept, cut.expiry)
        else:
            segment = write_segment(self.files, self._identity.log, cut.lease, cut.since, cut.txid, _batches(cut))
            try:
                self._publish(cut.lease, cut.txid, (*kept, segment), cut.expiry)
            except FencedError:  # after any other error the manifest may have been published, and the file must stay
                delete_segments(self.files, [segment.name])
                raise
        delete_segments(self.files, (former.name for former in before if former not in kept))

    def _publish(self, lease: Lease, txid: int, segments: tuple[Segment, ...], expiry: Expiry) -> None:
        identity = self._identity
        manifest = Manifest(
            FORMAT,
            identity.topology,
            identity.name,
            identity.log,
            self._shape.fingerprint,
            self._kind,
            lease.epoch,
            lease.token,
            txid,
            segments,
            expiry,
            self._ttl,
            replaces=self._replaces,
        )
        text = manifest.encoded()
        self._home.publish(text, lease)
        self._manifest, self._text = manifest, text
        self._last = self._clock.monotonic()

    # --- reading ---------------------------------------------------------------------------------------------

    def load(self) -> Entries:
        """Return the entries in the segments that the manifest names; no entries without a manifest.

        Raises StateOwnedError if the snapshot is that of another state, and StateShapeError if it has another shape or
        kind.
        """
        entries = Entries(self._shape.value, self._kind)
        if self._manifest is None or self.files is None:
            return entries
        self._check_ours(self._manifest)
        schema = _schema(self._shape.value, entries.versioned)
        for segment in self._manifest.segments:
            for batch in read_segment(self.files, segment, schema, self._where):
                _restore(entries, batch, self._manifest.expiry.before)
        self._last = self._clock.monotonic()
        return entries

    def _check_ours(self, manifest: Manifest) -> None:
        if manifest.identity != self._identity:
            raise StateOwnedError(
                f"{self._where}: expected a snapshot of {self._identity}, got one of {manifest.identity}"
            )
        if not self._shape.fits(manifest.fingerprint) or manifest.kind is not self._kind:
            held, declared = shown_shapes(manifest.fingerprint, self._shape.fingerprint)
            raise StateShapeError(
                f"{self._where}: its snapshot has {manifest.kind.value} {held}, but the topology declares "
                f"{self._kind.value} {declared}"
            )


@lru_cache
def _schema(value: pa.DataType, versioned: bool) -> pa.Schema:
    fields = [("key", pa.binary()), ("txid", pa.int64()), ("value", value)]
    return pa.schema([*fields, ("prev", value)] if versioned else fields)


def _batches(cut: Cut) -> Iterator[pa.RecordBatch]:
    schema = _schema(cut.column.kind, cut.triples.prevs is not None)

    def batch(rows: slice) -> pa.RecordBatch:
        triples, keys = cut.triples[rows], cut.keys.stored.take(cut.slots[rows])
        cells = [triples.values] if triples.prevs is None else [triples.values, triples.prevs]
        columns = [keys, pa.array(triples.txids), *(cut.column.unpack(column) for column in cells)]
        return pa.record_batch(columns, schema=schema)

    rows = min(_ROWS, max(1, _BYTES // cut.entry_bytes))
    for at in range(0, len(cut.slots), rows):
        yield from in_halves(batch, at, min(at + rows, len(cut.slots)))


def _restore(entries: Entries, batch: pa.RecordBatch, expired: int) -> None:
    """Put the rows of a segment into `entries`. Rows of batch `expired` and earlier have expired, and are left out."""
    if expired > 0:
        batch = batch.filter(pc.greater(batch.column("txid"), expired))
    keys, txids, *columns = batch.columns
    hashes = hash_keys(keys)
    slots = entries.index.keys.find(keys, hashes)
    before = entries.take(slots)
    new = slots < 0
    slots[new] = entries.insert(keys.filter(pa.array(new)), hashes[new])
    cells: list[Cells] = [entries.value.pack(column) for column in columns]
    after = Triples(np.asarray(txids), cells[0], cells[1] if entries.versioned else None)
    entries.account(before, after)
    entries.put(slots, after)
