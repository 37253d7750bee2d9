"""Debug, expr, and the built-in query functions: MapGet, SnapshotGet, TupleCollectionGet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trident.base.checks import check_whole_number
from trident.base.errors import TopologyError
from trident.operations.functions import TridentCollector


@dataclass(frozen=True)
class Expression:
    """A SQL expression as plain data. It can be written, pickled and printed without a session."""

    text: str

    def __repr__(self) -> str:
        return f"expr({self.text!r})"


def expr(text: str) -> Expression:
    """Return an operation that Spark runs natively: an expression in Spark SQL over the stream's fields.

    A generator (``explode(...)``) gives many tuples. Only Spark can infer an expression's type, and it is not used
    while a topology is built, so write the type with the output field. Meaning: ``pyspark.sql.functions.expr``.

    >>> expr("explode(split(line, ' '))")
    expr("explode(split(line, ' '))")
    """
    if not isinstance(text, str) or not text.strip():
        raise TopologyError(f"expr takes a SQL expression as text, such as expr('upper(line)'), not {text!r}")
    return Expression(text)


@dataclass(frozen=True)
class Debug:
    """An operation that writes tuples, at most `limit` of each batch, to the Python log. The stream stays the same.

    Meaning: ``org.apache.storm.trident.operation.builtin.Debug``, which prints on the worker.

    >>> Debug("words")
    Debug(label='words', limit=100)
    """

    label: str | None = None
    limit: int = 100

    def __post_init__(self) -> None:
        if self.label is not None and not isinstance(self.label, str):
            raise TopologyError(f"Debug takes a label as text, not {self.label!r}")
        check_whole_number("Debug: limit", self.limit)


@dataclass(frozen=True)
class MapGet:
    """A query that gives the value of each tuple's key in a state, or null if the state does not have the key.

    Meaning: ``org.apache.storm.trident.operation.builtin.MapGet``, and ``SnapshotGet`` over a state without key fields.
    """

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        return list(state.multiGet(args))

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        collector.emit([result])


@dataclass(frozen=True)
class SnapshotGet:
    """A query that gives the one value of a state without key fields, or null if the state has no value yet.

    Meaning: ``org.apache.storm.trident.operation.builtin.SnapshotGet``.
    """

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        return [state.get()] * len(args)

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        collector.emit([result])


@dataclass(frozen=True)
class TupleCollectionGet:
    """A query that gives every tuple once with each entry of a state: the entry's key fields, then its value.

    Meaning: ``org.apache.storm.trident.operation.builtin.TupleCollectionGet``.
    """

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        return [state.getTuples() for _ in args]

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        for entry in result:
            collector.emit(entry)
