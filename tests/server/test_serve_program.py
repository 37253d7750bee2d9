"""``trident serve``: processes that answer without the driver, while it comes and goes."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server.counting import counting
from tests.support.waiting import wait_until
from trident import DRPCClient
from trident.errors import TridentError

ROOT = Path(__file__).parents[2]
PROGRAM = "from tests.server.counting import counting\ntopology, feeder = counting()\n"


def address_of(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Return the address that a server has written into its log."""
    wait_until(lambda: process.poll() is not None or "http://" in log.read_text(), 60)
    found = re.search(r"http://\S+", log.read_text())
    assert found is not None, log.read_text()
    return found[0]


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve the program in `folder` by a process of its own, and yield its address and the process."""
    (folder / "served_counting.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "trident", "serve", "served_counting:topology", "--name", "wc"]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "state"), str(ROOT / "spouts"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [*command, "--checkpoint", str(folder / "checkpoint"), "--port", "0", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line + process.stderr.read()
        yield found[0], process
    finally:
        process.kill()
        process.wait()


def run(folder: Path, *words: str) -> None:
    """Count some words by a driver that then stops."""
    topology, feeder = counting()
    with topology.start(engine="embedded", name="wc", checkpointLocation=folder / "checkpoint") as running:
        feeder.feed([(word,) for word in words])
        running.processAllAvailable()


def test_answers_go_on_while_the_driver_stops_and_starts_again(tmp_path: Path) -> None:
    run(tmp_path, "dog", "cat")
    with served(tmp_path, "--workers", "2") as (url, process), DRPCClient(url) as client:
        assert client.execute("count", "dog") == [("dog", 1)]
        run(tmp_path, "dog")
        wait_until(lambda: client.execute("count", "dog") == [("dog", 2)])
        assert [client.get("counts", "dog") for _ in range(20)] == [2] * 20
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        with pytest.raises(TridentError, match="does not answer"):
            client.execute("count", "dog", timeout=0.5)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("served_counting", "expected module:topology"),
        ("no_such_module:topology", "there is no module 'no_such_module'"),
        ("served_counting:nothing", "has no 'nothing'"),
        ("served_counting:topolgy", "has no 'topolgy'; did you mean 'topology'?"),
        ("served_counting:feeder", "is a FeederBatchSpout"),
    ],
)
def test_a_program_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, message: str
) -> None:
    from click.testing import CliRunner

    from trident.cli.main import main

    (tmp_path / "served_counting.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    told = CliRunner().invoke(main, ["serve", program, "--port", "0"])
    assert told.exit_code in (1, 2)
    assert message in told.output


@pytest.mark.parametrize("asked", [True, False])
def test_a_line_for_each_request_is_logged_where_that_is_asked_for(tmp_path: Path, asked: bool) -> None:
    run(tmp_path, "dog")
    with served(tmp_path, *(["--audit"] if asked else [])) as (url, process), DRPCClient(url) as client:
        assert client.execute("count", "dog") == [("dog", 1)]
    assert process.stderr is not None
    assert ("127.0.0.1 POST /drpc/count: 200 in" in process.stderr.read()) is asked
