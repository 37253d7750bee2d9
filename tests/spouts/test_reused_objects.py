"""Spouts that change the metadata that they were given, or fill one row again and again: nothing is lost or doubled."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from trident import CollectList, Count, TridentTopology
from trident.errors import TridentError
from trident.spouts import (
    BatchCoordinator,
    BatchSpout,
    Emitter,
    FeederBatchSpout,
    FixedBatchSpout,
    IterableSpout,
    OpaquePartitionedSpout,
    PartitionedSpout,
    PollingSpout,
    RichSpout,
    SparkSpout,
    TransactionSpout,
    TridentSpout,
)
from trident.state import MemoryMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")

NUMBERS = list(range(1, 11))


# --- metadata that is changed in place ------------------------------------------------------------------------------


def moved(position: Any) -> tuple[list[int], Any]:
    """Return the next two numbers, and the very position that was given, moved behind them."""
    position = position or {"at": 0}
    rows = NUMBERS[position["at"] :][:2]
    position["at"] += len(rows)
    return rows, position


class Opaque(OpaquePartitionedSpout):
    outputFields = "n long"

    def getPartitions(self) -> list[str]:
        return ["p"]

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        return moved(lastMetadata)


class Transactional(PartitionedSpout):
    outputFields = "n long"

    def getPartitions(self) -> list[str]:
        return ["p"]

    def emitPartitionBatchNew(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        return moved(lastMetadata)

    def emitPartitionBatch(self, attempt: Any, partition: str, metadata: Any) -> Any:
        metadata["at"] -= 2
        return moved(metadata)[0]


class Checkpoints(TransactionSpout):
    outputFields = "n long"
    maxRows = 2

    def initState(self, checkpoint: Any) -> None:
        self.position = checkpoint or {"at": 0}

    rollback = initState

    def nextTuple(self, collector: Any) -> None:
        if self.position["at"] < len(NUMBERS):
            collector.emit(NUMBERS[self.position["at"]])
            self.position["at"] += 1

    def finishBatch(self, txid: int) -> None:
        pass

    def commit(self, txid: int, metadata: Any) -> Any:
        return self.position


class Coordinated(TridentSpout):
    outputFields = "n long"

    def getCoordinator(self) -> BatchCoordinator:
        return _Coordinator()

    def getEmitter(self) -> Emitter:
        return _Emitter()


def next_range(previous: Any) -> Any:
    """Return the range after `previous`, in the very dict that was given."""
    metadata = previous or {"at": -2}
    metadata["at"] += 2
    return metadata if metadata["at"] < len(NUMBERS) else None


def ranges() -> SparkSpout:
    return SparkSpout(lambda spark, at: None, next_range, "n long", readLocal=lambda metadata: moved(metadata)[0])


class _Coordinator(BatchCoordinator):
    def isReady(self, txid: int) -> bool:
        return txid <= len(NUMBERS) / 2

    def initializeTransaction(self, txid: int, prevMetadata: Any, currMetadata: Any) -> Any:
        metadata = prevMetadata or {"at": -2}
        metadata["at"] += 2
        return metadata


class _Emitter(Emitter):
    def emitBatch(self, attempt: Any, metadata: Any) -> Any:
        rows, _ = moved(metadata)
        return rows


@pytest.mark.parametrize(
    "make",
    [
        lambda: PollingSpout("n long", {"p": lambda position, limit: moved(position)}),
        Opaque,
        Transactional,
        Checkpoints,
        Coordinated,
        ranges,
    ],
    ids=["polling", "opaque", "transactional", "checkpoints", "coordinated", "spark"],
)
def test_a_failed_batch_begins_where_the_log_says(make: Callable[[], Any]) -> None:
    """Each of three batches fails twice, so that the spout is asked again with the same metadata."""
    left = {3: 2, 6: 2, 9: 2}

    def faulty(n: int) -> int:
        if left.get(n, 0):
            left[n] -= 1
            raise ValueError("twice")
        return n

    topology = TridentTopology()
    numbers = topology.newStream("s", make()).each("n", faulty, "m long")
    numbers.groupBy("m").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with start_local(topology, name="t", maxAttempts=10) as running:
        running.processAllAvailable(timeout=60)
        assert dict(running.state("counts").items()) == dict.fromkeys(NUMBERS, 1)
    assert not any(left.values())


def test_rows_with_the_position_that_was_given_are_refused() -> None:
    """The commonest slip with a paged source: ">=" where ">" is meant."""

    def from_there_on(position: int | None, limit: int) -> tuple[list[int], int | None]:
        found = [n for n in NUMBERS if n >= (position or 0)][:2]
        return found, found[-1] if found else position

    topology = TridentTopology()
    spout = PollingSpout("n long", {"api": from_there_on})
    topology.newStream("s", spout).persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    with (
        pytest.raises(TridentError, match=r"'api': from_there_on \(test_reused_objects.py:\d+\) returned rows with"),
        start_local(topology, name="t", maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=60)


# --- rows that are filled again -------------------------------------------------------------------------------------


class OneRow:
    """Six rows in one list, which is filled again for each."""

    def __init__(self) -> None:
        self.at, self.row = 0, [0, [""]]

    def next(self) -> list[Any] | None:
        if self.at == 6:
            return None
        self.row[0], self.row[1][0] = self.at, "abcdef"[self.at]  # type: ignore[index]
        self.at += 1
        return self.row

    def __iter__(self) -> Iterator[list[Any]]:
        while (row := self.next()) is not None:
            yield row


class Queue(RichSpout):
    outputFields = "n long, tags array<string>"

    def open(self) -> None:
        self.rows = OneRow()

    def nextTuple(self, collector: Any) -> None:
        row = self.rows.next()
        if row is not None:
            collector.emit(row, messageId=row[0])

    def ack(self, messageId: Any) -> None:
        pass

    def fail(self, messageId: Any, reason: Any = None) -> None:
        pass


class Generated(BatchSpout):
    outputFields = "n long, tags array<string>"

    def emitBatch(self, batchId: int) -> Any:
        return iter(OneRow()) if batchId == 1 else None


class Read(TransactionSpout):
    outputFields = "n long, tags array<string>"

    def initState(self, checkpoint: Any) -> None:
        self.rows = OneRow()

    rollback = initState

    def nextTuple(self, collector: Any) -> None:
        if (row := self.rows.next()) is not None:
            collector.emit(row)

    def finishBatch(self, txid: int) -> None:
        pass

    def commit(self, txid: int, metadata: Any) -> Any:
        return self.rows.at


@pytest.mark.parametrize(
    "make",
    [Queue, Generated, Read, lambda: IterableSpout("n long, tags array<string>", OneRow)],
    ids=["queue", "generator", "checkpoints", "iterable"],
)
def test_a_row_is_what_it_was_when_it_was_emitted(make: Callable[[], Any]) -> None:
    topology = TridentTopology()
    rows = topology.newStream("s", make())
    tags = rows.flatMap("tags", lambda tags: list(tags), "tag string")
    tags.persistentAggregate(MemoryMapState.opaque(), "tag", CollectList(), "tags", name="tags")
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=60)
        assert running.state("tags").value == [*"abcdef"]


def filled_again() -> Iterator[tuple[Any, ...]]:
    """Three new tuples, whose buffer, list and array are filled again for each: `recv_into` fills a buffer so."""
    buffer, tags, array = bytearray(1), [""], np.zeros(1, np.int64)
    for n, letter in enumerate("abc"):
        buffer[0], tags[0], array[0] = ord(letter), letter, n
        yield n, memoryview(buffer), buffer, (tags,), array


FILLED = "n long, view binary, buffer binary, tags struct<of: array<string>>, array array<long>"


class QueueOfBuffers(Queue):
    outputFields = FILLED

    def open(self) -> None:
        self.tuples = filled_again()

    def nextTuple(self, collector: Any) -> None:
        for row in self.tuples:
            collector.emit(row, messageId=row[0])


class GeneratedBuffers(BatchSpout):
    outputFields = FILLED

    def emitBatch(self, batchId: int) -> Any:
        return filled_again() if batchId == 1 else None


def polled(position: Any, limit: int) -> tuple[Any, int]:
    return ([], 1) if position else (filled_again(), 1)


@pytest.mark.parametrize(
    "make",
    [
        QueueOfBuffers,
        GeneratedBuffers,
        lambda: PollingSpout(FILLED, {"p": polled}),
        lambda: IterableSpout(FILLED, filled_again),
        lambda: FixedBatchSpout(FILLED, [filled_again()]),
    ],
    ids=["queue", "generator", "polling", "iterable", "fixed"],
)
def test_what_a_tuple_holds_is_what_it_was_when_the_tuple_was_emitted(make: Callable[[], Any]) -> None:
    topology = TridentTopology()
    seen: list[Any] = []
    rows = topology.newStream("s", make())
    rows.foreachArrow(lambda table, txid, attempt: seen.extend(table.to_pylist()), name="seen")
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=60)
    letters = [letter.encode() for letter in "abc"]
    assert [(row["view"], row["buffer"]) for row in seen] == list(zip(letters, letters, strict=True))
    assert [row["tags"] for row in seen] == [{"of": [letter]} for letter in "abc"]
    assert [row["array"] for row in seen] == [[0], [1], [2]]


def frames() -> Iterator[pd.DataFrame]:
    """Three chunks in one frame, whose numbers are written over for each."""
    numbers = np.zeros(2, np.int64)
    frame = pd.DataFrame({"n": numbers}, copy=False)
    for n in (1, 2, 3):
        numbers[:] = n
        yield frame


def numbers_of(spout: Any) -> Any:
    topology = TridentTopology()
    numbers = topology.newStream("s", spout)
    numbers.persistentAggregate(MemoryMapState.opaque(), "n", CollectList(), "numbers", name="numbers")
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=60)
        return running.state("numbers").value


@pytest.mark.parametrize("batchSize", [2, 3])
def test_a_chunk_is_what_it_was_when_the_iterator_gave_it(batchSize: int) -> None:
    assert numbers_of(IterableSpout("n long", frames, batchSize=batchSize)) == [1, 1, 2, 2, 3, 3]


def test_a_batch_is_what_it_was_when_it_was_fed() -> None:
    spout = FeederBatchSpout("n long")
    for frame in frames():
        spout.feed(frame)
    assert numbers_of(spout) == [1, 1, 2, 2, 3, 3]
