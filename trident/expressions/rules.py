"""The rules of expressions: for each operator and function its types, and its three forms.

A rule is written once, with a form for one tuple in Python, which defines the result and the errors, a text for Spark,
and perhaps a form for whole columns. `tests/expressions` compares the three.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.types import DataType

from trident.base.spark_types import arrow_type
from trident.expressions.expression_types import Mismatch

Datum: TypeAlias = pa.Array | pa.Scalar
"""The values of an expression for all tuples: an array, or one value for all."""


class ExpressionError(ValueError):
    """A tuple for which an expression has no value: an overflow, a division by zero, an invalid cast."""


@dataclass(frozen=True, slots=True)
class Typed:
    """The types of a call: those to which its arguments are converted, and that of its result."""

    kinds: tuple[DataType, ...]
    result: DataType
    params: tuple[Any, ...] = ()

    @property
    def arrow(self) -> pa.DataType:
        return arrow_type(self.result)


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """An operator or a function.

    `types` returns the types of a call, or raises Mismatch. `value` returns the function of one tuple, which receives
    no null unless `nulls` is true, and may raise ExpressionError. `sql` returns the text for Spark. `columns` computes
    whole columns; None, and every error of Arrow, mean that the function of one tuple must do it.
    """

    name: str
    types: Callable[[tuple[DataType, ...], tuple[Any, ...]], Typed]
    value: Callable[[Typed], Callable[..., Any]]
    sql: Callable[..., str]
    columns: Callable[..., Datum | None] | None = None
    nulls: bool = False


ANOTHER_FORM = "trident: this tuple needs the function in Python"
"""The text of the error that a SQL form raises for a tuple for which the function itself has to raise its error."""

RULES: dict[str, Rule] = {}
"""All rules by their names."""


def rule(
    name: str,
    types: Callable[[tuple[DataType, ...], tuple[Any, ...]], Typed],
    value: Callable[[Typed], Callable[..., Any]],
    sql: str | Callable[..., str],
    columns: Callable[..., Datum | None] | None = None,
    nulls: bool = False,
) -> None:
    """Add a rule. A text for `sql` has a place ``{}`` for each argument, ``{0}`` for one that occurs twice."""
    made = (lambda call, *texts: sql.format(*texts)) if isinstance(sql, str) else sql
    RULES[name] = Rule(name, types, value, made, columns, nulls)


def takes(*accepted: tuple[Callable[[DataType], bool], str], gives: DataType | None = None) -> Any:
    """Return a function of types for arguments of fixed kinds: each a test, and its words for an error.

    `gives` is the type of the result; None: that of the first argument.
    """

    def types(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
        if len(kinds) != len(accepted):
            raise Mismatch(f"it takes {len(accepted)} values, not {len(kinds)}")
        for kind, (fits, words) in zip(kinds, accepted, strict=True):
            if not fits(kind):
                raise Mismatch(f"expected {words}, not {kind.simpleString()}")
        return Typed(kinds, kinds[0] if gives is None else gives, params)

    return types


def as_is(function: Callable[..., Any]) -> Callable[[Typed], Callable[..., Any]]:
    """Return `Rule.value` for a function that does not depend on the types."""
    return lambda call: function


def quoted_text(text: str) -> str:
    r"""Return a text as a constant of Spark SQL, whatever the session's ``spark.sql.parser.escapedStringLiterals`` is.

    >>> quoted_text("a"), quoted_text("it's")
    ("'a'", "CAST(X'69742773' AS STRING)")
    """
    return f"CAST(X'{text.encode().hex()}' AS STRING)" if "'" in text or "\\" in text else f"'{text}'"
