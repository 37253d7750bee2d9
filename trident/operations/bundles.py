"""Bundles: several combiners over the same tuples as one combiner, whose accumulator is a struct.

A bundle can be used like any other CombinerAggregator. Steps that know bundles fold each combiner separately, and
assemble the struct only at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import Row
from pyspark.sql.types import DataType, StructField, StructType

from trident.base.cached_property import cached_property
from trident.operations.aggregators import Aggregation, CombinerAggregator
from trident.operations.checked_aggregators import combine_values, init_value
from trident.operations.tuples import tuple_type


@dataclass(frozen=True, slots=True, eq=False)
class BundleMember:
    """One combiner of a bundle, the fields that it reads, and the type of the value that queries see."""

    inputs: tuple[str, ...]
    aggregation: Aggregation
    presented: DataType

    @property
    def present(self) -> Callable[[Any], Any] | None:
        """The combiner's ``present``; None if it has none."""
        return getattr(self.aggregation.aggregator, "present", None)


@dataclass(frozen=True, eq=False)
class Bundle(CombinerAggregator):
    """Several combiners as one. An accumulator is a tuple with one accumulator of each member, in order."""

    members: tuple[BundleMember, ...]

    spreads: ClassVar[bool] = True
    """True if each member is a separate field of the state, as the user sees it."""

    zeros_leave: ClassVar[bool] = False
    """True if an accumulator of zeros means that a key has no tuples and leaves the state."""

    @property
    def type(self) -> StructType:
        """The type of the accumulators."""
        how = [member.aggregation for member in self.members]
        return StructType([StructField(each.output, each.type) for each in how])

    @property
    def presented(self) -> StructType:
        """The type of the values that queries see."""
        return StructType([StructField(each.aggregation.output, each.presented) for each in self.members])

    @property
    def shown(self) -> DataType | None:
        """The type of the value that queries see; None if it is not declared."""
        return self.presented

    def init(self, tuple: Any) -> Any:
        return self._each(lambda member, own: init_value(member.aggregation.aggregator, own), self._tuples(tuple))

    def combine(self, a: Any, b: Any) -> Any:
        return self._each(lambda member, pair: combined(member.aggregation, *pair), zip(a, b, strict=True))

    def zero(self) -> Any:
        return self._each(lambda member, _: member.aggregation.aggregator.zero(), self.members)

    @property
    def present(self) -> Callable[[Any], Any] | None:
        """The function that returns the values that queries see; None if no member has a ``present``."""
        return self._present if any(member.present is not None for member in self.members) else None

    def _present(self, acc: Any) -> Any:
        return self._row(*self._each(lambda member, value: presented(member.present, value), acc))

    def _each(self, function: Callable[[BundleMember, Any], Any], values: Any) -> tuple[Any, ...]:
        return tuple(function(member, value) for member, value in zip(self.members, values, strict=True))

    def _tuples(self, whole: Any) -> list[Any]:
        """Split a tuple with the fields of all members into one tuple for each member."""
        return [make(whole[name] for name in names) for names, make in self._makers]

    @cached_property
    def _makers(self) -> list[tuple[tuple[str, ...], Callable[[Any], Any]]]:
        return [(member.inputs, tuple_type(member.inputs)) for member in self.members]

    @cached_property
    def _row(self) -> Callable[..., Row]:
        return Row(*(member.aggregation.output for member in self.members))

    def __getstate__(self) -> dict[str, Any]:  # cached values hold classes created at run time, which cannot be pickled
        return {"members": self.members}


def bundle_of(aggregation: object) -> Bundle | None:
    """Return the bundle in a plan's aggregation; None for any other aggregation."""
    aggregator = getattr(aggregation, "aggregator", None)
    return aggregator if isinstance(aggregator, Bundle) else None


def combined(aggregation: Aggregation, a: Any, b: Any) -> Any:
    """Combine two accumulators. If one of them is null, return the other, as the fold of one combiner does.

    Only `a` is checked for null: it may be a missing stored value, and then `b` becomes the value.
    """
    return b if a is None else combine_values(aggregation.aggregator, a, b)


def presented(present: Callable[[Any], Any] | None, value: Any) -> Any:
    """Return the value that queries see for an accumulator; null for null."""
    return value if present is None or value is None else present(value)
