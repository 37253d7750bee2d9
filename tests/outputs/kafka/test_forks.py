"""A fork of a topology from a topic into a topic: it continues at its own offsets, and writes to its own topic."""

from pathlib import Path

import pytest

from tests.support.forks import change_origin, contents, save, words
from tests.support.kafka import KafkaBroker
from trident import Count, TridentTopology, forkTopology, restoreTopology
from trident.compiler.stages import cut
from trident.errors import OutputConflictError
from trident.recovery.fork_origin import saved_output, sinks_of_program
from trident.spouts import FixedBatchSpout, KafkaSpout
from trident.state import MemoryMapState

pytestmark = pytest.mark.filterwarnings("ignore")


def test_each_topology_has_its_offsets_and_its_topic(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    def program(into: str, output: str = "out") -> TridentTopology:
        topology = TridentTopology()
        spout = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=3)
        stream = topology.newStream("words", spout).map("value", lambda value: value.decode(), "word string")
        stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        stream.writeKafka(kafka.servers, into, value="word", name=output)
        return topology

    for name in (topic, f"{topic}-out", f"{topic}-trial"):
        kafka.create(name, 1)
    kafka.send(topic, ["a", "b", "a", "c"])
    save(program(f"{topic}-out"), tmp_path)
    kafka.send(topic, ["a", "d"])
    forkTopology("first", "before", "second", tmp_path)
    with pytest.raises(OutputConflictError, match=f"writes to topic {topic}-out, as output 'out' of topology 'first'"):
        contents(program(f"{topic}-out"), "second", tmp_path)
    expected = {"a": 3, "b": 1, "c": 1, "d": 1}
    for _ in range(2):
        assert contents(program(f"{topic}-trial"), "second", tmp_path) == expected
    assert contents(program(f"{topic}-out"), "first", tmp_path) == expected
    assert sorted(filter(None, kafka.values(f"{topic}-trial"))) == [b"a", b"d"]
    assert sorted(filter(None, kafka.values(f"{topic}-out"))) == [b"a", b"a", b"a", b"b", b"c", b"d"]


def test_a_restored_topology_writes_to_its_topic_under_later_txids(
    kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    def program() -> TridentTopology:
        topology = TridentTopology()
        spout = KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=2)
        stream = topology.newStream("words", spout).map("value", lambda value: value.decode(), "word string")
        stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        stream.writeKafka(kafka.servers, f"{topic}-out", value="word", name="out")
        return topology

    for name in (topic, f"{topic}-out"):
        kafka.create(name, 1)
    kafka.send(topic, ["a", "b"])
    save(program(), tmp_path)
    kafka.send(topic, ["a", "c"])
    contents(program(), "first", tmp_path)
    restoreTopology("first", "before", tmp_path)
    kafka.send(topic, ["d"])
    for _ in range(2):
        assert contents(program(), "first", tmp_path) == {"a": 2, "b": 1, "c": 1, "d": 1}
    assert sorted(filter(None, kafka.values(f"{topic}-out"))) == [b"a", b"a", b"a", b"b", b"c", b"c", b"d"]


def test_a_topic_that_each_tuple_names_is_known_by_the_name_of_the_output(tmp_path: Path) -> None:
    """The start is refused before a broker is asked."""

    def program(into: str, output: str) -> TridentTopology:
        topology = words()
        stream = topology.newStream("events", FixedBatchSpout("topic string, value string", []))
        stream.writeKafka("nowhere:1", into, topicField="topic", name=output)
        return topology

    sinks = list(sinks_of_program(cut(program("events", "out"))))
    theirs = saved_output(sinks[0])
    assert (theirs.place, theirs.elsewhere) == ("topic events", True)
    save(words(), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    change_origin(tmp_path, "second", outputs=(theirs,))
    for into, output, match in (
        ("events", "other", "writes to topic events"),
        ("others", "out", "has the name and perhaps the target"),
    ):
        with pytest.raises(OutputConflictError, match=match):
            contents(program(into, output), "second", tmp_path)
