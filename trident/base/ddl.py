"""Spark's type declarations, read without a JVM.

The grammar is the one of ``pyspark.sql.types.DataType.fromDDL`` for the types that a tuple can carry. What is read here
Spark reads to the same types (a property test compares both); what Spark knows beyond it (char, varchar, intervals,
collations, defaults) is refused with the reason.
"""

import re
from collections.abc import Callable

from pyspark.sql import types as spark

from trident.base.errors import TypeDeclarationError
from trident.base.names import did_you_mean

SIMPLE: dict[str, Callable[[], spark.DataType]] = {
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

_DECIMAL = ("decimal", "dec", "numeric")
_NESTED = ("array", "map", "struct")
_PYTHON = {"str": "string", "bool": "boolean", "bytes": "binary", "datetime": "timestamp", "list": "array<...>"}
_ABSENT = {
    "char": "write string",
    "character": "write string",
    "varchar": "write string",
    "interval": "carry seconds as long or double",
    "time": "carry it as string or long",
    "variant": "carry it as string (JSON)",
}

_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r"`((?:[^`]|``)+)`|(\w+)|([<>(),:])|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
_LITERAL = re.compile(r"\d+(?:[lsydf]|bd|e\d+[df]?|e\d+bd)?", re.IGNORECASE)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _is_word(text: str) -> bool:
    """Whether it is an identifier: letters (Spark: of ASCII), digits and '_', and no number."""
    return all(c == "_" or c.isalpha() or c in "0123456789" for c in text) and not _LITERAL.fullmatch(text)


class Reader:
    """Reads one DDL text, token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        at = _SPACE.match(text, 0).end()  # type: ignore[union-attr]
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.error(f"unexpected {text[at]!r}")
            quoted, word, sign, literal = found.groups()
            if quoted is not None:
                self.tokens.append(("name", quoted.replace("``", "`")))
            elif word is not None:
                self.tokens.append(("word" if _is_word(word) else "number", word))
            else:
                self.tokens.append(("sign", sign) if sign is not None else ("literal", literal))
            at = _SPACE.match(text, found.end()).end()  # type: ignore[union-attr]

    def error(self, what: str) -> TypeDeclarationError:
        """An error about this text."""
        return TypeDeclarationError(
            f"cannot read the type declaration {self.text!r}: {what}{'' if what.endswith('?') else '.'} "
            "Write for example 'word string, n long'; "
            f"the types are {', '.join(SIMPLE)}, decimal(p,s), array<t>, map<k,v>, struct<name:t>"
        )

    @property
    def ended(self) -> bool:
        """Whether every token was read."""
        return self.at >= len(self.tokens)

    def kind(self) -> str:
        """The kind of the next token."""
        return "end" if self.ended else self.tokens[self.at][0]

    def shown(self) -> str:
        """The next token, for an error."""
        return "the end" if self.ended else repr(self.tokens[self.at][1])

    def next(self, what: str, *kinds: str) -> str:
        """Take a token of one of these kinds."""
        if self.kind() not in kinds:
            raise self.error(f"expected {what}, found {self.shown()}")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def accept(self, sign: str) -> bool:
        """Take this sign if it comes next."""
        if self.ended or self.tokens[self.at] != ("sign", sign):
            return False
        self.at += 1
        return True

    def take(self, sign: str) -> None:
        """Take this sign."""
        if not self.accept(sign):
            raise self.error(f"expected {sign!r}, found {self.shown()}")

    def keyword(self, word: str) -> bool:
        """Take this keyword if it comes next."""
        if self.kind() != "word" or self.tokens[self.at][1].lower() != word:
            return False
        self.at += 1
        return True

    def type(self) -> spark.DataType:
        """One type."""
        name = self.next("a type", "word").lower()
        if name in SIMPLE:
            return SIMPLE[name]()
        if name in _DECIMAL:
            return self.decimal()
        if name not in _NESTED:
            raise self.unknown(name)
        self.take("<")
        if name == "array":
            found: spark.DataType = spark.ArrayType(self.type())
        elif name == "map":
            key = self.type()
            self.take(",")
            found = spark.MapType(key, self.type())
        else:
            empty = self.kind() == "sign" and self.tokens[self.at][1] == ">"
            found = spark.StructType([] if empty else self.fields())
        self.take(">")
        return found

    def unknown(self, name: str) -> TypeDeclarationError:
        """An error about a type that is none of ours."""
        if name in _PYTHON:
            return self.error(f"{name!r} is Python's name, the type is {_PYTHON[name]}")
        if name in _ABSENT:
            return self.error(f"a tuple cannot carry the type {name!r}: {_ABSENT[name]}")
        return self.error(f"unknown type {name!r}{did_you_mean(name, [*SIMPLE, *_DECIMAL, *_NESTED])}")

    def decimal(self) -> spark.DecimalType:
        """What follows the word decimal."""
        precision, scale = 10, 0
        if self.accept("("):
            precision = self.number()
            scale = self.number() if self.accept(",") else 0
            self.take(")")
        if precision > 38 or scale > precision:
            raise self.error(f"decimal({precision},{scale}) is out of range: 38 digits at most, and no larger scale")
        return spark.DecimalType(precision, scale)

    def number(self) -> int:
        """A whole number."""
        digits = self.next("a number", "number")
        if not digits.isdigit() or len(digits) > 9:
            raise self.error(f"expected a number, found {digits!r}")
        return int(digits)

    def fields(self) -> list[spark.StructField]:
        """Fields, up to what is no comma."""
        found = [self.field()]
        while self.accept(","):
            found.append(self.field())
        return found

    def field(self) -> spark.StructField:
        """One field: name, type, NOT NULL, COMMENT."""
        name = self.next("a field name", "word", "name")
        self.accept(":")
        kind = self.type()
        nullable = True
        if self.keyword("not"):
            if not self.keyword("null"):
                raise self.error(f"expected NULL after NOT, found {self.shown()}")
            nullable = False
        comment = self.comment() if self.keyword("comment") else None
        return spark.StructField(name, kind, nullable, None if comment is None else {"comment": comment})

    def comment(self) -> str:
        """The text of a COMMENT."""
        text = self.next("a quoted text after COMMENT", "literal")[1:-1]
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)

    def end(self) -> None:
        """Refuse what is left."""
        if not self.ended:
            raise self.error(f"unexpected {self.shown()}")
