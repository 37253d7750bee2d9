"""Types and fields without a JVM: Spark's own type objects, read from DDL and mapped to Arrow."""

import re
from collections.abc import Callable, Iterable

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from trident.base.errors import DuplicateFieldError, FieldNotFoundError, TypeDeclarationError

_SIMPLE: dict[str, Callable[[], spark.DataType]] = {
    "boolean": spark.BooleanType,
    "tinyint": spark.ByteType,
    "byte": spark.ByteType,
    "smallint": spark.ShortType,
    "short": spark.ShortType,
    "int": spark.IntegerType,
    "integer": spark.IntegerType,
    "bigint": spark.LongType,
    "long": spark.LongType,
    "float": spark.FloatType,
    "real": spark.FloatType,
    "double": spark.DoubleType,
    "string": spark.StringType,
    "binary": spark.BinaryType,
    "date": spark.DateType,
    "timestamp": spark.TimestampType,
    "timestamp_ltz": spark.TimestampType,
    "timestamp_ntz": spark.TimestampNTZType,
    "void": spark.NullType,
}

_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\W\d]\w*|\d\w*)|([<>(),:]))")


class _Reader:
    """Reads one DDL text, token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.error(f"unexpected {text[at:].strip()[0]!r}")
            quoted, word, sign = found.groups()
            self.tokens.append(("name", quoted.replace("``", "`")) if quoted else ("word", word) if word else ("sign", sign))
            at = found.end()
        self.at = 0

    def error(self, what: str) -> TypeDeclarationError:
        return TypeDeclarationError(
            f"cannot read the type declaration {self.text!r}: {what}; "
            f'write for example "word string, n long" (types: {", ".join(sorted(_SIMPLE))}, '
            f"decimal(p,s), array<t>, map<k,v>, struct<name:t>)"
        )

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, sign: str) -> None:
        if self.at >= len(self.tokens) or self.tokens[self.at] != ("sign", sign):
            raise self.error(f"expected {sign!r} before {self.peek()!r}" if self.peek() else f"expected {sign!r} at the end")
        self.at += 1

    def word(self, what: str) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] == "sign":
            raise self.error(f"expected {what}" + (f" before {self.peek()!r}" if self.peek() else " at the end"))
        self.at += 1
        return self.tokens[self.at - 1][1]

    def accept(self, sign: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] == ("sign", sign):
            self.at += 1
            return True
        return False

    def keyword(self, word: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "word" and self.peek().lower() == word:
            self.at += 1
            return True
        return False

    def type(self) -> spark.DataType:
        name = self.word("a type").lower()
        if name in _SIMPLE:
            return _SIMPLE[name]()
        if name in ("decimal", "dec", "numeric"):
            return self.decimal()
        if name == "array":
            self.take("<")
            element = self.type()
            self.take(">")
            return spark.ArrayType(element)
        if name == "map":
            self.take("<")
            key = self.type()
            self.take(",")
            value = self.type()
            self.take(">")
            return spark.MapType(key, value)
        if name == "struct":
            self.take("<")
            fields = [] if self.peek() == ">" else self.fields(colon=True)
            self.take(">")
            return spark.StructType(fields)
        raise self.error(f"unknown type {name!r}")

    def decimal(self) -> spark.DecimalType:
        precision, scale = 10, 0
        if self.accept("("):
            precision = self.number()
            scale = self.number() if self.accept(",") else 0
            self.take(")")
        if not 0 < precision <= 38 or scale > precision:
            raise self.error(f"decimal({precision},{scale}) is out of range")
        return spark.DecimalType(precision, scale)

    def number(self) -> int:
        word = self.word("a number")
        if not word.isdigit():
            raise self.error(f"expected a number, not {word!r}")
        return int(word)

    def fields(self, colon: bool) -> list[spark.StructField]:
        found = []
        while True:
            name = self.word("a field name")
            if colon:
                self.accept(":")
            kind = self.type()
            nullable = True
            if self.keyword("not"):
                if not self.keyword("null"):
                    raise self.error("expected NULL after NOT")
                nullable = False
            found.append(spark.StructField(name, kind, nullable))
            if not self.accept(","):
                return found

    def end(self) -> None:
        if self.at < len(self.tokens):
            raise self.error(f"unexpected {self.peek()!r}")


def parse_type(text: str) -> spark.DataType:
    """One type from DDL, with no JVM.

    >>> parse_type("array<decimal(5,2)>").simpleString()
    'array<decimal(5,2)>'
    """
    reader = _Reader(text)
    found = reader.type()
    reader.end()
    return found


def parse_schema(text: str) -> spark.StructType:
    """Fields from DDL, with no JVM.

    >>> parse_schema("word string, n long").simpleString()
    'struct<word:string,n:bigint>'
    """
    reader = _Reader(text)
    fields = reader.fields(colon=True)
    reader.end()
    return schema_of(fields)


def schema_of(fields: Iterable[spark.StructField]) -> spark.StructType:
    """A schema of these fields; refuses a name that comes twice."""
    schema = spark.StructType(list(fields))
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            raise DuplicateFieldError(f"field {name!r} comes twice in ({', '.join(schema.names)})")
        seen.add(name)
    return schema


def select(schema: spark.StructType, names: Iterable[str]) -> spark.StructType:
    """The fields of these names, in this order."""
    by_name = {field.name: field for field in schema.fields}
    chosen = []
    for name in names:
        if name not in by_name:
            raise FieldNotFoundError(f"no field {name!r}; the fields are ({', '.join(schema.names)})")
        chosen.append(by_name[name])
    return schema_of(chosen)


def ddl(schema: spark.StructType) -> str:
    """A schema as a user would write it.

    >>> ddl(parse_schema("word string, n long"))
    'word string, n bigint'
    """
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)


def arrow_type(kind: spark.DataType) -> pa.DataType:
    """The Arrow type that Spark uses for this type on the wire (timestamps in UTC, microseconds)."""
    return to_arrow_type(kind, timezone="UTC")


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The Arrow schema of these fields."""
    return pa.schema([pa.field(f.name, arrow_type(f.dataType), f.nullable) for f in schema.fields])


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """The Spark schema of Arrow fields."""
    return schema_of(spark.StructField(f.name, from_arrow_type(f.type), f.nullable) for f in schema)
