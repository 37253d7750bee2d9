"""Reads of a state as of an earlier, kept txid; see `trident_state.store.Historic`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
import pyarrow as pa

from trident.base.errors import SnapshotMovedError
from trident_state.delta.columns import TableColumns
from trident_state.delta.entry_counts import count_entries
from trident_state.delta.past_files import MissingFileError
from trident_state.delta.range_reads import RangeReads
from trident_state.delta.reading import TableReads
from trident_state.delta.record import TableVersion
from trident_state.key_order import KeyRange
from trident_state.keys import encode_checked_keys
from trident_state.store_messages import Found


class PastReads:
    """A state as of one txid, readable by any thread. Later batches and merges do not affect its results.

    `look` returns the last version. Reads raise SnapshotMovedError when the txid is no longer kept.
    """

    def __init__(
        self,
        look: Callable[[], TableVersion | None],
        reads: TableReads,
        ranges: RangeReads,
        columns: TableColumns,
        txid: int,
        where: str,
    ) -> None:
        self._look, self._reads, self._ranges, self._columns = look, reads, ranges, columns
        self._txid, self._where = txid, where

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        """Return the values of the keys; see `Store.read`. `asOf` is the txid of this object."""
        encoded = encode_checked_keys(self._where, self._reads.keys, keys)
        with self._kept() as version:
            cutoff = self._reads.cutoff(version, self._txid)
            return Found(self._reads.values(version, encoded, self._txid, cutoff), self._txid)

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        """Yield all entries; see `Store.scan`."""
        with self._kept() as version:
            yield from self._reads.tables(version, self._txid, self._reads.cutoff(version, self._txid), pageRows)

    def has_order(self) -> bool:
        """Return whether the keys have an order; see `trident_state.range_reads.Ranged`."""
        return self._ranges.has_order

    def read_ranges(self, ranges: Sequence[KeyRange], most: int | None, asOf: int | None) -> list[pa.Table] | None:
        """Return the entries of each range; see `trident_state.range_reads.Ranged`."""
        if not self._ranges.has_order:
            return None
        with self._kept() as version:
            return self._ranges.tables(version, ranges, most, self._txid, self._reads.cutoff(version, self._txid))

    def count_entries(self, asOf: int | None) -> int | None:
        """Return the number of entries; see `trident_state.store.EntriesCounted`."""
        with self._kept() as version:
            cutoff = self._reads.cutoff(version, self._txid)
            return count_entries(self._reads, self._columns, version, self._txid, cutoff)

    @contextmanager
    def _kept(self) -> Iterator[TableVersion]:
        version = self._look()
        if version is None or not version.kept_since <= self._txid <= version.marker:
            tag = None if version is None else version.tags.at(self._txid)
            if version is None or tag is None:
                raise SnapshotMovedError(
                    f"{self._where} cannot be read as of txid {self._txid}, which is no longer kept"
                )
            version = msgspec.structs.replace(version, files=tag.data_files(self._where))
        try:
            yield version
        except MissingFileError as error:
            raise SnapshotMovedError(
                f"{self._where} cannot be read as of txid {self._txid}: one of its files was deleted ({error})"
            ) from error
