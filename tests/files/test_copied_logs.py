"""A checkpoint whose files lie on an object store, and a copy of it: the second driver is told, and deletes nothing."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.objects import Objects
from trident import Count, TridentTopology
from trident.errors import FencedError, LogMismatchError
from trident.run import registry
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


def counting() -> tuple[TridentTopology, FeederBatchSpout]:
    topology, feeder = TridentTopology(), FeederBatchSpout("word string")
    topology.newStream("words", feeder).groupBy("word").persistentAggregate(
        MemoryMapState.opaque(), Count(), "count", name="counts"
    )
    return topology, feeder


def feed(objects: Objects, folder: Path, *words: str) -> dict[Any, Any]:
    topology, feeder = counting()
    with start_local(topology, name="t", checkpointLocation=folder, **objects.options) as running:
        for word in words:
            feeder.feed([(word,)], wait=True, timeout=30)
        return dict(running.state("counts").items())


@pytest.mark.usefixtures("in_files")
def test_of_two_copies_the_one_that_comes_second_is_refused_and_deletes_nothing(
    objects: Objects, tmp_path: Path
) -> None:
    feed(objects, tmp_path / "first", "a")
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    assert feed(objects, tmp_path / "first", "b") == {"a": 1, "b": 1}
    before = objects.names()
    for _ in range(2):
        with pytest.raises(LogMismatchError, match="was taken by a driver of epoch 2 that the log .* did not start"):
            feed(objects, tmp_path / "copy", "c")
    with pytest.raises(LogMismatchError, match="a copy of it was started elsewhere"):
        counting()[0].reset("t", tmp_path / "copy", **objects.options)
    assert objects.names() == before
    assert feed(objects, tmp_path / "first", "b") == {"a": 1, "b": 2}


@pytest.mark.usefixtures("in_files")
def test_a_driver_beside_which_a_copy_was_started_freezes_nothing_more(objects: Objects, tmp_path: Path) -> None:
    topology, feeder = counting()
    running = start_local(topology, name="t", checkpointLocation=tmp_path / "first", **objects.options)
    feeder.feed([("a",)], wait=True, timeout=30)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    registry.release("t", running)  # as if it ran on another machine
    feed(objects, tmp_path / "copy", "c")
    feeder.feed([("b",)])
    with pytest.raises(FencedError, match="a copy of the log was started elsewhere"):
        running.awaitTermination(timeout=30)
