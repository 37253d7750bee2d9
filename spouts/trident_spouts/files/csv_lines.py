"""The CSV format: each row of a file is a tuple, and a header assigns values to fields."""

import decimal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyarrow import types as kinds
from pyspark.sql.types import StructType

from trident.base.errors import MalformedInputError
from trident.base.names import did_you_mean
from trident.base.short_texts import shorten
from trident.base.spark_types import arrow_schema
from trident.base.value_conversion import to_arrow, type_name
from trident_spouts.files.csv_rows import Cell, CsvOptions, RowError
from trident_spouts.files.file_ranges import FileRef
from trident_spouts.files.json_lines import (
    CORRUPT,
    STRICT,
    CorruptLine,
    Malformed,
    add_corrupt_lines,
    without_corrupt_fields,
)
from trident_spouts.files.lines import BOM, EncodingErrors, check_encoding, lines_before, skip_lines
from trident_spouts.files.value_conversion import ValueReader


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """The format of files in which each row is a tuple.

    With a header, columns are matched with the fields by name, and other columns are ignored. Without a header, each
    row has the fields in their order. A value without quotes that equals `nullValue` is null; so is an empty value in a
    field that is not a string. A row with more or fewer values than the header cannot be read. The lines before the
    header that `skipLines` counts are not decoded.
    """

    schema: StructType
    options: CsvOptions
    malformed: Malformed
    encoding_errors: EncodingErrors
    values: ValueReader = STRICT
    driver_bytes: int = 1 << 20
    columns: tuple[str, ...] | None = None
    """The columns of the file to read, which `bind` sets."""
    longest = None
    begin: int = 0
    """The offset of the first byte after the skipped lines, which `bind` sets; `sys.maxsize` if it is not known yet."""

    @property
    def head_lines(self) -> int:
        """Return the number of lines up to the header."""
        return self.options.skipLines + 1

    @property
    def whole(self) -> bool:
        """Return whether a file must be read at once, because newlines in values look like ends of rows."""
        return self.options.multiLine

    @property
    def _fields(self) -> StructType:
        return without_corrupt_fields(self.schema, self.malformed)

    # --- the header -----------------------------------------------------------------------------------------------

    def bind(self, head: Callable[[], bytes], path: object) -> "CsvFormat":
        """Return the format of the file `path`. `head` returns the beginning of its content, with at least the header.

        Without the header, `head` ends within the skipped lines, or after them. Raises MalformedInputError if the
        header lacks a field or has it twice.
        """
        names, skipped = self._fields.names, self.options.skipLines
        if not self.options.header and not skipped:
            return replace(self, columns=tuple(names))
        content = head()
        begin = skip_lines(content, skipped)
        form = replace(self, columns=tuple(names), begin=sys.maxsize if begin is None else begin)
        if begin is None or not self.options.header:
            return form
        data = check_encoding(content[begin:], path, begin, self.encoding_errors)
        if not data:  # no header yet, or a byte order mark and nothing else
            return form
        try:
            cells, end = self.options.grammar.row(data, 0)
        except RowError as error:
            raise MalformedInputError(f"{path}:{skipped + 1}: the header cannot be read: {error}") from None
        columns = tuple(cell.text.decode() for cell in cells)
        for name in names:
            if columns.count(name) != 1:
                later = self._header_after(data[end:], skipped + data.count(b"\n", 0, end))
                raise MalformedInputError(f"{path}:{skipped + 1}: {self._header_error(name, columns, later)}")
        return replace(form, columns=columns)

    def _header_after(self, data: bytes, before: int) -> int | None:
        """Return the number of lines before the first line of `data` that names all fields; None if no early line does.

        `before` lines of the file precede `data`.
        """
        for number, line in enumerate(data.split(b"\n", _LOOKED_THROUGH)[:_LOOKED_THROUGH], before):
            with suppress(RowError):
                columns = [cell.text.decode() for cell in self.options.grammar.row(line, 0)[0]]
                if all(columns.count(name) == 1 for name in self._fields.names):
                    return number
        return None

    def _header_error(self, name: str, columns: tuple[str, ...], later: int | None) -> str:
        shown = shorten(", ".join(map(repr, columns)))
        if columns.count(name):
            return f"the header has the field {name!r} {columns.count(name)} times: {shown}"
        signs = [sign for sign in ",;\t|" if sign != self.options.sep and sign in columns[0]]
        way_out = (
            f"if values are separated by {signs[0]!r}, give sep={signs[0]!r}"
            if len(columns) == 1 and signs
            else "name the fields as the header does, or give header=False if the first row is data"
        )
        if later is not None:
            way_out = f"line {later + 1} names all fields: give skipLines={later}"
        near = did_you_mean(name, columns)
        return f"the header has no field {name!r}{near}; it has {shown}: {way_out}"

    # --- rows -----------------------------------------------------------------------------------------------------

    def parse(self, data: bytes, path: FileRef, offset: int) -> pa.Table:
        """Parse `data`, whole rows of the file `path`, and return their tuples.

        `offset` is the byte of the file at which `data` begins. At 0, a byte order mark is skipped. Errors use `offset`
        to find line numbers.

        Raises MalformedInputError for invalid UTF-8 or a row that cannot be read, unless the format keeps such input.
        """
        data, offset = self._unskipped(data, offset)
        data = check_encoding(data, path, offset, self.encoding_errors)
        start = self.options.grammar.row(data, 0)[1] if self._at_header(offset) and data else 0
        table, corrupt = self.read_at_once(data[start:]), None
        if table is None:
            table, corrupt = self.read_by_row(data, start, path, offset)
        return add_corrupt_lines(table, corrupt) if self.malformed == "keep" else table

    def count(self, data: bytes, offset: int) -> int:
        """Return the number of rows in `data`. Each row becomes a tuple or fails the batch."""
        if self.whole:
            return int(self.parse(data, "", offset).num_rows)
        data, offset = self._unskipped(data, offset)
        data = data.removeprefix(BOM) if offset == 0 else data
        rows = sum(line not in (b"", b"\r") for line in data.split(b"\n"))
        return max(0, rows - 1) if self._at_header(offset) else rows

    def _unskipped(self, data: bytes, offset: int) -> tuple[bytes, int]:
        """Return the part of `data` after the file's skipped lines, and the byte of the file at which it begins."""
        skipped = min(len(data), max(0, self.begin - offset))
        return data[skipped:], offset + skipped

    def _at_header(self, offset: int) -> bool:
        return self.options.header and offset == self.begin

    def read_by_row(
        self, data: bytes, start: int, path: FileRef, offset: int
    ) -> tuple[pa.Table, list[CorruptLine | None]]:
        """Read the rows from byte `start` of `data` on, one by one.

        Return the tuples, and for each tuple the unreadable row, or None if it was read. A row that does not follow the
        grammar ends with its line.
        """
        grammar, target = self.options.grammar, arrow_schema(self._fields)
        rows, corrupt = list[list[Any]](), list[CorruptLine | None]()
        at, line = start, 1 + data.count(b"\n", 0, start)
        while at < len(data):
            end = data.find(b"\n", at) + 1 or len(data)
            if data[at:end] not in (b"\n", b"\r\n", b"\r"):
                try:
                    cells, end = grammar.row(data, at)
                    rows.append(self._row(cells, target))
                    corrupt.append(None)
                except ValueError as error:
                    if self.malformed == "fail":
                        raise MalformedInputError(
                            f"{path}:{lines_before(path, offset) + line}: {error}; correct the row, or read with "
                            f'Csv(malformed="keep") to have such rows in the field {CORRUPT}'
                        ) from None
                    rows.append([None] * len(target))
                    row = data[at:end].removesuffix(b"\n").removesuffix(b"\r").decode()
                    corrupt.append(CorruptLine(row, str(error)))
            line += data.count(b"\n", at, end)
            at = end
        columns = [to_arrow([row[at] for row in rows], field.type) for at, field in enumerate(target)]
        return pa.table(columns, schema=target), corrupt

    def _row(self, cells: list[Cell], target: pa.Schema) -> list[Any]:
        if len(cells) != len(self._columns):
            raise ValueError(f"expected {len(self._columns)} values, got {len(cells)}")
        return [self._value(cells[self._columns.index(field.name)], field) for field in target]

    def _value(self, cell: Cell, field: pa.Field) -> Any:
        text, none = cell.text.decode(), self.options.nullValue
        if (text == none and not cell.quoted) or (text in ("", none) and not kinds.is_string(field.type)):
            if not field.nullable:
                raise ValueError(f"field {field.name!r}: null, but the field is NOT NULL")
            return None
        try:
            value = self.values.from_text(text, field.type)
            to_arrow([value], field.type)
        except (ValueError, decimal.InvalidOperation):
            raise ValueError(
                f"field {field.name!r}: expected {type_name(field.type)}, got {shorten(repr(text))}"
                f"{self._hint(text, field)}"
            ) from None
        return value

    def _hint(self, text: str, field: pa.Field) -> str:
        if text.lower() in _NULLS:
            return f" (nullValue={text!r} reads it as null)"
        return self.values.hint(text, field.type)

    @property
    def _columns(self) -> tuple[str, ...]:
        assert self.columns is not None, "call `bind` before `parse`"
        return self.columns

    # --- the fast way: all rows at once ---------------------------------------------------------------------------

    def read_at_once(self, data: bytes) -> pa.Table | None:
        """Return the tuples of all rows in `data`; None if a row may be malformed, or Arrow may read it differently."""
        target, options = arrow_schema(self._fields), self.options
        # Arrow refuses data without a row, and leaves out a byte order mark, which belongs to the first value here.
        if not data.strip(b"\r\n") or data.startswith(BOM) or not options.grammar.plain(data):
            return None
        names = [str(at) for at in range(len(self._columns))]
        places = [names[self._columns.index(field.name)] for field in target]
        try:
            table = pyarrow.csv.read_csv(
                # Without the last newline, Arrow treats an empty last value as quoted if an earlier value is quoted.
                pa.BufferReader(data if data.endswith(b"\n") else data + b"\n"),
                pyarrow.csv.ReadOptions(
                    use_threads=False, block_size=min(len(data) + 1, _MOST_BLOCK), column_names=names
                ),
                pyarrow.csv.ParseOptions(
                    delimiter=options.sep, quote_char=options.quote or False, newlines_in_values=options.multiLine
                ),
                pyarrow.csv.ConvertOptions(
                    check_utf8=False,  # checked already
                    include_columns=places,
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=[options.nullValue],
                ),
            )
            columns = [self._column(table.column(at), field) for at, field in enumerate(target)]
        except (pa.ArrowException, ValueError, decimal.InvalidOperation):
            return None
        return pa.table(columns, schema=target)

    def _column(self, texts: pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
        column = texts
        if not kinds.is_string(field.type):
            none = pc.is_in(texts, pa.array(["", self.options.nullValue]))
            column = self.values.column_from_texts(pc.if_else(none, pa.scalar(None, pa.string()), texts), field.type)
        if column.null_count and not field.nullable:
            raise ValueError("a row is invalid; the exact reader finds it")
        return column


_NULLS = ("na", "n/a", "nan", "null", "none", "nil", "\\n", "-")
"""Texts that other programs write in place of null, here in lower case."""

_LOOKED_THROUGH = 20
"""The number of lines after a wrong header in which the error looks for the right one."""

_MOST_BLOCK = 1 << 28
