"""Names and types as Spark SQL reads them."""

from collections.abc import Iterable

from pyspark.sql.types import DataType

from trident.base.spark_types import type_ddl


def quoted(name: str) -> str:
    """Return a column's name quoted for SQL, so that dots in it have no meaning.

    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def all_quoted(names: Iterable[str]) -> list[str]:
    """Return several names, each quoted."""
    return [quoted(name) for name in names]


def cast(what: str, kind: DataType, name: str) -> str:
    """Return a SELECT item: an expression cast to a type, with a name."""
    return f"CAST({what} AS {type_ddl(kind)}) AS {quoted(name)}"


def widens(actual: DataType, declared: DataType) -> bool:
    """Return whether every value of the type `actual` is also one of the type `declared`, so that a cast loses nothing.

    >>> from trident.base.spark_types import parse_type
    >>> widens(parse_type("int"), parse_type("long")), widens(parse_type("long"), parse_type("int"))
    (True, False)
    """
    if plain(actual) == plain(declared) or actual.typeName() == "void":
        return True
    return plain(declared) in _WIDER.get(plain(actual), ())


def plain(kind: DataType) -> str:
    """Return a type's name without nullability."""
    return str(kind.simpleString())


_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_WIDER = {name: (*_NUMBERS[at + 1 :], *(("float", "double") if at < 2 else ("double",) if at < 3 else ()))
          for at, name in enumerate(_NUMBERS)} | {"float": ("double",)}  # fmt: skip
