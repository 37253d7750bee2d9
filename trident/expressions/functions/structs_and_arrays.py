"""Structs and arrays."""

from trident.base.errors import TopologyError
from trident.expressions.functions.calls import named, of_field
from trident.expressions.tree import Call, ColumnExpression


def array_contains(values: object, value: object) -> ColumnExpression:
    """Return whether an array contains an element; null if it does not but has a null.

    >>> array_contains("tags", "new")
    array_contains(col('tags'), 'new')
    """
    return of_field("array_contains", values, value)


def get(values: object, position: object) -> ColumnExpression:
    """Return the element of an array at `position`, from 0; null outside the array.

    >>> get("words", 0)
    get(col('words'), 0)
    """
    return of_field("get", values, position)


def size(values: object) -> ColumnExpression:
    """Return the number of elements in an array or map.

    >>> size("v")
    size(col('v'))
    """
    return of_field("size", values)


def struct(**fields: object) -> ColumnExpression:
    """Return a struct of these fields, each with its expression.

    >>> from trident import lit; struct(price="price", euro=lit(1))
    struct(col('price'), 1, 'price', 'euro')
    """
    if not fields:
        raise TopologyError("struct: give at least one field, such as struct(price=col('price'))")
    return Call("struct", tuple(map(named, fields.values())), tuple(fields))
