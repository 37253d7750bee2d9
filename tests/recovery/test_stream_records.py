"""Streams that are removed, renamed, merged, parted, put back, or read another source between two starts: they go on
exactly where they stood, or the start is refused with a way out that costs no other state."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.kills import killed
from trident import Count, TridentTopology, dropState
from trident.base.errors import CodeChangedError, FencedError, OutputError, TopologyError
from trident.log.sqlite_log import SqliteLog
from trident.run import registry
from trident.spouts import BatchSpout, FeederBatchSpout, FileSpout, FixedBatchSpout, SpoutKind
from trident.state import MemoryMapState
from trident.testing.local import start_local

pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:state .* is new:RuntimeWarning"),
]


Rows = dict[str, list[tuple[int, str]]]
"""What each output was handed: txid and word."""


class Program:
    """A topology of word streams, each with an output of its own or counted into a state."""

    def __init__(self, out: Rows | None = None) -> None:
        self.topology = TridentTopology()
        self.out: Rows = {} if out is None else out

    def stream(self, name: str, batches: int, **how: Any) -> Any:
        spout = how.pop("spout", None) or FixedBatchSpout("word string", [[f"{name[0]}{n}"] for n in range(batches)])
        return self.topology.newStream(name, spout, **how)

    def handed(self, stream: Any, name: str) -> "Program":
        rows = self.out.setdefault(name, [])
        stream.foreachArrow(lambda t, txid, attempt: rows.extend((txid, w) for w in t["word"].to_pylist()), name=name)
        return self

    def counted(self, stream: Any, name: str) -> "Program":
        stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name=name)
        return self

    def run(self, folder: Path, *states: str) -> list[dict[Any, Any]]:
        with start_local(self.topology, name="t", checkpointLocation=folder) as running:
            running.processAllAvailable(timeout=20)
            return [dict(running.state(name).items()) for name in states]


def words(out: Rows) -> dict[str, list[str]]:
    return {name: [word for _, word in rows] for name, rows in out.items()}


# --- moved to another batch group ---------------------------------------------------------------------------------


class Numbered(BatchSpout):
    """Rows that follow from the number of the batch."""

    outputFields = "word string"
    kind = SpoutKind.TRANSACTIONAL

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def emitBatch(self, batchId: int) -> Any:
        return [f"b{batchId}"] if batchId <= self.batches else None


@pytest.mark.parametrize("others", [1, 8])
def test_a_batch_spout_that_is_merged_into_another_group_goes_on_with_its_next_batch(
    others: int, tmp_path: Path
) -> None:
    apart = Program()
    apart.handed(apart.stream("numbered", 0, spout=Numbered(4)), "out")
    apart.counted(apart.stream("words", others), "counts").run(tmp_path)
    merged = Program()
    both = merged.topology.merge(merged.stream("numbered", 0, spout=Numbered(8)), merged.stream("words", others))
    (counts,) = merged.counted(both, "counts").run(tmp_path, "counts")
    assert sorted(word for word in counts if word[0] == "b") == ["b5", "b6", "b7", "b8"]


# --- renamed ------------------------------------------------------------------------------------------------------


def renamed(out: Rows, name: str, batches: int, **how: Any) -> Program:
    program = Program(out)
    spout = FixedBatchSpout("word string", [[f"w{n}"] for n in range(batches)])
    return program.handed(program.stream(name, batches, spout=spout, **how), "out")


def test_a_renamed_stream_is_refused_until_somebody_says_so_and_then_goes_on_where_it_stood(tmp_path: Path) -> None:
    out: Rows = {}
    renamed(out, "orders", 2).run(tmp_path)
    with pytest.raises(CodeChangedError, match=r"'orders', .* it has 'sales'.*formerly='orders'.*anew=True"):
        renamed(out, "sales", 3).run(tmp_path)
    renamed(out, "sales", 3, formerly="orders").run(tmp_path)
    assert out["out"] == [(1, "w0"), (2, "w1"), (3, "w2")], "the txids go on too"
    renamed(out, "sales", 4, formerly="orders").run(tmp_path)
    assert out["out"][3:] == [(4, "w3")], "it may stay in the code"


def test_a_stream_that_is_really_new_begins_at_its_start_once(tmp_path: Path) -> None:
    out: Rows = {}
    renamed(out, "orders", 2).run(tmp_path)
    renamed(out, "sales", 1, anew=True).run(tmp_path)
    with pytest.warns(RuntimeWarning, match=r"'sales', ..., anew=True\) has no effect: .* Remove anew=True"):
        renamed(out, "sales", 2, anew=True).run(tmp_path)
    assert out["out"] == [(1, "w0"), (2, "w1"), (3, "w0"), (4, "w1")]


def test_a_renaming_that_is_taken_back_after_the_stream_was_left_out_is_refused(tmp_path: Path) -> None:
    each(("fix", "f", 1), ("notes", "n", 2)).run(tmp_path)
    each(("fix", "f", 1), ("visits", "n", 3, {"formerly": "notes"})).run(tmp_path)
    each(("fix", "f", 1)).run(tmp_path)
    with pytest.raises(CodeChangedError, match=r"'visits', .* it has 'notes'.*formerly='visits'.*anew=True"):
        each(("fix", "f", 1), ("notes", "n", 4)).run(tmp_path)
    (counts,) = each(("fix", "f", 1), ("notes", "n", 4, {"formerly": "visits"})).run(tmp_path, "of-n")
    assert counts == once("n", 4)


def test_a_stream_cannot_have_been_another_one_of_the_same_topology(tmp_path: Path) -> None:
    program = Program()
    program.handed(program.stream("a", 1), "a").handed(program.stream("b", 1, formerly="a"), "b")
    with pytest.raises(TopologyError, match="formerly='a' is also a stream of this topology."):
        program.run(tmp_path)


def test_two_streams_swap_their_names_through_a_third_one(tmp_path: Path) -> None:
    each(("a", "x", 2), ("b", "y", 2)).run(tmp_path)
    with pytest.raises(TopologyError, match=r"first rename the stream to .a.* If two streams swap names, rename one"):
        each(("b", "x", 3, {"formerly": "a"}), ("a", "y", 3, {"formerly": "b"})).run(tmp_path)
    each(("c", "x", 2, {"formerly": "a"}), ("b", "y", 2)).run(tmp_path)
    each(("c", "x", 2), ("a", "y", 2, {"formerly": "b"})).run(tmp_path)
    program = each(("b", "x", 3, {"formerly": "c"}), ("a", "y", 3))
    assert program.run(tmp_path, "of-x", "of-y") == [once("x", 3), once("y", 3)]


def each(*streams: tuple[str, str, int] | tuple[str, str, int, dict[str, Any]]) -> Program:
    """Streams (name, source, batches, how), each counted into the state ``of-<source>``."""
    program = Program()
    for name, source, batches, *how in streams:
        spout = FixedBatchSpout("word string", [[f"{source}{n}"] for n in range(batches)])
        stream = program.stream(name, batches, spout=spout, **(how[0] if how else {}))  # type: ignore[arg-type]
        program.counted(stream, f"of-{source}")
    return program


def once(source: str, batches: int) -> dict[str, int]:
    return {f"{source}{n}": 1 for n in range(batches)}


def test_formerly_in_the_code_does_nothing_to_a_stream_that_has_the_name_later(tmp_path: Path) -> None:
    each(("a", "x", 2)).run(tmp_path)
    former = each(("b", "x", 3, {"formerly": "a"}))
    former.run(tmp_path)
    later = each(("b", "x", 3), ("a", "y", 3))
    later.run(tmp_path)
    former.run(tmp_path)  # rolled back
    assert later.run(tmp_path, "of-x", "of-y") == [once("x", 3), once("y", 3)]


def test_formerly_that_means_nothing_hides_no_stream_that_is_gone(tmp_path: Path) -> None:
    each(("a", "x", 2)).run(tmp_path)
    each(("b", "x", 2, {"formerly": "a"})).run(tmp_path)
    each(("b", "x", 2), ("a", "y", 2)).run(tmp_path)
    with pytest.raises(CodeChangedError, match=r"the streams 'a', .* it has 'c'.*formerly='a'"):
        each(("b", "x", 2, {"formerly": "a"}), ("c", "y", 2)).run(tmp_path)


def replaced(tmp_path: Path, first: int, second: int) -> None:
    each(("a", "x", first)).run(tmp_path)
    each(("b", "y", second, {"anew": True})).run(tmp_path)


def test_formerly_onto_a_name_that_the_log_knows_from_earlier_is_refused(tmp_path: Path) -> None:
    replaced(tmp_path, 1, 3)
    with pytest.raises(
        CodeChangedError, match=r"earlier stream 'a'.*newStream\('a2', \.\.\., formerly='b'\); .*remove formerly="
    ):
        each(("a", "y", 4, {"formerly": "b"})).run(tmp_path)
    assert each(("a2", "y", 4, {"formerly": "b"})).run(tmp_path, "of-y") == [once("y", 4)]
    assert each(("a2", "y", 5), ("a", "x", 2)).run(tmp_path, "of-x", "of-y") == [once("x", 2), once("y", 5)]


def test_formerly_onto_a_name_that_stood_at_the_same_place_is_let(tmp_path: Path) -> None:
    replaced(tmp_path, 2, 2)
    assert each(("a", "y", 4, {"formerly": "b"})).run(tmp_path, "of-y") == [once("y", 4)]


def test_one_stream_cannot_go_on_as_two(tmp_path: Path) -> None:
    each(("a", "x", 2)).run(tmp_path)
    with pytest.raises(TopologyError, match="'b' and 'c' both have formerly='a'"):
        each(("b", "x", 3, {"formerly": "a"}), ("c", "y", 3, {"formerly": "a"})).run(tmp_path)


def test_of_several_streams_that_are_gone_the_one_that_fed_the_same_state_is_named_first(tmp_path: Path) -> None:
    each(("a", "x", 3), ("b", "y", 1)).run(tmp_path)
    with pytest.raises(CodeChangedError, match=r"newStream\('c', \.\.\., formerly='b'\) \(or 'a', whichever"):
        each(("c", "y", 4)).run(tmp_path)
    assert each(("c", "y", 4, {"formerly": "b"})).run(tmp_path, "of-y") == [once("y", 4)]


def test_of_several_streams_that_are_gone_the_one_with_the_same_output_is_named_first(tmp_path: Path) -> None:
    program = Program()
    program.handed(program.stream("a", 1), "x").handed(program.stream("b", 1), "y").run(tmp_path)
    program = Program()
    with pytest.raises(CodeChangedError, match=r"formerly='b'\) \(or 'a', whichever"):
        program.handed(program.stream("c", 1), "y").run(tmp_path)


def test_a_stream_that_goes_on_as_one_that_fed_other_states_is_told_of(tmp_path: Path) -> None:
    each(("a", "x", 3), ("b", "y", 1)).run(tmp_path)
    with pytest.warns(
        RuntimeWarning,
        match=r"'c' continues as 'a'\. It feeds 'of-y', as the stream 'b' "
        r"did.*formerly='b'",
    ):
        each(("c", "y", 1, {"formerly": "a"})).run(tmp_path)


def test_a_stream_that_comes_back_under_another_name_is_told_of_and_may_say_so_before_its_first_batch(
    tmp_path: Path,
) -> None:
    each(("other", "o", 1), ("orders", "x", 2)).run(tmp_path)
    each(("other", "o", 1)).run(tmp_path)
    with pytest.warns(
        RuntimeWarning,
        match=r"'sales' is not in the log.* feeds 'of-x', as the stream 'orders' "
        r"did.*='orders'\)",
    ):
        each(("other", "o", 1), ("sales", "x", 0)).run(tmp_path)
    found = each(("other", "o", 1), ("sales", "x", 3, {"formerly": "orders"})).run(tmp_path, "of-x")
    assert found == [once("x", 3)]


def test_a_stream_that_is_added_to_the_others_of_a_state_is_not_told_of(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    def declared(*names: str) -> Program:
        program = Program()
        streams = [program.stream(name, 1) for name in names]
        return program.counted(program.topology.merge(*streams), "counts")

    declared("a", "b").run(tmp_path)
    assert declared("a", "b", "c").run(tmp_path, "counts") == [{"a0": 1, "b0": 1, "c0": 1}]
    assert not recwarn.list


# --- removed and put back -----------------------------------------------------------------------------------------


def pair(out: Rows, batches: int, both: bool = True) -> Program:
    program = Program(out)
    streams = [program.stream("a", batches)] + ([program.stream("b", batches)] if both else [])
    return program.handed(program.topology.merge(*streams) if both else streams[0], "out")


def test_a_stream_that_is_removed_and_put_back_goes_on_where_it_stood(tmp_path: Path) -> None:
    out: Rows = {}
    pair(out, 2).run(tmp_path)
    pair(out, 4, both=False).run(tmp_path)
    pair(out, 5).run(tmp_path)
    assert sorted(words(out)["out"]) == [f"{s}{n}" for s in "ab" for n in range(5)]


def test_a_stream_that_is_removed_while_a_batch_of_it_is_under_way_loses_nothing(tmp_path: Path) -> None:
    """A plain stop comes while a batch computes. Then the program runs once without that stream, and again with it."""
    out: Rows = {}
    program = Program(out)
    merged = program.topology.merge(program.stream("a", 3), program.stream("b", 3))
    running: list[Any] = []

    def stopping(word: str) -> str:
        if word == "b1":
            running[0].stop()
            raise ValueError("stopped in the middle")
        return word

    program.handed(merged.each("word", stopping, "seen string"), "out")
    running.append(start_local(program.topology, name="t", checkpointLocation=tmp_path))
    running[0].awaitTermination(timeout=20)
    left = [word for word in (f"{s}{n}" for s in "ab" for n in range(3)) if word not in words(out)["out"]]
    assert "b1" in left
    pair(out, 3, both=False).run(tmp_path)
    pair(out, 3).run(tmp_path)
    assert sorted(words(out)["out"]) == sorted(f"{s}{n}" for s in "ab" for n in range(3))


# --- merged and parted --------------------------------------------------------------------------------------------


def two(out: Rows, batches: dict[str, int], merged: bool) -> Program:
    program = Program(out)
    streams = [program.stream(name, count) for name, count in batches.items()]
    if merged:
        return program.handed(program.topology.merge(*streams), "both")
    for name, stream in zip(batches, streams, strict=True):
        program.handed(stream, name)
    return program


def test_streams_that_are_merged_and_parted_again_go_on_and_no_output_sees_a_txid_twice(tmp_path: Path) -> None:
    out: Rows = {}
    two(out, {"orders": 2}, merged=False).run(tmp_path)
    two(out, {"ads": 1, "orders": 3}, merged=True).run(tmp_path)
    two(out, {"ads": 4, "orders": 4}, merged=False).run(tmp_path)
    two(out, {"ads": 5, "orders": 6}, merged=True).run(tmp_path)
    seen = sorted(word for rows in out.values() for _, word in rows)
    assert seen == sorted([f"a{n}" for n in range(5)] + [f"o{n}" for n in range(6)])
    for rows in out.values():
        txids = [txid for txid, _ in rows]
        assert len(dict.fromkeys(zip(txids, rows, strict=True))) == len(rows) and txids == sorted(txids)


def triple(out: Rows, batches: int, parted: bool, fails: bool = False) -> Program:
    """Maps and visits have an output of both; notes another one, with the maps unless `parted`."""
    program = Program(out)
    maps, notes, visits = (program.stream(name, batches) for name in ("maps", "notes", "visits"))
    if fails:

        def fail(table: pa.Table, txid: int, attempt: int) -> None:
            raise ValueError("fails")

        program.topology.merge(maps, visits).foreachArrow(fail, name="left")
    else:
        program.handed(program.topology.merge(maps, visits), "left")
    return program.handed(notes, "alone") if parted else program.handed(program.topology.merge(notes, maps), "both")


def test_streams_that_are_parted_by_a_start_that_dies_continue_the_group_whose_batch_waits(tmp_path: Path) -> None:
    """The parted stream has a group of its own then, at the same txid, and the batch of the former group waits."""
    out: Rows = {}
    with pytest.raises(OutputError):
        triple(out, 1, parted=False, fails=True).run(tmp_path)
    killed("start.enrolled", lambda: triple(out, 2, parted=True).run(tmp_path))
    triple(out, 2, parted=False).run(tmp_path)
    assert sorted(words(out)["left"]) == ["m0", "m1", "v0", "v1"]
    assert sorted(words(out)["both"]) == ["m0", "m1", "n0", "n1"]


def test_adding_dead_letters_to_a_topology_does_not_read_other_streams_again(tmp_path: Path) -> None:
    """A state for letters connects all streams that have letters, and their group is then another one."""
    out: Rows = {}

    def declared(letters: bool, batches: int) -> Program:
        program = Program(out)
        for name in ("ads", "orders"):
            policy = {"onError": "deadLetter"} if letters else {}
            program.handed(program.stream(name, batches).each("word", lambda word: word, "same string", **policy), name)
        if letters:
            program.topology.deadLetterState(MemoryMapState.opaque())
        return program

    declared(False, 2).run(tmp_path)
    declared(True, 3).run(tmp_path)
    assert {name: len(rows) for name, rows in out.items()} == {"ads": 3, "orders": 3}
    assert words(out) == {"ads": ["a0", "a1", "a2"], "orders": ["o0", "o1", "o2"]}


def test_letters_may_come_back_or_not_while_other_streams_come_and_go(tmp_path: Path) -> None:
    def declared(name: str, back: bool, **how: Any) -> Program:
        program = Program()
        stream = program.stream(name, 2, **how)
        stream = (stream.replayable() if back else stream).each(
            "word", lambda w: w, "same string", onError="deadLetter"
        )
        program.counted(stream, "counts")
        program.topology.deadLetterState(MemoryMapState.opaque())
        return program

    declared("a", False).run(tmp_path)
    declared("b", True, formerly="a").run(tmp_path)
    assert declared("c", False, formerly="b").run(tmp_path, "counts") == [{"a0": 1, "a1": 1}]


def counted_apart(batches: int, merged: bool) -> Program:
    program = Program()
    streams = {name: program.stream(name, batches) for name in ("ads", "orders")}
    if merged:
        program.counted(program.topology.merge(*streams.values()), "orders")
    return program.counted(streams["ads"], "ads").counted(streams["orders"], "none" if merged else "orders")


def test_states_whose_streams_meet_are_refused_and_one_side_may_begin_anew(tmp_path: Path) -> None:
    counted_apart(2, merged=False).run(tmp_path)
    met = counted_apart(3, merged=True)
    with pytest.raises(
        CodeChangedError,
        match=r"of two batch groups: .*equal txids of the two groups are different "
        r"batches.*dropState\('t', '",
    ):
        met.run(tmp_path)
    assert counted_apart(2, merged=False).run(tmp_path, "ads", "orders")[0] == {"a0": 1, "a1": 1}
    dropState("t", "orders", tmp_path)
    assert met.run(tmp_path, "ads", "orders") == [{"a0": 1, "a1": 1, "a2": 1}, {"a2": 1, "o2": 1}]


def test_states_whose_streams_part_are_refused_and_one_side_may_begin_anew(tmp_path: Path) -> None:
    def declared(connected: bool, batches: int) -> Program:
        program = Program()
        streams = [program.stream(name, batches) for name in ("ads", "orders")]
        program.counted(streams[0], "ads").counted(streams[1], "orders")
        if connected:
            program.handed(program.topology.merge(*streams), "both")
        return program

    declared(True, 2).run(tmp_path)
    with pytest.raises(CodeChangedError, match=r"one batch group, 'ads', .*dropState\('t', '"):
        declared(False, 3).run(tmp_path)
    dropState("t", "orders", tmp_path)
    found = declared(False, 3).run(tmp_path, "ads", "orders")
    assert found == [{"a0": 1, "a1": 1, "a2": 1}, {"o2": 1}]


def moved(batches: int, away: bool) -> Program:
    """Two streams and their states; or the second one's state is left out, and the first state takes both."""
    program = Program()
    x, y = program.stream("x", 1), program.stream("y", batches)
    if away:
        return program.counted(program.topology.merge(x, y), "of-x")
    return program.counted(x, "of-x").counted(y, "of-y")


