"""Placement of a batch's keys: they are sorted by bucket, and cut into chunks. Each chunk is sent in one command.

The bucket of a key is the hash of its encoding modulo the number of buckets. Because keys are sorted, a chunk touches
few buckets.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trident.base.cached_property import cached_property
from trident.base.errors import StateValueError
from trident_state.binary_arrays import lengths_of
from trident_state.keys import hash_keys
from trident_state.redis.layout import Layout
from trident_state.write_checks import check_distinct_keys

PUT_KEYS = 1000
"""The most keys in a script call, which takes about 2 ms. In that time the server answers no other client."""
READ_KEYS = 10_000
"""The most keys that are read in one transaction."""
_PUT_BYTES = 4 * 1024 * 1024
_MAX_FIELD = 256 * 1024 * 1024


class Chunk(msgspec.Struct, frozen=True):
    """The rows [start, stop) of a placement, the buckets that have them, and how many each bucket has."""

    start: int
    stop: int
    buckets: list[int]
    counts: list[int]

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)

    def runs(self) -> Iterator[tuple[int, slice]]:
        """Yield each bucket of the chunk with its rows."""
        at = self.start
        for bucket, count in zip(self.buckets, self.counts, strict=True):
            yield bucket, slice(at, at + count)
            at += count


class Placement:
    """The keys of a batch, sorted by bucket. The order of the placement is this order."""

    def __init__(self, encoded: pa.Array, hashes: npt.NDArray[np.uint64], layout: Layout) -> None:
        buckets = (hashes % np.uint64(layout.buckets)).astype(np.uint32)
        narrow = buckets.astype(np.uint16) if layout.buckets <= 65536 else buckets  # NumPy has a radix sort for 16 bits
        self._arrange(layout, encoded, buckets, np.argsort(narrow, kind="stable"))

    def _arrange(
        self, layout: Layout, encoded: pa.Array, buckets: npt.NDArray[np.uint32], order: npt.NDArray[np.int64]
    ) -> None:
        self.layout, self._order = layout, order
        self.keys = self.arranged(encoded)
        self._buckets = buckets[order]
        changes = np.flatnonzero(self._buckets[1:] != self._buckets[:-1]) + 1
        runs = [0, *changes.tolist()] if len(order) else []
        self._ids = self._buckets[runs].tolist()
        self._starts = [*runs, len(order)]

    def __len__(self) -> int:
        return len(self._order)

    def arranged(self, values: pa.Array) -> pa.Array:
        """Return values, given in the order of the batch, in the order of the placement."""
        if self._rows is None:
            return values if len(values) == len(self) else values.slice(0, len(self))
        return values.take(self._rows)

    def restored(self, values: pa.Array) -> pa.Array:
        """Return values, given in the order of the placement, in the order of the batch."""
        return values if self._positions is None else values.take(self._positions)

    @cached_property
    def _rows(self) -> pa.Array | None:
        """The row in the batch of each key of the placement; None if the keys are the batch's first rows, in order."""
        order = self._order
        return None if np.array_equal(order, np.arange(len(order))) else pa.array(order)

    @cached_property
    def _positions(self) -> pa.Array | None:
        """The row in the placement of each row of the batch; None if the two orders are the same."""
        if self._rows is None:
            return None
        positions = np.empty(len(self), np.int64)
        positions[self._order] = np.arange(len(self))
        return pa.array(positions)

    def group(self, group: int) -> slice:
        """Return the rows of the placement with keys in the given group."""
        per = self.layout.per_group
        first, last = bisect_left(self._ids, group * per), bisect_left(self._ids, (group + 1) * per)
        return slice(self._starts[first], self._starts[last])

    def cut(self, keys: int) -> list["Placement"]:
        """Return placements of at most `keys` keys each, which together are this one."""
        return [self] if len(self) <= keys else [self._part(at, at + keys) for at in range(0, len(self), keys)]

    def _part(self, start: int, stop: int) -> "Placement":
        part, buckets = object.__new__(Placement), self._buckets[start:stop]
        part._arrange(self.layout, self.keys.slice(start, len(buckets)), buckets, np.arange(len(buckets)))
        return part

    def filter(self, rows: npt.NDArray[np.bool_]) -> "Placement":
        """Return a placement of only the given rows. Its `restored` returns the order of this placement."""
        placement = object.__new__(Placement)
        placement._arrange(self.layout, self.keys, self._buckets, np.flatnonzero(rows))
        return placement

    def chunks(self, rows: slice, keys: int, ends: npt.NDArray[np.int64] | None = None) -> Iterator[Chunk]:
        """Yield the rows in chunks of at most `keys` rows, cut between two buckets if possible.

        With `ends`, the number of bytes from the first row of the placement to the end of each row, a chunk also has at
        most 4 MB, or one row if that has more.
        """
        starts, at = self._starts, rows.start
        while at < rows.stop:
            stop = min(at + keys, rows.stop)
            if ends is not None:
                before = int(ends[at - 1]) if at else 0
                stop = min(stop, max(at + 1, int(np.searchsorted(ends, before + _PUT_BYTES, side="right"))))
            if stop < rows.stop and (border := starts[bisect_right(starts, stop) - 1]) > at:
                stop = border
            first, last = bisect_right(starts, at) - 1, bisect_left(starts, stop)
            bounds = [at, *starts[first + 1 : last], stop]
            yield Chunk(at, stop, self._ids[first:last], [b - a for a, b in zip(bounds, bounds[1:], strict=False)])
            at = stop


def place_keys(encoded: pa.Array, layout: Layout) -> Placement:
    """Return the placement of encoded keys."""
    return Placement(encoded, hash_keys(encoded), layout)


def place_distinct_keys(encoded: pa.Array, layout: Layout, where: str, txid: int) -> Placement:
    """Return the placement of encoded keys. Raises StateValueError if a key occurs twice or is too long."""
    hashes = hash_keys(encoded)
    check_distinct_keys(where, encoded, hashes, txid)
    if int(lengths_of(encoded).max(initial=0)) > _MAX_FIELD:
        raise StateValueError(f"{where}: a key of batch {txid} has more than {_MAX_FIELD} bytes; nothing was applied")
    return Placement(encoded, hashes, layout)
