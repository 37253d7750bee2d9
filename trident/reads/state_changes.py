"""The changes of a state after a txid: the keys that the log's batches changed, with their values as of a later batch.

The log keeps a batch's additions to each key, not the key's new value; the store keeps the values as of its last two
batches. So the exact change after txid n consists of the keys that batches n + 1 to m changed, each with its value as
of m, where m is the last committed batch. A change covers one batch as long as its reader keeps up, and several if the
reader is late. Why: ``docs/decisions/0033-a-change-may-cover-several-batches.md``.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import (
    ChangesMissedError,
    LogError,
    SnapshotMovedError,
    StateEndedError,
    StateError,
)
from trident.files.store import FileStore
from trident.log.batch_digest import batch_digest, is_other_batch
from trident.log.frozen_batches import FrozenBatches, keys_and_values
from trident.log.frozen_results import ttl_of
from trident.log.protocol import Birth, LogReading
from trident.reads.committed_reads import FREE_ROWS, ReadSource, Snapshot, read_consistently
from trident.reads.state_view import StateView
from trident_state.keys import encode_keys
from trident_state.state_shape import StateKind
from trident_state.store import Paged, StateFactory, ttl_of_factory

_COLLECTED_ROWS = 200_000
"""The number of rows of keys after which repeated keys are dropped."""


def expires(factory: StateFactory) -> bool:
    """Return whether the values of a state expire (``ttlSecs=``)."""
    return ttl_of_factory(factory) is not None


class Position(NamedTuple):
    """A position in the changes of a state: the state's incarnation (`life`; None: the current one), and a txid.

    A state that was dropped or reset begins a new incarnation, in which the same txids mean other batches. The same
    happens within one incarnation after a log was restored from an older copy, so `digest` identifies the batch (None:
    not known).
    """

    life: str | None
    txid: int
    digest: str | None = None

    def __str__(self) -> str:
        if self.life is None:
            return f"{self.txid}"
        return f"{self.life}{'' if self.digest is None else f'.{self.digest}'}-{self.txid}"

    @classmethod
    def read(cls, text: str) -> "Position":
        """Return the position that a text describes. Raises ValueError if it does not describe a position.

        >>> Position.read("6f1c-1-0.5be2-12"), str(Position.read("12"))
        (Position(life='6f1c-1-0', txid=12, digest='5be2'), '12')
        """
        head, dash, txid = text.rpartition("-")
        named = not dash or (head != "" and not head.startswith("-"))  # neither "-1" nor "--1" is a position
        if not named or not (txid.isascii() and txid.isdecimal() and len(txid) < 19):
            raise ValueError(text)
        life, _, digest = head.partition(".")
        return cls(life or None, int(txid), digest or None)


@dataclass(frozen=True, slots=True)
class Change:
    """A part of the changes of a state after the txid `after`, up to `txid`.

    `entries`: key fields and values, as the state's `toArrow` shows them. `removed`: the keys that have no value any
    more. A part that is not the `last` of its change is exact only together with the following parts: a later part
    replaces the values of an earlier part. `snapshot`: the parts hold the whole state, and replace a reader's earlier
    values. `digest`: the digest of the batch `txid`, in the last part.
    """

    after: int
    txid: int
    entries: pa.Table
    removed: pa.Table
    last: bool = True
    snapshot: bool = False
    digest: str | None = None

    @property
    def empty(self) -> bool:
        """Return whether the batches changed nothing."""
        return not (self.entries.num_rows or self.removed.num_rows)


class StateChanges:
    """The changes of one state. Any thread may call. The object keeps no data between calls."""

    def __init__(
        self, source: ReadSource, view: StateView, log: LogReading, files: FileStore, passing: bool = False
    ) -> None:
        """Read through `source` and `view`.

        `files` is the store that contains the folders of large results.

        Raises StateError for a non-transactional state, whose values have no txid, and for a state whose values expire
        (`passing`).
        """
        self._source, self._view, self._log, self._files = source, view, log, files
        self._where = f"state {view.name!r}"
        if view.kind is StateKind.NON_TRANSACTIONAL:
            raise StateError(
                f"{self._where} is nonTransactional: its values have no txid, so the changes after a txid are "
                f"unknown; declare it opaque or transactional, or read it with GET /state/{view.name}"
            )
        if passing:
            raise self._expires()

    # --- positions --------------------------------------------------------------------------------------------------

    @property
    def group(self) -> str:
        """The batch group of the txids that the changes name."""
        return self._source.group_of(self._view.name)

    def committed(self) -> int:
        """Return the last committed txid, as a read sees it now."""
        self._source.check()
        return self._source.committed(self.group)

    def begin(self, after: Position | None) -> Position:
        """Return a reader's position (`after`, or the last committed batch) with the state's incarnation.

        Raises StateEndedError if the position is in another incarnation of the state, or after all batches ever frozen.
        """
        life, birth = self._life()
        if after is None:
            txid = max(self.committed(), birth.txid)
            return Position(life, txid, batch_digest(self._log, birth.group, txid))
        if after.life not in (None, life) or after.txid < birth.txid:
            raise self._ended(f"was recreated after txid {birth.txid}", str(after))
        frozen = self._log.history(birth.group).last_frozen
        if after.txid > frozen:
            raise self._ended(f"is at txid {frozen}: its log is an older copy, or a new log", str(after))
        self._check_batch(after)
        return Position(life, after.txid, after.digest)

    def _life(self) -> tuple[str, Birth]:
        birth = self._log.births().get(self._view.name)
        if birth is None:
            raise StateEndedError(f"{self._where} was dropped")
        return f"{self._log.uuid.replace('-', '')[:12]}-{birth.epoch}-{birth.txid}", birth

    def _check_life(self, life: str | None) -> None:
        """Raise StateEndedError if the data read may belong to another incarnation of the state than `life`."""
        now, birth = self._life()
        if now != life:
            raise self._ended(f"was recreated after txid {birth.txid}", f"{life}")

    def _check_batch(self, place: Position) -> None:
        """Raise StateEndedError if the log's batch at a position is not the one that the reader has read."""
        if is_other_batch(self._log, self.group, place.txid, place.digest):
            what = f"now has another batch {place.txid}: its log was restored from an older copy and continued"
            raise self._ended(what, str(place))

    def _ended(self, what: str, place: str) -> StateEndedError:
        return StateEndedError(
            f"{self._where} {what}, and the reader's position ({place}) is from before that: the reader's values are "
            f"no longer valid; start again with a snapshot"
        )

    # --- changes -------------------------------------------------------------------------------------------------

    def after(self, place: Position) -> Iterator[Change]:
        """Yield the changes after `place` as one change: one part, or several parts if many keys changed.

        The caller must know that a later batch is committed.

        Raises
        ------
        ChangesMissedError
            The log no longer keeps a batch after the position.
        StateEndedError
            The state was dropped or reset.
        StateRecoveringError, StateUnavailableError, SnapshotMovedError
            The changes cannot be read now; call again later.
        """
        self._check_batch(place)
        yield from self._parts(place.life, place.txid, self._keys(place.txid, self.committed()), False)

    def snapshot(self) -> Iterator[Change]:
        """Yield the whole state as one change. Pass its txid to `after` to continue without a gap."""
        life, birth = self._life()
        low = reached = max(self.committed(), birth.txid)
        store, first = self._source.store(self._view.name), low
        paged = getattr(store, "paged", store)
        if isinstance(paged, Paged):
            # Each page is as of a separate txid, at least `low`. The keys that changed since `low` follow, as of one
            # txid.
            for txid, page in paged.scan_by_page(low):
                # A page shows only this store, which may have a batch that another state of the group still lacks
                # (guard "feed, snapshot"). Keys of that batch are sent once more, as of the committed batch.
                reached = max(reached, txid)
                if page.num_rows:
                    yield self._change(first, txid, *self._split(page), last=False, snapshot=True)
        else:
            table = self._view.toArrow()
            low = reached = int((table.schema.metadata or {})[b"asOfTxid"])
            for part in _pieces(table):
                yield Change(first, low, part, self._no_keys, False, True)
        yield from self._parts(life, first, self._keys(low, max(reached, self.committed())), True)

    def _parts(self, life: str | None, after: int, keys: "_Keys", snapshot: bool) -> Iterator[Change]:
        """Yield the parts of a change after txid `after`: the values of `keys`, and of keys that change meanwhile."""
        while True:
            try:
                txid, keys, values = self._values(keys)
            except SnapshotMovedError:
                if keys.keys.num_rows <= FREE_ROWS:
                    raise
                # The writer is not held back, and may commit faster than so many keys can be read. So they are read
                # piece by piece, each piece as of a separate txid; the keys that have changed since then follow.
                self._check_life(life)
                least = keys.upTo
                for at in range(0, keys.keys.num_rows, FREE_ROWS):
                    piece = keys.keys.slice(at, FREE_ROWS)
                    values, txid = self._read(piece)
                    least = min(least, txid)
                    self._check_life(life)
                    yield self._change(after, txid, piece, values, last=False, snapshot=snapshot)
                keys = self._keys(least, self.committed())
                continue
            # Checked after the read: if the state had been dropped before it, another incarnation would be sent as this
            # one (guard "feed, life").
            self._check_life(life)
            entries, removed = self._shown(keys.keys, values)
            pieces = _pieces(entries)
            for part in pieces[:-1]:
                yield Change(after, txid, part, self._no_keys, False, snapshot)
            digest = batch_digest(self._log, self.group, txid)
            yield Change(after, txid, pieces[-1], removed, True, snapshot, digest)
            return

    def _values(self, keys: "_Keys") -> tuple[int, "_Keys", pa.Array]:
        """Return the txid of a read, the keys that changed up to this txid, and their values, all as of this txid."""

        def read(snapshot: Snapshot) -> tuple[int, _Keys, pa.Array]:
            txid = snapshot.txid(self._view.name)
            assert txid is not None
            # The values are as of this txid, so the keys must be all keys that changed up to it, including changes
            # committed since the keys were collected (guard "feed, keys up to the read").
            changed = keys.joined(self._keys(keys.upTo, txid)) if txid > keys.upTo else keys
            if not changed.keys.num_rows:
                return txid, changed, pa.nulls(0, self._view.valueType)
            return txid, changed, snapshot.read(self._view.name, changed.keys).values

        return read_consistently(self._source, [self._view.name], read, large=keys.keys.num_rows > FREE_ROWS)

    def _read(self, keys: pa.Table) -> tuple[pa.Array, int]:
        def read(snapshot: Snapshot) -> tuple[pa.Array, int]:
            txid = snapshot.txid(self._view.name)
            assert txid is not None
            return snapshot.read(self._view.name, keys).values, txid

        return read_consistently(self._source, [self._view.name], read)

    def _keys(self, after: int, upTo: int) -> "_Keys":
        """Return the keys that the batches after a txid changed, each once.

        Raises ChangesMissedError if the log no longer has all of these batches.
        """
        _, birth = self._life()
        batches = FrozenBatches(self._log, birth.group, self._files)
        found = _Keys(self._no_keys, after)
        tables, rows = list[pa.Table](), 0
        for txid in range(after + 1, upTo + 1):
            try:
                result = batches.of_state(txid, self._view.name)
                if result is None:  # the program that froze the batch did not have the state
                    continue
                if not math.isinf(ttl_of(result)):
                    raise self._expires()
                table, _ = keys_and_values(batches.whole(result))
            except (LookupError, LogError, OSError):
                # The files of large results are deleted with their batches. Only the log shows whether this batch was
                # dropped.
                kept = self._log.kept_since(birth.group)
                if txid <= kept:
                    raise self._missed(after, kept) from None
                raise
            tables.append(table.replace_schema_metadata(None))
            rows += table.num_rows
            if rows > _COLLECTED_ROWS:
                found, tables, rows = found.joined(_Keys.of(self._view.keyFields, tables, txid)), [], 0
        return replace(found.joined(_Keys.of(self._view.keyFields, tables, upTo)), upTo=max(after, upTo))

    def _missed(self, after: int, kept: int) -> ChangesMissedError:
        return ChangesMissedError(
            f"{self._where}: the log keeps only the batches after txid {kept}, but a reader at txid {after} needs "
            f"earlier ones: start again with a snapshot (a larger rewindBytes= keeps more)",
            after + 1,
            kept,
        )

    def _expires(self) -> StateError:
        return StateError(
            f"{self._where} has ttlSecs: its values expire without a batch, so their changes are unknown; read it "
            f"with GET /state/{self._view.name}"
        )

    # --- values as readers see them ------------------------------------------------------------------------------

    @property
    def _no_keys(self) -> pa.Table:
        return self._view.keyFields.empty_table()

    def _split(self, page: pa.Table) -> tuple[pa.Table, pa.Array]:
        values = page.column(page.num_columns - 1).combine_chunks()
        return page.select(self._view.keyFields.names), values

    def _change(self, after: int, txid: int, keys: pa.Table, values: pa.Array, *, last: bool, snapshot: bool) -> Change:
        entries, removed = self._shown(keys, values)
        return Change(after, txid, entries, removed, last, snapshot)

    def _shown(self, keys: pa.Table, values: pa.Array) -> tuple[pa.Table, pa.Table]:
        """Return the entries with a value, and the keys without a value. A stored null counts as no value."""
        there = pc.is_valid(values)
        return self._view.shown(keys.filter(there), values.filter(there)), keys.filter(pc.invert(there))


