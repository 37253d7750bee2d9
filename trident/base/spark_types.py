"""Spark's own types and schemas, read from DDL and mapped to Arrow, all without a JVM."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from trident.base.ddl import Reader
from trident.base.errors import DuplicateFieldError, FieldNotFoundError, TypeDeclarationError
from trident.base.names import brief, did_you_mean, quote

_T = TypeVar("_T")


def parse_type(text: str) -> spark.DataType:
    """Read one type from DDL, without a JVM.

    >>> parse_type("array<decimal(5,2)>").simpleString()
    'array<decimal(5,2)>'
    """
    kind = _read(text, Reader.type)
    _check_nested("the type", kind)
    return kind


def parse_schema(text: str) -> spark.StructType:
    """Read fields from DDL, without a JVM.

    >>> parse_schema("word string, n long").simpleString()
    'struct<word:string,n:bigint>'
    """
    return schema_of(_read(text, Reader.fields))


def _read(text: str, part: Callable[[Reader], _T]) -> _T:
    reader = Reader(text)
    try:
        read = part(reader)
    except RecursionError:
        raise TypeDeclarationError(f"cannot read the type declaration {brief(text)}: nested too deeply") from None
    reader.check_end()
    return read


def schema_of(fields: Iterable[spark.StructField]) -> spark.StructType:
    """Return a schema of these fields.

    Raises DuplicateFieldError if two names, here or in a struct within a field, differ only in case: Spark ignores
    case.
    """
    schema = spark.StructType(list(fields))
    _check_names(schema)
    for field in schema.fields:
        _check_nested(f"field {field.name!r}", field.dataType)
    return schema


def _check_names(schema: spark.StructType, where: str = "") -> None:
    seen: dict[str, str] = {}
    for name in schema.names:
        first = seen.get(name.lower())
        if first is not None:
            clash = (
                f"field {name!r} is given twice"
                if first == name
                else (f"Spark considers {first!r} and {name!r} the same field")
            )
            raise DuplicateFieldError(f"{clash} in {where}({', '.join(schema.names)})")
        seen[name.lower()] = name


def _check_nested(where: str, kind: spark.DataType) -> None:
    """Check the names in the structs within a type, because readers find the members of a struct by name too."""
    if isinstance(kind, spark.StructType):
        _check_names(kind, f"the struct of {where} ")
        inner = [field.dataType for field in kind.fields]
    elif isinstance(kind, spark.MapType):
        inner = [kind.keyType, kind.valueType]
    else:
        inner = [kind.elementType] if isinstance(kind, spark.ArrayType) else []
    for each in inner:
        _check_nested(where, each)


def select(schema: spark.StructType, names: Iterable[str]) -> spark.StructType:
    """Return the fields in `names`, in that order. Raises FieldNotFoundError if the schema lacks one of them."""
    by_name = {field.name: field for field in schema.fields}
    chosen = []
    for name in names:
        if name not in by_name:
            near = did_you_mean(name, by_name)
            raise FieldNotFoundError(f"no field {name!r}; the fields are ({ddl(schema)}){near}")
        chosen.append(by_name[name])
    return schema_of(chosen)


def ddl(schema: spark.StructType) -> str:
    """Return a schema in the form in which a user writes it; ``parse_schema`` reads it back.

    >>> ddl(parse_schema("word string, n long"))
    'word string, n bigint'
    """
    return ", ".join(_field_ddl(field, " ") for field in schema.fields)


def type_ddl(kind: spark.DataType) -> str:
    """Return a type in the form in which a user writes it; ``parse_type`` reads it back.

    >>> type_ddl(parse_type("struct<`a b`: array<long>>"))
    'struct<`a b`:array<bigint>>'
    """
    if isinstance(kind, spark.ArrayType):
        return f"array<{type_ddl(kind.elementType)}>"
    if isinstance(kind, spark.MapType):
        return f"map<{type_ddl(kind.keyType)},{type_ddl(kind.valueType)}>"
    if isinstance(kind, spark.StructType):
        return f"struct<{','.join(_field_ddl(field, ':') for field in kind.fields)}>"
    return str(kind.simpleString())


def _field_ddl(field: spark.StructField, separator: str) -> str:
    return f"{quote(field.name)}{separator}{type_ddl(field.dataType)}{'' if field.nullable else ' NOT NULL'}"


def arrow_type(kind: spark.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark sends values of this type (timestamps in UTC, microseconds)."""
    return to_arrow_type(kind, timezone="UTC")


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow schema that corresponds to a Spark schema."""
    return pa.schema([pa.field(f.name, arrow_type(f.dataType), f.nullable) for f in schema.fields])


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """Return the Spark schema that corresponds to an Arrow schema."""
    return schema_of(spark.StructField(f.name, from_arrow_type(f.type), f.nullable) for f in schema)
