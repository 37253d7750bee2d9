"""The tests that `make test` leaves out exist, and so do the cheaper tests that stay for them."""

import pytest

from tests.faults.guard_list import GUARDS, Guard
from tests.house.sources import ROOT
from tests.support.left_out import LEFT_OUT, LeftOut, left_out


@pytest.mark.parametrize("row", LEFT_OUT, ids=lambda row: row.why)
def test_a_row_names_tests_that_are_there(row: LeftOut) -> None:
    assert row.stays or row.one_in > 1, "a cheaper form stays"
    for named in (*row.tests, *row.stays):
        file, _, test = named.partition("::")
        assert list(ROOT.glob(f"{file}*")), named
        first = test.partition("::")[0]  # a class may inherit its tests
        kind = "class" if first.startswith("Test") else "def"
        assert not first or f"{kind} {first}" in (ROOT / file).read_text(encoding="utf-8"), named


@pytest.mark.parametrize("row", LEFT_OUT, ids=lambda row: row.why)
def test_what_stays_is_left_out_by_no_other_row(row: LeftOut) -> None:
    assert not [
        (stays, other.why) for stays in row.stays for other in LEFT_OUT if not other.one_in and other.has(stays)
    ]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_each_guard_of_exactly_once_keeps_a_test(guard: Guard) -> None:
    file = guard.tests.split()[0]
    for row in LEFT_OUT:
        if not row.one_in and row.has(f"{file}::"):
            assert any(stays.startswith(f"{file}::") for stays in row.stays), row.why


def test_of_many_cases_some_stay() -> None:
    rows = [LeftOut("all", ("tests/a.py",), ("tests/a.py::test_b",)), LeftOut("many", ("tests/c.py",), one_in=3)]
    cases = [f"tests/c.py::test_{name}[{n}]" for name in "xy" for n in range(5)]
    left = [test for test, _ in left_out(["tests/a.py::test_a", "tests/a.py::test_b", *cases], rows)]
    assert left == ["tests/a.py::test_a", *(f"tests/c.py::test_{name}[{n}]" for name in "xy" for n in (1, 2, 4))]
