"""A state as of one txid, for processes other than the driver that read it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa

from trident.base.errors import SnapshotMovedError
from trident_state.keys import encode_checked_keys
from trident_state.redis.cluster import Servers
from trident_state.redis.command_routing import Links
from trident_state.redis.due_index import BatchBegunError, DueIndex
from trident_state.redis.placement import place_keys
from trident_state.redis.reader import LayoutChanged, Reader
from trident_state.redis.shared_state import SharedState

_PAGE_ROWS = 10_000


@dataclass(frozen=True)
class OpenSnapshot(SharedState):
    """The data that a process needs to read a state as of a txid; see `trident_state.store.SharedSnapshot`."""

    asOf: int
    cutoff: int | None = None
    """The txid up to which values have expired; None: the state's own cutoff as of the snapshot's txid applies."""

    def read(self, keys: pa.Table) -> pa.Array:
        """Return the values of keys as of the snapshot's txid. The connections are closed at the end."""
        placed = place_keys(encode_checked_keys(self.where, self.shape.keys, keys), self.layout)
        with self._reading() as reader:
            values, _ = reader.read(placed, self.asOf, self.lease, self.cutoff)
        return placed.restored(values)

    def scan(self) -> Iterator[pa.Table]:
        """Yield all entries as of the snapshot's txid."""
        with self._reading() as reader:
            layout, metas = reader.current(self.layout)
            yield from reader.scan(layout, metas, self.asOf, self.lease, _PAGE_ROWS, cutoff=self.cutoff)

    @property
    def groups(self) -> int:
        """The number of the state's groups."""
        return self.layout.groups

    def due_in(self, group: int, until: int) -> Iterator[pa.Table]:
        """Yield the keys of a group that are due at or before `until`, in microseconds since 1970."""
        with self._reading() as reader:
            yield from DueIndex(self.where, self.shape, reader).read(self.layout, [group], until, self.asOf, self.lease)

    def count_due(self, until: int) -> int | None:
        """Return how many keys are due at or before `until`, in microseconds since 1970; None if it is unknown."""
        groups = range(self.groups)
        with self._reading() as reader, suppress(BatchBegunError):
            return sum(
                DueIndex(self.where, self.shape, reader).counts(self.layout, groups, until, self.asOf, self.lease)
            )
        return None

    @contextmanager
    def _reading(self) -> Iterator[Reader]:
        with closing(Links(Servers(self.address, self.where))) as links:
            reader = Reader(links, self.where, self.shape, self.kind, self.records)
            reader.incarnation = self.incarnation
            try:
                yield reader
            except LayoutChanged as error:
                raise SnapshotMovedError(str(error)) from None
