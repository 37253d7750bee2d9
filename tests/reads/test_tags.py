"""Tags of a topology: made and dropped by a run and from outside, read in every way, complete after a crash."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trident import Count, Evolution, Sum, TridentTopology, dropState, openState, openTopology
from trident.base import crash_points
from trident.errors import (
    StateError,
    StateNotFoundError,
    TagExistsError,
    TagNotFoundError,
    TopologyError,
    TxidNotKeptError,
)
from trident.spouts import FixedBatchSpout
from trident.state import DeltaMapState, MemoryMapState
from trident.testing.local import start_local
from trident_state.delta.vacuum import Retention

BATCHES: list[list[Any]] = [[("dog", 1), ("cat", 2)], [("dog", 3)], [("cow", 4)], [("dog", 5)]]


def program(folder: Path, other: Any = None) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string, n long", BATCHES)).groupBy("word")
    words.persistentAggregate(DeltaMapState.opaque(folder), Count(), "count", name="counts")
    words.persistentAggregate(other or DeltaMapState.opaque(folder), Sum("n"), "sum", name="sums")
    return topology


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Any]:
    with start_local(program(tmp_path / "states"), name="wc", checkpointLocation=tmp_path / "checkpoint") as running:
        running.processAllAvailable()
        yield running


def opened(tmp_path: Path) -> Any:
    place = tmp_path / "checkpoint"
    return openTopology(program(tmp_path / "states"), name="wc", checkpointLocation=place)


def forget_others(running: Any) -> None:
    """Delete all files that only earlier txids need."""
    for state in running.states:
        running._read_source.store(state).upkeep.cleaner.clean(Retention(0, 2))


def test_a_tag_is_read_in_every_way(running: Any, tmp_path: Path) -> None:
    tag = running.tag("month-end", asOf=2)
    assert (tag.name, tag.txids, tag.states, tag.missing) == ("month-end", {"words": 2}, ("counts", "sums"), ())
    assert running.tag("last").txids == {"words": 4}
    forget_others(running)
    counts = running.state("counts")
    assert list(counts.keptTxids) == [3, 4]
    past = counts.asOf("tag:month-end")
    assert (dict(past), past.asOfTxid, len(past)) == ({"dog": 2, "cat": 1}, 2, 2)
    assert past.range("c", "d") == [("cat", 1)]
    assert past.top(1) == [("dog", 2)]
    assert counts.asOf(2)["dog"] == 2
    assert running.state("sums", asOf="tag:month-end")["dog"] == 4
    asked = "select c.word, count, sum from counts c join sums using (word) order by word"
    assert [tuple(row) for row in running.sql(asked, asOf="tag:month-end")] == [("cat", 1, 2), ("dog", 2, 4)]
    with openState("wc", "counts", factory=DeltaMapState.opaque(tmp_path / "states"), asOf="tag:month-end") as state:
        assert (state["dog"], state.asOfTxid) == (2, 2)
    with opened(tmp_path) as other:
        assert [each.name for each in other.tags()] == ["last", "month-end"]
        assert other.state("sums").asOf("tag:month-end")["cat"] == 2
        assert other.sql("select sum(count) as n from counts", asOf="tag:month-end").first().n == 3
    with running.serve() as server:
        import httpx

        answer = httpx.get(f"{server.url}/state/counts/dog", params={"asOf": "tag:month-end"}).json()
        assert (answer["value"], answer["asOfTxid"]) == (2, {"words": 2})
        missing = httpx.get(f"{server.url}/state/counts/dog", params={"asOf": "tag:x"})
        assert (missing.status_code, missing.json()["error"]["type"]) == (404, "TagNotFoundError")


def test_tags_from_outside_while_the_topology_stands_still(tmp_path: Path) -> None:
    with start_local(program(tmp_path / "states"), name="wc", checkpointLocation=tmp_path / "checkpoint") as running:
        running.processAllAvailable()
    with opened(tmp_path) as other:
        assert other.tag("now").txids == {"words": 4}
        other.tag("first", asOf=1)
        other.dropTag("now")
    with start_local(program(tmp_path / "states"), name="wc", checkpointLocation=tmp_path / "checkpoint") as running:
        forget_others(running)
        assert [tag.name for tag in running.tags()] == ["first"]
        assert dict(running.state("counts", asOf="tag:first")) == {"dog": 1, "cat": 1}


def test_a_tag_does_not_move(running: Any) -> None:
    running.tag("x", asOf=2)
    for other in ({}, {"asOf": 2}, {"asOf": 3}):
        with pytest.raises(TagExistsError, match="'x' exists already, as of txid 2 of words. A tag does not move"):
            running.tag("x", **other)
    running.dropTag("x")
    with pytest.raises(TagNotFoundError, match="no tag 'x'; the tags are none"):
        running.dropTag("x")
    with pytest.raises(TagNotFoundError, match="state 'counts' has no tag 'x'; its tags are none"):
        running.state("counts").asOf("tag:x").get("dog")
    assert running.tag("x").txids == {"words": 4}


def test_wrong_tags(running: Any) -> None:
    with pytest.raises(TopologyError, match="a tag cannot be named 'month end'"):
        running.tag("month end")
    with pytest.raises(StateNotFoundError, match="no state 'cuonts'; did you mean 'counts'"):
        running.tag("x", states=["cuonts"])
    with pytest.raises(TxidNotKeptError, match="txid 9 has not been committed yet"):
        running.tag("x", asOf=9)
    assert running.tags() == []
    running.tag("x", asOf=2, states=["sums"])
    with pytest.raises(TagNotFoundError, match="state 'counts' has no tag 'x'"):
        running.state("counts", asOf="tag:x").get("dog")
    with pytest.raises(ValueError, match="or a tag, such as 'tag:month-end'"):
        running.state("counts", asOf="month-end")


def test_a_state_that_keeps_no_tags(tmp_path: Path) -> None:
    topology = program(tmp_path / "states", MemoryMapState.opaque())
    with start_local(topology, name="wc", checkpointLocation=tmp_path / "checkpoint") as running:
        running.processAllAvailable()
        with pytest.raises(StateError, match=r"state 'sums': only a DeltaMapState keeps tags.*states=\['counts'\]"):
            running.tag("x")
        with pytest.raises(StateError, match="state 'sums': only a DeltaMapState keeps tags"):
            running.tag("x", states=["sums"])
        with pytest.raises(StateError, match="state 'sums': only a DeltaMapState keeps tags"):
            running.state("sums", asOf="tag:x").get("dog")
        assert running.tags() == []
        assert running.tag("x", states=["counts"]).states == ("counts",)


class Died(BaseException):
    pass


@pytest.mark.parametrize("point", ["delta.tags.written", "delta.tags.committed"])
@pytest.mark.parametrize("part", [1, 2])
def test_a_program_that_dies_while_it_tags_or_drops_a_topology(running: Any, point: str, part: int) -> None:
    def dying(work: Any) -> None:
        reached: list[str] = []

        def die(at: str) -> None:
            reached.extend([at] if at == point else [])
            if len(reached) == part:
                raise Died

        crash_points.listen(die)
        try:
            with pytest.raises(Died):
                work()
        finally:
            crash_points.listen(None)

    done = part if point.endswith("committed") else part - 1
    dying(lambda: running.tag("x", asOf=2))
    found = [(tag.txids, tag.states, tag.missing) for tag in running.tags()]
    expected: list[Any] = [[], [({"words": 2}, ("counts",), ("sums",))], [({"words": 2}, ("counts", "sums"), ())]]
    assert found == expected[done]
    if 0 < done < 2:
        with pytest.raises(TagExistsError):
            running.tag("x", asOf=3)
        with pytest.raises(TagNotFoundError):
            running.state("sums", asOf="tag:x").get("dog")
    if done < 2:
        assert running.tag("x", asOf=2 if done == 0 else None).txids == {"words": 2}
    forget_others(running)
    assert running.state("counts", asOf="tag:x")["dog"] == 2
    assert running.state("sums", asOf="tag:x")["dog"] == 4
    dying(lambda: running.dropTag("x"))
    left = [tag.missing for tag in running.tags()]
    assert left == [[()], [("sums",)], []][done]
    if left:
        running.dropTag("x")
    assert running.tags() == []


def test_a_state_that_begins_again_at_the_txid_of_a_tag_does_not_complete_it(tmp_path: Path) -> None:
    states, place = tmp_path / "states", tmp_path / "checkpoint"
    with start_local(program(states), name="wc", checkpointLocation=place) as running:
        running.processAllAvailable()
        running.tag("last")
    dropState("wc", "sums", place, factory=DeltaMapState.opaque(states))
    with start_local(program(states), name="wc", checkpointLocation=place) as running:
        running.processAllAvailable()
        with pytest.raises(TagExistsError, match=r"lacks state 'sums', which is empty as of txid 4"):
            running.tag("last")
        assert [(tag.states, tag.missing) for tag in running.tags()] == [(("counts",), ("sums",))]
        with pytest.raises(TagNotFoundError):
            dict(running.state("sums").asOf("tag:last"))


def test_the_run_that_evolves_a_state_tags_it_and_keeps_its_txids(tmp_path: Path) -> None:
    def evolving(batches: int, bundle: dict[str, Any], **evolve: Any) -> Any:
        topology, spout = TridentTopology(), FixedBatchSpout("word string, n long", BATCHES[:batches])
        state = DeltaMapState.opaque(tmp_path / "states", keepTxids=10)
        topology.newStream("words", spout).groupBy("word").persistentAggregate(state, bundle, name="counts", **evolve)
        return start_local(topology, name="wc", checkpointLocation=tmp_path / "checkpoint")

    with evolving(1, {"count": Count()}) as running:
        running.processAllAvailable()
    with evolving(4, {"count": Count(), "sum": Sum("n")}, evolve=Evolution(was="count long")) as running:
        running.processAllAvailable()
        counts = running.state("counts")
        assert list(counts.keptTxids) == [1, 2, 3, 4]
        assert counts.asOf(2)["dog"] == (2, 3)
        assert running.tag("now", asOf=3).txids == {"words": 3}
        assert counts.asOf("tag:now")["cow"] == (1, 4)
        assert [tag.name for tag in running.tags()] == ["now"]
