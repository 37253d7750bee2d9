"""A stream with `bootstrap` is in the states before the streams that share its batches begin."""

from pathlib import Path
from typing import Any

import pytest

from trident import TridentTopology
from trident.batches.bootstrapping import Bootstrapping
from trident.spouts import Collector, RichSpout
from trident.state import MemoryMapState
from trident.testing import CRASH, END, FAIL, PAUSE, DriverCrashedError, TestOutput, TestSource
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")

CUSTOMER, ORDER = "id long, name string", "no long, id long"
CUSTOMERS = [[(1, "ann"), (4, "dan"), (5, "eve")], [(2, "bob"), (6, "fay")], [(3, "cid"), (7, "gus"), (8, "hal")]]
ORDERS = [[(10, 3)], [(11, 2), (12, 1)], [(13, 3), (14, 8)]]
NAMED = [(10, "cid"), (11, "bob"), (12, "ann"), (13, "cid"), (14, "hal")]


def named(customers: Any, orders: Any, bootstrap: bool = True) -> tuple[TridentTopology, TestOutput]:
    """Return a topology that gives each order the name of its customer, and drops the orders without one."""
    topology, out = TridentTopology(), TestOutput()
    table = topology.newStream("customers", customers, bootstrap=bootstrap).toTable("id", MemoryMapState.opaque())
    topology.newStream("orders", orders).joinTable(table).project("no, name").foreachArrow(out, name="named")
    return topology, out


def rows(out: TestOutput) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, out.rows))


@pytest.mark.parametrize("bootstrap", [True, False])
def test_each_order_finds_its_customer(bootstrap: bool) -> None:
    topology, out = named(TestSource(CUSTOMER, CUSTOMERS), TestSource(ORDER, ORDERS), bootstrap)
    with start_local(topology) as running:
        running.processAllAvailable(timeout=60)
    assert (rows(out) == NAMED) is bootstrap


@pytest.mark.parametrize("ahead", [1, 4])
@pytest.mark.parametrize("customers", ["opaque", "transactional"])
@pytest.mark.parametrize("orders", ["opaque", "transactional"])
def test_failed_batches_get_no_order_ahead_of_its_customer(customers: str, orders: str, ahead: int) -> None:
    """A replay of an opaque spout has fewer tuples, and the rest comes in a later batch."""
    given = TestSource(CUSTOMER, [CUSTOMERS[0], FAIL, CUSTOMERS[1], FAIL, FAIL, CUSTOMERS[2]], customers)
    asked = TestSource(ORDER, [FAIL, ORDERS[0], FAIL, ORDERS[1], ORDERS[2]], orders)
    topology, out = named(given, asked)
    with start_local(topology, maxSpoutPending=ahead) as running:
        running.processAllAvailable(timeout=60)
    assert rows(out) == NAMED


@pytest.mark.parametrize("at", ["plan.made", "emit.before", "freeze.after", "commit.state.after", "success.before"])
@pytest.mark.parametrize("kind", ["opaque", "transactional"])
def test_a_restart_reads_the_table_to_its_end_first(kind: str, at: str, tmp_path: Path) -> None:
    """The customers of the second run are there when its first orders come."""
    given = TestSource(CUSTOMER, [CUSTOMERS[0], END, CRASH.at(at), CUSTOMERS[1], CUSTOMERS[2]], kind)
    asked = TestSource(ORDER, [[(12, 1)], END, [(10, 3)], CRASH.at(at), [(11, 2), (13, 3), (14, 8)]], kind)
    topology, out = named(given, asked)
    for _ in range(5):
        try:
            with start_local(topology, name="t", checkpointLocation=tmp_path, availableNow=True) as running:
                running.awaitTermination(60)
        except DriverCrashedError:
            continue
    assert rows(out) == NAMED


class Slow(RichSpout):
    """A queue that answers late, and has at most two messages under way."""

    outputFields = CUSTOMER
    maxPending = 2

    def __init__(self) -> None:
        self.left = [each for batch in CUSTOMERS for each in batch]
        self.calls = 0

    def waitsFor(self) -> str | None:
        return "its answer" if self.calls < 4 else None

    def nextTuple(self, collector: Collector) -> None:
        self.calls += 1
        if self.left and self.calls > 3:
            collector.emit(self.left[0], messageId=self.left.pop(0)[0])


