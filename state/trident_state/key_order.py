r"""Keys as bytes in the order of their types, and ranges of keys.

The bytes of two keys compare as the keys do in Spark's ``ORDER BY``: field by field, null first, NaN after every other
number, -0.0 as 0.0, False before True, text and binary values byte by byte. (The bytes of `trident_state.keys`, which
stores hold, have no such order.) Nothing is stored in this form, so it may change.

A field is ``\0`` if it is null; otherwise it is ``\1`` and the value: whole numbers, dates, times and intervals in
8 bytes, decimals in 16, the most significant byte first and the sign reversed; floating numbers likewise, negative ones
with all bits reversed; text and binary values as they are. If another field follows, each zero byte of a text is
followed by ``\xff``, and the text ends with two zero bytes.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident_state.binary_arrays import Bytes, columns_of, join_columns, one_chunk, rows_of
from trident_state.encoding import is_bytes, is_text, to_integers, to_numbers

_NULL, _VALUE = b"\0", b"\1"
_END = b"\0\0"
_SIGN = np.uint64(1 << 63)

_KEEP_ROWS = 10_000
"""A range that is collected from a scan is sorted and cut when it holds this many rows more than the limit."""


class KeyRange(msgspec.Struct, frozen=True):
    """The keys whose bytes in order are at least `low` and less than `high`; None: no end."""

    low: bytes
    high: bytes | None

    def holds(self, orders: pa.Array) -> pa.Array:
        """Return for each key, given by its bytes in order, whether it lies in the range."""
        inside = pc.greater_equal(orders, pa.scalar(self.low, orders.type))
        return inside if self.high is None else pc.and_(inside, pc.less(orders, pa.scalar(self.high, orders.type)))

    def after(self, order: bytes) -> "KeyRange":
        """Return the part of the range after the key with these bytes."""
        return KeyRange(max(self.low, order + b"\0"), self.high)


def unordered_field(schema: pa.Schema) -> pa.Field | None:
    """Return the first key field whose values have no order here (arrays and structs); None if all have one."""
    return next((field for field in schema if kinds.is_nested(field.type)), None)


def order_of(keys: pa.Table, fields: int) -> pa.Array:
    r"""Return the bytes in order of each row, which holds the first fields of keys that have `fields` fields.

    >>> order_of(pa.table({"n": pa.array([1, -1, None])}), 1).to_pylist()
    [b'\x01\x80\x00\x00\x00\x00\x00\x00\x01', b'\x01\x7f\xff\xff\xff\xff\xff\xff\xff', b'\x00']
    """
    columns = [_ordered(one_chunk(column), at == fields - 1) for at, column in enumerate(keys.columns)]
    return columns[0] if len(columns) == 1 else join_columns(*columns)


def order_of_beginning(text: str | bytes, isLast: bool) -> bytes:
    """Return the order-preserving bytes with which all values that begin with `text` begin.

    `isLast`: for the key's last field.
    """
    raw = text.encode() if isinstance(text, str) else text
    return _VALUE + (raw if isLast else raw.replace(b"\0", b"\0\xff"))


def end_of(beginning: bytes) -> bytes | None:
    r"""Return the least bytes after all bytes that begin with `beginning`; None if there are none.

    >>> end_of(b"\1a"), end_of(b"\1\xff"), end_of(b"")
    (b'\x01b', b'\x02', None)
    """
    shorter = beginning.rstrip(b"\xff")
    return shorter[:-1] + bytes([shorter[-1] + 1]) if shorter else None


def possible_keys(between: KeyRange, schema: pa.Schema, most: int) -> pa.Table | None:
    r"""Return every key that a range can have, in order, if they are at most `most`; None if they are more.

    Only the keys of one field of whole numbers or dates can be listed; None for others.

    >>> low, high = order_of(pa.table({"n": [7, 10]}), 1).to_pylist()
    >>> possible_keys(KeyRange(low, high), pa.schema({"n": pa.int64()}), 100).to_pydict()
    {'n': [7, 8, 9]}
    """
    kind = schema.field(0).type if len(schema) == 1 else None
    if kind is None or not (kinds.is_signed_integer(kind) or kinds.is_date32(kind)) or between.low < _VALUE:
        return None
    limit = 1 << (kind.bit_width - 1)
    first = max(_least_number(between.low), -limit)
    end = limit if between.high is None else min(_least_number(between.high), limit)
    if end - first > most:
        return None
    numbers = pa.array(range(first, end), pa.int64()).cast(pa.int32() if kinds.is_date32(kind) else kind)
    return pa.table([numbers.cast(kind)], schema=schema)


def _least_number(order: bytes) -> int:
    """Return the least whole number whose bytes in order are at least `order`."""
    if order[:1] != _VALUE:
        return -(1 << 63) if order < _VALUE else 1 << 63
    number = int.from_bytes(order[1:9].ljust(8, b"\0"), "big") - (1 << 63)
    return number + 1 if len(order) > 9 else number


def is_stored_in_order(schema: pa.Schema) -> bool:
    """Return whether the stored bytes of keys (`trident_state.keys`) have the order of the keys, too.

    Those of one text, binary or boolean field have it.
    """
    kind = schema.field(0).type if len(schema) == 1 else None
    return kind is not None and (is_text(kind) or is_bytes(kind) or kinds.is_boolean(kind))


def stored_range(between: KeyRange, kind: pa.DataType) -> tuple[bytes, bytes]:
    r"""Return the same range over stored keys, which are in order and have one field of type `kind`.

    >>> stored_range(KeyRange(b"\1a", None), pa.string())
    (b'sa', b't')
    """
    tag = b"s" if is_text(kind) else b"x" if is_bytes(kind) else b"b"
    first = {b"": b"N", _NULL: b"N", _VALUE: tag}
    after = bytes([tag[0] + 1])
    high = after if between.high is None else first.get(between.high[:1], after) + between.high[1:]
    return first.get(between.low[:1], after) + between.low[1:], high


def range_of_ends(
    first: bytes | None, last: bytes | None, isWhole: tuple[bool, bool], includes: tuple[bool, bool]
) -> KeyRange:
    r"""Return the range between two ends in the form of `order_of`; None: no end.

    `isWhole`: whether each end has all fields of a key. An end of fewer fields stands for all keys that begin with it.
    `includes`: whether each end belongs to the range.

    >>> range_of_ends(b"\1a", b"\1c", (True, True), (True, True))
    KeyRange(low=b'\x01a', high=b'\x01c\x00')
    """
    low = b"" if first is None else first if includes[0] else _after(first, isWhole[0])
    high = None if last is None else _after(last, isWhole[1]) if includes[1] else last
    # After the last key there is no key.
    return KeyRange(b"", b"") if low is None else KeyRange(low, high)


def _after(order: bytes, isWhole: bool) -> bytes | None:
    return order + b"\0" if isWhole else end_of(order)


def collect_ranges(
    pages: Iterable[pa.Table], schema: pa.Schema, ranges: Sequence[KeyRange], most: int | None
) -> list[pa.Table]:
    """Return the entries of a scan that lie in each range, in order: the first `most` of them, or all.

    `schema` has the key fields and the value. Entries whose value is null are left out.
    """
    fields = len(schema) - 1
    kept = [_Collected(schema, most) for _ in ranges]
    for page in pages:
        entries = page.filter(page.column(fields).is_valid())
        orders = order_of(entries.select(range(fields)), fields)
        for between, collected in zip(ranges, kept, strict=True):
            rows = between.holds(orders)
            collected.add(entries.filter(rows), orders.filter(rows))
    return [collected.table() for collected in kept]


class _Collected:
    """The first entries in order of those that were added. `most`: how many; None: all."""

    def __init__(self, schema: pa.Schema, most: int | None) -> None:
        self._most, self._rows = most, 0
        self._tables, self._orders = [schema.empty_table()], [pa.array([], pa.binary())]

    def add(self, entries: pa.Table, orders: pa.Array) -> None:
        """Add entries, which have the bytes `orders`."""
        if not entries.num_rows:
            return
        self._tables.append(entries.rename_columns(self._tables[0].column_names))
        self._orders.append(orders)
        self._rows += entries.num_rows
        if self._most is not None and self._rows > self._most + _KEEP_ROWS:
            self._sort()

    def table(self) -> pa.Table:
        """Return the entries in order."""
        self._sort()
        return self._tables[0]

    def _sort(self) -> None:
        table, orders = pa.concat_tables(self._tables), pa.chunked_array(self._orders)
        first = pc.sort_indices(orders)[: self._most]
        self._tables, self._orders = [table.take(first)], orders.take(first).chunks
        self._rows = len(first)


# --- one field -----------------------------------------------------------------------------------------------------


def _ordered(column: pa.Array, isLast: bool) -> pa.Array:
    """Return the bytes in order of one field's values."""
    kind = column.type
    if kinds.is_dictionary(kind):
        return _ordered(column.dictionary_decode(), isLast)
    if kinds.is_null(kind):
        return pa.repeat(pa.scalar(_NULL, pa.binary()), len(column))
    if is_text(kind) or is_bytes(kind):
        body = _bytes_in_order(column.cast(pa.binary()).fill_null(b""), isLast)
    else:
        body = rows_of(np.hstack([np.full((len(column), 1), _VALUE[0], np.uint8), _numbers_in_order(column)]))
    return pc.if_else(column.is_valid(), body, pa.scalar(_NULL, pa.binary())) if column.null_count else body


