"""The streams of a restored topology continue at the savepoint's positions, or as they are told to."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.forks import BATCHES, LATER, OTHER, SAVED, WHOLE, Queue, contents, read, save, words
from trident import Count, TridentTopology, dropState, restoreTopology
from trident.errors import CodeChangedError, SavepointError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:state .* is new"),
]


def with_queue(rows: list[str], batches: list[Any]) -> TridentTopology:
    topology = words(batches)
    stream = topology.newStream("queue", Queue(rows)).groupBy("word")
    stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="queued")
    return topology


def test_a_source_that_does_not_give_its_tuples_again_has_to_be_named(tmp_path: Path) -> None:
    save(with_queue(["a", "b"], BATCHES), tmp_path)
    contents(with_queue(["c"], LATER), "first", tmp_path)
    with pytest.raises(SavepointError, match=r"stream 'queue' reads from Queue\(\), .* keepPositions=\['queue'\]"):
        restoreTopology("first", "before", tmp_path)
    assert contents(with_queue(["d"], LATER), "first", tmp_path, "queued") == dict.fromkeys("abcd", 1), (
        "nothing changed"
    )
    restoreTopology("first", "before", tmp_path, keepPositions=["queue"])
    with start_local(with_queue(["e"], OTHER), name="first", checkpointLocation=tmp_path) as running:
        assert read(running, "queued") == dict.fromkeys("abe", 1)
        assert read(running) == {**SAVED, "owl": 2}


def test_a_stream_that_the_program_lacked_at_the_savepoint_has_to_be_named(tmp_path: Path) -> None:
    """Nothing says whether its source gives its tuples again."""
    contents(with_queue(["a"], BATCHES), "first", tmp_path)
    save(words(BATCHES), tmp_path)
    dropState("first", "queued", tmp_path)
    contents(with_queue(["b"], LATER), "first", tmp_path)
    with pytest.raises(SavepointError, match=r"the program lacked stream 'queue' .* keepPositions=\['queue'\]"):
        restoreTopology("first", "before", tmp_path)
    dropState("first", "queued", tmp_path)
    restoreTopology("first", "before", tmp_path, keepPositions=["queue"])
    assert contents(with_queue(["c"], OTHER), "first", tmp_path, "queued") == {"c": 1}


def test_a_stream_that_the_savepoint_lacks_has_to_be_named(tmp_path: Path) -> None:
    def program(batches: list[Any], more: list[Any]) -> TridentTopology:
        topology = TridentTopology()
        streams = [topology.newStream("words", FixedBatchSpout("word string", batches))]
        if more:
            streams.append(topology.newStream("more", FixedBatchSpout("word string", more), anew=True))
        stream = topology.merge(*streams) if more else streams[0]
        stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        return topology

    save(program(BATCHES, []), tmp_path)
    merged = {"dog": 3, "cat": 1, "cow": 1, "fox": 1}
    assert contents(program(LATER, [["fox"]]), "first", tmp_path) == merged
    with pytest.raises(SavepointError, match=r"stream 'more' is not in savepoint 'before', .* anew=\['more'\]"):
        restoreTopology("first", "before", tmp_path)
    restoreTopology("first", "before", tmp_path, anew=["more"])
    assert contents(program(LATER, [["fox"]]), "first", tmp_path) == merged
    restoreTopology("first", "before", tmp_path, keepPositions=["more"])
    assert contents(program(LATER, [["fox"], ["fox"]]), "first", tmp_path) == merged
    restoreTopology("first", "before", tmp_path, anew=["words", "more"])
    assert contents(program([["dog"]], [["fox"]]), "first", tmp_path) == {"dog": 3, "cat": 1, "fox": 1}


def test_a_state_that_the_program_lacked_at_the_savepoint_stays_as_it_is(tmp_path: Path) -> None:
    def program(batches: list[Any], more: list[Any] | None) -> TridentTopology:
        topology = words(batches)
        if more is not None:
            stream = topology.newStream("more", FixedBatchSpout("word string", more)).groupBy("word")
            stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="others")
        return topology

    contents(program(BATCHES, [["fox"]]), "first", tmp_path)
    save(program(BATCHES, None), tmp_path)
    contents(program(LATER, None), "first", tmp_path)
    restoreTopology("first", "before", tmp_path)
    with start_local(program(OTHER, [["fox"], ["fox"]]), name="first", checkpointLocation=tmp_path) as running:
        assert read(running) == {**SAVED, "owl": 2} and read(running, "others") == {"fox": 2}
    with pytest.raises(SavepointError, match="state 'others' is not in savepoint 'before'"):
        restoreTopology("first", "before", tmp_path, keepPositions=["more"])
    dropState("first", "others", tmp_path)
    restoreTopology("first", "before", tmp_path, keepPositions=["more"])
    with start_local(program(OTHER, [["fox"], ["fox"]]), name="first", checkpointLocation=tmp_path) as running:
        assert read(running) == {**SAVED, "owl": 2} and read(running, "others") == {}


def test_a_name_that_another_stream_has_now_is_refused(tmp_path: Path) -> None:
    def program(*streams: tuple[str, str | None, list[Any]]) -> TridentTopology:
        topology = TridentTopology()
        for name, formerly, batches in streams:
            spout = FixedBatchSpout("word string", batches)
            stream = topology.newStream(name, spout, formerly=formerly, anew=formerly is None).groupBy("word")
            stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=f"of-{batches[0][0]}")
        return topology

    save(program(("old", None, [["a"]])), tmp_path)
    contents(program(("new", "old", [["a"], ["a"]])), "first", tmp_path, "of-a")
    contents(program(("new", None, [["a"], ["a"]]), ("old", None, [["b"]])), "first", tmp_path, "of-b")
    with pytest.raises(SavepointError, match="'old' of savepoint 'before' is called 'new' now, and another stream"):
        restoreTopology("first", "before", tmp_path)


def test_a_stream_without_a_position_at_the_savepoint_has_to_be_named(tmp_path: Path) -> None:
    """It may begin at the end of its source."""
    with start_local(words(), name="first", checkpointLocation=tmp_path, active=False) as running:
        running.savepoint("before")
    contents(words(), "first", tmp_path)
    with pytest.raises(SavepointError, match=r"'words' had no position yet .* anew=\['words'\]"):
        restoreTopology("first", "before", tmp_path)
    restoreTopology("first", "before", tmp_path, anew=["words"])
    assert contents(words(LATER), "first", tmp_path) == WHOLE


def test_a_stream_gets_its_former_name_back(tmp_path: Path) -> None:
    def program(name: str, batches: list[Any], **how: Any) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream(name, FixedBatchSpout("word string", batches), **how).groupBy("word")
        stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        return topology

    save(program("words", BATCHES), tmp_path)
    assert contents(program("renamed", LATER, formerly="words"), "first", tmp_path) == WHOLE
    restoreTopology("first", "before", tmp_path)
    assert contents(program("words", LATER), "first", tmp_path) == WHOLE
    restoreTopology("first", "before", tmp_path)
    assert contents(program("renamed", LATER, formerly="words"), "first", tmp_path) == WHOLE
    with pytest.raises(CodeChangedError, match="formerly='renamed'"):
        contents(program("words", LATER), "first", tmp_path)


def test_letters_that_were_replayed_since_the_savepoint_can_be_replayed_again(tmp_path: Path) -> None:
    """The stream of the replays had no position yet: it begins with the letters of the restored state."""

    def program(batches: list[Any], *, fails: bool) -> TridentTopology:
        def mended(word: str) -> str:
            if fails and word == "dog":
                raise ValueError("no dogs")
            return word

        topology = TridentTopology()
        stream = topology.newStream("words", FixedBatchSpout("word string", batches)).replayable()
        named = stream.each("word", mended, "name string", onError="deadLetter")
        named.groupBy("name").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        topology.deadLetterState(MemoryMapState.opaque())
        return topology

    def replayed(batches: list[Any]) -> Any:
        with start_local(program(batches, fails=False), name="first", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=30)
            running.replayDeadLetters("words")
            return read(running)

    save(program(BATCHES, fails=True), tmp_path)
    assert replayed(BATCHES) == SAVED
    restoreTopology("first", "before", tmp_path)
    assert replayed(LATER) == WHOLE
