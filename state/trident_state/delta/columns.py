"""The columns of a state's table, and conversions between its rows and the library's form.

    the key fields, by their names | value | _txid | _bucket

`_txid` is the batch that wrote the row. `_bucket` is a part of the key's hash; the rows of a file are sorted by it. If
Delta lacks a type, the column holds the bytes of `trident_state.encoding`; intervals are stored as microseconds.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.names import free_name
from trident_state.binary_arrays import one_chunk, spread_rows, valid_rows
from trident_state.encoding import decode_column, encode_column
from trident_state.keys import encode_checked_keys, hash_keys

BUCKETS = 65_536
"""The number of buckets. It must never change, because files store the bucket ranges of their parts."""

Numbers = npt.NDArray[np.int64]

_PLAIN = (
    kinds.is_boolean,
    kinds.is_signed_integer,
    kinds.is_float32,
    kinds.is_float64,
    kinds.is_decimal128,
    kinds.is_date32,
    kinds.is_string,
    kinds.is_binary,
    lambda kind: kinds.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"),
)


class Rows(NamedTuple):
    """Rows of a table: the bucket, the encoded key, the value and the txid of each."""

    buckets: Numbers
    keys: pa.Array
    values: pa.Array
    txids: Numbers


class TableColumns:
    """The columns of the table of a state with these key fields and this value type."""

    def __init__(self, keys: pa.Schema, value: pa.DataType, where: str) -> None:
        self._keys, self._type, self._where = keys, value, where
        self.keyFields = len(keys)
        self.value = free_name("value", keys.names)
        self.txid = free_name("_txid", [*keys.names, self.value])
        self.bucket = free_name("_bucket", [*keys.names, self.value, self.txid])
        fields = [pa.field(field.name, stored_type(field.type)) for field in keys]
        fields.append(pa.field(self.value, stored_type(value)))
        self.schema = pa.schema([*fields, pa.field(self.txid, pa.int64()), pa.field(self.bucket, pa.int32())])

    def table(self, keys: pa.Table, values: pa.Array, txids: Numbers, buckets: Numbers) -> pa.Table:
        """Return the rows of a file, sorted by their buckets."""
        columns = [_stored(one_chunk(column)) for column in (*keys.columns, values)]
        arrays = [*columns, pa.array(txids, pa.int64()), pa.array(buckets.astype(np.int32), pa.int32())]
        table = pa.table(arrays, schema=self.schema)
        if not len(buckets) or (buckets[1:] >= buckets[:-1]).all():
            return table
        return table.take(pa.array(np.argsort(buckets.astype(np.uint16), kind="stable")))

    def keys(self, table: pa.Table) -> pa.Array:
        """Return the encoded keys of rows that were read from a file."""
        names = self._keys.names
        keys = table.select(names)
        fields = [_restored(column, field.type) for column, field in zip(keys.columns, self._keys, strict=True)]
        return encode_checked_keys(self._where, self._keys, pa.table(fields, schema=self._keys) if names else keys)

    def rows(self, table: pa.Table) -> Rows:
        """Return the rows that were read from a file."""
        return Rows(
            table.column(self.bucket).to_numpy().astype(np.int64),
            self.keys(table),
            _restored(table.column(self.value), self._type),
            table.column(self.txid).to_numpy().astype(np.int64),
        )


def buckets_of(encoded: pa.Array) -> Numbers:
    """Return the bucket of each encoded key.

    >>> buckets_of(pa.array([b"sdog", b"scat"], pa.binary())).tolist()
    [64902, 42796]
    """
    return (hash_keys(encoded) >> np.uint64(48)).astype(np.int64)


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the column that holds values of a type.

    >>> stored_type(pa.int64()), stored_type(pa.duration("us")), stored_type(pa.uint64())
    (DataType(int64), DataType(int64), DataType(binary))
    """
    if kinds.is_duration(kind) and kind.unit == "us":
        return pa.int64()
    return kind if _plain(kind) else pa.binary()


def _plain(kind: pa.DataType) -> bool:
    """Return whether Delta supports a type."""
    if kinds.is_struct(kind):
        return kind.num_fields > 0 and all(_plain(kind.field(at).type) for at in range(kind.num_fields))
    if kinds.is_list(kind):
        return _plain(kind.value_type)
    if kinds.is_map(kind):
        return _plain(kind.key_type) and _plain(kind.item_type)
    return any(fits(kind) for fits in _PLAIN)


def _stored(column: pa.Array) -> pa.Array:
    kind = stored_type(column.type)
    if kind == column.type:
        return column
    if kinds.is_duration(column.type):
        return column.cast(kind)
    return pc.if_else(column.is_valid(), encode_column(column), pa.scalar(None, pa.binary()))


def _restored(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    array = one_chunk(column)
    if array.type == kind:
        return array
    if stored_type(kind) == kind or kinds.is_duration(kind):
        return array.cast(kind)
    rows = valid_rows(array)
    return spread_rows(rows, decode_column(array.filter(pa.array(rows)), kind))
