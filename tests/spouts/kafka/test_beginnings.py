"""A stream begins at one place, however often its first batch is planned and whatever comes or is planned meanwhile."""

import datetime
import time
from typing import Any, Literal

import pytest

from tests.spouts.kafka.reads import emitted, planned, values
from tests.support.kafka import KafkaBroker
from trident.errors import DataLossError
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
