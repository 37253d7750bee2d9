"""Selections of whole tuples (the least, the greatest, the first ones), and checks of their comparators and fields."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as spark

from trident.base.callsite import CallSite
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.short_texts import brief
from trident.base.spark_types import type_ddl
from trident.base.verb_call import Step
from trident.operations.aggregates.base import ORDERED
from trident.operations.callables import bind

Comparator = Callable[[Any, Any], int]
"""A function that compares two values or two TridentTuples.

It returns a number below 0 if the first value is less, 0 if both are equal, above 0 if the first is greater.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Extreme:
    """The least or the greatest tuple; the last of several equal ones.

    With `whole`, the comparator sees whole tuples, otherwise the values of one field.
    """

    greatest: bool
    site: CallSite
    comparator: Comparator | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class First:
    """The first `count` tuples in ascending order of a field, nulls last. `reverse`: in descending order.

    Without a field, they are the first tuples of the batch.
    """

    count: int
    site: CallSite
    reverse: bool = False


Picking = Extreme | First


def check_comparator(comparator: object, compared: str, step: Step) -> None:
    """Refuse a comparator that does not accept two arguments. `compared` names these in the error ("values")."""
    if isinstance(comparator, str) or not callable(comparator):
        field = isinstance(comparator, str) and comparator.isidentifier()
        verb = step.label.rpartition(":")[2]
        hint = f"; to compare a field, write {verb.removesuffix('By')}By({comparator!r})" if field else ""
        raise step.error(
            TopologyError,
            f"{brief(comparator)} is not a comparator; give a callable of two {compared} that returns a number "
            f"below 0, 0 "
            f"or above 0{hint}",
        )
    bind(comparator, 2, f"it is called with two {compared}", step)


def check_ordered(field: spark.StructField, hint: str, step: Step) -> None:
    """Refuse a field whose values cannot be ordered. The error ends with `hint`."""
    if not isinstance(field.dataType, ORDERED):
        raise step.error(
            TypeDeclarationError,
            f"field {field.name!r} is {type_ddl(field.dataType)}, which cannot be ordered{hint}",
        )
