"""The formats of the files of a FileSpout, each with the options that only this format has."""

import dataclasses
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, get_args

from pyspark.sql.types import StringType, StructType

from trident.base.argument_checks import check_choice, check_flag, check_whole_number
from trident.base.descriptions import described
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.option_names import known_fields
from trident.base.short_texts import brief
from trident.base.spark_types import ddl, parse_schema
from trident_spouts.files.csv_lines import CsvFormat
from trident_spouts.files.csv_rows import CsvOptions
from trident_spouts.files.json_documents import JsonDocuments
from trident_spouts.files.json_lines import JsonFormat, Malformed, with_corrupt_fields
from trident_spouts.files.line_reader import LineFormat
from trident_spouts.files.lines import EncodingErrors
from trident_spouts.files.text import TextFormat
from trident_spouts.files.value_conversion import Numbers, ValueReader
from trident_spouts.files.value_options import check_flat, check_values

FormatName = Literal["text", "json", "csv", "parquet"]

_OF_SPARK_AND_OTHERS = {
    "delimiter": "sep",
    "separator": "sep",
    "quote_char": "quote",
    "quoteChar": "quote",
    "escape_char": "escape",
    "has_header": "header",
    "skip_rows": "skipLines",
    "skiprows": "skipLines",
    "skip_lines": "skipLines",
    "null_values": "nullValue",
    "newlines_in_values": "multiLine",
    "array": "multiLine",
    "mode": "malformed",
    "ignore_errors": "malformed",
    "encoding": "files are read as UTF-8; encodingErrors='replace' reads other bytes too",
    "inferSchema": "give the fields: schema='user long, page string'",
    **{
        each.name: f"it belongs to another format: Csv({each.name}={{value}})"
        for each in dataclasses.fields(CsvOptions)
    },
    **dict.fromkeys(("malformed", "numbers", "timeZone"), "it belongs to other formats: Json and Csv have it"),
    "encodingErrors": "it belongs to other formats: Text, Json and Csv have it",
}
"""Names of options in Spark, Polars, pyarrow and other formats, each with the text to write in its place."""


@known_fields(_OF_SPARK_AND_OTHERS)
@dataclass(frozen=True, repr=False)
class Text:
    r"""The format of text files: each line is a tuple ``line string``. Lines end in ``\n`` or ``\r\n``.

    Parameters
    ----------
    schema : str or StructType, optional
        Another name for the one string field.
    encodingErrors : "strict" or "replace"
        With "strict", invalid UTF-8 raises MalformedInputError with file and byte; with "replace", it becomes U+FFFD.

    Examples
    --------
    >>> Text("sentence string", encodingErrors="replace")
    Text('sentence string', encodingErrors='replace')
    """

    schema: str | StructType | None = None
    _: KW_ONLY
    encodingErrors: EncodingErrors = "strict"
    name: ClassVar[str] = "text"
    __repr__ = described

    def __post_init__(self) -> None:
        check_choice("Text: encodingErrors", self.encodingErrors, get_args(EncodingErrors))

    def fields(self, declared: StructType | None) -> StructType:
        """Return the fields of the tuples. Raises TypeDeclarationError unless there is one field, a string."""
        if declared is None:
            return parse_schema("line string")
        if [type(field.dataType) for field in declared.fields] != [StringType]:
            raise TypeDeclarationError(
                f'FileSpout: format="text" emits one string per line, not ({ddl(declared)}); '
                'write schema="line string", and '
                "split the line with each(...)"
            )
        return declared

    def lines(self, schema: StructType) -> LineFormat:
        """Return the conversion of lines to tuples."""
        return TextFormat(schema, self.encodingErrors)


@dataclass(frozen=True, kw_only=True)
class _Values:
    """The options that JSON and CSV share."""

    malformed: Malformed = "fail"
    encodingErrors: EncodingErrors = "strict"
    numbers: Numbers = "strict"
    timeZone: str | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_choice(f"{name}: malformed", self.malformed, get_args(Malformed))
        check_choice(f"{name}: encodingErrors", self.encodingErrors, get_args(EncodingErrors))
        check_values(name, self.numbers, self.timeZone)

    @property
    def values(self) -> ValueReader:
        """The conversion of values."""
        return ValueReader(self.numbers == "lenient", self.timeZone)

    def _kept(self, fields: StructType) -> StructType:
        return with_corrupt_fields(fields) if self.malformed == "keep" else fields


