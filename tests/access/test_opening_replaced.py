"""States in memory whose batches bring whole values are opened after a kill, without the code that made the values."""

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import fixed
from tests.compiler.window_runner import at
from trident import (
    Average,
    Count,
    SessionWindow,
    Sum,
    TridentTopology,
    TumblingCountWindow,
    TumblingEventTimeWindow,
    openState,
)
from trident.errors import StateShapeError
from trident.state import MemoryMapState
from trident.testing.local import start_local

ROWS = [[("a", 1, at(1)), ("b", 2, at(2))], [("a", 6, at(3))], [("b", 4, at(30))]]


class Longest:
    """A reducer, which a reader does not have."""

    outputType = "long"

    def init(self) -> int:
        return 0

    def reduce(self, most: int, tuple: Any) -> int:
        return max(most, int(tuple[0]))


def topology() -> TridentTopology:
    made = TridentTopology()
    stream: Any = made.newStream("s", fixed(*ROWS, fields="k string, n long, at timestamp"))
    other = made.newStream("o", fixed(*ROWS, fields="k string, n long, at timestamp"))
    keyed, minutes = stream.groupBy("k"), TumblingEventTimeWindow(600, "at")
    keyed.window(minutes, "n", Sum(), "x", name="sums")
    keyed.window(minutes, "n", Average(), "x", name="averages")
    keyed.window(minutes, {"n": Count(), "mean": ("n", Average())}, name="several")
    keyed.window(SessionWindow(600, "at"), "n", Average(), "x", name="sessions")
    keyed.window(TumblingCountWindow(2), "n", Average(), "x", name="counted")
    keyed.persistentAggregate(MemoryMapState.opaque(), "n", Longest(), "x", name="reduced")
    stream.dropDuplicates("k", MemoryMapState.opaque(), name="distinct")
    stream.dropDuplicates("k", MemoryMapState.opaque(), timestampField="at", within=60, name="distinct_by_time")
    stream.toTable("k", MemoryMapState.opaque(), name="table")
    stream.intervalJoin(
        other, "k", (0, 60), timestampField="at", outputFields=["k", "n", "at", "m", "then"], name="joined"
    )
    return made


STATES = [
    *("sums", "sums.watermark", "averages", "several", "sessions", "counted", "reduced", "distinct"),
    *("distinct_by_time", "distinct_by_time.watermark", "table", "joined", "joined.left.watermark"),
]


def _killed(folder: str, results: Any) -> None:
    running = start_local(topology(), name="wc", checkpointLocation=folder)
    running.processAllAvailable(timeout=60)
    results.put({state: dict(running.state(state).items()) for state in STATES})
    results.close()
    results.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return the checkpoint of a driver that was killed before a snapshot, and what its states showed."""
    folder, spawn = tmp_path_factory.mktemp("killed"), multiprocessing.get_context("spawn")
    results: Any = spawn.Queue()
    process = spawn.Process(target=_killed, args=(str(folder), results))
    process.start()
    shown = results.get(timeout=90)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    return folder, shown


@pytest.mark.parametrize("state", STATES)
def test_it_shows_what_the_driver_showed(killed: tuple[Path, dict[str, Any]], state: str) -> None:
    folder, shown = killed
    with openState("wc", state, folder) as opened:
        assert dict(opened.items()) == shown[state]
        assert opened.asOfTxid == 3 and len(opened) > 0


def test_the_aggregator_of_a_window_may_be_given(killed: tuple[Path, dict[str, Any]]) -> None:
    folder, shown = killed
    for state, aggregator in (
        ("sums", Sum()),
        ("averages", Average()),
        ("sessions", Average()),
        ("several", {"n": Count(), "mean": Average()}),
    ):
        with openState("wc", state, folder, aggregator=aggregator) as opened:
            assert dict(opened.items()) == shown[state]
    with pytest.raises(
        StateShapeError, match=r"was written with the aggregator Sum in TumblingEventTimeWindow\(.*, not with Count"
    ):
        openState("wc", "sums", folder, aggregator=Count())
