"""Previews: the first tuples of a stream, without a run."""

from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.compiler.functions import half, split
from tests.compiler.stage_runner import STATE, stream
from trident import Count, TridentTopology, expr
from trident.base.errors import TopologyError, UserFunctionError
from trident.compiler.preview import take
from trident.spouts import IterableSpout, RichSpout
from trident.testing.local import start_local


def words(topology: TridentTopology) -> Any:
    return stream(topology, "line string", ["the cow", "the moon"], ["second batch"]).each("line", split, "word string")


def test_take_looks_at_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    seen = words(TridentTopology())
    assert take(seen._node, 3) == [
        Row(line="the cow", word="the"),
        Row(line="the cow", word="cow"),
        Row(line="the moon", word="the"),
    ]
    assert take(seen._node, 0) == [] and len(take(seen._node, 99)) == 4
    assert take(stream(TridentTopology(), "n long")._node, 5) == [], "an idle source"
    with pytest.raises(UserFunctionError, match=r"half .* raised TypeError"):
        take(seen.each("word", half, "h double")._node, 1)


def test_a_stream_with_a_state_has_none() -> None:
    topology = TridentTopology()
    counts = words(topology).groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")
    with pytest.raises(TopologyError, match="has no first batch that a preview could read"):
        take(counts.newValuesStream()._node, 1)
    with pytest.raises(TopologyError, match="has no first batch that a preview could read"):
        take(topology.newDRPCStream("f")._node, 1)


@pytest.mark.connect
@pytest.mark.spark
def test_take_on_spark(spark: SparkSession) -> None:
    topology = TridentTopology()
    seen = topology.merge(words(topology), words_again(topology)).each("word", expr("upper(word)"), "loud string")
    found = take(seen.each("loud", str.lower, "quiet string")._node, 10, spark)
    assert sorted(found)[:2] == [Row(line="a b", word="a", loud="A", quiet="a"), Row("a b", "b", "B", "b")]
    assert len(found) == 6
    with pytest.raises(UserFunctionError, match=r"half .* raised TypeError"):
        take(seen.each("word", half, "h double")._node, 1, spark)


def words_again(topology: TridentTopology) -> Any:
    return stream(topology, "line string", ["a b"], name="again").each("line", split, "word string")


def test_a_preview_takes_no_row_from_the_run() -> None:
    rows = iter([1, 2, 3])
    topology = TridentTopology()
    numbers = topology.newStream("numbers", IterableSpout("n long", rows))
    with pytest.raises(TopologyError, match="returns each row once, .* Pass a list, or a function that returns a new"):
        take(numbers._node, 1)
    numbers.persistentAggregate(STATE, Count(), "count", name="counts")
    with start_local(topology, name="previewed") as running:
        running.processAllAvailable(20)
        assert running.state("counts").value == 3
    again = TridentTopology().newStream("numbers", IterableSpout("n long", lambda: iter([1, 2, 3])))
    assert take(again._node, 1) == [Row(n=1)]


@pytest.mark.parametrize("tracking", ["none", "emission", "tracked"])
def test_a_preview_of_messages_needs_a_queue_that_keeps_them(tracking: str) -> None:
    class Queue(RichSpout):
        outputFields = "n long"

        def nextTuple(self, collector: Any) -> None:
            collector.emit(1, **({} if tracking == "none" else {"messageId": 1}))

    spout = Queue()
    spout.tracking = tracking  # type: ignore[assignment]
    spout.maxRows = 1
    messages = TridentTopology().newStream("messages", spout)
    if tracking == "tracked":
        assert take(messages._node, 1) == [Row(n=1)]
        return
    with pytest.raises(TopologyError, match=rf"set tracking = 'tracked' \(it is '{tracking}'"):
        take(messages._node, 1)
