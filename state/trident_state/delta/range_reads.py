"""Range reads over the key indexes of a table's files; see `trident_state.range_reads.Ranged`."""

from collections.abc import Sequence

import pyarrow as pa

from trident_state.delta.data_files import DataFile
from trident_state.delta.key_index import KeyIndex
from trident_state.delta.reading import TableReads
from trident_state.delta.record import TableVersion
from trident_state.key_order import KeyRange, possible_keys, unordered_field
from trident_state.keys import decode_keys, encode_keys

_AT_ONCE = 10_000
"""The most keys whose values are read at once."""
_MORE = 64
"""The extra keys to read beyond the requested number, because some keys may have no value."""
_POSSIBLE = 10_000
"""The most possible keys of a range that are read one by one, without an index."""


class RangeReads:
    """Reads ranges of keys of one state from versions of its table."""

    def __init__(self, reads: TableReads, entries: pa.Schema) -> None:
        self._reads, self._entries = reads, entries
        self._keys = reads.keys
        self.index = KeyIndex(reads.keys, reads.keys_of)

    @property
    def has_order(self) -> bool:
        """Return whether the keys have an order."""
        return bool(len(self._keys)) and unordered_field(self._keys) is None

    def tables(
        self, version: TableVersion | None, ranges: Sequence[KeyRange], most: int | None, asOf: int, cutoff: int
    ) -> list[pa.Table]:
        """Return the entries of each range as of `asOf`, in key order: the first `most` of them, or all."""
        if version is None:
            return [self._entries.empty_table() for _ in ranges]
        files = self._reads.past.as_of(version.files, asOf)
        return [self._table(version, files, between, most, asOf, cutoff) for between in ranges]

    def _table(
        self,
        version: TableVersion,
        files: Sequence[DataFile],
        between: KeyRange,
        most: int | None,
        asOf: int,
        cutoff: int,
    ) -> pa.Table:
        found, rows, rest = [self._entries.empty_table()], 0, between
        possible = possible_keys(between, self._keys, _POSSIBLE)
        while True:
            if possible is not None:
                keys, end = encode_keys(possible), None
            else:
                wanted = _AT_ONCE if most is None else min(_AT_ONCE, most - rows + _MORE)
                keys, end = self.index.first(files, rest, wanted)
            values = self._reads.values(version, keys, asOf, cutoff)
            present = values.is_valid()
            page = decode_keys(keys.filter(present), self._keys).append_column("value", values.filter(present))
            found.append(page.rename_columns(self._entries.names))
            rows += page.num_rows
            if end is None or (most is not None and rows >= most):
                return pa.concat_tables(found).slice(0, most)
            rest = rest.after(end)
