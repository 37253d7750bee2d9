"""A reader of Spark's type declarations (DDL) that needs no JVM.

The grammar is that of ``pyspark.sql.types.DataType.fromDDL``, for the types that a tuple can carry. A text that is
accepted here gives the same types as in Spark (a property test compares both). Texts that only Spark accepts (char,
varchar, intervals, collations, defaults) are refused with the reason.
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
_PYTHON_NAMES = {"str": "string", "bool": "boolean", "bytes": "binary", "datetime": "timestamp", "list": "array<...>"}
_UNSUPPORTED = {
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
    """Return whether a token is an identifier: letters (in Spark: ASCII letters), digits and '_', but not a number."""
    return all(c == "_" or c.isalpha() or c in "0123456789" for c in text) and not _LITERAL.fullmatch(text)


class Reader:
    """A reader of one DDL text, token by token. `at` is the index of the next token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        position = _SPACE.match(text, 0).end()  # type: ignore[union-attr]
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None:
                raise self.error(f"unexpected {text[position]!r}")
            quoted, word, sign, literal = token.groups()
            if quoted is not None:
                self.tokens.append(("name", quoted.replace("``", "`")))
            elif word is not None:
                self.tokens.append(("word" if _is_word(word) else "number", word))
            else:
                self.tokens.append(("sign", sign) if sign is not None else ("literal", literal))
            position = _SPACE.match(text, token.end()).end()  # type: ignore[union-attr]

    def error(self, problem: str) -> TypeDeclarationError:
        """Return the error for a text that cannot be read because of `problem`. The error shows how to write a type."""
        return TypeDeclarationError(
            f"cannot read the type declaration {self.text!r}: {problem}{'' if problem.endswith('?') else '.'} "
            "Write for example 'word string, n long'; "
            f"the types are {', '.join(SIMPLE)}, decimal(p,s), array<t>, map<k,v>, struct<name:t>"
        )

    @property
    def ended(self) -> bool:
        """Return whether every token was read."""
        return self.at >= len(self.tokens)

    def kind(self) -> str:
        """Return the kind of the next token: "word", "name", "number", "sign" or "literal"; "end" if there is none."""
        return "end" if self.ended else self.tokens[self.at][0]

    def next_brief(self) -> str:
        """Return the next token in the form in which an error shows it."""
        return "the end" if self.ended else repr(self.tokens[self.at][1])

    def next(self, expected: str, *kinds: str) -> str:
        """Read the next token and return its text. Raises TypeDeclarationError unless its kind is one of `kinds`."""
        if self.kind() not in kinds:
            raise self.error(f"expected {expected}, found {self.next_brief()}")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def accept(self, sign: str) -> bool:
        """Read the next token if it is `sign`, and return whether it was."""
        if self.ended or self.tokens[self.at] != ("sign", sign):
            return False
        self.at += 1
        return True

    def expect(self, sign: str) -> None:
        """Read the next token, which must be `sign`. Raises TypeDeclarationError if it is not."""
        if not self.accept(sign):
            raise self.error(f"expected {sign!r}, found {self.next_brief()}")

    def accept_keyword(self, word: str) -> bool:
        """Read the next token if it is the keyword `word`, and return whether it was."""
        if self.kind() != "word" or self.tokens[self.at][1].lower() != word:
            return False
        self.at += 1
        return True

    def type(self) -> spark.DataType:
        """Read one type, with the types nested in it."""
        name = self.next("a type", "word").lower()
        if name in SIMPLE:
            return SIMPLE[name]()
        if name in _DECIMAL:
            return self.decimal()
        if name not in _NESTED:
            raise self.unknown_type(name)
        self.expect("<")
        if name == "array":
            nested: spark.DataType = spark.ArrayType(self.type())
        elif name == "map":
            key = self.type()
            self.expect(",")
            nested = spark.MapType(key, self.type())
        else:
            empty = self.kind() == "sign" and self.tokens[self.at][1] == ">"
            nested = spark.StructType([] if empty else self.fields())
        self.expect(">")
        return nested

    def unknown_type(self, name: str) -> TypeDeclarationError:
        """Return the error for the name of a type that is not supported."""
        if (blanks := self.name_with_blanks()) is not None:
            return self.error(f"unknown type {name!r}; write a name with blanks in backticks: {blanks}")
        if name in _PYTHON_NAMES:
            return self.error(f"{name!r} is Python's name; write the SQL type {_PYTHON_NAMES[name]!r}")
        if name in _UNSUPPORTED:
            return self.error(f"a tuple's field cannot have the type {name!r}: {_UNSUPPORTED[name]}")
        hint = did_you_mean(name, [*SIMPLE, *_DECIMAL, *_NESTED])
        return self.error(f"unknown type {name!r}{hint} (write a name with blanks in backticks: `Origin State` string)")

    def name_with_blanks(self) -> str | None:
        """Return the intended field name with blanks, in backticks, if several words precede a type; otherwise None."""
        words = [self.tokens[self.at - 2][1]] if self.at > 1 and self.tokens[self.at - 2][0] == "word" else []
        for kind, text in self.tokens[self.at - 1 :]:
            if kind not in ("word", "number"):
                return None
            if text.lower() in SIMPLE or text.lower() in (*_DECIMAL, *_NESTED):
                return f"`{' '.join(words)}` {text}" if len(words) > 1 else None
            words.append(text)
        return None

    def decimal(self) -> spark.DecimalType:
        """Read the precision and the scale after the word decimal, if they follow; otherwise they are 10 and 0."""
        precision, scale = 10, 0
        if self.accept("("):
            precision = self.number()
            scale = self.number() if self.accept(",") else 0
            self.expect(")")
        if precision > 38 or scale > precision:
            raise self.error(
                f"decimal({precision},{scale}) is out of range: a decimal has at most 38 digits, and its scale is "
                f"at most its precision"
            )
        return spark.DecimalType(precision, scale)

    def number(self) -> int:
        """Read a whole number."""
        digits = self.next("a number", "number")
        if not digits.isdigit() or len(digits) > 9:
            raise self.error(f"expected a number, found {digits!r}")
        return int(digits)

    def fields(self) -> list[spark.StructField]:
        """Read one field, and one more after each comma that follows."""
        fields = [self.field()]
        while self.accept(","):
            fields.append(self.field())
        return fields

    def field(self) -> spark.StructField:
        """Read one field: its name and its type, then NOT NULL and a COMMENT if they follow."""
        name = self.next("a field name", "word", "name")
        self.accept(":")
        kind = self.type()
        nullable = True
        if self.accept_keyword("not"):
            if not self.accept_keyword("null"):
                raise self.error(f"expected NULL after NOT, found {self.next_brief()}")
            nullable = False
        comment = self.comment() if self.accept_keyword("comment") else None
        return spark.StructField(name, kind, nullable, None if comment is None else {"comment": comment})

    def comment(self) -> str:
        """Read the text of a COMMENT."""
        text = self.next("a quoted text after COMMENT", "literal")[1:-1]
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), text, flags=re.DOTALL)

    def check_end(self) -> None:
        """Raise TypeDeclarationError if a token is left to read."""
        if not self.ended:
            raise self.error(f"unexpected {self.next_brief()}")