def _bytes_in_order(values: pa.Array, isLast: bool) -> pa.Array:
    if isLast:
        return join_columns(_VALUE, values)
    if pc.any(pc.match_substring(values, b"\0"), min_count=0).as_py():
        values = pa.array([value.replace(b"\0", b"\0\xff") for value in values.to_pylist()], pa.binary())
    return join_columns(_VALUE, values, _END)


def _numbers_in_order(column: pa.Array) -> Bytes:
    kind = column.type
    if kinds.is_boolean(kind):
        return columns_of(to_numbers(column.cast(pa.uint8()), np.uint8))
    if kinds.is_decimal(kind):
        wide = column.cast(pa.decimal128(38, kind.scale))
        unscaled = np.frombuffer(wide.buffers()[1], np.uint8, 16 * len(wide), 16 * wide.offset).reshape(-1, 16)
        first = unscaled[:, ::-1].copy()
        first[:, 0] ^= 0x80
        return first
    if kinds.is_floating(kind):
        return columns_of(_floats_in_order(to_numbers(column.cast(pa.float64()), np.float64)).astype(">u8"))
    return columns_of((to_integers(column).view(np.uint64) ^ _SIGN).astype(">u8"))


def _floats_in_order(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    bits = np.where(np.isnan(numbers), np.nan, numbers + 0.0).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits | _SIGN)
