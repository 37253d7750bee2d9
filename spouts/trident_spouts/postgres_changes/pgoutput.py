"""Messages of PostgreSQL's output plugin pgoutput: whole transactions, with the changes of one table as rows in CSV.

The format is that of the protocol's version 1, which every server since PostgreSQL 10 writes.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StringType

from trident.base.errors import SourceChangedError
from trident_spouts.postgres_changes.plan import Last
from trident_spouts.postgres_changes.source import ChangesSource, Table, type_of

KINDS = ("insert", "update_preimage", "update_postimage", "delete")
_INSERT, _BEFORE, _AFTER, _DELETE = b"\0", b"\1", b"\2", b"\3"


def kinds_of(codes: bytes, keys_only: bool) -> pa.Array:
    r"""Return the kinds of tuples, by their numbers in KINDS; with `keys_only` true, or null for a deletion.

    >>> kinds_of(b"\0\3", False).to_pylist(), kinds_of(b"\0\3", True).to_pylist()
    (['insert', 'delete'], [True, None])
    """
    values = pa.array([True, None, True, None]) if keys_only else pa.array(KINDS)
    return values.take(pa.array(np.frombuffer(codes, np.int8)))


_PIECE_BYTES = 4 << 20
_BEGIN = Struct(">xQqI").unpack_from
_COMMIT = Struct(">xxQQq").unpack_from
_OID = Struct(">I")
_OIDS = Struct(">xiB").unpack_from
_COLUMNS = Struct(">H").unpack_from
_TYPE = Struct(">I4x").unpack_from
_IMAGE_AT = 6
"""The offset of the first row in a message: after its letter, the table's number, and the letter of the row."""

_NULL, _TEXT, _UNCHANGED = b"ntu"
_NEW, _OLD = b"NO"
ANEW = (
    "use a stream with another name, another slot and separate states: it begins with the rows that the table has now"
)


class Transaction(NamedTuple):
    """A transaction that changed the table."""

    id: Last
    messages: int
    kinds: bytes
    """The kind of each tuple, as a number in KINDS."""
    pieces: tuple[bytes, ...]
    """The tuples as CSV, in pieces of whole rows."""
    keys: tuple[tuple[str, ...], ...] = ()
    """The primary key of each tuple, as texts, if keys were requested. Then each piece is one tuple."""

    @property
    def rows(self) -> int:
        return len(self.kinds)


def without_rows(transaction: Transaction, kept: Sequence[bool]) -> Transaction:
    r"""Return a transaction with only some of its tuples. It must have keys.

    If only one tuple of an update remains, it becomes a deletion or an insert.

    >>> update = Transaction(Last(7, 100, 110, 0), 3, b"\1\2", (b"1\n", b"2\n"), (("1",), ("2",)))
    >>> without_rows(update, [True, False]).kinds, without_rows(update, [False, True]).kinds
    (b'\x03', b'\x00')
    """
    kinds = bytearray(transaction.kinds)
    for at in range(len(kinds) - 1):
        if kinds[at : at + 1] == _BEFORE and kept[at] != kept[at + 1]:
            kinds[at : at + 2] = _DELETE + _INSERT
    return transaction._replace(
        kinds=bytes(kind for kind, keep in zip(kinds, kept, strict=True) if keep),
        pieces=tuple(piece for piece, keep in zip(transaction.pieces, kept, strict=True) if keep),
        keys=tuple(key for key, keep in zip(transaction.keys, kept, strict=True) if keep),
    )


