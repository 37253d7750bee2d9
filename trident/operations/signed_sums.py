"""Counts, sums and averages of streams of changes, as sums of signed numbers that engines and stores compute.

They have the same results as `Retracting` over these aggregators, without a Python call for each tuple.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pyspark.sql import Row
from pyspark.sql.types import DataType, DecimalType, DoubleType, LongType, StructField, StructType

from trident.base.names import free_name
from trident.operations.aggregates.average import Average
from trident.operations.aggregates.base import INTEGRAL
from trident.operations.aggregates.count import Count
from trident.operations.aggregates.sum import Sum
from trident.operations.aggregators import Aggregation
from trident.operations.bundles import Bundle, BundleMember, bundle_of
from trident.operations.changes import Signed
from trident.operations.filtered_aggregators import CountWhere

_SUMMED = (Count, CountWhere, Sum, Average)
_OVERALL = "tuples"


@dataclass(frozen=True, eq=False)
class SignedSums(Bundle):
    """Sums of signed numbers. The first is the number of current tuples.

    `shows` has for each user aggregator its output field, the aggregator, and the positions of its sums. `own` is the
    type that queries see, a struct for several aggregators (`several`).
    """

    shows: tuple[tuple[str, Any, tuple[int, ...]], ...]
    several: bool
    own: DataType

    spreads: ClassVar[bool] = False
    zeros_leave: ClassVar[bool] = True

    @property
    def shown(self) -> DataType | None:
        return self.own

    @property
    def present(self) -> Callable[[Any], Any]:
        """The function that returns the values that queries see; None for a key without tuples."""
        return self._shown

    def _shown(self, acc: Any) -> Any:
        if acc[0] <= 0:
            return None
        values = [_value(how, [acc[at] for at in positions]) for _, how, positions in self.shows]
        return Row(*(name for name, *_ in self.shows))(*values) if self.several else values[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "shows": self.shows, "several": self.several, "own": self.own}


@dataclass(frozen=True, slots=True)
class SignedPlan:
    """An aggregate as sums of signed numbers: the step that computes the numbers, and the aggregation over them."""

    function: Signed
    inputs: tuple[str, ...]
    """The fields that `function` reads, after the kind of the change."""
    outputs: StructType
    aggregation: Aggregation


def signed_plan(how: Any, inputs: tuple[str, ...], fields: StructType, shown: DataType | None) -> SignedPlan | None:
    """Return an aggregate of changes as sums of signed numbers; None if sums are not enough for an aggregator.

    `inputs` are the input fields of a single aggregator, `fields` those of the stream.
    """
    bundle = bundle_of(how)
    members = [(inputs, how)] if bundle is None else [(member.inputs, member.aggregation) for member in bundle.members]
    if shown is None or any(type(each.aggregator) not in _SUMMED for _, each in members):
        return None
    wanted, read, outputs = list[Literal["sum", "count"]](), list[str](), list[StructField]()
    shows, taken = list[tuple[str, Any, tuple[int, ...]]](), [*fields.names, _OVERALL]

    def add(sum_or_count: Literal["sum", "count"], field: str, output: str) -> int:
        wanted.append(sum_or_count)
        read.append(field)
        name = free_name(f"{output}_{sum_or_count}", taken)
        taken.append(name)
        kind = LongType() if sum_or_count == "count" else _signed_type(fields[field].dataType)
        outputs.append(StructField(name, kind))
        return len(outputs)  # the number of tuples comes first

    for names, each in members:
        positions: tuple[int, ...] = (0,)  # the input of Count
        if isinstance(each.aggregator, Sum | Average):
            positions = (add("sum", names[0], each.output),)
        if isinstance(each.aggregator, Average):
            positions = (*positions, add("count", names[0], each.output))
        shows.append((each.output, each.aggregator, positions))
    overall = free_name(_OVERALL, fields.names)
    signed = StructType([StructField(overall, LongType()), *outputs])
    sums = [_summed(field, how) for field in signed.fields]
    aggregator = SignedSums(tuple(sums), tuple(shows), bundle is not None, shown)
    return SignedPlan(
        Signed(tuple(wanted)), tuple(read), signed, Aggregation(aggregator, how.site, how.output, aggregator.type)
    )


def _summed(field: StructField, how: Aggregation) -> BundleMember:
    total = Sum()
    kind = total.type_of(StructType([field]))
    return BundleMember((field.name,), Aggregation(total, how.site, field.name, kind, total.native), kind)


def _signed_type(kind: DataType) -> DataType:
    """Return the type of a signed value."""
    if isinstance(kind, DecimalType):
        return kind
    return LongType() if isinstance(kind, INTEGRAL) else DoubleType()


def _value(how: Any, sums: list[Any]) -> Any:
    return how.present(tuple(sums)) if isinstance(how, Average) else sums[0]
