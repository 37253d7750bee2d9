"""A batch that is open in every group of a state, so that processes other than the driver can put its keys.

The driver opens the batch and commits it; between the two, any number of processes put parts of it. Every put carries
the driver's lease and the txid, which the scripts compare with the group's meta hash in the same atomic step. So a
repeated, duplicate or late put changes nothing, and the commit is refused if the counts show that a put is missing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from trident_state.binary_arrays import one_chunk
from trident_state.expiry import Expiry
from trident_state.keys import encode_checked_keys
from trident_state.redis.cluster import Servers
from trident_state.redis.command_routing import Link
from trident_state.redis.placement import place_distinct_keys
from trident_state.redis.scripts import MERGE, PUT
from trident_state.redis.shared_state import SharedState
from trident_state.redis.writer import Task, Writer
from trident_state.store_messages import Put, Update
from trident_state.write_checks import check_update_types


@dataclass(frozen=True)
class OpenBatch(SharedState):
    """The data that a process needs to put keys of a batch; see `trident_state.store.SharedBatch`.

    `opened` are the groups that take the batch; the others hold it already.
    """

    txid: int
    expiry: Expiry | None
    opened: frozenset[int]

    def put(self, parts: Iterable[tuple[pa.Table, pa.Array | pa.ChunkedArray]]) -> Put:
        """Put the keys and deltas of some parts, over one link."""
        link = Link(Servers(self.address, self.where), (MERGE, PUT))
        writer = Writer(link, self.where, self.shape, self.kind, self.records)
        counts, moved, removed = [[0] * self.layout.groups], 0, list[pa.Array]()
        try:
            for keys, deltas in parts:
                task = self.task(keys, deltas)
                written = writer.write(task)
                counts.append(task.counts)
                moved += written.moved
                if written.removed is not None:
                    removed.append(written.removed)
        finally:
            link.close()
        return Put(summed(counts), moved, pa.concat_arrays([pa.array([], pa.binary()), *removed]))

    def task(self, keys: pa.Table, deltas: pa.Array | pa.ChunkedArray) -> Task:
        """Return the task of one part."""
        deltas = one_chunk(deltas)
        check_update_types(self.where, self.shape, Update(self.txid, keys, deltas))
        encoded = encode_checked_keys(self.where, self.shape.keys, keys)
        placed = place_distinct_keys(encoded, self.layout, self.where, self.txid)
        assert self.lease is not None, "a state opened for reading cannot take a batch"
        return Task(self.lease, self.txid, placed, placed.arranged(deltas), False, self.expiry, 0, self.opened)


def summed(counts: Iterable[Sequence[int]]) -> list[int]:
    """Return the sums of counts by group.

    >>> summed([[1, 2], [3, 4]])
    [4, 6]
    """
    return [sum(group) for group in zip(*counts, strict=True)]
