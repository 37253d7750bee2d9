"""Expressions as functions of one tuple. They define each result and each error; the other forms return the same."""

from collections.abc import Callable, Sequence
from typing import Any

from trident.expressions.binding import Bound, BoundCall, BoundCase, BoundField, BoundLiteral
from trident.expressions.rules import RULES, ExpressionError

RowFunction = Callable[[Sequence[Any]], Any]
"""A function from the values of the input fields to the value of an expression."""


def row_function(part: Bound) -> RowFunction:
    """Return an expression as a function of a tuple's values. It computes a part only if its value is needed."""
    match part:
        case BoundField(at=at):
            return lambda row: row[at]
        case BoundLiteral(value=value):
            return lambda row: value
        case BoundCase():
            return _case(part)
        case BoundCall(rule="&"):
            return _and(*map(row_function, part.args))
        case BoundCall(rule="|"):
            return _or(*map(row_function, part.args))
        case BoundCall(rule="coalesce"):
            return _coalesce(list(map(row_function, part.args)))
    return _call(part)


def _case(part: BoundCase) -> RowFunction:
    branches = [(row_function(condition), row_function(value)) for condition, value in part.branches]
    last = row_function(part.last)

    def choose(row: Sequence[Any]) -> Any:
        for condition, value in branches:
            if condition(row):
                return value(row)
        return last(row)

    return choose


def _and(left: RowFunction, right: RowFunction) -> RowFunction:
    def both(row: Sequence[Any]) -> Any:
        one = left(row)
        if one is False:
            return False
        other = right(row)
        return False if other is False else None if one is None or other is None else True

    return both


def _or(left: RowFunction, right: RowFunction) -> RowFunction:
    def either(row: Sequence[Any]) -> Any:
        one = left(row)
        if one:
            return True
        other = right(row)
        return True if other else None if one is None or other is None else False

    return either


def _coalesce(parts: list[RowFunction]) -> RowFunction:
    def first(row: Sequence[Any]) -> Any:
        for part in parts:
            value = part(row)
            if value is not None:
                return value
        return None

    return first


def _call(part: BoundCall) -> RowFunction:
    function, args = value_function(part), [row_function(arg) for arg in part.args]
    if len(args) == 1:
        (only,) = args
        return lambda row: function(only(row))
    if len(args) == 2:
        left, right = args
        return lambda row: function(left(row), right(row))
    return lambda row: function(*[arg(row) for arg in args])


def value_function(part: BoundCall) -> Callable[..., Any]:
    """Return the function of a call's values. Its errors name the expression."""
    rule = RULES[part.rule]
    value, shown = rule.value(part.typed), part.shown

    def guarded(*values: Any) -> Any:
        if not rule.nulls and None in values:
            return None
        try:
            return value(*values)
        except ExpressionError as error:
            raise ExpressionError(f"{error}; in {shown}" if shown else str(error)) from None

    return guarded
