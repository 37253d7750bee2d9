"""The page of faults names tests that exist, and every row has one or says why it needs none."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
_TEST = re.compile(r"`((?:tests|trident/testing)/[\w/]+\.py)::(\w+)`")


@cache
def _names_in(path: str) -> set[str]:
    """The test functions of a file, those in its classes too."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def rows() -> list[list[str]]:
    lines = [
        line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| fault ", "| case "))
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_test_that_the_page_names_exists() -> None:
    named = _TEST.findall(PAGE)
    assert len(named) > 80
    assert [f"{path}::{name}" for path, name in named if name not in _names_in(path)] == []


def test_every_fault_has_a_test_or_a_reason_why_it_cannot_matter() -> None:
    assert len(rows()) == 42 + 21
    for fault, outcome, shown in rows():
        assert outcome, fault
        assert _TEST.search(shown) or outcome.startswith("cannot matter: "), fault
        assert PAGE.count(f"| {fault} |") == 1


def test_all_of_the_subtle_cases_are_there_in_their_order() -> None:
    numbers = [int(fault.partition(".")[0]) for fault, *_ in rows() if fault[0].isdigit()]
    assert numbers == list(range(1, 22))
