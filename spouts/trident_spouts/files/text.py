"""The text format: each line of a file becomes a tuple of one string field."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from trident_spouts.files.file_ranges import FileRef
from trident_spouts.files.lines import EncodingErrors, check_encoding, count_lines, to_lines


@dataclass(frozen=True, slots=True)
class TextFormat:
    """The format of files in which each line, without its newline, is a string."""

    schema: StructType
    encoding_errors: EncodingErrors
    driver_bytes: int = 4 << 20
    whole = False
    longest = None
    head_lines = 1

    def bind(self, head: Callable[[], bytes], path: object) -> "TextFormat":
        """Return the format itself, because text files do not declare their fields."""
        return self

    def parse(self, data: bytes, path: FileRef, offset: int) -> pa.Table:
        """Return one tuple per line. Raises MalformedInputError for invalid UTF-8 if `encoding_errors` is "strict"."""
        return pa.table([to_lines(check_encoding(data, path, offset, self.encoding_errors))], self.schema.names)

    def count(self, data: bytes, offset: int) -> int:
        """Return the number of lines in `data`."""
        return count_lines(data, offset)
