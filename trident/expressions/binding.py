"""Expressions with types: a tree is bound to the fields of a stream, and each conversion becomes a part of it."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import types as spark
from pyspark.sql.types import DataType, StructType

from trident.base.names import did_you_mean
from trident.base.spark_types import ddl
from trident.expressions import (  # noqa: F401  # they add rules
    arithmetic_rules,
    casts,
    collection_rules,
    condition_rules,
    digest_rules,
    regex_rules,
    text_rules,
    time_rules,
    time_zone_rules,
)
from trident.expressions.casts import cast_types
from trident.expressions.expression_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    MOST_DIGITS,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Mismatch,
    bounds_of,
    common_of,
    is_decimal,
    is_integral,
    known,
    same,
)
from trident.expressions.rules import RULES, Typed
from trident.expressions.tree import Call, Case, Cast, ColumnExpression, Field, Literal, fields_of


class Unbound(Exception):
    """An expression that does not fit the fields. The text names the part and the reason."""


class UnknownField(Unbound):
    """An expression over a field that the stream does not have."""


@dataclass(frozen=True, slots=True)
class BoundField:
    """A field, by its position among the inputs of the operation."""

    at: int
    kind: DataType


@dataclass(frozen=True, slots=True)
class BoundLiteral:
    """A constant of a type."""

    value: Any
    kind: DataType


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call of a rule with its types; `shown` is its text in errors."""

    rule: str
    args: tuple["Bound", ...]
    typed: Typed
    shown: str

    @property
    def kind(self) -> DataType:
        return self.typed.result


@dataclass(frozen=True, slots=True)
class BoundCase:
    """A choice between values of one type."""

    branches: tuple[tuple["Bound", "Bound"], ...]
    last: "Bound"
    kind: DataType


