"""The keys of a memory store in key order, built at the first range read.

Commits do not touch this index: the next read of a range adds the keys that came since the last one. It adds them as
sorted runs. A run is joined to the run before it if that run is less than twice as long, so there are few runs, and
each key is sorted again only a few times. A key keeps its slot, so nothing is ever removed; a collection makes new
entries, and their first range makes a new index.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.forked_child import in_child
from trident_state.key_order import KeyRange, order_of
from trident_state.keys import decode_keys
from trident_state.memory.key_index import KeyIndex, Slots

_AT_ONCE = 1 << 20
"""The most keys that are put in order at once."""

_LARGEST_BYTES = 1 << 30
"""Runs are not joined to a run of more bytes, because Arrow's binary arrays hold twice as much at most."""


class _Run(msgspec.Struct, frozen=True):
    """Some keys in order: the bytes in order of each, and its slot."""

    orders: pa.Array
    slots: Slots

    def __len__(self) -> int:
        return len(self.slots)

    def first_at(self, order: bytes | None) -> int:
        """Return the number of keys before `order`; of all keys if it is None."""
        if order is None:
            return len(self)
        return bisect_left(range(len(self)), order, key=lambda at: self.orders[at].as_py())


class KeyOrderIndex:
    """The keys of one store's entries in order. Any thread may read ranges."""

    def __init__(self, index: KeyIndex, schema: pa.Schema) -> None:
        self._index, self._schema = index, schema
        self._runs: tuple[_Run, ...] = ()
        self._count = 0
        """The number of slots that are in the runs."""
        self._adding = threading.Lock()
        in_child(self, KeyOrderIndex._begin_again)

    def _begin_again(self) -> None:
        """Drop the runs in a forked child, because a thread of the parent may have been changing them."""
        if self._adding.locked():
            self._runs, self._count, self._adding = (), 0, threading.Lock()

    def slots(self, between: KeyRange, size: int) -> Iterator[Slots]:
        """Yield the slots of the keys in a range, in order, at most `size` at once.

        They include the slots of all keys that were inserted before the call.
        """
        runs = self._up_to_now()
        at = [run.first_at(between.low) for run in runs]
        ends = [run.first_at(between.high) for run in runs]
        while any(start < end for start, end in zip(at, ends, strict=True)):
            parts = [slice(start, min(start + size, end)) for start, end in zip(at, ends, strict=True)]
            slots = np.concatenate([run.slots[part] for run, part in zip(runs, parts, strict=True)])
            if sum(start < end for start, end in zip(at, ends, strict=True)) == 1:
                at = [part.stop for part in parts]
                yield slots
                continue
            owner = np.repeat(np.arange(len(runs)), [part.stop - part.start for part in parts])
            orders = pa.concat_arrays([run.orders[part] for run, part in zip(runs, parts, strict=True)])
            first = pc.sort_indices(orders)[:size].to_numpy()
            taken = np.bincount(owner[first], minlength=len(runs)).tolist()
            at = [start + count for start, count in zip(at, taken, strict=True)]
            yield slots[first]

    def _up_to_now(self) -> tuple[_Run, ...]:
        """Return the runs, after adding the keys that the store has got since."""
        keys = self._index.keys
        if self._count >= keys.count:
            return self._runs
        with self._adding:
            while self._count < keys.count:
                stop = min(self._count + _AT_ONCE, keys.count)
                decoded = decode_keys(keys.stored.take(slice(self._count, stop)), self._schema)
                orders = order_of(decoded, len(self._schema))
                self._runs = _joined((*self._runs, _sorted(orders, np.arange(self._count, stop))))
                self._count = stop
            return self._runs


def _sorted(orders: pa.Array, slots: Slots) -> _Run:
    order = pc.sort_indices(orders)
    return _Run(orders.take(order), slots[order.to_numpy()])


def _joined(runs: tuple[_Run, ...]) -> tuple[_Run, ...]:
    """Return the runs with the last ones joined, so that each run is at least twice as long as the next one."""
    while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]):
        *before, left, right = runs
        if left.orders.nbytes + right.orders.nbytes > _LARGEST_BYTES:
            break
        orders = pa.concat_arrays([left.orders, right.orders])
        runs = (*before, _sorted(orders, np.concatenate([left.slots, right.slots])))
    return runs
