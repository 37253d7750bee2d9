"""Functions and collectors that fill one list, dict or buffer again and again: each tuple keeps what it was given."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from trident import Function, Stream, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")

GROWING = [[1], [1, 2], [1, 2, 3]]


def prefixes(x: int) -> Iterator[list[int]]:
    filled: list[int] = []
    for n in range(1, x + 1):
        filled.append(n)
        yield filled


class Emits(Function):
    outputFields = "made array<long>"

    def execute(self, tuple: Any, collector: Any) -> None:
        for filled in prefixes(tuple.x):
            collector.emit([filled])


class EmitsTo(Function):
    def execute(self, tuple: Any, collector: Any) -> None:
        for filled in prefixes(tuple.x):
            collector.emitTo("one", [filled])


class Aggregates:
    outputType = "array<long>"

    def init(self, batchId: object, collector: Any) -> None: ...

    def aggregate(self, state: object, tuple: Any, collector: Any) -> None:
        for filled in prefixes(tuple.x):
            collector.emit([filled])

    def complete(self, state: object, collector: Any) -> None: ...


class Reduces:
    def init(self, collector: Any) -> None: ...

    def execute(self, state: object, streamIndex: int, tuple: Any, collector: Any) -> None:
        if not streamIndex:
            for filled in prefixes(tuple.x):
                collector.emit([filled])

    def complete(self, state: object, collector: Any) -> None: ...


def updates(state: Any, tuples: Any, collector: Any) -> None:
    for filled in prefixes(tuples[0].x):
        collector.emit([filled])


def stateful(tuple: Any, state: Any) -> Iterator[list[int]]:
    state.setTimer(1, state.now() - timedelta(seconds=1))
    yield from ()


def timed(timer: Any, state: Any) -> Iterator[list[int]]:
    yield from prefixes(3)


def in_pairs(x: int) -> Iterator[tuple[int, dict[str, list[int]]]]:
    held: dict[str, list[int]] = {"a": []}
    for n in range(1, x + 1):
        held["a"].append(n)
        yield n, held


def to_streams(x: int) -> Iterator[tuple[str, tuple[list[int]]]]:
    for filled in prefixes(x):
        yield "one", (filled,)


VERBS: dict[str, Callable[[TridentTopology, Stream], Stream]] = {
    "flatMap": lambda t, s: s.flatMap("x", prefixes, "made array<long>"),
    "each": lambda t, s: s.each("x", prefixes, "made array<long>").project("made"),
    "a dict in a tuple": lambda t, s: s.flatMap("x", in_pairs, "n long, held map<string,array<long>>").map(
        "held", lambda held: held["a"], "made array<long>"
    ),
    "a Function": lambda t, s: s.each("x", Emits(), "made array<long>").project("made"),
    "a split": lambda t, s: s.split("x", to_streams, streams={"one": "made array<long>"})["one"],
    "a split by a Function": lambda t, s: s.split("x", EmitsTo(), streams={"one": "made array<long>"})["one"],
    "an Aggregator": lambda t, s: s.aggregate("x", Aggregates(), "made"),
    "a window": lambda t, s: s.tumblingWindow(1, "x", Aggregates(), "made"),
    "multiReduce": lambda t, s: t.multiReduce([s, s], ["x", "x"], Reduces(), "made array<long>"),
    "an updater": lambda t, s: s.partitionPersist(
        MemoryMapState.opaque(), updates, "made array<long>", valueType="long", name="updated"
    ).newValuesStream(),
    "a timer": lambda t, s: s.statefulEach(
        stateful, "made array<long>", keyFields="x", valueType="long", onTimer=timed, name="timed"
    ).project("made"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_list_that_is_filled_again_has_in_each_tuple_what_it_had_then(verb: str) -> None:
    topology, seen = TridentTopology(), list[Any]()
    stream = topology.newStream("numbers", FixedBatchSpout("x long", [[3]]))
    VERBS[verb](topology, stream).foreachArrow(lambda table, txid, attempt: seen.extend(table["made"].to_pylist()))
    with start_local(topology) as running:
        running.processAllAvailable(timeout=30)
    assert seen == GROWING


def test_a_list_or_a_buffer_that_a_function_returns_may_be_filled_again_by_its_next_call() -> None:
    filled, numbers, raw = list[int](), np.zeros(1), bytearray(1)

    def made(x: int) -> tuple[list[int], Any, bytearray]:
        filled[:], numbers[0], raw[0] = [x], x, x
        return filled, numbers, raw

    topology, seen = TridentTopology(), list[Any]()
    stream = topology.newStream("numbers", FixedBatchSpout("x long", [[1, 2]]))
    stream.map("x", made, "a array<long>, b array<double>, c binary").foreachArrow(
        lambda table, txid, attempt: seen.extend(table.to_pylist())
    )
    with start_local(topology) as running:
        running.processAllAvailable(timeout=30)
    assert [tuple(row.values()) for row in seen] == [([1], [1.0], b"\1"), ([2], [2.0], b"\2")]
