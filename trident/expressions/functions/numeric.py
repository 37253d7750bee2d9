"""Numbers."""

from trident.base.errors import TopologyError
from trident.base.short_texts import brief
from trident.expressions.functions.calls import of_field, of_fields
from trident.expressions.tree import ColumnExpression


def abs(x: object) -> ColumnExpression:
    """Return the absolute value of a number.

    The least number of an integer type has no absolute value of that type, which is an error.

    >>> abs("x")
    abs(col('x'))
    """
    return of_field("abs", x)


def ceil(x: object) -> ColumnExpression:
    """Return the least whole number that is not below `x`: a long, or for a decimal a decimal.

    >>> ceil("x")
    ceil(col('x'))
    """
    return of_field("ceil", x)


def floor(x: object) -> ColumnExpression:
    """Return the greatest whole number that is not above `x`: a long, or for a decimal a decimal.

    >>> floor("x")
    floor(col('x'))
    """
    return of_field("floor", x)


def pmod(a: object, b: object) -> ColumnExpression:
    """Return the non-negative remainder of a division of whole numbers.

    >>> pmod("a", 3)
    pmod(col('a'), 3)
    """
    return of_fields("pmod", a, b)


def round(x: object, scale: int = 0) -> ColumnExpression:  # noqa: A001  # the name that it has in PySpark
    """Return a number with `scale` digits after the point, rounded half up. A negative `scale` rounds before the point.

    >>> round("price", 2)
    round(col('price'), 2)
    """
    if not isinstance(scale, int) or isinstance(scale, bool) or not -38 <= scale <= 38:
        raise TopologyError(f"round: scale={brief(scale)}: expected an int from -38 to 38")
    return of_field("round", x, params=(scale,))


def sqrt(x: object) -> ColumnExpression:
    """Return the square root of a number, as a double; NaN for a negative number.

    >>> sqrt("x")
    sqrt(col('x'))
    """
    return of_field("sqrt", x)
