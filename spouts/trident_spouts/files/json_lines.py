"""The JSON format: each line of a file is an object, which is read into the declared fields."""

import decimal
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn

import msgspec
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from trident.base.errors import MalformedInputError
from trident.base.short_texts import shorten
from trident.base.spark_types import arrow_schema
from trident.base.value_conversion import to_arrow, type_name
from trident_spouts.files.file_ranges import FileRef
from trident_spouts.files.json_columns import JsonColumns, decoder_for
from trident_spouts.files.lines import BOM, EncodingErrors, check_encoding, lines_before, to_lines
from trident_spouts.files.value_conversion import EqualKeysError, JsonNumber, ValueReader

Malformed = Literal["fail", "keep"]
CORRUPT = "_corrupt"
REASON = "_corrupt_reason"
STRICT = ValueReader()
_BLANK = b" \t\r\n"
HINT_OF_LINES = " (expected one object per line; Json(multiLine=True) reads a file that is one array or one object)"


@dataclass(frozen=True, slots=True)
class CorruptLine:
    """A line that cannot be read, and the reason.

    The reason names no file and no line number, because a folder may move, and a replayed batch must be the same.
    """

    line: str
    reason: str


def with_corrupt_fields(schema: StructType) -> StructType:
    """Return the fields, made nullable, followed by two fields for unreadable lines: the line, and the reason."""
    kept = [StructField(field.name, field.dataType) for field in schema.fields if field.name not in (CORRUPT, REASON)]
    return StructType([*kept, StructField(CORRUPT, StringType()), StructField(REASON, StringType())])


def without_corrupt_fields(schema: StructType, malformed: Malformed) -> StructType:
    """Return the fields that are read from a file, without the fields for unreadable lines."""
    return StructType([f for f in schema.fields if malformed == "fail" or f.name not in (CORRUPT, REASON)])


def add_corrupt_lines(table: pa.Table, corrupt: list[CorruptLine | None] | None) -> pa.Table:
    """Append two fields, the unreadable line and the reason, which are null in readable rows.

    `corrupt` has an entry for each row, None for a readable row; without `corrupt`, all rows are readable.
    """
    if corrupt is None:
        lines = reasons = pa.nulls(table.num_rows, pa.string())
    else:
        lines = pa.array([each and each.line for each in corrupt], pa.string())
        reasons = pa.array([each and each.reason for each in corrupt], pa.string())
    return table.append_column(CORRUPT, lines).append_column(REASON, reasons)


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """The format of files in which each line is a JSON object. Values are matched with fields by name.

    A missing field is null, and an undeclared field is ignored. A value must have the JSON type of its field; dates and
    times are strings in ISO 8601, binary is a string in base64, and a decimal may be a string too. `values` may be
    lenient with numbers.
    """

    schema: StructType
    malformed: Malformed
    encoding_errors: EncodingErrors
    driver_bytes: int = 512 << 10
    values: ValueReader = STRICT
    whole = False
    longest: ClassVar[int | None] = None
    head_lines = 1

    def bind(self, head: Callable[[], bytes], path: object) -> "JsonFormat":
        """Return the format itself, because JSON files do not declare their fields."""
        return self

    def parse(self, data: bytes, path: FileRef, offset: int) -> pa.Table:
        """Parse `data`, whole lines of the file `path`, and return their tuples.

        `offset` is the byte of the file at which `data` begins. At 0, a byte order mark is skipped. Errors use `offset`
        to find line numbers.

        Raises MalformedInputError for invalid UTF-8 or a line that cannot be read, unless the format keeps such input.
        """
        data = check_encoding(data, path, offset, self.encoding_errors)
        target = arrow_schema(without_corrupt_fields(self.schema, self.malformed))
        table = read_stretch_at_once(data, target, self.values)
        corrupt: list[CorruptLine | None] | None = None
        if table is None:
            table, corrupt = self.read_by_line(data, target, path, offset)
        return add_corrupt_lines(table, corrupt) if self.malformed == "keep" else table

    def count(self, data: bytes, offset: int) -> int:
        """Return the number of lines that are not blank. Each of them becomes a tuple or fails the batch."""
        lines = (data[len(BOM) :] if offset == 0 and data.startswith(BOM) else data).split(b"\n")
        return sum(1 for line in lines if line.strip(_BLANK))

    def read_by_line(
        self, data: bytes, target: pa.Schema, path: FileRef, offset: int
    ) -> tuple[pa.Table, list[CorruptLine | None]]:
        """Read `data` line by line.

        Return the tuples, and for each tuple the unreadable line, or None if it was read.
        """
        rows: list[dict[str, Any]] = []
        corrupt: list[CorruptLine | None] = []
        for number, line in enumerate(to_lines(data).to_pylist()):
            if not line.strip(_BLANK.decode()):
                continue
            try:
                rows.append(read_object(line, target, self.values))
                corrupt.append(None)
            except ValueError as error:
                if self.malformed == "fail":
                    raise MalformedInputError(
                        f"{path}:{lines_before(path, offset) + number + 1}: {error}; correct the line, or read with "
                        f'Json(malformed="keep") to have such lines in the field {CORRUPT}'
                    ) from None
                rows.append({})
                corrupt.append(CorruptLine(line, str(error)))
        columns = [to_arrow([row.get(field.name) for row in rows], field.type) for field in target]
        return pa.table(columns, schema=target), corrupt


