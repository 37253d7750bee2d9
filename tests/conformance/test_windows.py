"""Windows, over batches and restarts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kit import Case, Seen, conforms, raises
from tests.support.wall import Wall
from trident import SlidingCountWindow, SlidingDurationWindow, Stream, TridentTopology, TumblingCountWindow
from trident.base.errors import TopologyError
from trident.spouts import FeederBatchSpout
from trident.testing.local import start_local

Make = Callable[[Stream], Stream]


class Strung:
    """An aggregator that strings letters together."""

    outputType = "string"

    def init(self, batchId: Any, collector: Any) -> list[str]:
        return []

    def aggregate(self, state: list[str], tuple: Any, collector: Any) -> None:
        state.append(tuple[0])

    def complete(self, state: list[str], collector: Any) -> None:
        collector.emit(["".join(state)])


class Listed(Strung):
    """The same of numbers."""

    outputType = "array<long>"

    def complete(self, state: list[Any], collector: Any) -> None:
        collector.emit([state])


def strung(config: Any) -> Make:
    return lambda letters: letters.window(config, "c", Strung(), "strung", name="windows")


def leaving(
    make: Make,
    fields: str,
    batches: Sequence[Any],
    checkpoint: Path,
    restarts: bool = False,
    wall: Wall | None = None,
    times: Sequence[int] = (),
) -> list[list[list[Any]]]:
    """What leaves the windows with each batch. `restarts`: a driver a batch. `times`: when each comes, in ms."""
    found: list[list[list[Any]]] = []
    wall = Wall(900_000.0) if wall is None else wall  # where a window of 300 ms begins
    began = wall.now
    for part in [[at] for at in range(len(batches))] if restarts else [range(len(batches))]:
        topology, seen, feeder = TridentTopology(), Seen(), FeederBatchSpout(fields)
        seen.watch(make(topology.newStream("s", feeder)))
        with start_local(topology, name="conformance", checkpointLocation=checkpoint, clock=wall) as running:
            for at in part:
                if times:
                    wall.advance(began + times[at] / 1000 - wall.now)
                feeder.feed(batches[at], wait=True, timeout=20)
                found.append([list(row) for rows in seen.batches for row in rows])
                seen.batches.clear()
            running.processAllAvailable(timeout=20)
    return found


def check(case: Case, make: Make, checkpoint: Path) -> None:
    """In one run, and with a restart after every batch."""
    expected = list(case.expected["emits"].values())
    for restarts in (False, True):
        assert leaving(make, "c string", case.rows(), checkpoint / str(restarts), restarts) == expected


@conforms("win-tumbling-count")
def test_windows_span_batches_and_leave_with_the_one_that_fills_them(case: Case, tmp_path: Path) -> None:
    check(case, strung(TumblingCountWindow(3)), tmp_path)


@conforms("win-sliding-count")
def test_a_sliding_window_fires_from_the_start(case: Case, tmp_path: Path) -> None:
    check(case, strung(SlidingCountWindow(5, 2)), tmp_path)


@conforms("win-per-partition")
def test_each_partition_has_its_window(case: Case, tmp_path: Path) -> None:
    batches = [[(at, *row) for at, part in enumerate(parts) for row in part] for parts in case.partitions()]

    def make(letters: Stream) -> Stream:
        lie = letters.partition("p", lambda p, count: p).parallelismHint(2)
        return lie.window(TumblingCountWindow(2), "c", Strung(), "strung", name="windows")

    expected = [[*parts["0"], *parts["1"]] for parts in case.expected["emits_per_partition"].values()]
    for restarts in (False, True):
        assert leaving(make, "p int, c string", batches, tmp_path / str(restarts), restarts) == expected


@conforms("win-slide-greater-than-length", differs=True)
def test_a_window_that_skips_tuples_or_has_none_is_refused(case: Case) -> None:
    with raises(case, TopologyError, r"slide 5 is more than length 3"):
        SlidingCountWindow(3, 5)
    with raises(case, TopologyError, r"slide 5 seconds is more than length 3 seconds"):
        SlidingDurationWindow("3 seconds", "5 seconds")
    assert case.expected["not_checked"] == "length 0 is accepted"
    with raises(case, TopologyError, r"length"):
        TumblingCountWindow(0)


@conforms("win-duration-tumbling", differs=True)
@pytest.mark.parametrize("restarts", [False, True], ids=["one run", "restarts"])
def test_a_window_by_time_leaves_with_the_first_batch_after_it(case: Case, restarts: bool, tmp_path: Path) -> None:
    """By the time at which the batch was planned, which is logged: the same windows at every replay."""

    def make(numbers: Stream) -> Stream:
        return numbers.tumblingWindow("300 milliseconds", "n", Listed(), "ns", name="windows")

    times = [batch["at_ms"] for batch in case.batches]
    found = leaving(make, "n long", case.rows(), tmp_path, restarts, Wall(900_000.0), times)
    assert [[ns for (ns,) in rows] for rows in found] == case.expected["emits"]


@conforms("win-store-restart")
def test_what_waits_is_there_after_a_restart_and_what_left_is_not(case: Case, tmp_path: Path) -> None:
    make = strung(TumblingCountWindow(3))
    assert leaving(make, "c string", [["e", "f", "g"]], tmp_path) == [[["efg"]]]
    assert leaving(make, "c string", case.rows(), tmp_path, restarts=True) == list(case.expected["emits"].values())
