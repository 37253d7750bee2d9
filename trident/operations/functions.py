"""A user's operation and how it is called: read once when the stream is built, compiled once when it starts."""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql.types import StructType

from trident.base.callsite import CallSite


class Call(enum.Enum):
    """How an operation is called."""

    VALUES = "one positional argument a field"
    TUPLE = "one TridentTuple"
    FUNCTION = "Function.execute(tuple, collector)"
    FILTER = "Filter.isKeep(tuple)"
    EXPRESSION = "a SQL expression, as data"
    COLUMN_BUILDER = "a callable from Columns to a Column, called when the plan is compiled"
    COLUMN = "a ready Column"
    UDF = "a ready Spark udf"
    FRAME = "a callable from DataFrame to DataFrame"

    @property
    def native(self) -> bool:
        """Whether only Spark can run it."""
        return self in (Call.EXPRESSION, Call.COLUMN_BUILDER, Call.COLUMN, Call.UDF, Call.FRAME)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """What the user gave (`target`), where it stands, how it is called, and whether one call gives many tuples
    (a generator, an Iterator annotation, flatMap)."""

    target: Any
    site: CallSite
    call: Call
    many: bool = False


class TridentCollector(Protocol):
    """Takes what a Function emits."""

    def emit(self, values: Sequence[Any]) -> None:
        """Emit one tuple: one value for each declared output field."""
        ...


class Function:
    """What appends values to a tuple: subclass it where a plain callable is not enough, and emit 0 to n times.

    Each emission gives one tuple, the input tuple's fields with the emitted values behind; no emission drops the tuple.
    Meaning: ``org.apache.storm.trident.operation.Function``. An optional attribute ``outputType`` (DDL, "string" or
    "string, long") declares the types where the output fields do not. It must be picklable: it runs on Spark's workers.
    An optional ``prepare(context)`` is called before the first tuple of a partition, with an `OperationContext`, and an
    optional ``cleanup()`` after the last, for each batch anew and on a copy: what is costly to make is better kept in
    a module of its own, where a worker finds it again.

    >>> class Split(Function):
    ...     outputType = "string"
    ...     def execute(self, tuple, collector):
    ...         for word in tuple.line.split():
    ...             collector.emit([word])
    """

    def execute(self, tuple: Any, collector: TridentCollector) -> None:
        """Emit what belongs behind `tuple`, a TridentTuple of the input fields."""
        raise NotImplementedError(f"{type(self).__name__} has no execute(tuple, collector)")


class Filter:
    """What decides whether a tuple stays: subclass it where a plain callable is not enough.

    Meaning: ``org.apache.storm.trident.operation.Filter``. It may have ``prepare`` and ``cleanup``, as a `Function`.

    >>> class Long(Filter):
    ...     def isKeep(self, tuple):
    ...         return len(tuple.word) > 7
    """

    def isKeep(self, tuple: Any) -> bool:
        """Whether `tuple`, a TridentTuple of the input fields, stays."""
        raise NotImplementedError(f"{type(self).__name__} has no isKeep(tuple)")


class QueryFunction(Protocol):
    """Reads a state for a batch of tuples (``org.apache.storm.trident.state.QueryFunction``)."""

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        """One result for each tuple, read in one go."""
        ...

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        """Emit what is appended to this tuple; nothing drops it."""
        ...


class StateUpdater(Protocol):
    """Changes a state with the tuples of a batch (``org.apache.storm.trident.state.StateUpdater``).

    Optional attributes: ``keyFields`` and ``valueType`` (DDL) declare what the state holds, ``outputType`` (DDL) the
    types of what is emitted, where the call of `partitionPersist` does not.
    """

    def updateState(self, state: Any, tuples: Sequence[Any], collector: TridentCollector) -> None:
        """Read and write `state` (a MapState, or a Snapshottable where it has no key fields), and emit what belongs
        into `newValuesStream`. `tuples`: all of the batch, TridentTuples of the input fields."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Updating:
    """A state updater as it stands in a plan: ``call(state, tuples, collector)``."""

    call: Callable[[Any, Sequence[Any], TridentCollector], object]
    site: CallSite


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A query function as it stands in a plan. `get` tells MapGet and SnapshotGet, which run over whole columns."""

    function: QueryFunction
    site: CallSite
    get: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """Output fields as a verb was given them: names, and types where they were written."""

    schema: StructType
    typed: tuple[bool, ...]
