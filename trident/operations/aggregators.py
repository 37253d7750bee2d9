"""The interfaces that user aggregators implement, and the plan forms of aggregators."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pyspark.sql.types import DataType, StructType

from trident.base.callsite import CallSite
from trident.operations.functions import Call, TridentCollector


class CombinerAggregator(Protocol):
    """Folds tuples in any order and grouping (``org.apache.storm.trident.operation.CombinerAggregator``).

    ``combine`` must be associative, and commutative unless you control the order of the tuples; ``zero()`` is its
    neutral element. An optional ``present(acc)`` turns an accumulator into the value that `aggregate` emits and that
    queries of a state see; its return annotation declares the type of that value. An optional attribute ``outputType``
    (DDL) declares the accumulator's type if the output field does not. ``init`` gets a tuple of the input fields, even
    if there is only one field.

    A combiner may also work on whole columns, which is much faster if NumPy or Arrow can do the work. An optional
    ``initColumn(columns, groups, count)`` returns the accumulators of many groups in one call: `columns` is a
    pyarrow.RecordBatch of the input fields, `groups` a NumPy array of int64 with the number of each row's group, from
    0 to `count` - 1, and every group has a row. It returns a column of `count` accumulators: a pyarrow.Array, a NumPy
    array, a pandas Series or a list. An optional ``combineColumn(a, b)`` takes two pyarrow.Arrays of accumulators
    without nulls and returns the combinations row by row. Both must give the same results as ``init`` and ``combine``.
    For columns that it cannot compute, a method may return NotImplemented: then the accumulators are created or
    combined one by one.

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
        """Return the accumulator of one tuple, a TridentTuple of the input fields."""
        ...

    def combine(self, a: Any, b: Any) -> Any:
        """Return the accumulator of all tuples of `a` and `b`."""
        ...

    def zero(self) -> Any:
        """Return the accumulator of no tuples."""
        ...


class ReducerAggregator(Protocol):
    """Folds tuples one by one into a value (``org.apache.storm.trident.operation.ReducerAggregator``).

    Two folded values cannot be combined, so all tuples of a group first go to one partition. Prefer a
    CombinerAggregator if one can do the work. An optional ``present(acc)`` turns the folded value into the one that
    `aggregate` emits and that queries of a state see. An optional attribute ``outputType`` (DDL) declares the type of
    the folded value if the output field does not.

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
        """Return the value before the first tuple."""
        ...

    def reduce(self, curr: Any, tuple: Any) -> Any:
        """Return `curr` folded with `tuple`, a TridentTuple of the input fields."""
        ...


class Aggregator(Protocol):
    """Sees all tuples of a group and emits any number of tuples (``org.apache.storm.trident.operation.Aggregator``).

    ``init`` is called, then ``aggregate`` for each tuple, then ``complete``. These calls are made for every group of a
    batch; without groups for the whole batch, even an empty one; and in `partitionAggregate` for every partition. Each
    of the three may emit tuples, with one value for each declared output field. ``init`` returns the group's own state,
    a list or an object that the other calls change in place. An optional attribute ``outputType`` (DDL, "string" or
    "string, long") declares the types if the output fields do not. All tuples of a group first go to one partition.

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
        """Return a group's state before its first tuple. `batchId` is the batch's txid, or None in a DRPC request."""
        ...

    def aggregate(self, state: Any, tuple: Any, collector: TridentCollector) -> None:
        """Add one tuple, a TridentTuple of the input fields, to the state."""
        ...

    def complete(self, state: Any, collector: TridentCollector) -> None:
        """End the group: it has no further tuples in this batch."""
        ...


Native = Literal["count", "sum", "min", "max", "average"]


@dataclass(frozen=True, slots=True, eq=False)
class Aggregation:
    """A combiner in a plan: the name of its output field, its accumulator type, and Spark's name for it, if any."""

    aggregator: CombinerAggregator
    site: CallSite
    output: str
    type: DataType
    native: Native | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """A reducer in a plan: the name of its output field, and the type of its folded value."""

    aggregator: ReducerAggregator
    site: CallSite
    output: str
    type: DataType


@dataclass(frozen=True, slots=True, eq=False)
class Emitting:
    """An Aggregator in a plan: the fields of the tuples that it emits."""

    aggregator: Aggregator
    site: CallSite
    outputs: StructType


@dataclass(frozen=True, slots=True, eq=False)
class PandasAggregation:
    """An aggregator in a plan that is a function over pandas objects.

    One call gets all tuples of a group, and returns one value.
    """

    aggregator: Callable[..., Any]
    site: CallSite
    output: str
    type: DataType
    call: Call
    """How the function is called: with one Series for each field, or with one DataFrame."""


AnyAggregation = Aggregation | Reduction | Emitting | PandasAggregation
"""An aggregator of any kind, in a plan."""
