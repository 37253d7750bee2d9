"""Room taken back from keys whose value was removed: each of them is deleted once no read can see the value before."""

from collections import deque

import numpy as np
import pyarrow as pa

from trident.base.attempt import Lease
from trident_state.binary import lengths_of, with_lengths
from trident_state.records.forms import FixedRecords, Records
from trident_state.redis.command_routing import Link
from trident_state.redis.layout import Layout
from trident_state.redis.placement import PUT_KEYS, place
from trident_state.redis.scripts import CLEAR
from trident_state.redis.wire import Blob, call

AT_ONCE = 64_000
"""Keys a request."""


class Clearing:
    """The removed keys of one state, under its writer's lock. Those of the last second of a driver that was killed
    stay until they are removed again."""

    def __init__(self, link: Link, records: Records, form: str, bare: bool) -> None:
        self._link, self._bare = link, bare
        self._form = b"fixed" if isinstance(records, FixedRecords) else form.encode()
        self._waiting: deque[tuple[int, pa.Array]] = deque()

    def __len__(self) -> int:
        return sum(len(keys) for _, keys in self._waiting)

    def note(self, txid: int, keys: pa.Array) -> None:
        """These keys (encoded) hold nothing since batch `txid`."""
        for at in range(0, len(keys), AT_ONCE):
            self._waiting.append((txid, keys[at : at + AT_ONCE]))

    def forget(self) -> None:
        """The state is dropped."""
        self._waiting.clear()

    def clear(self, layout: Layout, lease: Lease, marker: int) -> bool:
        """Delete some that were removed before batch `marker`, which all groups have reached; whether more can go.

        The script deletes only what holds nothing, so it does not matter what became of a key meanwhile."""
        if not self._waiting or self._waiting[0][0] >= marker:
            return False
        keys = place(self._waiting[0][1], layout)
        framed = with_lengths(keys.keys)
        fields, ends = Blob(framed), np.cumsum(lengths_of(framed))
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"%d" % marker)
        how, requests = (self._form, b"%d" % self._bare), list[bytes]()
        for group in range(layout.groups):
            for chunk in keys.chunks(keys.group(group), PUT_KEYS, ends):
                names = [layout.packed_metas[group], *[layout.packed_buckets[bucket] for bucket in chunk.buckets]]
                counts = np.array(chunk.counts, "<u4").tobytes()
                requests.append(call(CLEAR, names, *fence, counts, fields[chunk.rows], *how))
        for reply in self._link.exchange(requests):
            if not self._link.consents(reply):
                return False
        self._waiting.popleft()
        return True
