"""An output is removed and comes back, while a batch waits of which both programs have frozen a part."""

from pathlib import Path
from typing import Any

import pytest

from trident import Count, DeadLetter, TridentTopology
from trident.base.errors import CodeChangedError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import DriverCrashedError, crash_at
from trident.testing.local import start_local

BATCHES = [["a", "b"], ["a"]]
pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:output 'changed' is in the program again:RuntimeWarning"),
]


class Rows:
    """The number of rows of each batch that an output took."""

    def __init__(self) -> None:
        self.of_batch: dict[int, int] = {}

    def __call__(self, table: Any, txid: int, attempt: int) -> None:
        self.of_batch[txid] = table.num_rows


def counted(batches: list[list[str]], kept: Rows, changed: Rows | None) -> TridentTopology:
    """Count words. `changed` is an output of the second stage, None: the program without it."""
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", batches))
    words.foreachArrow(kept, name="kept")
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    values = counts.newValuesStream(everyChange=True)
    values.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "words", name="byCount")
    if changed is not None:
        values.filter("n", lambda n: n > 0).foreachArrow(changed, name="changed")
    return topology


def run(topology: TridentTopology, folder: Path) -> None:
    with start_local(topology, name="t", checkpointLocation=folder) as running:
        running.processAllAvailable(timeout=20)


def crash(topology: TridentTopology, folder: Path, point: str) -> None:
    with crash_at(point), pytest.raises(DriverCrashedError):
        run(topology, folder)


def test_a_batch_whose_later_stage_was_frozen_without_an_output_is_not_lost_for_it_in_silence(tmp_path: Path) -> None:
    kept, changed = Rows(), Rows()
    crash(counted(BATCHES[:1], kept, changed), tmp_path, "freeze.after")
    crash(counted(BATCHES[:1], kept, None), tmp_path, "commit.stage.frozen")
    with pytest.raises(
        CodeChangedError, match="batch 1 .*without output changed froze its stage 2, .* Start that program once"
    ):
        run(counted(BATCHES[:1], kept, changed), tmp_path)
    run(counted(BATCHES[:1], kept, None), tmp_path)
    run(counted(BATCHES, kept, changed), tmp_path)
    assert (kept.of_batch, changed.of_batch) == ({1: 2, 2: 1}, {2: 1})


@pytest.mark.parametrize(
    ("with_it", "without_it"),
    [("freeze.after", "commit.stage.before"), ("commit.stage.frozen", "commit.states.after")],
    ids=["no program has frozen its stage", "a program with it has frozen its stage"],
)
def test_an_output_comes_back_with_all_rows(with_it: str, without_it: str, tmp_path: Path) -> None:
    """The first drivers have one batch alone, so that none freezes another one before it dies."""
    kept, changed = Rows(), Rows()
    crash(counted(BATCHES[:1], kept, changed), tmp_path, with_it)
    crash(counted(BATCHES[:1], kept, None), tmp_path, without_it)
    run(counted(BATCHES, kept, changed), tmp_path)
    assert changed.of_batch == {1: 2, 2: 1}


def test_dead_letters_that_there_are_none_of_are_not_missed(tmp_path: Path) -> None:
    """A stage without dead letters freezes none, whichever program ran it."""

    def letters(out: Rows) -> TridentTopology:
        topology = TridentTopology()
        words = topology.newStream("words", FixedBatchSpout("word string", BATCHES))
        counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        values = counts.newValuesStream(everyChange=True).each("n", lambda n: 6 // n, "m long", onError=DeadLetter())
        values.foreachArrow(Rows(), name="values")
        values.deadLetters().foreachArrow(out, name="letters")
        return topology

    dead = Rows()
    crash(letters(dead), tmp_path, "commit.stage.frozen")
    run(letters(dead), tmp_path)
    assert set(dead.of_batch.values()) <= {0}
