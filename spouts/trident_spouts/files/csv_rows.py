"""The grammar of CSV: where values and rows begin and end.

It is the grammar of RFC 4180, with options named as in Spark.

Two readers follow this grammar. The exact reader below reads row by row, and names the fault of a row. `Grammar.plain`
decides whether Arrow's reader, which is far faster and more lenient, would read the same values.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_NEWLINE = re.compile(rb"\r?\n")
_END_OF_ROW = re.compile(rb"\r?\n|\r?\Z")


class Cell(NamedTuple):
    """A value as written in a file, without its quotes."""

    text: bytes
    quoted: bool


class RowError(ValueError):
    """The error of a row that does not follow the grammar."""


@dataclass(frozen=True, kw_only=True)
class CsvOptions:
    """The grammar of the rows of a CSV file.

    `sep`, `quote` and `escape` are single characters of ASCII; `quote` may be empty: then no character encloses values.
    Within quotes, a quote is written as `escape` and `quote`; without `escape` it is doubled. With `multiLine`, values
    in quotes may hold newlines. The first `skipLines` lines of a file are not rows; the header, if there is one,
    follows them.
    """

    sep: str = ","
    quote: str = '"'
    escape: str | None = None
    header: bool = True
    skipLines: int = 0
    nullValue: str = ""
    multiLine: bool = False

    @property
    def grammar(self) -> "Grammar":
        escape = self.quote if self.escape is None else self.escape
        return _grammar(self.sep, self.quote, escape, self.multiLine)


class Grammar:
    """The regular expressions for one combination of options."""

    def __init__(self, sep: str, quote: str, escape: str, multi_line: bool) -> None:
        self._sep, self._quote, self._escape = sep.encode(), quote.encode(), escape.encode()
        separator, mark, escaping = (re.escape(sign) for sign in (self._sep, self._quote, self._escape))
        self._multi_line = multi_line
        newline = b"" if multi_line else b"\n"
        self._bare = re.compile(rb"[^%b\n]*+" % separator)
        if not quote:
            self._quoted = None
            field = rb"[^%b\r\n]*+" % separator
        else:
            if quote == escape:
                inside = rb"[^%b%b]*+(?:%b%b[^%b%b]*+)*+" % (mark, newline, mark, mark, mark, newline)
            else:
                any_sign = rb"[\s\S]" if multi_line else rb"[^\n]"
                rest = rb"[^%b%b%b]*+" % (mark, escaping, newline)
                inside = rb"%b(?:%b%b%b)*+" % (rest, escaping, any_sign, rest)
            self._quoted = re.compile(rb"%b(%b)%b" % (mark, inside, mark))
            field = rb"(?:%b%b%b|[^%b%b\r\n][^%b\r\n]*+|)" % (mark, inside, mark, mark, separator, separator)
        self._plain = re.compile(rb"(?:%b(?:%b|\r?\n))*+%b" % (field, separator, field))

    def plain(self, data: bytes) -> bool:
        """Return whether Arrow would read the same rows and values as `row`, provided that it can read `data`.

        Arrow ends a row at a lone carriage return, accepts more text after a closing quote, and accepts newlines in
        quotes if they are in one block. Escapes other than doubled quotes are left to the exact reader.
        """
        if self._quoted is not None and self._quote != self._escape and self._escape in data:
            return False
        suspicious = b"\r" in data or (self._quoted is not None and self._quote in data)
        return not suspicious or self._plain.fullmatch(data) is not None

    def row(self, data: bytes, at: int) -> tuple[list[Cell], int]:
        """Return the values of the row that begins at byte `at`, and the byte at which the next row begins.

        Raises RowError if the row does not follow the grammar.
        """
        cells = list[Cell]()
        while True:
            cell, at = self._cell(data, at, len(cells) + 1)
            cells.append(cell)
            if data.startswith(self._sep, at):
                at += len(self._sep)
                continue
            end = _NEWLINE.match(data, at)
            return cells, end.end() if end else len(data)

    def _cell(self, data: bytes, at: int, number: int) -> tuple[Cell, int]:
        if self._quoted is None or not data.startswith(self._quote, at):
            bare = self._bare.match(data, at)
            assert bare is not None
            text, end = bare[0], bare.end()
            at_end_of_row = end == len(data) or data.startswith(b"\n", end)
            return Cell(text.removesuffix(b"\r") if at_end_of_row else text, False), end
        quoted = self._quoted.match(data, at)
        if quoted is None:
            hint = "" if self._multi_line else " (values that hold newlines need multiLine=True)"
            raise RowError(f"the quotes of value {number} are not closed{hint}")
        end = quoted.end()
        if not data.startswith(self._sep, end) and _END_OF_ROW.match(data, end) is None:
            raise RowError(f"value {number} has more text after its closing quote")
        return Cell(self._unescaped(quoted[1]), True), end

    def _unescaped(self, text: bytes) -> bytes:
        if self._escape not in text:
            return text
        pairs = re.escape(self._escape) + rb"(" + re.escape(self._quote) + rb"|" + re.escape(self._escape) + rb")"
        return re.sub(pairs, rb"\1", text)


@lru_cache
def _grammar(sep: str, quote: str, escape: str, multi_line: bool) -> Grammar:
    return Grammar(sep, quote, escape, multi_line)
