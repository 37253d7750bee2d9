"""``trident run``: what it refuses before it starts anything. ``tests/faults/test_standby.py`` runs it, and ends it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cluster.stored import ROOT
from trident import listStates, openState
from trident.cli.main import main

COUNTED = """
from trident import Count, TridentTopology
from trident.spouts import RateSpout
from trident.state import MemoryMapState

topology = TridentTopology()
ticks = topology.newStream("ticks", RateSpout(rowsPerSecond=1000, rows=3))
ticks.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="ticks")
"""


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["no_such_module:topology"], 1, "there is no module 'no_such_module'"),
        (["tests.faults.standby_program"], 2, "expected module:topology"),
        (["tests.faults.standby_program:topology", "--token", "secret"], 2, "write env:NAME or file:path"),
        (["tests.faults.standby_program:topology", "--engine", "storm"], 2, "'storm' is not one of"),
        (["tests.faults.standby_program:topology", "--insecure"], 2, "are options of --serve: also give --serve"),
        (["tests.faults.standby_program:topology", "--log-prefix", "mine"], 2, "give --log-url, too"),
        (["tests.faults.standby_program:topology", "--profile", "prod"], 1, "profile 'prod': there is no trident.toml"),
        (["tests.faults.standby_program:topology", "--engine", "embedded", "--set", "engine=spark"], 2, "is set twice"),
        (["tests.faults.standby_program:topology", "--set", "checkpointLocation=x"], 2, "checkpointLocation is set tw"),
        (["tests.faults.standby_program:topology", "--set", "maxAttempt=3"], 1, "did you mean 'maxAttempts'?"),
        (
            ["tests.faults.standby_program:topology", "--set", 'parallelismHints={"ticks":4}'],
            1,
            "parallelismHints='{\"ticks\":4}': expected step=number, words=4 or words=4,lines=2",
        ),
        (
            ["tests.faults.standby_program:topology", "--engine", "embedded", "--master", "local[2]"],
            1,
            "engine='embedded' runs without Spark",
        ),
    ],
)
def test_wrong_calls_are_refused(
    tmp_path: Path, options: list[str], code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIDENT_PROFILE", "")  # which --profile sets for its process
    result = CliRunner().invoke(main, ["run", *options, "--checkpoint", str(tmp_path)])
    assert (result.exit_code, message in result.output) == (code, True), result.output
    assert list(tmp_path.iterdir()) == []


def test_any_option_of_a_start_may_be_set(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(COUNTED)
    words = ["run", "counted:topology", "--engine", "embedded", "--name", "t", "--checkpoint", "ck"]
    settings = ["--set", "availableNow=true", "--set", "spouts=ticks.rows=7", "--set", "maxSpoutPending=1"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "state"), str(ROOT / "spouts")])}
    command = [sys.executable, "-m", "trident", *words, *settings]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    with openState("t", "ticks", checkpointLocation=tmp_path / "ck") as state:
        assert state.value == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_each_signal_that_ends_it_gives_the_log_back(tmp_path: Path, number: signal.Signals) -> None:
    words = ["run", "tests.run.sigterm_program:counting", "--engine", "embedded", "--name", "t", "--checkpoint", "ck"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "state"), str(ROOT / "spouts")])}
    command = [sys.executable, "-m", "trident", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True) as driver:
        assert driver.stderr is not None
        assert any("starts on engine" in line for line in driver.stderr), "it ended before"
        driver.send_signal(number)
        try:
            _, errors = driver.communicate(timeout=240)
        finally:
            driver.kill()  # else leaving the block would wait for a driver that does not end
        assert driver.returncode == 0, errors
    (state,) = listStates(tmp_path / "ck")
    assert state.heldByDriver is False


def test_an_unknown_option_may_be_an_argument(tmp_path: Path) -> None:
    for words in (["state", "get", "wc", "counts", "-5"], ["query", "http://127.0.0.1:1", "f", "-5"], ["kill", "-x"]):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 2 and "Write -- before an argument" in result.output, result.output


def test_a_misspelt_option_is_no_argument() -> None:
    result = CliRunner().invoke(main, ["run", "counting:topology", "--nam", "wc"])
    assert result.exit_code == 2 and "before an argument" not in result.output, result.output
    assert re.search("Did you mean '?--name'?", " ".join(result.output.split()))
