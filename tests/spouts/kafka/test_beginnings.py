"""A stream begins at one place, however often its first batch is planned and whatever comes or is planned meanwhile."""

import datetime
import time
from typing import Any, Literal

import pytest

from tests.spouts.kafka.reads import drained, emitted, planned, values
from tests.support.kafka import KafkaBroker
from trident.errors import DataLossError, TopologyError
from trident.spouts import KafkaSpout
from trident_spouts.kafka.cluster import Cluster

KINDS = pytest.mark.parametrize("kind", ["transactional", "opaque"])
Kind = Literal["transactional", "opaque"]


def first_and_later(executor: Any) -> Any:
    """Plan the first batch and the one after it, as a run does that plans ahead; return the first plan."""
    first = planned(executor)
    assert planned(executor, first, 2) is None
    return first


@KINDS
@pytest.mark.parametrize("starting", ["earliest", "latest", "time", "given"])
def test_the_first_batch_begins_where_it_began_after_later_plans(
    kafka: KafkaBroker, topic: str, kind: Kind, starting: str
) -> None:
    kafka.send(kafka.create(topic), ["old"] * 3, timestamp=1000)
    kafka.send(topic, ["new"], timestamp=5000)
    begin: dict[str, tuple[Any, int]] = {
        "earliest": ("earliest", 0),
        "latest": ("latest", 4),
        "time": (datetime.datetime.fromtimestamp(3, datetime.UTC), 3),
        "given": ({topic: {0: 2}}, 2),
    }
    spout = KafkaSpout(kafka.servers, topic, kind=kind, startingOffsets=begin[starting][0])
    executor = spout.open()
    first = first_and_later(executor)
    kafka.send(topic, ["more"], timestamp=6000)
    later = planned(executor, first, 2)
    again = planned(executor)
    assert [plan[topic]["from"] for plan in (first, later, again)] == [[begin[starting][1]], [4], [begin[starting][1]]]
    executor.close()
    anew = spout.open()  # a run that begins in the middle plans the first batch as the first run did
    planned(anew, first, 2)
    assert starting == "latest" or planned(anew)[topic]["from"] == [begin[starting][1]]
    anew.close()


@KINDS
def test_what_is_deleted_before_the_first_batch_is_read_is_told(kafka: KafkaBroker, topic: str, kind: Kind) -> None:
    kafka.send(kafka.create(topic), "abcde")
    executor = KafkaSpout(kafka.servers, topic, kind=kind).open()
    first = first_and_later(executor)
    kafka.drop_before(topic, 0, 3)
    with pytest.raises(DataLossError, match=f"{topic}-0 has lost offsets 0 to 2 before they were read"):
        planned(executor) if kind == "opaque" else emitted(executor, first, 1)
    executor.close()


def test_a_message_that_comes_while_a_time_is_looked_up_is_read(
    kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two requests."""
    kafka.send(kafka.create(topic), ["long ago"], timestamp=1000)
    begin = datetime.datetime.now(datetime.UTC)
    time.sleep(0.01)
    ask = Cluster._ask

    def asked(self: Cluster, what: str, request: Any) -> Any:
        answer = ask(self, what, request)
        if "offsets" in what:
            kafka.send(topic, ["meanwhile"])
        return answer

    monkeypatch.setattr(Cluster, "_ask", asked)
    executor = KafkaSpout(kafka.servers, topic, startingOffsets=begin).open()
    plans = [planned(executor)]
    monkeypatch.undo()
    while (plan := planned(executor, plans[-1])) is not None:
        plans.append(plan)
    read = [value for plan in plans for value in values(emitted(executor, plan).arrow())]
    assert read == ["meanwhile"] * (len(kafka.values(topic)) - 1) and read
    executor.close()


def two_partitions(kafka: KafkaBroker, name: str) -> str:
    kafka.send(kafka.create(name, 2), "abc")
    kafka.send(name, "xyz", 1)
    return name


def test_a_partition_without_a_given_offset_is_refused_before_anything_is_read(kafka: KafkaBroker, topic: str) -> None:
    """It would begin at its first message, and a user who takes a position over would count its messages twice."""
    two_partitions(kafka, topic)
    kafka.drop_before(topic, 1, 1)
    other = two_partitions(kafka, f"{topic}-other")
    executor = KafkaSpout(kafka.servers, topic, startingOffsets={topic: {0: 2}}).open()
    said = rf"no offset for {topic}-1 \(expected 1 to 3\): a new stream needs one for each partition"
    for _ in range(2):
        with pytest.raises(TopologyError, match=said):
            planned(executor)
    executor.close()
    executor = KafkaSpout(kafka.servers, [topic, other], startingOffsets={topic: {0: 2, 1: 2}}).open()
    with pytest.raises(TopologyError, match=rf"{other}-0 \(expected 0 to 3\), {other}-1 \(expected 0 to 3\)"):
        planned(executor)
    executor.close()


@KINDS
def test_a_partition_that_is_added_needs_no_given_offset(kafka: KafkaBroker, topic: str, kind: Kind) -> None:
    kafka.send(kafka.create(topic), "abc")
    spout = KafkaSpout(kafka.servers, topic, kind=kind, startingOffsets={topic: {0: 2}})
    executor = spout.open()
    assert drained(executor)[0] == ["c"]
    kafka.grow(topic, 2)
    kafka.send(topic, "xy", 1)
    first = planned(executor)
    assert first[topic]["from"] == [2, 0]
    executor.close()
    anew = spout.open()  # a run that has seen a later batch plans the first one as the first run did
    assert planned(anew, first, 2) is None and planned(anew)[topic]["from"] == [2, 0]
    anew.close()


def test_a_stream_that_has_begun_needs_no_given_offsets(kafka: KafkaBroker, topic: str) -> None:
    """Its topics have positions. A topic that it reads in addition begins at the earliest offset, or as given."""
    two_partitions(kafka, topic)
    _, position = drained(KafkaSpout(kafka.servers, topic).open())
    kafka.send(topic, "d")
    other = two_partitions(kafka, f"{topic}-other")
    given: Any = {topic: {0: 1}}
    assert drained(KafkaSpout(kafka.servers, topic, startingOffsets=given).open(), position)[0] == ["d"]
    both = KafkaSpout(kafka.servers, [topic, other], startingOffsets=given)
    assert drained(both.open(), position)[0] == ["d", *"abcxyz"]
    in_part = KafkaSpout(kafka.servers, [topic, other], startingOffsets={**given, other: {1: 3}})
    with pytest.raises(TopologyError, match=rf"no offset for {other}-0 \(expected 0 to 3\): a new"):
        planned(in_part.open(), position)
    position[topic].pop("begun")  # as in a log of an earlier version
    executor: Any = KafkaSpout(kafka.servers, topic, startingOffsets=given).open_again(lambda: position)
    assert drained(executor)[0] == [*"bcxyz"]
