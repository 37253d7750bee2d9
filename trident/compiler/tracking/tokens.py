"""Tokens of rows: a keyed 64-bit number for each row that is sent over an edge, like those of Storm's acker.

A row's id, which is sent with the row, consists of the sending partition and the row's number in it. The token is
computed at both ends by mixing the id and the edge's key. So two equal rows have different tokens and cannot cancel
each other, and a row of another attempt or edge has a token that the ledger does not expect.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy
import numpy.typing

Ids = numpy.typing.NDArray[numpy.int64]
"""The ids of rows. The upper bits are the sending partition, the lower `_ROW_BITS` the row's number in it."""

_ROW_BITS = 40
_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Tally:
    """A number of rows, and the XOR of their tokens."""

    rows: int = 0
    value: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.rows + other.rows, self.value ^ other.value)


@dataclass(frozen=True, slots=True)
class Edge:
    """The edge from one step's partitions to another's, in one attempt. `key` is different in each attempt."""

    name: str
    key: int

    @classmethod
    def of(cls, secret: bytes, attempt: str, name: str) -> "Edge":
        """Return the edge of this name in an attempt. Its key is derived from the run's secret.

        >>> Edge.of(b"s", "3:0", "a") == Edge.of(b"s", "3:0", "a")
        True
        >>> Edge.of(b"s", "3:0", "a") == Edge.of(b"s", "3:1", "a")
        False
        """
        digest = hashlib.blake2b(f"{attempt}\0{name}".encode(), digest_size=8, key=secret)
        return cls(name, int.from_bytes(digest.digest(), "big"))

    def seal(self, partition: int) -> int:
        """Return a number that proves that a partition's report belongs to this edge and attempt."""
        return int(_mixed(numpy.array([~partition], numpy.int64), self.key)[0])

    def tally(self, ids: Ids) -> Tally:
        """Return the tally of the rows with these ids.

        >>> edge = Edge("a", 7)
        >>> both = edge.tally(row_ids(2, 0, 3)) + edge.tally(row_ids(2, 3, 5))
        >>> both == edge.tally(row_ids(2, 0, 5)), both.rows, edge.tally(row_ids(2, 0, 0))
        (True, 5, Tally(rows=0, value=0))
        """
        return Tally(len(ids), int(numpy.bitwise_xor.reduce(_mixed(ids, self.key))) if len(ids) else 0)

    def by_sender(self, ids: Ids) -> Iterator[tuple[int, Tally]]:
        """Yield the tally of the rows from each partition that sent some of these ids."""
        senders = ids >> _ROW_BITS
        if not len(ids) or senders.min() == senders.max():
            if len(ids):
                yield int(senders[0]), self.tally(ids)
            return
        order = numpy.argsort(senders, kind="stable")
        ids, senders = ids[order], senders[order]
        starts = numpy.flatnonzero(numpy.diff(senders, prepend=senders[0] - 1))
        for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
            yield int(senders[start]), self.tally(ids[start:end])


def row_ids(partition: int, start: int, end: int) -> Ids:
    """Return the ids of the rows from `start` to `end` that a partition sends."""
    return numpy.arange(start, end, dtype=numpy.int64) + (partition << _ROW_BITS)


def _mixed(ids: Ids, key: int) -> "numpy.typing.NDArray[numpy.uint64]":
    """Return a 64-bit mix of each id and the key, by SplitMix64's last steps: one changed bit changes half of it."""
    mixed = ids.view(numpy.uint64) ^ numpy.uint64(key & _MASK)
    mixed = mixed + numpy.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> numpy.uint64(31))
