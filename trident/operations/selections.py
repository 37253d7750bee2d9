"""Selections of whole tuples: the least, the greatest, the first ones. And checks of their comparators and fields."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as spark

from trident.base.callsite import CallSite
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.step import Step
from trident.base.text import brief
from trident.base.types import type_ddl
from trident.operations.builtin_aggregators import ORDERED
from trident.operations.callables import bind

Comparator = Callable[[Any, Any], int]
"""Compares two values or two TridentTuples: below 0, 0 or above 0 if the first is less, equal or greater."""


@dataclass(frozen=True, slots=True, eq=False)
class Extreme:
    """The least or the greatest tuple, the last one of equal ones. `whole`: the comparator sees tuples."""

    greatest: bool
    site: CallSite
    comparator: Comparator | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class First:
    """The first `count` tuples by a field, ascending, nulls last. Without a field: the first ones that come."""

    count: int
    site: CallSite
    reverse: bool = False


Picking = Extreme | First


def check_comparator(comparator: object, compared: str, step: Step) -> None:
    """Refuse an object that cannot be called with two of what is `compared` ("values", "TridentTuples")."""
    if isinstance(comparator, str) or not callable(comparator):
        field = isinstance(comparator, str) and comparator.isidentifier()
        verb = step.label.rpartition(":")[2]
        hint = f"; to go by a field write {verb.removesuffix('By')}By({comparator!r})" if field else ""
        raise step.error(
            TopologyError,
            f"{brief(comparator)} is no comparator; give a callable of two {compared} that returns a number below 0, 0 "
            f"or above 0{hint}",
        )
    bind(comparator, 2, f"it is called with two {compared}", step)


def check_ordered(field: spark.StructField, hint: str, step: Step) -> None:
    """Refuse a field whose values have no order."""
    if not isinstance(field.dataType, ORDERED):
        raise step.error(
            TypeDeclarationError,
            f"field {field.name!r} is {type_ddl(field.dataType)}, which has no order{hint}",
        )
