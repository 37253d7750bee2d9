"""Aggregators: how tuples of a batch, and batches of a state, become one value."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pyspark.sql.types import DataType, StructType

from trident.base.callsite import CallSite
from trident.operations.functions import TridentCollector


class CombinerAggregator(Protocol):
    """Folds tuples in any order and any grouping (``org.apache.storm.trident.operation.CombinerAggregator``).

    ``combine`` must be associative, and commutative as far as the order of tuples is not yours; ``zero()`` is its
    neutral value. An optional ``present(acc)`` is what an `aggregate` gives and what queries see of a stored value; its
    annotation tells their type. An optional attribute ``outputType`` (DDL) declares the accumulator's type where the
    output field does not.
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

    Two folded values cannot meet, so every tuple of a group comes to one place first: prefer a CombinerAggregator where
    there is one. An optional ``present(acc)`` is what an `aggregate` gives and what queries see, an optional attribute
    ``outputType`` (DDL) declares the value's type where the output field does not.

    >>> class Path:
    ...     outputType = "string"
    ...
    ...     def init(self):
    ...         return ""
    ...
    ...     def reduce(self, curr, tuple):
    ...         return f"{curr}/{tuple.name}"
    >>> from trident import TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> names = TridentTopology().newStream("names", FixedBatchSpout("name string", [["home", "me"]]))
    >>> names.aggregate("name", Path(), "path").take(1)
    [Row(path='/home/me')]
    """

    def init(self) -> Any:
        """The value before the first tuple."""
        ...

    def reduce(self, curr: Any, tuple: Any) -> Any:
        """The value after one more tuple, a TridentTuple of the input fields."""
        ...


class Aggregator(Protocol):
    """Sees the tuples of a group and emits any number of tuples (``org.apache.storm.trident.operation.Aggregator``).

    Once for every group of a batch, for the whole batch where there are no groups (also for an empty one), for every
    partition in `partitionAggregate`: ``init``, then ``aggregate`` for each tuple, then ``complete``. All of them may
    emit: one value for each declared output field. What ``init`` returns is the group's own; change it in place, a list
    or an object. An optional attribute ``outputType`` (DDL, "string" or "string, long") declares the types where the
    output fields do not. Every tuple of a group comes to one place first.

    >>> class CountAsAggregator:
    ...     outputType = "long"
    ...
    ...     def init(self, batchId, collector):
    ...         return [0]
    ...
    ...     def aggregate(self, state, tuple, collector):
    ...         state[0] += 1
    ...
    ...     def complete(self, state, collector):
    ...         collector.emit([state[0]])
    >>> from trident import TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["ox", "cow", "ox"]]))
    >>> words.aggregate(CountAsAggregator(), "n").take(1)
    [Row(n=3)]
    """

    def init(self, batchId: int | None, collector: TridentCollector) -> Any:
        """The state of a group before its first tuple. `batchId` is the batch's txid, None for a DRPC request."""
        ...

    def aggregate(self, state: Any, tuple: Any, collector: TridentCollector) -> None:
        """Take in one tuple, a TridentTuple of the input fields."""
        ...

    def complete(self, state: Any, collector: TridentCollector) -> None:
        """There are no more tuples in this group of this batch."""
        ...


Native = Literal["count", "sum", "min", "max", "average"]


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


@dataclass(frozen=True, slots=True, eq=False)
class Emitting:
    """An Aggregator as it stands in a plan: the fields that it emits."""

    aggregator: Aggregator
    site: CallSite
    outputs: StructType


AnyAggregation = Aggregation | Reduction | Emitting
"""An aggregator of any kind, as it stands in a plan."""
