"""What picks whole tuples out of many: the least, the greatest, the first ones; read and checked."""

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
"""Compares two values, or two TridentTuples: below 0, 0 or above 0, as the first is less, equal or greater."""


@dataclass(frozen=True, slots=True, eq=False)
class Extreme:
    """The least or the greatest tuple; the last one of those that are equal. `whole`: the comparator sees tuples."""

    greatest: bool
    site: CallSite
    comparator: Comparator | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class First:
    """The first `count` tuples by a field, the least ones first, nulls last; without a field those that come first."""

    count: int
    site: CallSite
    reverse: bool = False


Picking = Extreme | First


def check_comparator(comparator: object, given: str, step: Step) -> None:
    """Refuse what cannot compare."""
    if isinstance(comparator, str) or not callable(comparator):
        field = isinstance(comparator, str) and comparator.isidentifier()
        verb = step.label.rpartition(":")[2]
        hint = f"; to go by a field write {verb.removesuffix('By')}By({comparator!r})" if field else ""
        raise step.error(
            TopologyError,
            f"{brief(comparator)} compares nothing; give a callable of two {given}, which gives a number below 0, 0 or "
            f"above 0{hint}",
        )
    bind(comparator, 2, f"it is called with two {given}", step)


def check_ordered(field: spark.StructField, hint: str, step: Step) -> None:
    """Refuse a field whose values have no order of their own."""
    if not isinstance(field.dataType, ORDERED):
        raise step.error(
            TypeDeclarationError,
            f"field {field.name!r} is {type_ddl(field.dataType)}, which has no order{hint}",
        )
