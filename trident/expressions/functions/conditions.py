"""Conditions, nulls and choices of values."""

from trident.expressions.functions.calls import of_field, of_fields
from trident.expressions.tree import ColumnExpression


def coalesce(*values: object) -> ColumnExpression:
    """Return the first value that is not null; the values after it are not computed.

    A text names a field, as in PySpark; a constant text is ``lit("a")``.

    >>> coalesce("a", "b")
    coalesce(col('a'), col('b'))
    """
    return of_fields("coalesce", *values)


def isnull(value: object) -> ColumnExpression:
    """Return whether a value is null.

    >>> isnull("n")
    col('n').isNull()
    """
    return of_field("isNull", value)


def isnan(value: object) -> ColumnExpression:
    """Return whether a float or double is not a number; false for null.

    >>> isnan("x")
    col('x').isNaN()
    """
    return of_field("isNaN", value)


def nullif(a: object, b: object) -> ColumnExpression:
    """Return null if both values are equal, and `a` otherwise.

    >>> nullif("n", 0)
    nullif(col('n'), 0)
    """
    return of_fields("nullif", a, b)


def greatest(*values: object) -> ColumnExpression:
    """Return the greatest value that is not null; NaN is the greatest number.

    A text names a field, as in PySpark; a constant text is ``lit("a")``.

    >>> greatest("a", "b")
    greatest(col('a'), col('b'))
    """
    return of_fields("greatest", *values, least_number=2)


def least(*values: object) -> ColumnExpression:
    """Return the least value that is not null.

    A text names a field, as in PySpark; a constant text is ``lit("a")``.

    >>> least("a", "b")
    least(col('a'), col('b'))
    """
    return of_fields("least", *values, least_number=2)