class Decoder:
    """Decodes the messages of a slot. Of transactions committed before the LSN `after`, only the last is recorded.

    `with_keys`: read the primary key of each tuple, too.
    """

    def __init__(self, source: ChangesSource, table: Table, after: int, with_keys: bool = False) -> None:
        self._source, self._table, self._after = source, table, after
        self._key = [column.name for column in table.key] if with_keys else []
        self._key_places = list[int]()
        self._keys = list[tuple[str, ...]]()
        self._oid = _OID.pack(table.oid)
        self._row: Callable[[list[bytes | None]], bytes] | None = None
        self._problem = "a change came without a description of its columns"
        self._places: set[int] = set()
        self._skips = False
        self._own = False
        self._messages = 0
        self._kinds, self._rows, self._pieces = bytearray(), list[bytes](), list[bytes]()
        self._bytes = 0
        self._begun = (0, 0, 0)
        self.skipped: Last | None = None
        """The last transaction before `after` that changed the table."""

    def feed(self, message: bytes) -> Transaction | None:
        """Process the next message. Return the transaction that it ends, if that changed the table."""
        self._messages += 1
        letter = message[:1]
        if letter in b"IUD":
            if message[1:5] == self._oid:
                self._own = True
                if not self._skips:
                    self._change(letter, message)
        elif letter == b"B":
            self._begun = _BEGIN(message)
            self._skips, self._own, self._messages = self._begun[0] < self._after, False, 1
        elif letter == b"C":
            return self._commit(message)
        elif letter == b"R":
            if message[1:5] == self._oid:
                self._relation(message)
        elif letter == b"T":
            self._truncate(message)
        return None

    def _commit(self, message: bytes) -> Transaction | None:
        if not self._own:
            return None
        commit, end, time = _COMMIT(message)
        last = Last(self._begun[2], commit, end, time)
        if self._skips:
            self.skipped = last
            return None
        self._end_piece()
        made = Transaction(last, self._messages, bytes(self._kinds), tuple(self._pieces), tuple(self._keys))
        self._kinds, self._pieces, self._keys = bytearray(), [], []
        return made

    def _change(self, letter: bytes, message: bytes) -> None:
        if self._row is None:
            raise SourceChangedError(f"{self._source.name}: {self._problem}")
        if letter == b"I":
            self._add(_INSERT, self._values(message, _IMAGE_AT)[0])
            return
        whole = message[5] == _OLD
        if not whole and not self._source.keys_only:
            raise SourceChangedError(
                f"{self._source.name}: transaction {self._begun[2]} updates or deletes rows without their former "
                f"values, because the table's REPLICA IDENTITY was not FULL when it ran. Set it to FULL, and {ANEW}"
            )
        if message[5] == _NEW:  # the key did not change
            self._add(_AFTER, self._values(message, _IMAGE_AT)[0])
            return
        before, at = self._values(message, _IMAGE_AT)
        if letter == b"D":
            self._add(_DELETE, before)
            return
        self._add(_BEFORE, before)
        self._add(_AFTER, self._values(message, at + 1, before if whole else ())[0])

    def _values(self, message: bytes, at: int, before: Sequence[bytes | None] = ()) -> tuple[list[bytes | None], int]:
        """Return the values of a row and the offset after it. `before`: it is the row before an update.

        The server omits large values that an update does not change.
        """
        (count,) = _COLUMNS(message, at)
        at += 2
        values: list[bytes | None] = []
        for place in range(count):
            kind = message[at]
            if kind == _TEXT:
                end = at + 5 + int.from_bytes(message[at + 1 : at + 5])
                values.append(message[at + 5 : end])
                at = end
                continue
            at += 1
            if kind == _NULL:
                values.append(None)
            elif kind == _UNCHANGED and place < len(before):
                values.append(before[place])
            else:
                self._check_left_out(kind, place)
                values.append(None)
        return values, at

    def _check_left_out(self, kind: int, place: int) -> None:
        """Raise SourceChangedError if the message lacks the value of a column that is read."""
        if kind != _UNCHANGED:
            raise SourceChangedError(
                f"{self._source.name}: transaction {self._begun[2]} has a value of the unknown kind {chr(kind)!r}, "
                f"which this version of the library does not read; use a later version"
            )
        if place in self._places:
            raise SourceChangedError(
                f"{self._source.name}: transaction {self._begun[2]} updates a row and leaves a large value unchanged, "
                f"so the log of changes does not contain that value: ALTER TABLE {self._source.source.table} REPLICA "
                f"IDENTITY FULL, and {ANEW}; or declare the fields without that column"
            )

    def _add(self, kind: bytes, values: list[bytes | None]) -> None:
        assert self._row is not None
        row = self._row(values)
        self._kinds += kind
        self._rows.append(row)
        self._bytes += len(row)
        if self._key:
            self._keys.append(self._key_of(values))
        if self._key or self._bytes > _PIECE_BYTES:
            self._end_piece()

    def _key_of(self, values: list[bytes | None]) -> tuple[str, ...]:
        key = [values[place] for place in self._key_places]
        if None in key:
            raise SourceChangedError(
                f"{self._source.name}: transaction {self._begun[2]} does not contain the primary key of a row, because "
                f"the table's REPLICA IDENTITY was changed before it ran. The first rows were read in parts, by their "
                f"keys. To continue, {ANEW}"
            )
        return tuple(value.decode() for value in key if value is not None)

    def _end_piece(self) -> None:
        if self._rows:
            self._pieces.append(b"".join(self._rows))
            self._rows, self._bytes = [], 0
        if len(self._kinds) > self._source.most_rows:
            raise SourceChangedError(
                f"{self._source.name}: transaction {self._begun[2]} changes more than {self._source.most_rows:,} rows, "
                f"and a transaction is read into the memory of the driver as a whole: start with a larger "
                f"maxRowsPerTransaction="
            )

    def _truncate(self, message: bytes) -> None:
        (count, _) = _OIDS(message)
        tables = [message[6 + 4 * at : 10 + 4 * at] for at in range(count)]
        if self._oid not in tables:
            return
        self._own = True
        if not self._skips and not self._source.skips_truncate:
            raise SourceChangedError(
                f"{self._source.name}: transaction {self._begun[2]} truncates the table, and the log of changes does "
                f"not say which rows that removes. Start with onTruncate='skip' to continue after it: the rows stay in "
                f"the states. Or {ANEW}. DELETE in place of TRUNCATE has no such effect"
            )

    def _relation(self, message: bytes) -> None:
        """Read the description of the table's columns, and create the function that writes the fields of a row."""
        at = message.index(b"\0", message.index(b"\0", 5) + 1) + 2  # after the schema, the name and the identity
        (count,) = _COLUMNS(message, at)
        at += 2
        columns = {}
        for place in range(count):
            end = message.index(b"\0", at + 1)
            columns[message[at + 1 : end].decode()] = (place, _TYPE(message, end + 1)[0])
            at = end + 9
        self._row, self._problem = None, ""
        for name, now in self._table.columns.items():
            if name not in columns or type_of(columns[name][1]) != now.type:
                was = f"had it with type {columns[name][1]}" if name in columns else "did not have it"
                self._problem = (
                    f"the column {name!r} has type {now.type} (oid), and when transaction {self._begun[2]} ran, the "
                    f"table {was}. {ANEW.capitalize()}"
                )
                return
        texts = {field.name for field in self._source.schema.fields if isinstance(field.dataType, StringType)}
        read = [(columns[name][0], name in texts) for name in self._source.schema.names]
        self._key_places = [columns[name][0] for name in self._key]
        self._row, self._places = _writer(read), {place for place, _ in read}.union(self._key_places)


def _writer(columns: Sequence[tuple[int, bool]]) -> Callable[[list[bytes | None]], bytes]:
    """Return the function that writes some values of a row, given by position, as a CSV line, quoted if needed.

    A null is empty, an empty text is two quotation marks. Values that are not texts need no quotation marks.
    """

    def line(values: list[bytes | None]) -> bytes:
        parts = []
        for place, quoted in columns:
            value = values[place]
            if value is None:
                value = b""
            elif quoted:
                value = b'"' + value.replace(b'"', b'""') + b'"'
            parts.append(value)
        return b",".join(parts) + b"\n"

    return line
