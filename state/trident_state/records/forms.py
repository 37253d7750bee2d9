"""The three forms of a record, which is the triple (txid, prev, value) of one key as bytes.

=========  ==================================================================================================
fixed      flags (1 byte: 1 prev is null, 2 value is null), txid (8), prev (8), value (8): numbers, booleans,
           dates, timestamps, intervals; integers or doubles, little endian, so that scripts can combine them
packed     0, txid (8), length of prev (4), prev, value: every other type, as `trident_state.encoding` writes it
JSON       ``{"txid":7,"value":3,"prev":2}``, for programs other than this library
=========  ==================================================================================================

A non-transactional state keeps bare values, without txid and prev: flags and value, the encoded value, or the value as
JSON. A null, in prev too, means that there is no value. Bytes from a server are not trusted: a function that reads them
may raise StateCorruptError. Scripts in Redis (``redis/lua``) also read these forms; a change here is a new store
format.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from trident.base.discard_advice import RESTORE
from trident.base.errors import StateCorruptError, TypeDeclarationError
from trident_state.binary_arrays import (
    Bytes,
    Offsets,
    buffers_of,
    columns_of,
    gather_slices,
    join_columns,
    lengths_of,
    one_chunk,
    rows_of,
    valid_rows,
)
from trident_state.encoding import (
    decode_column,
    encode_column,
    from_integers,
    is_fixed,
    to_integers,
    to_numbers,
    unencodable,
)
from trident_state.records.documents import Documents
from trident_state.records.triples import NOTHING, FewTriples, Triples

ValueForm = Literal["packed", "json"]

_FLAGS = 3
"""The greatest flags of a fixed record: both values are null."""

_UNPACK_ONE = {pa.int64().id: struct.Struct("<Bqqq").unpack, pa.float64().id: struct.Struct("<Bqdd").unpack}
"""For types whose values are the bits in a fixed record: the function that returns its flags, txid, prev and value."""


class Records(Protocol):
    """One of the three forms of a record, for values of one type."""

    @property
    def number(self) -> bytes | None:
        """The format in which scripts in Redis read a value ("<i8" or "<d"); None if they cannot read this form."""
        ...

    def pack(self, txid: int, values: pa.Array, prevs: pa.Array) -> pa.Array:
        """Return one record per row, with `txid` and the row's value and previous value."""
        ...

    def unpack(self, records: pa.Array) -> Triples:
        """Return the triples in records. A null in place of a record means a key that is not stored."""
        ...


def records_of(kind: pa.DataType, form: ValueForm, bare: bool) -> Records:
    """Return the form of the records for values of type `kind`. Raises TypeDeclarationError if a part has no encoding.

    `bare` leaves txid and prev out of the records.
    """
    if (wrong := unencodable(kind)) is not None:
        raise TypeDeclarationError(
            f"a store that keeps bytes cannot hold values of type {kind}: {wrong} has no encoding; convert it to "
            f"another type, such as a string"
        )
    if form == "json":
        return Documents(kind, bare)
    if is_fixed(kind) and not kinds.is_decimal(kind):
        return FixedRecords(kind, bare)
    return PackedRecords(kind, bare)


