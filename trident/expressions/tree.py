"""Expressions as users write them: trees of fields, constants and calls, without types and without a session."""

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from pyspark.sql import Column
from pyspark.sql.types import DataType

from trident.base.errors import TopologyError
from trident.base.short_texts import brief
from trident.base.spark_types import parse_type, type_ddl
from trident.expressions.portable_regex import asked_pattern


class ColumnExpression:
    """An expression over the fields of a stream, which both engines compute: ``col("price") * 0.908``.

    Created by `trident.col`, `trident.lit`, `trident.when` and the functions in `trident.functions`. It means the same
    as the ``pyspark.sql.Column`` that is written in the same way, in ANSI mode; an overflow, a division by zero and an
    invalid cast are errors, and a text is not converted to a number unless `cast` is called. Times are in UTC.

    >>> from trident import col
    >>> (col("price") * 0.908 > 10) & col("city").isNotNull()
    ((col('price') * 0.908) > 10) & col('city').isNotNull()
    """

    __slots__ = ()
    __hash__ = object.__hash__
    __iter__ = None

    def __add__(self, other: object) -> "ColumnExpression":
        return Call("+", (self, operand(other)))

    def __radd__(self, other: object) -> "ColumnExpression":
        return Call("+", (operand(other), self))

    def __sub__(self, other: object) -> "ColumnExpression":
        return Call("-", (self, operand(other)))

    def __rsub__(self, other: object) -> "ColumnExpression":
        return Call("-", (operand(other), self))

    def __mul__(self, other: object) -> "ColumnExpression":
        return Call("*", (self, operand(other)))

    def __rmul__(self, other: object) -> "ColumnExpression":
        return Call("*", (operand(other), self))

    def __truediv__(self, other: object) -> "ColumnExpression":
        return Call("/", (self, operand(other)))

    def __rtruediv__(self, other: object) -> "ColumnExpression":
        return Call("/", (operand(other), self))

    def __mod__(self, other: object) -> "ColumnExpression":
        return Call("%", (self, operand(other)))

    def __rmod__(self, other: object) -> "ColumnExpression":
        return Call("%", (operand(other), self))

    def __neg__(self) -> "ColumnExpression":
        return Call("negative", (self,))

    def __eq__(self, other: object) -> "ColumnExpression":  # type: ignore[override]
        return Call("==", (self, operand(other)))

    def __ne__(self, other: object) -> "ColumnExpression":  # type: ignore[override]
        return Call("!=", (self, operand(other)))

    def __lt__(self, other: object) -> "ColumnExpression":
        return Call("<", (self, operand(other)))

    def __le__(self, other: object) -> "ColumnExpression":
        return Call("<=", (self, operand(other)))

    def __gt__(self, other: object) -> "ColumnExpression":
        return Call(">", (self, operand(other)))

    def __ge__(self, other: object) -> "ColumnExpression":
        return Call(">=", (self, operand(other)))

    def __and__(self, other: object) -> "ColumnExpression":
        return Call("&", (self, operand(other)))

    def __rand__(self, other: object) -> "ColumnExpression":
        return Call("&", (operand(other), self))

    def __or__(self, other: object) -> "ColumnExpression":
        return Call("|", (self, operand(other)))

    def __ror__(self, other: object) -> "ColumnExpression":
        return Call("|", (operand(other), self))

    def __invert__(self) -> "ColumnExpression":
        return Call("not", (self,))

    def __bool__(self) -> NoReturn:
        raise TopologyError(
            f"{brief(self)} has no truth value, because it is computed for each tuple: write & for 'and', | for 'or', "
            f"~ for 'not', each side in parentheses, and between() instead of a < x < b"
        )

    def __getitem__(self, item: object) -> "ColumnExpression":
        """Return a field of a struct or an entry of a map, by its name, or an element of an array, from 0."""
        return self.getField(item) if isinstance(item, str) else self.getItem(item)

    def getField(self, name: str) -> "ColumnExpression":
        """Return the field `name` of a struct, or the entry of a map with this key; null if the map lacks it.

        Meaning: ``pyspark.sql.Column.getField``.

        >>> from trident import col
        >>> col("bid").getField("price")
        col('bid').getField('price')
        """
        if not isinstance(name, str):
            raise TopologyError(f"getField({brief(name)}): expected the name of a field; write getItem for an element")
        return Call("getField", (self,), (name,))

    def getItem(self, position: object) -> "ColumnExpression":
        """Return the element of an array at `position`, from 0, or the entry of a map with this key; or an expression.

        A key that a map lacks gives null. A position outside of the array is an error; `trident.functions.get` returns
        null there. Meaning: ``pyspark.sql.Column.getItem`` in ANSI mode.

        >>> from trident import col
        >>> col("words").getItem(0)
        col('words').getItem(0)
        """
        return Call("getItem", (self, operand(position)))

    def cast(self, kind: str | DataType) -> "ColumnExpression":
        """Return the value converted to another type, such as ``"long"``.

        A value that the type cannot hold is an error.

        Meaning: ``pyspark.sql.Column.cast`` in ANSI mode. Casts whose result depends on a session, a Java version or a
        time zone are refused.

        >>> from trident import col
        >>> col("text").cast("long")
        col('text').cast('bigint')
        """
        return Cast(self, parse_type(kind) if isinstance(kind, str) else kind)

    def isNull(self) -> "ColumnExpression":
        """Return whether the value is null.

        >>> from trident import col
        >>> col("n").isNull()
        col('n').isNull()
        """
        return Call("isNull", (self,))

    def isNotNull(self) -> "ColumnExpression":
        """Return whether the value is not null.

        >>> from trident import col
        >>> col("n").isNotNull()
        col('n').isNotNull()
        """
        return Call("not", (Call("isNull", (self,)),))

    def isNaN(self) -> "ColumnExpression":
        """Return whether a float or double is not a number; false for null.

        >>> from trident import col
        >>> col("x").isNaN()
        col('x').isNaN()
        """
        return Call("isNaN", (self,))

    def eqNullSafe(self, other: object) -> "ColumnExpression":
        """Return whether two values are equal. Two nulls are equal; a null and another value are not.

        >>> from trident import col
        >>> col("a").eqNullSafe(col("b"))
        col('a').eqNullSafe(col('b'))
        """
        return Call("eqNullSafe", (self, operand(other)))

    def isin(self, *values: object) -> "ColumnExpression":
        """Return whether the value is one of these.

        If it is not and they include a null, the result is null, as in SQL.

        >>> from trident import col
        >>> col("city").isin("Berlin", "Paris")
        col('city').isin('Berlin', 'Paris')
        """
        if len(values) == 1 and isinstance(values[0], list | tuple | set | frozenset):
            values = tuple(values[0])
        if not values:
            raise TopologyError("isin(): give at least one value")
        return Call("isin", (self, *map(operand, values)))

    def between(self, lowest: object, highest: object) -> "ColumnExpression":
        """Return whether the value is at least `lowest` and at most `highest`.

        >>> from trident import col
        >>> col("n").between(1, 5)
        (col('n') >= 1) & (col('n') <= 5)
        """
        return (self >= lowest) & (self <= highest)

    def contains(self, part: object) -> "ColumnExpression":
        """Return whether a text contains another one.

        >>> from trident import col
        >>> col("url").contains("?")
        col('url').contains('?')
        """
        return Call("contains", (self, operand(part)))

    def startswith(self, part: object) -> "ColumnExpression":
        """Return whether a text begins with another one.

        >>> from trident import col
        >>> col("url").startswith("https:")
        col('url').startswith('https:')
        """
        return Call("startswith", (self, operand(part)))

    def endswith(self, part: object) -> "ColumnExpression":
        """Return whether a text ends with another one.

        >>> from trident import col
        >>> col("name").endswith(".csv")
        col('name').endswith('.csv')
        """
        return Call("endswith", (self, operand(part)))

    def rlike(self, pattern: str) -> "ColumnExpression":
        r"""Return whether a regular expression matches a part of the text, as `trident.functions.rlike`.

        >>> from trident import col
        >>> col("url").rlike("^https?://")
        col('url').rlike('^https?://')
        """
        asked_pattern("rlike", pattern)
        return Call("rlike", (self,), (pattern,))

    def substr(self, start: object, length: object) -> "ColumnExpression":
        """Return `length` characters of a text from the position `start`, which counts from 1; negative: from the end.

        >>> from trident import col
        >>> col("code").substr(1, 2)
        col('code').substr(1, 2)
        """
        return Call("substr", (self, operand(start), operand(length)))

    def otherwise(self, value: object) -> "ColumnExpression":
        """Raise an error: only the result of `when` has this method."""
        raise TopologyError("otherwise() follows when(condition, value), and nothing follows otherwise()")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Field(ColumnExpression):
    """A field of the stream, by its name. ``"bid.price"`` is a field of a struct, unless a field has that name."""

    name: str

    def __repr__(self) -> str:
        return f"col({self.name!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(ColumnExpression):
    """A constant."""

    value: Any

    def __repr__(self) -> str:
        return f"lit({self.value!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(ColumnExpression):
    """A call of a rule, by the rule's name, with expressions and with constants that are part of the rule."""

    rule: str
    args: tuple[ColumnExpression, ...]
    params: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return _shown_call(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cast(ColumnExpression):
    """A conversion to another type."""

    value: ColumnExpression
    kind: DataType

    def __repr__(self) -> str:
        return f"{_inner(self.value)}.cast({type_ddl(self.kind)!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Case(ColumnExpression):
    """A choice between values by conditions: the value of the first condition that is true; null if none is."""

    branches: tuple[tuple[ColumnExpression, ColumnExpression], ...]
    last: ColumnExpression | None = None

    def when(self, condition: ColumnExpression, value: object) -> "Case":
        """Add a condition, which applies if none before it is true."""
        if self.last is not None:
            raise TopologyError("when() follows otherwise(), which ends the conditions; write otherwise() last")
        return Case((*self.branches, (_condition(condition), operand(value))))

    def otherwise(self, value: object) -> "Case":
        """Return the choice with the value for tuples for which no condition is true."""
        if self.last is not None:
            raise TopologyError("otherwise() is written twice")
        return Case(self.branches, operand(value))

    def __repr__(self) -> str:
        whens = ".".join(f"when({condition!r}, {_plain(value)})" for condition, value in self.branches)
        return whens if self.last is None else f"{whens}.otherwise({_plain(self.last)})"


_CONSTANTS = (bool, int, float, str, bytes, Decimal, datetime.date, type(None))


def col(name: str) -> ColumnExpression:
    """Return a field of the stream as an expression, which both engines compute. Types follow from the stream.

    A dot leads into a struct: ``col("bid.price")``. See `ColumnExpression` for the operators and methods, and
    `trident.functions` for functions. Meaning: ``pyspark.sql.functions.col``.

    >>> from trident import TridentTopology, col
    >>> from trident.spouts import FixedBatchSpout
    >>> bids = TridentTopology().newStream("bids", FixedBatchSpout("item string, price double", [[("a", 2.0)]]))
    >>> bids.each({"euro": col("price") * 0.908}).filter(col("euro") > 1)
    Stream(bids/2:filter(col('euro') > 1): item string, price double, euro double)
    """
    if not isinstance(name, str) or not name:
        raise TopologyError(f"col takes the name of a field, not {brief(name)}; a constant is lit({brief(name)})")
    return Field(name)


def lit(value: object) -> ColumnExpression:
    """Return a constant as an expression: a bool, int, float, text, bytes, Decimal, date, datetime or None.

    A constant beside an expression needs no `lit`. Meaning: ``pyspark.sql.functions.lit``; a datetime without a zone is
    a timestamp_ntz.

    >>> from trident import lit
    >>> lit("EUR")
    lit('EUR')
    """
    if isinstance(value, ColumnExpression):
        return value
    if isinstance(value, Column):
        raise TopologyError(
            f"{brief(value)} is a Column of Spark, which only Spark can compute: write it with col, lit and functions "
            f"of trident, or use only Columns of Spark"
        )
    if not isinstance(value, _CONSTANTS):
        raise TopologyError(
            f"{brief(value)} ({type(value).__name__}) is not a constant of an expression: expected a bool, int, float, "
            f"text, bytes, Decimal, date, datetime or None"
        )
    return Literal(value)


def when(condition: ColumnExpression, value: object) -> Case:
    """Return `value` for tuples for which the condition is true, and null for others; add ``.when``, ``.otherwise``.

    A value is computed only for the tuples that take it, so a condition may guard a division. Meaning:
    ``pyspark.sql.functions.when``.

    >>> from trident import col, when
    >>> when(col("n") > 0, col("total") / col("n")).otherwise(0.0)
    when(col('n') > 0, col('total') / col('n')).otherwise(0.0)
    """
    return Case(((_condition(condition), operand(value)),))


def operand(value: object) -> ColumnExpression:
    """Return a value as an expression: itself if it is one, otherwise a constant."""
    return value if isinstance(value, ColumnExpression) else lit(value)


def _condition(value: object) -> ColumnExpression:
    if not isinstance(value, ColumnExpression):
        raise TopologyError(f"when({brief(value)}, ...): expected a condition, such as col('n') > 0")
    return value


# --- texts ------------------------------------------------------------------------------------------------------------

_BINARY = frozenset("+ - * / % == != < <= > >= & |".split())
_METHODS = frozenset("getField getItem isNaN eqNullSafe isin contains startswith endswith rlike substr".split())
_SIGNS: dict[str, Callable[[str], str]] = {"not": "~{}".format, "negative": "-{}".format}


def _shown_call(call: Call) -> str:
    if call.rule in _BINARY:
        left, right = call.args
        both = (left, right)
        shown = [_inner(each) if call.rule != "&" and call.rule != "|" else _side(each) for each in both]
        return f"{shown[0]} {call.rule} {shown[1]}"
    if call.rule == "not" and isinstance(call.args[0], Call) and call.args[0].rule == "isNull":
        return f"{_inner(call.args[0].args[0])}.isNotNull()"
    if call.rule == "isNull":
        return f"{_inner(call.args[0])}.isNull()"
    if call.rule in _SIGNS:
        return _SIGNS[call.rule](_inner(call.args[0]))
    listed = ", ".join([*map(_plain, call.args[1:]), *map(repr, call.params)])
    if call.rule in _METHODS:
        return f"{_inner(call.args[0])}.{call.rule}({listed})"
    return f"{call.rule}({', '.join([*map(_plain, call.args), *map(repr, call.params)])})"


def _plain(part: ColumnExpression) -> str:
    return repr(part.value) if isinstance(part, Literal) else repr(part)


def _inner(part: ColumnExpression) -> str:
    """Return the text of an operand, in parentheses if it contains an operator."""
    whole = isinstance(part, Call) and (part.rule in _BINARY or part.rule in _SIGNS)
    return f"({part!r})" if whole else _plain(part)


def _side(part: ColumnExpression) -> str:
    """Return the text of an operand of & or |: Python needs parentheses around a comparison there."""
    bare = isinstance(part, Call) and part.rule == "not"
    return _plain(part) if bare else _inner(part)


def fields_of(part: ColumnExpression) -> Iterator[Field]:
    """Yield the fields in an expression, in the order in which they are written."""
    match part:
        case Field():
            yield part
        case Call(args=args):
            for each in args:
                yield from fields_of(each)
        case Cast(value=value):
            yield from fields_of(value)
        case Case(branches=branches, last=last):
            for condition, value in branches:
                yield from fields_of(condition)
                yield from fields_of(value)
            if last is not None:
                yield from fields_of(last)
