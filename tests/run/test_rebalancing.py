"""Other numbers of partitions between two batches of one run: the same txids go on, and every count is exact."""

import itertools
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.waiting import wait_until
from trident import CollectList, Count, TridentTopology, TumblingCountWindow
from trident.base.errors import TopologyConditionError, TopologyError
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout, PollingSpout
from trident.state import BackingMapState, MemoryMapState
from trident.testing import PAUSE, TestSource
from trident.testing.local import start_local

ROWS = 30


def words_from(position: int | None, limit: int) -> tuple[list[str], int]:
    first = position or 0
    return [f"w{n % 7}" for n in range(first, first + limit)], first + limit


def counting(seen: list[tuple[int, int]], function: Callable[[str], str] = str) -> TridentTopology:
    """Count words; `seen` gets the txid of each batch, and the number of its partitions."""
    topology = TridentTopology()
    source = topology.newStream("lines", PollingSpout("word string", {"words": words_from}, maxRows=ROWS))
    words = source.map("word", function, "word string").name("words").shuffle().parallelismHint(2)
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    parts = words.partitionAggregate("word", Count(), "n")
    parts.foreachArrow(lambda table, txid, attempt: seen.append((txid, table.num_rows)))
    return topology


def check_rebalanced(running: RunningTopology, seen: list[tuple[int, int]], capsys: Any, batches: int) -> None:
    """Rebalance 2 -> 5 -> 3, with so many batches of each, and compare the partitions, the txids and the counts."""
    assert running.parallelismHints == {"words/1": 2}
    at = []
    for count in (2, 5, 3):
        if count != 2:
            running.rebalance({"words": count})
            running.explain()
            assert f"in {count} partitions" in capsys.readouterr().out
        at.append(running.asOfTxid["lines"])
        wait_until(lambda: running.asOfTxid["lines"] >= at[-1] + batches, 60)
        assert running.parallelismHints == {"words/1": count} and running.condition == "ACTIVE"
    assert running.deactivate(wait=60)
    last = running.asOfTxid["lines"]
    assert [txid for txid, _ in seen] == list(range(1, last + 1))
    expected = [2 if txid <= at[1] else 5 if txid <= at[2] else 3 for txid in range(1, last + 1)]
    assert [count for _, count in seen] == expected
    assert dict(running.state("counts").items()) == Counter(words_from(0, ROWS * last)[0])


def test_two_five_three_partitions_in_a_running_word_count(capsys: Any) -> None:
    seen: list[tuple[int, int]] = []
    with start_local(counting(seen), name="wc") as running:
        check_rebalanced(running, seen, capsys, 20)
        assert running.status["lease"]["epoch"] == 1


@pytest.mark.soak
@pytest.mark.spark
def test_two_five_three_partitions_on_spark(spark: SparkSession, capsys: Any) -> None:
    seen: list[tuple[int, int]] = []
    with counting(seen).start(spark, name="wc") as running:
        check_rebalanced(running, seen, capsys, 1)


def test_an_inactive_topology_is_inactive_after_a_rebalance() -> None:
    seen: list[tuple[int, int]] = []
    with start_local(counting(seen), name="still", active=False) as running:
        running.rebalance({"words/1": 4})
        time.sleep(0.2)  # in which an active one commits dozens of batches
        assert running.condition == "INACTIVE" and seen == []
        running.activate()
        wait_until(lambda: len(seen) > 2)
    assert {count for _, count in seen} == {4}


def test_a_start_takes_other_numbers_than_the_programs() -> None:
    seen: list[tuple[int, int]] = []
    with start_local(counting(seen), name="wc", parallelismHints={"words": 3}) as running:
        assert running.parallelismHints == {"words/1": 3}
        wait_until(lambda: len(seen) > 2)
    assert {count for _, count in seen} == {3}


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        ({"word": 2}, r"no batch group has a parallelismHint 'word'; did you mean 'words'\?; there are words/1"),
        (
            {"words": 0},
            "'words': 0: expected a step's name and a whole number of at least 1, {'words': 4} in Python, words=4 in a",
        ),
        ({"words": True}, "'words': True: expected"),
        ([("words", 2)], "expected a dict"),
    ],
)
def test_wrong_hints_are_refused_and_the_run_goes_on(hints: Any, message: str) -> None:
    seen: list[tuple[int, int]] = []
    with start_local(counting(seen), name="wrong") as running:
        with pytest.raises(TopologyError, match=message):
            running.rebalance(hints)
        wait_until(lambda: running.asOfTxid["lines"] > 1)
    with pytest.raises(TopologyError, match=message):
        start_local(counting(seen), name="wrong", parallelismHints=hints)


def test_what_does_not_commit_in_time_leaves_everything_as_it_was() -> None:
    gate, seen = threading.Event(), list[tuple[int, int]]()
    with start_local(counting(seen, lambda word: word if gate.wait(20) else word), name="slow") as running:
        wait_until(lambda: running.status["groups"]["lines"]["inFlight"])
        waiting = threading.Thread(target=running.rebalance, args=({"words": 5}, 20))
        waiting.start()
        wait_until(lambda: running.condition == "REBALANCING")
        for call in (running.activate, running.deactivate, lambda: running.rebalance({"words": 3})):
            with pytest.raises(TopologyConditionError, match="'slow' is REBALANCING"):
                call()
        gate.set()
        waiting.join(20)
        assert running.parallelismHints == {"words/1": 5}
        gate.clear()
        wait_until(lambda: running.status["groups"]["lines"]["inFlight"])
        with pytest.raises(TimeoutError, match="'slow' did not commit its planned batches within 0.1 s"):
            running.rebalance({"words": 3}, timeout=0.1)
        assert running.parallelismHints == {"words/1": 5} and running.condition == "ACTIVE"
        gate.set()
        before = running.asOfTxid["lines"]
        wait_until(lambda: running.asOfTxid["lines"] > before + 2)
        running.deactivate(wait=10)
        txids = [txid for txid, _ in seen]
        assert txids == list(range(1, running.asOfTxid["lines"] + 1))
        assert sum(running.state("counts").values()) == ROWS * len(txids)