def test_a_stream_that_went_on_in_another_group_does_not_come_back_to_a_state_that_lacks_it(tmp_path: Path) -> None:
    moved(2, away=False).run(tmp_path)
    moved(3, away=True).run(tmp_path)
    with pytest.raises(CodeChangedError, match=r"'y' fed 'of-y' in an earlier program.*dropState\('t', 'of-y'.*name="):
        moved(4, away=False).run(tmp_path)
    assert moved(4, away=True).run(tmp_path, "of-x") == [{"x0": 1, "y2": 1, "y3": 1}], "it may stay where it is"
    dropState("t", "of-y", tmp_path)
    assert moved(5, away=False).run(tmp_path, "of-y") == [{"y4": 1}]
    assert moved(6, away=False).run(tmp_path, "of-y") == [{"y4": 1, "y5": 1}], "and an unchanged program goes on"


def test_a_stream_that_did_not_go_on_meanwhile_comes_back_to_its_state(tmp_path: Path) -> None:
    moved(2, away=False).run(tmp_path)
    moved(2, away=True).run(tmp_path)
    assert moved(4, away=False).run(tmp_path, "of-y") == [once("y", 4)]


def test_a_state_that_began_anew_meanwhile_lacks_nothing(tmp_path: Path) -> None:
    def counting(name: str, batches: int) -> Program:
        program = Program()
        streams = {each: program.stream(each, batches) for each in ("x", "y")}
        return program.handed(program.topology.merge(*streams.values()), "both").counted(streams[name], "counts")

    counting("y", 1).run(tmp_path)
    counting("x", 2).run(tmp_path)
    with pytest.raises(CodeChangedError, match="'y' fed 'counts' in an earlier program"):
        counting("y", 3).run(tmp_path)
    dropState("t", "counts", tmp_path)
    counting("x", 3).run(tmp_path)
    assert counting("y", 4).run(tmp_path, "counts") == [{"x2": 1, "y3": 1}]


