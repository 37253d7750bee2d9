"""FeederBatchSpout: fed from any thread, each batch kept until it is committed."""

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.plans import logged, planned
from trident import TridentTopology
from trident.errors import BatchFailedError, FeedTimeoutError, FencedError, SpoutContractError, SpoutError, TridentError
from trident.spouts import FeederBatchSpout, SpoutKind, TransactionAttempt
from trident.testing import TestOutput
from trident.testing.local import start_local
from trident_spouts.executor import Metadata, SpoutExecutor


def words(executor: SpoutExecutor, metadata: Metadata, attempt: int = 0) -> list[str]:
    return list(executor.emit(TransactionAttempt(1, attempt), metadata).arrow().column(0).to_pylist())


def test_nothing_is_planned_until_something_is_fed() -> None:
    spout = FeederBatchSpout("word string")
    executor = spout.open()
    assert executor.plan(TransactionAttempt(1, 0), None, 0.0) is None
    spout.feed(["a", "b"])
    first = logged(executor.plan(TransactionAttempt(1, 0), None, 0.0))
    assert words(executor, first) == ["a", "b"]
    assert executor.plan(TransactionAttempt(2, 0), first, 0.0) is None


def test_each_feed_is_a_batch_and_an_empty_one_counts() -> None:
    spout = FeederBatchSpout("n long")
    spout.feed([1, 2])
    spout.feed([])
    spout.feed(pa.table({"n": [3]}))
    executor = spout.open()
    plans = planned(spout, executor=executor)
    assert [words(executor, plan) for plan in plans] == [[1, 2], [], [3]]


def test_a_replay_emits_the_same_until_the_batch_is_committed() -> None:
    spout = FeederBatchSpout("word string")
    spout.feed(["a"])
    spout.feed(["b"])
    executor = spout.open()
    first, second = planned(spout, executor=executor)
    executor.fail(TransactionAttempt(1, 0))
    assert words(executor, first, attempt=1) == ["a"]
    executor.success(1, first)
    assert words(executor, second) == ["b"]
    assert repr(spout) == "FeederBatchSpout('word string', 2 batches fed, 1 committed)"


def test_the_next_run_in_this_process_goes_on_with_what_is_not_committed() -> None:
    spout = FeederBatchSpout("word string")
    spout.feed(["a"])
    spout.feed(["b"])
    executor = spout.open()
    first = planned(spout, executor=executor)[0]
    executor.success(1, first)
    executor.close()
    again = spout.open()
    assert [words(again, plan) for plan in planned(spout, executor=again, previous=first)] == [["b"]]
    again.close()
    reset = spout.open()  # a log that begins anew, and the same feeder
    assert [words(reset, plan) for plan in planned(spout, executor=reset)] == [["b"]]


def test_what_an_earlier_process_was_fed_is_gone() -> None:
    before = FeederBatchSpout("word string")
    before.feed(["a"])
    lost = planned(before)[0]
    spout = FeederBatchSpout("word string")
    spout.feed(["b"])
    executor = spout.open()
    assert words(executor, executor.plan(TransactionAttempt(2, 0), lost, 0.0)) == ["b"]
    assert spout.kind is SpoutKind.NON_TRANSACTIONAL


def test_feed_waits_for_the_commit_of_its_batch_and_of_no_earlier_one() -> None:
    spout = FeederBatchSpout("word string")
    executor = spout.open()
    returned = threading.Event()

    def feed() -> None:
        spout.feed(["b"], wait=True, timeout=30)
        returned.set()

    spout.feed(["a"])
    thread = threading.Thread(target=feed)
    thread.start()
    while len(plans := planned(spout, executor=executor)) < 2:
        pass
    executor.success(1, plans[0])
    assert not returned.wait(0.1)
    executor.success(2, plans[1])
    assert returned.wait(10)
    thread.join()


def test_feed_says_when_the_commit_did_not_come_in_time() -> None:
    spout = FeederBatchSpout("word string")
    with pytest.raises(
        FeedTimeoutError, match=r"batch 0 was not committed within 0.01 s; it is still in the queue \(0 of 1"
    ):
        spout.feed(["a"], wait=True, timeout=0.01)
    assert len(planned(spout)) == 1


def test_feed_does_not_wait_for_a_topology_that_stopped() -> None:
    spout = FeederBatchSpout("word string")
    executor = spout.open()
    threading.Timer(0.05, executor.close).start()
    with pytest.raises(
        SpoutError, match="the topology stopped before batch 0 was committed; the batch is still in the queue."
    ):
        spout.feed(["a"], wait=True, timeout=30)


