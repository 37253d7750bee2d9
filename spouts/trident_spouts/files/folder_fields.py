"""Fields whose values are in the names of folders, such as ``day=2024-02-29``."""

import decimal
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
)

from trident.base.descriptions import described, keep
from trident.base.errors import MalformedInputError, SpoutContractError, TypeDeclarationError
from trident.base.spark_types import arrow_schema, type_ddl
from trident.base.value_conversion import to_arrow
from trident_spouts.files.file_ranges import FileRef, PlannedFile
from trident_spouts.files.glob_patterns import wild_at
from trident_spouts.files.line_reader import LineFormat
from trident_spouts.files.value_conversion import ValueReader
from trident_spouts.rows import read_schema

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The value in the names of folders that Hive and Spark write for null."""

_KINDS = (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
)


@dataclass(frozen=True, init=False, repr=False)
class Folders:
    """A path to folders whose names are values of fields, as Hive and Spark write them: ``day=2024-02-29/shop=Ulm``.

    Each file is read with the values of the folders above it, in additional fields after those of the file. The
    fields are those that `columns` names; nothing is guessed from the names of folders. Names are unescaped as by
    Spark (``%3D`` is ``=``), and ``__HIVE_DEFAULT_PARTITION__`` is null.

    Parameters
    ----------
    path : str or path
        The folder, of which all files are read, also in folders of folders; or a glob. Only folders that the
        first wildcard matches, and folders below them, give values.
    columns : str or StructType
        The fields with their types: strings, numbers, booleans, dates and timestamp_ntz.

    Raises
    ------
    TypeDeclarationError
        A field has another type, or is also a field of the file.
    MalformedInputError
        A file is not in a folder for each field, or is in two; the name of a folder is not a value of the type.
    SpoutContractError
        A Parquet file has a column with the name of such a field.

    Examples
    --------
    >>> from trident.spouts import FileSpout, Folders
    >>> spout = FileSpout(Folders("/data/clicks", "day date, shop string"), "json", "user long")
    >>> spout
    FileSpout(Folders('/data/clicks', 'day date, shop string'), 'json', 'user bigint')
    >>> spout.schema.names
    ['user', 'day', 'shop']
    """

    path: str | PurePath
    columns: str | StructType

    def __init__(self, path: str | PurePath, columns: str | StructType) -> None:
        keep(self, path=path, columns=columns)
        for field in self.fields.fields:
            if not isinstance(field.dataType, _KINDS):
                raise TypeDeclarationError(
                    f"Folders: {field.name} {type_ddl(field.dataType)}: expected a string, a number, a boolean, a date "
                    f"or a timestamp_ntz; declare a string, and convert it with each(...)"
                )

    __repr__ = described

    @property
    def fields(self) -> StructType:
        """The fields whose values are in the names of folders."""
        return read_schema(self.columns)

    def pattern(self, path: str) -> str:
        """Return the glob of all files: `path`, or all files below it if it has no wildcard."""
        return path if wild_at(path.split("/")) is not None else f"{path.rstrip('/')}/**/*"

    def after(self, fields: StructType) -> StructType:
        """Return the fields of tuples: those of a file, then those of folders.

        Raises TypeDeclarationError if both have a field of one name.
        """
        names = [name.lower() for name in fields.names]
        twice = [name for name in self.fields.names if name.lower() in names]
        if twice:
            raise TypeDeclarationError(
                f"FileSpout: {self!r}: {', '.join(map(repr, twice))} is also a field of the file; leave it out of one "
                f"of the two"
            )
        return StructType([*fields.fields, *self.fields.fields])

    def own(self, fields: StructType) -> StructType:
        """Return the fields that are in the files, without those of folders, which come last."""
        return StructType(fields.fields[: -len(self.fields.fields)])

    def placed(self, file: PlannedFile, name: str) -> PlannedFile:
        """Return a file with the values of its folders, which are parsed from its planned name.

        Raises MalformedInputError if the name lacks a value, or has a text that is not a value of the type.
        """
        texts: dict[str, list[str]] = {}
        for folder in name.split("/")[:-1]:
            key, sign, text = folder.partition("=")
            if sign:
                texts.setdefault(_unescaped(key), []).append(_unescaped(text))
        values = tuple(
            (field.name, _value(file, texts.get(field.name, []), field)) for field in arrow_schema(self.fields)
        )
        return replace(file, folders=values)

    def check_columns(self, files: list[PlannedFile], columns: list[list[str]]) -> None:
        """Raise SpoutContractError if a file has a column with the name of a field of folders."""
        names = [name.lower() for name in self.fields.names]
        for file, own in zip(files, columns, strict=True):
            twice = [name for name in own if name.lower() in names]
            if twice:
                raise SpoutContractError(
                    f"FileSpout: {file} has a column {twice[0]!r}, and so have the names of its folders; leave it out "
                    f"of Folders(...), or write the files without this column"
                )


def _unescaped(text: str) -> str:
    return re.sub("%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)


def _value(file: PlannedFile, texts: list[str], field: pa.Field) -> Any:
    if len(texts) != 1:
        raise MalformedInputError(
            f"FileSpout: {file} is in {'no folder' if not texts else 'several folders'} {field.name}=...; expected "
            f"exactly one between the first wildcard of the path and the file: move the file, or read other files"
        )
    if texts[0] == NULL and field.nullable:
        return None
    try:
        value = ValueReader().from_text(texts[0], field.type)
        return to_arrow([value], field.type)[0].as_py()
    except (ValueError, decimal.InvalidOperation):
        raise MalformedInputError(
            f"FileSpout: {file}: the folder {field.name}={texts[0]} is not a value of type {field.type}; declare "
            f"{field.name} string, and convert it with each(...), or rename the folder"
        ) from None


@dataclass(frozen=True, slots=True)
class InFolders:
    """A format of lines whose tuples have the values of folders too, after the fields of the file."""

    form: LineFormat
    fields: StructType
    """The fields of folders."""

    @property
    def schema(self) -> StructType:
        """Return the fields of the tuples."""
        return StructType([*self.form.schema.fields, *self.fields.fields])

    @property
    def driver_bytes(self) -> int:
        """Return the bytes that the driver reads of files of this format."""
        return self.form.driver_bytes

    @property
    def whole(self) -> bool:
        """Return whether a file must be read at once."""
        return self.form.whole

    @property
    def longest(self) -> int | None:
        """Return the most bytes of a file that is read at once."""
        return self.form.longest

    @property
    def head_lines(self) -> int:
        """Return the lines at the beginning of a file that the format needs."""
        return self.form.head_lines

    def bind(self, head: Callable[[], bytes], path: object) -> "InFolders":
        """Return the format of one file."""
        return replace(self, form=self.form.bind(head, path))

    def parse(self, data: bytes, path: FileRef, offset: int) -> pa.Table:
        """Return the tuples of `data` with the values of the file's folders."""
        assert isinstance(path, PlannedFile), "files of a FileSpout are always planned"
        table = self.form.parse(data, path, offset)
        values = dict(path.folders)
        for field in arrow_schema(self.fields):
            table = table.append_column(field, folder_column(values[field.name], field, len(table)))
        return table

    def count(self, data: bytes, offset: int) -> int:
        """Return the number of tuples that `parse` would return."""
        return self.form.count(data, offset)


def folder_column(value: Any, field: pa.Field, rows: int) -> pa.Array:
    """Return a column with one value in all rows."""
    return pa.repeat(pa.scalar(value, field.type), rows)
