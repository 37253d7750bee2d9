"""Room taken back from values that have passed away: bucket after bucket, a little with every look at the state."""

import math

from trident.base.attempt import Lease
from trident_state.redis.command_routing import Link
from trident_state.redis.layout import Layout
from trident_state.redis.scripts import SWEEP
from trident_state.redis.wire import call

FIELDS = 500
"""Fields a script call looks at: well under a millisecond, in which the server answers nobody else."""
AT_ONCE = 16
"""Calls a request."""
_MOST = 256
_ROUNDS = 4
"""How often a whole state is swept in the time that a value lives, as far as `_MOST` calls a second allow."""


class Sweeper:
    """Sweeps one state, under its writer's lock."""

    def __init__(self, link: Link, form: str, ttl: float) -> None:
        self._link, self._form, self._ttl = link, form.encode(), ttl
        self._bucket, self._cursors = 0, dict[int, bytes]()

    def calls(self, layout: Layout, keys: int) -> int:
        """How many calls are due, if this is asked once a second."""
        whole = max(layout.buckets, keys / FIELDS)
        return min(_MOST, math.ceil(whole * _ROUNDS / max(self._ttl, float(_ROUNDS))))

    def sweep(self, layout: Layout, lease: Lease, marker: int, forgotten: int, calls: int) -> int:
        """Delete what was last changed at or before txid `forgotten`, as far as so many calls come, where the state has
        not fallen back behind `marker`, as of which this was told. How many went."""
        buckets = [self._next(layout) for _ in range(min(calls, AT_ONCE, layout.buckets))]
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"%d" % marker, b"%d" % forgotten)
        requests = []
        for bucket in buckets:
            names = [layout.packed_metas[bucket // layout.per_group], layout.packed_buckets[bucket]]
            cursor = self._cursors.get(bucket, b"0")
            requests.append(call(SWEEP, names, *fence, cursor, b"%d" % FIELDS, self._form))
        gone = 0
        for bucket, reply in zip(buckets, self._link.exchange(requests), strict=True):
            if not self._link.consents(reply):
                break
            self._cursors[bucket] = reply[1]
            gone += int(reply[2])
        return gone

    def _next(self, layout: Layout) -> int:
        """The bucket whose turn it is: the same as long as it is not done with."""
        if self._cursors.get(self._bucket, b"0") == b"0":
            self._cursors.pop(self._bucket, None)
        self._bucket = (self._bucket + 1) % layout.buckets
        return self._bucket
