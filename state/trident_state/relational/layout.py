"""The layout of one state in a relational database: a table of its entries, and a view with a column for each field.

The table has the columns ``key`` (the encoded key, or `META`), ``fields`` (the key's fields as a JSON array, null for
the meta entry) and ``record`` (JSON, as `trident_state.records.documents` writes it).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as kinds

from trident.base.cached_property import cached_property
from trident.base.errors import StateError
from trident.base.names import free_name
from trident_state.backing.protocol import META
from trident_state.binary_arrays import in_halves, join_columns, one_chunk
from trident_state.keys import decode_keys
from trident_state.records.documents import Documents
from trident_state.state_shape import StateIdentity, StateKind, StateShape

_LONGEST = 63
"""The most bytes of a name in PostgreSQL, which cuts longer names without an error."""


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of the view: its name, its type, and the position of its value in ``fields`` or in the record's value.

    `field` is the position of a key field, or None for a column of the value; `part` names a field of a struct value.
    """

    name: str
    type: pa.DataType
    field: int | None = None
    part: str | None = None


@dataclass(frozen=True)
class StateTable:
    """The table and the view of one state."""

    identity: StateIdentity
    shape: StateShape
    kind: StateKind

    def __post_init__(self) -> None:
        if len(self.name) > _LONGEST:
            raise StateError(
                f"state {self.identity.name!r}: its table would be named {self.name!r}, but a name has at most "
                f"{_LONGEST} letters; give the topology or the state a shorter name"
            )

    @property
    def name(self) -> str:
        """The name of the table. It is unique, because names of topologies and states contain no slash."""
        return f"{self.identity.topology}/{self.identity.name}"

    @property
    def view(self) -> str:
        """The name of the view. It needs no quotes if the names have no capital letters."""
        return re.sub(r"\W", "_", f"{self.identity.topology}_{self.identity.name}", flags=re.ASCII)

    @property
    def bare(self) -> bool:
        """Return whether a record is only the value."""
        return self.kind is StateKind.NON_TRANSACTIONAL

    @cached_property
    def _texts(self) -> list[Documents]:
        return [Documents(field.type, bare=True) for field in self.shape.keys]

    def fields(self, keys: Sequence[bytes]) -> list[str | None]:
        """Return the fields of each encoded key as a JSON array; None for the meta entry, if it comes first."""
        meta: list[str | None] = [None] if keys[:1] == [META] else []
        named = keys[len(meta) :]
        if not self._texts:
            return [*meta, *["[]"] * len(named)]
        parts = in_halves(lambda rows: self._arrays_of(named[rows]), 0, len(named))
        return [*meta, *(text for part in parts for text in part)]

    def _arrays_of(self, keys: Sequence[bytes]) -> list[str]:
        if not keys:
            return []
        columns = decode_keys(pa.array(keys, pa.binary()), self.shape.keys).columns
        parts: list[bytes | pa.Array] = [b"["]
        for documents, column in zip(self._texts, map(one_chunk, columns), strict=True):
            parts += [documents.pack(0, column, column), b","]
        parts[-1] = b"]"
        return [text.decode() for text in join_columns(*parts).to_pylist()]

    def columns(self) -> list[ViewColumn]:
        """Return the columns of the view: the key fields, then ``value``, or the fields of a value that is a struct."""
        columns = [ViewColumn(field.name, field.type, at) for at, field in enumerate(self.shape.keys)]
        value = self.shape.value
        parts = [value.field(at) for at in range(value.num_fields)] if kinds.is_struct(value) else []
        if any('"' in part.name or "\\" in part.name for part in parts):
            parts = []
        after = [(part.name, part.type, part.name) for part in parts] or [("value", value, None)]
        for name, type_, part_name in after:
            free = free_name(name, [column.name for column in columns])  # as the reads of every state name it
            columns.append(ViewColumn(free, type_, None, part_name))
        return columns


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def shown(column: str, char: str) -> str:
    r"""Return the SQL expression by which the view reads the JSON in a column. Zero bytes become U+FFFD.

    PostgreSQL's texts cannot hold a zero byte, so one such value would fail every query of the view; SQLite cuts the
    text there. Escaped backslashes are replaced meanwhile by a character that JSON never has, because ``\\u0000`` is
    text without a zero byte. `char` is the database's function from a number to a character.

    >>> shown("record", "chr")
    "replace(replace(replace(record, '\\\\', chr(1)), '\\u0000', '\\ufffd'), chr(1), '\\\\')"
    """
    aside = rf"replace({column}, '\\', {char}(1))"
    return rf"replace(replace({aside}, '\u0000', '\ufffd'), {char}(1), '\\')"


def literal(text: str) -> str:
    """Return a text as an SQL literal.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
