"""A function in a `map` of rows raises StopIteration: the batch fails, no spout takes it for the end of the rows."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from trident.base.attempt import TransactionAttempt
from trident.base.errors import UserFunctionError
from trident.spouts import (
    BatchSpout,
    FixedBatchSpout,
    IterableSpout,
    OpaquePartitionedSpout,
    PartitionedSpout,
    PollingSpout,
)
from trident.testing import TestSource
from trident_spouts.adapters.adapter_choice import as_spout

STOPPED = (
    r"(ends_at_b|<lambda>) \(test_stop_iteration.py:\d+\) raised StopIteration, which ends a map before its last row"
)


def ends_at_b(word: str) -> str:
    return word if word != "b" else next(iter(()))


def rows() -> Iterator[str]:
    return map(ends_at_b, ["a", "b", "c"])


class Batches(BatchSpout):
    outputFields = "word string"

    def emitBatch(self, batchId: int) -> Any:
        return rows()


class Opaque(OpaquePartitionedSpout):
    outputFields = "word string"

    def getPartitions(self) -> list[str]:
        return ["p"]

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        return rows(), 3


class OpaqueNames(Opaque):
    def getPartitions(self) -> Any:
        return rows()


class Logs(PartitionedSpout):
    outputFields = "word string"

    def getPartitions(self) -> list[str]:
        return ["p"]

    def emitPartitionBatchNew(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        return rows(), 3

    def emitPartitionBatch(self, attempt: Any, partition: str, metadata: Any) -> Any:
        return rows()


SPOUTS: dict[str, Callable[[], Any]] = {
    "BatchSpout": Batches,
    "OpaquePartitionedSpout": Opaque,
    "names of partitions": OpaqueNames,
    "PartitionedSpout": Logs,
    "PollingSpout": lambda: PollingSpout("word string", {"p": lambda position, limit: (rows(), 3)}),
    "IterableSpout": lambda: IterableSpout("word string", rows),
}


@pytest.mark.parametrize("case", SPOUTS)
def test_a_plan_fails(case: str) -> None:
    stopped = pytest.raises(UserFunctionError, match=f"its iterator raised RuntimeError: {STOPPED}")
    with closing(as_spout(SPOUTS[case]()).open()) as executor, stopped:
        position = None
        for txid in range(1, 4):  # the rows before the failing one may be a batch
            position = executor.plan(TransactionAttempt(txid, 0, 1), position, 0.0)


def test_a_replay_fails() -> None:
    with closing(as_spout(Logs()).open()) as executor, pytest.raises(UserFunctionError, match=STOPPED):
        executor.emit(TransactionAttempt(1, 1, 1), {"positions": {"p": 3}, "batch": ["p"]})


@pytest.mark.parametrize("make", [FixedBatchSpout, TestSource])
@pytest.mark.parametrize("batches", [lambda: [rows()], lambda: map(lambda word: [ends_at_b(word)], "abc")])
def test_batches_are_refused(make: Any, batches: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=STOPPED):
        make("word string", batches())


def test_an_error_of_a_generator_names_the_place() -> None:
    class Broken(Batches):
        def emitBatch(self, batchId: int) -> Any:
            return (1 // 0 for _ in "a")

    named = pytest.raises(UserFunctionError, match="Broken, batch 1: its iterator raised ZeroDivisionError")
    with closing(as_spout(Broken()).open()) as executor, named:
        executor.plan(TransactionAttempt(1, 0, 1), None, 0.0)
