"""Indexes of a table's files by key, in key order, for range reads.

The rows of a file are sorted by a hash. A file never changes, so its index is built at the first range read, and is
kept in a memory-mapped file on the local disk: it needs no memory, whatever the size of the state. After a merge, only
the new files need new indexes.
"""

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from trident_state.delta.data_files import DataFile
from trident_state.key_order import KeyRange, order_of
from trident_state.keys import decode_keys

_SCHEMA = pa.schema({"order": pa.large_binary(), "key": pa.large_binary()})

KeysOf = Callable[[DataFile], pa.Array]


class KeyIndex:
    """The indexes of one table. `keys_of` reads the encoded keys of a file."""

    def __init__(self, keys: pa.Schema, keys_of: KeysOf) -> None:
        self._keys, self._keys_of = keys, keys_of
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._tables: dict[str, pa.Table] = {}

    def first(self, files: Sequence[DataFile], between: KeyRange, most: int) -> tuple[pa.Array, bytes | None]:
        """Return the first keys of a range in some files, encoded and in order, at most about `most`.

        Also return the order-preserving bytes of the last key; None if the range has no more keys.
        """
        parts = [self._part(file, between, most) for file in files if file.rows]
        parts = [part for part in parts if part.num_rows]
        if not parts:
            return pa.array([], pa.binary()), None
        # A truncated part has all keys up to its last one. Beyond the least of these ends keys may be missing.
        ends = [part.column("order")[-1].as_py() for part in parts if part.num_rows == most]
        table = pa.concat_tables(parts)
        if ends:
            table = table.filter(pc.less_equal(table.column("order"), pa.scalar(min(ends), pa.large_binary())))
        table = table.group_by(["order", "key"]).aggregate([]).sort_by("order")
        return table.column("key").combine_chunks().cast(pa.binary()), min(ends) if ends else None

    def forget(self, kept: set[str]) -> None:
        """Delete the indexes of files that are not among `kept`."""
        with self._lock:
            for path in [path for path in self._tables if path not in kept]:
                del self._tables[path]
                if self._folder is not None:
                    (self._folder / path).unlink(missing_ok=True)

    def _part(self, file: DataFile, between: KeyRange, most: int) -> pa.Table:
        table = self._table(file)
        orders = table.column("order").chunk(0) if table.num_rows else pa.array([], pa.large_binary())
        first = _position(orders, between.low)
        last = len(orders) if between.high is None else _position(orders, between.high)
        return table.slice(first, max(0, min(last - first, most)))

    def _table(self, file: DataFile) -> pa.Table:
        with self._lock:
            if (held := self._tables.get(file.path)) is not None:
                return held
        made = self._made(file)
        with self._lock:
            if file.path not in self._tables:
                if self._folder is None:
                    # a TemporaryDirectory would warn when it is deleted together with its owner
                    self._folder = Path(tempfile.mkdtemp(prefix="trident-keys-"))
                    weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
                path = self._folder / file.path
                with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
                    writer.write_table(made)
                with pa.memory_map(str(path)) as source:
                    self._tables[file.path] = pa.ipc.open_file(source).read_all()
            return self._tables[file.path]

    def _made(self, file: DataFile) -> pa.Table:
        encoded = self._keys_of(file)
        orders = order_of(decode_keys(encoded, self._keys), len(self._keys))
        rows = pc.sort_indices(orders)
        table = pa.table(
            [orders.take(rows).cast(pa.large_binary()), encoded.take(rows).cast(pa.large_binary())], _SCHEMA
        )
        return table.combine_chunks()


def _position(orders: pa.Array, order: bytes) -> int:
    """Return the number of entries that are less than `order`."""
    low, high = 0, len(orders)
    while low < high:
        middle = (low + high) // 2
        if orders[middle].as_py() < order:
            low = middle + 1
        else:
            high = middle
    return low