def test_after_finish_nothing_more_is_taken() -> None:
    spout = FeederBatchSpout("word string")
    spout.feed(["a"])
    spout.finish()
    with pytest.raises(SpoutError, match=r"finish\(\) was called"):
        spout.feed(["b"])
    assert len(planned(spout)) == 1


def test_a_wrong_value_is_named_and_nothing_is_fed() -> None:
    spout = FeederBatchSpout("n long")
    with pytest.raises(
        SpoutContractError, match=r"FeederBatchSpout, batch 0, row 1, field 'n': expected bigint, got 'x' \(str\)"
    ):
        spout.feed([1, "x"])
    assert planned(spout) == []


def test_many_threads_feed_and_every_row_comes_once() -> None:
    spout = FeederBatchSpout("n long")
    threads = [
        threading.Thread(target=lambda at=at: [spout.feed([at * 100 + i]) for i in range(100)])  # type: ignore[misc]
        for at in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    executor = spout.open()
    rows = [row for plan in planned(spout, limit=1000, executor=executor) for row in words(executor, plan)]
    assert sorted(map(int, rows)) == list(range(800))


def test_it_cannot_be_pickled_and_says_why() -> None:
    with pytest.raises(TypeError, match="fed in this process and cannot be pickled"):
        pickle.dumps(FeederBatchSpout("n long"))


def test_a_batch_for_a_topology_that_has_failed_is_an_error() -> None:
    feeder, topology = FeederBatchSpout("n long"), TridentTopology()
    numbers = topology.newStream("numbers", feeder)
    assert numbers.take(1) == []
    feeder.feed([1])  # a preview is no run
    numbers.each("n", lambda n: 1 // n, "x long").peek("x", print)
    running = start_local(topology, maxAttempts=1)
    running.processAllAvailable(timeout=60)
    feeder.feed([0])
    with pytest.raises(BatchFailedError):
        running.awaitTermination(timeout=20)
    with pytest.raises(SpoutError) as refused:
        feeder.feed([2])
    assert "so the batch was not added to the queue (1 earlier batch is not committed)" in str(refused.value)
    assert "call awaitTermination() of its handle; then start a topology with this spout again" in str(refused.value)


def test_a_batch_for_a_driver_that_was_taken_over_is_an_error(tmp_path: Path) -> None:
    """No attempt has failed: the run ends because another driver has the log."""
    feeder, topology = FeederBatchSpout("n long"), TridentTopology()
    topology.newStream("numbers", feeder).peek("n", print)
    running = start_local(topology, name="t", checkpointLocation=tmp_path)
    feeder.feed([1], wait=True, timeout=20)
    code = "from tests.spouts.test_feeder_batch_spout import take_over; take_over()"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
    with pytest.raises(FencedError):
        running.awaitTermination(timeout=60)
    with pytest.raises(SpoutError, match="has failed, so the batch was not added to the queue"):
        feeder.feed([2])
    running.stop()


def take_over() -> None:
    """Start the topology in another process, over the checkpoint that the command line names."""
    topology = TridentTopology()
    topology.newStream("numbers", FeederBatchSpout("n long")).peek("n", print)
    start_local(topology, name="t", checkpointLocation=sys.argv[1]).stop()


def test_what_is_fed_after_a_stop_is_taken_by_the_next_start(tmp_path: Path) -> None:
    feeder, output, topology = FeederBatchSpout("n long"), TestOutput(), TridentTopology()
    topology.newStream("numbers", feeder).foreachArrow(output)
    for number in (1, 2):
        with start_local(topology, name="t", checkpointLocation=tmp_path):
            feeder.feed([number], wait=True, timeout=20)
        feeder.feed([number * 10])
    assert [row.n for row in output.rows] == [1, 10, 2]


def in_a_forked_child(calls: list[Callable[[], object]]) -> list[str]:
    """Make each call in a forked child, and return what it raised."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            for call in calls:
                with pytest.raises(TridentError) as raised:
                    call()
                os.write(writing, f"{raised.value}\n".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        lines = told.read().splitlines()
    os.waitpid(child, 0)
    return lines


def test_what_a_forked_child_feeds_would_be_lost() -> None:
    spout, topology, output = FeederBatchSpout("word string"), TridentTopology(), TestOutput()
    topology.newStream("words", spout).foreachArrow(output)
    with start_local(topology) as running:
        spout.feed(["a"], wait=True, timeout=10)
        told = in_a_forked_child([lambda: spout.feed(["b"]), running.processAllAvailable, running.awaitTermination])
        assert ["in the process that forked this one" in line for line in told] == [True] * 3
        spout.feed(["c"], wait=True, timeout=10)
    assert [row.word for row in output.rows] == ["a", "c"]
    spout.feed(["d"])  # no run reads it: it waits for the next start