def test_a_state_lacks_what_its_stream_brought_while_its_group_had_no_batch(tmp_path: Path) -> None:
    """Nor does it help that the stream was back in the group for a start, without the state."""

    def declared(batches: int, together: bool, counted: bool) -> Program:
        program = Program()
        x, y = program.stream("x", 1), program.stream("y", batches)
        program.counted(x, "of-x")
        if counted:
            program.counted(y, "of-y")
        return program.handed(program.topology.merge(x, y) if together else y, "both" if together else "y")

    declared(1, together=True, counted=True).run(tmp_path)
    declared(3, together=False, counted=False).run(tmp_path)
    with pytest.raises(CodeChangedError, match=r"'y' fed 'of-y' in an earlier program"):
        declared(3, together=True, counted=True).run(tmp_path)
    declared(3, together=True, counted=False).run(tmp_path)
    with pytest.raises(CodeChangedError, match=r"'y' fed 'of-y' in an earlier program"):
        declared(3, together=True, counted=True).run(tmp_path)
    dropState("t", "of-y", tmp_path)
    assert declared(4, together=True, counted=True).run(tmp_path, "of-x", "of-y") == [{"x0": 1}, {"y3": 1}]


def test_a_stream_without_dead_letters_for_a_while_did_not_leave_their_state(tmp_path: Path) -> None:
    """While nothing keeps them there are none, so that their state lacks nothing."""
    out: Rows = {}

    def declared(letters: bool, batches: int) -> Program:
        program = Program(out)
        for name, kept in (("x", True), ("y", letters)):
            policy = {"onError": "deadLetter"} if kept else {}
            program.handed(program.stream(name, batches).each("word", lambda word: word, "same string", **policy), name)
        program.topology.deadLetterState(MemoryMapState.opaque())
        return program

    for letters, batches in ((True, 1), (False, 2), (True, 3)):
        declared(letters, batches).run(tmp_path)
    assert words(out) == {"x": ["x0", "x1", "x2"], "y": ["y0", "y1", "y2"]}


