"""A best-effort branch: its failures are reported, and the batch is committed all the same."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trident
from tests.support.topologies import stream
from trident import Count, Debug, MapGet, TridentTopology
from trident.errors import FailedException, TopologyError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def counted(topology: TridentTopology, spout: Any) -> Any:
    lines = topology.newStream("lines", spout)
    lines.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    return lines


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_branch_skips_and_counts_the_tuples_that_fail_in_it(tmp_path: Path) -> None:
    topology, seen, taken = TridentTopology(), [], []
    lines = counted(topology, FixedBatchSpout("line string", [["1"], ["x", "2", "y"], ["3", "4"]]))
    branch = lines.bestEffort().each("line", int, "n long").filter("n", lambda n: 12 // (n - 2) > 0, onError="skip")
    branch.peek("n", seen.append).foreachArrow(lambda table, txid, _: taken.append((txid, table["n"].to_pylist())))
    with start_local(topology, name="t", checkpointLocation=tmp_path, maxAttempts=1) as running:
        running.processAllAvailable(timeout=20)
        assert running.state("n").value == 6
        until(lambda: (3, [3, 4]) in taken)
        assert seen == [3, 4] and [rows for txid, rows in taken if txid != 2] == [[], [3, 4]]
        (event,) = [event for event in running.recentProgress if event["event"] not in ("committed", "failed")]
        assert event["event"] == "skipped" and event["phase"] == "bestEffort" and event["txid"] == 2
        assert event["group"] == "lines"
        assert event["skipped"] == {"lines.bestEffort/1:each(int)": 2, "lines.bestEffort/2:filter(<lambda>)": 1}
        assert not [event for event in running.recentProgress if event["event"] == "failed"]


def test_what_is_no_tuples_fault_is_told_and_everything_else_goes_on(tmp_path: Path) -> None:
    topology, seen, taken = TridentTopology(), [], []
    lines = counted(topology, FixedBatchSpout("line string", [["1"], ["2", "give up"], ["3", "4"]]))

    def number(line: str) -> int:
        if line == "give up":
            raise FailedException("asked for")
        return int(line)

    branch = lines.bestEffort().each("line", number, "n long").peek("n", seen.append)
    branch.foreachArrow(lambda table, txid, attempt: taken.append((txid, table["n"].to_pylist())))
    with start_local(topology, name="t", checkpointLocation=tmp_path, maxAttempts=1) as running:
        running.processAllAvailable(timeout=20)
        assert running.state("n").value == 5
        until(lambda: len(taken) == 2)
        assert seen == [1, 3, 4] and taken == [(1, [1]), (3, [3, 4])]
        (failed,) = [event for event in running.recentProgress if event["event"] == "failed"]
        assert failed["phase"] == "bestEffort" and failed["txid"] == 2 and failed["group"] == "lines"
        assert "asked for" in failed["error"] and failed["numInputRows"] == 2, "the tuples that the branch missed"


def test_a_branch_that_hangs_loses_batches_and_holds_none_up(tmp_path: Path) -> None:
    topology, feeder, free, taken = TridentTopology(), FeederBatchSpout("line string"), threading.Event(), []

    def slow(table: Any, txid: int, attempt: int) -> None:
        taken.append(txid)
        free.wait(20)

    counted(topology, feeder).bestEffort().foreachArrow(slow)
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        feeder.feed(["1"])
        running.processAllAvailable(timeout=20)
        until(lambda: taken == [1])
        for n in range(2, 7):
            feeder.feed([str(n)])
        running.processAllAvailable(timeout=20)
        assert running.state("n").value == 6 and taken == [1]
        left_out = [event["txid"] for event in running.recentProgress if event["event"] == "failed"]
        assert left_out == [2, 3, 4]
        free.set()
        until(lambda: taken == [1, 5, 6])


def test_debug_shows_what_passes_a_branch(tmp_path: Path) -> None:
    topology = TridentTopology()
    counted(topology, FixedBatchSpout("line string", [["1"]])).bestEffort("look").each(Debug("seen"))
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        until(lambda: running.debugOutput != [])
        assert running.debugOutput == ["DEBUG(seen) 1:0: ['1']"]


def test_a_branch_without_effect_is_refused_at_the_start(tmp_path: Path) -> None:
    topology = TridentTopology()
    counted(topology, FixedBatchSpout("line string", [["1"]])).bestEffort().each("line", int, "n long")
    with pytest.raises(TopologyError, match=r"lines/2:bestEffort .* branch has no effect; end it with peek, Debug or"):
        start_local(topology, name="t", checkpointLocation=tmp_path)
    assert not trident.active()


EXACT: list[Callable[[Any, Any], object]] = [
    lambda s, state: s.persistentAggregate(MemoryMapState.opaque(), Count(), "n"),
    lambda s, state: s.writeParquet("/data/x"),
    lambda s, state: s.bestEffort(),
    lambda s, state: s.partitionPersist(MemoryMapState.opaque(), lambda a, b, c: None, valueType="long", name="p"),
]


@pytest.mark.parametrize("call", EXACT)
def test_what_is_to_be_exact_does_not_belong_to_a_branch(call: Callable[[Any, Any], object]) -> None:
    with pytest.raises(TopologyError) as raised:
        call(stream("line string").bestEffort(), None)
    assert "the branch that begins with bestEffort at test_best_effort.py:" in str(raised.value)
    assert "may lose batches, so it takes only peek, Debug and foreachBatch, and nothing that must be exact" in str(
        raised.value
    )


def test_a_branch_meets_no_state_and_no_other_stream_and_keeps_no_letters() -> None:
    topology = TridentTopology()
    lines = stream("line string", topology=topology)
    counts = lines.groupBy("line").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    branch = lines.bestEffort()
    with pytest.raises(TopologyError, match=r"state 'n' cannot join the branch .* bestEffort at test_best_effort\.py:"):
        branch.stateQuery(counts, "line", MapGet(), "n")
    for one, other in ((branch, lines), (lines, branch)):
        with pytest.raises(TopologyError, match=r"string\) cannot join the branch that begins with bestEffort at"):
            one.merge(other)
    with pytest.raises(TopologyError, match="a best-effort branch cannot keep dead letters; use onError='skip'"):
        branch.each("line", int, "x long", onError="deadLetter")
    with pytest.raises(
        TopologyError, match="DRPC requests cannot have an output: its tuples only become the function's answer"
    ):
        topology.newDRPCStream("ask").bestEffort()


def test_a_branch_is_explained_and_drawn_with_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    stream("line string", topology=topology).bestEffort().each("line", len, "n long").peek(print)
    topology.explain()
    said = capsys.readouterr().out
    assert "branch lines.bestEffort, never delays a batch" in said and "stream lines.bestEffort" in said
    assert "lines.bestEffort/2:peek(print)" in said
    assert "peek(print)" in topology.draw("mermaid")


def test_a_split_in_a_branch_skips_as_well(tmp_path: Path) -> None:
    topology, taken = TridentTopology(), []

    def by_sign(line: str) -> Any:
        return ("plus" if int(line) > 0 else "minus"), int(line)

    lines = counted(topology, FixedBatchSpout("line string", [["1", "x", "-2", "3"]]))
    signs = {"plus": "n long", "minus": "n long"}
    (plus, minus) = lines.bestEffort().split("line", by_sign, streams=signs)
    plus.foreachArrow(lambda table, txid, attempt: taken.append(table["n"].to_pylist()))
    minus.peek("n", lambda n: None)
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        until(lambda: taken == [[1, 3]])
        (event,) = [event for event in running.recentProgress if event["event"] == "skipped"]
        assert event["skipped"] == {"lines.bestEffort/1:split(by_sign)": 1}
