"""Indexes of the keys of a table's files in the order of their types, for reads of ranges.

The rows of a file are sorted by a hash. A file never changes, so its index is made when a range first needs it, and is
kept in a file on this machine's disk, which is mapped into memory: a state of any size needs no memory for it. A merge
makes new files; the indexes of the others stay.
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
        """Return the first keys of a range that some files have, encoded, in order: at most about `most` of them.

        Also return the order of the last of them; None if there are no more keys after them.
        """
        parts = [self._part(file, between, most) for file in files if file.rows]
        parts = [part for part in parts if part.num_rows]
        if not parts:
            return pa.array([], pa.binary()), None
        # A part that was cut has all keys up to its last one. Beyond the least of these ends keys may be missing.
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
                    # not a TemporaryDirectory, which warns if it is deleted with its owner
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
