"""An index of the open windows and the keys in each. It is kept beside the state, in this process only.

The index describes the state after one batch. After a restart, or if a batch is computed once more, the index is read
again from the state.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trident.compiler.states.overlay import Stored
from trident.compiler.windows.tuple_lists import Ids, microseconds, timestamps
from trident_state.binary_arrays import one_chunk
from trident_state.keys import encode_keys

_LARGE = 4096
"""The rows from which a table of keys is not merged with later ones. A table takes 1.5 KB besides its rows, so small
tables must be merged."""


class BatchIndex:
    """The base of an index beside a state. The index describes the state after one batch."""

    _txid: int | None = None
    """The batch after which the index describes the state; None before the first batch, and while a batch changes the
    index."""

    def begin(self, txid: int, stored: Stored) -> None:
        """Make the index describe the state before batch `txid`.

        The state is read unless the index describes it already.

        If the batch fails, and `end` is therefore not called, the next `begin` reads the index again.
        """
        before, self._txid = self._txid, None
        if before != txid - 1:
            self._read(stored)

    def end(self, txid: int) -> None:
        """Note that the index, with all additions and removals, now describes the state after batch `txid`."""
        self._txid = txid

    def _read(self, stored: Stored) -> None:
        """Read the index from the state."""
        raise NotImplementedError


class OpenWindows(BatchIndex):
    """The keys of a state by the start of their window or pane. `_fields` are the key fields after the start."""

    def __init__(self, keys: pa.Schema) -> None:
        self._schema = keys
        self._start = keys.field(0)
        self._fields = pa.schema(list(keys)[1:])
        self._keys: dict[int, list[pa.Table]] = {}
        """The keys of each start, in few tables: each is large, or has at least twice the rows of the next one."""

    def _read(self, stored: Stored) -> None:
        self._keys = {}
        for page in stored.scan():
            self.add(page)

    def add(self, keys: pa.Table) -> None:
        """Add keys that are not in the index yet."""
        for start, part in by_start(keys, self._start.name):
            parts = self._keys.setdefault(start, [])
            parts.append(part.select(self._fields.names))
            while len(parts) > 1 and parts[-2].num_rows < min(2 * parts[-1].num_rows, _LARGE):
                parts[-2:] = [pa.concat_tables(parts[-2:]).combine_chunks()]

    def remove(self, keys: pa.Table) -> None:
        """Remove keys. Those whose start was dropped are skipped."""
        for start, part in by_start(keys, self._start.name):
            if start in self._keys:
                held = self.whole([start])
                self.drop(start)
                self.add(held.filter(pc.invert(pc.is_in(encode_keys(held), value_set=encode_keys(part)))))

    def starts(self) -> list[int]:
        """Return the starts that have keys, in order."""
        return sorted(self._keys)

    def whole(self, starts: Iterable[int]) -> pa.Table:
        """Return all keys with these starts. The keys of one start are in the order in which they were added."""
        parts = [self._schema.empty_table()]
        for start in starts:
            for keys in self._keys[start]:
                times = timestamps(np.full(keys.num_rows, start), self._start.type)
                parts.append(keys.add_column(0, self._start, times))
        return pa.concat_tables(parts).combine_chunks()

    def drop(self, start: int) -> None:
        """Remove the start of a window, and its keys."""
        del self._keys[start]


def values_now(keys: pa.Table, touched: pa.Table, stored: Stored) -> pa.Array:
    """Return the value of each key after a batch: from `touched` if the batch changed it, otherwise from the store.

    `touched` has the key fields, then the value.
    """
    rows = pc.index_in(encode_keys(keys), value_set=encode_keys(touched.select(keys.column_names)))
    return pc.if_else(rows.is_valid(), one_chunk(touched.column(touched.num_columns - 1)).take(rows), stored.read(keys))


def removals(keys: pa.Table, puts: pa.Schema) -> pa.Table:
    """Return the puts that remove these keys: each key with a null, which means that it has no entry."""
    return keys.append_column(puts.field(len(puts) - 1), pa.nulls(keys.num_rows, puts.types[-1]))


def is_unique(keys: pa.Table) -> bool:
    """Return whether no key occurs twice."""
    return bool(pc.count_distinct(encode_keys(keys)).as_py() == keys.num_rows)


def by_start(table: pa.Table, field: str) -> Iterator[tuple[int, pa.Table]]:
    """Yield each start in the column `field`, in ascending order, with its rows."""
    if not table.num_rows:
        return
    for start, rows in runs(microseconds(table.column(field))):
        yield start, table if len(rows) == table.num_rows else table.take(pa.array(rows))


def runs(values: Ids) -> Iterator[tuple[int, Ids]]:
    """Yield each distinct value, in ascending order, with the numbers of its rows."""
    if not len(values):
        return
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    for rows in np.split(order, cuts):
        yield int(values[rows[0]]), rows
