"""Calls of rules by the public functions: a text names a field if PySpark expects the name of a field there."""

from typing import Any

from trident.base.errors import TopologyError
from trident.expressions.tree import Call, ColumnExpression, Field, operand


def named(value: object) -> ColumnExpression:
    """Return the field that a text names, and any other value as an operand."""
    return Field(value) if isinstance(value, str) else operand(value)


def of_field(name: str, first: object, *constants: object, params: tuple[Any, ...] = ()) -> ColumnExpression:
    """Return a call. A text as the first argument names a field, and any other text is a constant."""
    return Call(name, (named(first), *map(operand, constants)), params)


def of_fields(name: str, *values: object, least_number: int = 1) -> ColumnExpression:
    """Return a call in which each text names a field. Raises TopologyError if there are too few values."""
    if len(values) < least_number:
        raise TopologyError(f"{name}: give at least {least_number} value{'s' if least_number > 1 else ''}")
    return Call(name, tuple(map(named, values)))
