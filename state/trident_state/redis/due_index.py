"""The index of due times of a state: in each group a sorted set of the group's keys, with their due times as scores.

A put changes a record and the key's index entry in one script call. So the index always matches the records in the
server, even if the server lost its last writes. It shows the present state, not the state as of a txid; so it is read
only between two batches.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.errors import SnapshotMovedError, StateRecoveringError
from trident_state.binary_arrays import with_lengths
from trident_state.keys import decode_keys, encode_checked_keys
from trident_state.redis.command_routing import Link
from trident_state.redis.due_scores import is_exact, score, scores, shared_score
from trident_state.redis.layout import Layout
from trident_state.redis.meta import Meta
from trident_state.redis.placement import PUT_KEYS, place_keys
from trident_state.redis.reader import Reader
from trident_state.redis.script_errors import check_answer
from trident_state.redis.scripts import INDEX
from trident_state.redis.wire import Blob, call, command
from trident_state.state_shape import StateShape

_PAGE_KEYS = 10_000


class BatchBegunError(SnapshotMovedError):
    """The index was to be read as of a batch, but the next batch had already been opened."""


class DueIndex:
    """The index of due times of one state. The state's shape has the function `due`."""

    def __init__(self, where: str, shape: StateShape, reader: Reader) -> None:
        self._where, self._shape, self._reader = where, shape, reader

    def counts(
        self, layout: Layout, groups: Sequence[int], until: int, asOf: int, lease: Lease | None
    ) -> Sequence[int]:
        """Return for each group how many of its keys are due at or before `until`. Raises the errors of `read`."""
        upto = score(until)
        reads = [
            (group, read)
            for group in groups
            for read in (command(b"ZCOUNT", layout.due(group), b"-inf", upto), command(b"ZCARD", layout.due(group)))
        ]
        metas, replies = self._asked(layout, reads, asOf, lease)
        self._check_entries(metas, groups, replies[1::2])
        return replies[::2]

    def _check_entries(self, metas: Sequence[Meta], groups: Sequence[int], counts: Sequence[int]) -> None:
        """Raise StateRecoveringError unless the index of each group has as many entries as its meta hash says."""
        for group, entries in zip(groups, counts, strict=True):
            if metas[group].dues not in (None, str(entries)):
                raise StateRecoveringError(
                    f"{self._where}: the index of due times (when keys expire, sessions close or timers fire) has only "
                    f"{entries} of {metas[group].dues} entries in a group of keys: another client removed the rest. "
                    f"The next start rebuilds the index"
                )

    def read(
        self, layout: Layout, groups: Sequence[int], until: int, asOf: int, lease: Lease | None
    ) -> Iterator[pa.Table]:
        """Yield the keys of these groups that are due at or before `until`, at most 10,000 keys in one round trip.

        Raises BatchBegunError if a batch after `asOf` has been opened, StateRecoveringError if the server lost a part
        of an index that was being built, and the errors of `Reader.check`.
        """
        counts = dict(zip(groups, self.counts(layout, groups, until, asOf, lease), strict=True))
        rows = max(1, _PAGE_KEYS // len(groups))
        for start in range(0, max(counts.values()), rows):
            reads = [
                (group, command(b"ZRANGE", layout.due(group), b"%d" % start, b"%d" % (min(start + rows, count) - 1)))
                for group, count in counts.items()
                if count > start
            ]
            for members in self._asked(layout, reads, asOf, lease)[1]:
                yield decode_keys(pa.array(members, pa.binary()), self._shape.keys)

    def earliest(self, layout: Layout, until: int, most: int, asOf: int, lease: Lease | None) -> pa.Table:
        """Return the first `most` keys that are due at or before `until`, in the order of their times.

        Raises the errors of `read`.
        """
        groups = range(layout.groups)
        counts = {g: n for g, n in zip(groups, self.counts(layout, groups, until, asOf, lease), strict=True) if n}
        rows, start = max(1, min(_PAGE_KEYS, most) // len(groups)), 0
        found: list[tuple[float, bytes]] = []
        while counts:
            reads = [(group, self._first(layout, group, start, min(start + rows, n))) for group, n in counts.items()]
            start += rows
            read_up_to = math.inf
            page: list[tuple[float, bytes]] = []
            for (group, _), reply in zip(reads, self._asked(layout, reads, asOf, lease)[1], strict=True):
                page += zip(map(float, reply[1::2]), reply[::2], strict=True)
                if counts[group] > start:
                    read_up_to = min(read_up_to, float(reply[-1]))
                else:
                    del counts[group]
            found += self._exactly(layout, page, asOf, lease)
            if sum(time <= read_up_to for time, _ in found) >= most:  # keys not read yet are due later
                break
        first = sorted(pair for pair in found if pair[0] <= until)[:most]
        return decode_keys(pa.array([key for _, key in first], pa.binary()), self._shape.keys)

    def _exactly(
        self, layout: Layout, found: list[tuple[float, bytes]], asOf: int, lease: Lease | None
    ) -> list[tuple[float, bytes]]:
        """Replace the scores of keys, which may be rounded down, by their exact due times."""
        if all(is_exact(time) for time, _ in found):
            return found
        keys = [key for _, key in found]
        return list(zip(self._times(layout, pa.array(keys, pa.binary()), asOf, lease), keys, strict=True))

    def _times(self, layout: Layout, keys: pa.Array, asOf: int, lease: Lease | None) -> list[int]:
        """Return the exact due times of these encoded keys."""
        placed = place_keys(keys, layout)
        values, _ = self._reader.read(placed, asOf, lease)
        times: list[int] = self._due(placed.restored(values)).to_pylist()
        return times

    def first(self, layout: Layout, until: int, asOf: int, lease: Lease | None) -> int | None:
        """Return the time at which the first key is due; None if no key is due. Raises the errors of `read`.

        The time may be a rounded score, but is at or before `until` only if a key is due at or before `until`.
        """
        groups = range(layout.groups)
        reads = [
            (group, read)
            for group in groups
            for read in (self._first(layout, group, 0, 1), command(b"ZCARD", layout.due(group)))
        ]
        metas, replies = self._asked(layout, reads, asOf, lease)
        self._check_entries(metas, groups, replies[1::2])
        least = min((float(reply[1]) for reply in replies[::2] if reply), default=None)
        if least is None or least != shared_score(until):
            return None if least is None else int(least)
        pages = self.read(layout, groups, until, asOf, lease)
        keys = (encode_checked_keys(self._where, self._shape.keys, page) for page in pages)
        return min((time for page in keys for time in self._times(layout, page, asOf, lease)), default=None)

    def _first(self, layout: Layout, group: int, start: int, stop: int) -> bytes:
        """Return the command that reads keys of a group with their times, in the order of the times."""
        return command(b"ZRANGE", layout.due(group), b"%d" % start, b"%d" % (stop - 1), b"WITHSCORES")

    def _asked(
        self, layout: Layout, reads: Sequence[tuple[int, bytes]], asOf: int, lease: Lease | None
    ) -> tuple[Sequence[Meta], Sequence[Any]]:
        """Return the meta hashes of all groups, and the replies to reads of groups."""
        buckets = [(layout.buckets_of(group)[0], read) for group, read in reads]
        metas, replies = self._reader.snapshot(layout, buckets)
        self._reader.check(layout, metas, asOf, lease)
        for meta in metas:
            status = meta.status(self._where)
            if status.marker != asOf or status.opened is not None:
                raise BatchBegunError(
                    f"{self._where}: the due times as of batch {asOf} were requested, but batch {asOf + 1} has already "
                    f"started"
                )
            if not meta.indexed:
                raise StateRecoveringError(f"{self._where}: the server has lost a part of the index of due times")
        return metas, replies

    def is_complete(self, layout: Layout) -> bool:
        """Return whether the index has an entry for each record with a due time.

        Another client, or an expiry in the server, may have removed entries. The meta hash counts the entries, and the
        scripts that change the index change this count in the same step.
        """
        counts = [(layout.buckets_of(group)[0], command(b"ZCARD", layout.due(group))) for group in range(layout.groups)]
        metas, found = self._reader.snapshot(layout, counts)
        return all(meta.indexed and meta.dues == str(entries) for meta, entries in zip(metas, found, strict=True))

    def build(self, link: Link, layout: Layout, metas: list[Meta], lease: Lease) -> None:
        """Build the index from the present records. No other process may write the state meanwhile."""
        none = pa.array([], pa.binary())
        for group in range(layout.groups):
            self._note(link, layout, group, lease, b"first", none, b"")
        for page in self._reader.scan(layout, metas, None, lease, _PAGE_KEYS):
            placed = place_keys(encode_checked_keys(self._where, self._shape.keys, page.drop(["value"])), layout)
            dues = scores(self._due(placed.arranged(page.column("value").combine_chunks())))
            for group in range(layout.groups):
                for chunk in placed.chunks(placed.group(group), PUT_KEYS):
                    part = dues[8 * chunk.start : 8 * chunk.stop]
                    self._note(link, layout, group, lease, b"more", placed.keys[chunk.rows], part)
        for group in range(layout.groups):
            self._note(link, layout, group, lease, b"last", none, b"")

    def _due(self, values: pa.Array) -> pa.Array:
        assert self._shape.due is not None
        return self._shape.due(values)

    def _note(
        self, link: Link, layout: Layout, group: int, lease: Lease, part: bytes, keys: pa.Array, dues: bytes
    ) -> None:
        names = [layout.packed_metas[group], layout.packed_dues[group]]
        fields = Blob(with_lengths(keys))[0 : len(keys)]
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"0")
        (reply,) = link.call_scripts([call(INDEX, names, *fence, part, fields, dues)])
        check_answer(link, reply, lease, 0, self._where)
