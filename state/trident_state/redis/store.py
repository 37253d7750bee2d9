"""RedisStore: the store of a state in Redis."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.attempt import Lease
from trident.base.errors import SnapshotMovedError, StateError, StateUnavailableError
from trident.base.redis_address import Address
from trident_state.binary_arrays import concatenate, in_halves, spread_rows
from trident_state.expiry import Expiry
from trident_state.few_keys import Key, key_encoder
from trident_state.incarnation import Incarnation
from trident_state.keys import check_key_types, encode_checked_keys
from trident_state.records.forms import ValueForm, records_of
from trident_state.redis.cluster import Servers
from trident_state.redis.command_routing import Link, Links
from trident_state.redis.dead_keys import CLEAR_KEYS, SWEEP_CALLS, ExpiredValues, RemovedKeys
from trident_state.redis.due_index import BatchBegunError, DueIndex
from trident_state.redis.key_ownership import Inspector
from trident_state.redis.layout import Layout
from trident_state.redis.meta import Meta, identity_fields
from trident_state.redis.open_batch import OpenBatch, summed
from trident_state.redis.open_snapshot import OpenSnapshot
from trident_state.redis.placement import place_distinct_keys, place_keys
from trident_state.redis.reader import LayoutChanged, Reader
from trident_state.redis.script_errors import check_answer
from trident_state.redis.scripts import ACQUIRE, ALL, CREATE, DROP, SWEEP, Script
from trident_state.redis.server_check import check_server, parse_info
from trident_state.redis.wire import bulks, call, command
from trident_state.redis.writer import Task, Writer
from trident_state.state_parts import WHOLE, Part
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store_messages import Applied, FewFound, Found, GroupStatus, Put, StoreReport, Update
from trident_state.value_rules import check_reached
from trident_state.write_checks import check_update_types

_log = logging.getLogger("trident.state")

Result = TypeVar("Result")

_CLEARED_LATER = 4 * CLEAR_KEYS
"""The most removed keys that wait for the next `groups_of` to delete them. If there are more, a batch deletes some."""

_UNDIVIDED = 100_000
"""The most keys of a state whose scan is not divided into parts."""

_PART_ENTRIES = 250_000
"""The approximate number of keys in each part of a larger state."""


class RedisStore:
    """The store of a RedisMapState. `trident_state.store.Store` documents the promise of each method.

    One link writes and others read; no connection is opened before it is needed. Every write is a script that, in the
    same step, compares the lease and the txid with the group's meta hash. A thread holds the lock `_writing` while it
    uses the writer's link: in an `apply`, or in `groups_of` while that frees memory in the server.
    """

    isPrompt = False

    def __init__(
        self,
        identity: StateIdentity,
        shape: StateShape,
        kind: StateKind,
        address: Address,
        layout: Layout,
        form: ValueForm,
        ttl: float | None = None,
    ) -> None:
        check_key_types(shape.keys)
        self._encode_key = key_encoder(shape.keys)
        self._identity, self._shape, self._kind, self._form = identity, shape, kind, form
        self._where, self._address = f"state {identity.name!r}", address
        self._declared = layout
        self._stored_layout: Layout | None = None
        self._lease: Lease | None = None
        self._writing = threading.RLock()
        servers = Servers(address, self._where)
        scripts = ALL if ttl is None else (*ALL, SWEEP)
        self._link, self._links = Link(servers, scripts), Links(servers, address.socket_timeout)
        records = records_of(shape.value, form, bare=kind is StateKind.NON_TRANSACTIONAL)
        self._writer = Writer(self._link, self._where, shape, kind, records)
        self._reader = Reader(self._links, self._where, shape, kind, records)
        self._due = None if shape.due is None else DueIndex(self._where, shape, self._reader)
        self._ttl, self._expired = ttl, None if ttl is None else ExpiredValues(self._link, form, ttl)
        self._removed = RemovedKeys(self._link, records, form, kind is StateKind.NON_TRANSACTIONAL)
        self._expiries: dict[int, Expiry] | None = None
        """The state's expiry, last read or written, as of the marker of each group."""
        self.warnings: tuple[str, ...] = ()
        self._checked = False

    # --- start -----------------------------------------------------------------------------------------------

    def report(self) -> StoreReport:
        self.check_server()
        inspector = self._inspector()
        report = inspector.report()
        self._stored_layout = None if report.identity is None else inspector.layout
        return report

    def create(self, lease: Lease, birth: int) -> None:
        inspector = self._inspector()
        groups = inspector.report().groups  # refuses keys that are not the state's
        layout = inspector.layout
        fields = identity_fields(
            self._identity, self._shape.fingerprint, self._kind, self._form, layout.buckets, layout.groups
        )
        # the first group is created last: while it is missing, a report shows that the creation is incomplete
        last_first = list(reversed(range(layout.groups)))
        missing = [group for group in last_first if groups[group].marker is None] or last_first
        keys = [[layout.packed_metas[group]] for group in missing]
        if self._due is not None:
            keys = [[layout.packed_metas[group], layout.packed_dues[group]] for group in missing]
            fields += [b"due", b"%d" % birth, b"dues", b"0"]
        self._call_groups(CREATE, lease, birth, fields, keys)
        self._lease, self._stored_layout = lease, layout

    def acquire(self, lease: Lease) -> None:
        layout, metas = self._with_layout(self._reader.current_with_all_keys)
        self._call_groups(ACQUIRE, lease, 0, [self._identity.log.encode()], [[name] for name in layout.packed_metas])
        if self._due is not None and not self._due.is_complete(layout):
            text = "%s: the index of due times is incomplete (entries were removed)"
            _log.warning(text + "; it is rebuilt from the stored values", self._where)
            with self._writing:
                self._due.build(self._link, layout, metas, lease)
        self._lease, self._expiries = lease, self._expiries_of(metas)

    def check_server(self) -> tuple[str, ...]:
        """Refuse servers that cannot keep a state. Return warnings about settings that should be changed.

        The start of a run shows the warnings. If later checks find others, they are logged.
        """
        warnings: tuple[str, ...] = ()
        try:
            for server, info in self._links.everywhere(command(b"INFO")):
                warnings += check_server(parse_info(info), self._where, server.shown)
        except StateUnavailableError:  # for example, the server became a replica and another one is the master
            self._links.forget()
            raise
        if self._checked and warnings != self.warnings:
            for warning in warnings:
                _log.warning("%s", warning)
        self.warnings, self._checked = warnings, True
        return warnings

    def _call_groups(
        self, script: Script, lease: Lease, txid: int, args: list[bytes], keys: Iterable[list[bytes]]
    ) -> None:
        """Run a script for each of the groups named by `keys`. Then raise the error of the first that refused."""
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"%d" % txid)
        with self._writing:
            replies = self._link.call_scripts([call(script, names, *fence, *args) for names in keys])
        for reply in replies:
            check_answer(self._link, reply, lease, txid, self._where)

    # --- write -----------------------------------------------------------------------------------------------

    def apply(self, lease: Lease, update: Update, values: bool = False) -> Applied:
        check_update_types(self._where, self._shape, update)
        with self._writing:
            before, expiry = self._expiry_of(update)
            tasks = list[Task]()

            def write(rows: slice) -> Applied:
                whole = rows == slice(0, len(update.deltas))
                keys, deltas = update.part(rows)
                placed = place_distinct_keys(self._encoded(keys), self._layout(), self._where, update.txid)
                part = None if whole else rows.start
                task = Task(lease, update.txid, placed, placed.arranged(deltas), values, expiry, part)
                applied = self._write(task)
                tasks.append(task)
                return applied

            parts = list(in_halves(write, 0, len(update.deltas)))
            if len(parts) > 1:
                self._writer.commit(tasks[0], summed(task.counts for task in tasks))
            self._note_expiry(update.txid, before, expiry)
        written = sum(part.written for part in parts)
        after = concatenate([part.values for part in parts]) if values else None
        return Applied(after, written, len(update.deltas) - written)

    def open_batch(self, lease: Lease, update: Update) -> OpenBatch:
        """Open a batch in every group; see `trident_state.store.Shared`. `update` has the batch's time and no keys."""
        if self._kind is StateKind.NON_TRANSACTIONAL:
            raise StateError(
                f"{self._where}: only the driver may write a nonTransactional state: a repeated put would count twice"
            )
        with self._writing:
            _, expiry = self._expiry_of(update)
            none = place_keys(self._encoded(self._shape.keys.empty_table()), self._layout())
            deltas = pa.nulls(0, self._shape.value)
            task = Task(lease, update.txid, none, deltas, False, expiry, 0, frozenset())
            opened = self._writer.open(task)
        address, where, shape, layout = self._address, self._where, self._shape, none.layout
        return OpenBatch(
            address, where, shape, self._kind, self._form, layout, lease, None, update.txid, expiry, opened
        )

    def open_snapshot(self, asOf: int, time: float | None = None) -> OpenSnapshot:
        """Return the state as of a txid for other processes to read; see `trident_state.store.Shared`."""
        if self._kind is StateKind.NON_TRANSACTIONAL:
            raise StateError(f"{self._where}: a nonTransactional state cannot be read as of a txid")
        layout, metas = self._with_layout(self._reader.current)
        self._reader.check(layout, metas, asOf, self._lease)
        cutoff = None if time is None else self._cutoff_for(asOf + 1, time)
        address, where, shape = self._address, self._where, self._shape
        incarnation = metas[0].incarnation(where) if self._lease is None else None
        return OpenSnapshot(
            address, where, shape, self._kind, self._form, layout, self._lease, incarnation, asOf, cutoff
        )

    def commit_batch(self, batch: OpenBatch, update: Update, puts: Sequence[Put]) -> Applied:
        """Commit a batch of which all keys were put; see `trident_state.store.Shared`."""
        counts = summed([[0] * batch.layout.groups, *(put.counts for put in puts)])
        with self._writing:
            before, _ = self._expiry_of(update)
            self._writer.commit(batch.task(self._shape.keys.empty_table(), pa.nulls(0, self._shape.value)), counts)
            self._note_expiry(update.txid, before, batch.expiry)
            for put in puts:
                if len(put.removed):
                    self._removed.add(update.txid, put.removed)
        moved = sum(put.moved for put in puts)
        return Applied(None, moved, sum(counts) - moved)

    def _expiry_of(self, update: Update) -> tuple[Expiry | None, Expiry | None]:
        """Return the expiry as of the previous batch, if it is known, and as of this batch, if values expire."""
        before, ttl = self._expiry_at(update.txid - 1), update.life(self._ttl)
        if before is not None and (ttl is not None or before.cutoff > 0):
            return before, before.after(update.txid, update.time, ttl, self._where)
        return before, None

    def _note_expiry(self, txid: int, before: Expiry | None, expiry: Expiry | None) -> None:
        if before is not None:
            self._expiries = {txid: expiry or before}

    def _write(self, task: Task) -> Applied:
        """Write an update, or a part of one, and queue the keys that are left without a value."""
        written, placed = self._writer.write(task), task.keys
        removed = written.removed
        # `removed` lacks keys that an earlier attempt wrote if its reply was lost; if possible, the deltas show all of
        # them
        if self._shape.combine.native == "put" and task.deltas.null_count:
            removed = placed.keys.filter(task.deltas.is_null())
        if removed is not None:
            self._removed.add(task.txid, removed)
            while len(self._removed) > _CLEARED_LATER and self._removed.clear(placed.layout, task.lease, task.txid):
                pass
        values = written.values
        if values is not None:
            if not written.known.all():
                unknown = placed.filter(~written.known)
                read, _ = self._reader.read(unknown, task.txid, task.lease)
                values = pc.if_else(pa.array(written.known), values, spread_rows(~written.known, read))
            values = placed.restored(values)
        return Applied(values, written.moved, len(placed) - written.moved)

    def _expiry_at(self, txid: int) -> Expiry | None:
        """Return the expiry as of `txid`; None if no group's marker is `txid`, so that none can take the next batch.

        All groups with the marker `txid` have the same expiry, because it follows from the times of the batches.
        """
        if self._expiries is None or txid not in self._expiries:
            self._expiries = self._expiries_of(self._reader.metas(self._layout()))
        return self._expiries.get(txid)

    def _expiries_of(self, metas: list[Meta]) -> dict[int, Expiry]:
        """Return the expiry of the groups by their markers."""
        expiries = {meta.status(self._where).marker: meta.parsed_expiry(self._where) for meta in metas}
        return {marker: expiry for marker, expiry in expiries.items() if marker is not None}

    # --- read ------------------------------------------------------------------------------------------------

    def bind(self, incarnation: Incarnation) -> None:
        """Read only this incarnation of the state from now on; see `trident_state.store.Bindable`."""
        self._reader.incarnation = incarnation

    def _free_memory(self, layout: Layout, lease: Lease, marker: int, metas: list[Meta]) -> None:
        """Delete some expired and some replaced values. `marker` is the last batch that all groups have."""
        if self._expired is not None:
            cutoff = min(meta.parsed_expiry(self._where).before for meta in metas)
            if cutoff > 0:
                calls = self._expired.calls_due(layout, sum(int(meta.keys or 0) for meta in metas))
                self._sweep(self._expired, layout, lease, marker, cutoff, calls)
        self._clear(layout, lease, marker)

    def groups_of(self) -> tuple[GroupStatus, ...]:
        layout = self._layout()
        metas = self._reader.metas(layout)
        statuses = self._reader.statuses(metas)
        markers = [-1 if group.marker is None else group.marker for group in statuses]
        marker = min(markers) if min(markers) >= 0 else None
        # a run calls this once a second, which is a good time to free some memory in the server
        if self._lease is not None and marker is not None:
            self._free_memory(layout, self._lease, marker, metas)
        if self._due is None:
            return statuses
        # A group that has lost the index that `acquire` built, but not the fence, must be acquired again.
        pairs = zip(statuses, metas, strict=True)
        return tuple(
            status if meta.indexed or status.lease != self._lease else msgspec.structs.replace(status, lease=None)
            for status, meta in pairs
        )

    def _sweep(
        self, expired: ExpiredValues, layout: Layout, lease: Lease, marker: int, cutoff: int, calls: int
    ) -> None:
        """Delete expired values with `calls` script calls, a few at a time. Stop when a batch is being written."""
        while calls > 0 and self._writing.acquire(blocking=False):
            try:
                expired.sweep(layout, lease, marker, cutoff, calls)
            finally:
                self._writing.release()
            calls -= SWEEP_CALLS

    def _clear(self, layout: Layout, lease: Lease, marker: int) -> None:
        """Delete removed keys, some at a time. Stop when a batch is being written."""
        more = len(self._removed) > 0
        while more and self._writing.acquire(blocking=False):
            try:
                more = self._removed.clear(layout, lease, marker)
            finally:
                self._writing.release()

    def durable(self) -> int:
        """Return the least marker. The server's own settings decide how durable a batch is (see `warnings`)."""
        markers = [meta.status(self._where).marker for meta in self._reader.metas(self._layout())]
        return min(-1 if marker is None else marker for marker in markers)

    def snapshot(self) -> int:
        """Return `durable()` and do nothing else, because the server makes its data durable by itself."""
        return self.durable()

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        encoded = self._encoded(keys)

        def attempt(layout: Layout) -> Found:
            placed = place_keys(encoded, layout)
            values, as_of = self._reader.read(placed, asOf, self._lease)
            return Found(placed.restored(values), as_of)

        return self._with_layout(attempt)

    def read_few(self, keys: Sequence[Key], asOf: int | None) -> FewFound | None:
        if self._encode_key is None:
            return None
        encoded = list(map(self._encode_key, keys))
        return self._with_layout(lambda layout: FewFound(*self._reader.read_few(layout, encoded, asOf, self._lease)))

    def count(self) -> int | None:
        metas = self._reader.metas(self._layout())
        return None if any(meta.keys is None for meta in metas) else sum(int(meta.keys or 0) for meta in metas)

    def read_for(self, keys: pa.Table, txid: int, time: float) -> pa.Array:
        placed, cutoff = place_keys(self._encoded(keys), self._layout()), self._cutoff_for(txid, time)
        values, _ = self._reader.read(placed, txid - 1, self._lease, cutoff)
        return placed.restored(values)

    def scan_for(self, txid: int, time: float) -> Iterator[pa.Table]:
        return self.scan(txid - 1, cutoff=self._cutoff_for(txid, time))

    def _cutoff_for(self, txid: int, time: float) -> int | None:
        """Return the cutoff that batch `txid`, planned at `time`, will set; None if no group's marker is txid - 1."""
        with self._writing:
            before = self._expiry_at(txid - 1)
        return None if before is None else before.after(txid, time, self._ttl, self._where).cutoff

    def due(self, asOf: int, until: int, most: int | None = None) -> pa.Table | None:
        if self._due is None:
            return None
        layout = self._layout()
        try:
            if most is not None:
                return self._due.earliest(layout, until, most, asOf, self._lease)
            pages = list(self._due.read(layout, range(layout.groups), until, asOf, self._lease))
        except BatchBegunError:
            return None
        # the only page of a state without key fields: concatenating tables without columns would lose the
        # rows
        if len(pages) == 1:
            return pages[0]
        return pa.concat_tables([self._shape.keys.empty_table(), *pages]).combine_chunks()

    def first_due(self, asOf: int, until: int) -> int | None:
        return None if self._due is None else self._due.first(self._layout(), until, asOf, self._lease)

    def scan(self, asOf: int | None, pageRows: int = 10_000, cutoff: int | None = None) -> Iterator[pa.Table]:
        yield from self._pages(asOf, self._lease, pageRows, cutoff=cutoff)

    def parts(self) -> int:
        """Return the number of parts into which a scan is best divided: 1, or a multiple of the groups.

        A small state is not divided: one process reads it faster than several processes start.
        """
        entries, groups = self.count() or 0, self._layout().groups
        if entries <= _UNDIVIDED:
            return 1
        return groups * max(1, min(self._layout().per_group, -(-entries // (groups * _PART_ENTRIES))))

    def scan_part(self, asOf: int | None, part: Part, pageRows: int = 10_000) -> Iterator[pa.Table]:
        """Yield the entries of a part, which is some buckets; all of one group if there are as many parts as groups."""
        yield from self._pages(asOf, self._lease, pageRows, part=part)

    def scan_by_page(self, least: int, pageRows: int = 10_000) -> Iterator[tuple[int, pa.Table]]:
        """Yield all entries in tables of at most `pageRows` rows, each table with the txid as of which it was read.

        This is for readers that cannot hold commits back: each table is as of the last txid that all groups had
        committed when the table was read. Raises StateRecoveringError for a table, even without rows, that is as of a
        batch before `least`, because the server lost its last writes.
        """
        txids = list[int]()
        for page in self._pages(None, None, pageRows, txids):
            check_reached(self._where, txids[-1], least)
            yield txids[-1], page

    def _pages(
        self,
        asOf: int | None,
        lease: Lease | None,
        rows: int,
        txids: list[int] | None = None,
        cutoff: int | None = None,
        part: Part = WHOLE,
    ) -> Iterator[pa.Table]:
        """Yield entries like `Reader.scan`. Raises SnapshotMovedError if the state was re-created meanwhile."""
        layout, metas = self._with_layout(self._reader.current)
        try:
            yield from self._reader.scan(layout, metas, asOf, lease, rows, txids, cutoff, part.share(layout.buckets))
        except LayoutChanged:
            self._stored_layout = None
            raise SnapshotMovedError(f"{self._where} was dropped and created again while it was scanned") from None

    # --- end -------------------------------------------------------------------------------------------------

    def drop(self, lease: Lease | None = None) -> None:
        layouts = self._inspector().stored_layouts()  # refuses keys that are not the state's
        with self._writing:
            for layout in layouts:
                for group in reversed(range(layout.groups)):
                    buckets = map(layout.bucket, layout.buckets_of(group))
                    self._drop_group([layout.meta(group), layout.due(group), *buckets], lease)
            self._removed.forget()
            self._stored_layout, self._lease, self._expiries = None, None, None

    def _drop_group(self, names: list[bytes], lease: Lease | None) -> None:
        if lease is None:
            self._link.check(self._link.exchange([command(b"UNLINK", *names)])[0])
            return
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"0", self._identity.log.encode())
        (reply,) = self._link.call_scripts([call(DROP, [bulks([name]) for name in names], *fence)])
        check_answer(self._link, reply, lease, 0, self._where)

    def close(self) -> None:
        self._links.close()
        with self._writing:
            self._link.close()

    # --- layout ----------------------------------------------------------------------------------------------

    def _inspector(self) -> Inspector:
        return Inspector(self._links, self._where, self._identity, self._form, self._declared)

    def _layout(self) -> Layout:
        """Return the layout with which the state was created, or the declared layout if the state does not exist."""
        layout = self._stored_layout  # a local, because another thread may set the attribute to None
        if layout is None:
            buckets = self._reader.stored_buckets(self._declared)
            if buckets is None:
                return self._declared
            layout = self._stored_layout = self._declared.with_buckets(buckets)
        return layout

    def _with_layout(self, attempt: Callable[[Layout], Result]) -> Result:
        """Call `attempt` with the layout. If the state was re-created meanwhile, call it again with the new layout."""
        try:
            return attempt(self._layout())
        except LayoutChanged:
            self._stored_layout = None
        return attempt(self._layout())

    def _encoded(self, keys: pa.Table) -> pa.Array:
        return encode_checked_keys(self._where, self._shape.keys, keys)
