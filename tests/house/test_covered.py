"""The tests of which CI runs some cases exist, and the cases that run have all values, or all pairs of values."""

from collections.abc import Mapping
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import pytest

from tests.house.sources import ROOT
from tests.support.covered import COVERED, Covered, covering, leave_covered


@pytest.mark.parametrize("row", COVERED, ids=lambda row: row.why)
def test_a_row_names_tests_that_are_there(row: Covered) -> None:
    for named in row.tests:
        file, *within = named.split("::")
        assert len(within) in (1, 2), f"{named}: name a test of a file, or of one of its classes"
        kind = "def" if len(within) == 1 else "class"  # a class may inherit its tests
        assert f"{kind} {within[0]}" in (ROOT / file).read_text(encoding="utf-8"), named


def cases(**values: int) -> list[Mapping[str, int]]:
    """Return all cases of parameters with so many values each, in the order of pytest."""
    return [dict(zip(values, case, strict=True)) for case in product(*map(range, values.values()))]


@pytest.mark.parametrize("strength", [1, 2])
def test_all_values_or_all_pairs_of_values_meet_in_few_cases(strength: int) -> None:
    every = cases(a=3, b=2, c=4, d=2)
    some = [every[at] for at in covering(every, strength)]
    for names in combinations("abcd", strength):
        met = {tuple(case[name] for name in names) for case in some}
        assert met == {tuple(case[name] for name in names) for case in every}
    assert len(some) == 4 if strength == 1 else len(some) <= 14
    assert len({case["b"] for case in some[:2]}) == 2, "the values of each parameter come in turn"


def test_parameters_that_depend_on_each_other_stay_together() -> None:
    """Those of one `parametrize` have the same places, so that no pair is asked for that no case has."""
    some = covering([{"a": n, "b": n, "c": n % 2} for n in range(5)], 1)
    assert some == [0, 1, 2, 3, 4]


def item(name: str, case: Mapping[str, int] | None, soak: bool = False) -> Any:
    marks = ["soak"] if soak else []
    made = SimpleNamespace(nodeid=name, callspec=None if case is None else SimpleNamespace(params=case), marks=marks)
    made.get_closest_marker = lambda kind: kind in marks or None
    made.add_marker = lambda mark: marks.append(mark.name)
    return made


def test_the_other_cases_are_soaks() -> None:
    items = [item(f"tests/a.py::test_a[{n}]", case) for n, case in enumerate(cases(x=2, y=2))]
    others = [item("tests/a.py::test_b", None), item("tests/a.py::test_a[soaked]", {"x": 9, "y": 9}, soak=True)]
    others += [item(f"tests/b.py::test_a[{n}]", case) for n, case in enumerate(cases(x=2, y=2))]
    leave_covered([*items, *others], [Covered("each", 1, ("tests/a.py::test_a",))])
    assert [each.marks for each in items] == [[], ["soak"], ["soak"], []]
    assert [each.marks for each in others] == [[], ["soak"], [], [], [], []]