def test_an_output_that_moves_to_a_group_with_lower_txids_is_refused(tmp_path: Path) -> None:
    def declared(home: str, batches: int) -> Program:
        program = Program()
        program.counted(program.stream("slow", 1), "counts")
        fast = program.stream("fast", batches)
        program.handed(fast, "fast")
        if home == "slow":
            program = Program()
            slow, fast = program.stream("slow", 1), program.stream("fast", batches)
            program.counted(program.topology.merge(slow, fast), "counts")
            program.handed(fast, "fast")
        return program

    declared("fast", 5).run(tmp_path)
    with pytest.raises(CodeChangedError, match=r"output 'fast' had batches up to txid 5 .*Give it another name="):
        declared("slow", 6).run(tmp_path)


# --- another source -----------------------------------------------------------------------------------------------


def test_another_source_under_a_streams_name_is_refused_and_may_begin_anew(tmp_path: Path) -> None:
    def declared(spout: Callable[[], Any], **how: Any) -> Program:
        program = Program()
        stream = program.stream("words", 0, spout=spout(), **how)
        return program.counted(stream, "counts")

    def fixed() -> Any:
        return FixedBatchSpout("word string", [["x"], ["y"]])

    class Listed(FixedBatchSpout):
        """Another kind of source, whose positions look the same."""

    def listed() -> Any:
        return Listed("word string", [["z"]])

    declared(fixed).run(tmp_path)
    with pytest.raises(CodeChangedError, match=r"a FixedBatchSpout under the name 'words'.*anew=True"):
        declared(listed).run(tmp_path)
    assert declared(listed, anew=True).run(tmp_path, "counts") == [{"x": 1, "y": 1, "z": 1}]
    assert declared(listed).run(tmp_path, "counts") == [{"x": 1, "y": 1, "z": 1}]


