"""No case is left out: each has one test; what differs from Trident has its row in docs/deviations.md."""

import importlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests.conformance.kit import CASES

ROOT = Path(__file__).parents[2]
FILES = sorted(Path(__file__).parent.glob("test_*.py"))
DEVIATIONS = ROOT / "docs" / "deviations.md"


def conforming() -> list[tuple[str, bool]]:
    """The cases that the tests of this folder say they are, and whether they differ from Trident."""
    found: list[tuple[str, bool]] = []
    for file in FILES:
        module: Any = importlib.import_module(f"tests.conformance.{file.stem}")
        found += [each.conforms for each in vars(module).values() if hasattr(each, "conforms")]
    return found


def test_every_case_has_one_test() -> None:
    times = Counter(case for case, _ in conforming())
    assert [case for case, count in times.items() if count > 1] == []
    assert times.keys() == CASES.keys() and len(CASES) == 88


def rows(section: int) -> list[list[str]]:
    """The cells of a section's table: scenarios that differ (0), or accidents (2)."""
    text = DEVIATIONS.read_text(encoding="utf-8").split("\n## ")[section]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"][2:]


def test_every_difference_has_its_row_and_its_reason() -> None:
    told = [case for row in rows(0) for case in re.findall(r"`([a-z0-9-]+)`", row[-1])]
    assert sorted(told) == sorted(case for case, differs in conforming() if differs)
    assert all(len(row) == 5 and all(row) for row in rows(0))


def test_every_accident_of_tridents_that_is_told_has_its_test() -> None:
    tests = {name for file in FILES for name in vars(importlib.import_module(f"tests.conformance.{file.stem}"))}
    told = [row[-1].strip("`") for row in rows(2)]
    assert len(told) > 10 and len(told) == len(set(told)) and [name for name in told if name not in tests] == []
    assert all(len(row) == 4 and all(row) for row in rows(2))


def test_a_case_of_which_trident_says_better_is_told_as_a_difference() -> None:
    differing = {case for case, differs in conforming() if differs}
    assert [case.id for case in CASES.values() if case.ideal is not None and case.id not in differing] == []
