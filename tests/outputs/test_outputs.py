"""Batches handed to a user's function: their order and attempts, and the effect of errors of the function."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import trident
from trident import Count, MapGet, TridentTopology
from trident.base.attempt import Lease
from trident.errors import FencedError, MissingSessionError, OutputError, OutputUnavailableError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MapState, MemoryMapState
from trident.testing.local import start_local

Handed = tuple[int, int, list[tuple[Any, ...]]]


pytestmark = pytest.mark.usefixtures("nothing_left_running")


class Taking:
    """Notes what it is handed; `raises` gives what to raise at a call, by its number."""

    def __init__(self, raises: Callable[[int], BaseException | None] = lambda call: None) -> None:
        self.calls: list[Handed] = []
        self.raises = raises

    def __call__(self, table: pa.Table, txid: int, attempt: int) -> None:
        rows = sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)
        self.calls.append((txid, attempt, rows))
        error = self.raises(len(self.calls))
        if error is not None:
            raise error


def words(topology: TridentTopology, *batches: list[str]) -> Any:
    return topology.newStream("words", FixedBatchSpout("word string", [list(batch) for batch in batches]))


def run(topology: TridentTopology, checkpoint: Path, **options: Any) -> Any:
    with start_local(topology, name="t", checkpointLocation=checkpoint, **options) as running:
        running.processAllAvailable(timeout=20)
        return running.recentProgress


def test_every_batch_comes_in_order_also_an_empty_one_and_needs_no_state(tmp_path: Path) -> None:
    taking, topology = Taking(), TridentTopology()
    words(topology, ["a", "b"], ["x"], ["c"]).filter("word", lambda w: w < "x").foreachArrow(taking)
    events = run(topology, tmp_path)
    assert taking.calls == [(1, 0, [("a",), ("b",)]), (2, 0, []), (3, 0, [("c",)])]
    assert [event["outputs"] for event in events] == [{"words.foreachArrow": {"rows": n}} for n in (2, 0, 1)]


def test_new_values_answers_and_what_an_updater_emits_leave_from_later_stages(tmp_path: Path) -> None:
    totals, asked, emitted, topology = Taking(), Taking(), Taking(), TridentTopology()

    def seen(state: MapState, tuples: Any, collector: Any) -> None:
        fresh = [t.word for t in tuples if state.multiGet([t.word]) == [None]]
        state.multiPut(fresh, [1] * len(fresh))
        for word in fresh:
            collector.emit([word])

    stream = words(topology, ["a", "b"], ["a"])
    counts = stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    counts.newValuesStream().foreachArrow(totals, name="totals")
    counts.newValuesStream().filter("count", lambda n: n > 1).foreachArrow(asked, name="many")
    stream.stateQuery(counts, "word", MapGet(), "before").foreachArrow(emitted, name="before")
    first = stream.partitionPersist(
        MemoryMapState.opaque(), seen, "word string", keyFields="word", valueType="int", name="seen"
    )
    news = Taking()
    first.newValuesStream().foreachArrow(news, name="news")
    run(topology, tmp_path)
    assert totals.calls == [(1, 0, [("a", 1), ("b", 1)]), (2, 0, [("a", 2)])]
    assert asked.calls == [(1, 0, []), (2, 0, [("a", 2)])]
    assert emitted.calls == [(1, 0, [("a", None), ("b", None)]), (2, 0, [("a", 1)])]
    assert news.calls == [(1, 0, [("a",), ("b",)]), (2, 0, [])]


def test_it_is_called_after_the_states_hold_the_batch_and_before_the_batch_is_committed(tmp_path: Path) -> None:
    found: list[Any] = []

    def look(table: pa.Table, txid: int, attempt: int) -> None:
        (running,) = trident.active()
        found.append((running.state("n", isolation="latest").value, running.state("n").value))

    topology = TridentTopology()
    stream = words(topology, ["a", "b"], ["c"])
    stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    stream.foreachArrow(look)
    run(topology, tmp_path)
    assert found == [(2, None), (3, 2)]


def test_a_function_that_raises_is_given_the_same_rows_again(tmp_path: Path) -> None:
    taking = Taking(lambda call: ValueError("not now") if call in (2, 3) else None)
    topology = TridentTopology()
    words(topology, ["a"], ["b"]).foreachArrow(taking)
    events = run(topology, tmp_path)
    assert taking.calls == [(1, 0, [("a",)]), (2, 0, [("b",)]), (2, 1, [("b",)]), (2, 2, [("b",)])]
    failed = [event["error"] for event in events if event["event"] == "failed"]
    assert len(failed) == 2
    assert failed[0].startswith("OutputError: words/1:foreachArrow(Taking): Taking (test_outputs.py:")
    assert failed[0].endswith(" raised ValueError: not now; it was called with batch 2, attempt 0")


def test_one_that_always_raises_stops_the_group_and_the_next_start_hands_the_batch_over(tmp_path: Path) -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout("word string")
    taking = Taking(lambda call: ValueError("never") if call <= 3 else None)
    topology.newStream("words", feeder).foreachArrow(taking)
    options: dict[str, Any] = {"name": "t", "checkpointLocation": tmp_path}
    running = start_local(topology, maxAttempts=3, **options)
    feeder.feed(["a"])
    with pytest.raises(OutputError, match="raised ValueError: never; it was called with batch 1, attempt 2"):
        running.processAllAvailable(timeout=20)
    running.stop()
    with start_local(topology, **options) as again:
        again.processAllAvailable(timeout=20)
    assert taking.calls[3:] == [(1, 3, [("a",)])], "the attempts go on: none has the number of an earlier one"


@pytest.mark.parametrize("error", [ConnectionResetError("away"), TimeoutError(), OSError(28, "No space left")])
def test_what_is_away_or_full_is_tried_again_for_longer_than_maxattempts(error: OSError, tmp_path: Path) -> None:
    taking = Taking(lambda call: error if call < 6 else None)
    topology = TridentTopology()
    words(topology, ["a"]).foreachArrow(taking)
    run(topology, tmp_path, maxAttempts=2)
    assert [attempt for _, attempt, _ in taking.calls] == [0, 1, 2, 3, 4, 5]


def test_one_that_stays_away_ends_the_group_after_commitretrysecs(tmp_path: Path) -> None:
    topology = TridentTopology()
    words(topology, ["a"]).foreachArrow(Taking(lambda call: ConnectionRefusedError("nobody")))
    with pytest.raises(OutputUnavailableError, match="raised ConnectionRefusedError: nobody"):
        run(topology, tmp_path, commitRetrySecs=0.05)


def test_an_error_that_cannot_go_away_is_not_tried_again(tmp_path: Path) -> None:
    taking = Taking(lambda call: trident.errors.UserCodeError("a bug"))
    topology = TridentTopology()
    words(topology, ["a"]).foreachArrow(taking)
    with pytest.raises(trident.errors.UserCodeError, match="a bug"):
        run(topology, tmp_path)
    assert len(taking.calls) == 1


def test_a_driver_whose_log_was_taken_over_hands_nothing_over(tmp_path: Path) -> None:
    topology, feeder, taking = TridentTopology(), FeederBatchSpout("word string"), Taking()
    topology.newStream("words", feeder).foreachArrow(taking)
    running = start_local(topology, name="t", checkpointLocation=tmp_path)
    feeder.feed(["a"])
    running.processAllAvailable(timeout=20)
    (run_of_group,) = running._runs.values()
    run_of_group._context.committer.lease = Lease(0, "a zombie's")  # what is frozen is handed over by who holds the log
    with pytest.raises(FencedError, match="another driver has taken over the log"):
        run_of_group._context.committer._hand_over(run_of_group.group.sinks[0].step, pa.table({"word": ["b"]}), 2)  # type: ignore[arg-type]
    assert [txid for txid, _, _ in taking.calls] == [1]
    running.stop()


def test_without_spark_no_dataframe_is_made_and_it_is_said(tmp_path: Path) -> None:
    topology = TridentTopology()
    words(topology, ["a"]).foreachBatch(lambda df, txid, attempt: None)
    with pytest.raises(MissingSessionError, match=r"words/1:foreachBatch\(<lambda>\) .*: get .* with foreachArrow"):
        run(topology, tmp_path)
    assert not trident.active()


def test_an_output_that_cannot_take_a_waiting_batch_may_be_removed(tmp_path: Path) -> None:
    def broken(table: pa.Table, txid: int, attempt: int) -> None:
        raise ValueError("no")

    topology = TridentTopology()
    stream = words(topology, ["a"])
    stream.foreachArrow(broken, name="out")
    stream.foreachArrow(Taking(), name="other")
    with pytest.raises(OutputError):
        run(topology, tmp_path, maxAttempts=1)
    changed, taking = TridentTopology(), Taking()
    words(changed, ["a"], ["b"]).foreachArrow(taking, name="other")
    run(changed, tmp_path)
    assert taking.calls == [(1, 1, [("a",)]), (2, 0, [("b",)])]


def test_a_function_whose_body_nothing_runs_is_told(tmp_path: Path) -> None:
    seen: list[Any] = []

    def later(table: pa.Table, txid: int, attempt: int) -> Any:
        seen.append(txid)
        yield

    topology = TridentTopology()
    words(topology, ["a"]).foreachArrow(lambda table, txid, attempt: later(table, txid, attempt))
    with pytest.raises(OutputError, match="it returned a generator, whose body never runs: process the rows in"):
        run(topology, tmp_path, maxAttempts=1)
    assert seen == []
