"""A submitted topology for tests: a program in a folder of its own, the shell's commands, drivers as processes."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.waiting import wait_until
from trident import openState
from trident.cli.lifecycle import line_of
from trident.cli.main import main
from trident.cluster.stored_topology import Home

ROOT = Path(__file__).parents[2]

PROGRAM = '''
"""A word count whose functions are in a module of their own."""
import time
from trident import Count, TridentTopology
from trident.spouts import PollingSpout
from trident.state import MemoryMapState
from counting.words import shout, words

def topology():
    made = TridentTopology()
    lines = made.newStream("lines", PollingSpout("word string", {"words": words}, maxRows=10))
    shouted = lines.map("word", shout, "word string").name("words").shuffle().parallelismHint(2)
    shouted.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    shouted.foreachArrow(lambda table, txid, attempt: time.sleep(0.02))
    return made
'''

WORDS = """
def words(position, limit):
    first = position or 0
    if first >= LAST:
        return [], first
    return [f"w{n % 7}" for n in range(first, first + limit)], first + limit

def shout(word):
    return word.upper()

LAST = 10**9
"""


@dataclass
class Stored:
    """The home of a topology named wc, and the program from which it is submitted."""

    folder: Path

    @property
    def home(self) -> Home:
        return Home(self.folder / "home")

    @property
    def program(self) -> Path:
        return self.folder / "program"

    @property
    def module(self) -> str:
        """The program's package: another one in each test, since submits in one process share its modules."""
        return f"counting_{self.folder.name}"

    def write(self, last: int | None = None) -> None:
        """Write the program; `last`: after how many words its source has nothing more."""
        package = self.program / self.module
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(PROGRAM.replace("counting", self.module))
        (package / "words.py").write_text(WORDS if last is None else WORDS.replace("10**9", str(last)))

    def shell(self, *words: str, code: int = 0) -> str:
        """Run a command of the shell, and return what it says."""
        ran = CliRunner().invoke(main, [*words, "--home", str(self.home.folder)])
        said = self.home.at("wc").said
        logged = said.read_text()[-3000:] if said.exists() else ""
        assert ran.exit_code == code, f"{ran.exit_code}: {ran.output} {ran.exception!r}\n{logged}"
        return ran.output

    def submit(self, *options: str, code: int = 0) -> str:
        """Submit the program from its folder: on the embedded engine, if nothing else is said."""
        engine = () if "--engine" in options else ("--engine", "embedded")
        with pytest.MonkeyPatch.context() as patched:
            patched.syspath_prepend(str(self.program))
            patched.chdir(self.program)
            return self.shell("submit", f"{self.module}:topology", "--name", "wc", *engine, *options, code=code)

    def resume(self, *options: str) -> "subprocess.Popen[bytes]":
        """Start a driver from what is stored, in another folder than the program's."""
        with (self.folder / "resumed.txt").open("ab") as said:
            command = [sys.executable, "-m", "trident", "resume", "wc", *options, "--home", str(self.home.folder)]
            return subprocess.Popen(command, cwd=self.folder, stdout=said, stderr=said)

    def line(self) -> dict[str, Any]:
        """Return the line of `trident list` about the topology."""
        line: dict[str, Any] = json.loads(json.dumps(line_of(self.home.find("wc"))))
        return line

    def committed(self) -> int:
        report = self.home.at("wc").report()
        return report.committed.get("lines", 0) if report else 0

    def reaches(self, txid: int) -> None:
        wait_until(lambda: self.committed() >= txid, 60)

    def counted(self) -> dict[str, int]:
        """Return the counts of a topology without a driver."""
        with openState("wc", "counts", checkpointLocation=self.home.checkpoints) as state:
            return dict(state.items())

    def end(self) -> None:
        """Kill the driver, if there is one."""
        report = self.home.at("wc").report()
        if report is not None and self.home.at("wc").is_driven():
            os.kill(report.pid, signal.SIGKILL)
            wait_until(lambda: not self.home.at("wc").is_driven())


def expected(words: int) -> dict[str, int]:
    """Return the counts of so many words."""
    return {f"W{n}": len(range(n, words, 7)) for n in range(7) if n < words}
