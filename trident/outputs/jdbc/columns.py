"""The columns of a table compared with the fields of a stream: which types hold every value of a field unchanged."""

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident_state.encoding import is_bytes, is_text


class Column(NamedTuple):
    """A column of the target table."""

    name: str
    type: str
    """The name of its type, without modifiers; ``enum`` for an enumeration; for a domain, the underlying type."""
    full: str
    """Its type as SQL, with modifiers."""
    modifier: int
    """The type's modifier, such as digits of a numeric; -1 if it has none."""
    required: bool
    """True if a row needs a value for it: it is not null, and has no default."""
    computed: bool
    """True if the server computes its value, and takes no other."""
    exact: bool
    """True if two texts are equal for the server only if they are the same."""
    collation: str = ""
    """The collation, as SQL; "" if it is that of the type."""


_NAMES: tuple[tuple[Callable[[pa.DataType], bool], tuple[str, ...]], ...] = (
    (is_text, ("text", "character varying", "character", "citext", "uuid", "json", "jsonb", "xml", "enum")),
    (kinds.is_boolean, ("boolean",)),
    (lambda kind: kinds.is_int8(kind) or kinds.is_int16(kind), ("smallint", "integer", "bigint", "numeric")),
    (kinds.is_int32, ("integer", "bigint", "numeric")),
    (kinds.is_int64, ("bigint", "numeric")),
    (kinds.is_float32, ("real", "double precision")),
    (kinds.is_float64, ("double precision",)),
    (kinds.is_decimal, ("numeric",)),
    (kinds.is_date, ("date",)),
    (lambda kind: kinds.is_timestamp(kind) and kind.tz is not None, ("timestamp with time zone",)),
    (kinds.is_timestamp, ("timestamp without time zone",)),
    (is_bytes, ("bytea",)),
    (kinds.is_nested, ("json", "jsonb")),
)

_MICROSECONDS = 6
_EXACT_TEXTS = ("text", "character varying")


def accepted(kind: pa.DataType) -> tuple[str, ...]:
    """Return the types of columns that hold every value of a field; empty if there is no such type."""
    return next((names for fits, names in _NAMES if fits(kind)), ())


def rounds(column: Column, kind: pa.DataType) -> bool:
    """Return whether a column of an accepted type would round values of a field, or refuse their size."""
    if column.modifier == -1:
        return False
    if column.type == "numeric":
        digits, scale = _digits(column.modifier)
        whole, own = (kind.precision - kind.scale, kind.scale) if kinds.is_decimal(kind) else (_whole(kind), 0)
        return scale < own or digits - scale < whole
    return column.type.startswith("timestamp") and column.modifier < _MICROSECONDS


def dropped_spaces(column: Column, texts: pa.ChunkedArray) -> str | None:
    """Return the first text whose trailing spaces the server would drop; None if there is none.

    Both kinds of texts with a length drop spaces beyond it. A ``character`` fills each text with spaces up to it.
    """
    if column.type not in ("character", "character varying") or column.modifier == -1:
        return None
    changes = pc.greater if column.type == "character varying" else pc.not_equal
    lengths = pc.utf8_length(texts)
    first = texts.filter(pc.and_(pc.ends_with(texts, " "), changes(lengths, column.modifier - 4)))
    return str(first[0].as_py()) if len(first) else None


def merges(column: Column, kind: pa.DataType) -> bool:
    """Return whether the server may treat several values of a key field as one key, such as spellings of a uuid."""
    return kinds.is_nested(kind) or (is_text(kind) and not (column.type in _EXACT_TEXTS and column.exact))


def _digits(modifier: int) -> tuple[int, int]:
    """Return precision and scale of a numeric's modifier."""
    packed = modifier - 4
    scale = packed & 0x7FF
    return packed >> 16, scale - 0x800 if scale & 0x400 else scale


def _whole(kind: pa.DataType) -> int:
    return {8: 3, 16: 5, 32: 10}.get(kind.bit_width, 19)
