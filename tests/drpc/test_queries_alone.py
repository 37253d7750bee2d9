"""A topology of DRPC functions and static states alone: a service that only answers, as Storm's TridentReach."""

import threading
from pathlib import Path

import pytest

from trident import Count, FilterNull, MapGet, Sum, TridentTopology, active
from trident.errors import TopologyError
from trident.spouts import FixedBatchSpout
from trident.testing import start_local

TWEETERS = {"foo.com/blog/1": ["sally", "bob", "tim"], "engineering.twitter.com/blog/5": ["adam", "sally"]}
FOLLOWERS = {"sally": ["bob", "tim", "alice"], "bob": ["sally", "nathan"], "tim": ["alex"], "adam": ["alice", "bob"]}


def one(names: list[str] | None) -> list[str]:
    return names or []


def reach() -> TridentTopology:
    topology = TridentTopology()
    tweeters = topology.newStaticState(TWEETERS, keyFields="url string", valueType="array<string>", name="tweeters")
    followers = topology.newStaticState(FOLLOWERS, keyFields="who string", valueType="array<string>", name="followers")
    (
        topology.newDRPCStream("reach", "url string")
        .stateQuery(tweeters, "url", MapGet(), "tweeters")
        .flatMap("tweeters", one, "tweeter string")
        .stateQuery(followers, "tweeter", MapGet(), "followers")
        .flatMap("followers", one, "follower string")
        .groupBy("follower")
        .aggregate(Count(), "n")
        .project("follower")
        .aggregate(Count(), "reach")
    )
    return topology


def test_it_answers_and_stops() -> None:
    running = start_local(reach(), name="reach")
    assert running.isActive and running in active()
    running.processAllAvailable(10)  # there is nothing to wait for
    assert [row.reach for row in running.drpc.execute("reach", "foo.com/blog/1")] == [6]
    status = {name: value for name, value in running.status.items() if name != "lease"}
    about = {"name": "reach", "engine": "embedded", "isActive": True, "condition": "ACTIVE"}
    assert status == {**about, "groups": {}, "hanging": []}
    assert repr(running) == "<RunningTopology 'reach' on engine 'embedded', running: LocalDRPC(reach(url string))>"
    waiting = threading.Thread(target=running.awaitTermination, daemon=True)
    waiting.start()
    running.stop()
    waiting.join(10)
    assert not waiting.is_alive() and not running.isActive and running not in active()


def test_it_starts_again_on_its_checkpoint_and_grows_a_stream(tmp_path: Path) -> None:
    for _ in range(2):
        with start_local(reach(), name="reach", checkpointLocation=tmp_path) as running:
            assert [row.reach for row in running.drpc.execute("reach", "engineering.twitter.com/blog/5")] == [3]
    topology = reach()
    clicks = topology.newStream("clicks", FixedBatchSpout("url string, n long", [[("foo.com/blog/1", 2)]]))
    clicks.filter("url", FilterNull()).each("n", lambda n: n, "m long").peek(lambda t: None)
    with start_local(topology, name="reach", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(10)
        assert [row.reach for row in running.drpc.execute("reach", "foo.com/blog/1")] == [6]
        assert running.status["groups"]["clicks"]["committed"] == 1


def test_with_available_now_it_ends_at_once() -> None:
    running = start_local(reach(), name="reach", availableNow=True)
    assert running.awaitTermination(10) is True


def test_a_stream_without_effect_beside_a_function_is_not_left_out_silently() -> None:
    topology = reach()
    topology.newStream("clicks", FixedBatchSpout("n long", [[1]])).aggregate("n", Sum(), "sum")
    with pytest.raises(TopologyError, match="no stream of the topology has an effect"):
        topology.start()
