"""Deletion of fields that no read can see any more: expired values, and keys whose value was removed."""

import math
from collections import deque

import numpy as np
import pyarrow as pa

from trident.base.attempt import Lease
from trident_state.binary import lengths_of, with_lengths
from trident_state.records.forms import FixedRecords, Records
from trident_state.redis.command_routing import Link
from trident_state.redis.layout import Layout
from trident_state.redis.placement import PUT_KEYS, place_keys
from trident_state.redis.scripts import CLEAR, SWEEP
from trident_state.redis.wire import Blob, call

SWEEP_FIELDS = 500
"""Fields that a call of the sweep looks at: well under a millisecond, in which the server answers no other client."""
SWEEP_CALLS = 16
"""Calls of the sweep per request."""
_MAX_CALLS = 256
_ROUNDS = 4
"""How often a whole state is swept within a time to live, as far as `_MAX_CALLS` calls a second allow."""

CLEAR_KEYS = 64_000
"""Removed keys per request."""


class ExpiredValues:
    """The expired values of one state: deletes them bucket by bucket, under the writer's lock."""

    def __init__(self, link: Link, form: str, ttl: float) -> None:
        self._link, self._form, self._ttl = link, form.encode(), ttl
        self._bucket, self._cursors = 0, dict[int, bytes]()

    def calls_due(self, layout: Layout, keys: int) -> int:
        """Return the number of calls that are due, if this is asked once a second."""
        round_calls = max(layout.buckets, keys / SWEEP_FIELDS)
        return min(_MAX_CALLS, math.ceil(round_calls * _ROUNDS / max(self._ttl, float(_ROUNDS))))

    def sweep(self, layout: Layout, lease: Lease, marker: int, cutoff: int, calls: int) -> int:
        """Delete values that were last changed at or before `cutoff`, by at most `calls` calls; return their number.

        `marker`: the one that the cutoff was read with. The script refuses if the server has fallen back behind it.
        """
        buckets = [self._next_bucket(layout) for _ in range(min(calls, SWEEP_CALLS, layout.buckets))]
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"%d" % marker, b"%d" % cutoff)
        requests = []
        for bucket in buckets:
            names = [layout.packed_metas[bucket // layout.per_group], layout.packed_buckets[bucket]]
            cursor = self._cursors.get(bucket, b"0")
            requests.append(call(SWEEP, names, *fence, cursor, b"%d" % SWEEP_FIELDS, self._form))
        deleted = 0
        for bucket, reply in zip(buckets, self._link.exchange(requests), strict=True):
            if not self._link.succeeded(reply):
                break
            self._cursors[bucket] = reply[1]
            deleted += int(reply[2])
        return deleted

    def _next_bucket(self, layout: Layout) -> int:
        """Return the bucket after the last one; its scan goes on where its last call stopped."""
        if self._cursors.get(self._bucket, b"0") == b"0":
            self._cursors.pop(self._bucket, None)
        self._bucket = (self._bucket + 1) % layout.buckets
        return self._bucket


class RemovedKeys:
    """The removed keys of one state: queues them, and deletes them under the writer's lock.

    The queue is in memory: the keys of the last second of a driver that was killed stay until they are removed again.
    """

    def __init__(self, link: Link, records: Records, form: str, bare: bool) -> None:
        self._link, self._bare = link, bare
        self._form = b"fixed" if isinstance(records, FixedRecords) else form.encode()
        self._waiting: deque[tuple[int, pa.Array]] = deque()

    def __len__(self) -> int:
        return sum(len(keys) for _, keys in self._waiting)

    def add(self, txid: int, keys: pa.Array) -> None:
        """Queue these encoded keys, which batch `txid` left without a value."""
        for at in range(0, len(keys), CLEAR_KEYS):
            self._waiting.append((txid, keys[at : at + CLEAR_KEYS]))

    def forget(self) -> None:
        """Empty the queue, because the state is dropped."""
        self._waiting.clear()

    def clear(self, layout: Layout, lease: Lease, marker: int) -> bool:
        """Delete some keys that were removed before batch `marker`, which all groups have reached.

        Return whether to go on. The script deletes only fields without a value, so a key that a later batch has
        written again stays.
        """
        if not self._waiting or self._waiting[0][0] >= marker:
            return False
        keys = place_keys(self._waiting[0][1], layout)
        framed = with_lengths(keys.keys)
        fields, ends = Blob(framed), np.cumsum(lengths_of(framed))
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"%d" % marker)
        form, requests = (self._form, b"%d" % self._bare), list[bytes]()
        for group in range(layout.groups):
            for chunk in keys.chunks(keys.group(group), PUT_KEYS, ends):
                names = [layout.packed_metas[group], *[layout.packed_buckets[bucket] for bucket in chunk.buckets]]
                counts = np.array(chunk.counts, "<u4").tobytes()
                requests.append(call(CLEAR, names, *fence, counts, fields[chunk.rows], *form))
        for reply in self._link.exchange(requests):
            if not self._link.succeeded(reply):
                return False
        self._waiting.popleft()
        return True