Bound = BoundField | BoundLiteral | BoundCall | BoundCase


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a stream, and the `inputs` of some expressions: the fields that they use, by position."""

    schema: StructType
    inputs: tuple[str, ...]


def inputs_of(expressions: Sequence[ColumnExpression], schema: StructType) -> tuple[str, ...]:
    """Return the fields of the stream that expressions read, each once. Raises UnknownField for a field it lacks."""
    names = {_name_in(field.name, schema): None for each in expressions for field in fields_of(each)}
    return tuple(names)


def _name_in(name: str, schema: StructType) -> str:
    first = name.partition(".")[0]
    found = next((each for each in (name, first) if each in schema.names), None)
    if found is None:
        hint = did_you_mean(name, schema.names) or f"; if {name!r} is a text and not a field, write lit({name!r})"
        raise UnknownField(f"no field {name!r}; the fields are ({ddl(schema)}){hint}")
    return found


def bound(part: ColumnExpression, fields: Fields) -> Bound:
    """Return an expression with types. Raises Unbound if it does not fit the fields."""
    match part:
        case Field(name=name):
            return _field(name, fields)
        case Literal(value=value):
            return _literal(value)
        case Cast(value=value, kind=kind):
            return _call("cast", [bound(value, fields)], (kind,), repr(part))
        case Case(branches=branches, last=last):
            return _case(part, [(bound(c, fields), bound(v, fields)) for c, v in branches], last, fields)
        case Call(rule=rule, args=args, params=params):
            return _call(rule, [bound(each, fields) for each in args], params, repr(part))
    raise TypeError(f"{part!r} is no expression")


def _field(name: str, fields: Fields) -> Bound:
    own = _name_in(name, fields.schema)
    made: Bound = BoundField(fields.inputs.index(own), fields.schema[own].dataType)
    for inner in name[len(own) + 1 :].split(".") if own != name else ():
        made = _call("getField", [made], (inner,), f"col({name!r})")
    return made


def _literal(value: Any) -> BoundLiteral:
    if value is None:
        return BoundLiteral(value, NULL)
    if isinstance(value, bool):
        return BoundLiteral(value, BOOLEAN)
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    for kinds, kind in _KINDS:
        if isinstance(value, kinds):
            if isinstance(value, datetime.datetime):
                return BoundLiteral(value, TIMESTAMP_NTZ) if value.tzinfo is None else _instant(value)
            return BoundLiteral(value, kind)
    raise TypeError(f"{value!r} is not a constant")


def _whole(value: int) -> BoundLiteral:
    kind: DataType
    for kind in (INT, LONG):
        least, greatest = bounds_of(kind)
        if least <= value <= greatest:
            return BoundLiteral(value, kind)
    raise Unbound(f"{value} is beyond bigint; give it as a Decimal")


def _decimal(value: Decimal) -> BoundLiteral:
    if not value.is_finite():
        raise Unbound(f"{value!r} is not a decimal number")
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    places = max(len(digits) + max(int(exponent), 0), scale, 1)
    if places > MOST_DIGITS:
        raise Unbound(f"{value!r} has more than {MOST_DIGITS} digits")
    return BoundLiteral(value.quantize(Decimal(1).scaleb(-scale)), spark.DecimalType(places, scale))


_KINDS: tuple[tuple[type, DataType], ...] = (
    (float, DOUBLE),
    (str, STRING),
    (bytes, BINARY),
    (datetime.datetime, TIMESTAMP),
    (datetime.date, DATE),
)


def _instant(value: datetime.datetime) -> BoundLiteral:
    return BoundLiteral(value.astimezone(datetime.UTC), TIMESTAMP)


def _call(name: str, args: list[Bound], params: tuple[Any, ...], shown: str) -> Bound:
    rule = RULES[name]
    kinds = tuple(_kind_of(arg, [other.kind for other in args if other is not arg]) for arg in args)
    try:
        typed = rule.types(kinds, params)
    except Mismatch as error:
        raise Unbound(f"{shown}: {error}") from None
    converted = tuple(as_kind(arg, kind) for arg, kind in zip(args, typed.kinds, strict=True))
    return BoundCall(name, converted, Typed(typed.kinds, typed.result, params), shown)


def _kind_of(arg: Bound, others: list[DataType]) -> DataType:
    """Return the type of an argument. A constant int beside a decimal has exactly its own digits, as in Spark."""
    if isinstance(arg, BoundLiteral) and type(arg.value) is int and any(map(is_decimal, others)):
        return spark.DecimalType(len(str(abs(arg.value))), 0)
    return arg.kind


def as_kind(part: Bound, kind: DataType) -> Bound:
    """Return an expression converted to a type that holds all of its values."""
    if same(part.kind, kind):
        return part
    if isinstance(part, BoundLiteral) and part.value is None:
        return BoundLiteral(None, kind)
    if isinstance(part, BoundLiteral) and isinstance(kind, spark.DecimalType):
        return BoundLiteral(Decimal(part.value).quantize(Decimal(1).scaleb(-kind.scale)), kind)
    if isinstance(part, BoundLiteral) and is_integral(part.kind):
        if same(kind, DOUBLE):
            return BoundLiteral(float(part.value), kind)
        if is_integral(kind):
            return BoundLiteral(part.value, kind)
    return BoundCall("cast", (part,), Typed(cast_types((part.kind,), (kind,)).kinds, kind, (kind,)), "")


def _case(part: Case, pairs: list[tuple[Bound, Bound]], last: ColumnExpression | None, fields: Fields) -> Bound:
    other = BoundLiteral(None, NULL) if last is None else bound(last, fields)
    for condition, _ in pairs:
        if not isinstance(condition.kind, spark.BooleanType | spark.NullType):
            raise Unbound(
                f"{part!r}: expected a condition, but it is {condition.kind.simpleString()}; write a comparison"
            )
    try:
        kind = known(common_of([*(value.kind for _, value in pairs), other.kind]))
    except Mismatch as error:
        raise Unbound(f"{part!r}: {error}") from None
    branches = tuple((as_kind(condition, BOOLEAN), as_kind(value, kind)) for condition, value in pairs)
    return BoundCase(branches, as_kind(other, kind), kind)