@known_fields(_OF_SPARK_AND_OTHERS)
@dataclass(frozen=True, repr=False)
class Json(_Values):
    """The format of files with one JSON object a line, or with ``multiLine=True`` of files that are one JSON document.

    A missing field is null, an undeclared field is ignored. Dates and times are ISO 8601, binary is base64.

    Parameters
    ----------
    schema : str or StructType
        The fields with their types; here, or as `schema` of the `FileSpout`.
    malformed : "fail" or "keep"
        With "fail", a line that cannot be read raises MalformedInputError with file and line. With "keep", it becomes a
        tuple with the line (``_corrupt string``) and the reason (``_corrupt_reason string``) in additional fields, and
        null in all others.
    encodingErrors : "strict" or "replace"
        With "strict", invalid UTF-8 raises MalformedInputError with file and byte; with "replace", it becomes U+FFFD.
    numbers : "strict" or "lenient"
        With "lenient", whole numbers may be written as ``517.0``, and numbers as ``"517"``. A fraction is never
        dropped.
    timeZone : str, optional
        The zone of times that name no zone, for fields of type ``timestamp``. Without it, times must name their zone.
    multiLine : bool
        Whether each file is one document: an array of objects, each of which is a tuple, or one object. Then a file is
        read at once, must not grow, and has at most 256 MiB. With ``malformed="keep"`` an element that cannot be read
        becomes a tuple with its text; so does a document that is not JSON.

    Meaning of `multiLine`, `timeZone`: ``pyspark.sql.DataFrameReader.json``.

    Examples
    --------
    >>> Json("user long, page string", malformed="keep")
    Json('user long, page string', malformed='keep')
    """

    schema: str | StructType | None = None
    _: KW_ONLY
    multiLine: bool = False
    name: ClassVar[str] = "json"
    __repr__ = described

    def __post_init__(self) -> None:
        check_flag("Json: multiLine", self.multiLine)
        _Values.__post_init__(self)

    def fields(self, declared: StructType | None) -> StructType:
        """Return the fields of the tuples. Raises TypeDeclarationError if none are declared."""
        return self._kept(_needed(self.name, declared))

    def lines(self, schema: StructType) -> LineFormat:
        """Return the conversion of lines to tuples."""
        form = JsonDocuments if self.multiLine else JsonFormat
        return form(schema, self.malformed, self.encodingErrors, values=self.values)


@known_fields(_OF_SPARK_AND_OTHERS)
@dataclass(frozen=True, repr=False)
class Csv(_Values, CsvOptions):
    r"""The format of CSV files: each row is a tuple, without nested types.

    Columns are matched with the fields by the names in the header; other columns are ignored.

    Parameters
    ----------
    schema : str or StructType
        The fields with their types; here, or as `schema` of the `FileSpout`.
    sep, quote, escape : str, optional
        One character each: the separator of values, the quote that may enclose a value, and the character before a
        quote within quotes; without `escape` such a quote is doubled (RFC 4180). Spark writes ``escape="\\"``. An empty
        `quote` means that no value is enclosed.
    header : bool
        Whether the first row of each file names the columns. Without it the columns are the fields in order.
    skipLines : int
        The number of lines at the beginning of each file, such as a title, that are not read. The header, if there is
        one, is the next line. Empty lines count; quotes, and bytes that are not UTF-8, have no meaning there.
    nullValue : str
        The value that means null if it has no quotes; by default the empty value. An empty value in a field of another
        type than string is null in any case.
    multiLine : bool
        Whether values in quotes may hold newlines. Then a file is read as a whole, and must not grow.
    malformed : "fail" or "keep"
        With "fail", a row that cannot be read raises MalformedInputError with file and line. With "keep", it becomes a
        tuple with the row (``_corrupt string``) and the reason (``_corrupt_reason string``) in additional fields, and
        null in all others.
    encodingErrors : "strict" or "replace"
        With "strict", invalid UTF-8 raises MalformedInputError with file and byte; with "replace", it becomes U+FFFD.
    numbers : "strict" or "lenient"
        With "lenient", whole numbers may be written as ``517.0``. A fraction is never dropped.
    timeZone : str, optional
        The zone of times that name no zone, for fields of type ``timestamp``. Without it, times must name their zone.

    Meaning of `sep`, `quote`, `escape`, `header`, `nullValue`, `multiLine`, `timeZone`:
    ``pyspark.sql.DataFrameReader.csv``, except for the defaults of `escape` and `header`.

    Examples
    --------
    >>> Csv("carrier string, delay long", sep=";", skipLines=2, nullValue="NA")
    Csv('carrier string, delay long', sep=';', skipLines=2, nullValue='NA')
    """

    schema: str | StructType | None = None
    name: ClassVar[str] = "csv"
    __repr__ = described

    def __post_init__(self) -> None:
        _check_signs(self)
        _Values.__post_init__(self)

    def fields(self, declared: StructType | None) -> StructType:
        """Return the fields of the tuples.

        Raises TypeDeclarationError if no fields are declared, or a field is nested.
        """
        fields = _needed(self.name, declared)
        check_flat("FileSpout: format='csv'", fields)
        return self._kept(fields)

    def lines(self, schema: StructType) -> LineFormat:
        """Return the conversion of rows to tuples."""
        return CsvFormat(schema, self, self.malformed, self.encodingErrors, self.values)


