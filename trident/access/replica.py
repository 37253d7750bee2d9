"""A copy of another driver's state in memory, made from that driver's last snapshot and the log's batches."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.errors import (
    LogError,
    StateEndedError,
    StateError,
    StateLostError,
    StateNotFollowedError,
    StateShapeError,
)
from trident.base.forked_child import in_child
from trident.configuration.settings import STATES
from trident.files.store import FileStore
from trident.log.batch_digest import batch_digest, is_other_batch
from trident.log.frozen_batches import FrozenBatches
from trident.log.protocol import LogAbsentError, LogReading
from trident.operations.aggregator_names import bundle_names
from trident.reads.previous_reads import txid_before
from trident_state.few_keys import Key
from trident_state.fingerprint import Fingerprint, read_fingerprint
from trident_state.key_order import KeyRange
from trident_state.memory import MemoryStore
from trident_state.memory.segments import Manifest, read_manifest
from trident_state.memory.store import Pace
from trident_state.state_parts import Part
from trident_state.state_shape import Combine, StateShape
from trident_state.store import scan_part
from trident_state.store_messages import FewFound, Found


class _Incarnation(NamedTuple):
    """The identity of one incarnation of a state: the uuid of its log, and the txid and epoch of its birth."""

    log: str
    birth: int
    epoch: int


_NEVER = Pace(bytes=1 << 62, seconds=math.inf, batches=1 << 62)
_TRIES = 20


class MemoryReplica:
    """A copy of the state in this process. `committed` brings the copy up to the driver's last committed batch.

    A replica writes nothing: no lease, no snapshot, no file. `files` is the store of the topology's files. `combine`
    combines a batch's value with the stored value. It is None if only the driver's code can do that; then the state can
    be read up to its last snapshot. Any thread may call.

    A replica belongs to one incarnation of the state, and to one history of its log. After the state was dropped, its
    topology reset, or its log restored from an older copy, every call raises a StateError, even if a new state exists
    by then: a reader that continued would see counts fall, and a copy must not apply a batch of another history.
    """

    def __init__(self, log: LogReading, files: FileStore, state: str, combine: Combine | None) -> None:
        self._log, self._files, self._state, self._combine = log, files, state, combine
        self._lock = threading.Lock()
        self._text: bytes | None = None
        self._store: MemoryStore | None = None
        self._marker = -1
        self._digest: str | None = None
        """The digest of the batch at the marker; None if the log did not keep it."""
        self._reached = -1
        """The last txid that the log was seen to have committed."""
        self._lease: Lease | None = None
        self._over: StateEndedError | None = None
        self._ended = False
        self._past: tuple[int, MemoryReplica] | None = None
        self._incarnation: _Incarnation | None = None
        self._group, self.first, self._earliest = "", 0, 0
        self._text, self.manifest = self._read_manifest()
        in_child(self, MemoryReplica._begin_again)

    def _begin_again(self) -> None:
        """Drop the copy in a forked child, because a thread of the parent may have been changing it."""
        if self._lock.locked():
            self._store = self._past = self._digest = None
            self._lock = threading.Lock()

    @property
    def fingerprint(self) -> Fingerprint:
        """The key fields, value type and aggregator of the state."""
        return read_fingerprint(self.manifest.fingerprint)

    def committed(self) -> int:
        """Bring the copy up to the last committed batch, and return its txid.

        Raises StateError if the state was dropped or reset, StateLostError if a snapshot's file or a batch is gone, and
        StateShapeError if only the driver's code could apply the next batch.
        """
        return self.follow(None)

    def reachable(self) -> int:
        """Return the last txid that the log has committed. `follow` can update the copy up to that batch.

        Raises StateEndedError if the log was rewound.
        """
        last = self._log.last_committed(self._group)
        if last < self._reached:
            raise self._restored(f"is at txid {last}, but was at {self._reached}")
        self._reached = last
        return last

    def check(self) -> None:
        """Raise StateEndedError if the state was dropped, or if the log's batch is not the one that was applied."""
        with self._lock, self._with_log():
            self.reachable()
            self._check_history()
            self._read_manifest()

    def follow(self, upTo: int | None) -> int:
        """Update the copy up to the batch `upTo`, which must be committed, and return the copy's txid; see `committed`.

        If `upTo` is None, update the copy up to the last committed batch.

        The copy may get a later batch than `upTo` if it must begin again from a newer snapshot.
        """
        with self._lock, self._with_log():
            for _ in range(_TRIES):
                with self._log.at_once():
                    error = self._advance(upTo)
                    before = self._text
                    # The manifest is read after the batches. If it belongs to this incarnation, the batches belonged to
                    # it, too.
                    self._text, self.manifest = self._read_manifest()
                if error is None:
                    return self._marker
                if isinstance(error, StateEndedError):
                    raise error
                behind = self._store is not None and self._marker < self.manifest.txid
                if self._text == before and not behind:  # there is no newer snapshot that explains the error
                    raise error
                self._store = None
            raise StateLostError(
                f"state {self._state!r}: its driver replaced its snapshot {_TRIES} times during the read"
            )

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        return self._loaded().read(keys, asOf)

    def read_few(self, keys: Sequence[Key], asOf: int | None) -> FewFound | None:
        return self._loaded().read_few(keys, asOf)

    def has_order(self) -> bool:
        return True

    def read_ranges(self, ranges: Sequence[KeyRange], most: int | None, asOf: int | None) -> list[pa.Table]:
        return self._loaded().read_ranges(ranges, most, asOf)

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        return self._loaded().scan(asOf, pageRows)

    @property
    def incarnation(self) -> object:
        return self._incarnation

    def newest(self) -> int:
        """Return the last txid that the log has committed, without making the copy."""
        with self._lock, self._with_log():
            return self.reachable()

    def reach(self, txid: int) -> int:
        """Update the copy up to the batch `txid`, or further if its snapshot is newer.

        Return `txid`, or the last batch that changed the state if that is an earlier one.
        """
        return min(txid, self.follow(txid))

    def commit_time(self, txid: int) -> float | None:
        """Return when a batch was committed; see `LogReading.commit_time`."""
        return self._log.commit_time(self._group, txid)

    def kept_since(self) -> int:
        """Return the first txid as of which the state can be read, the one before its last snapshot.

        If the state began later, it is the txid of its birth.
        """
        return max(txid_before(self._read_manifest()[1].txid), self._earliest)

    def at(self, txid: int) -> "MemoryReplica":
        """Return another copy, which stays at the batch `txid`. Only the last such copy is kept."""
        with self._lock:
            if self._past is None or self._past[0] != txid:
                past = MemoryReplica(self._log, self._files, self._state, self._combine)
                if past.incarnation != self.incarnation:
                    raise self._dropped(f"state {self._state!r} was dropped while it was open: open it again")
                past.follow(txid)
                self._past = txid, past
            return self._past[1]

    def parts(self) -> int:
        """Return 1: each process that reads a part would make a copy of the whole state."""
        return 1

    def scan_part(self, asOf: int | None, part: Part) -> Iterator[pa.Table]:
        return scan_part(self._loaded(), asOf, part)

    def close(self) -> None:
        """Forget the copy and close the log."""
        self._store = self._past = None
        self._log.close()

    # --- following the driver ----------------------------------------------------------------------------------

    def _loaded(self) -> MemoryStore:
        if self._store is None:
            self.committed()
        assert self._store is not None
        return self._store

    def _advance(self, upTo: int | None) -> StateError | LogError | None:
        """Apply the batches that were committed since the last call, up to `upTo` if it is given.

        Return the error if files or batches are gone.

        The caller interprets the error: a newer snapshot, or another incarnation of the state, may have replaced the
        files and batches meanwhile.
        """
        try:
            reachable = self.reachable()
            last = reachable if upTo is None else upTo
            self._check_history()
            if self._store is None:
                self._store = self._load()
            for txid in range(self._marker + 1, last + 1):
                if self._ended:
                    break
                if (error := self._apply(self._store, txid)) is not None:
                    return error
        except (StateError, LogError) as error:
            return error
        except Exception as error:  # an error of user code; the copy has all earlier batches
            raise StateNotFollowedError(
                f"state {self._state!r} cannot follow its driver after txid {self._marker}, so its values become "
                f"stale: {type(error).__name__}: {error}. This is retried; if it persists, give this process the "
                "code, packages and files of the driver, and open the state again"
            ) from error
        return None

    def _load(self) -> MemoryStore:
        fingerprint, manifest = self.fingerprint, self.manifest
        combine = self._combine or Combine(fingerprint.aggregator, _unknown)
        shape = StateShape(fingerprint.keys, fingerprint.value, combine)
        home = _Home(self._files.below(f"{STATES}/{self._state}"), lambda: self._text)
        store = MemoryStore(manifest.identity, shape, manifest.kind, home, pace=_NEVER, ttl=manifest.ttl)
        # The store loads the snapshot's files at its first read. This read makes it load them now.
        store.read(fingerprint.keys.empty_table() if len(fingerprint.keys) else _ONE_ROW, None)
        self._marker, self._lease, self._ended = manifest.txid, manifest.lease, False
        self._digest = batch_digest(self._log, self._group, self._marker)
        return store

    @contextmanager
    def _with_log(self) -> Iterator[None]:
        """Raise StateEndedError in place of LogAbsentError: the topology was reset, or its checkpoint deleted."""
        try:
            yield
        except LogAbsentError as error:
            raise StateEndedError(
                f"state {self._state!r}: {error}: the topology was reset while the state was open; open the state "
                f"again once the topology has run"
            ) from error

    def _check_history(self) -> None:
        """Raise StateEndedError if the log was restored from a copy that is older than the batches read from it.

        The copy of the log may be older than the lease under which the state was loaded; then it never issued that
        lease. Or the lease is the same, and the log has another batch at the marker.
        """
        if self._over is not None:
            raise self._over
        if is_other_batch(self._log, self._group, self._marker, self._digest):
            raise self._restored(f"has another batch {self._marker} now")
        if self._store is None and self._lease is not None and not self._log.issued(self._lease):
            raise self._restored(f"has no driver of epoch {self._lease.epoch}, under which the state was loaded")

    def _restored(self, what: str) -> StateEndedError:
        return self._dropped(
            f"state {self._state!r}: its log {what}: it was restored from an older copy while the state was open, "
            f"and continues from there; open the state again"
        )

    def _apply(self, store: MemoryStore, txid: int) -> StateError | None:
        try:
            batches = FrozenBatches(self._log, self._group, self._files)
            result = batches.of_state(txid, self._state)
        except LookupError:
            return StateLostError(
                f"state {self._state!r}: its snapshot is at txid {self.manifest.txid}, and the log keeps only the "
                f"batches after {self._log.kept_since(self._group)}; restore the checkpoint from a copy"
            )
        if result is None:  # the program of this batch no longer had this state, so the state does not change any more
            self._ended = True
            return None
        if self._combine is None:
            aggregator = self.fingerprint.aggregator
            raise StateShapeError(
                f"state {self._state!r}: its snapshot is at txid {self._marker}, the log is at {txid} or further, "
                f"and only {aggregator} can combine a batch with a stored value: "
                f"give openState(..., aggregator={_written(aggregator)}), "
                f"or stop the topology, which takes a snapshot"
            )
        # Under the lease with which the copy was loaded: the snapshot of a later driver may be older than the copy.
        # Then the copy stays as it is.
        assert self._lease is not None
        store.apply(self._lease, batches.update(txid, result))
        self._marker, self._digest = txid, batch_digest(self._log, self._group, txid)
        return None

    def _read_manifest(self) -> tuple[bytes, Manifest]:
        """Return the current manifest, as bytes and parsed. Raises StateError if it belongs to another incarnation."""
        where, birth = f"state {self._state!r}", self._log.births().get(self._state)
        text = self._log.manifest(self._state) or None
        if self._incarnation is None and (birth is None or text is None):
            raise StateError(f"{where} has no snapshot in this log: it is not a state in memory")
        if birth is None or text is None:
            raise self._dropped(f"{where} was dropped while it was open")
        manifest = read_manifest(text, where)
        incarnation = _Incarnation(manifest.log, birth.txid, birth.epoch)
        if self._incarnation not in (None, incarnation):
            raise self._dropped(
                f"{where} was dropped while it was open, and recreated after txid {birth.txid}: open it again"
            )
        self._incarnation, self._group = incarnation, birth.group
        # Before that txid, the state had no values, or those of another shape or incarnation (guard "earlier txids,
        # another shape").
        self.first = birth.first
        self._earliest = birth.txid if birth.filled or birth.txid == 0 else birth.txid + 1
        return text, manifest

    def _dropped(self, message: str) -> StateEndedError:
        """Drop the copy, which may hold batches of another incarnation. Return a StateEndedError with this message."""
        self._store = None
        self._over = StateEndedError(message)
        return self._over


_ONE_ROW = pa.Table.from_batches([pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))])


def _written(aggregator: str) -> str:
    """Return Python code for one or several aggregators, from their name in the state's fingerprint."""
    names = bundle_names(aggregator)
    if names is None:
        return f"{aggregator.rpartition('.')[2]}()"
    members = ", ".join(f"{field!r}: {name.rpartition('.')[2]}()" for field, name in names.items())
    return f"{{{members}}}"


def _unknown(stored: object, delta: object) -> object:
    raise AssertionError("a state without a known combiner cannot apply a batch")


class _Home:
    """The read-only `Home` of a replica's store: the store of snapshot files, and the replica's manifest."""

    def __init__(self, files: FileStore, manifest: Callable[[], bytes | None]) -> None:
        self.files, self.manifest = files, manifest

    def publish(self, manifest: bytes, lease: Lease) -> None:
        raise AssertionError("a state that was opened for reading publishes no snapshot")