@dataclass(frozen=True, slots=True)
class _Keys:
    """Keys that changed in some batches up to `upTo`, each once."""

    keys: pa.Table
    upTo: int

    @classmethod
    def of(cls, fields: pa.Schema, tables: list[pa.Table], upTo: int) -> "_Keys":
        if not tables:
            return cls(fields.empty_table(), upTo)
        if not len(fields):  # a state of one value: its key has no column, only rows
            return cls(max(tables, key=lambda table: table.num_rows).slice(0, 1), upTo)
        joined = pa.concat_tables([table.rename_columns(fields.names) for table in tables])
        encoded = pa.table({"key": encode_keys(joined), "row": pa.array(range(joined.num_rows), pa.int64())})
        rows = encoded.group_by("key").aggregate([("row", "min")]).column("row_min")
        return cls(joined.take(rows), upTo)

    def joined(self, later: "_Keys") -> "_Keys":
        """Return the keys of `self` and of `later`, each once."""
        if not later.keys.num_rows:
            return replace(self, upTo=later.upTo)
        if not self.keys.num_rows:
            return later
        return _Keys.of(later.keys.schema, [self.keys, later.keys], later.upTo)


def _pieces(table: pa.Table) -> list[pa.Table]:
    return [table.slice(at, FREE_ROWS) for at in range(0, max(1, table.num_rows), FREE_ROWS)]
