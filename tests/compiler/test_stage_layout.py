"""Layouts of stages: what runs as one function, what is read twice, what is never read."""

import threading
from collections.abc import Iterable
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from tests.compiler.functions import Longest, even, half, lengths, split
from tests.compiler.stage_runner import STATE, stream
from trident import Count, Debug, FilterNull, Sum, TridentTopology, expr
from trident.base.errors import UserFunctionError
from trident.compiler.partition_functions import Batches
from trident.compiler.spark.lowering import Lowering
from trident.compiler.spark.pending_function import PendingFunction
from trident.compiler.spark.sessions import Profile
from trident.compiler.spark.stage_inputs import StageInput
from trident.compiler.spark.worker_aggregates import PartialFold
from trident.compiler.stage_layout import StageLayout, check_picklable, layout, stage_ends
from trident.compiler.stages import cut

FIELDS = "line string, n int, unused string"


def laid(topology: TridentTopology) -> StageLayout:
    stage = cut(topology).groups[0].stages[0]
    return layout(stage_ends(stage), stage.inputs, stage.debugs)


def verbs(works: Iterable[Any]) -> list[str]:
    return [work.verb for work in works]


def test_adjacent_python_operations_are_one_function() -> None:
    topology = TridentTopology()
    start = stream(topology, FIELDS, [])
    last = (
        start.each("line", FilterNull())
        .each("line", split, "word string")
        .project("word", "n")
        .each("word", FilterNull())
        .filter("n", even)
        .each("word", lengths, "length int, first string")
    )
    counts = last.groupBy("first").persistentAggregate(STATE, Count(), "count", name="counts")
    found = laid(topology)
    works, below = found.chain(last._node)
    assert verbs(works) == ["each", "project", "filter", "filter", "each"]
    assert below.step.endswith("each(FilterNull)"), "the first one is Spark's own work"
    assert found.names(last._node) == ["first"]
    assert found.names(below) == ["line", "n"]
    assert found.chain(counts._node) == ((), counts._node)


def test_native_work_and_partitioning_part_them() -> None:
    topology = TridentTopology()
    last = (
        stream(topology, FIELDS, [])
        .each("n", half, "h double")
        .each("h", expr("h + 1"), "i double")
        .each("i", half, "j double")
        .partitionBy("j")
        .each("j", half, "k double")
    )
    last.persistentAggregate(STATE, "k", Sum(), "sum", name="sum")
    found = laid(topology)
    for verb in ("k", "j"):
        works, below = found.chain(last._node)
        assert len(works) == 1 and works[0].outputs.names == [verb]
        last = type("At", (), {"_node": below.source if verb == "k" else below})()  # type: ignore[attr-defined]


def test_what_is_read_twice_ends_a_function() -> None:
    topology = TridentTopology()
    words = stream(topology, FIELDS, []).each("line", split, "word string")
    one = words.each("word", lengths, "length int, first string")
    two = words.each(Debug("words"))
    one.groupBy("first").persistentAggregate(STATE, Count(), "count", name="one")
    two.groupBy("word").persistentAggregate(STATE, Count(), "count", name="two")
    found = laid(topology)
    assert found.shared(words._node) and not found.shared(one._node) and not found.shared(two._node)
    assert verbs(found.chain(one._node)[0]) == ["each"] and found.chain(one._node)[1] is words._node
    assert set(found.names(words._node)) == {"line", "n", "unused", "word"}, "Debug shows all of them"


def test_a_debug_alone_is_no_second_reader() -> None:
    topology = TridentTopology()
    words = stream(topology, FIELDS, []).each("line", split, "word string")
    words.each(Debug("words"))
    assert not laid(topology).shared(words._node)


@pytest.mark.parametrize("python", [True, False], ids=["a function between", "nothing between"])
def test_a_source_and_what_follows_share_a_worker(python: bool) -> None:
    """Two Python functions in a row cost two workers and a way through the JVM between them."""
    topology = TridentTopology()
    start = stream(topology, "line string", [])
    words = start.each("line", split, "word string") if python else start
    state = words.groupBy(words.schema.names[-1]).persistentAggregate(STATE, Count(), "count", name="counts")

    def reader(batches: Batches) -> Batches:
        return batches

    numbers = cast(DataFrame, object())
    pending = PendingFunction(numbers, reader, pa.schema([("line", pa.string())]))
    lowering = Lowering(laid(topology), {id(start._node): StageInput.of_reader(pending)}, Profile(True, 1), {})
    assert lowering.folds_in_python(state._node)
    fold = lowering.folding(state._node)
    assert fold.source is numbers and isinstance(fold.function, PartialFold)
    assert fold.function.chain.before is reader
    assert verbs(fold.function.chain.works) == (["each"] if python else [])


def test_what_spark_reads_too_is_read_by_python_only_before_python() -> None:
    topology = TridentTopology()
    start = stream(topology, "line string", [])
    words = start.each("line", split, "word string").groupBy("word")
    python = words.persistentAggregate(STATE, Count(), "count", name="python")
    native = start.groupBy("line").persistentAggregate(STATE, Count(), "count", name="native")
    by_spark, by_python = cast(DataFrame, object()), cast(DataFrame, object())
    pending = PendingFunction(by_python, lambda batches: batches, pa.schema([("line", pa.string())]))
    inputs = {id(start._node): StageInput(lambda: by_spark, lambda: pending)}
    lowering = Lowering(laid(topology), inputs, Profile(True, 1), {})
    assert lowering.folding(python._node).source is by_python
    assert not lowering.folds_in_python(native._node)
    assert lowering.frame(start._node) is by_spark


def test_a_function_that_cannot_travel_is_refused_before_a_batch() -> None:
    lock = threading.Lock()

    class Holding(Longest):
        def __init__(self) -> None:
            self.lock = lock

    for change, name in (
        (lambda s: s.each("line", lambda line: lock.locked(), "b boolean"), "<lambda>"),
        (lambda s: s.aggregate("line", Holding(), "l"), "Holding"),
    ):
        topology = TridentTopology()
        change(stream(topology, FIELDS, [])).persistentAggregate(STATE, Count(), "n", name="n")
        with pytest.raises(UserFunctionError, match=rf"{name} .*cannot be sent to Spark's workers: .*lock"):
            check_picklable(laid(topology))