@dataclass(frozen=True)
class FixedRecords:
    """The fixed form of records, for values that fit into eight bytes."""

    kind: pa.DataType
    bare: bool

    @property
    def number(self) -> bytes | None:
        return b"<d" if kinds.is_floating(self.kind) else b"<i8"

    @property
    def width(self) -> int:
        """The number of bytes of a record."""
        return 9 if self.bare else 25

    def pack(self, txid: int, values: pa.Array, prevs: pa.Array) -> pa.Array:
        value_null = 2 * null_flags(values)
        if self.bare:
            return rows_of(columns_of(value_null, self.slots(values)))
        flags, txids = value_null + null_flags(prevs), np.full(len(values), txid, "<i8")
        return rows_of(columns_of(flags, txids, self.slots(prevs), self.slots(values)))

    def unpack(self, records: pa.Array) -> Triples:
        present = valid_rows(records)
        data, offsets = buffers_of(records)
        if (offsets[1:] - offsets[:-1] != self.width * present).any():  # a null takes no bytes
            raise self._wrong_length()
        triples = self._triples(data)
        return triples.spread(present) if records.null_count else triples

    def unpack_few(self, records: Sequence[bytes | None]) -> FewTriples | None:
        """Return the triples of a few records as Python values; None if their bits are not the values themselves."""
        unpack = None if self.bare else _UNPACK_ONE.get(self.kind.id)
        if unpack is None:
            return None
        triples = FewTriples([], [], [])
        for record in records:
            if record is None:
                flags, txid, prev, value = _FLAGS, NOTHING, None, None
            elif len(record) != self.width:
                raise self._wrong_length()
            else:
                flags, txid, prev, value = unpack(record)
            if flags > _FLAGS:
                raise self._wrong_flags()
            triples.txids.append(txid)
            triples.values.append(None if flags & 2 else value)
            triples.prevs.append(None if flags & 1 else prev)
        return triples

    def unpack_rows(self, rows: bytes) -> Triples:
        """Return the triples of records that are in `rows`, one after the other."""
        if len(rows) % self.width:
            raise StateCorruptError(f"stored records are not {self.width} bytes long each")
        return self._triples(np.frombuffer(rows, np.uint8))

    def _triples(self, data: Bytes) -> Triples:
        rows = data.reshape(-1, self.width)
        flags = rows[:, 0]
        if (flags > _FLAGS).any():
            raise self._wrong_flags()
        values = self._column(rows[:, -8:], flags & 2 != 0)
        if self.bare:
            return Triples.bare(values)
        txids = np.ascontiguousarray(rows[:, 1:9]).view("<i8")[:, 0]
        return Triples(txids, values, self._column(rows[:, 9:17], flags & 1 != 0))

    def _wrong_length(self) -> StateCorruptError:
        return StateCorruptError(f"a stored record is not {self.width} bytes long")

    def _wrong_flags(self) -> StateCorruptError:
        return StateCorruptError("a stored record has unknown flags")

    def slots(self, column: pa.Array) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
        """Return the values as 8-byte numbers; nulls are 0."""
        if kinds.is_floating(self.kind):
            return np.asarray(to_numbers(column.cast(pa.float64()), np.float64))
        return to_integers(column)

    def _column(self, slots: Bytes, null: npt.NDArray[np.bool_]) -> pa.Array:
        slots = np.ascontiguousarray(slots)
        if kinds.is_floating(self.kind):
            return pa.array(slots.view("<f8")[:, 0], mask=null).cast(self.kind, safe=False)
        return from_integers(slots.view("<i8")[:, 0], self.kind, null)


@dataclass(frozen=True)
class PackedRecords:
    """The packed form of records, for values of any length and type."""

    kind: pa.DataType
    bare: bool
    number: bytes | None = None

    def pack(self, txid: int, values: pa.Array, prevs: pa.Array) -> pa.Array:
        packed = encode_column(values, alone=True)
        if self.bare:
            return packed
        before = encode_column(prevs, alone=True)
        zeros, txids = np.zeros(len(values), np.uint8), np.full(len(values), txid, "<i8")
        return join_columns(rows_of(columns_of(zeros, txids, lengths_of(before).astype("<u4"))), before, packed)

    def unpack(self, records: pa.Array) -> Triples:
        triples = self._triples(records.drop_null() if records.null_count else records)
        return triples.spread(valid_rows(records)) if records.null_count else triples

    def _triples(self, records: pa.Array) -> Triples:
        if self.bare:
            return Triples.bare(decode_column(records, self.kind, alone=True))
        data, offsets = buffers_of(records)
        starts, ends = offsets[:-1], offsets[1:]
        if np.any(ends - starts < 13):
            raise StateCorruptError("a stored record is shorter than its header")
        heads = np.ascontiguousarray(data[starts[:, None] + np.arange(13)])
        cuts = starts + 13 + np.ascontiguousarray(heads[:, 9:]).view("<u4")[:, 0].astype(np.int64)
        if np.any(heads[:, 0]) or np.any(cuts > ends):
            raise StateCorruptError("the header of a stored record does not match its length")
        txids = np.ascontiguousarray(heads[:, 1:9]).view("<i8")[:, 0]
        return Triples(txids, self._column(data, cuts, ends), self._column(data, starts + 13, cuts))

    def _column(self, data: Bytes, starts: Offsets, ends: Offsets) -> pa.Array:
        return decode_column(gather_slices(data, starts, ends - starts), self.kind, alone=True)


def null_flags(column: pa.Array) -> npt.NDArray[np.uint8]:
    """Return 1 for each null of a column, and 0 for each value."""
    return (~valid_rows(column)).view(np.uint8)


def unpack_records(form: Records, records: Sequence[bytes | None], where: str) -> Triples:
    """Return the triples of the records in a server's answer.

    Raises StateCorruptError, with the name of the state, if a record is not of this form.
    """
    try:
        return form.unpack(_column_of(records))
    except StateCorruptError as error:
        raise _corrupt(where, error) from error


def unpack_few_records(form: Records, records: Sequence[bytes | None], where: str) -> FewTriples:
    """Return the same as `unpack_records`, as Python values."""
    try:
        few = form.unpack_few(records) if isinstance(form, FixedRecords) else None
        return form.unpack(_column_of(records)).few() if few is None else few
    except StateCorruptError as error:
        raise _corrupt(where, error) from error


def _column_of(records: Sequence[bytes | None]) -> pa.Array:
    return one_chunk(pa.array(records, pa.binary()))


def _corrupt(where: str, error: StateCorruptError) -> StateCorruptError:
    return StateCorruptError(f"{where}: {error}; another program wrote the stored value. {RESTORE}")
