"""Aggregators: how tuples of a batch, and batches of a state, become one value."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pyspark.sql.types import DataType

from trident.base.callsite import CallSite


class CombinerAggregator(Protocol):
    """Folds tuples in any order and any grouping (``org.apache.storm.trident.operation.CombinerAggregator``).

    ``combine`` must be associative, and commutative as far as the order of tuples is not yours; ``zero()`` is its
    neutral value. An optional ``present(acc)`` is what queries see of a stored value, and its annotation tells their
    type. An optional attribute ``outputType`` (DDL) declares the accumulator's type where the output field does not.
    A value is nothing special to it: what ``init`` gets is a tuple of the input fields, also where that is one field.

    >>> class Longest:
    ...     outputType = "string"
    ...
    ...     def init(self, tuple):
    ...         return tuple.word  # or tuple["word"], tuple[0]
    ...
    ...     def combine(self, a, b):
    ...         return max(a, b, key=len)
    ...
    ...     def zero(self):
    ...         return ""
    >>> from trident import TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["ox", "cow", "ewe"]]))
    >>> words.aggregate("word", Longest(), "longest").take(1)
    [Row(longest='cow')]
    """

    def init(self, tuple: Any) -> Any:
        """The accumulator of one tuple; `tuple` is a TridentTuple of the input fields."""
        ...

    def combine(self, a: Any, b: Any) -> Any:
        """Two accumulators as one."""
        ...

    def zero(self) -> Any:
        """The accumulator of no tuple."""
        ...


class ReducerAggregator(Protocol):
    """Folds tuples one after the other onto a value (``org.apache.storm.trident.operation.ReducerAggregator``).

    Two folded values cannot meet, so every tuple comes to where the value is: prefer a CombinerAggregator where there
    is one. An optional ``present(acc)`` is what queries see, an optional attribute ``outputType`` (DDL) declares the
    value's type where the output field does not.
    """

    def init(self) -> Any:
        """The value before the first tuple."""
        ...

    def reduce(self, curr: Any, tuple: Any) -> Any:
        """The value after one more tuple, a TridentTuple of the input fields."""
        ...


Native = Literal["count", "sum", "min", "max"]


@dataclass(frozen=True, slots=True, eq=False)
class Aggregation:
    """An aggregator as it stands in a plan: the output field, its type, and its name where Spark knows it too."""

    aggregator: CombinerAggregator
    site: CallSite
    output: str
    type: DataType
    native: Native | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """A reducer as it stands in a plan: the output field and its type."""

    aggregator: ReducerAggregator
    site: CallSite
    output: str
    type: DataType
