"""Records as JSON for programs other than this library: ``{"txid":7,"value":3,"prev":2}``, or the bare value.

Decimals are strings, binary is base64, dates and times are ISO 8601, a struct is an object, a map is an array of
[key, value] pairs, NaN and the infinities are the strings "NaN", "Infinity" and "-Infinity".
"""

import datetime
import decimal
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from trident.base.errors import StateCorruptError, StateValueError
from trident_state.binary_arrays import join_columns, valid_rows
from trident_state.encoding import is_bytes, is_list, is_text
from trident_state.records.triples import Triples

_Convert = Callable[[Any], Any]
_typed_dict: Any = TypedDict
"""`TypedDict` as Any: `_python_type` makes types from field names at run time, and type checkers refuse such calls."""


class Documents:
    """The JSON form of records, for values of one type."""

    number: bytes | None = None

    def __init__(self, kind: pa.DataType, bare: bool) -> None:
        self.kind, self.bare = kind, bare
        self._write, self._read = _converter(kind, _finite), _converter(kind, float)
        shape = _nullable(_python_type(kind))
        if bare:
            self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape)
        else:
            fields = [("txid", int), ("value", shape), ("prev", shape)]
            self._decoder = msgspec.json.Decoder(msgspec.defstruct("Record", fields, forbid_unknown_fields=True))

    def pack(self, txid: int, values: pa.Array, prevs: pa.Array) -> pa.Array:
        """Return one JSON text per row, as bytes. Raises StateValueError if a value has no JSON form."""
        texts = self._texts(values)
        if self.bare:
            return texts
        return join_columns(b'{"txid":%d,"value":' % txid, texts, b',"prev":', self._texts(prevs), b"}")

    def unpack(self, records: pa.Array) -> Triples:
        """Return the triples in JSON texts. A null in place of a text means a key that is not stored.

        Raises StateCorruptError if a text is not a record of this type.
        """
        present = valid_rows(records)
        try:
            decoded = [self._decoder.decode(text) for text in records.to_pylist() if text is not None]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise StateCorruptError(f"a stored record is not JSON of type {self.kind}") from error
        if self.bare:
            triples = Triples.bare(self._column(decoded))
        else:
            txids = [record.txid for record in decoded]
            if any(not 0 <= txid < 2**53 for txid in txids):
                raise StateCorruptError("the txid of a stored record is out of range")
            values, prevs = [record.value for record in decoded], [record.prev for record in decoded]
            triples = Triples(np.array(txids, np.int64), self._column(values), self._column(prevs))
        return triples if present.all() else triples.spread(present)

    def _texts(self, values: pa.Array) -> pa.Array:
        try:
            plain = values.to_pylist()
        except (ValueError, OverflowError) as error:
            raise StateValueError(f"a value of type {self.kind} has no JSON form: {error}") from error
        if self._write is not None:
            plain = [None if value is None else self._write(value) for value in plain]
        return pa.array(map(msgspec.json.encode, plain), pa.binary(), size=len(plain))

    def _column(self, values: list[Any]) -> pa.Array:
        if self._read is not None:
            values = [None if value is None else self._read(value) for value in values]
        try:
            return pa.array(values, self.kind)
        except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
            raise StateCorruptError(f"a stored record is not JSON of type {self.kind}") from error


def _finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _converter(kind: pa.DataType, of_float: _Convert) -> _Convert | None:
    """Return a function that applies `of_float` to all floats in a value; None if the type `kind` has no floats."""
    if kinds.is_floating(kind):
        return of_float
    if is_list(kind):
        inner = _converter(kind.value_type, of_float)
        return inner and (lambda items: [_maybe(inner, item) for item in items])
    if kinds.is_map(kind):
        key, item = _converter(kind.key_type, of_float), _converter(kind.item_type, of_float)
        return (key or item) and (lambda pairs: [(_maybe(key, k), _maybe(item, v)) for k, v in pairs])
    if kinds.is_struct(kind):
        parts = {kind.field(i).name: _converter(kind.field(i).type, of_float) for i in range(kind.num_fields)}
        if any(parts.values()):
            return lambda value: {name: _maybe(parts[name], item) for name, item in value.items()}
    return None


def _maybe(convert: _Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _nullable(python: Any) -> Any:
    return Optional[python]  # noqa: UP045 (the type is known only at run time)


def _python_type(kind: pa.DataType) -> Any:
    """Return the Python type that msgspec uses to check values of `kind` while it reads a record."""
    if is_list(kind):
        return list[_nullable(_python_type(kind.value_type))]  # type: ignore[misc]
    if kinds.is_map(kind):
        return list[tuple[_python_type(kind.key_type), _nullable(_python_type(kind.item_type))]]  # type: ignore[misc]
    if kinds.is_struct(kind):
        fields = {kind.field(i).name: _nullable(_python_type(kind.field(i).type)) for i in range(kind.num_fields)}
        return _typed_dict("Struct", fields)
    if kinds.is_timestamp(kind):
        return Annotated[datetime.datetime, msgspec.Meta(tz=kind.tz is not None)]
    if is_text(kind):
        return str
    if is_bytes(kind):
        return bytes
    return next(python for fits, python in _PYTHON if fits(kind))


_PYTHON: tuple[tuple[Callable[[pa.DataType], bool], Any], ...] = (
    (kinds.is_null, None),
    (kinds.is_boolean, bool),
    (kinds.is_integer, int),
    (kinds.is_floating, float | Literal["NaN", "Infinity", "-Infinity"]),
    (kinds.is_decimal, decimal.Decimal),
    (kinds.is_date, datetime.date),
    (kinds.is_duration, datetime.timedelta),
)
