"""Reads of a state. One transaction per group reads entries and meta hash; then fence and marker are checked.

No read runs a script or writes anything.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.discard_advice import RESET
from trident.base.errors import SnapshotMovedError, StateCorruptError, StateLostError, StateRecoveringError
from trident_state.expiry import Cutoff, without_expired
from trident_state.few_keys import hash_key
from trident_state.incarnation import Incarnation
from trident_state.keys import decode_keys
from trident_state.records.forms import Records, unpack_few_records, unpack_records
from trident_state.records.triples import Triples
from trident_state.redis.bucket_scans import BucketScans
from trident_state.redis.command_routing import Links, Reply
from trident_state.redis.layout import LEGEND, Layout
from trident_state.redis.meta import Meta, parse_meta, read_meta
from trident_state.redis.placement import READ_KEYS, Placement
from trident_state.redis.wire import EXEC, MULTI, Arguments, bulks, command, hmget
from trident_state.state_shape import StateKind, StateShape
from trident_state.store_messages import GroupStatus
from trident_state.value_rules import as_of, check_not_beyond, check_reached, few_as_of

_SCAN_BUCKETS = 1024


class LayoutChanged(StateRecoveringError):
    """A read found a state, or a part of it, with a number of buckets that the reader does not expect."""


class Reader:
    """The reads of one state, over connections that are not the writer's. Any thread may call."""

    def __init__(self, links: Links, where: str, shape: StateShape, kind: StateKind, records: Records) -> None:
        self._links, self._where, self._shape, self._records = links, where, shape, records
        self._bare = kind is StateKind.NON_TRANSACTIONAL
        self.incarnation: Incarnation | None = None
        """If set, `check` accepts only this incarnation of the state: for readers that no lease binds to it."""

    def statuses(self, metas: list[Meta]) -> tuple[GroupStatus, ...]:
        """Return the status of each group. For groups that exist, raises the errors of `Incarnation.check`."""
        self._check_incarnation([meta for meta in metas if not meta.absent])
        return tuple(meta.status(self._where) for meta in metas)

    def _check_incarnation(self, metas: list[Meta]) -> None:
        if self.incarnation is not None:
            for meta in metas:
                self.incarnation.check(meta.incarnation(self._where))

    def metas(self, layout: Layout) -> list[Meta]:
        """Return the meta hashes of all groups."""
        return [parse_meta(reply) for reply in self._links.exchange(list(map(read_meta, layout.packed_metas)))]

    def stored_buckets(self, layout: Layout) -> int | None:
        """Return the number of buckets with which the state was created; None if the state does not exist."""
        return next((meta.bucket_count(self._where) for meta in self.metas(layout) if meta.buckets is not None), None)

    def current(self, layout: Layout) -> tuple[Layout, list[Meta]]:
        """Return `layout` and the meta hashes of all groups. Raises LayoutChanged if the state has another layout."""
        metas = self.metas(layout)
        self._check_layout(layout, metas)
        return layout, metas

    def _check_layout(self, layout: Layout, metas: list[Meta]) -> None:
        buckets, groups = str(layout.buckets), (str(layout.groups), None)
        if any(not meta.absent and (meta.buckets != buckets or meta.groups not in groups) for meta in metas):
            raise LayoutChanged(
                f"{self._where}: a part of the state does not have {layout.buckets} buckets in {layout.groups} groups. "
                f"Either a server was restored to a time before the state was dropped, and the driver has to restore "
                f"that part; or the state was recreated with other numbers, and readers have to open it again"
            )

    def current_with_all_keys(self, layout: Layout) -> tuple[Layout, list[Meta]]:
        """Return the same as `current`, but check that the buckets hold as many keys as the meta hashes count.

        Raises StateLostError if they do not. A store that adds or deletes a key counts it, so keys are missing only if
        the server evicted or expired them, or another client removed them.
        """
        names = list(enumerate(layout.all_buckets))
        lengths = [(bucket, command(b"HLEN", name)) for bucket, name in names]
        legends = [(bucket, command(b"HMGET", name, LEGEND)) for bucket, name in names]
        metas, replies = self.snapshot(layout, lengths + legends)
        keys = [
            length - (legend is not None)
            for length, (legend,) in zip(replies[: layout.buckets], replies[layout.buckets :], strict=True)
        ]
        self._check_layout(layout, metas)
        for group, meta in enumerate(metas):
            present = sum(keys[bucket] for bucket in layout.buckets_of(group))
            if not meta.absent and meta.keys != str(present):
                raise StateLostError(
                    f"{self._where}: the server holds {present} of the {meta.keys} keys that were put under "
                    f"{layout.base(group)!r}: another client removed or added keys, or the server evicted some. "
                    f"Restore "
                    f"the server from a copy, or discard log and states with {RESET}"
                )
        return layout, metas

    def read(
        self, keys: Placement, asOf: int | None, lease: Lease | None, cutoff: int | None = None
    ) -> tuple[pa.Array, int]:
        """Return the values of the keys, in the order of the placement, and the txid as of which they were read.

        If `lease` is given, the fence of every group must be equal to it. A value has expired at `cutoff`, or, if that
        is None, at the cutoff that the state had as of the txid of the read.
        """
        fields, names = Arguments(keys.keys), keys.layout.packed_buckets
        parts, as_ofs = [pa.nulls(0, self._shape.value)], list[int]()
        for chunk in keys.chunks(slice(0, len(keys)), READ_KEYS) if len(keys) else [None]:
            runs = [] if chunk is None else list(chunk.runs())
            reads = [(bucket, hmget(names[bucket], fields[rows], rows.stop - rows.start)) for bucket, rows in runs]
            metas, replies = self.snapshot(keys.layout, reads)
            as_ofs.append(self.check(keys.layout, metas, asOf, lease))
            records = [record for reply in replies for record in reply]
            sizes = [(bucket // keys.layout.per_group, rows.stop - rows.start) for bucket, rows in runs]
            in_force = self._cutoff(metas, asOf, sizes) if cutoff is None else cutoff
            parts.append(self._values(unpack_records(self._records, records, self._where), asOf, in_force))
        return pa.concat_arrays(parts), min(as_ofs)

    def read_few(
        self, layout: Layout, keys: Sequence[bytes], asOf: int | None, lease: Lease | None
    ) -> tuple[list[Any], int]:
        """Return the same as `read` for a few encoded keys, as Python values."""
        names, per_group = layout.packed_buckets, layout.per_group
        buckets = [hash_key(key) % layout.buckets for key in keys]
        reads = [(bucket, hmget(names[bucket], bulks([key]), 1)) for bucket, key in zip(buckets, keys, strict=True)]
        metas, replies = self.snapshot(layout, reads)
        as_of_txid = self.check(layout, metas, asOf, lease)
        stored = unpack_few_records(self._records, [record for (record,) in replies], self._where)
        if self._bare:
            return stored.values, as_of_txid
        values, cutoff = stored.values, self._cutoff(metas, asOf, [(bucket // per_group, 1) for bucket in buckets])
        if not isinstance(cutoff, int) or cutoff > 0:
            expired = (np.array(stored.txids) <= cutoff).tolist()
            values = [None if gone else value for gone, value in zip(expired, values, strict=True)]
        if asOf is not None:
            values = few_as_of(asOf, stored.txids, values, stored.prevs, self._where)
        return values, as_of_txid

    def scan(
        self,
        layout: Layout,
        metas: list[Meta],
        asOf: int | None,
        lease: Lease | None,
        rows: int,
        txids: list[int] | None = None,
        cutoff: int | None = None,
        buckets: Iterable[int] | None = None,
    ) -> Iterator[pa.Table]:
        """Yield all entries in tables of at most `rows` rows. `metas` are the meta hashes that `current` returned.

        With `txids`, each table is as of the last txid that all groups had committed when the table was read; that txid
        is appended to `txids` before the table is yielded, and tables may have no rows. `lease` and `cutoff` mean the
        same as in `read`. With `buckets`, only these buckets are read.
        """
        schema = pa.schema([*self._shape.keys, pa.field("value", self._shape.value)])
        scans = BucketScans(self._where, layout, range(layout.buckets) if buckets is None else buckets)
        while scans:
            places = scans.take(_buckets_for(rows, layout, metas))
            metas, replies = self.snapshot(layout, scans.reads(places))
            if txids is not None:
                asOf = self.check(layout, metas, None, lease)
                txids.append(asOf)
            self.check(layout, metas, asOf, lease)
            found = scans.entries(places, replies)
            entries = [pair for _, pairs in found for pair in pairs]
            sizes = [(bucket // layout.per_group, len(pairs)) for bucket, pairs in found]
            in_force = self._cutoff(metas, asOf, sizes) if cutoff is None else cutoff
            page = self._page(schema, entries, asOf, in_force)
            # Buckets without entries count if callers look at the txid: a server that lost its last writes may have no
            # entries (guard "pages, no entries").
            size = page.num_rows if txids is None else max(page.num_rows, 1)
            for start in range(0, size, rows):
                yield page.slice(start, rows)

    def _page(
        self, schema: pa.Schema, entries: list[tuple[bytes, bytes]], asOf: int | None, cutoff: Cutoff
    ) -> pa.Table:
        values = self._values(
            unpack_records(self._records, [record for _, record in entries], self._where), asOf, cutoff
        )
        try:
            keys = decode_keys(pa.array([field for field, _ in entries], pa.binary()), self._shape.keys)
        except StateCorruptError as error:
            raise StateCorruptError(f"{self._where}: {error}") from error
        page = pa.table([*keys.columns, values], schema=schema)
        return page.filter(values.is_valid()) if values.null_count else page

    def _values(self, stored: Triples, asOf: int | None, cutoff: Cutoff) -> pa.Array:
        if self._bare:
            return stored.values
        values = without_expired(stored.values, stored.txids, cutoff)
        return values if asOf is None else as_of(asOf, stored.txids, values, stored.prevs, self._where)

    def _cutoff(self, metas: list[Meta], asOf: int | None, sizes: list[tuple[int, int]]) -> Cutoff:
        """Return the cutoff of a read as of `asOf`: one for all rows, or one per row if groups have different cutoffs.

        `sizes` names the groups of the rows: (group, number of rows) for each run of rows, in order.
        """
        if all(meta.expiry is None for meta in metas):
            return 0
        cutoffs = [meta.parsed_expiry(self._where).as_of(asOf, meta.status(self._where).marker) for meta in metas]
        if len(set(cutoffs)) == 1:
            return cutoffs[0]
        return np.repeat([cutoffs[group] for group, _ in sizes], [rows for _, rows in sizes]).astype(np.int64)

    def snapshot(self, layout: Layout, reads: Sequence[tuple[int, bytes]]) -> tuple[list[Meta], list[Reply]]:
        """Send reads of buckets.

        Return the meta hashes of all groups, and the replies; each group is read at one moment.

        Groups may be on different servers, and be read at different moments. Together they show the state as of one
        txid, because each group can be read as of that txid.
        """
        parts: dict[int, list[int]] = {group: [] for group in range(layout.groups)}
        for at, (bucket, _) in enumerate(reads):
            parts[bucket // layout.per_group].append(at)
        commands = list[bytes]()
        for group, indices in parts.items():
            commands += [MULTI, read_meta(layout.packed_metas[group]), *[reads[at][1] for at in indices], EXEC]
        replies = self._links.exchange(commands)
        metas, results, end = list[Meta](), list[Reply]([None] * len(reads)), -1
        for indices in parts.values():
            end += len(indices) + 3  # the reply to EXEC comes after those to MULTI and to each command in between
            self._links.check_all(replies[end])
            metas.append(parse_meta(replies[end][0]))
            for at, reply in zip(indices, replies[end][1:], strict=True):
                results[at] = reply
        return metas, results

    def check(self, layout: Layout, metas: list[Meta], asOf: int | None, lease: Lease | None) -> int:
        """Return the txid as of which groups with these meta hashes were read: `asOf`, or for None the least marker.

        Raises SnapshotMovedError or StateRecoveringError if they cannot be read as of `asOf`, and the errors of
        `Incarnation.check` if they are not of the incarnation that a reader opened.
        """
        markers = []
        self._check_layout(layout, metas)
        self._check_incarnation(metas)
        for meta in metas:
            status = meta.status(self._where)
            if asOf is not None and lease is not None and status.lease != lease:
                raise self._other_lease(status.lease, lease)
            if asOf is None:
                markers.append(-1 if status.marker is None else status.marker)
                continue
            check_reached(self._where, status.marker, asOf)
            if not self._bare:
                check_not_beyond(self._where, status.marker, asOf)
            markers.append(status.marker if self._bare and status.marker is not None else asOf)
        return min(markers)

    def _other_lease(self, held: Lease | None, ours: Lease) -> StateRecoveringError | SnapshotMovedError:
        if held is None or held.epoch < ours.epoch:
            return StateRecoveringError(f"{self._where}: the server lost the lease of this driver (epoch {ours.epoch})")
        return SnapshotMovedError(f"{self._where}: another driver has taken it over (epoch {held.epoch})")


def _buckets_for(rows: int, layout: Layout, metas: list[Meta]) -> int:
    """Return the number of buckets that hold about `rows` rows, but at most as many as one request may read."""
    stored = sum(int(meta.keys or 0) for meta in metas)
    return min(max(1, rows * layout.buckets // max(1, stored)), _SCAN_BUCKETS)
