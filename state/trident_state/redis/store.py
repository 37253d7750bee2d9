"""A state in Redis: the store behind a RedisMapState."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.attempt import Lease
from trident.base.errors import SnapshotMovedError, StateUnavailableError
from trident_state.binary import in_halves, spread, together
from trident_state.checks import check_fitting, encoded_keys
from trident_state.expiry import Expiry
from trident_state.keys import check_key_types
from trident_state.records.forms import ValueForm, records_of
from trident_state.redis.address import Address
from trident_state.redis.cluster import Servers
from trident_state.redis.command_routing import Link, Links
from trident_state.redis.expired_values import AT_ONCE, Sweeper
from trident_state.redis.inspection import Findings
from trident_state.redis.layout import Layout
from trident_state.redis.meta import Meta, identity_fields
from trident_state.redis.placement import place, place_distinct
from trident_state.redis.reader import LayoutChanged, Reader
from trident_state.redis.removed_values import AT_ONCE as CLEARED_AT_ONCE
from trident_state.redis.removed_values import Clearing
from trident_state.redis.script_errors import Answer, refusal
from trident_state.redis.scripts import ACQUIRE, ALL, CREATE, DROP, SWEEP, Script
from trident_state.redis.server import check_server, parse_info
from trident_state.redis.wire import bulks, call, command
from trident_state.redis.writer import Task, Writer
from trident_state.store import (
    Applied,
    Found,
    GroupStatus,
    StateIdentity,
    StateKind,
    StateShape,
    StoreReport,
    Update,
)

_log = logging.getLogger("trident.state")

Result = TypeVar("Result")

_CLEARED_LATER = 4 * CLEARED_AT_ONCE
"""Removed keys that may wait for the next look at the state; beyond, a batch clears some."""


class RedisStore:
    """The store of a RedisMapState. See `trident_state.store.Store` for what each method promises.

    One connection writes, others read; none is opened before it is needed. Every write is a script that compares the
    lease and the open txid with the group's meta in the same step that writes.
    """

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
        self._identity, self._shape, self._kind, self._form = identity, shape, kind, form
        self._where = f"state {identity.name!r}"
        self._declared = layout
        self._known: Layout | None = None
        self._lease: Lease | None = None
        self._writing = threading.RLock()
        servers = Servers(address, self._where)
        scripts = ALL if ttl is None else (*ALL, SWEEP)
        self._link, self._links = Link(servers, scripts), Links(servers, address.socket_timeout)
        records = records_of(shape.value, form, bare=kind is StateKind.NON_TRANSACTIONAL)
        self._writer = Writer(self._link, self._where, shape, kind, records)
        self._reader = Reader(self._links, self._where, shape, kind, records)
        self._ttl, self._sweeper = ttl, None if ttl is None else Sweeper(self._link, form, ttl)
        self._clearing = Clearing(self._link, records, form, kind is StateKind.NON_TRANSACTIONAL)
        self._passed: dict[int, Expiry] | None = None
        self.warnings: tuple[str, ...] = ()
        self._checked = False

    # --- start -----------------------------------------------------------------------------------------------

    def report(self) -> StoreReport:
        self.check_server()
        findings = self._findings()
        report = findings.report()
        self._known = None if report.identity is None else findings.layout
        return report

    def create(self, lease: Lease, birth: int) -> None:
        findings = self._findings()
        there = findings.report().groups  # refuses what is foreign
        layout = findings.layout
        fields = identity_fields(
            self._identity, self._shape.fingerprint, self._kind, self._form, layout.buckets, layout.groups
        )
        gone = [group for group in reversed(range(layout.groups)) if there[group].marker is None]
        self._ask_groups(CREATE, layout, lease, birth, fields, gone or reversed(range(layout.groups)))
        self._lease, self._known = lease, layout

    def acquire(self, lease: Lease) -> None:
        layout, metas = self._with_layout(self._reader.whole)
        self._ask_groups(ACQUIRE, layout, lease, 0, [self._identity.log.encode()], range(layout.groups))
        self._lease, self._passed = lease, self._expiries(metas)

    def check_server(self) -> tuple[str, ...]:
        """Refuse servers that cannot keep a state; what they could do better is in `warnings`, for whoever starts the
        run, and logged where it changes later."""
        warnings: tuple[str, ...] = ()
        try:
            for server, info in self._links.everywhere(command(b"INFO")):
                warnings += check_server(parse_info(info), self._where, server.shown)
        except StateUnavailableError:  # such as a master that became a replica: there is another one
            self._links.forget()
            raise
        if self._checked and warnings != self.warnings:
            for warning in warnings:
                _log.warning("%s", warning)
        self.warnings, self._checked = warnings, True
        return warnings

    def _ask_groups(
        self, script: Script, layout: Layout, lease: Lease, txid: int, more: list[bytes], groups: Iterable[int]
    ) -> None:
        """Run a script over these groups; the first refusal is raised after all were asked."""
        metas = layout.packed_metas
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"%d" % txid)
        with self._writing:
            self._link.load()
            replies = self._link.exchange([call(script, [metas[group]], *fence, *more) for group in groups])
        for reply in replies:
            self._link.check(reply)
            if reply[0] != b"OK":
                raise refusal(Answer.of(reply), lease, txid, self._where)

    # --- write -----------------------------------------------------------------------------------------------

    def apply(self, lease: Lease, update: Update, values: bool = False) -> Applied:
        check_fitting(self._where, self._shape, update)
        with self._writing:
            before, expiry, life = self._expiry_at(update.txid - 1), None, update.life(self._ttl)
            if before is not None and (life is not None or before.cutoff > 0):
                expiry = before.after(update.txid, update.time, life, self._where)
            tasks = list[Task]()

            def write(rows: slice) -> Applied:
                whole = rows == slice(0, len(update.deltas))
                keys, deltas = update.part(rows)
                placed = place_distinct(self._encoded(keys), self._layout(), self._where, update.txid)
                part = None if whole else rows.start
                task = Task(lease, update.txid, placed, placed.arranged(deltas), values, expiry, part)
                applied = self._write(task)
                tasks.append(task)
                return applied

            parts = list(in_halves(write, 0, len(update.deltas)))
            if len(parts) > 1:
                self._writer.commit(tasks)
            if before is not None:
                self._passed = {update.txid: expiry or before}
        written = sum(part.written for part in parts)
        after = together([part.values for part in parts]) if values else None
        return Applied(after, written, len(update.deltas) - written)

    def _write(self, task: Task) -> Applied:
        """Write an update, or a part of it, and note what it removes."""
        written, placed = self._writer.write(task), task.keys
        removed = written.removed
        if self._shape.combine.native == "put" and task.deltas.null_count:  # also of a try whose reply was lost
            removed = placed.keys.filter(task.deltas.is_null())
        if removed is not None:
            self._clearing.note(task.txid, removed)
            while len(self._clearing) > _CLEARED_LATER and self._clearing.clear(placed.layout, task.lease, task.txid):
                pass
        found = written.values
        if found is not None:
            if not written.known.all():
                late = placed.where(~written.known)
                read, _ = self._reader.read(late, task.txid, task.lease)
                found = pc.if_else(pa.array(written.known), found, spread(~written.known, read))
            found = placed.restored(found)
        return Applied(found, written.moved, len(placed) - written.moved)

    def _expiry_at(self, txid: int) -> Expiry | None:
        """What has passed away as of this txid; None where no group stands there, so that none takes the next batch.

        Every group that stands at a txid stands there with the same: it follows from the batches' times.
        """
        if self._passed is None or txid not in self._passed:
            self._passed = self._expiries(self._reader.metas(self._layout()))
        return self._passed.get(txid)

    def _expiries(self, metas: list[Meta]) -> dict[int, Expiry]:
        found = {meta.status(self._where).marker: meta.forgotten(self._where) for meta in metas}
        return {marker: expiry for marker, expiry in found.items() if marker is not None}

    # --- read ------------------------------------------------------------------------------------------------

    def groups_of(self) -> tuple[GroupStatus, ...]:
        layout = self._layout()
        metas = self._reader.metas(layout)
        found = tuple(meta.status(self._where) for meta in metas)
        markers = [-1 if group.marker is None else group.marker for group in found]
        marker = min(markers) if min(markers) >= 0 else None
        if self._sweeper is not None and self._lease is not None:
            forgotten = min(meta.forgotten(self._where).before for meta in metas)
            if forgotten > 0 and marker is not None:
                left = self._sweeper.calls(layout, sum(int(meta.keys or 0) for meta in metas))
                self._sweep(self._sweeper, layout, self._lease, marker, forgotten, left)
        if self._lease is not None and marker is not None:
            self._clear(layout, self._lease, marker)
        return found

    def _sweep(self, sweeper: Sweeper, layout: Layout, lease: Lease, marker: int, forgotten: int, left: int) -> None:
        """Take back some room, a little at a time and not while a batch is written."""
        while left > 0 and self._writing.acquire(blocking=False):
            try:
                sweeper.sweep(layout, lease, marker, forgotten, left)
            finally:
                self._writing.release()
            left -= AT_ONCE

    def _clear(self, layout: Layout, lease: Lease, marker: int) -> None:
        """The same of what was removed."""
        more = len(self._clearing) > 0
        while more and self._writing.acquire(blocking=False):
            try:
                more = self._clearing.clear(layout, lease, marker)
            finally:
                self._writing.release()

    def durable(self) -> int:
        """The least marker: what the server answers for, as far as its own persistence goes (see `warnings`)."""
        markers = [meta.status(self._where).marker for meta in self._reader.metas(self._layout())]
        return min(-1 if marker is None else marker for marker in markers)

    def snapshot(self) -> int:
        """The server persists by its own rules: nothing is done."""
        return self.durable()

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        encoded = self._encoded(keys)

        def attempt(layout: Layout) -> Found:
            placed = place(encoded, layout)
            values, as_of = self._reader.read(placed, asOf, self._lease)
            return Found(placed.restored(values), as_of)

        return self._with_layout(attempt)

    def read_for(self, keys: pa.Table, txid: int, time: float) -> pa.Array:
        placed, cutoff = place(self._encoded(keys), self._layout()), self._found_by(txid, time)
        values, _ = self._reader.read(placed, txid - 1, self._lease, cutoff)
        return placed.restored(values)

    def scan_for(self, txid: int, time: float) -> Iterator[pa.Table]:
        return self.scan(txid - 1, cutoff=self._found_by(txid, time))

    def _found_by(self, txid: int, time: float) -> int | None:
        """Up to which txid everything is nothing to a batch that is about to be made."""
        with self._writing:
            before = self._expiry_at(txid - 1)
        return None if before is None else before.after(txid, time, self._ttl, self._where).cutoff

    def scan(self, asOf: int | None, pageRows: int = 10_000, cutoff: int | None = None) -> Iterator[pa.Table]:
        yield from self._pages(asOf, self._lease, pageRows, cutoff=cutoff)

    def scan_by_page(self, pageRows: int = 10_000) -> Iterator[tuple[int, pa.Table]]:
        """Like `scan`, for readers who cannot hold commits back: each page is as of the last txid that all groups had
        committed when it was read, and that comes with it."""
        turns = list[int]()
        for page in self._pages(None, None, pageRows, turns):
            yield turns[-1], page

    def _pages(
        self,
        asOf: int | None,
        lease: Lease | None,
        rows: int,
        turns: list[int] | None = None,
        cutoff: int | None = None,
    ) -> Iterator[pa.Table]:
        """See `Reader.scan`."""
        layout, metas = self._with_layout(self._reader.current)
        try:
            yield from self._reader.scan(layout, metas, asOf, lease, rows, turns, cutoff)
        except LayoutChanged:
            self._known = None
            raise SnapshotMovedError(f"{self._where} was dropped and created again while it was scanned") from None

    # --- end -------------------------------------------------------------------------------------------------

    def drop(self, lease: Lease | None = None) -> None:
        layouts = self._findings().layouts()  # refuses what is foreign
        with self._writing:
            self._link.load()
            for layout in layouts:
                for group in reversed(range(layout.groups)):
                    self._drop_group([layout.meta(group), *map(layout.bucket, layout.buckets_of(group))], lease)
            self._clearing.forget()
            self._known, self._lease, self._passed = None, None, None

    def _drop_group(self, names: list[bytes], lease: Lease | None) -> None:
        if lease is None:
            self._link.check(self._link.exchange([command(b"UNLINK", *names)])[0])
            return
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"0", self._identity.log.encode())
        (reply,) = self._link.exchange([call(DROP, [bulks([name]) for name in names], *fence)])
        self._link.check(reply)
        if reply[0] != b"OK":
            raise refusal(Answer.of(reply), lease, 0, self._where)

    def close(self) -> None:
        self._links.close()
        with self._writing:
            self._link.close()

    # --- layout ----------------------------------------------------------------------------------------------

    def _findings(self) -> Findings:
        return Findings(self._links, self._where, self._identity, self._form, self._declared)

    def _layout(self) -> Layout:
        """How the state is laid out: as it was created, else as declared."""
        known = self._known  # another thread may forget it
        if known is None:
            found = self._reader.stored_buckets(self._declared)
            if found is None:
                return self._declared
            known = self._known = self._declared.with_buckets(found)
        return known

    def _with_layout(self, attempt: Callable[[Layout], Result]) -> Result:
        try:
            return attempt(self._layout())
        except LayoutChanged:  # dropped and created again since we looked
            self._known = None
        return attempt(self._layout())

    def _encoded(self, keys: pa.Table) -> pa.Array:
        return encoded_keys(self._where, self._shape, keys)
