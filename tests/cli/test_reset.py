"""``trident reset``: asks, drops log and states by the program, and needs --force for what belongs to another log."""

import inspect
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trident import listStates, openState
from trident.cli.main import main

PROGRAM = """
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import SqliteMapState
topology = TridentTopology()
words = topology.newStream("words", FixedBatchSpout("word string", [["dog"]]))
words.groupBy("word").persistentAggregate(SqliteMapState.opaque({file!r}), Count(), "count", name="counts")
"""

Reset = Callable[..., Result]


@pytest.fixture
def reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reset:
    """Run ``trident reset`` of a topology that has committed a batch."""
    module = f"reset_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(PROGRAM.format(file=str(tmp_path / "states.db")))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    apart = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}  # click before 8.2
    runner = CliRunner(**apart)  # type: ignore[arg-type]
    topology = __import__(module).topology
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path / "ck") as running:
        running.processAllAvailable(timeout=20)
    words = [f"{module}:topology", "--name", "wc", "--checkpoint", str(tmp_path / "ck")]
    return lambda *more, **given: runner.invoke(main, ["reset", *words, *more], **given)


def test_it_asks_and_drops_the_log_and_the_states(reset: Reset, tmp_path: Path) -> None:
    declined = reset(input="n\n")
    assert declined.exit_code == 1
    assert "Delete the log and all states of topology 'wc' permanently?" in declined.stderr
    with openState("wc", "counts", tmp_path / "ck") as counts:
        assert counts.get("dog") == 1
    done = reset("--yes")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "reset wc\n"), done.output
    assert listStates(tmp_path / "ck") == []


def test_states_without_their_log_need_force(reset: Reset, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "ck")
    refused = reset("--yes")
    assert refused.exit_code == 1 and "trident: LogError: " in refused.stderr and "force" in refused.stderr
    assert reset("--yes", "--force").stderr == "reset wc\n"


def test_a_state_in_sqlite_is_listed_with_its_place_and_kind(reset: Reset, tmp_path: Path) -> None:
    (listed,) = listStates(tmp_path / "ck")
    assert (listed.place, listed.kind) == (f"SqliteMapState.opaque({str(tmp_path / 'states.db')!r})", "opaque")
