"""Deletion of keys that no read can see any more, because their value expired or was removed."""

import math
from collections import deque

import numpy as np
import pyarrow as pa

from trident.base.attempt import Lease
from trident_state.binary_arrays import lengths_of, with_lengths
from trident_state.records.forms import FixedRecords, Records
from trident_state.redis.command_routing import Link
from trident_state.redis.layout import Layout
from trident_state.redis.placement import PUT_KEYS, place_keys
from trident_state.redis.scripts import CLEAR, SWEEP
from trident_state.redis.wire import Blob, call

SWEEP_FIELDS = 500
"""The fields that one call of the sweep script looks at. The call blocks all other clients for far less than 1 ms."""
SWEEP_CALLS = 16
"""The most calls of the sweep script in one request."""
_MAX_CALLS = 256
_ROUNDS = 4
"""The number of sweeps of the whole state within a time to live, as far as `_MAX_CALLS` calls a second allow."""

CLEAR_KEYS = 64_000
"""The most removed keys that are deleted in one request."""


class ExpiredValues:
    """The deletion of one state's expired values, bucket by bucket. The caller must hold the writer's lock."""

    def __init__(self, link: Link, form: str, ttl: float) -> None:
        self._link, self._form, self._ttl = link, form.encode(), ttl
        self._bucket, self._cursors = 0, dict[int, bytes]()

    def calls_due(self, layout: Layout, keys: int) -> int:
        """Return the number of script calls that are due now, if the caller asks once a second."""
        round_calls = max(layout.buckets, keys / SWEEP_FIELDS)
        return min(_MAX_CALLS, math.ceil(round_calls * _ROUNDS / max(self._ttl, float(_ROUNDS))))

    def sweep(self, layout: Layout, lease: Lease, marker: int, cutoff: int, calls: int) -> int:
        """Delete values last changed at or before `cutoff`, with at most `calls` script calls.

        Return the number of deleted values.

        `marker` is the marker that was read together with the cutoff. The script refuses to delete anything if the
        server was rewound to an earlier marker since.
        """
        buckets = [self._next_bucket(layout) for _ in range(min(calls, SWEEP_CALLS, layout.buckets))]
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"%d" % marker, b"%d" % cutoff)
        requests = []
        for bucket in buckets:
            names = [layout.packed_metas[bucket // layout.per_group], layout.packed_buckets[bucket]]
            cursor = self._cursors.get(bucket, b"0")
            requests.append(call(SWEEP, names, *fence, cursor, b"%d" % SWEEP_FIELDS, self._form))
        deleted = 0
        for bucket, reply in zip(buckets, self._link.call_scripts(requests), strict=True):
            if not self._link.succeeded(reply):
                break
            self._cursors[bucket] = reply[1]
            deleted += int(reply[2])
        return deleted

    def _next_bucket(self, layout: Layout) -> int:
        """Return the number of the next bucket to sweep. The scan of a bucket continues after its last call.

        The cursor may be of an earlier process of the server, which leaves out keys of the bucket until the next round.
        """
        if self._cursors.get(self._bucket, b"0") == b"0":
            self._cursors.pop(self._bucket, None)
        self._bucket = (self._bucket + 1) % layout.buckets
        return self._bucket


class RemovedKeys:
    """The deletion of one state's removed keys, from a queue. The caller must hold the writer's lock.

    The queue is in memory: if a driver is killed, the keys that were removed in its last second stay in the server
    until they are removed again.
    """

    def __init__(self, link: Link, records: Records, form: str, bare: bool) -> None:
        self._link, self._bare = link, bare
        self._form = b"fixed" if isinstance(records, FixedRecords) else form.encode()
        self._waiting: deque[tuple[int, pa.Array]] = deque()

    def __len__(self) -> int:
        return sum(len(keys) for _, keys in self._waiting)

    def add(self, txid: int, keys: pa.Array) -> None:
        """Queue encoded keys that batch `txid` left without a value."""
        for at in range(0, len(keys), CLEAR_KEYS):
            self._waiting.append((txid, keys[at : at + CLEAR_KEYS]))

    def forget(self) -> None:
        """Empty the queue, because the state is dropped."""
        self._waiting.clear()

    def clear(self, layout: Layout, lease: Lease, marker: int) -> bool:
        """Delete the first of the queued keys that were removed before batch `marker`.

        All groups have reached that batch.

        Return False, upon which the caller stops, if there are none to delete now or the script refused. The script
        deletes only keys without a value, so a key that has got a value from a later batch stays.
        """
        if not self._waiting or self._waiting[0][0] >= marker:
            return False
        keys = place_keys(self._waiting[0][1], layout)
        framed = with_lengths(keys.keys)
        hash_fields, ends = Blob(framed), np.cumsum(lengths_of(framed))
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"%d" % marker)
        form, requests = (self._form, b"%d" % self._bare), list[bytes]()
        for group in range(layout.groups):
            for chunk in keys.chunks(keys.group(group), PUT_KEYS, ends):
                names = [layout.packed_metas[group], *[layout.packed_buckets[bucket] for bucket in chunk.buckets]]
                counts = np.array(chunk.counts, "<u4").tobytes()
                requests.append(call(CLEAR, names, *fence, counts, hash_fields[chunk.rows], *form))
        for reply in self._link.call_scripts(requests):
            if not self._link.succeeded(reply):
                return False
        self._waiting.popleft()
        return True
