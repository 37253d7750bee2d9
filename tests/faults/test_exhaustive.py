"""Every I/O step of a batch's life fails: a small slice of all cases, another one each day, and in a soak larger ones.

`tests.faults.exhaustive` tells what a case is, and runs everything.
"""

import json
import subprocess
import sys
import time
from math import inf
from pathlib import Path

import pytest

from tests.faults.exhaustive import Column, Loop, Tally, columns, told
from tests.faults.steps import Fault, Steps
from tests.support.soak import Soak

ROOT = Path(__file__).parents[2]
SLICES = 60
PARTS = 14
WORKERS = 2


def test_no_step_that_fails_loses_or_doubles_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    """A part of the columns, and of these a slice: other ones each day."""
    today = int(time.time() // 86400)
    total = _worked(SLICES, today, [f"{today % PARTS}/{PARTS}"])
    with capsys.disabled():
        print(f"\n{told(total, SLICES, today)}", end=" ", flush=True)
    _right(total)
    assert total.run > 0


@pytest.mark.soak(weight=3)
def test_no_step_of_larger_slices_loses_or_doubles_a_record(soak: Soak) -> None:
    """Slice after slice, from the one that the seed chooses; all at once where there is no end."""
    of = 1 if soak.seconds == inf else 4 * SLICES
    for number, _ in zip(range(of), soak.draws(1), strict=False):
        total = _worked(of, soak.seed + number, [f"{n}/{WORKERS}" for n in range(WORKERS)])
        soak.tell(told(total, of, soak.seed + number))
        _right(total)
        assert total.run >= total.cases // of - len(columns())


def _right(total: Tally) -> None:
    assert not total.wrong, "\n".join(total.wrong)
    assert len(total.unmet) <= max(2, total.run // 100), "steps that only some runs make:\n" + "\n".join(total.unmet)


def _worked(of: int, seed: int, shares: list[str]) -> Tally:
    """What these shares of the columns came to, each in a process of its own."""
    began = time.monotonic()
    command = [sys.executable, "-m", "tests.faults.exhaustive", "--json", "--of", str(of), "--seed", str(seed)]
    processes = [
        subprocess.Popen([*command, "--share", share], cwd=ROOT, stdout=subprocess.PIPE, text=True) for share in shares
    ]
    total = Tally()
    for process in processes:
        said, _ = process.communicate()
        found = json.loads(said.strip().splitlines()[-1])
        total += Tally(found["steps"], found["cases"], found["run"], found["unmet"], found["wrong"])
    total.seconds = time.monotonic() - began
    return total


def test_every_combination_that_can_be_has_its_column() -> None:
    found = columns()
    assert len(found) == len(set(found)) == 2 * 3 * 2 * (2 + 2 + 3)  # kinds, shapes, begins; memory, log, server
    assert {(c.site, c.how) for c in found if c.home == "memory"} == {("disk", "exception"), ("disk", "kill")}
    assert {c.how for c in found if c.site == "server"} == {"exception", "kill", "reset"}


class _Scripted:
    """A bench whose runs make a step so many times, and go wrong where a case says so."""

    def __init__(self, count: int, wrong: Fault | None = None) -> None:
        self.count, self.wrong = count, wrong
        self.failed: list[Fault] = []

    def run(self, column: Column, fault: Fault | None) -> Steps:
        steps = Steps(fault)
        for _ in range(self.count):
            if steps.strikes("log: commit of X", parts=3):
                assert fault is not None
                self.failed.append(fault)
        if fault is not None and fault == self.wrong:
            raise AssertionError("one record too many")
        return steps


COLUMN = Column("opaque", "one", "memory", "new", "disk", "exception")


def loop(bench: _Scripted, of: int = 1, seed: int = 0) -> Tally:
    return Loop(bench, COLUMN, of, seed).go()  # type: ignore[arg-type]


def test_the_loop_fails_each_step_in_each_way_and_ends_by_itself() -> None:
    bench = _Scripted(5)
    tally = loop(bench)
    ways = {(fault.mode, fault.part) for fault in bench.failed}
    assert ways == {("before", 0), ("half", 1), ("half", 2), ("applied", 0)}
    assert {(f.occurrence, f.mode, f.part) for f in bench.failed} == {(n, *way) for n in range(1, 6) for way in ways}
    assert (tally.run, tally.unmet, tally.wrong) == (4 * (5 + 1), [], [])


def test_the_slices_together_are_everything() -> None:
    every, slices = _Scripted(5), [_Scripted(5) for _ in range(SLICES)]
    loop(every)
    for seed, bench in enumerate(slices):
        loop(bench, SLICES, seed)
    assert sorted(map(str, every.failed)) == sorted(str(fault) for bench in slices for fault in bench.failed)


def test_a_wrong_count_is_told_with_its_case() -> None:
    tally = loop(_Scripted(5, wrong=Fault("log: commit of X", 2, "half", "exception", 1)))
    assert tally.wrong == [
        "opaque, one, memory, new, disk, exception: log: commit of X #2 half (1) exception: "
        "AssertionError: one record too many"
    ]
