"""The built-in query functions: MapGet, SnapshotGet, TupleCollectionGet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trident.operations.functions import TridentCollector


@dataclass(frozen=True)
class MapGet:
    """A query that returns the value of each tuple's key in a state, or null if the state does not have the key.

    Meaning: ``org.apache.storm.trident.operation.builtin.MapGet``, and ``SnapshotGet`` over a state without key fields.
    """

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        return list(state.multiGet(args))

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        collector.emit([result])


@dataclass(frozen=True)
class SnapshotGet:
    """A query that returns the one value of a state without key fields, or null if the state has no value yet.

    Meaning: ``org.apache.storm.trident.operation.builtin.SnapshotGet``.
    """

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        return [state.get()] * len(args)

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        collector.emit([result])


@dataclass(frozen=True)
class TupleCollectionGet:
    """A query that emits every tuple once for each entry of a state: with the entry's key fields, then its value.

    Meaning: ``org.apache.storm.trident.operation.builtin.TupleCollectionGet``.
    """

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        return [state.getTuples() for _ in args]

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        for entry in result:
            collector.emit(entry)