def test_a_source_that_waits_or_is_at_its_limit_is_not_at_its_end() -> None:
    topology, out = named(Slow(), TestSource(ORDER, ORDERS))
    with start_local(topology) as running:
        running.processAllAvailable(timeout=60)
    assert rows(out) == NAMED


def test_no_run_ends_while_a_stream_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan may read the last committed txid just before a commit changes it."""
    end, looks = Bootstrapping.end, iter(range(100))

    def late(self: Bootstrapping, txid: int, succeeded: int, empty: Any) -> Any:
        return end(self, txid, succeeded if next(looks) > 8 else -1, empty)

    monkeypatch.setattr(Bootstrapping, "end", late)
    topology, out = named(TestSource(CUSTOMER, CUSTOMERS), TestSource(ORDER, ORDERS))
    with start_local(topology, availableNow=True) as running:
        running.awaitTermination(60)
    assert rows(out) == NAMED


def test_the_status_names_the_stream_that_others_wait_for() -> None:
    slow = Slow()
    slow.calls = -(10**9)
    topology, _ = named(slow, TestSource(ORDER, ORDERS))
    expected = "it waits for: stream 'customers': its answer; stream 'orders': the end of customers"
    with start_local(topology) as running, pytest.raises(TimeoutError, match=expected):
        running.processAllAvailable(timeout=0.5)


def test_a_table_that_grows_later_holds_no_order_up() -> None:
    given = TestSource(CUSTOMER, [*CUSTOMERS[:2], PAUSE, CUSTOMERS[2]])
    asked = TestSource(ORDER, [[(11, 2)], PAUSE, [(10, 3)], PAUSE, [(12, 1)]])
    topology, out = named(given, asked)
    with start_local(topology) as running:
        running.processAllAvailable(timeout=60)
        asked.resume()
        running.processAllAvailable(timeout=60)
        given.resume()
        running.processAllAvailable(timeout=60)
        asked.resume()
        running.processAllAvailable(timeout=60)
    assert rows(out) == [(11, "bob"), (12, "ann")]


def test_several_streams_go_first_and_several_wait() -> None:
    topology, out = TridentTopology(), TestOutput()
    early = topology.newStream("early", TestSource(CUSTOMER, CUSTOMERS[:1]), bootstrap=True)
    later = topology.newStream("later", TestSource(CUSTOMER, CUSTOMERS[1:]), bootstrap=True)
    table = topology.merge(early, later).toTable("id", MemoryMapState.opaque())
    for at, batches in enumerate((ORDERS[:1], ORDERS[1:])):
        stream = topology.newStream(f"orders{at}", TestSource(ORDER, batches)).joinTable(table)
        stream.project("no, name").foreachArrow(out, name=f"named{at}")
    with start_local(topology) as running:
        running.processAllAvailable(timeout=60)
    assert sorted(tuple(row) for batch in out.batches for row in batch.rows) == NAMED


def test_bootstrap_without_a_stream_that_waits_warns() -> None:
    topology = TridentTopology()
    topology.newStream("alone", TestSource(CUSTOMER, CUSTOMERS), bootstrap=True).toTable("id", MemoryMapState.opaque())
    place = r"alone/0:newStream\(TestSource\) \(.*test_bootstrapping.py:\d+\)"
    with pytest.warns(RuntimeWarning, match=place + ": bootstrap=True has no effect"), start_local(topology) as running:
        running.processAllAvailable(timeout=60)


def test_explain_says_which_stream_goes_first(capsys: pytest.CaptureFixture[str]) -> None:
    topology, _ = named(TestSource(CUSTOMER, CUSTOMERS), TestSource(ORDER, ORDERS))
    topology.explain()
    kinds = [line.split("  ")[-1].strip() for line in capsys.readouterr().out.splitlines() if "newStream(" in line]
    assert kinds == ["transactional, first to its end", "transactional"]