def test_a_rebalance_that_meets_a_stop_says_that_the_run_is_stopping() -> None:
    gate, errors = threading.Event(), list[str]()
    running = start_local(counting([], lambda word: word if gate.wait(20) else word), name="ends")

    def rebalance() -> None:
        with pytest.raises(TopologyConditionError) as raised:
            running.rebalance({"words": 5}, 20)
        errors.append(str(raised.value))

    wait_until(lambda: running.status["groups"]["lines"]["inFlight"])
    calls = [threading.Thread(target=rebalance), threading.Thread(target=running.stop)]
    calls[0].start()
    wait_until(lambda: running.condition == "REBALANCING")
    calls[1].start()
    wait_until(lambda: running._stop_asked)
    gate.set()
    for call in calls:
        call.join(20)
    assert errors == ["cannot rebalance topology 'ends': it is stopping; start it first"]


def test_a_rebalance_in_the_middle_of_a_wait_does_not_end_it() -> None:
    """processAllAvailable is for the sources' rest, and a rebalance is none."""
    topology = TridentTopology()
    fed = itertools.chain([["a"], ["b"]])
    gate = threading.Event()

    def rows(position: int | None, limit: int) -> tuple[list[str], int]:
        found = next(fed, [])
        return found, (position or 0) + len(found)

    words = topology.newStream("words", PollingSpout("word string", {"words": rows}))
    held = words.map("word", lambda word: word if gate.wait(20) else word, "word string").parallelismHint(2)
    held.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with start_local(topology, name="fed") as running:
        wait_until(lambda: running.status["groups"]["words"]["inFlight"])
        threading.Timer(0.1, lambda: running.rebalance({"words": 3})).start()
        threading.Timer(0.3, gate.set).start()
        running.processAllAvailable(timeout=10)
        assert dict(running.state("counts").items()) == {"a": 1, "b": 1}


def windows(partitions: int | None, source: Any, out: list[int], state: Any = None) -> TridentTopology:
    """Put four tuples of a partition into a window; `out` gets the tuples of each window that is complete."""
    topology = TridentTopology()
    numbers = topology.newStream("numbers", source)
    numbers = numbers if partitions is None else numbers.parallelismHint(partitions)
    held = state or MemoryMapState.opaque()
    fours = numbers.window(TumblingCountWindow(4), held, "n", CollectList(), "ns", name="fours")
    fours.foreachArrow(lambda table, txid, attempt: out.extend(n for ns in table["ns"].to_pylist() for n in ns))
    return topology


def test_a_rebalance_tells_of_tuples_that_wait_in_partitions_that_are_gone() -> None:
    out: list[int] = []
    source = TestSource("n long", [list(range(6)), PAUSE, list(range(6, 10))])
    with start_local(windows(4, source, out)) as running:
        running.processAllAvailable(20)
        with pytest.warns(RuntimeWarning, match=r"state 'fours': .* 2 of its tuples .* the step now has 2"):
            running.rebalance({"numbers": 2})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            running.rebalance({"numbers": 8})
        running.rebalance({"numbers": 4})
        source.resume()
        running.processAllAvailable(20)
    assert out == [], "no partition has a fourth tuple"


def test_a_start_with_fewer_partitions_tells_of_tuples_that_wait(tmp_path: Path) -> None:
    out: list[int] = []
    batches = [list(range(6)), list(range(6, 20)), list(range(20, 44))]
    for partitions, count, waiting in [(4, 1, None), (None, 2, 4), (4, 3, None)]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with start_local(
                windows(partitions, FixedBatchSpout("n long", batches[:count]), out), checkpointLocation=tmp_path
            ) as running:
                running.processAllAvailable(20)
        told = [str(warning.message) for warning in seen if "'fours'" in str(warning.message)]
        assert bool(told) == (waiting is not None)
        assert waiting is None or f"and {waiting} of its tuples wait in partitions that no longer exist" in told[0]
    assert len(out) == len(set(out)) and set(range(6)) < set(out), "those that waited came into windows later"


class PlainMap:
    """A map without a list of its keys."""

    def __init__(self, identity: Any) -> None:
        self.values: dict[bytes, bytes] = {}

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        return [self.values.get(key) for key in keys]

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        self.values.update(zip(keys, values, strict=True))


def test_a_state_that_cannot_be_scanned_keeps_no_run_from_starting(tmp_path: Path) -> None:
    out: list[int] = []
    source = FixedBatchSpout("n long", [list(range(9))])
    topology = windows(2, source, out, BackingMapState.opaque(PlainMap))
    with start_local(topology, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(20)
        running.rebalance({"numbers": 1})
    assert sorted(out) == list(range(8))
