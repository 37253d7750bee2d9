"""The format of files that are one JSON document each: an array of objects, or one object."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from trident.base.errors import MalformedInputError
from trident.base.spark_types import arrow_schema
from trident.base.value_conversion import to_arrow
from trident_spouts.files.file_ranges import FileRef
from trident_spouts.files.json_columns import decoder_for
from trident_spouts.files.json_lines import (
    CORRUPT,
    HINT_OF_LINES,
    CorruptLine,
    JsonFormat,
    add_corrupt_lines,
    read_object,
    table_of,
    without_corrupt_fields,
)
from trident_spouts.files.lines import check_encoding

LONGEST_DOCUMENT = 256 << 20
"""The most bytes of a document, which is read at once."""

_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class JsonDocuments(JsonFormat):
    """The format of files that are one JSON array of objects each, or one object. Each object becomes a tuple.

    The rules for the members of an object are those of `JsonFormat`.
    """

    whole = True
    longest: ClassVar[int | None] = LONGEST_DOCUMENT

    def parse(self, data: bytes, path: FileRef, offset: int) -> pa.Table:
        """Parse `data`, the whole content of the file `path`, and return its tuples.

        Raises MalformedInputError for a file that is too long, invalid UTF-8, or a document or object that cannot be
        read, unless the format keeps such input.
        """
        if len(data) > LONGEST_DOCUMENT:
            raise MalformedInputError(too_long(path, None))
        data = check_encoding(data, path, offset, self.encoding_errors)
        target = arrow_schema(without_corrupt_fields(self.schema, self.malformed))
        table, corrupt = self._at_once(data, target), None
        if table is None:
            table, corrupt = self._by_element(data, target, path)
        return add_corrupt_lines(table, corrupt) if self.malformed == "keep" else table

    def count(self, data: bytes, offset: int) -> int:
        """Return the number of objects. Each of them becomes a tuple or fails the batch."""
        return int(self.parse(data, "", offset).num_rows)

    def _at_once(self, data: bytes, target: pa.Schema) -> pa.Table | None:
        """Return the tuples of a document; None if it may be malformed."""
        try:
            document = decoder_for(target).decode(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None
        return table_of(document if isinstance(document, list) else [document], target, self.values)

    def _by_element(self, data: bytes, target: pa.Schema, path: FileRef) -> tuple[pa.Table, list[CorruptLine | None]]:
        """Read the elements of a document one by one.

        Return the tuples, and for each tuple the unreadable element, or None if it was read. A document that is not
        JSON is one unreadable element.
        """
        rows: list[dict[str, Any]] = []
        corrupt: list[CorruptLine | None] = []
        for place, text in _elements(data):
            try:
                rows.append(self._object(text, place, target))
                corrupt.append(None)
            except ValueError as error:
                if self.malformed == "fail":
                    raise MalformedInputError(
                        f"{path}{place}: {error}; correct the file, or read with "
                        f'Json(multiLine=True, malformed="keep") to have such elements in the field {CORRUPT}'
                    ) from None
                rows.append({})
                corrupt.append(CorruptLine(text, str(error)))
        columns = [to_arrow([row.get(field.name) for row in rows], field.type) for field in target]
        return pa.table(columns, schema=target), corrupt

    def _object(self, text: str, place: str, target: pa.Schema) -> dict[str, Any]:
        """Return the values of an element. Raises ValueError, with the reason, if it cannot be read."""
        if not place:
            _check_document(text)
        try:
            return read_object(text, target, self.values)
        except ValueError as error:
            raise ValueError(str(error).removesuffix(HINT_OF_LINES)) from None


def too_long(path: object, size: int | None) -> str:
    """Return the text of the error for a file that is too long to be one document."""
    unpacked = "more bytes when it is unpacked" if size is None else f"{size:,} bytes"
    return (
        f"{path} has {unpacked}, but a file that is one JSON document is read at once and has at most "
        f"{LONGEST_DOCUMENT:,}: write one object per line (jq -c '.[]'), and leave multiLine out"
    )


def _elements(data: bytes) -> list[tuple[str, str]]:
    """Return the texts of the elements of a document, each with its place for messages.

    A document that is not an array, or not JSON, is one element without a place.
    """
    if data.lstrip().startswith(b"["):
        with suppress(msgspec.DecodeError, RecursionError, ValueError):
            return _numbered([bytes(element).decode() for element in _ELEMENTS.decode(data)])
        with suppress(RecursionError, ValueError):
            return _numbered(_divided(data.decode()))
    return [("", data.decode().strip())]


def _numbered(texts: list[str]) -> list[tuple[str, str]]:
    return [(f", element {number}", text) for number, text in enumerate(texts, 1)]


def _divided(text: str) -> list[str]:
    """Return the texts of the elements of an array that Python can split, but in which the element reader refuses one.

    For example, an escape may be half of a surrogate pair. Raises ValueError if the text is not a JSON array.
    """
    json.loads(text)  # reports what is missing between elements, or what follows the array
    read, texts = json.JSONDecoder().raw_decode, list[str]()
    at = text.index("[") + 1
    while (begin := _BLANK_OR_COMMA.match(text, at).end()) < len(text) and text[begin] != "]":  # type: ignore[union-attr]
        _, at = read(text, begin)
        texts.append(text[begin:at])
    return texts


_BLANK_OR_COMMA = re.compile(r"[ \t\n\r,]*")


def _check_document(text: str) -> None:
    """Raise ValueError, with the line, if a document is not JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"expected a JSON document: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise ValueError("expected a JSON document: nested too deeply") from None
