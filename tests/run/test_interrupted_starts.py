"""An interrupt (Ctrl-C, a notebook's Stop) at any step of a start leaves nothing behind: no name, lease or folder."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trident
from trident import Count, TridentTopology
from trident.log.sqlite_log import SqliteLog
from trident.run import registry, sigterm, standby, start
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def counting() -> TridentTopology:
    topology = TridentTopology()
    keys = topology.newStream("keys", FixedBatchSpout("k long", [[1]])).groupBy("k")
    keys.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def before(_: Callable[..., Any]) -> Callable[..., Any]:
    def interrupted(*given: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    return interrupted


def after(work: Callable[..., Any]) -> Callable[..., Any]:
    def interrupted(*given: Any, **named: Any) -> Any:
        work(*given, **named)
        raise KeyboardInterrupt

    return interrupted


STEPS: list[tuple[Any, str]] = [
    (registry, "reserve"),
    (tempfile, "mkdtemp"),
    (standby.Standby, "__init__"),
    (registry, "enter"),
    (sigterm, "watch"),
    (start, "open_log"),
    (start, "check_own_folder"),
    (start, "_begin"),
    (start, "open_statics"),
    (start, "_outlets"),
    (start, "_record"),
    (RunningTopology, "__init__"),
]


@pytest.mark.parametrize("when", [before, after])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[step for _, step in STEPS])
@pytest.mark.parametrize("stands_by", [False, True])
def test_a_start_that_is_interrupted_gives_back_what_it_took(
    owner: Any, step: str, when: Any, stands_by: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = tmp_path / "temporary"
    folders.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    by_standby = {"standby": True, "checkpointLocation": tmp_path / "checkpoint", "leaseSecs": 1}
    options: dict[str, Any] = by_standby if stands_by else {}
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, when(getattr(owner, step)))
        try:
            start_local(counting(), name="again", **options).stop()
        except KeyboardInterrupt:
            assert trident.active() == [] and trident.standbys() == []
    if step != "mkdtemp":  # after it, and before its name is known
        assert list(folders.iterdir()) == []
    log_file = tmp_path / "checkpoint" / "again" / "log.sqlite"
    if log_file.exists() and step != "_begin":  # a lease that was taken a moment ago
        log = SqliteLog(log_file, "again", reading=True)
        lease = log.lease()
        assert lease is None or not lease.token, "the next start does not take this driver for one that died"
    with start_local(counting(), name="again", **options) as running:
        running.processAllAvailable(timeout=30)