@known_fields(_OF_SPARK_AND_OTHERS)
@dataclass(frozen=True, repr=False)
class Parquet:
    """The format of Parquet files. Columns are matched by name with the fields.

    A field without a column is null. If no file of a run's first batch has a column for it, a warning is logged.

    Parameters
    ----------
    schema : str or StructType, optional
        The fields with their types; here, or as `schema` of the `FileSpout`. Without it, the fields are those of the
        first file in order at the time when the fields are first needed.

    Examples
    --------
    >>> Parquet("user long, price double")
    Parquet('user long, price double')
    """

    schema: str | StructType | None = None
    name: ClassVar[str] = "parquet"
    __repr__ = described

    def fields(self, declared: StructType | None) -> StructType | None:
        """Return the fields of the tuples; None if they are those of the first file."""
        return declared


FileFormat = Text | Json | Csv | Parquet

_BY_NAME: Mapping[str, type[FileFormat]] = {each.name: each for each in (Text, Json, Csv, Parquet)}


def format_of(given: object) -> FileFormat:
    """Return the format that a user gave as an object, or by its name (which means all defaults).

    >>> format_of("csv")
    Csv()
    """
    if isinstance(given, FileFormat):
        return given
    if isinstance(given, str) and given in _BY_NAME:
        return _BY_NAME[given]()
    names = ", ".join(map(repr, _BY_NAME))
    written = "; write " + given.__name__ + "()" if isinstance(given, type) and given in _BY_NAME.values() else ""
    raise TopologyError(
        f"FileSpout: format={brief(given)} is not one of {names}, or Text(), Json(), Csv(), Parquet() with "
        f"options{written}"
    )


def _needed(format: str, declared: StructType | None) -> StructType:
    if declared is None:
        raise TypeDeclarationError(f'FileSpout: format="{format}" needs the fields: schema="user long, page string"')
    return declared


def _check_signs(csv: Csv) -> None:
    for name, sign in (("sep", csv.sep), ("quote", csv.quote), ("escape", csv.escape or csv.quote or "x")):
        empty = name == "quote" and sign == ""
        if not isinstance(sign, str) or not (empty or (len(sign) == 1 and sign.isascii() and sign not in "\r\n\0")):
            raise TopologyError(
                f"Csv: {name}={sign!r}: expected one ASCII character that is not a newline"
                f"{', or the empty string if values are never quoted' if name == 'quote' else ''}"
            )
    if csv.sep in (csv.quote, csv.escape):
        raise TopologyError(
            f"Csv: sep={csv.sep!r} is also the {'quote' if csv.sep == csv.quote else 'escape'}; give two different "
            f"characters"
        )
    check_flag("Csv: header", csv.header)
    check_whole_number("Csv: skipLines", csv.skipLines, least=0)
    check_flag("Csv: multiLine", csv.multiLine)
    if not isinstance(csv.nullValue, str):
        raise TopologyError(f"Csv: nullValue={csv.nullValue!r}: expected a text, such as 'NA'")
