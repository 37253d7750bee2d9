"""Folders that a user names. A value that is no path is refused, and does not become a folder elsewhere."""

from pathlib import Path
from typing import Any

import pytest

from trident import Count, TridentTopology, openState
from trident.base.paths import local_path
from trident.errors import TopologyError
from trident.spouts import FixedBatchSpout, RecordedSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


@pytest.mark.parametrize("given", ["", "  ", b"/data", 7, None])
def test_what_is_no_path_is_refused(given: Any) -> None:
    with pytest.raises(TopologyError, match=r"place=.*: expected the path of a folder; for the working dir"):
        local_path("place", given)


def test_a_path_is_a_text_or_a_path_object(tmp_path: Path) -> None:
    assert local_path("place", tmp_path) == local_path("place", str(tmp_path)) == tmp_path
    assert local_path("place", ".") == Path.cwd()


@pytest.mark.parametrize("given", ["", b"ckpt"])
def test_no_log_lands_in_the_working_directory_because_a_variable_is_empty(
    given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["dog"]]))
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="count")
    with pytest.raises(TopologyError, match="checkpointLocation="):
        start_local(topology, checkpointLocation=given)
    with pytest.raises(TopologyError, match="checkpointLocation="):
        openState("topology", "count", given)
    with pytest.raises(TopologyError, match="RecordedSpout: path="):
        RecordedSpout(given)
    with pytest.raises(TopologyError, match="path="):
        words.writeParquet(given)
    monkeypatch.setenv("TRIDENT_START_CHECKPOINT_LOCATION", "")
    with pytest.raises(TopologyError, match="checkpointLocation="):
        topology.start(engine="embedded")
    assert list(tmp_path.iterdir()) == []
