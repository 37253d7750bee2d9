"""The list of guards fits the sources; a soak takes some of them out and sees that a test notices each."""

import os
import subprocess
import sys
from collections import Counter
from math import inf

import pytest

from tests.faults.guard_list import GUARDS, Guard
from tests.faults.guards import ROOT, mutant
from tests.support.soak import Soak


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_stands_where_the_list_says(guard: Guard) -> None:
    source = (ROOT / guard.file).read_text()
    assert mutant(guard, source) != source
    assert guard.tests.split()[0].startswith("tests/") and (ROOT / guard.tests.split()[0]).exists()


def test_the_page_shows_the_last_run_of_the_whole_list() -> None:
    page = (ROOT / "docs" / "guards.md").read_text(encoding="utf-8")
    rows = [f"| {guard.name} | {guard.prevents} | `{guard.tests}` |" for guard in GUARDS]
    assert [row for row in rows if row not in page] == []
    assert max(Counter(guard.name for guard in GUARDS).values()) == 1


@pytest.mark.soak(weight=2)
def test_some_test_notices_that_a_guard_is_gone(soak: Soak) -> None:
    command = [sys.executable, "-m", "tests.faults.guards", "--seed", str(soak.seed)]
    if soak.seconds < inf:
        command += ["--minutes", str(soak.seconds / 60)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SOAK_")}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    guards = [line.split("|")[1].strip() for line in ran.stdout.splitlines()[2:]]
    soak.tell(f"{len(guards)} of {len(GUARDS)} guards taken out, drawn from seed {soak.seed}: {'; '.join(guards)}")
    assert ran.returncode == 0, ran.stdout + ran.stderr[-3000:]