def test_a_mistaken_start_that_read_nothing_leaves_the_name_to_the_right_source(tmp_path: Path) -> None:
    mistaken = Program()
    mistaken.counted(mistaken.stream("words", 0, spout=FeederBatchSpout("word string")), "counts").run(tmp_path)
    right = Program()
    right.counted(right.stream("words", 2), "counts")
    assert right.run(tmp_path, "counts") == [{"w0": 1, "w1": 1}]


def test_a_start_takes_over_from_a_driver_whose_batches_go_on_meanwhile(tmp_path: Path) -> None:
    """Between the first look at the log and its taking, the former driver freezes more."""
    out: Rows = {}
    feeder = FeederBatchSpout("word string")
    program = Program(out)
    program.handed(program.stream("words", 0, spout=feeder), "out")
    first = start_local(program.topology, name="t", checkpointLocation=tmp_path)
    registry.release("t", first)  # the second one runs as if in another process
    feeder.feed(["a"], wait=True, timeout=20)
    take = SqliteLog.take

    def late(log: SqliteLog, *arguments: Any, **named: Any) -> Any:
        feeder.feed(["b"], wait=True, timeout=20)
        return take(log, *arguments, **named)

    later = Program(out)
    later.handed(later.stream("words", 0, spout=FeederBatchSpout("word string")), "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteLog, "take", late)
        later.run(tmp_path)
    with pytest.raises(FencedError):
        first.awaitTermination(timeout=20)
    assert out["out"][:2] == [(1, "a"), (2, "b")]


def test_files_that_are_read_in_another_form_under_the_same_name_are_warned_of(tmp_path: Path) -> None:
    """The same rows as Parquet and as JSON in one folder would count twice."""
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    data.mkdir()
    pq.write_table(pa.table({"word": ["UA", "DL"]}), data / "flights.parquet")

    def declared(pattern: str, **how: Any) -> Program:
        program = Program()
        spout = FileSpout(data / pattern, **how)
        return program.counted(program.stream("flights", 0, spout=spout), "counts")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # nothing to warn of
            assert declared("*.parquet", format="parquet").run(checkpoint, "counts") == [{"UA": 1, "DL": 1}]
    (data / "flights.json").write_text('{"word": "UA"}\n{"word": "DL"}\n')
    expected = (
        "stream 'flights' continues at its position: its files were read as parquet (word string) before, and are read "
        f"as json (word string) from now on. If {data}/*.json contains rows that were already read in the other "
        "format, they count twice"
    )
    with pytest.warns(RuntimeWarning, match=re.escape(expected)):
        declared("*.json", format="json", schema="word string").run(checkpoint)
    other_fields = r"read as json \(word string\) before, and are read as json \(word string, n bigint\)"
    with pytest.warns(RuntimeWarning, match=other_fields):
        declared("*.json", format="json", schema="word string, n long").run(checkpoint)
