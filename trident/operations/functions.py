"""The interfaces of user operations, and the plan forms of operations."""

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql.types import StructType

from trident.base.callsite import CallSite
from trident.operations.update_forms import UpdateForm


class Call(enum.Enum):
    """How an operation is called."""

    VALUES = "one positional argument for each field"
    TUPLE = "one TridentTuple"
    FUNCTION = "Function.execute(tuple, collector)"
    FILTER = "Filter.isKeep(tuple)"
    EXPRESSION = "a SQL expression, as data"
    COLUMN_BUILDER = "a callable from Columns to a Column, called when the plan is compiled"
    COLUMN = "a ready Column"
    UDF = "a ready Spark udf"
    FRAME = "a callable from DataFrame to DataFrame"
    SERIES = "one pandas Series for each field, for many tuples at once"
    PANDAS_FRAME = "one pandas DataFrame of the fields, for many tuples at once"

    @property
    def native(self) -> bool:
        """Return whether only Spark can run an operation that is called in this way."""
        return self in (Call.EXPRESSION, Call.COLUMN_BUILDER, Call.COLUMN, Call.UDF, Call.FRAME)

    @property
    def pandas(self) -> bool:
        """Return whether one call gets many tuples as pandas objects."""
        return self in (Call.SERIES, Call.PANDAS_FRAME)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A user's operation in a plan: the object (`target`), its source location, and how it is called.

    `many` is true if one call gives many tuples (a generator, an Iterator annotation, flatMap). A call with pandas
    objects returns one tuple for each input tuple; with `many`, any number in all.
    """

    target: Any
    site: CallSite
    call: Call
    many: bool = False

    @property
    def words(self) -> frozenset[str]:
        """The words of a SQL expression or a ready Column in lower case, including the fields that it reads."""
        if self.call is Call.EXPRESSION:
            return words_of(self.target.text)
        return words_of(str(self.target)) if self.call is Call.COLUMN else frozenset()


def words_of(text: str) -> frozenset[str]:
    """Return the words of a Spark SQL text, in lower case."""
    return frozenset(re.findall(r"\w+", text.lower()))


class TridentCollector(Protocol):
    """The object with which a user's operation emits tuples."""

    def emit(self, values: Sequence[Any]) -> None:
        """Emit one tuple: one value for each declared output field."""
        ...


class Function:
    """An operation that appends values to a tuple. Subclass it if a plain callable is not enough.

    `execute` may emit any number of times. Each emission is one tuple: the input tuple's fields, then the emitted
    values. Without an emission the tuple is dropped. Meaning: ``org.apache.storm.trident.operation.Function``. An
    optional attribute ``outputType`` (DDL, "string" or "string, long") declares the types if the output fields do not.
    An optional attribute ``outputFields`` declares the output fields if the call leaves them out. A Function must be
    picklable: it runs on Spark's workers. An optional ``prepare(context)`` is called before the first tuple of a
    partition, with an `OperationContext`, and an optional ``cleanup()`` after the last tuple. Both are called for
    every batch, on a copy of the Function; keep costly objects in a module, where a worker can reuse them.

    >>> class Split(Function):
    ...     outputType = "string"
    ...     def execute(self, tuple, collector):
    ...         for word in tuple.line.split():
    ...             collector.emit([word])
    """

    def execute(self, tuple: Any, collector: TridentCollector) -> None:
        """Emit values to append to `tuple`, a TridentTuple of the input fields."""
        raise NotImplementedError(f"{type(self).__name__} has no execute(tuple, collector)")


class Filter:
    """An operation that decides whether a tuple is kept. Subclass it if a plain callable is not enough.

    Meaning: ``org.apache.storm.trident.operation.Filter``. A Filter may have ``prepare`` and ``cleanup``, as a
    `Function` may.

    >>> class Long(Filter):
    ...     def isKeep(self, tuple):
    ...         return len(tuple.word) > 7
    """

    def isKeep(self, tuple: Any) -> bool:
        """Return whether to keep `tuple`, a TridentTuple of the input fields."""
        raise NotImplementedError(f"{type(self).__name__} has no isKeep(tuple)")


class QueryFunction(Protocol):
    """Reads a state for a batch of tuples (``org.apache.storm.trident.state.QueryFunction``)."""

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Return one result for each tuple in `args`, all from one read of the state."""
        ...

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        """Emit values to append to `tuple`, given its `result`. Without an emission the tuple is dropped."""
        ...


class StateUpdater(Protocol):
    """Changes a state with the tuples of a batch (``org.apache.storm.trident.state.StateUpdater``).

    Optional attributes (DDL) complete the call of `partitionPersist`: ``keyFields`` and ``valueType`` declare the
    state's keys and values, ``outputType`` the types of the emitted values.
    """

    def updateState(self, state: Any, tuples: Sequence[Any], collector: TridentCollector) -> None:
        """Read and write `state`, and emit the tuples of `newValuesStream`.

        `state` is a MapState, or a Snapshottable if it has no key fields. `tuples` are all tuples of the batch, as
        TridentTuples of the input fields.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Updating(UpdateForm):
    """A state updater in a plan. A commit turn calls ``call(state, tuples, collector)``."""

    call: Callable[[Any, Sequence[Any], TridentCollector], object]
    site: CallSite


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A query function in a plan. `get` is true for MapGet and SnapshotGet, which are computed over whole columns.

    `joining` is "inner" or "left" for a join with the state. The fields of the value are appended; without a value,
    "inner" drops the tuple and "left" appends nulls.
    """

    function: QueryFunction
    site: CallSite
    get: bool = False
    joining: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """Output fields as the user wrote them.

    `typed` lists the fields with a type; the others initially have the type void.
    """

    schema: StructType
    typed: tuple[bool, ...]
