"""The rows that a batch writes into the table of a state, in the driver or in another process."""

import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from trident.base.errors import StateUnavailableError
from trident.files.delta_folder import TableFolder
from trident_state.delta.columns import TableColumns, buckets_of
from trident_state.delta.data_files import DataFile, DataFiles, FileFacts
from trident_state.delta.folding import WHOLE, combine_of, in_range, used_range
from trident_state.delta.reading import TableReads
from trident_state.delta.record import TableVersion
from trident_state.expiry import Expiry
from trident_state.keys import decode_keys, encode_and_hash
from trident_state.state_shape import StateShape
from trident_state.store_messages import Update
from trident_state.value_rules import combined
from trident_state.write_checks import check_distinct_keys, duplicate_key_error


class BatchPart(NamedTuple):
    """Rows of a batch for one file: the table of the rows, and the values of all keys after the batch if requested.

    `hashes` and `keys` are those of all keys; the keys are encoded.
    """

    table: pa.Table
    used: int
    values: pa.Array | None
    hashes: npt.NDArray[np.uint64]
    keys: pa.Array


class BatchRows:
    """Computes and writes the rows of batches of one state. Up to `cache` bytes of rows are cached for reads."""

    def __init__(self, folder: TableFolder, shape: StateShape, cache: int, where: str) -> None:
        self._shape, self._where = shape, where
        self.columns = TableColumns(shape.keys, shape.value, where)
        self.files = DataFiles(folder, self.columns, cache)
        self.reads = TableReads(self.files, shape.keys, shape.value, where)

    def part(self, version: TableVersion, update: Update, expiry: Expiry, values: bool, rows: slice) -> BatchPart:
        """Return the rows that a part of an update writes after `version`."""
        keys, deltas = update.part(rows)
        encoded, hashes = encode_and_hash(self._where, self._shape.keys, keys)
        check_distinct_keys(self._where, encoded, hashes, update.txid)
        combine, every = combine_of(version.rows), encoded
        used = used_range(combine, deltas)
        written = after = deltas
        if self._must_read(version, values, used):
            stored = self.reads.values(version, encoded, version.marker, expiry.cutoff)
            after = combined(self._shape.combine, stored, deltas, self._where)
            written = after if combine is None else deltas
        if combine is not None and written.null_count:  # a null changes nothing
            kept = written.is_valid()
            keys, encoded, written = keys.filter(kept), encoded.filter(kept), written.filter(kept)
        txids = np.full(len(written), update.txid, np.int64)
        table = self.columns.table(_normal(keys, encoded, self._shape.keys), written, txids, buckets_of(encoded))
        return BatchPart(table, used, after if values else None, hashes, every)

    def write(self, part: BatchPart, txid: int, expiry: Expiry) -> DataFile:
        """Write a part of a batch into a new file. `expiry` is the expiry after the batch."""
        return self._write(part.table, part.used, txid, expiry)

    def write_none(self, txid: int, expiry: Expiry) -> DataFile:
        """Write a file without rows, which records that values have expired with a batch."""
        return self._write(self.columns.schema.empty_table(), 0, txid, expiry)

    def _write(self, table: pa.Table, used: int, txid: int, expiry: Expiry) -> DataFile:
        now = round(1000 * time.time())
        try:
            return self.files.write(table, txid, txid, used, FileFacts(expiry.cutoff, now, now))
        except OSError as error:
            raise StateUnavailableError(f"{self._where}: cannot write batch {txid}: {error}") from error

    def _must_read(self, version: TableVersion, values: bool, used: int) -> bool:
        """Return whether a batch needs the stored values: for an answer, a whole value, or an overflow check."""
        if self._shape.combine.native == "put":
            return False
        if values or version.rows == WHOLE:
            return True
        return not in_range(used + sum(file.used for file in version.files))


def check_parts_distinct(where: str, parts: list[BatchPart], txid: int) -> None:
    """Raise an error if two parts of a batch share a key. The keys within a part are distinct.

    Among so many keys, hashes may be equal by chance, so only equal keys raise the error.
    """
    if len(parts) > 1:
        hashes = np.sort(np.concatenate([part.hashes for part in parts]))
        twice = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        if len(twice):
            alike = [part.keys.filter(pa.array(np.isin(part.hashes, twice))) for part in parts]
            keys = [key for part in alike for key in part.to_pylist()]
            if len(set(keys)) < len(keys):
                raise duplicate_key_error(where, txid)


def _normal(keys: pa.Table, encoded: pa.Array, schema: pa.Schema) -> pa.Table:
    """Return the keys as they are stored, with one form of zero and of NaN if a field may have them."""
    if any(kinds.is_floating(field.type) or kinds.is_nested(field.type) for field in schema):
        return decode_keys(encoded, schema)
    return keys