# --- the fast way: all lines at once --------------------------------------------------------------------------------

_DECODER = msgspec.json.Decoder()


def read_stretch_at_once(data: bytes, target: pa.Schema, values: ValueReader = STRICT) -> pa.Table | None:
    """Return the tuples of the JSON objects in `data`; None if a line may be malformed and must be read separately.

    (Arrow's own reader of JSON is faster, but crashes the process on some malformed lines.)
    """
    try:
        objects = decoder_for(target).decode_lines(data)
        lines = sum(map(bool, map(bytes.strip, data.split(b"\n"))))
        return table_of(objects, target, values) if len(objects) == lines else None
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def table_of(objects: list[Any], target: pa.Schema, values: ValueReader) -> pa.Table | None:
    """Return the tuples of JSON objects, which the decoder of `decoder_for` made.

    None: one may be malformed, or is no object, and must be read separately.
    """
    doubts = set[int]()
    columns = JsonColumns(target, values).read(objects, doubts)
    return None if doubts else pa.table(columns, schema=target)


# --- the exact way: line by line ----------------------------------------------------------------------------------


def read_object(line: str, target: pa.Schema, values: ValueReader = STRICT) -> dict[str, Any]:
    """Return the values of a line by field name. Raises ValueError, with the reason, if the line is malformed.

    >>> read_object('{"n": 1, "more": [2]}', pa.schema([("n", pa.int64()), ("at", pa.date32())]))
    {'n': 1, 'at': None}
    """
    try:
        value = json.loads(line, parse_float=JsonNumber, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected a JSON object: {error.msg} at column {error.colno}{_hint_of_lines(line)}") from None
    except RecursionError:
        raise ValueError("expected a JSON object: nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {_brief_json(value)}{_hint_of_lines(line)}")
    return {field.name: read_field(value.get(field.name), field, values) for field in target}


def _hint_of_lines(line: str) -> str:
    """Return a hint for the error about a line that may be a part of an array, or of an object over several lines."""
    if line.startswith("\ufeff"):
        return " (a byte order mark inside a file: several files were joined)"
    start = line.strip()[:1]
    if start not in ("[", "{") or (start == "{" and line.strip() != "{"):
        return ""
    return HINT_OF_LINES


def keys_of(lines: Sequence[bytes]) -> list[str]:
    """Return the keys of the JSON objects in these lines, each once. Lines that are not objects are skipped."""
    keys: dict[str, None] = {}
    for line in lines:
        # The reader of the values raises the error for a line. In early versions DecodeError is not a ValueError.
        with suppress(msgspec.DecodeError, ValueError, RecursionError):
            value = _DECODER.decode(line)
            keys.update(dict.fromkeys(value) if isinstance(value, dict) else {})
    return list(keys)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"expected a JSON object: {text} is not a JSON value")


def read_field(value: Any, field: pa.Field, reader: ValueReader) -> Any:
    """Return a member of an object as a value of its field. Raises ValueError, with the reason, if it is not one."""
    if value is None:
        if not field.nullable:
            raise ValueError(f"field {field.name!r}: null, but the field is NOT NULL")
        return None
    try:
        converted = reader.from_json(value, field.type)
        to_arrow([converted], field.type)
    except (ValueError, decimal.InvalidOperation) as error:
        hint = f" ({error})" if isinstance(error, EqualKeysError) else reader.hint(value, field.type)
        raise ValueError(
            f"field {field.name!r}: expected {type_name(field.type)}, got {_brief_json(value)}{hint}"
        ) from None
    return converted


def _brief_json(value: Any) -> str:
    # Avro and Debezium also have decimals, times and bytes, which JSON lacks: their texts are shown.
    return shorten(value.text if isinstance(value, JsonNumber) else json.dumps(value, ensure_ascii=False, default=str))
